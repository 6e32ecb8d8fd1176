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

from controller.crosscheck.exact import BEYOND, SAFE, Bools, Ints, Line, largest_magnitude, subtract, wide


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
        # One entry more than readings on the open side, so that no time needs a special case: where a line rate gives
        # the bound, one that is never the better; without a line rate one that is not known and stands for nothing.
        level_high, level_low = np.minimum.accumulate(self.high[::-1])[::-1], np.maximum.accumulate(low)
        if line is None:
            self._level_high = np.concatenate([level_high, level_high[-1:]])
            self._level_low = np.concatenate([level_low[:1], level_low])
        else:
            self._level_high = _closed(level_high, after=BEYOND)
            self._level_low = _closed(level_low, before=-BEYOND)
            high_from = subtract(self.high, line.rate.position(self.earliest))
            low_to = subtract(low, line.rate.position(self.latest))
            self._rising_high = _closed(np.minimum.accumulate(high_from) + line.step, before=BEYOND)
            self._rising_low = _closed(np.maximum.accumulate(low_to[::-1])[::-1] - line.step, after=-BEYOND)

    @property
    def lowest(self) -> int:
        """The least value read."""
        return int(self._level_high[0])

    @property
    def highest(self) -> int:
        """The greatest value read: the counter certainly reached it within the epoch."""
        return int(self._level_low[-1])

    def hi(self, times: Ints) -> tuple[Ints, Bools]:
        """Return ``Hi`` at each time, and where it is known."""
        index = np.searchsorted(self.earliest, times, side="left")
        level = self._level_high[index]
        if self.line is None:
            return level, index < len(self.earliest)
        rising = self._rising_high[index] + self.line.rate.position(times)
        return np.minimum(level, rising), np.ones(len(times), dtype=bool)

    def lo(self, times: Ints) -> tuple[Ints, Bools]:
        """Return ``Lo`` at each time, and where it is known."""
        index = np.searchsorted(self.latest, times, side="right")
        level = self._level_low[index]
        if self.line is None:
            return level, index > 0
        rising = self._rising_low[index] + self.line.rate.position(times)
        return np.maximum(level, rising), np.ones(len(times), dtype=bool)

    def high_kinks(self) -> Ints:
        """Return the times between readings at which ``Hi`` turns from rising at line rate to level.

        Each is given as the two whole nanoseconds around it.
        """
        return self._kinks(self.earliest, self._level_high, self._rising_high) if self.line is not None else _none()

    def low_kinks(self) -> Ints:
        """Return the times between readings at which ``Lo`` turns from level to rising at line rate."""
        return self._kinks(self.latest, self._level_low, self._rising_low) if self.line is not None else _none()

    def _kinks(self, times: Ints, level: Ints, rising: Ints) -> Ints:
        if self.line is None or len(times) < 2:
            return _none()
        rate = self.line.rate
        met = _times(subtract(level[1:-1], rising[1:-1]), rate.ns, rate.bytes)
        kept = met[(met >= times[:-1]) & (met <= times[1:])].astype(np.int64)
        return np.concatenate([kept, kept + 1])


def _none() -> Ints:
    return np.zeros(0, dtype=np.int64)


def _closed(values: Ints, before: int | None = None, after: int | None = None) -> Ints:
    """Return ``values`` with one entry before or after them."""
    large = BEYOND if values.dtype != object else BEYOND**2
    ends = [
        np.array([0 if one is None else large if one > 0 else -large], dtype=values.dtype) for one in (before, after)
    ]
    return np.concatenate([ends[0], values] if before is not None else [values, ends[1]])


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
