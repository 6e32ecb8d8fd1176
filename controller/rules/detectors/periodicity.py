"""Lomb-Scargle power and autocorrelation of a byte series; unknown bins are simply left out.

Supports other findings: that something repeats is no alarm by itself (timers do), and honest traffic is not white, so
the false-alarm probability printed is that of white noise and says so.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from controller.rules.probability import false_alarm_of_peak
from controller.rules.series import Floats, Series

MOST_BINS = 2_048
"""Longer series are looked at in coarser bins: the work grows with the square."""
_LEAST_BINS = 16


@dataclass(frozen=True, slots=True)
class Periodicity:
    """The highest peak of M independent frequencies, and the autocorrelation at a given period."""

    power: float
    frequencies: int
    false_alarm: float
    period_ns: float
    autocorrelation: float


def lomb_scargle(times: Floats, values: Floats, frequencies: Floats) -> Floats:
    """Return the normalised power at each frequency; in white noise each is exponential with mean 1.

    Args:
        times: of the values, any order and spacing.
        values: as many.
        frequencies: cycles per unit of time.

    Source: Scargle 1982 (ApJ 263, 835), equation 10, divided by the variance.
    """
    centred = values - values.mean()
    variance = centred.var(ddof=1)
    if variance == 0:
        return np.zeros(len(frequencies))
    powers = np.empty(len(frequencies))
    for start in range(0, len(frequencies), 64):
        omega = 2 * np.pi * frequencies[start : start + 64, None]
        shift = np.arctan2(np.sin(2 * omega * times).sum(axis=1), np.cos(2 * omega * times).sum(axis=1)) / 2
        angle = omega * times - shift[:, None]
        cosine, sine = np.cos(angle), np.sin(angle)
        with np.errstate(divide="ignore", invalid="ignore"):
            part = (cosine @ centred) ** 2 / (cosine**2).sum(axis=1)
            other = np.nan_to_num((sine @ centred) ** 2 / (sine**2).sum(axis=1))
        powers[start : start + 64] = (part + other) / (2 * variance)
    return powers


def periodicity(series: Series, period_ns: float) -> Periodicity | None:
    """Return the peak of the periodogram over all periods from two bins to half the record, and the autocorrelation."""
    coarse = series.coarser(-(-len(series.rate) // MOST_BINS))
    known = np.flatnonzero(~np.isnan(coarse.rate))
    if len(known) < _LEAST_BINS:
        return None
    values = coarse.rate[known]
    count = len(known) // 2
    frequencies = np.arange(1, count + 1) / (len(coarse.rate))
    powers = lomb_scargle(known.astype(np.float64), values, frequencies)
    peak = int(np.argmax(powers[1:])) + 1 if count > 1 else 0
    return Periodicity(
        float(powers[peak]),
        count,
        false_alarm_of_peak(float(powers[peak]), count),
        float(coarse.step_ns / frequencies[peak]),
        autocorrelation(coarse, period_ns),
    )


def autocorrelation(series: Series, lag_ns: float) -> float:
    """Return the correlation of the series with itself, ``lag_ns`` later, over the bins known at both."""
    lag = round(lag_ns / series.step_ns)
    if not 0 < lag < len(series.rate) - 1:
        return 0.0
    first, second = series.rate[:-lag], series.rate[lag:]
    known = ~(np.isnan(first) | np.isnan(second))
    if known.sum() < 3:
        return 0.0
    first, second = first[known], second[known]
    spread = float(first.std() * second.std())
    return 0.0 if spread == 0 else float(((first - first.mean()) * (second - second.mean())).mean() / spread)
