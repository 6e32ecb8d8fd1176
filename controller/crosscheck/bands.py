"""What an observer proves over time, as a band to draw: cumulative bytes, or bytes in a sliding window."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from controller.crosscheck.exact import Ints
from controller.crosscheck.model import Period, Track
from controller.crosscheck.observed import observe
from controller.crosscheck.quantity import between


@dataclass(frozen=True, slots=True)
class Band:
    """Bounds at points in time; ``upper`` is None where nothing bounds it. Times on the timeline, bytes exact."""

    times_ns: tuple[int, ...]
    lower: tuple[int, ...]
    upper: tuple[int | None, ...]


def band(track: Track, period: Period, points: int) -> Band:
    """Return the bytes that certainly and possibly passed since the start of the period, at evenly spaced times.

    Args:
        track: of one observer.
        period: what to draw.
        points: how many times, at least 2; the first is the period's start, where both bounds are 0.

    Raises:
        ValueError: fewer than two points, or a period without length.
    """
    ends = _times(period, points)
    return _band(track, period, np.zeros(len(ends), dtype=np.int64), ends)


def window_band(track: Track, period: Period, window_ns: int, points: int) -> Band:
    """Return the bytes in the window of ``window_ns`` that ends at each time, clipped to the period's start.

    Divide by the window for a rate. Arguments and errors as for :func:`band`.
    """
    ends = _times(period, points)
    return _band(track, period, np.maximum(ends - window_ns, 0), ends)


def _times(period: Period, points: int) -> Ints:
    length = period.to_ns - period.from_ns
    if points < 2 or length <= 0:
        raise ValueError(f"a band needs at least 2 points and a period with length, not {points} over {length} ns")
    return np.array([length * index // (points - 1) for index in range(points)], dtype=np.int64)


def _band(track: Track, period: Period, starts: Ints, ends: Ints) -> Band:
    span = between(observe(track, period.from_ns).bytes, starts, ends)
    return Band(
        tuple(int(at) + period.from_ns for at in ends),
        tuple(int(one) for one in span.least),
        tuple(int(one) if bounded else None for one, bounded in zip(span.most, span.bounded, strict=True)),
    )
