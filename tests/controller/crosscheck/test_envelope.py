"""Bounds from readings: the specification's vectors, and every bound against shortest paths."""

from __future__ import annotations

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from controller.crosscheck.account import Account
from controller.crosscheck.epochs import epochs_of
from controller.crosscheck.exact import Line, Rate, whole
from controller.crosscheck.framing import on_the_wire
from controller.crosscheck.model import EpochStart
from controller.crosscheck.quantity import bounds
from controller.crosscheck.windows import certain_excess, fullest
from protos.reading import Reading
from tests.controller.crosscheck.cases import cases
from tests.controller.crosscheck.oracle import Oracle, Said, Zero

K = 1000
LAST = 14


def account(
    *said: tuple[int, int, int] | Said,
    rate: int | None = None,
    step: int = 0,
    starts: dict[int, EpochStart] | None = None,
    proven: frozenset[int] | None = None,
    origin: int = 0,
) -> Account:
    readings = [one if isinstance(one, Said) else Said(*one) for one in said]
    epochs = epochs_of(
        [Reading(one.earliest, one.latest, one.value, None, one.epoch, bytes_slack=one.slack) for one in readings],
        origin=origin,
        proven=frozenset(one.epoch for one in readings) if proven is None else proven,
        starts=starts or {},
    )
    return Account(epochs, None if rate is None else Line(Rate(rate, 1), step))


def test_vector_1_without_a_line_rate_bounds_come_from_readings_wholly_before_or_after() -> None:
    said = ((0, 10, 1000), (1000, 1010, 5000), (2000, 2010, 9000))
    assert bounds(account(*said), 10, 2000) == (0, 8000)
    assert bounds(account(*said), 0, 1500) == (4000, None)
    assert bounds(account(*said, starts={0: EpochStart(by_ns=0)}), 0, 1500) == (4000, 9000)


def test_vector_2_a_line_rate_tightens_the_lower_bound() -> None:
    said = ((0, 0, 0), (100, 130, 50_000), (200, 230, 60_000))
    assert bounds(account(*said), 0, 110) == (0, 60_000)
    assert bounds(account(*said, rate=1000, step=1500), 0, 110) == (28_500, 60_000)


def test_vector_3_a_decrease_is_certain_only_if_the_windows_are_apart() -> None:
    assert account((0, 50, 700), (10, 20, 900)).contradictions == ()
    (wrong,) = account((0, 5, 900), (10, 20, 700)).contradictions
    assert wrong.excess == 200
    assert "reset" in str(wrong)
    assert bounds(account((0, 5, 900), (10, 20, 700)), 0, 20) == (0, None)


def test_vector_4_a_steady_excess_shows_over_several_windows() -> None:
    said = [(10_000 * k, 10_000 * k + 20, 11_000_000 * k) for k in range(3)]
    found = certain_excess(account(*said), 1000, 1_000_000, 0, 30_000)
    assert found is not None
    assert found.bytes == 1_000_000


def test_vector_6_the_fullest_possible_window() -> None:
    said = [(15 * k - 3, 15 * k, 15 * k - 1) for k in range(1, 41)]
    assert fullest(account(*said), 300, 15, 597).most == 330


def test_vector_7_bytes_around_a_reset() -> None:
    said = (Said(0, 0, 1000), Said(10, 10, 300, epoch=1))
    known = account(*said, rate=100, starts={1: EpochStart(by_ns=6, not_before_ns=4)})
    assert bounds(known, 0, 10) == (300, 900)
    assert bounds(account(*said, rate=100, starts={1: EpochStart()}), 0, 10) == (300, 1000)
    # Not even that it began at zero is known: anything the line can carry, or nothing.
    assert bounds(account(*said, rate=100), 0, 10) == (0, 1000)
    assert bounds(account(*said), 0, 10) == (0, None)


def test_vector_9_super_packets_on_the_wire() -> None:
    assert on_the_wire(207_922_400, (3630, 3630), (143_626, 143_626), (54, 66)) == (215_482_184, 217_162_136)


def test_the_spread_of_a_range_widens_both_bounds() -> None:
    said = (Said(0, 0, 100, slack=5), Said(10, 10, 200, slack=7))
    assert bounds(account(*said), 0, 10) == (95, 107)


times = st.integers(0, LAST)


