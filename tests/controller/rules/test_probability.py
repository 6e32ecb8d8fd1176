"""Tail probabilities, against scipy and against simulation."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from controller.rules.detectors.periodicity import lomb_scargle
from controller.rules.probability import (
    at_least_binomial,
    at_least_poisson,
    chi_square_below,
    equal_by_chance,
    false_alarm_of_peak,
    regular_by_chance,
)


@given(st.floats(1e-6, 400), st.integers(1, 200))
def test_chi_square(value: float, degrees: int) -> None:
    assert chi_square_below(value, degrees) == pytest.approx(stats.chi2.cdf(value, degrees), rel=1e-6, abs=1e-300)


@given(st.integers(0, 40), st.integers(1, 40), st.floats(0.001, 0.999))
def test_binomial(hits: int, trials: int, chance: float) -> None:
    assert at_least_binomial(hits, trials, chance) == pytest.approx(stats.binom.sf(hits - 1, trials, chance), rel=1e-6)


@given(st.integers(0, 60), st.floats(0.01, 60))
def test_poisson(hits: int, mean: float) -> None:
    assert at_least_poisson(hits, mean) == pytest.approx(stats.poisson.sf(hits - 1, mean), rel=1e-6)


@pytest.mark.parametrize(("count", "variation"), [(3, 0.1), (4, 0.2), (6, 0.3), (10, 0.35)])
def test_random_times_are_rarely_regular(count: int, variation: float) -> None:
    intervals = np.random.default_rng(1).exponential(size=(400_000, count))
    seen = float((intervals.std(axis=1) / intervals.mean(axis=1) <= variation).mean())
    bound = regular_by_chance(variation, count)
    # Sharp while the ball lies inside the simplex, and an upper bound always.
    sampling = 5 * np.sqrt(bound / 400_000)
    assert seen <= bound + sampling
    if variation <= 1 / np.sqrt(count - 1):
        assert seen == pytest.approx(bound, abs=sampling)


def test_equal_volumes_by_chance() -> None:
    volumes = np.random.default_rng(2).normal(1, 0.1, size=(200_000, 6))
    seen = float((volumes.std(axis=1, ddof=1) <= 0.04).mean())
    assert seen == pytest.approx(equal_by_chance(0.04, 6, 0.1), rel=0.05)


def test_peaks_of_white_noise_are_as_high_as_the_formula_says() -> None:
    rng, times = np.random.default_rng(3), np.arange(128.0)
    frequencies = np.arange(1, 64) / 128
    peaks = [lomb_scargle(times, rng.normal(size=128), frequencies).max() for _ in range(1_000)]
    median = float(np.median(peaks))
    assert false_alarm_of_peak(median, 63) == pytest.approx(0.5, abs=0.06)


@pytest.mark.parametrize("trivial", [at_least_binomial(0, 5, 0.5), at_least_poisson(0, 1), regular_by_chance(1.0, 1)])
def test_nothing_seen_is_certain(trivial: float) -> None:
    assert trivial == 1.0
