"""The law test against a linear programme: broken for certain exactly when no two counters fit all readings."""

from __future__ import annotations

import itertools

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from controller.crosscheck.breach import greatest_breach
from controller.crosscheck.exact import Rate
from controller.crosscheck.laws import Sides
from controller.crosscheck.quantity import Steady
from tests.controller.crosscheck.oracle import Said
from tests.controller.crosscheck.test_envelope import account

LAST = 12


def fits(left: list[Said], right: list[Said], in_flight: int, rate: int | None, step: int) -> bool:
    """Whether two counters over ``0 .. LAST`` exist with ``X(s,t] <= Y(s,t] + Q`` for all s < t (a linear programme)."""
    count = LAST + 1
    rows, limits = [], []

    def at_most(terms: dict[int, float], most: float) -> None:
        row = np.zeros(2 * count)
        for index, factor in terms.items():
            row[index] += factor
        rows.append(row)
        limits.append(most)

    for base in (0, count):
        for t in range(LAST):
            at_most({base + t: 1, base + t + 1: -1}, 0)
    if rate is not None:
        for s, t in itertools.combinations(range(count), 2):
            at_most({count + t: 1, count + s: -1}, rate * (t - s) + step)
    for base, said in ((0, left), (count, right)):
        for one in said:
            at_most({base + one.earliest: 1}, one.value)
            at_most({base + one.latest: -1}, -one.value)
    for s, t in itertools.combinations(range(count), 2):
        at_most({t: 1, s: -1, count + t: -1, count + s: 1}, in_flight)
    solved = linprog(np.zeros(2 * count), A_ub=np.array(rows), b_ub=np.array(limits), bounds=[(None, None)] * 2 * count)
    assert solved.status in (0, 2), solved.message
    return bool(solved.status == 0)


@st.composite
def two_counters(draw: st.DrawFn) -> tuple[list[Said], list[Said], int, int | None, int]:
    """Readings of X and Y, each consistent in itself, that may or may not fit together."""
    rate, step = draw(st.sampled_from([(None, 0), (None, 0), (4, 0), (4, 2)]))
    both = []
    for most in (5, 5 if rate is None else rate):
        counter = [draw(st.integers(0, 5))]
        for _ in range(LAST):
            counter.append(counter[-1] + draw(st.integers(0, most)))
        said = []
        for _ in range(draw(st.integers(1, 5))):
            at = draw(st.integers(0, LAST))
            said.append(
                Said(draw(st.integers(max(0, at - 2), at)), draw(st.integers(at, min(LAST, at + 2))), counter[at])
            )
        both.append(said)
    return both[0], both[1], draw(st.integers(0, 6)), rate, step


@settings(max_examples=1000, deadline=None)
@given(two_counters())
def test_broken_exactly_when_the_linear_programme_has_no_solution(
    case: tuple[list[Said], list[Said], int, int | None, int],
) -> None:
    left_said, right_said, in_flight, rate, step = case
    left, right = account(*left_said), account(*right_said, rate=rate, step=step)
    carried = None if rate is None else (Steady(Rate(rate, 1)), in_flight + step)
    breach = greatest_breach(Sides(left, right, right, in_flight, carried), 0, LAST)
    assert (breach is None) == fits(left_said, right_said, in_flight, rate, step)