@st.composite
def one_epoch(draw: st.DrawFn) -> tuple[list[Said], int | None, int]:
    """Readings of a true counter, and sometimes a line rate that it keeps."""
    rate = draw(st.sampled_from([None, None, 3, 10]))
    step = draw(st.sampled_from([0, 4]))
    counter = [draw(st.integers(0, 5))]
    for _ in range(LAST):
        most = 12 if rate is None else rate
        counter.append(counter[-1] + draw(st.integers(0, most)))
    said = []
    for _ in range(draw(st.integers(1, 6))):
        at = draw(times)
        earliest, latest = draw(st.integers(0, at)), draw(st.integers(at, LAST))
        slack = draw(st.sampled_from([0, 0, 0, 3]))
        said.append(Said(earliest, latest, max(0, counter[at] - draw(st.integers(0, slack))), slack=slack))
    return said, rate, step


@settings(max_examples=cases(400), deadline=None)
@given(one_epoch(), times, times)
def test_bounds_of_one_epoch_are_exactly_the_tightest(case: tuple[list[Said], int | None, int], a: int, b: int) -> None:
    said, rate, step = case
    assume(a < b)
    oracle = Oracle(said, LAST, rate=rate, step=step)
    assert oracle.possible
    built = account(*said, rate=rate, step=step)
    assert built.contradictions == ()
    assert bounds(built, a, b) == oracle.bounds(a, b)


@st.composite
def any_readings(draw: st.DrawFn) -> tuple[list[Said], int | None]:
    """Readings that need not be true."""
    said = []
    for _ in range(draw(st.integers(2, 5))):
        earliest = draw(times)
        said.append(Said(earliest, draw(st.integers(earliest, LAST)), draw(st.integers(0, 40))))
    return said, draw(st.sampled_from([None, 2, 5]))


@settings(max_examples=cases(400), deadline=None)
@given(any_readings())
def test_a_contradiction_is_found_exactly_when_no_counter_fits(case: tuple[list[Said], int | None]) -> None:
    said, rate = case
    assert bool(account(*said, rate=rate, step=1).contradictions) == (
        not Oracle(said, LAST, rate=rate, step=1).possible
    )


@st.composite
def epochs(draw: st.DrawFn) -> tuple[list[Said], list[Zero], int | None, int, list[int]]:
    """A true total over one to three epochs, what was read of them, and which starts are known."""
    rate, step = draw(st.sampled_from([(None, 0), (5, 0), (5, 3)]))
    total = [0]
    for _ in range(LAST):
        total.append(total[-1] + draw(st.integers(0, 9 if rate is None else rate)))
    resets = sorted(draw(st.sets(st.integers(1, LAST), max_size=2)))
    zeros, said = [], []
    for epoch, (start, end) in enumerate(zip([0, *resets], [*resets, LAST + 1], strict=True)):
        base = total[start] - (draw(st.integers(0, 9)) if epoch == 0 else 0)
        # A window may reach over a reset; the value was read in its own epoch.
        said += [
            Said(draw(st.integers(0, at)), draw(st.integers(at, LAST)), total[at] - base, epoch)
            for at in draw(st.lists(st.integers(start, end - 1), min_size=1, max_size=3))
        ]
        if epoch > 0 and draw(st.booleans()):
            zeros.append(Zero(epoch, draw(st.integers(0, start)), draw(st.integers(start, LAST))))
    return said, zeros, rate, step, total


@settings(max_examples=cases(600), deadline=None)
@given(epochs(), times, times)
def test_bounds_across_epochs_hold_and_are_no_looser_than_they_must(
    case: tuple[list[Said], list[Zero], int | None, int, list[int]], a: int, b: int
) -> None:
    said, zeros, rate, step, total = case
    assume(a < b)
    starts = {zero.epoch: EpochStart(by_ns=zero.by, not_before_ns=zero.not_before) for zero in zeros}
    built = account(*said, rate=rate, step=step, starts=starts)
    assert built.contradictions == ()
    least, most = bounds(built, a, b)
    assert least <= total[b] - total[a]
    assert most is None or total[b] - total[a] <= most
    oracle = Oracle(said, LAST, rate=rate, step=step, zeros=zeros)
    assert least <= oracle.bounds(a, b)[0]
    tightest = oracle.bounds(a, b)[1]
    assert most is None or (tightest is not None and tightest <= most)
    if rate is None:
        assert (least, most) == oracle.bounds(a, b)


