"""A run: what must be right before it begins, what it journals of itself, and that a kill costs nothing."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import signal
import sys
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from controller.collect import run as run_module
from controller.collect.run import run
from controller.collect.runlock import lock_path, only_run
from controller.collect.switches import SwitchCollector
from controller.errors import OperatorError
from controller.journal import Journal, Kind, NewEntry
from controller.journal_log import cosigned_size
from controller.logkeys import make_site_keys
from controller.pki import Role, create_ca, issue_certificate, write_issued, write_new
from controller.site import Site, load
from controller.witness_server import WitnessServer
from controller.witness_store import Witness
from protos.reading import Framing
from switch.interpret import Device
from switch.recorded import RecordedAgent, RecordedPort, device_rows
from switch.snmp import SnmpSwitch

if TYPE_CHECKING:
    from tests.controller.collect.conftest import AgentDouble, Surroundings

pytestmark = pytest.mark.loopback

SITE = """
version: 1
site: demo
controller: {{journal: journal.db, ca: pki/ca.pem, certificate: pki/{certificate}.pem, key: pki/{certificate}.key}}
pods: [{{name: pod-a, nodes: [node1]}}]
nodes:
  - name: node1
    {host}
    dpus:
      - name: node1-dpu0
        agent: "127.0.0.1:{port}"
        uplinks: [{{name: p0, host_port: pf0hpf, host_interface: eth0, line_rate: 10Gbit/s, mtu: 1500}}]
links: [{{name: node1/p0, dpu: node1-dpu0, uplink: p0, switch: sw1, port: eth1}}]
switches:
  - name: sw1
    address: "127.0.0.1:9"
    snmp: {{version: 3, user: w, auth: sha256, auth_key_file: s/auth, privacy: aes128, privacy_key_file: s/priv}}
    refresh: 3.5s
    framing: l2_without_fcs
collection: {{poll_interval: 200ms, scrape_interval: 200ms, clock_interval: 100ms}}
limits: []
"""

MakeSite = Callable[..., Site]


@pytest.fixture
def make_site(tmp_path: Path, pki: Path) -> MakeSite:
    """Write a site's files and load it: ``make_site(port=..., certificate=..., host=...)``."""

    def make(*, port: int = 11, certificate: str = "controller", host: str = "") -> Site:
        secrets = tmp_path / "s"
        secrets.mkdir(exist_ok=True)
        for name in ("auth", "priv"):
            (secrets / name).write_text("a pass phrase of the test\n")
            (secrets / name).chmod(0o600)
        if not (tmp_path / "pki").exists():
            shutil.copytree(pki, tmp_path / "pki")
        path = tmp_path / "site.yaml"
        path.write_text(SITE.format(port=port, certificate=certificate, host=host))
        return load(path)

    return make


def _recorded(_switch: object) -> SnmpSwitch:
    rows = [*device_rows(1000), *RecordedPort(2, b"eth1").rows()]
    agent = RecordedAgent(rows, time.time_ns)
    return SnmpSwitch("sw1", agent, Device(3_500_000_000, Framing.L2_WITHOUT_FCS), time.time_ns)


def _create(site: Site) -> Path:
    path = site.controller.journal
    Journal.create(path, NewEntry(Kind.SITE, site.name, 1, site.content)).close()
    return path


def _run_for(site: Site, seconds: float, said: StringIO | None = None) -> None:
    async def go() -> None:
        stop = asyncio.Event()
        asyncio.get_running_loop().call_later(seconds, stop.set)
        await run(site, site.controller.journal, stop=stop, stream=said or StringIO(), readers=_recorded)

    asyncio.run(go())


def _kinds(path: Path) -> list[Kind]:
    with Journal.open(path, read_only=True) as journal:
        return [entry.kind for entry in journal.entries()]


# ---------------------------------------------------------------- what others see of it


def test_a_run_has_its_checkpoints_cosigned(make_site: MakeSite, tmp_path: Path) -> None:
    site = make_site()
    path = _create(site)
    keys = make_site_keys(path, site.name)
    witness = Witness.make(tmp_path / "witness", "prover.example/witness")
    witness.trust(keys.log.public)
    with WitnessServer(("127.0.0.1", 0), witness) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        url = f"http://127.0.0.1:{server.server_address[1]}"
        named = f"witnesses: [{{key: {witness.key.public.encode()}, url: '{url}'}}]\n"
        site.path.write_text(site.path.read_text() + named)
        said = StringIO()
        _run_for(load(site.path), 0.3, said)
        server.shutdown()
        thread.join()
    assert f"the witness at {url} cosigns" in said.getvalue()
    with Journal.open(path, read_only=True) as journal:
        assert cosigned_size(journal, witness.key.public) == len(journal)
    # Nobody there: said, and no reason to stop.
    _run_for(load(site.path), 0.3, said)
    assert "does not answer at" in said.getvalue()
    assert said.getvalue().endswith("stopped; everything received is in the journal\n")


