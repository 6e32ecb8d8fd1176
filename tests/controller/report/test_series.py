from __future__ import annotations

import itertools
from collections.abc import Mapping

from hypothesis import given, settings
from hypothesis import strategies as st

from controller.crosscheck.model import CrossCheck, Period, SiteEvidence, Track
from controller.crosscheck.observed import observe
from controller.crosscheck.quantity import bounds
from controller.report.series import most_in_windows, seen
from protos.reading import Direction, Observer, Reading

Scenarios = Mapping[str, tuple[CrossCheck, SiteEvidence]]


@st.composite
def tracks(draw: st.DrawFn) -> tuple[Track, list[int]]:
    """A counter that rises by known steps each tick, and readings that are true of it; with the counter itself."""
    rises = draw(st.lists(st.integers(0, 50), min_size=30, max_size=60))
    counter = [0]
    for rise in rises:
        counter.append(counter[-1] + rise)
    readings = []
    for at in draw(st.lists(st.integers(0, len(rises)), min_size=2, max_size=12, unique=True)):
        earliest = draw(st.integers(max(0, at - 4), at))
        latest = draw(st.integers(at, min(len(rises), at + 4)))
        readings.append(Reading(earliest, latest, counter[at]))
    readings.sort(key=lambda reading: (reading.earliest_ns, reading.latest_ns))
    return Track(Observer.SWITCH, tuple(readings)), counter


@settings(deadline=None)
@given(tracks(), st.integers(1, 20), st.integers(1, 40))
def test_columns_show_the_fullest_window_that_ends_in_them(
    made: tuple[Track, list[int]], window: int, columns: int
) -> None:
    track, counter = made
    period = Period(0, len(counter) - 1)
    one = observe(track, 0)
    begin = min(reading.latest_ns for reading in track.readings)
    for column in most_in_windows(one, period, window, columns):
        ends = range(column.from_ns + 1, column.to_ns + 1)
        each = [bounds(one.bytes, max(begin, end - window), end) for end in ends]
        assert column.lower == max(least for least, _ in each)
        unbounded = any(most is None for _, most in each)
        assert column.upper == (None if unbounded else max(most for _, most in each if most is not None))
        true = max(counter[end] - counter[max(begin, end - window)] for end in ends)
        assert column.lower <= true
        assert column.upper is None or true <= column.upper


@settings(deadline=None)
@given(tracks(), st.integers(1, 20), st.integers(1, 40))
def test_columns_cover_what_the_readings_span_without_a_seam(
    made: tuple[Track, list[int]], window: int, columns: int
) -> None:
    track, counter = made
    begin, end = min(r.latest_ns for r in track.readings), max(r.earliest_ns for r in track.readings)
    drawn = most_in_windows(observe(track, 0), Period(0, len(counter) - 1), window, columns)
    if begin >= end:
        assert drawn == []
        return
    assert drawn[0].from_ns == begin
    assert drawn[-1].to_ns == end
    assert len(drawn) == min(columns, end - begin)
    assert all(one.to_ns == after.from_ns for one, after in itertools.pairwise(drawn))


def test_an_observer_without_readings_draws_nothing() -> None:
    assert most_in_windows(observe(Track(Observer.HOST, ()), 0), Period(0, 100), 10, 5) == []


def test_the_highest_column_is_the_worst_window_of_the_cross_check(scenarios: Scenarios) -> None:
    """What the plot shows at its peak is what the verdict rests on, for the observer that proves most."""
    result, evidence = scenarios["training"]
    link = next(one for one in result.links if (one.link, one.direction) == ("node1/p0", Direction.EGRESS))
    observed = seen(evidence)["node1/p0", Direction.EGRESS].observed
    limit = link.limits[0]
    peaks = sorted(
        max(c.lower for c in most_in_windows(observed[o], evidence.period, limit.limit.window_ns, 180))
        for o in (Observer.HOST, Observer.DPU_UPLINK, Observer.SWITCH)
    )
    assert peaks[0] <= limit.worst_at_least_bytes <= peaks[-1]
    assert peaks[-1] > limit.limit.bytes


def test_gaps_are_those_of_the_coverage(scenarios: Scenarios) -> None:
    _, evidence = scenarios["with-gaps"]
    one = seen(evidence)["node3/p0", Direction.EGRESS]
    (gap,) = [
        (a, b) for a, b in one.gaps(Observer.SWITCH, evidence.period) if b - a > evidence.assumptions.largest_gap_ns
    ]
    assert gap[1] - gap[0] > 23 * 10**9
    assert one.gaps(Observer.DPU_UPLINK, evidence.period) == ()