@settings(max_examples=cases(200), deadline=None)
@given(one_epoch(), times, times, times)
def test_splitting_a_period_of_one_epoch_gains_and_loses_nothing(
    case: tuple[list[Said], int | None, int], a: int, b: int, c: int
) -> None:
    said, rate, step = case
    a, b, c = sorted((a, b, c))
    built = account(*said, rate=rate, step=step)
    (first_least, first_most), (second_least, second_most) = bounds(built, a, b), bounds(built, b, c)
    least, most = bounds(built, a, c)
    assert least >= first_least + second_least
    if first_most is not None and second_most is not None:
        assert most is not None
        assert most <= first_most + second_most


@settings(max_examples=cases(200), deadline=None)
@given(epochs(), times, times, times)
def test_splitting_a_period_across_epochs_never_contradicts_the_whole(
    case: tuple[list[Said], list[Zero], int | None, int, list[int]], a: int, b: int, c: int
) -> None:
    said, _, rate, step, _ = case
    a, b, c = sorted((a, b, c))
    built = account(*said, rate=rate, step=step)
    (first_least, first_most), (second_least, second_most) = bounds(built, a, b), bounds(built, b, c)
    least, most = bounds(built, a, c)
    assert least >= first_least + second_least
    assert most is None or first_least + second_least <= most
    assert first_most is None or second_most is None or least <= first_most + second_most


@settings(max_examples=cases(300), deadline=None)
@given(one_epoch(), times, times, st.data())
def test_more_readings_never_loosen(
    case: tuple[list[Said], int | None, int], a: int, b: int, data: st.DataObject
) -> None:
    said, rate, step = case
    assume(a < b)
    fewer = data.draw(st.lists(st.sampled_from(said), min_size=1))
    least, most = bounds(account(*said, rate=rate, step=step), a, b)
    looser_least, looser_most = bounds(account(*fewer, rate=rate, step=step), a, b)
    assert least >= looser_least
    assert looser_most is None or (most is not None and most <= looser_most)


@settings(max_examples=cases(300), deadline=None)
@given(
    one_epoch(),
    times,
    times,
    st.sampled_from([1, 10**9, 1_790_000_000 * 10**9]),
    st.sampled_from([0, 2**32, 2**63 - 50, 2**64 - 500]),
)
def test_size_of_times_and_values_changes_nothing(
    case: tuple[list[Said], int | None, int], a: int, b: int, origin: int, base: int
) -> None:
    said, rate, step = case
    assume(a < b)
    moved = [Said(one.earliest + origin, one.latest + origin, one.value + base, one.epoch, one.slack) for one in said]
    here, there = account(*said, rate=rate, step=step), account(*moved, rate=rate, step=step, origin=origin)
    assert bounds(here, a, b) == bounds(there, a, b)


@pytest.mark.parametrize("bytes_per_s", [125_000_000, 1_250_000_001, 50_000_000_000, 99_999_999_977, 7])
@settings(max_examples=cases(60), deadline=None)
@given(st.lists(st.integers(-(10**15), 10**15), min_size=1, max_size=20))
def test_positions_are_exact_for_any_rate(bytes_per_s: int, at: list[int]) -> None:
    rate = Rate.per_second(bytes_per_s)
    assert [int(one) for one in rate.position(whole(at))] == [bytes_per_s * t // 10**9 for t in at]


def test_of_two_overlapping_readings_around_an_unnoticed_restart_the_higher_may_be_the_older() -> None:
    """The counter had 977, restarted unnoticed, and stood at 0: nothing passed after time 3."""
    said = (Said(0, 6, 977), Said(3, 9, 0))
    assert bounds(account(*said), 3, 6) == (977, None)
    assert bounds(account(*said, proven=frozenset()), 3, 6) == (0, None)
    assert bounds(account(*said, proven=frozenset()), 0, 20) == (0, None)


def test_an_epoch_of_unproven_continuity_has_a_least_but_no_most() -> None:
    said = (Said(0, 0, 1000), Said(10, 10, 1300))
    assert bounds(account(*said, proven=frozenset()), 0, 10) == (300, None)
    assert bounds(account(*said, proven=frozenset(), rate=100, step=7), 0, 10) == (300, 1007)
