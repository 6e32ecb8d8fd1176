"""Honest traffic of a node, minute by minute: what serving and running a cluster moves. Rates in bytes per second.

Every class is a function of a random generator and a number of minutes to ``(outward, inward)``.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from controller.rules.series import Floats

Both = tuple[Floats, Floats]
Maker = Callable[[np.random.Generator, int], Both]
MINUTE_S = 60.0
DAY_MINUTES = 1_440


def _scrape(rng: np.random.Generator, minutes: int) -> Both:
    return rng.normal(1_000, 60, minutes).clip(0), rng.normal(800, 50, minutes).clip(0)


def _demand(rng: np.random.Generator, minutes: int, depth: float) -> Floats:
    """A factor around 1: hours of the day, and demand that wanders."""
    day = 1 + depth * np.sin(2 * np.pi * (np.arange(minutes) / DAY_MINUTES + rng.random()))
    steps = rng.normal(0, 0.03, minutes)
    wander = np.empty(minutes)
    level = 0.0
    for at in range(minutes):
        level = 0.99 * level + steps[at]
        wander[at] = level
    demand: Floats = np.clip(day * np.exp(wander), 0.02, None)
    return demand


def _requests(rng: np.random.Generator, per_minute: Floats, mean: float, spread: float) -> Floats:
    """Bytes a second of Poisson requests with log-normal sizes: their sum a minute, by its first two moments."""
    counts = rng.poisson(per_minute)
    variation = np.sqrt(np.expm1(spread**2))
    noise = rng.normal(0, 1, len(counts)) * variation / np.sqrt(np.maximum(counts, 1))
    rates: Floats = counts * mean * np.clip(1 + noise, 0.05, None) / MINUTE_S
    return rates


def _serving(rate: float, sent: float, received: float, depth: float = 0.5, spread: float = 1.0) -> Maker:
    def make(rng: np.random.Generator, minutes: int) -> Both:
        demand = _demand(rng, minutes, depth) * rate * rng.uniform(0.5, 2)
        out, inward = _scrape(rng, minutes)
        return out + _requests(rng, demand, sent, spread), inward + _requests(rng, demand, received, spread)

    return make


def idle(rng: np.random.Generator, minutes: int) -> Both:
    """Nothing but monitoring."""
    return _scrape(rng, minutes)


def polling(rng: np.random.Generator, minutes: int) -> Both:
    """A health check of one size, on the minute, both ways alike."""
    out, inward = _scrape(rng, minutes)
    every = int(rng.choice([1, 2, 5, 10]))
    size = rng.uniform(2e4, 4e5)
    out[::every] += size / MINUTE_S
    inward[::every] += size / MINUTE_S
    return out, inward


def bursty(rng: np.random.Generator, minutes: int) -> Both:
    """Text serving whose clients come in crowds."""
    out, inward = _serving(120, 60e3, 15e3)(rng, minutes)
    crowd = np.repeat(rng.random(-(-minutes // 7)) < 0.15, 7)[:minutes] * rng.uniform(5, 40, minutes)
    return out * (1 + crowd), inward * (1 + crowd)


def batch(rng: np.random.Generator, minutes: int) -> Both:
    """Batches queued one after the other: documents in, results out, of much the same length each."""
    out, inward = _scrape(rng, minutes)
    at, length = 0, int(rng.integers(8, 40))
    while at < minutes:
        inward[at] += rng.normal(30e6, 4e6) / MINUTE_S
        end = min(minutes, at + length + int(rng.integers(0, 3)))
        out[end - 1] += rng.normal(20e6, 3e6) / MINUTE_S
        at = end
    return out, inward


def backups(rng: np.random.Generator, minutes: int) -> Both:
    """Every hour or every night by the clock, the same but for what has changed; acknowledged."""
    out, inward = _serving(60, 50e3, 12e3)(rng, minutes)
    every = int(rng.choice([60, 360, DAY_MINUTES]))
    size = 10 ** rng.uniform(8, 10.5)
    lasts = int(rng.integers(1, 20))
    for at in range(int(rng.integers(0, every)), minutes, every):
        part = slice(at, min(minutes, at + lasts))
        out[part] += size * rng.normal(1, 0.01) / lasts / MINUTE_S
        inward[part] += out[part] * 0.004
    return out, inward


def log_shipping(rng: np.random.Generator, minutes: int) -> Both:
    """Logs in files every five minutes; as long as there was work."""
    out, inward = _serving(60, 50e3, 12e3)(rng, minutes)
    written = _requests(rng, _demand(rng, minutes, 0.5) * 60, 3e4, 0.8) * MINUTE_S
    for at in range(5, minutes, 5):
        out[at] += written[at - 5 : at].sum() / MINUTE_S
        inward[at] += out[at] * 0.01
    return out, inward


def model_loads(rng: np.random.Generator, minutes: int) -> Both:
    """Serving, and now and then weights of some model."""
    out, inward = _serving(120, 60e3, 15e3)(rng, minutes)
    starts = np.flatnonzero(rng.random(minutes) < 3 / DAY_MINUTES)
    for at in starts:
        size, lasts = 10 ** rng.uniform(10, 11.5), int(rng.integers(1, 9))
        part = slice(at, min(minutes, at + lasts))
        inward[part] += size / lasts / MINUTE_S
        out[part] += inward[part] * 0.0024
    return out, inward


HONEST: dict[str, Maker] = {
    "idle": idle,
    "polling": polling,
    "text, little load": _serving(30, 50e3, 12e3),
    "text, much load": _serving(6_000, 60e3, 15e3),
    "text, long prompts": _serving(600, 30e3, 120e3),
    "images": _serving(30, 1.4e6, 2e3, spread=0.2),
    "video": _serving(0.4, 6e6, 3e3, spread=0.5),
    "diurnal": _serving(600, 60e3, 15e3, depth=0.9),
    "bursty": bursty,
    "batch jobs": batch,
    "backups": backups,
    "log shipping": log_shipping,
    "model loads": model_loads,
}
