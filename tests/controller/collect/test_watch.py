"""A run that watches: from a frame to an alert in a real Alertmanager, found again after a restart, and explained."""

from __future__ import annotations

import asyncio
import json
import shlex
import shutil
import time
from collections.abc import Callable, Iterator
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import CliRunner

from controller.alerts.alert import Explaining
from controller.alerts.alertsfile import Receiver
from controller.alerts.outbox import Rhythm
from controller.cli_explain import app as explain_app
from controller.cli_rules import app as rules_app
from controller.cli_run import app as run_app
from controller.collect.narrator import Narrator
from controller.collect.run import run
from controller.collect.watch import Watch, Watching
from controller.errors import OperatorError
from controller.journal import Journal, Kind, NewEntry
from controller.rulesfile import load_rules
from controller.site import Site, load
from hil.alertmanager import Alertmanager, missing
from protos.reading import Framing
from protos.units import NS_PER_S
from protos.v1 import frame_pb2
from switch.interpret import Device
from switch.recorded import RecordedAgent, RecordedPort, device_rows
from switch.snmp import SnmpSwitch

if TYPE_CHECKING:
    from tests.controller.collect.conftest import AgentDouble

pytestmark = pytest.mark.loopback

SITE = """
version: 1
site: demo
controller: {{journal: journal.db, ca: pki/ca.pem, certificate: pki/controller.pem, key: pki/controller.key}}
pods: [{{name: pod-a, nodes: [node1]}}]
nodes:
  - name: node1
    dpus:
      - name: node1-dpu0
        agent: "127.0.0.1:{port}"
        uplinks: [{{name: p0, host_port: pf0hpf, line_rate: 10Gbit/s, mtu: 1500}}]
links: [{{name: node1/p0, dpu: node1-dpu0, uplink: p0, switch: sw1, port: eth1}}]
switches:
  - name: sw1
    address: "127.0.0.1:9"
    snmp: {{version: 2c, community_file: community, insecure: true}}
    refresh: 3.5s
    framing: l2_without_fcs
collection: {{poll_interval: 200ms, clock_interval: 50ms}}
limits: []
"""
RULES = """
version: 1
rules:
  - {name: few, kind: volume, window: 1h, bytes: 4999B, text: at most five}
  - {name: gone, kind: absence, for: 2s, severity: warning}
  - {name: stored, kind: volume, window: 1h, bytes: 1GB, classes: [storage]}
"""
LIMIT_S = 60.0


@pytest.fixture
def manager() -> Iterator[Alertmanager]:
    gone = missing()
    if gone is not None:
        pytest.skip(gone)
    with Alertmanager() as running:
        yield running


def _recorded(_switch: object) -> SnmpSwitch:
    agent = RecordedAgent([*device_rows(1000), *RecordedPort(2, b"eth1").rows()], time.time_ns)
    return SnmpSwitch("sw1", agent, Device(3_500_000_000, Framing.L2_WITHOUT_FCS), time.time_ns)


def _make(tmp_path: Path, pki: Path, agent: AgentDouble) -> Site:
    shutil.copytree(pki, tmp_path / "pki")
    community = tmp_path / "community"
    community.write_text("c\n")
    community.chmod(0o600)
    (tmp_path / "rules.yaml").write_text(RULES)
    path = tmp_path / "site.yaml"
    path.write_text(SITE.format(port=agent.port))
    site = load(path)
    body = {"agent": agent.name, "public_key": agent.public_key.hex(), "bundle_sha256": "", "agent_version": "0.0.0"}
    with Journal.create(site.controller.journal, NewEntry(Kind.SITE, site.name, 1, site.content)) as journal:
        journal.append(NewEntry(Kind.ENROLMENT, agent.name, 1, json.dumps(body).encode()))
    return site


def _watching(tmp_path: Path, manager: Alertmanager) -> Watching:
    rules_file = tmp_path / "rules.yaml"
    receiver = Receiver("am", "alertmanager", manager.url, rhythm=Rhythm(20 * NS_PER_S))
    return Watching(load_rules(rules_file), rules_file, (receiver,))


async def _until(true: Callable[[], object]) -> None:
    deadline = time.monotonic() + LIMIT_S
    while not true():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.05)


def _rules(manager: Alertmanager) -> dict[str, dict[str, Any]]:
    return {each["labels"]["rule"]: each for each in manager.alerts()}


