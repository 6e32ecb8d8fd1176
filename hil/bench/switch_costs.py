"""What reading a switch costs, beside other readers of the same agents. Three minutes.

The agents are real snmpds with 512 ports behind SNMPv3 authPriv; costs are CPU seconds, the readers' own. Who is
compared takes turns on one agent, several times, so that what else the machine does falls on each alike.
"""

from __future__ import annotations

import asyncio
import resource
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from hil.bench.figure import Figure, Goal
from hil.bench.switch_agents import Agents, Cost, agents, inside, net_snmp, snmp_exporter
from protos.reading import Framing
from switch.connect import SnmpClients
from switch.interpret import Device
from switch.polling import polls
from switch.ports import Discovery, Poll
from switch.reader import SwitchReader
from switch.security import Client, Timing
from switch.workers import SwitchWorkers

PORTS, WATCHED = 512, 64
INTERVAL_S = 5
ROUNDS, SCRAPES, POLLS, GETS = 4, 4, 4, 10
FLEET, FLEET_POLLS, PROCESSES = 4, 4, 2
_PATIENT = Timing(timeout_ns=10_000_000_000, deadline_ns=60_000_000_000)
"""A look at 512 ports costs snmpd itself seconds, and the bench may have to share its cores."""
_DEVICE = Device(3_500_000_000, Framing.L2_WITHOUT_FCS)
_IFX_TABLE = "1.3.6.1.2.1.31.1.1"
_WATCHED = [f"eth{number}" for number in range(1, WATCHED + 1)]
_EVERY = [f"eth{number}" for number in range(1, PORTS + 1)]


def figures() -> Iterator[Figure]:
    """Yield the figures as they come."""
    with tempfile.TemporaryDirectory() as folder, agents(Path(folder), PORTS, FLEET) as found:
        with inside(found.namespace):
            asyncio.run(_until_all_answer(found))
            for client in Client:
                yield _watched(found, client)
        yield from _beside_others(found)
        with inside(found.namespace):
            for client in Client:
                yield from _fleet(found, client)
            yield from _workers(found)


async def _until_all_answer(found: Agents) -> None:
    clients = SnmpClients(time.monotonic_ns)
    try:
        for number in range(FLEET):
            reader = _reader(clients, found, number, Client.DIRECT)
            ends = time.monotonic() + 60
            while (await reader.read_ports(_EVERY)).faults:
                if time.monotonic() > ends:
                    raise RuntimeError(f"the bench's agent {found.endpoints[number]} does not come up")
    finally:
        await clients.close()


def _reader(clients: SnmpClients, found: Agents, number: int, client: Client) -> SwitchReader:
    endpoint = found.endpoints[number]
    return clients.connect(f"sw{number}", endpoint, found.user, _DEVICE, client=client, timing=_PATIENT)


def _watched(found: Agents, client: Client) -> Figure:
    cost = asyncio.run(_polled(found, client, _WATCHED, ROUNDS * POLLS))
    share = 100 * cost.cpu_s / (ROUNDS * POLLS) / INTERVAL_S
    name = f"switch.poll.{WATCHED}_ports_every_{INTERVAL_S}s.core_percent.{client.value}"
    note = f"SNMPv3 authPriv, {cost.varbinds // (ROUNDS * POLLS)} varbinds a poll, all columns"
    return Figure(name, round(share, 2), "%", 5, Goal.AT_MOST, note)


async def _polled(found: Agents, client: Client, names: Sequence[str], count: int) -> Cost:
    """Return what ``count`` polls cost this process, once names and sizes are known."""
    clients = SnmpClients(time.monotonic_ns)
    try:
        reader = _reader(clients, found, 0, client)
        await reader.read_ports(names)
        began, varbinds = time.process_time(), 0
        for _ in range(count):
            varbinds += _whole(await reader.read_ports(names))
        return Cost(time.process_time() - began, varbinds)
    finally:
        await clients.close()


def _whole(poll: Poll) -> int:
    """Return how many bindings a poll read.

    Raises:
        RuntimeError: not every port was read.
    """
    if poll.faults:
        raise RuntimeError(f"the bench's agent did not answer for {poll.faults[0].port}: {poll.faults[0].text}")
    return sum(len(exchange.varbinds) for exchange in poll.exchanges)


