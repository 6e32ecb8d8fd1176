"""Switches read in processes of their own: the same polls, and a process that dies costs one look's time."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from controller.collect.switches import snmp_readers
from controller.site import Endpoint as SiteEndpoint
from controller.site import Snmp2c, Switch
from protos.reading import Framing, Missing
from switch.interpret import Device
from switch.ports import Agent, Poll, PortFault
from switch.recorded import RecordedAgent, RecordedPort, device_rows
from switch.security import Client, Endpoint, InsecureCommunity, Timing
from switch.snmp import SnmpSwitch
from switch.workers import SwitchWorkers, WorkerError

pytestmark = pytest.mark.loopback

S = 1_000_000_000
PUBLIC = InsecureCommunity("public", insecure=True)
PATIENT = Timing(timeout_ns=10 * S, attempts=3, deadline_ns=60 * S)
DEVICE = Device(3 * S, Framing.L2_WITH_FCS)
AHEAD_NS = 1_000 * S
PORTS = (RecordedPort(1, b"eth1", in_octets=2**53 + 1), RecordedPort(2, b"eth2", in_octets=7))


def run(fake_agent: Any, story: Callable[[Any, SwitchWorkers], Awaitable[Any]], processes: int = 1) -> Any:
    async def main() -> Any:
        async with fake_agent(*PORTS) as agent:
            pool = SwitchWorkers(AHEAD_NS, processes)
            try:
                return await story(agent, pool)
            finally:
                await pool.close()

    return asyncio.run(main())


def pid(pool: SwitchWorkers) -> int:
    """The first process; 0 if there is none."""
    process = pool._workers[0]._process
    return process.pid if process is not None else 0


def reader(agent: Any, pool: SwitchWorkers, name: str = "sw1", client: Client = Client.DIRECT) -> Any:
    return pool.connect(name, Endpoint("127.0.0.1", agent.port), PUBLIC, DEVICE, client=client, timing=PATIENT)


@pytest.mark.parametrize("client", list(Client))
def test_a_poll_of_another_process_is_on_the_same_timeline_and_exact(fake_agent: Any, client: Client) -> None:
    async def story(agent: Any, pool: SwitchWorkers) -> tuple[int, Poll, int]:
        before = time.monotonic_ns() + AHEAD_NS
        poll = await reader(agent, pool, client=client).read_ports(["eth1", "eth9"])
        return before, poll, time.monotonic_ns() + AHEAD_NS

    before, poll, after = run(fake_agent, story)
    assert poll.samples[0].switch_in.octets == 2**53 + 1
    assert before <= poll.samples[0].first_sent_ns <= poll.samples[0].received_ns <= after
    assert [(fault.port, fault.reason) for fault in poll.faults] == [("eth9", Missing.ABSENT)]
    assert poll.exchanges
    assert all(exchange.datagram for exchange in poll.exchanges)


def test_two_switches_have_a_process_each_and_one_can_be_discovered(fake_agent: Any) -> None:
    async def story(agent: Any, pool: SwitchWorkers) -> tuple[Any, set[int]]:
        one, other = reader(agent, pool), reader(agent, pool, "sw2")
        found = await asyncio.gather(one.discover(), other.read_ports(["eth2"]), one.read_ports(["eth1"]))
        processes = {worker._process.pid for worker in pool._workers if worker._process is not None}
        await one.close()
        await other.close()
        return found, processes

    (discovery, poll, last), processes = run(fake_agent, story, processes=2)
    assert [entry.port for entry in discovery.poll.ports] == ["eth1", "eth2"]
    assert poll.samples[0].switch_in.octets == 7
    assert last.samples
    assert len(processes) == 2


def test_a_process_that_is_killed_is_started_again_and_the_look_taken_once_more(fake_agent: Any) -> None:
    async def story(agent: Any, pool: SwitchWorkers) -> tuple[Poll, int, int]:
        switch = reader(agent, pool)
        await switch.read_ports(["eth1"])
        first = pid(pool)
        asked = asyncio.Event()

        def silent_once(_request: bytes, answer: bytes) -> list[tuple[float, bytes]]:
            if asked.is_set():
                return [(0, answer)]
            asked.set()
            return []

        agent.bend = silent_once
        look = asyncio.ensure_future(switch.read_ports(["eth1"]))
        await asked.wait()
        os.kill(first, signal.SIGKILL)
        return await look, first, pid(pool)

    poll, first, second = run(fake_agent, story)
    assert poll.samples[0].switch_in.octets == 2**53 + 1
    assert first != second


def test_a_process_that_hangs_is_killed_and_started_again(fake_agent: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(agent: Any, pool: SwitchWorkers) -> tuple[Poll, int, int]:
        switch = reader(agent, pool)
        await switch.read_ports(["eth1"])
        first = pid(pool)
        os.kill(first, signal.SIGSTOP)
        patience = iter([0.5, 60.0])
        monkeypatch.setattr(pool._workers[0], "_patience_s", lambda _name: next(patience))
        return await switch.read_ports(["eth1"]), first, pid(pool)

    poll, first, second = run(fake_agent, story)
    assert poll.samples
    assert first != second


def test_a_process_that_cannot_be_kept_alive_is_our_fault_and_said_so(
    fake_agent: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story(agent: Any, pool: SwitchWorkers) -> None:
        monkeypatch.setattr(sys, "executable", "/bin/false")
        with pytest.raises(WorkerError, match="ended twice"):
            await reader(agent, pool).read_ports(["eth1"])

    run(fake_agent, story)


def test_one_engine_id_in_two_processes_is_refused() -> None:
    """Within a process its client sees that; across processes it is seen here."""

    async def main() -> list[Poll]:
        pool = SwitchWorkers(0, 2)
        readers = [
            pool.connect(name, Endpoint("192.0.2.1"), PUBLIC, DEVICE, client=Client.DIRECT) for name in ("sw1", "sw2")
        ]
        agent = RecordedAgent([*device_rows(100_000), *PORTS[0].rows()], time.monotonic_ns)
        poll = await SnmpSwitch("any", agent, DEVICE, time.monotonic_ns).read_ports(["eth1"])
        found = replace(poll, agent=Agent(engine_id="80001f8804"))
        owned = [readers[0]._own(found), readers[1]._own(found), readers[0]._own(found)]  # type: ignore[attr-defined]
        await readers[0].close()
        owned.append(readers[1]._own(found))  # type: ignore[attr-defined]
        await pool.close()
        return owned

    first, second, again, freed = asyncio.run(main())
    assert first.samples
    assert again.samples
    assert freed.samples
    (fault,) = second.ports
    assert isinstance(fault, PortFault)
    assert fault.reason is Missing.MALFORMED
    assert "sw1" in fault.text


def test_the_site_file_says_how_many_processes_and_which_client(fake_agent: Any, tmp_path: Path) -> None:
    secret = tmp_path / "community"
    secret.write_text("public\n")
    secret.chmod(0o600)

    async def main() -> tuple[Poll, int, int]:
        async with fake_agent(*PORTS) as agent:
            address = SiteEndpoint("127.0.0.1", agent.port)
            switch = Switch("sw1", address, Snmp2c(secret), 3 * S, Framing.L2_WITH_FCS, client=Client.DIRECT)
            async with snmp_readers(lambda: 0, offset_ns=AHEAD_NS, processes=1) as make:
                poll = await make(switch).read_ports(["eth2"])
        return poll, time.monotonic_ns() + AHEAD_NS, len(agent.requests)

    poll, now_ns, requests = asyncio.run(main())
    assert poll.samples[0].switch_in.octets == 7
    assert now_ns - 60 * S < poll.received_ns <= now_ns
    assert requests > 0
