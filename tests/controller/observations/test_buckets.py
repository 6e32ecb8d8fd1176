"""What meters told by the millisecond becomes runs: only what is whole, in order and vouched for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.crosscheck.check import crosscheck
from controller.crosscheck.metered import fullest_metered
from controller.crosscheck.model import BucketRun, LinkEvidence, Period, SiteEvidence, WindowsBy
from controller.journal import NewEntry
from controller.observations import evidence
from controller.observations.buckets import MOST_IN_A_BUCKET, wire_bytes
from controller.site import Site
from protos.buckets import Bucket, BucketError, Totals, pack, unpack
from protos.reading import Direction, Observer
from protos.v1 import meter_pb2

if TYPE_CHECKING:
    from tests.controller.observations.conftest import SimulatedSite

MS, S = 1_000_000, 1_000_000_000
START = 1_800_000_000 * S
PERIOD = Period(START + 10 * S, START + 50 * S)
Make = Callable[..., "SimulatedSite"]

moved = st.tuples(st.integers(1, 5000), st.integers(1, 1500), st.integers(0, 900))
rows = st.lists(st.tuples(st.integers(1, 2000), moved), min_size=0, max_size=60)


def series(rows: Sequence[tuple[int, tuple[int, int, int]]], first: int) -> list[Bucket]:
    index, found = first - 1, []
    for gap, (segments, size, more) in rows:
        index += gap
        wire = segments * size + more
        found.append(Bucket(index, Totals(max(1, wire - 54 * (segments - 1)), wire, segments)))
    return found


@settings(max_examples=300, deadline=None)
@given(rows, st.integers(0, 10**15))
def test_whole_columns_give_what_unpacking_one_by_one_gives(
    rows: list[tuple[int, tuple[int, int, int]]], first: int
) -> None:
    buckets = series(rows, first)
    count = max((bucket.index - first + 1 for bucket in buckets), default=0) + 5
    at, held = wire_bytes(pack(first, buckets), first, count)
    assert list(zip(at.tolist(), held.tolist(), strict=True)) == [(b.index, b.moved.wire_bytes) for b in buckets]


@settings(max_examples=500, deadline=None)
@given(rows.filter(bool), st.data())
def test_damaged_series_are_read_alike_or_refused_alike(
    rows: list[tuple[int, tuple[int, int, int]]], data: st.DataObject
) -> None:
    packed = bytearray(pack(7, series(rows, 7)))
    packed[data.draw(st.integers(0, len(packed) - 1))] = data.draw(st.integers(0, 255))
    try:
        wanted = [(bucket.index, bucket.moved.wire_bytes) for bucket in unpack(bytes(packed), 7, 10**6)]
    except BucketError:
        wanted = []
    try:
        at, held = wire_bytes(bytes(packed), 7, 10**6)
    except BucketError:
        return
    # The column of raw bytes is not read here: what it alone would have refused is left to who wants it.
    assert not wanted or list(zip(at.tolist(), held.tolist(), strict=True)) == wanted


def test_a_bucket_of_more_than_any_line_carries_is_not_believed() -> None:
    huge = Bucket(3, Totals(MOST_IN_A_BUCKET, MOST_IN_A_BUCKET, 1))
    with pytest.raises(BucketError, match="more than any line carries"):
        wire_bytes(pack(0, [huge]), 0, 10)


# ---------------------------------------------------------------- from the journal


def gather(simulated: SimulatedSite, site: Site, tmp_path: Path) -> SiteEvidence:
    with simulated.build(tmp_path / "journal.db") as journal:
        return evidence(journal, site, PERIOD)


def runs_of(found: SiteEvidence, observer: Observer, direction: Direction) -> tuple[BucketRun, ...]:
    (link,) = [each for each in found.links if (each.link, each.direction) == ("node1/p0", direction)]
    return link.tracks[observer].buckets


@pytest.mark.parametrize("seed", range(2))
def test_runs_hold_what_was_sent_and_are_where_it_was(make_site: Make, site: Site, tmp_path: Path, seed: int) -> None:
    simulated = make_site(seed)
    simulated.metered = True
    found = gather(simulated, site, tmp_path)
    for link in found.links:
        metered = Observer.DPU_HOST_PORT if link.direction is Direction.EGRESS else Observer.DPU_UPLINK
        for observer, track in link.tracks.items():
            assert bool(track.buckets) is (observer is metered)
        (run,) = link.tracks[metered].buckets
        node = next(each for each in simulated.nodes if each.name == link.node)
        times = node.sent if link.direction is Direction.EGRESS else node.received
        counter = node.counter("host_port" if link.direction is Direction.EGRESS else "uplink", link.direction)
        index, earliest, latest = run.knots[0]
        assert index == run.first
        for index, earliest, latest in run.knots:
            assert earliest <= latest
            assert node.agent_ns(earliest) // MS <= index <= node.agent_ns(latest) // MS + 1
        assert times
        window = 500 * MS
        shown = fullest_metered([link.tracks[metered].buckets], window, *_span(PERIOD), certain_from_ns=PERIOD.from_ns)
        ((first, until),) = shown.covered
        assert (first, until) == (PERIOD.from_ns, PERIOD.to_ns - window)
        starts = [t for at in counter.times for t in (at - 1, at - window) if first <= t <= until]
        true = max(counter.at(t + window) - counter.at(t) for t in starts)
        assert shown.least <= true <= shown.most
        assert shown.most - shown.least <= 5 * counter.frame_bytes


def _span(period: Period) -> tuple[int, int]:
    return period.from_ns, period.to_ns


def test_limits_of_an_honest_site_rest_on_buckets(make_site: Make, site: Site, tmp_path: Path) -> None:
    simulated = make_site(5)
    simulated.metered = True
    result = crosscheck(gather(simulated, site, tmp_path))
    assert not [finding for finding in result.findings if finding.certain]
    by = {
        (link.direction, one.observer): one.most_by
        for link in result.links
        for each in link.limits
        for one in each.witnesses
    }
    assert by[Direction.EGRESS, Observer.DPU_HOST_PORT] is WindowsBy.BUCKETS
    assert by[Direction.INGRESS, Observer.DPU_UPLINK] is WindowsBy.BUCKETS
    assert by[Direction.EGRESS, Observer.SWITCH] is WindowsBy.READINGS


def _bypassed(reading: meter_pb2.MeterReading) -> None:
    reading.audit.findings.append("hook-bypassed")


def _not_audited(reading: meter_pb2.MeterReading) -> None:
    reading.ClearField("audit")


def _lost(reading: meter_pb2.MeterReading) -> None:
    reading.lost_buckets = 2


def _away(reading: meter_pb2.MeterReading) -> None:
    reading.gaps.add(from_ns=1, to_ns=2, reason="hook-lost")


def _unavailable(reading: meter_pb2.MeterReading) -> None:
    reading.unavailable = "kernel-refused"


def _another_sum(reading: meter_pb2.MeterReading) -> None:
    reading.moved.wire_bytes += 1


def _other_totals(reading: meter_pb2.MeterReading) -> None:
    reading.start.wire_bytes += 1


def _damaged(reading: meter_pb2.MeterReading) -> None:
    reading.series = b"\x07" + reading.series


def _far_away(reading: meter_pb2.MeterReading) -> None:
    reading.first_bucket = (1 << 64) - 2_000


def _without_end(reading: meter_pb2.MeterReading) -> None:
    reading.bucket_count = (1 << 64) - 1


def _unplaced_beyond_belief(reading: meter_pb2.MeterReading) -> None:
    part = reading.unplaced.add(first_bucket=reading.first_bucket, count=1)
    part.moved.wire_bytes = 1 << 63
    reading.moved.wire_bytes += 1 << 63


TROUBLES = [
    _far_away,
    _without_end,
    _unplaced_beyond_belief,
    _bypassed,
    _not_audited,
    _lost,
    _away,
    _unavailable,
    _another_sum,
    _other_totals,
    _damaged,
]


@pytest.mark.parametrize("trouble", TROUBLES, ids=lambda each: each.__name__)
def test_what_is_not_in_order_ends_a_run_and_casts_doubt_on_the_frame_before(
    make_site: Make, site: Site, tmp_path: Path, trouble: Callable[[meter_pb2.MeterReading], None]
) -> None:
    simulated = make_site(1)
    simulated.metered = True
    seen: dict[int, tuple[int, int]] = {}

    def spoil(node: str, sequence: int, reading: meter_pb2.MeterReading) -> None:
        if node != "node1" or reading.port != "pf0hpf":
            return
        seen[sequence] = reading.first_bucket, reading.first_bucket + reading.bucket_count
        if sequence == 30:
            trouble(reading)

    simulated.meter_trouble = spoil
    found = gather(simulated, site, tmp_path)
    before, after = runs_of(found, Observer.DPU_HOST_PORT, Direction.EGRESS)
    assert before.first + before.count == seen[29][0]
    assert after.first == seen[31][0]
    assert len(runs_of(found, Observer.DPU_UPLINK, Direction.INGRESS)) == 1


def test_what_was_counted_late_is_unplaced_in_the_run(make_site: Make, site: Site, tmp_path: Path) -> None:
    simulated = make_site(2)
    simulated.metered = True

    def late(node: str, sequence: int, reading: meter_pb2.MeterReading) -> None:
        if node == "node1" and reading.port == "pf0hpf" and sequence >= 20:
            if sequence == 20:
                part = reading.unplaced.add(first_bucket=reading.first_bucket - 3, count=2)
                part.moved.wire_bytes, part.moved.raw_bytes, part.moved.segments = 700, 700, 1
                reading.moved.wire_bytes += 700
            else:
                reading.start.wire_bytes += 700

    simulated.meter_trouble = late
    (run,) = runs_of(gather(simulated, site, tmp_path), Observer.DPU_HOST_PORT, Direction.EGRESS)
    assert [(count, size) for _, count, size in run.unplaced] == [(2, 700)]
    assert np.all(np.diff(run.at.astype(np.int64)) > 0)


def test_frames_that_never_came_end_a_run(make_site: Make, site: Site, tmp_path: Path) -> None:
    simulated = make_site(3)
    simulated.metered = True
    original = simulated._add
    dropped: list[NewEntry] = []

    def add(entry: NewEntry) -> None:
        if entry.kind.value == "frame" and entry.source == "node1-dpu0" and entry.sequence in {25, 26}:
            dropped.append(entry)
        else:
            original(entry)

    simulated._add = add  # type: ignore[method-assign]
    found = gather(simulated, site, tmp_path)
    assert len(dropped) == 2
    assert len(runs_of(found, Observer.DPU_HOST_PORT, Direction.EGRESS)) == 2


def test_links_without_a_meter_have_no_runs(make_site: Make, site: Site, tmp_path: Path) -> None:
    found = gather(make_site(0), site, tmp_path)
    assert all(not track.buckets for link in found.links for track in link.tracks.values())
    assert all(isinstance(link, LinkEvidence) for link in found.links)
