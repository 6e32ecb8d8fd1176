"""Tail probabilities of the detectors' statistics, in closed form or as short sums. Standard library only.

Each function says under which null hypothesis its result is a probability; the detectors say which traffic that null
stands for (docs/explanation/detection.md).
"""

from __future__ import annotations

import math

_TERMS = 10_000
_SMALL = 1e-16


def chi_square_below(value: float, degrees: int) -> float:
    """Return ``P(X <= value)`` of a chi-square variable: the lower regularised incomplete gamma function, by series.

    For large values the series is long; the upper tail is then below any use here and 1.0 is returned.
    """
    if value <= 0:
        return 0.0
    shape, x = degrees / 2, value / 2
    if x > shape + 40 * math.sqrt(shape + 1) + 40:
        return 1.0
    term = total = 1 / shape
    for k in range(1, _TERMS):
        term *= x / (shape + k)
        total += term
        if term < total * _SMALL:
            break
    return min(1.0, total * math.exp(shape * math.log(x) - x - math.lgamma(shape)))


def equal_by_chance(variation: float, count: int, honest_variation: float) -> float:
    """Return the probability that ``count`` volumes show a coefficient of variation this small by chance.

    Null: the volumes are normal with a coefficient of variation of at least ``honest_variation``; then
    ``(n-1) (c/h)^2`` is chi-square with n-1 degrees of freedom.
    """
    if count < 2:
        return 1.0
    return chi_square_below((count - 1) * (variation / honest_variation) ** 2, count - 1)


def regular_by_chance(variation: float, count: int) -> float:
    """Return the probability that ``count`` intervals are this regular by chance; an upper bound, sharp when small.

    Null: events come at random (Poisson). ``n`` exponential intervals, divided by their mean, are uniform on a simplex
    of dimension n-1, and "coefficient of variation at most c" is a ball of radius ``c sqrt(n)`` around its centre: the
    ratio of the two volumes.
    """
    if count < 2:
        return 1.0
    if variation <= 0:
        return 0.0
    n, dimension = count, count - 1
    log_ball = dimension / 2 * math.log(math.pi) - math.lgamma(dimension / 2 + 1)
    log_ball += dimension * math.log(variation * math.sqrt(n))
    log_simplex = 0.5 * math.log(n) + dimension * math.log(n) - math.lgamma(n)
    return min(1.0, math.exp(min(0.0, log_ball - log_simplex)))


def at_least_binomial(hits: int, trials: int, chance: float) -> float:
    """Return the probability of ``hits`` or more in ``trials`` independent trials."""
    if hits <= 0:
        return 1.0
    if chance <= 0:
        return 0.0
    if chance >= 1:
        return 1.0
    total = 0.0
    for k in range(hits, trials + 1):
        log_term = math.lgamma(trials + 1) - math.lgamma(k + 1) - math.lgamma(trials - k + 1)
        term = math.exp(log_term + k * math.log(chance) + (trials - k) * math.log1p(-chance))
        total += term
        if k > trials * chance and term < total * _SMALL:
            break
    return min(1.0, total)


def at_least_poisson(hits: int, mean: float) -> float:
    """Return the probability of ``hits`` or more events where ``mean`` are expected."""
    if hits <= 0:
        return 1.0
    if mean <= 0:
        return 0.0
    # P(N >= k) of a Poisson variable is P(chi-square with 2k degrees <= 2 mean).
    return chi_square_below(2 * mean, 2 * hits)


def false_alarm_of_peak(power: float, frequencies: int) -> float:
    """Return ``1 - (1 - e^-z)^M``: that the highest of M independent normalised powers reaches z in white noise.

    Source: Scargle 1982 (ApJ 263, 835), equation 14.
    """
    if power <= 0:
        return 1.0
    if power > 700:
        return 0.0
    return -math.expm1(frequencies * math.log1p(-math.exp(-power))) if power > 1e-12 else 1.0
