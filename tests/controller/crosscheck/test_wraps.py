"""Counters that begin again: every multiple the line allows, against the truth and against a counter that does not."""

from __future__ import annotations

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from controller.crosscheck.account import Account
from controller.crosscheck.epochs import epochs_of
from controller.crosscheck.exact import Line, Rate
from controller.crosscheck.model import Track
from controller.crosscheck.observed import observe
from controller.crosscheck.quantity import bounds
from controller.crosscheck.wraps import unwrapped
from protos.reading import Observer, Reading
from tests.controller.crosscheck.cases import cases

LAST = 30
BITS = 4
S = 1_000_000_000


def built(readings: list[Reading], line: Line | None, bits: int | None) -> Account:
    epochs = epochs_of(readings, origin=0, proven=frozenset({0}), starts={})
    if bits is not None:
        epochs = [part for epoch in epochs for part in unwrapped(epoch, bits, line)]
    return Account(epochs, line)


@st.composite
def wrapping(draw: st.DrawFn) -> tuple[list[int], list[tuple[int, int, int]], Line | None]:
    rate = draw(st.sampled_from([None, 1, 3, 9]))
    counter = [draw(st.integers(0, 40))]
    for _ in range(LAST):
        counter.append(counter[-1] + draw(st.integers(0, 9 if rate is None else rate)))
    windows = []
    for _ in range(draw(st.integers(1, 7))):
        at = draw(st.integers(0, LAST))
        windows.append((draw(st.integers(max(0, at - 3), at)), draw(st.integers(at, min(LAST, at + 3))), at))
    return counter, windows, None if rate is None else Line(Rate(rate, 1), draw(st.sampled_from([0, 2])))


@settings(max_examples=cases(600), deadline=None)
@given(wrapping(), st.integers(0, LAST), st.integers(0, LAST))
def test_the_truth_is_bounded_and_never_tighter_than_a_wide_counter_would(
    case: tuple[list[int], list[tuple[int, int, int]], Line | None], a: int, b: int
) -> None:
    counter, windows, line = case
    assume(a < b)
    narrow = built([Reading(e, latest, counter[at] % 2**BITS) for e, latest, at in windows], line, BITS)
    wide = built([Reading(e, latest, counter[at]) for e, latest, at in windows], line, None)
    assert narrow.contradictions == ()
    least, most = bounds(narrow, a, b)
    true = counter[b] - counter[a]
    assert least <= true
    assert most is None or true <= most
    wide_least, wide_most = bounds(wide, a, b)
    assert least <= wide_least
    assert most is None or (wide_most is not None and wide_most <= most)


def test_where_the_line_leaves_one_multiple_the_counter_is_as_good_as_a_wide_one() -> None:
    readings = [Reading(10 * k, 10 * k, 13 * k % 16) for k in range(4)]
    narrow = built(readings, Line(Rate(2, 1), 0), BITS)
    assert narrow.epoch_count == 1
    assert bounds(narrow, 0, 30) == (39, 39)


def test_where_it_leaves_several_each_is_possible() -> None:
    readings = [Reading(0, 0, 3), Reading(10, 10, 1), Reading(20, 20, 1)]
    # From 3 to 1 in ten ticks of at most 5: 14 or 30 or 46; from 1 to 1: 0, 16, 32 or 48.
    narrow = built(readings, Line(Rate(5, 1), 0), BITS)
    assert bounds(narrow, 0, 10) == (14, 50)
    assert bounds(narrow, 0, 20) == (14, 100)
    assert narrow.epoch_count == 1


def test_without_a_line_rate_it_rose_by_at_least_the_smallest() -> None:
    narrow = built([Reading(0, 0, 3), Reading(10, 10, 1), Reading(20, 20, 5)], None, BITS)
    assert bounds(narrow, 0, 20) == (18, None)


def test_a_32_bit_counter_of_a_slow_port() -> None:
    counts = [0, 3_000_000_000, 6_000_000_000]
    readings = tuple(Reading(k * 100 * S, k * 100 * S, count % 2**32, 5) for k, count in enumerate(counts))
    track = Track(Observer.SWITCH, readings, 40_000_000, 9_216, counter_bits=32)
    one = observe(track, 0)
    assert bounds(one.bytes, 0, 200 * S) == (6_000_000_000, 6_000_000_000)
    assert one.packets is None
