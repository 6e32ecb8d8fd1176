from __future__ import annotations

import random

import pytest

from controller.crosscheck.bands import band, window_band
from controller.crosscheck.model import Period
from protos.reading import Observer
from tests.controller.crosscheck.scene import SWITCH, S, steady

T0 = 1_790_000_000 * S
TRUTH = steady(T0, T0 + 60 * S, 50_000)
TRACK = SWITCH.read(TRUTH, Observer.SWITCH, T0 - 20 * S, T0 + 80 * S, random.Random(3))
PERIOD = Period(T0 - 5 * S, T0 + 65 * S)


def test_the_truth_lies_in_the_band_and_its_ends_are_exact() -> None:
    drawn = band(TRACK, PERIOD, 141)
    assert (drawn.times_ns[0], drawn.times_ns[-1]) == (PERIOD.from_ns, PERIOD.to_ns)
    assert (drawn.lower[0], drawn.upper[0]) == (0, 0)
    assert (drawn.lower[-1], drawn.upper[-1]) == (3_000_000, 3_000_000)
    for at, lower, upper in zip(drawn.times_ns, drawn.lower, drawn.upper, strict=True):
        assert upper is not None
        assert lower <= TRUTH.between(PERIOD.from_ns, at) <= upper


def test_windows_hold_the_truth_and_are_clipped_to_the_start() -> None:
    drawn = window_band(TRACK, PERIOD, 10 * S, 71)
    for at, lower, upper in zip(drawn.times_ns, drawn.lower, drawn.upper, strict=True):
        assert upper is not None
        assert lower <= TRUTH.between(max(PERIOD.from_ns, at - 10 * S), at) <= upper


def test_beyond_the_last_reading_nothing_bounds_it() -> None:
    drawn = band(TRACK, Period(T0 - 5 * S, T0 + 100 * S), 106)
    assert drawn.upper[-1] is None
    assert drawn.lower[-1] == 3_000_000


@pytest.mark.parametrize(("period", "points"), [(PERIOD, 1), (Period(5, 5), 10)])
def test_nothing_to_draw_is_refused(period: Period, points: int) -> None:
    with pytest.raises(ValueError, match="at least 2 points"):
        band(TRACK, period, points)
