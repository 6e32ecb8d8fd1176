"""The parts by themselves: sums, runs, looking back, gaps, and records that cannot be read."""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.collect.attempts import Look, LookFailed, Reason, attempt_entry
from controller.crosscheck.model import Period
from controller.errors import EvidenceError
from controller.journal import Journal, Kind, NewEntry
from controller.observations import end_of_evidence_ns, evidence
from controller.observations.around import LOOK_BACK_NS, entries_from_before
from controller.observations.runs import Run, inside, outside, runs
from controller.observations.series import Note, Series, paired, summed
from controller.observations.silences import Silences
from controller.site import Site, loads
from protos.reading import Direction, Framing, Observer, Reading

if TYPE_CHECKING:
    from tests.controller.observations.conftest import SimulatedSite

S = 1_000_000_000
START = 1_800_000_000 * S
Make = Callable[..., "SimulatedSite"]

# ---------------------------------------------------------------- sums

moments = st.lists(st.integers(0, 1000), min_size=1, max_size=30).map(sorted)


@given(
    counted=st.lists(moments, min_size=2, max_size=3),
    looks=st.lists(st.lists(st.tuples(st.integers(0, 1000), st.integers(0, 60)), min_size=1, max_size=20), min_size=3),
)
def test_counters_read_at_different_times_add_up_to_a_true_reading(
    counted: list[list[int]], looks: list[list[tuple[int, int]]]
) -> None:
    """Each counter counts one at each of its moments; any readings of them bound the sum of all."""
    parts = []
    for times, taken in zip(counted, looks, strict=False):
        series = Series()
        number = series.number_of("only", "", proven=True)
        for at, width in sorted(taken):
            true_at = at + width // 2
            value = bisect_right(times, true_at)
            series.readings[Direction.EGRESS].append(Reading(at, at + width, value, epoch=number))
        series.readings[Direction.EGRESS].sort(key=lambda reading: reading.latest_ns)
        parts.append(series)
    total = paired(parts)
    assert total.proven == {0}
    assert len(total.readings[Direction.EGRESS]) == min(len(part.readings[Direction.EGRESS]) for part in parts)
    for reading in total.readings[Direction.EGRESS]:
        least = sum(bisect_right(times, reading.earliest_ns) for times in counted)
        most = sum(bisect_right(times, reading.latest_ns) for times in counted)
        assert least <= reading.bytes <= most


def test_an_epoch_of_a_sum_ends_when_one_of_its_parts_ends() -> None:
    def series(*epochs: int) -> Series:
        made = Series()
        for at, epoch in enumerate(epochs):
            number = made.number_of(epoch, f"reset {epoch}", proven=epoch != 2)
            made.readings[Direction.INGRESS].append(Reading(at * 10, at * 10 + 1, at, epoch=number))
        return made

    total = paired([series(0, 0, 1, 1), series(0, 0, 0, 2)])
    assert [reading.epoch for reading in total.readings[Direction.INGRESS]] == [0, 0, 1, 2]
    assert total.reasons == {1: "reset 1", 2: "reset 1; reset 2"}
    assert total.proven == {0, 1}
    assert paired([series(0), Series()]).readings[Direction.INGRESS] == []


def test_different_framings_are_not_added() -> None:
    one, other = Reading(0, 1, 5), Reading(0, 1, 5, framing=Framing.L2_WITH_FCS)
    assert summed([one, other], epoch=0) is None
    assert summed([one, Reading(2, 3, 7, packets=1, bytes_slack=2)], epoch=4) == Reading(
        0, 3, 12, packets=None, epoch=4, bytes_slack=2
    )


def test_neighbouring_notes_of_one_reason_are_one() -> None:
    series = Series()
    for at in (1, 2, 3):
        series.note(at, at + 1, "gone")
    series.note(4, 5, "other")
    assert series.notes == [Note(1, 4, "gone"), Note(4, 5, "other")]
    series.readings[Direction.EGRESS].append(Reading(9, 10, 0))
    series.note(11, 12, "other")
    assert series.notes[-1] == Note(11, 12, "other"), "a reading lies between"


# ---------------------------------------------------------------- runs

edges = st.lists(st.integers(0, 100), min_size=2, max_size=10, unique=True).map(sorted)


