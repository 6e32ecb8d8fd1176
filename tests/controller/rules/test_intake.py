"""Journal entries as what moves: clocks, epochs, meters, repetitions; and history finds what live found."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.crosscheck.model import Period
from controller.errors import EvidenceError
from controller.journal import Journal, NewEntry
from controller.journal_entry import Kind
from controller.rules.evaluator import Evaluator
from controller.rules.finding import Kind as FindingKind
from controller.rules.moved import MOST_MOVED, Moved
from controller.rules.rule import Bound, Rule, Rules, Scope
from controller.rules.shape import DEFAULT_SHAPE
from controller.rules.tally import Change
from controller.rules_history import remembered
from controller.rules_intake import Intake, places_of
from controller.site import Site
from controller.site_build import build_from
from protos.buckets import TrafficClass
from protos.reading import Direction
from protos.units import NS_PER_S
from protos.v1 import frame_pb2, meter_pb2, reading_pb2

BEGIN_NS = 1_796_000_000 * NS_PER_S
OFFSET_NS = 5_000 * NS_PER_S
"""The agent's clock is so far behind the timeline."""
SITE = b"""
version: 1
site: lab
controller: {journal: journal.db, ca: ca.pem, certificate: c.pem, key: c.key}
pods: [{name: pod-a, nodes: [node1]}]
nodes:
  - name: node1
    dpus:
      - name: node1-dpu0
        agent: "192.0.2.1:7443"
        uplinks: [{name: p0, host_port: pf0hpf, line_rate: 10Gbit/s, mtu: 1500}]
links: [{name: node1/p0, dpu: node1-dpu0, uplink: p0, switch: sw1, port: eth1}]
switches:
  - name: sw1
    address: "192.0.2.2:161"
    snmp: {version: 3, user: w, auth: sha256, auth_key_file: a, privacy: aes128, privacy_key_file: p}
    refresh: 3.5s
    framing: l2_without_fcs
collection: {clock_interval: 10s, frame_interval: 10s}
limits: []
"""


@pytest.fixture(scope="module")
def site() -> Site:
    return build_from(SITE, Path("site.yaml"))


class Taken(Evaluator):
    """Keeps what it is fed."""

    def __init__(self, rules: Rules, site: Site) -> None:
        super().__init__(rules, places_of(site))
        self.fine: list[Moved] = []
        self.coarse: list[Moved] = []

    def feed_rules(self, moved: object) -> list[Change]:
        self.fine += list(moved)  # type: ignore[call-overload]
        return []

    def feed_shapes(self, moved: object) -> list[Change]:
        found: list[Moved] = list(moved)  # type: ignore[call-overload]
        self.coarse += found
        return super().feed_shapes(found)


