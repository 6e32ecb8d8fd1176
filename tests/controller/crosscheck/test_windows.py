"""Sliding windows against brute force: every window of whole ticks, by shortest paths."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.crosscheck.windows import certain_excess, fullest
from tests.controller.crosscheck.cases import cases
from tests.controller.crosscheck.oracle import Oracle, Said
from tests.controller.crosscheck.test_envelope import account

LAST = 16


@st.composite
def read_counter(draw: st.DrawFn, most_a_tick: int = 6) -> tuple[list[Said], int | None, int]:
    rate, step = draw(st.sampled_from([(None, 0), (None, 0), (most_a_tick, 0), (most_a_tick, 2)]))
    counter = [0]
    for _ in range(LAST):
        counter.append(counter[-1] + draw(st.integers(0, most_a_tick)))
    said = []
    width = draw(st.sampled_from([1, 3, LAST]))
    for _ in range(draw(st.integers(2, 7))):
        at = draw(st.integers(0, LAST))
        first, last = draw(st.integers(max(0, at - width), at)), draw(st.integers(at, min(LAST, at + width)))
        said.append(Said(first, last, counter[at]))
    return said, rate, step


@settings(max_examples=cases(500), deadline=None)
@given(read_counter(), st.integers(1, 7), st.integers(0, 25))
def test_a_violation_is_certain_exactly_when_no_counter_keeps_the_limit(
    case: tuple[list[Said], int | None, int], window: int, limit: int
) -> None:
    said, rate, step = case
    # A window whose limit the line cannot exceed is judged without the line (sound, and nobody's limit).
    line_binds = rate is not None and rate * window >= limit
    possible = Oracle(
        said, LAST, rate=rate if line_binds else None, step=step if line_binds else 0, window=window, limit=limit
    ).possible
    found = certain_excess(account(*said, rate=rate, step=step), window, limit, 0, LAST)
    assert (found is None) == possible
    if found is not None:
        assert found.in_one_window > limit
        assert found.bytes > 0


@settings(max_examples=cases(300), deadline=None)
@given(read_counter(), st.integers(1, 9), st.data())
def test_the_fullest_window_is_what_brute_force_over_every_start_finds(
    case: tuple[list[Said], int | None, int], window: int, data: st.DataObject
) -> None:
    said, rate, step = case
    start = data.draw(st.integers(0, LAST - 1))
    end = data.draw(st.integers(start + 1, LAST))
    oracle = Oracle(said, LAST, rate=rate, step=step)
    windows = [oracle.bounds(t, min(t + window, end)) for t in range(start, max(start, end - window) + 1)]
    full = fullest(account(*said, rate=rate, step=step), window, start, end)
    assert full.least == max(least for least, _ in windows)
    mosts = [most for _, most in windows]
    if None in mosts:
        assert full.most is None
    else:
        assert full.most == max(most for most in mosts if most is not None)


@pytest.mark.parametrize(
    ("said", "line", "window", "period", "most"),
    [
        # The fullest window begins or ends between readings, where an envelope bends.
        (
            ((28, 47, 13), (55, 55, 16), (49, 49, 13), (48, 49, 13), (48, 60, 16), (8, 9, 4), (1, 2, 1), (40, 50, 12)),
            (1, 0),
            14,
            (12, 53),
            12,
        ),
        (
            (
                (59, 59, 94),
                (22, 24, 45),
                (0, 1, 2),
                (32, 54, 55),
                (55, 58, 84),
                (27, 30, 47),
                (8, 11, 18),
                (27, 33, 47),
            ),
            (6, 2),
            18,
            (7, 55),
            66,
        ),
    ],
)
def test_the_fullest_window_between_readings(
    said: tuple[tuple[int, int, int], ...], line: tuple[int, int], window: int, period: tuple[int, int], most: int
) -> None:
    (rate, step), (start, end) = line, period
    oracle = Oracle([Said(*one) for one in said], 60, rate=rate, step=step)
    assert most == max(oracle.bounds(t, t + window)[1] or 0 for t in range(start, end - window + 1))
    assert fullest(account(*said, rate=rate, step=step), window, start, end).most == most


def test_a_rate_five_percent_above_the_limit_all_day_is_found_though_no_single_window_shows_it() -> None:
    said = [Said(15 * k, 15 * k + 1, 105 * k) for k in range(5760)]
    built = account(*said)
    # The limit is 100 in 15: one window is only certain to hold what two readings inside it enclose.
    assert fullest(built, 15, 0, 86_000).least <= 100
    found = certain_excess(built, 15, 100, 0, 86_000)
    assert found is not None
    assert found.windows > 10
    assert certain_excess(built, 15, 105, 0, 86_000) is None
