"""Windows from meters' buckets: a drifting clock of unknown offset, runs with breaks, several ports."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.crosscheck.case import Case
from controller.crosscheck.limits import judge_limit
from controller.crosscheck.metered import NOTHING_METERED, added, fullest_metered
from controller.crosscheck.model import (
    Assumptions,
    BucketRun,
    Holds,
    Limit,
    LinkEvidence,
    Period,
    WindowsBy,
    WindowWitness,
)
from protos.reading import Direction, Observer
from tests.controller.crosscheck.cases import cases
from tests.controller.crosscheck.scene import MS, S, Truth, everywhere, link, steady

T0 = 1_790_000_000 * S
DRIFT_PPM = 200


class Clock:
    """A device's clock: its own nanoseconds and how they run against true time."""

    def __init__(self, rng: random.Random, name: str = "a") -> None:
        self.name, self.offset, self.ppm = name, rng.randrange(10**12), rng.randint(-DRIFT_PPM, DRIFT_PPM)

    def device(self, true_ns: int) -> int:
        gone = true_ns - T0
        return self.offset + gone + gone * self.ppm // 1_000_000

    def true(self, device_ns: int) -> int:
        gone = device_ns - self.offset
        return T0 + gone - gone * self.ppm // 1_000_000


def told(truth: Truth, clock: Clock, span: tuple[int, int], rng: random.Random, loose: float = 0.0) -> BucketRun:
    """The buckets that the meter tells of between two true times; some bytes of it unplaced."""
    (from_ns, to_ns), width = span, MS
    first, end = clock.device(from_ns) // width, clock.device(to_ns) // width
    held = np.zeros(end - first, dtype=np.int64)
    unplaced = []
    for at, size in truth.frames:
        index = clock.device(at) // width
        if not first <= index < end:
            continue
        if rng.random() < loose:
            begin = index - rng.randrange(5)
            unplaced.append((begin, index - begin + 1 + rng.randrange(5), size))
        else:
            held[index - first] += size
    knots = []
    for index in sorted({first, *range(first, end, 1000), end}):
        true = clock.true(index * width)
        knots.append((index, true - rng.randrange(2 * MS), true + rng.randrange(2 * MS)))
    full = np.flatnonzero(held)
    return BucketRun(
        clock.name, width, 1000, first, end - first, full.astype(np.uint32), held[full].astype(np.uint32),
        tuple(sorted(unplaced)), tuple(knots),
    )  # fmt: skip


def truth_of(rng: random.Random, seconds: int, frames: int) -> Truth:
    times = sorted(T0 + rng.randrange(seconds * S) for _ in range(frames))
    return Truth(tuple((at, rng.randint(60, 1500)) for at in times))


def fullest(truth: Truth, window: int, first: int, last: int) -> int:
    """The most in any window that begins from ``first`` to ``last``: it begins before a frame, or ends with one."""
    starts = {first, last, *(t for at, _ in truth.frames for t in (at - 1, at - window) if first <= t <= last)}
    return max(truth.between(t, t + window) for t in starts)


@settings(max_examples=cases(150), deadline=None)
@given(st.integers(0, 2**32), st.sampled_from([MS, 10 * MS, 700 * MS, 3 * S]), st.booleans())
def test_the_truth_lies_between(seed: int, window: int, loose: bool) -> None:
    rng = random.Random(seed)
    seconds = rng.randint(4, 9)
    truth, clock = truth_of(rng, seconds, rng.choice([3, 200, 3000])), Clock(rng)
    edges = sorted(rng.randint(0, seconds * 1000) for _ in range(4))
    runs = [
        told(truth, clock, (T0 + a * MS, T0 + b * MS), rng, 0.3 if loose else 0.0)
        for a, b in ((edges[0], edges[1]), (edges[2], edges[3]))
        if b - a > 2
    ]
    period = T0 + rng.randrange(S), T0 + seconds * S - rng.randrange(S)
    found = fullest_metered([runs], window, *period, certain_from_ns=period[0])
    last = max(period[0], period[1] - window)
    assert found.least <= fullest(truth, min(window, period[1] - period[0]), period[0], last)
    for first, until in found.covered:
        assert fullest(truth, window, first, until) <= found.most
    if found.from_ns is not None:
        # The window that was shown begins where it is said to, and holds what it is said to hold.
        around = truth.between(found.from_ns - 1, found.from_ns + found.exact_to_ns + window)
        assert found.least <= around


@settings(max_examples=cases(100), deadline=None)
@given(st.integers(0, 2**32), st.booleans())
def test_of_several_ports_the_sum_lies_between(seed: int, one_clock: bool) -> None:
    rng = random.Random(seed)
    truths = [truth_of(rng, 5, 300) for _ in range(3)]
    clocks = [Clock(rng, "a")] * 3 if one_clock else [Clock(rng, name) for name in "abc"]
    ports = [
        [told(truth, clock, (T0 + rng.randrange(200) * MS, T0 + 5 * S - rng.randrange(200) * MS), rng)]
        for truth, clock in zip(truths, clocks, strict=True)
    ]
    whole = Truth(tuple(sorted(frame for truth in truths for frame in truth.frames)))
    found = fullest_metered(ports, 300 * MS, T0, T0 + 5 * S, certain_from_ns=T0)
    assert found.least <= fullest(whole, 300 * MS, T0, T0 + 5 * S - 300 * MS)
    assert found.covered
    for first, until in found.covered:
        assert fullest(whole, 300 * MS, first, until) <= found.most
    if one_clock:
        assert found.most - found.least <= 6 * 1500 * 3