def test_from_a_frame_to_an_alert_and_back(
    tmp_path: Path, pki: Path, agent: AgentDouble, manager: Alertmanager
) -> None:
    said = StringIO()

    async def story() -> dict[str, dict[str, Any]]:
        await agent.start()
        site, stop = _make(tmp_path, pki, agent), asyncio.Event()
        watching = _watching(tmp_path, manager)

        def begin() -> asyncio.Task[None]:
            stop.clear()
            return asyncio.create_task(
                run(site, site.controller.journal, stop=stop, stream=said, readers=_recorded, watching=watching)
            )

        def clocks() -> int:
            with Journal.open(site.controller.journal, read_only=True) as journal:
                return sum(1 for _ in journal.entries(kinds=[Kind.CLOCK]))

        running = begin()
        await _until(lambda: clocks() > 2)
        # Each frame counts a thousand bytes more; five thousand are too many.
        for _ in range(5):
            agent.make_frames(1)
            await asyncio.sleep(0.05)
        await asyncio.sleep(0.5)
        assert "few" not in _rules(manager)
        agent.make_frames(1)
        await _until(lambda: "few" in _rules(manager))
        first = _rules(manager)
        # It says nothing more, and is missed; then it speaks, and that is over.
        await _until(lambda: "gone" in _rules(manager))
        agent.make_frames(1)
        await _until(lambda: "gone" not in _rules(manager))
        stop.set()
        await running
        # The next run finds what goes on in the journal.
        told = said.getvalue().count("page: volume-over-window (few)")
        again = begin()
        await _until(lambda: said.getvalue().count("page: volume-over-window (few)") == 2 * told)
        assert {each["annotations"]["finding"] for each in manager.alerts()} >= {
            each["annotations"]["finding"] for name, each in first.items() if name == "few"
        }
        stop.set()
        await again
        await agent.stop()
        return first

    first = asyncio.run(story())
    assert "says nothing of node1: no meter counts" in said.getvalue()
    assert "Traceback" not in said.getvalue()
    alert = first["few"]
    assert alert["labels"]["place"].startswith("node node1 ")
    assert alert["labels"]["severity"] == "page"
    # What the alert says to type explains it.
    command = shlex.split(alert["annotations"]["explain"])
    assert command[:2] == ["weighbridge", "explain"]
    explained = CliRunner().invoke(explain_app, command[2:])
    assert explained.exit_code == 0, explained.output
    assert "few: at most five" in explained.output
    assert "of kind frame from node1-dpu0: leaves" in explained.output
    as_json = json.loads(CliRunner().invoke(explain_app, [*command[2:], "--json"]).stdout)
    assert as_json["finding"]["id"] == alert["annotations"]["finding"]
    # History finds what was told.
    options = [
        "history",
        "--site",
        str(tmp_path / "site.yaml"),
        "--rules",
        str(tmp_path / "rules.yaml"),
        "--last",
        "10m",
    ]
    history = CliRunner().invoke(rules_app, [*options, "--json"])
    assert history.exit_code == 1, history.output
    ids = {each["id"] for each in json.loads(history.stdout)["findings"]}
    assert {each["annotations"]["finding"] for each in first.values()} <= ids
    wrong = CliRunner().invoke(explain_app, [f"{command[2][:-3]}000", *command[3:]])
    assert wrong.exit_code != 0
    assert command[2] in str(wrong.exception)


@pytest.mark.parametrize("most", [1, 1_000_000])
def test_what_goes_on_is_found_in_the_journal(
    tmp_path: Path, pki: Path, agent: AgentDouble, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    """Entry by entry, or on a large site a minute at a time."""
    monkeypatch.setattr("controller.collect.watch.MOST_RETOLD", most)
    agent.port = 11
    site, said = _make(tmp_path, pki, agent), StringIO()
    # Ten minutes, of which the last frame came a second ago.
    agent.make_frames(600)
    now_ns = 10**18 + 601 * NS_PER_S
    offset_ns = now_ns - NS_PER_S - agent.monotonic_ns()
    body = {"t1": str(offset_ns), "t2": "0", "t3": "0", "t4": str(offset_ns), "boot_id": agent.stamp().boot_id}
    with Journal.open(site.controller.journal) as journal:
        for number, raw in enumerate(agent.frames):
            at_ns = 10**18 + number * NS_PER_S
            stamped = frame_pb2.Frame.FromString(frame_pb2.SignedFrame.FromString(raw).body)
            stamped.ports[0].latest_ns = stamped.ports[0].earliest_ns = at_ns - offset_ns
            signed = frame_pb2.SignedFrame(body=stamped.SerializeToString(), signature=b"x").SerializeToString()
            clock = NewEntry(Kind.CLOCK, agent.name, at_ns, json.dumps(body).encode())
            journal.append(clock, NewEntry(Kind.FRAME, agent.name, at_ns, signed, sequence=number + 1))
        rules = load_rules(tmp_path / "rules.yaml")
        narrator = Narrator(time.monotonic_ns, said)
        watch = Watch(site, rules, journal, narrator, lambda: now_ns, explaining=Explaining(site.path, None, 0))
        found = watch._retell()
    assert {change.finding.rule for change in found} == {"few"}
    assert {change.finding.places for change in found} == {("node node1 egress",), ("node node1 ingress",)}


def test_nobody_to_tell_and_no_rules_file(tmp_path: Path, pki: Path, agent: AgentDouble) -> None:
    said = StringIO()

    async def story() -> None:
        await agent.start()
        site, stop = _make(tmp_path, pki, agent), asyncio.Event()
        running = asyncio.create_task(run(site, site.controller.journal, stop=stop, stream=said, readers=_recorded))
        await _until(lambda: "the switch answers" in said.getvalue())
        stop.set()
        await running
        await agent.stop()

    asyncio.run(story())
    assert said.getvalue().endswith("stopped; everything received is in the journal\n")


@pytest.mark.parametrize("option", ["--rules", "--alerts"])
def test_a_wrong_file_is_refused_before_anything(tmp_path: Path, pki: Path, agent: AgentDouble, option: str) -> None:
    agent.port = 11
    site = _make(tmp_path, pki, agent)
    before = site.controller.journal.read_bytes()
    wrong = tmp_path / "wrong.yaml"
    wrong.write_text("version: 1\nthing: []\n")
    result = CliRunner().invoke(run_app, ["--site", str(site.path), option, str(wrong)])
    assert isinstance(result.exception, OperatorError)
    assert str(result.exception).startswith(f"{wrong}:")
    assert result.exception.exit_code == 2
    assert site.controller.journal.read_bytes() == before