@given(edges=edges, stretch=st.tuples(st.integers(0, 100), st.integers(0, 100)))
def test_inside_and_outside_divide_a_stretch(edges: list[int], stretch: tuple[int, int]) -> None:
    found = [Run(a, b, stopped=True) for a, b in zip(edges[::2], edges[1::2], strict=False)]
    start, end = min(stretch), max(stretch)
    pieces = sorted([*inside((start, end), found), *outside((start, end), found)])
    assert sum(b - a for a, b in pieces) == end - start
    assert all(a[1] == b[0] for a, b in pairwise(pieces))
    for a, b in inside((start, end), found):
        assert any(run.from_ns <= a and b <= run.to_ns for run in found)


def _journal(path: Path, *entries: NewEntry) -> Journal:
    return Journal.create(path / "journal.db", *entries)


def _mark(kind: Kind, at: int, run_id: str) -> NewEntry:
    return NewEntry(kind, "controller", at, json.dumps({"run_id": run_id}).encode())


def _scrape(at: int, source: str = "node1") -> NewEntry:
    return NewEntry(Kind.SCRAPE, source, at, b"x", {"first_sent_ns": str(at), "received_ns": str(at)})


def test_a_killed_run_ends_with_what_it_wrote_last(tmp_path: Path) -> None:
    with _journal(
        tmp_path,
        _mark(Kind.RUN_START, 10 * S, "a"),
        _scrape(11 * S),
        _scrape(15 * S),
        NewEntry(Kind.ENROLMENT, "node1-dpu0", 90 * S, b"{}"),
        _mark(Kind.RUN_START, 100 * S, "b"),
        _scrape(101 * S),
        _mark(Kind.RUN_STOP, 110 * S, "b"),
        _mark(Kind.RUN_START, 120 * S, "c"),
        _mark(Kind.RUN_START, 130 * S, "d"),
        _scrape(300 * S),
    ) as journal:
        found = runs(journal, Period(0, 10**18))
    assert [(run.from_ns // S, run.to_ns // S, run.stopped) for run in found] == [
        (10, 15, False), (100, 110, True), (130, 300, False)
    ]  # fmt: skip


# ---------------------------------------------------------------- looking back


@pytest.mark.parametrize("gap_s", [1, 59, 61, 5_000, 100_000])
def test_the_reading_before_a_long_silence_is_found(tmp_path: Path, gap_s: int) -> None:
    start = 10**15
    old = [_scrape(start + i * S) for i in range(5)]
    period = Period(start + (5 + gap_s) * S, start + (20 + gap_s) * S)
    new = [_scrape(period.from_ns + i * S) for i in range(10)]
    others = [_scrape(start + i * 10 * S, source="other") for i in range(gap_s // 10)]
    entries = sorted([*old, *new, *others], key=lambda entry: entry.recorded_ns)
    with _journal(tmp_path, *entries) as journal:
        found = [e.recorded_ns for e in entries_from_before(journal, Kind.SCRAPE, "node1", period, at_least=2)]
        everything = [e.recorded_ns for e in entries_from_before(journal, Kind.SCRAPE, "node1", period, at_least=99)]
    assert sum(at < period.from_ns for at in found) >= 2
    assert found[-10:] == [entry.recorded_ns for entry in new]
    assert everything == [entry.recorded_ns for entry in [*old, *new]]
    assert LOOK_BACK_NS == 60 * S


def test_an_empty_journal_has_nothing(tmp_path: Path, site: Site) -> None:
    with _journal(tmp_path) as journal:
        period = Period(0, 10)
        assert list(entries_from_before(journal, Kind.SCRAPE, "node1", period, at_least=2)) == []
        assert end_of_evidence_ns(journal, site) is None
        found = evidence(journal, site, period)
    assert len(found.links) == 4
    assert not found.inventory_checked
    assert [(port.port, port.operational, port.readings) for port in found.ports] == [
        ("eth1", None, ()), ("eth2", None, ()), ("eth5", None, ())
    ]  # fmt: skip


# ---------------------------------------------------------------- gaps


def _attempt(at: int, reason: Reason, source: str = "sw1") -> NewEntry:
    failure = LookFailed(Look.POLL, reason, f"it said {reason.value}")
    return attempt_entry(failure, source=source, first_sent_ns=at, gave_up_ns=at + S)


@pytest.mark.parametrize(
    ("entries", "who", "text"),
    [
        ([_attempt(15 * S, Reason.TIMEOUT)], "network-cut", "nothing else answered either"),
        ([_attempt(15 * S, Reason.TIMEOUT), _scrape(16 * S)], "device-silent", "node1 answered"),
        ([_attempt(15 * S, Reason.DENIED)], "device-silent", "1 of 1 failed looks were denied: it said denied"),
        ([_attempt(15 * S, Reason.CONNECTION_REFUSED)], "device-silent", "connection-refused"),
        ([_attempt(15 * S, Reason.CERTIFICATE_EXPIRED)], "device-silent", "certificate-expired"),
        ([_scrape(15 * S)], "not-polled", "nothing says that sw1 was looked at"),
        ([], "not-polled", "nothing says that sw1 was looked at"),
    ],
)
def test_who_was_not_looking(tmp_path: Path, entries: list[NewEntry], who: str, text: str) -> None:
    period = Period(10 * S, 30 * S)
    with _journal(tmp_path, *entries) as journal:
        silences = Silences(journal, period, [Run(0, 100 * S, stopped=True)], longest_gap_ns=6 * S)
        [silence] = silences.of("sw1", [9 * S, 11 * S, 29 * S, 31 * S])
    assert silence.who == who
    assert text in silence.text
    assert (silence.from_ns, silence.to_ns) == (11 * S, 29 * S)


def test_a_gap_is_split_where_the_controller_was_stopped(tmp_path: Path) -> None:
    with _journal(tmp_path, _attempt(12 * S, Reason.TIMEOUT)) as journal:
        found = [Run(0, 15 * S, stopped=False), Run(20 * S, 100 * S, stopped=True)]
        silences = Silences(journal, Period(10 * S, 30 * S), found, longest_gap_ns=4 * S)
        pieces = silences.of("sw1", [8 * S, 11 * S, 28 * S, 40 * S])
    assert [(piece.from_ns // S, piece.to_ns // S, piece.who) for piece in pieces] == [
        (11, 15, "network-cut"), (15, 20, "controller-stopped"), (20, 28, "not-polled"),
        (28, 30, "not-polled"),
    ]  # fmt: skip


def test_readings_as_dense_as_allowed_are_no_silence(tmp_path: Path) -> None:
    with _journal(tmp_path) as journal:
        silences = Silences(journal, Period(10 * S, 30 * S), [Run(0, 99 * S, stopped=True)], longest_gap_ns=6 * S)
        assert silences.of("sw1", [7 * S, 13 * S, 19 * S, 25 * S, 31 * S]) == ()


# ---------------------------------------------------------------- what cannot be read


def _forged(**changed: str) -> bytes:
    body = {"link": "node1/p0", "direction": "egress", "from_ns": "1", "to_ns": "5", "bytes": "100", "packets": "1"}
    return json.dumps(body | changed).encode()


@pytest.mark.parametrize(
    ("kind", "body", "text"),
    [
        (Kind.CLOCK, b"{}", "not a clock exchange"),
        (Kind.CLOCK, b'{"t1":"5","t2":"1","t3":"1","t4":"4","boot_id":"b","monotonic_raw_ns":"1"}', "not a clock"),
        (Kind.FRAME, b"\xff", "is a frame of node1-dpu0 that this program cannot read"),
        (Kind.POLL, b"{}", "is a poll of sw1 that this program cannot read"),
        (Kind.WEIGHT, b"[]", "not a known weight"),
        (Kind.WEIGHT, _forged(bytes="-5"), "not a known weight"),
        (Kind.WEIGHT, _forged(bytes="0"), "not a known weight"),
        (Kind.WEIGHT, _forged(from_ns="9"), "not a known weight"),
        (Kind.WEIGHT, _forged(packets="-1"), "not a known weight"),
    ],
)
def test_a_record_that_cannot_be_read_is_named_by_its_leaf(
    tmp_path: Path, site: Site, kind: Kind, body: bytes, text: str
) -> None:
    source = {Kind.POLL: "sw1", Kind.WEIGHT: "node1/p0"}.get(kind, "node1-dpu0")
    first = NewEntry(Kind.SITE, "demo", START, b"x")
    with (
        _journal(tmp_path, first, NewEntry(kind, source, START + S, body)) as journal,
        pytest.raises(EvidenceError, match=text) as caught,
    ):
        evidence(journal, site, Period(START, START + 10 * S))
    assert "leaf 1" in str(caught.value)


def test_known_weights_in_the_period_are_evidence(tmp_path: Path, site: Site) -> None:
    def weight(start: int, end: int) -> NewEntry:
        body = {
            "link": "node1/p0", "direction": "egress", "from_ns": str(START + start * S),
            "to_ns": str(START + end * S), "bytes": "10000000", "packets": "7000",
        }  # fmt: skip
        return NewEntry(Kind.WEIGHT, "node1/p0", START + end * S, json.dumps(body).encode())

    with _journal(tmp_path, weight(1, 5), weight(12, 15), weight(18, 22)) as journal:
        [found] = evidence(journal, site, Period(START + 10 * S, START + 20 * S)).known_weights
    assert (found.bytes, found.packets, found.direction) == (10_000_000, 7_000, Direction.EGRESS)
    assert found.from_ns == START + 12 * S


# ---------------------------------------------------------------- bonds and virtual functions

BOND = """
version: 1
site: demo
controller: {journal: journal.db, ca: pki/ca.pem, certificate: pki/controller.pem, key: pki/controller.key}
pods: [{name: pod-a, nodes: [node1]}]
nodes:
  - name: node1
    host: {exporter: "http://10.250.0.31:9100/metrics"}
    dpus:
      - name: node1-dpu0
        agent: "10.250.0.11:7443"
        bond: {name: bond0, members: [p0, p1]}
        uplinks:
          - {name: p0, host_port: pf0hpf, host_interface: eth0, line_rate: 10Gbit/s, mtu: 1500}
          - {name: p1, host_port: pf0hpf, host_interface: eth0, line_rate: 10Gbit/s, mtu: 1500}
links:
  - {name: node1/p0, dpu: node1-dpu0, uplink: p0, switch: sw1, port: eth1}
  - {name: node1/p1, dpu: node1-dpu0, uplink: p1, switch: sw1, port: eth2}
switches:
  - name: sw1
    address: "10.250.0.2:161"
    snmp: {version: 3, user: weighbridge, auth: sha256, auth_key_file: s/a, privacy: aes128, privacy_key_file: s/p}
    refresh: 3.5s
    framing: l2_without_fcs
limits: [{scope: node, window: 10s, bytes: 10MB}]
"""


def test_bonded_links_are_judged_as_one_path_and_each_cable_by_itself(make_site: Make, tmp_path: Path) -> None:
    bonded = loads(BOND.encode(), tmp_path / "site.yaml")
    with make_site(1).build(tmp_path / "journal.db") as journal:
        found = evidence(journal, bonded, Period(START + 10 * S, START + 50 * S))
    by_name = {link.link: link for link in found.links if link.direction is Direction.EGRESS}
    assert list(by_name) == ["node1/p0", "node1/p1", "node1-dpu0/bond0"]
    assert set(by_name["node1/p0"].tracks) == {Observer.DPU_UPLINK, Observer.SWITCH}
    assert by_name["node1/p0"].limits == ()
    whole = by_name["node1-dpu0/bond0"]
    assert set(whole.tracks) == set(Observer)
    assert whole.limits == bonded.limits
    switch = whole.tracks[Observer.SWITCH]
    parts = [by_name[name].tracks[Observer.SWITCH].readings[0].bytes for name in ("node1/p0", "node1/p1")]
    assert switch.readings[0].bytes == sum(parts)
    assert switch.line_rate_bytes_per_s is not None
    assert switch.line_rate_bytes_per_s >= 2_500_000_000
    assert whole.tracks[Observer.HOST].readings
    assert whole.tracks[Observer.DPU_UPLINK].readings == (), "the simulated agent has no p1"
    [silence] = whole.tracks[Observer.DPU_UPLINK].looked
    assert silence.text == "the agent is not told to meter p1"