@dataclass
class Agent:
    """Makes an agent's entries."""

    boot: str = "boot-1"
    sequence: int = 0
    sent: int = 0
    received: int = 0
    meters: list[meter_pb2.MeterReading] = field(default_factory=list)

    def clock(self, at_ns: int, trip_ns: int = 1_000_000, offset_ns: int = OFFSET_NS) -> NewEntry:
        t2 = at_ns - offset_ns + trip_ns // 2
        body = {"t1": str(at_ns), "t2": str(t2), "t3": str(t2), "t4": str(at_ns + trip_ns), "boot_id": self.boot}
        return NewEntry(Kind.CLOCK, "node1-dpu0", at_ns + trip_ns, json.dumps(body).encode())

    def frame(self, at_ns: int, *, epoch: int = 1, delay_ns: int = 2_000_000, missing: int = 0) -> NewEntry:
        self.sequence += 1
        port = reading_pb2.PortReading(
            port="p0",
            role=reading_pb2.PORT_ROLE_UPLINK,
            source="double",
            framing=reading_pb2.FRAMING_L2_WITHOUT_FCS,
            epoch=epoch,
            earliest_ns=at_ns - OFFSET_NS,
            latest_ns=at_ns - OFFSET_NS,
        )
        if missing:
            port.missing = missing  # type: ignore[assignment]
        else:
            port.egress.CopyFrom(reading_pb2.Counters(bytes=self.sent % 2**64, packets=self.sent // 1000 % 2**64))
            port.ingress.CopyFrom(reading_pb2.Counters(bytes=self.received))
        clock = frame_pb2.ClockStamp(boot_id=self.boot, monotonic_ns=at_ns - OFFSET_NS)
        frame = frame_pb2.Frame(
            version=1, agent="node1-dpu0", sequence=self.sequence, clock=clock, ports=[port], meters=self.meters
        )
        raw = frame_pb2.SignedFrame(body=frame.SerializeToString(), signature=b"x").SerializeToString()
        return NewEntry(Kind.FRAME, "node1-dpu0", at_ns + delay_ns, raw, sequence=self.sequence)


NONE = Rules((), DEFAULT_SHAPE)


def _fed(site: Site, entries: list[NewEntry]) -> Taken:
    taken = Taken(NONE, site)
    intake = Intake(site, taken)
    for entry in entries:
        intake.take(entry)
    return taken


def test_two_frames_are_what_moved_between_them(site: Site) -> None:
    agent = Agent()
    entries = [agent.clock(BEGIN_NS), agent.frame(BEGIN_NS)]
    agent.sent, agent.received = 9_000, 70
    entries.append(agent.frame(BEGIN_NS + NS_PER_S))
    assert _fed(site, entries).fine == [
        Moved("node1/p0", Direction.EGRESS, BEGIN_NS, BEGIN_NS + NS_PER_S, 9_000, 9),
        Moved("node1/p0", Direction.INGRESS, BEGIN_NS, BEGIN_NS + NS_PER_S, 70, None),
    ]


def test_the_quickest_of_the_last_exchanges_places_a_frame(site: Site) -> None:
    agent = Agent()
    slow = [agent.clock(BEGIN_NS + at, trip_ns=400_000_000, offset_ns=OFFSET_NS + 90_000_000) for at in range(3)]
    entries = [*slow[:2], agent.clock(BEGIN_NS, trip_ns=200_000), slow[2]]
    agent.sent = 5
    entries += [agent.frame(BEGIN_NS + NS_PER_S), agent.frame(BEGIN_NS + 2 * NS_PER_S)]
    assert _fed(site, entries).fine[0].from_ns == BEGIN_NS + NS_PER_S


def test_no_reading_lies_after_its_frame_was_received(site: Site) -> None:
    agent = Agent()
    entries = [agent.clock(BEGIN_NS, offset_ns=OFFSET_NS + 10 * NS_PER_S)]
    entries += [agent.frame(BEGIN_NS + at * NS_PER_S) for at in (1, 2)]
    assert [moved.to_ns for moved in _fed(site, entries).fine] == [BEGIN_NS + 2 * NS_PER_S + 2_000_000] * 2


def test_what_came_before_the_first_exchange_is_not_placed(site: Site) -> None:
    agent = Agent()
    entries = [agent.frame(BEGIN_NS + at * NS_PER_S) for at in range(3)]
    assert _fed(site, entries).fine == []
    entries += [agent.clock(BEGIN_NS + 3 * NS_PER_S), agent.frame(BEGIN_NS + 4 * NS_PER_S)]
    assert _fed(site, entries).fine == []
    entries.append(agent.frame(BEGIN_NS + 5 * NS_PER_S))
    assert len(_fed(site, entries).fine) == 2


def test_a_late_spool_is_placed_where_it_was_counted(site: Site) -> None:
    """An hour of frames that arrive within a second are an hour of traffic, and no burst."""
    agent = Agent()
    entries = [agent.clock(BEGIN_NS), agent.frame(BEGIN_NS)]
    for second in range(1, 3_601):
        agent.sent += 1_000
        at_ns = BEGIN_NS + second * NS_PER_S
        entries.append(agent.frame(at_ns, delay_ns=BEGIN_NS + 3_700 * NS_PER_S + second - at_ns))
    rule = Rule("r", FindingKind.VOLUME_OVER_WINDOW, (Bound(10 * NS_PER_S, 10_000),))
    evaluator = Evaluator(Rules((rule,), DEFAULT_SHAPE), places_of(site))
    intake = Intake(site, evaluator)
    assert [change for entry in entries for change in intake.take(entry)] == []


@pytest.mark.parametrize("how", ["epoch", "boot", "decrease", "missing"])
def test_between_epochs_nothing_is_known(site: Site, how: str) -> None:
    agent = Agent(sent=10_000)
    entries = [agent.clock(BEGIN_NS), agent.frame(BEGIN_NS)]
    epoch, missing = 1, 0
    if how == "epoch":
        epoch, agent.sent = 2, 50_000
    elif how == "boot":
        agent.boot, agent.sent = "boot-2", 50_000
        entries.append(agent.clock(BEGIN_NS))
    elif how == "decrease":
        agent.sent = 9_999
    else:
        missing = reading_pb2.MISSING_REASON_ABSENT
    entries.append(agent.frame(BEGIN_NS + NS_PER_S, epoch=epoch, missing=missing))
    assert [moved for moved in _fed(site, entries).fine if moved.direction is Direction.EGRESS] == []
    agent.sent += 7
    entries.append(agent.frame(BEGIN_NS + 2 * NS_PER_S, epoch=epoch))
    found = [moved.bytes for moved in _fed(site, entries).fine if moved.direction is Direction.EGRESS]
    assert found == [7]


def test_a_frame_that_comes_again_counts_once(site: Site) -> None:
    agent = Agent()
    entries = [agent.clock(BEGIN_NS), agent.frame(BEGIN_NS)]
    agent.sent = 100
    entries.append(agent.frame(BEGIN_NS + NS_PER_S))
    agent.sent = 200
    entries.append(agent.frame(BEGIN_NS + 2 * NS_PER_S))
    again = [*entries, *entries[1:3], entries[3]]
    assert _fed(site, again).fine == _fed(site, entries).fine


def test_an_impossible_counter_is_taken_for_the_most(site: Site) -> None:
    agent = Agent()
    entries = [agent.clock(BEGIN_NS), agent.frame(BEGIN_NS)]
    agent.sent = 2**64 - 1
    entries.append(agent.frame(BEGIN_NS + NS_PER_S))
    assert _fed(site, entries).fine[0].bytes == MOST_MOVED


def test_the_detectors_get_one_reading_a_minute(site: Site) -> None:
    agent = Agent()
    entries = [agent.clock(BEGIN_NS)]
    for second in range(601):
        agent.sent += 1_000
        entries.append(agent.frame(BEGIN_NS + second * NS_PER_S))
    taken = _fed(site, entries)
    assert len(taken.fine) == 1_200
    assert len(taken.coarse) == 20
    # From the first frame to the first one of the last minute.
    assert sum(moved.bytes for moved in taken.coarse if moved.direction is Direction.EGRESS) == 580_000


def _meter(
    port: str, total: int, *, full: bool = False, since: int = 1, peer: int | None = None
) -> meter_pb2.MeterReading:
    classes = [
        meter_pb2.ClassTotals(traffic_class=2, total=meter_pb2.MeterTotals(wire_bytes=total, segments=total // 100))
    ]
    peers = [] if peer is None else [meter_pb2.PeerTotals(peer="node2", wire_bytes=peer)]
    return meter_pb2.MeterReading(port=port, since_ns=since, full=full, classes=classes, peers=peers)


def test_meters_stand_beside_it(site: Site) -> None:
    agent = Agent(meters=[_meter("pf0hpf", 1_000, full=True), _meter("p0", 500, full=True)])
    entries = [agent.clock(BEGIN_NS), agent.frame(BEGIN_NS)]
    agent.meters = [_meter("pf0hpf", 4_000, peer=300), _meter("p0", 600)]
    entries.append(agent.frame(BEGIN_NS + NS_PER_S))
    agent.meters = []
    entries.append(agent.frame(BEGIN_NS + 2 * NS_PER_S))
    agent.meters = [_meter("pf0hpf", 100, since=2), _meter("p0", 601)]
    entries.append(agent.frame(BEGIN_NS + 3 * NS_PER_S))
    out = [moved for moved in _fed(site, entries).fine if moved.direction is Direction.EGRESS]
    inward = [moved for moved in _fed(site, entries).fine if moved.direction is Direction.INGRESS]
    assert out[0].classes == {TrafficClass.OTHER_POD: 3_000}
    assert out[0].class_packets == {TrafficClass.OTHER_POD: 30}
    # A peer that was not there when all of them were told has sent nothing before.
    assert out[0].peers == {"node2": 300}
    assert inward[0].classes == {TrafficClass.OTHER_POD: 100}
    assert out[1].classes is None
    # Another meter: its totals begin anew, and what they were before is not known.
    assert out[2].classes == {TrafficClass.OTHER_POD: 0}
    assert inward[2].classes == {TrafficClass.OTHER_POD: 1}


def test_a_frame_that_cannot_be_read(site: Site) -> None:
    with pytest.raises(EvidenceError, match="cannot be read"):
        Intake(site, Evaluator(NONE, places_of(site))).take(NewEntry(Kind.FRAME, "node1-dpu0", 1, b"\xff"))
    assert Intake(site, Evaluator(NONE, places_of(site))).take(NewEntry(Kind.FRAME, "stranger", 1, b"\xff")) == []


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 2**32))
def test_history_finds_what_live_found(site: Site, seed: int) -> None:
    """The same entries, looked at one by one with a clock every second, and all at once afterwards."""
    rng, agent, now_ns = random.Random(seed), Agent(), BEGIN_NS
    entries = [NewEntry(Kind.RUN_START, "controller", BEGIN_NS, b"{}")]
    for _ in range(300):
        now_ns += rng.choice([NS_PER_S, NS_PER_S, NS_PER_S + 999, 47 * NS_PER_S])
        agent.sent += rng.choice([0, 0, 500, 9_000])
        agent.received += rng.choice([0, 100])
        chosen = rng.random()
        if chosen < 0.2:
            entries.append(agent.clock(now_ns, trip_ns=rng.randrange(1, 10**7)))
        elif chosen < 0.3:
            entries.append(NewEntry(Kind.POLL, "sw1", now_ns, b""))
        else:
            agent.sequence += rng.choice([0, 0, 0, 5])
            entries.append(agent.frame(now_ns, delay_ns=rng.randrange(10**8)))
    rules = Rules(
        (
            Rule("v", FindingKind.VOLUME_OVER_WINDOW, (Bound(60 * NS_PER_S, 30_000),)),
            Rule("s", FindingKind.RATE_OVER_WINDOW, (Bound(300 * NS_PER_S, 100_000),), scope=Scope.SITE),
            Rule("gone", FindingKind.TELEMETRY_ABSENT, for_ns=60 * NS_PER_S),
        ),
        DEFAULT_SHAPE,
    )
    live, history = (Intake(site, Evaluator(rules, places_of(site))) for _ in range(2))
    found: list[Change] = []
    tick_ns = BEGIN_NS
    for entry in entries:
        while tick_ns < entry.recorded_ns:
            found += live.evaluator.clock(tick_ns)
            tick_ns += NS_PER_S
        found += live.take(entry)
    found += live.evaluator.clock(now_ns)
    again = [change for entry in entries for change in history.take(entry)] + history.evaluator.clock(now_ns)

    def sorted_(changes: list[Change]) -> list[tuple[str, int]]:
        return sorted((change.finding.id, change.resolved_ns or 0) for change in changes)

    assert sorted_(found) == sorted_(again)
    assert found


def test_an_agent_that_cannot_read_its_port_is_missed(site: Site) -> None:
    rules = Rules((Rule("gone", FindingKind.TELEMETRY_ABSENT, for_ns=10 * NS_PER_S),), DEFAULT_SHAPE)
    intake, agent = Intake(site, Evaluator(rules, places_of(site))), Agent()
    intake.take(NewEntry(Kind.RUN_START, "controller", BEGIN_NS, b"{}"))
    found = list(intake.take(agent.clock(BEGIN_NS)))
    for second in range(30):
        missing = reading_pb2.MISSING_REASON_ABSENT if second >= 5 else 0
        found += intake.take(agent.frame(BEGIN_NS + second * NS_PER_S, missing=missing))
        found += intake.take(NewEntry(Kind.POLL, "sw1", BEGIN_NS + second * NS_PER_S, b""))
        found += intake.evaluator.clock(BEGIN_NS + second * NS_PER_S)
    assert [change.finding.places for change in found] == [("node1-dpu0",)]


def test_nobody_is_missed_while_nobody_looks(site: Site) -> None:
    rules = Rules((Rule("gone", FindingKind.TELEMETRY_ABSENT, for_ns=NS_PER_S),), DEFAULT_SHAPE)
    intake = Intake(site, Evaluator(rules, places_of(site)))
    for kind, at_ns in ((Kind.RUN_START, BEGIN_NS), (Kind.RUN_STOP, BEGIN_NS + 1), (Kind.POLL, BEGIN_NS + 10**12)):
        assert intake.take(NewEntry(kind, "sw1", at_ns, b"{}")) == []
    assert intake.evaluator.clock(BEGIN_NS + 10**12) == []


def test_a_shape_found_live_is_found_again_by_its_id(site: Site, tmp_path: Path) -> None:
    """Live from every frame, afterwards from one a minute and the clock exchanges beside it."""
    minute_ns = 60 * NS_PER_S
    begin_ns = BEGIN_NS // minute_ns * minute_ns
    agent, entries = Agent(), [NewEntry(Kind.RUN_START, "controller", begin_ns - 1, b"{}")]
    for at in range(6 * 600):
        now_ns = begin_ns + at * 10 * NS_PER_S
        entries.append(agent.clock(now_ns - 5_000_000, trip_ns=1_000_000 + at % 7 * 100_000))
        # A synchronisation of a minute and a half every eighteen minutes.
        volume = 3_000_000_000 if at % 108 < 9 else 8_000
        agent.sent, agent.received = agent.sent + volume, agent.received + volume
        entries.append(agent.frame(now_ns))
    evaluator = Evaluator(NONE, places_of(site))
    intake = Intake(site, evaluator)
    live = {change.finding.id for entry in entries for change in intake.take(entry)}
    assert any(each.startswith("periodic-equal-bursts-") for each in live)
    with Journal.create(tmp_path / "journal.db", *entries) as journal:
        again = remembered(journal, site, NONE, Period(begin_ns - 1, begin_ns + 10**15))
    assert {told.finding.id for told in again} == live