# ---------------------------------------------------------------- before it begins


def test_an_expired_certificate_is_refused_by_name_and_nothing_is_written(make_site: MakeSite) -> None:
    site = make_site(certificate="short")
    path = _create(site)
    with pytest.raises(OperatorError, match=r"short\.pem: expired at"):
        _run_for(site, 0.1)
    assert _kinds(path) == [Kind.SITE]
    assert not lock_path(path).exists()


def test_a_journal_that_is_not_there_is_refused(make_site: MakeSite) -> None:
    site = make_site()
    with pytest.raises(OperatorError, match="weighbridge init"):
        _run_for(site, 0.1)
    assert not site.controller.journal.exists()


def test_another_sites_journal_is_refused(make_site: MakeSite) -> None:
    site = make_site()
    Journal.create(site.controller.journal, NewEntry(Kind.SITE, "other", 1, b"x")).close()
    with pytest.raises(OperatorError, match="is the journal of site 'other'"):
        _run_for(site, 0.1)
    assert _kinds(site.controller.journal) == [Kind.SITE]


def test_a_second_run_of_one_journal_is_refused(make_site: MakeSite, tmp_path: Path) -> None:
    site = make_site()
    path = _create(site)
    link = tmp_path / "link.db"
    link.symlink_to(path)
    with only_run(link), pytest.raises(OperatorError, match=rf"process {os.getpid()} is collecting"):
        _run_for(site, 0.1)
    assert _kinds(path) == [Kind.SITE]
    with only_run(path):
        pass


# ---------------------------------------------------------------- what it journals


def test_a_run_journals_its_start_and_stop_and_what_it_saw(
    make_site: MakeSite, agent: AgentDouble, surroundings: Surroundings
) -> None:
    async def go() -> Site:
        await agent.start()
        site = make_site(port=agent.port, host='host: {exporter: "http://127.0.0.1:9/metrics"}')
        assert surroundings.journal.path == site.controller.journal
        surroundings.enrol(agent)
        agent.make_frames(20)
        stop = asyncio.Event()
        asyncio.get_running_loop().call_later(2, stop.set)
        try:
            await run(site, site.controller.journal, stop=stop, stream=surroundings.said, readers=_recorded)
        finally:
            await agent.stop()
        return site

    site = asyncio.run(go())
    entries = list(surroundings.journal.entries())
    kinds = [entry.kind for entry in entries]
    assert kinds[:4] == [Kind.ENROLMENT, Kind.TIMELINE, Kind.SITE, Kind.RUN_START]
    assert kinds[-1] is Kind.RUN_STOP
    assert entries[2].body == site.content
    assert surroundings.frames() == agent.frames
    assert kinds.count(Kind.CLOCK) > 5
    assert kinds.count(Kind.POLL) > 3
    assert {entry.source for entry in entries if entry.kind is Kind.ATTEMPT} == {"node1"}
    start, stop = (json.loads(entry.body) for entry in entries if entry.kind in (Kind.RUN_START, Kind.RUN_STOP))
    assert start["run_id"] == stop["run_id"]
    assert (start["reason"], stop["reason"]) == ("started", "stopped")
    assert start["pid"] == os.getpid()
    said = surroundings.said.getvalue().splitlines()
    assert sum(line.startswith("collecting from 1 agent, 1 switch, 1 host exporter into ") for line in said) == 1
    assert said[-1] == "stopped; everything received is in the journal"
    assert len(said) < 12


def test_the_site_file_is_journaled_again_only_when_it_changed(make_site: MakeSite) -> None:
    site = make_site()
    path = _create(site)
    _run_for(site, 0.05)
    assert _kinds(path).count(Kind.SITE) == 1
    changed = make_site(port=12)
    _run_for(changed, 0.05)
    _run_for(changed, 0.05)
    assert _kinds(path).count(Kind.SITE) == 2
    assert _kinds(path).count(Kind.RUN_STOP) == 3