def test_ports_are_added_up_where_both_are_known() -> None:
    rng = random.Random(3)
    clock = Clock(rng)
    one, other = truth_of(rng, 3, 200), truth_of(rng, 3, 200)
    first = told(one, clock, (T0, T0 + 2 * S), rng)
    second = told(other, clock, (T0 + S, T0 + 3 * S), rng)
    (both,) = added([first], [second])
    assert (both.first, both.first + both.count) == (second.first, first.first + first.count)
    edges = [clock.true(index * MS) for index in (both.first, both.first + both.count)]
    assert abs(int(both.bytes.sum()) - sum(t.between(*edges) for t in (one, other))) <= 4 * 1500


def test_a_port_without_buckets_covers_nothing() -> None:
    rng = random.Random(4)
    run = told(truth_of(rng, 3, 200), Clock(rng), (T0, T0 + 3 * S), rng)
    found = fullest_metered([[run], []], S, T0, T0 + 3 * S, certain_from_ns=T0)
    assert found.covered == ()
    assert found.least > 0
    assert fullest_metered([[]], S, T0, T0 + 3 * S, certain_from_ns=T0) == NOTHING_METERED


# ---------------------------------------------------------------- in a limit

PERIOD = Period(T0 + 5 * S, T0 + 55 * S)
BURST = Truth((*((T0 + 30 * S + i * MS, 1_000) for i in range(200)),))


def metered(truth: Truth, runs: list[tuple[int, int]]) -> LinkEvidence:
    built = link(everywhere(truth), direction=Direction.EGRESS, start=T0 - 20 * S, end=T0 + 80 * S)
    rng = random.Random(1)
    clock = Clock(rng)
    own = tuple(told(truth, clock, (T0 + a * S, T0 + b * S), rng) for a, b in runs)
    track = replace(built.tracks[Observer.DPU_UPLINK], buckets=own)
    return replace(built, tracks={**built.tracks, Observer.DPU_UPLINK: track})


def shown(evidence: LinkEvidence, limit: Limit, liars: int = 0) -> tuple[Holds, WindowWitness, str]:
    case = Case.of(evidence, Assumptions(liars=liars, in_flight_bytes=0), PERIOD)
    result = judge_limit(limit, [case], PERIOD.from_ns)
    (uplink,) = [one for one in result.witnesses if one.observer is Observer.DPU_UPLINK]
    return result.holds, uplink, result.text


def test_a_burst_is_seen_to_the_millisecond() -> None:
    limit = Limit(100 * MS, 90_000)
    holds, blurred, text = shown(metered(BURST, []), limit)
    assert blurred.least_by is blurred.most_by is WindowsBy.READINGS
    assert "millisecond" not in text
    holds, sharp, text = shown(metered(BURST, [(0, 60)]), limit)
    assert (holds, sharp.least_by, sharp.most_by) == (Holds.NO, WindowsBy.BUCKETS, WindowsBy.BUCKETS)
    assert 99_000 <= sharp.least <= 100_000 <= (sharp.most or 0) <= 103_000
    assert sharp.from_ns is not None
    assert abs(sharp.from_ns - (T0 + 30 * S)) <= 110 * MS
    assert sharp.exact_to_ns <= 10 * MS
    assert "by the millisecond in the window from" in text
    assert "the DPU's uplink by millisecond buckets in 100.0 % of the windows" in text
    assert shown(metered(BURST, [(0, 60)]), Limit(100 * MS, 110_000))[0] is Holds.YES


def test_where_buckets_are_missing_the_readings_tell() -> None:
    burst = (T0 + 30 * S, T0 + 31 * S)
    limit = Limit(100 * MS, 150_000)
    _, mixed, _ = shown(metered(BURST, [(0, 20), (22, 60)]), limit)
    assert mixed.most_by is WindowsBy.BOTH
    assert 0.9 < mixed.bucket_share < 1
    # The break is at a quiet time, which the readings show to be one.
    assert (mixed.most or 0) <= 103_000
    holds, blind, _ = shown(metered(BURST, [(0, 29), (32, 60)]), limit)
    assert holds is not Holds.NO
    assert (blind.most or 10**9) >= BURST.between(*burst) // 2
    assert blind.most_by in {WindowsBy.BOTH, WindowsBy.READINGS}


def test_a_period_of_one_window_is_covered_as_a_whole() -> None:
    evidence = metered(steady(T0, T0 + 60 * S, 50_000), [(0, 60)])
    limit = Limit(3_600 * S, 10_000_000)
    _, witness, _ = shown(evidence, limit)
    assert witness.bucket_share == 1.0
    assert witness.most_by in {WindowsBy.BUCKETS, WindowsBy.READINGS}


@pytest.mark.parametrize("liars", [1])
def test_one_domain_alone_convicts_nobody(liars: int) -> None:
    """The meter is the DPU's: what it alone shows needs the switch's word beside it."""
    holds, sharp, _ = shown(metered(BURST, [(0, 60)]), Limit(100 * MS, 90_000), liars)
    assert sharp.least > 90_000
    assert holds is Holds.UNKNOWN
