"""The enforcement check: a token bucket that keeps its orders is never accused, one that lets more through is."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.crosscheck.enforcement import Allowed, Look, Window, WindowScan, excess, step

S = 10**9
LEASE = Allowed(1_000_000, 64_000, until_ns=100 * S)
FLOOR = Allowed(0, 0)


def steady(rate: int, seconds: int, order: Allowed = LEASE, burst: int = 0) -> list[Look]:
    return [Look(at * S, at * S + 1_000_000, burst * (at > 0) + rate * at, order) for at in range(seconds + 1)]


def test_a_rate_that_is_kept_is_never_accused_and_one_just_above_it_is_in_time() -> None:
    assert excess(steady(1_000_000, 90, burst=64_000)) is None
    # One in a hundred over: 10 kB a second, found once it is more than the depth and the looks' own width.
    found = excess(steady(1_010_000, 90))
    assert found is not None
    assert found.bytes == 90 * 10_000 - 64_000 - 90 * 1_000
    assert (found.from_ns, found.to_ns) == (0, 90 * S + 1_000_000)


def test_what_passes_after_the_end_of_a_lease_is_found() -> None:
    looks = [
        Look(99 * S, 99 * S, 0, LEASE),
        Look(101 * S, 101 * S, 1_000_000, FLOOR),
        Look(102 * S, 102 * S, 1_000_000, FLOOR),
    ]
    assert excess(looks) is None
    open_longer = [*looks[:2], Look(102 * S, 102 * S, 1_064_001, FLOOR)]
    found = excess(open_longer)
    assert found is not None
    # At the floor nothing is allowed, and no bucket is left over from the lease.
    assert (found.bytes, found.from_ns) == (64_001, 101 * S)


def test_a_floor_lets_nothing_through() -> None:
    assert excess([Look(0, 0, 5, FLOOR), Look(S, S, 5, FLOOR)]) is None
    found = excess([Look(0, 0, 5, FLOOR), Look(S, S, 6, FLOOR)])
    assert found is not None
    assert (found.bytes, found.passed_bytes, found.allowed_bytes) == (1, 1, 0)


def test_a_lease_that_came_and_went_between_two_looks_is_counted_and_a_renewal_adds_no_depth() -> None:
    between = Allowed(5_000_000, 10_000, from_ns=S, until_ns=3 * S)
    looks = [Look(0, 0, 0, FLOOR), Look(4 * S, 4 * S, 10_010_000, FLOOR, (between,))]
    assert step(*looks) == 10_010_000
    assert excess(looks) is None
    renewed = Allowed(1_000_000, 64_000, from_ns=10 * S, until_ns=130 * S)
    before, after = Look(10 * S, 10 * S, 0, LEASE), Look(11 * S, 11 * S, 0, renewed)
    assert step(before, after) == 1_000_000
    # One that had ended leaves its floor in between, and the next bucket may begin full.
    assert (
        step(Look(99 * S, 99 * S, 0, LEASE), Look(101 * S, 101 * S, 0, Allowed(0, 64_000, from_ns=101 * S)))
        == 1_064_000
    )


def test_nothing_is_said_of_no_looks() -> None:
    assert excess([]) is None
    assert excess([Look(0, 0, 10**12, FLOOR)]) is None


ORDERS = st.lists(st.tuples(st.integers(0, 5_000), st.integers(0, 3_000), st.integers(1, 30)), min_size=1, max_size=6)


@settings(deadline=None)
@given(ORDERS, st.data())
def test_a_bucket_that_begins_full_at_every_change_and_is_greedy_is_never_accused(
    orders: list[tuple[int, int, int]], data: st.DataObject
) -> None:
    """Time in milliseconds: each order lives so many, then its floor of zero holds until the next."""
    looks, passed, tokens, now = [], 0, Fraction(0), 0
    pending: list[Allowed] = []
    current = FLOOR
    for rate, depth, life in orders:
        begin = now
        gap = data.draw(st.integers(0, 5))
        order = Allowed(rate * 1_000, depth, begin * 10**6, (begin + life) * 10**6)
        tokens = Fraction(depth)
        current = order
        pending.append(order)
        for _ in range(life + gap):
            tokens = min(Fraction(depth), tokens + rate) if now < begin + life else Fraction(0)
            sent = data.draw(st.integers(0, int(tokens)))
            if now < begin + life:
                tokens -= sent
                passed += sent
            now += 1
            if data.draw(st.booleans()):
                changes = tuple(pending[:-1]) if pending else ()
                looks.append(Look(now * 10**6, now * 10**6, passed, current, changes))
                pending = []
    assert excess(looks) is None


@settings(deadline=None)
@given(
    st.integers(1, 10**9), st.integers(0, 10**8), st.lists(st.integers(1, 5 * S), min_size=1, max_size=20), st.data()
)
def test_every_pair_of_looks_is_tested(rate: int, depth: int, gaps: list[int], data: st.DataObject) -> None:
    order = Allowed(rate, depth)
    at, passed = 0, 0
    looks = [Look(0, 0, 0, order)]
    for gap in gaps:
        at += gap
        passed += data.draw(st.integers(0, 2 * (rate * gap // S) + depth + 1))
        looks.append(Look(at, at, passed, order))
    steps = [step(before, after) for before, after in pairwise(looks)]
    worst = 0
    for i in range(len(looks)):
        for j in range(i + 1, len(looks)):
            worst = max(worst, looks[j].passed_bytes - looks[i].passed_bytes - sum(steps[i:j]) - depth)
    found = excess(looks)
    assert (found.bytes if found else 0) == worst


@pytest.mark.parametrize("late_ns", [0, 1, 10**6])
def test_the_width_of_a_look_is_no_excess(late_ns: int) -> None:
    looks = [Look(0, late_ns, 0, LEASE), Look(S, S + late_ns, 1_000_000 + 64_000 + late_ns // 1_000, LEASE)]
    assert excess(looks) is None


@given(st.dictionaries(st.integers(0, 60), st.integers(0, 5_000), max_size=25), st.integers(0, 3_000_000))
def test_the_worst_window_is_the_worst_of_all_windows(passed: dict[int, int], rate: int) -> None:
    buckets = sorted(passed.items())
    windows = {
        Window(first, last, sum(size for index, size in buckets if first <= index <= last))
        for number, (first, _) in enumerate(buckets)
        for last, _ in buckets[number:]
    }
    beyond = {each: each.bytes - Fraction(rate * (each.last - each.first + 1), 1_000) for each in windows}
    scan = WindowScan(rate, 1_000_000)
    for index, size in buckets:
        scan.take(index, size)
    assert scan.beyond == max([Fraction(0), *beyond.values()])
    assert (scan.window is None) == (scan.beyond == 0)
    assert scan.window is None or beyond[scan.window] == scan.beyond