def _beside_others(found: Agents) -> Iterator[Figure]:
    costs: dict[str, list[Cost]] = {}
    for _ in range(ROUNDS):
        for client in Client:
            with inside(found.namespace):
                cost = asyncio.run(_polled(found, client, _EVERY, POLLS))
            costs.setdefault(client.value, []).append(cost)
        exporter = snmp_exporter(found, SCRAPES)
        if exporter is not None:
            costs.setdefault("snmp_exporter", []).append(exporter)
        costs.setdefault("snmpbulkwalk", []).append(net_snmp(found, "snmpbulkwalk", 1, [_IFX_TABLE]))
        costs.setdefault("snmpbulkget", []).append(net_snmp(found, "snmpbulkget", GETS, [_IFX_TABLE]))
    total = {who: Cost(sum(cost.cpu_s for cost in of), sum(cost.varbinds for cost in of)) for who, of in costs.items()}
    notes = {
        "snmp_exporter": "Debian's, the same columns by GETBULK, as metrics",
        "snmpbulkwalk": "ifXTable, one process a walk",
        "snmpbulkget": "one process a message of 25 rows: mostly its start",
    }
    for client in Client:
        polled = total[client.value]
        seconds = polled.cpu_s / (ROUNDS * POLLS)
        yield Figure(f"switch.poll.{PORTS}_ports.cpu_s.{client.value}", round(seconds, 3), "s")
        yield Figure(f"switch.poll.{PORTS}_ports.polls_per_s_and_core.{client.value}", round(1 / seconds, 2), "1/s")
    for who, cost in total.items():
        note = notes.get(who, "GET by instance, SNMPv3 authPriv, samples included")
        yield Figure(f"switch.poll.cpu_us_per_varbind.{who}", round(1e6 / cost.rate, 2), "us", note=note)
    yield from _ratios(total)


def _ratios(total: dict[str, Cost]) -> Iterator[Figure]:
    """Yield rates as shares of snmp_exporter's and of net-snmp's."""
    exporter = total.get("snmp_exporter")
    name = "switch.poll.direct_over_snmp_exporter"
    if exporter is None:
        missing = "Debian's prometheus-snmp-exporter is not installed"
        yield Figure(name, None, "1", 1, Goal.AT_LEAST, missing)
    else:
        yield Figure(
            name,
            round(total["direct"].rate / exporter.rate, 2),
            "1",
            1,
            Goal.AT_LEAST,
            f"varbinds a CPU-second, {ROUNDS} rounds in turn; more is better",
        )
        yield Figure("switch.poll.snmp_exporter_over_pysnmp", round(exporter.rate / total["pysnmp"].rate, 2), "1")
    walk = total["snmpbulkwalk"].rate
    yield Figure("switch.poll.snmpbulkwalk_over_pysnmp", round(walk / total["pysnmp"].rate, 2), "1")
    yield Figure("switch.poll.snmpbulkwalk_over_direct", round(walk / total["direct"].rate, 2), "1")


def _fleet(found: Agents, client: Client) -> Iterator[Figure]:
    share, polled = asyncio.run(_fleet_share(found, client))
    name = f"switch.fleet.{FLEET}_switches_of_{PORTS}_ports_every_{INTERVAL_S}s"
    note = f"{polled} polls, every port read"
    yield Figure(f"{name}.core_percent.{client.value}", round(100 * share, 1), "%", note=note)
    yield Figure(
        f"switch.fleet.switches_of_{PORTS}_ports_a_core.{client.value}",
        round(FLEET / share, 1),
        "1",
        note=f"by that share, polled every {INTERVAL_S} s",
    )


async def _fleet_share(found: Agents, client: Client) -> tuple[float, int]:
    """Return the share of a core that polling the fleet takes, and how many polls there were."""
    clients = SnmpClients(time.monotonic_ns)

    async def one(number: int) -> int:
        reader = _reader(clients, found, number, client)
        count = 0
        async for look in polls(
            reader, _EVERY, interval_ns=INTERVAL_S * 10**9, count=FLEET_POLLS, now_ns=time.monotonic_ns
        ):
            _whole(look.poll if isinstance(look, Discovery) else look)
            count += 1
        return count

    try:
        began, began_cpu = time.monotonic(), time.process_time()
        counts = await asyncio.gather(*(one(number) for number in range(FLEET)))
        # The last poll's interval is still running when it is read: its length counts, its idle rest does not exist.
        lasted = max(time.monotonic() - began, FLEET_POLLS * INTERVAL_S)
        return (time.process_time() - began_cpu) / lasted, sum(counts)
    finally:
        await clients.close()


def _workers(found: Agents) -> Iterator[Figure]:
    """Yield what polling the fleet in other processes leaves to this one."""
    begun = resource.getrusage(resource.RUSAGE_CHILDREN)
    own_s = asyncio.run(_fleet_elsewhere(found))
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)  # of processes that have ended
    theirs_s = ended.ru_utime + ended.ru_stime - begun.ru_utime - begun.ru_stime
    name = f"switch.fleet.{PROCESSES}_processes"
    note = f"of all CPU for {FLEET} x {FLEET_POLLS} polls of {PORTS} ports by pysnmp, the processes' start included"
    yield Figure(f"{name}.share_left_to_the_controller", round(own_s / (own_s + theirs_s), 3), "1", note=note)


async def _fleet_elsewhere(found: Agents) -> float:
    """Return this process's CPU seconds for the fleet's polls."""
    pool = SwitchWorkers(0, PROCESSES)
    try:
        readers = [
            pool.connect(f"sw{number}", endpoint, found.user, _DEVICE, timing=_PATIENT)
            for number, endpoint in enumerate(found.endpoints)
        ]
        began = time.process_time()
        for _ in range(FLEET_POLLS):
            for poll in await asyncio.gather(*(reader.read_ports(_EVERY) for reader in readers)):
                _whole(poll)
        return time.process_time() - began
    finally:
        await pool.close()


if __name__ == "__main__":
    for figure in figures():
        sys.stdout.write(figure.line() + "\n")