def test_a_collector_that_fails_as_none_should_ends_the_run_and_is_journaled(
    make_site: MakeSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(_: object) -> None:
        await asyncio.sleep(0.05)
        raise RuntimeError("a fault of ours")

    monkeypatch.setattr(SwitchCollector, "run", broken)
    site = make_site()
    path = _create(site)
    with pytest.raises(RuntimeError, match="a fault of ours"):
        _run_for(site, 5)
    with Journal.open(path) as journal:
        last = journal.last(Kind.RUN_STOP)
        assert last is not None
        assert json.loads(last.body)["reason"] == "failed"


# ---------------------------------------------------------------- killed

_PROGRAM = """
import sys
from pathlib import Path
from controller.collect.run import run_until_signalled
from controller.site import load
site = load(Path(sys.argv[1]))
run_until_signalled(site, site.controller.journal)
"""


async def _start(site: Site) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        sys.executable, "-c", _PROGRAM, str(site.path), stderr=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )


@pytest.mark.slow
def test_ten_kills_while_frames_flow_lose_and_double_nothing(
    make_site: MakeSite, agent: AgentDouble, surroundings: Surroundings
) -> None:
    async def go() -> None:
        await agent.start()
        site = make_site(port=agent.port)
        assert surroundings.journal.path == site.controller.journal
        surroundings.enrol(agent)
        flowing = asyncio.ensure_future(_flow(agent))
        try:
            for number in range(10):
                process = await _start(site)
                before = agent.acknowledged
                await _until(lambda before=before: agent.acknowledged > before + 20)  # type: ignore[misc]
                await asyncio.sleep(0.013 * number)
                process.kill()
                await process.communicate()
            process = await _start(site)
            flowing.cancel()
            await _until(lambda: agent.acknowledged == agent.last_sequence)
            process.send_signal(signal.SIGTERM)
            _, said = await process.communicate()
            assert process.returncode == 0, said.decode()
        finally:
            flowing.cancel()
            await agent.stop()

    asyncio.run(go())
    assert len(agent.frames) > 200
    assert surroundings.frames() == agent.frames
    kinds = [entry.kind for entry in surroundings.journal.entries(kinds=[Kind.RUN_START, Kind.RUN_STOP])]
    assert kinds == [Kind.RUN_START] * 11 + [Kind.RUN_STOP]


async def _flow(agent: AgentDouble) -> None:
    while True:
        agent.make_frames(3)
        await asyncio.sleep(0.01)


async def _until(condition: Callable[[], bool]) -> None:
    for _ in range(1500):
        if condition():
            return
        await asyncio.sleep(0.02)
    raise AssertionError("not reached within 30 s")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_in_good_order(make_site: MakeSite, number: signal.Signals) -> None:
    site = make_site()
    path = _create(site)

    async def go() -> tuple[int | None, str]:
        process = await _start(site)
        await _until(lambda: Kind.RUN_START in _kinds(path))
        process.send_signal(number)
        _, said = await process.communicate()
        return process.returncode, said.decode()

    code, said = asyncio.run(go())
    assert code == 0, said
    assert _kinds(path)[-1] is Kind.RUN_STOP
    assert "Traceback" not in said


def test_the_own_certificate_running_out_is_told_while_running(
    make_site: MakeSite, agent: AgentDouble, surroundings: Surroundings, tmp_path: Path
) -> None:
    """An open connection outlives its certificate; the next session does not."""

    async def go() -> None:
        await agent.start()
        site = make_site(port=agent.port)
        for path in (site.controller.ca, site.controller.certificate, site.controller.key):
            path.unlink()
        ca = create_ca("demo")
        write_new(site.controller.ca, ca.certificate_pem, 0o644)
        stem = site.controller.certificate.with_suffix("")
        write_issued(stem, issue_certificate(ca, Role.CONTROLLER, "main", None, timedelta(seconds=2)))
        assert surroundings.journal.path == site.controller.journal
        surroundings.enrol(agent)
        stop = asyncio.Event()
        asyncio.get_running_loop().call_later(4, stop.set)
        try:
            await run(site, site.controller.journal, stop=stop, stream=surroundings.said, readers=_recorded)
        finally:
            await agent.stop()

    asyncio.run(go())
    reasons = [attempt["reason"] for attempt in surroundings.attempts() if attempt["what"] == "connect"]
    assert reasons[-1] == "certificate-expired"
    assert "controller.pem: expired at" in surroundings.said.getvalue()


def test_a_collector_that_takes_its_cancellation_for_something_else_is_cancelled_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(run_module, "CANCEL_AGAIN_S", 0.01)

    async def stubborn() -> None:
        for _ in range(3):
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(60)
        await asyncio.sleep(60)

    async def go() -> None:
        stop = asyncio.Event()
        stop.set()
        await asyncio.wait_for(run_module._work_until(stop, [stubborn()]), 20)

    asyncio.run(go())
