"""Journaled readings as series: volumes are kept, and nothing is made up between epochs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.crosscheck.model import LinkEvidence, Period, Track
from controller.journal import Journal, Kind, NewEntry
from controller.rules_history import binned, flows, minutes
from protos.reading import Direction, Framing, Observer, Reading
from protos.units import NS_PER_S

STEP_NS = 15 * NS_PER_S
PERIOD = Period(10**18, 10**18 + 100 * STEP_NS)


def _reading(at_ns: int, count: int, epoch: int = 0) -> Reading:
    return Reading(
        earliest_ns=at_ns - 1, latest_ns=at_ns, bytes=count, packets=None, epoch=epoch, framing=Framing.L2_WITHOUT_FCS
    )


def _each_second(seconds: range, rate: int, epoch: int = 0, base: int = 2**63) -> list[Reading]:
    return [_reading(PERIOD.from_ns + at * NS_PER_S, base + rate * at, epoch) for at in seconds]


def test_a_steady_counter_is_its_rate() -> None:
    series = binned("n", _each_second(range(1_501), 1_000), PERIOD, STEP_NS)
    assert series.rate.tolist() == [1_000.0] * 100


def test_between_epochs_nothing_is_known() -> None:
    readings = [*_each_second(range(601), 500), *_each_second(range(660, 1_501), 500, epoch=1, base=0)]
    rate = binned("n", readings, PERIOD, STEP_NS).rate
    assert np.flatnonzero(np.isnan(rate)).tolist() == [40, 41, 42, 43]
    assert set(rate[~np.isnan(rate)]) == {500.0}


@given(st.lists(st.integers(0, 10**12), min_size=2, max_size=50), st.data())
def test_volume_is_kept_however_seldom_one_looked(steps: list[int], data: st.DataObject) -> None:
    totals = np.cumsum(steps).tolist()
    places = sorted(data.draw(st.sets(st.integers(1, 99), min_size=len(totals) - 2, max_size=len(totals) - 2)))
    times = [PERIOD.from_ns + place * STEP_NS for place in (0, *places, 100)]
    series = binned("n", [_reading(at, total) for at, total in zip(times, totals, strict=True)], PERIOD, STEP_NS)
    assert series.volume(0, 100) == pytest.approx(totals[-1] - totals[0], rel=1e-9, abs=1e-3)


def test_both_directions_of_a_link_are_one_flow() -> None:
    evidence = [
        LinkEvidence(
            "n1/p0",
            "n1",
            "a",
            direction,
            {Observer.DPU_UPLINK: Track(Observer.DPU_UPLINK, tuple(_each_second(range(1_501), rate)))},
        )
        for direction, rate in ((Direction.EGRESS, 10), (Direction.INGRESS, 20))
    ]
    (flow,) = flows([*evidence, LinkEvidence("n2/p0", "n2", "a", Direction.EGRESS, {})], PERIOD)
    assert flow.outward is not None
    assert flow.inward is not None
    assert (flow.outward.rate[0], flow.inward.rate[0]) == (10.0, 20.0)


def test_a_frame_of_each_minute(tmp_path: Path) -> None:
    begin_ns = 29_933_333 * 60 * NS_PER_S
    with Journal.create(tmp_path / "journal.db", NewEntry(Kind.SITE, "lab", 1, b"x")) as journal:
        times = [begin_ns + second * NS_PER_S for second in (*range(30, 200), *range(4_000, 4_100))]
        journal.append(*(NewEntry(Kind.FRAME, "a", at_ns, b"f", sequence=n + 1) for n, at_ns in enumerate(times)))
        found = [entry.recorded_ns for entry in minutes(journal, begin_ns - 10**15, begin_ns + 10**15, NS_PER_S)]
    # A second on both sides of each minute; the hour without a frame is passed over.
    begins = (60, 120, 180, 4_020, 4_080)
    assert [(at_ns - begin_ns) // NS_PER_S for at_ns in found] == [at + more for at in begins for more in (-1, 0, 1)]
