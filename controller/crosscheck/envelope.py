"""What the readings of one counter epoch prove about the counter at any time.

A reading ``(e, l, v)`` says ``C(e) <= v <= C(l)``. With ``g(x)`` the most a line can carry in ``x``:

    Hi(t) = min over i of v_i + g(t - e_i)        the highest C(t) can be
    Lo(t) = max over i of v_i - g(l_i - t)        the lowest C(t) can be

and nothing tighter follows from the readings. Without a line rate ``g`` is infinite for ``x > 0``: ``Hi`` is then
known up to the last ``e``, ``Lo`` from the first ``l`` on. Source: bounds.md 1, 2, 4.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from controller.crosscheck.exact import SAFE, Bools, Ints, Line, largest_magnitude, subtract, wide


@dataclass(frozen=True, slots=True)
class Columns:
    """Readings of one epoch as arrays of equal length, in any order, times from one origin.

    ``low`` is the least and ``high`` the most that the counter's value can have been (equal unless the source
    gives a range).
    """

    earliest: Ints
    latest: Ints
    low: Ints
    high: Ints

    def __len__(self) -> int:
        return len(self.earliest)


class Envelope:
    """``Hi`` and ``Lo`` of one epoch, for many times at once in O((n + m) log n).

    1. Sort by ``e``. For ``t <= e_i`` the reading bounds ``C(t)`` by ``v_i``: suffix minimum of v.
       For ``t > e_i`` it bounds it by ``v_i + rho*(t - e_i) + step``: prefix minimum of ``v - rho*e``.
    2. Sort by ``l``. For ``t >= l_i``: prefix maximum of v. For ``t < l_i``: suffix maximum of ``v - rho*l``.
    3. A time is a binary search into each.

    Rounding of ``rho*t`` to whole bytes widens a bound by at most one byte.
    """

    def __init__(self, columns: Columns, line: Line | None) -> None:
        if len(columns) == 0:
            raise ValueError("an envelope needs at least one reading")
        self.columns, self.line = columns, line
        by_earliest = _order(columns.earliest)
        by_latest = _order(columns.latest)
        self.high, low = _take(columns.high, by_earliest), _take(columns.low, by_latest)
        self.earliest, self.latest = _take(columns.earliest, by_earliest), _take(columns.latest, by_latest)
        self._high_after = np.minimum.accumulate(self.high[::-1])[::-1]
        self._low_before = np.maximum.accumulate(low)
        if line is not None:
            high_from = subtract(self.high, line.rate.position(self.earliest))
            low_to = subtract(low, line.rate.position(self.latest))
            self._high_rising = np.minimum.accumulate(high_from)
            self._low_rising = np.maximum.accumulate(low_to[::-1])[::-1]

    @property
    def lowest(self) -> int:
        """The least value read."""
        return int(self._high_after[0])

    @property
    def highest(self) -> int:
        """The greatest value read: the counter certainly reached it within the epoch."""
        return int(self._low_before[-1])

    def hi(self, times: Ints) -> tuple[Ints, Bools]:
        """Return ``Hi`` at each time, and where it is known."""
        count = len(self.earliest)
        index = np.searchsorted(self.earliest, times, side="left")
        if self.line is None:
            return self._high_after[np.minimum(index, count - 1)], index < count
        rising = self._high_rising[np.maximum(index, 1) - 1] + self.line.rate.position(times) + self.line.step
        level = self._high_after[np.minimum(index, count - 1)]
        values = np.where(index == 0, level, np.where(index == count, rising, np.minimum(level, rising)))
        return values, np.ones(len(times), dtype=bool)

    def lo(self, times: Ints) -> tuple[Ints, Bools]:
        """Return ``Lo`` at each time, and where it is known."""
        count = len(self.latest)
        index = np.searchsorted(self.latest, times, side="right")
        if self.line is None:
            return self._low_before[np.maximum(index, 1) - 1], index > 0
        rising = self._low_rising[np.minimum(index, count - 1)] + self.line.rate.position(times) - self.line.step
        level = self._low_before[np.maximum(index, 1) - 1]
        values = np.where(index == 0, rising, np.where(index == count, level, np.maximum(level, rising)))
        return values, np.ones(len(times), dtype=bool)

    def kinks(self) -> Ints:
        """Return the times between readings at which an envelope changes its slope.

        There ``Hi`` turns from rising at line rate to level, and ``Lo`` from level to rising; each is given as
        the two whole nanoseconds around it.
        """
        if self.line is None or len(self.earliest) < 2:
            return np.zeros(0, dtype=np.int64)
        rate, step = self.line.rate, self.line.step
        climb = subtract(self._high_after[1:], self._high_rising[:-1]) - step
        drop = subtract(self._low_before[:-1], self._low_rising[1:]) + step
        at_high, at_low = _times(climb, rate.ns, rate.bytes), _times(drop, rate.ns, rate.bytes)
        kept_high = at_high[(at_high >= self.earliest[:-1]) & (at_high <= self.earliest[1:])]
        kept_low = at_low[(at_low >= self.latest[:-1]) & (at_low <= self.latest[1:])]
        both = np.concatenate([kept_high, kept_low]).astype(np.int64)
        return np.concatenate([both, both + 1])


def _times(values: Ints, factor: int, divisor: int) -> Ints:
    """Return ``floor(values * factor / divisor)`` exactly, in int64 where it fits."""
    fits = largest_magnitude(values) * factor // divisor < SAFE and factor * divisor < SAFE and values.dtype != object
    if not fits:
        exact: Ints = wide(values) * factor // divisor
        return exact
    quotient, rest = np.divmod(values, divisor)
    times: Ints = quotient * factor + rest * factor // divisor
    return times


def _order(keys: Ints) -> Ints | None:
    """Return the order that sorts ``keys``; None if they are sorted, as readings nearly always are."""
    if len(keys) < 2 or bool(np.all(keys[:-1] <= keys[1:])):
        return None
    return np.argsort(keys, kind="stable")


def _take(values: Ints, order: Ints | None) -> Ints:
    return values if order is None else values[order]
