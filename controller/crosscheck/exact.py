"""Whole numbers in arrays, exact whatever their size.

Nanoseconds since 1970 (1.8e18) times bytes per second overflow 64 bits at once. So times are taken from a
local origin, a rate is a reduced fraction of bytes and nanoseconds, and each operation first shows that its
result fits into int64; where it does not, the same code runs on arrays of Python integers: slower, never wrong.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from protos.units import NS_PER_S

Ints = npt.NDArray[Any]
"""An array of int64, or of Python integers where 64 bits are not enough."""
Bools = npt.NDArray[np.bool_]

SAFE = 1 << 61
"""Magnitude up to which int64 is used: two such numbers can be added or subtracted without overflow."""


BEYOND = 1 << 62
"""Further than any value that int64 is used for: a bound that never is the better one."""


def largest_magnitude(values: Ints) -> int:
    """Return a number not below the largest absolute value in ``values``, 0 if it is empty."""
    if values.size == 0:
        return 0
    return max(int(values.max()), -int(values.min()))


def whole(values: Iterable[int] | Sequence[int]) -> Ints:
    """Return ``values`` as an exact array."""
    listed = values if isinstance(values, (list, tuple)) else list(values)
    if listed and (max(listed) >= SAFE or min(listed) <= -SAFE):
        return np.array(listed, dtype=object)
    return np.array(listed, dtype=np.int64)


def merged(parts: Sequence[Ints]) -> Ints:
    """Return the times of all parts in order; each part is nearly always in order already. Duplicates may remain."""
    filled = [part for part in parts if len(part)]
    if not filled:
        return np.zeros(0, dtype=np.int64)
    together = filled[0] if len(filled) == 1 else np.concatenate(filled)
    if bool(np.all(together[:-1] <= together[1:])):
        return together
    return np.sort(together, kind="stable")


def within(times: Ints, first: int, last: int) -> Ints:
    """Return the sorted ``times`` strictly between two, and the two."""
    low = int(np.searchsorted(times, first, side="right"))
    high = int(np.searchsorted(times, last, side="left"))
    return np.concatenate([[first], times[low:high], [last]])


def wide(values: Ints) -> Ints:
    """Return ``values`` as Python integers."""
    return values if values.dtype == object else values.astype(object)


def narrow(values: Ints) -> Ints:
    """Return ``values`` in int64 again where they fit: a difference of large numbers is often small."""
    return whole(values.tolist()) if values.dtype == object else values


def add(first: Ints, second: Ints | int) -> Ints:
    """Return ``first + second`` exactly."""
    other = abs(second) if isinstance(second, int) else largest_magnitude(second)
    if largest_magnitude(first) + other < 2 * SAFE:
        return first + second
    return wide(first) + (second if isinstance(second, int) else wide(second))


def subtract(first: Ints, second: Ints | int) -> Ints:
    """Return ``first - second`` exactly."""
    other = abs(second) if isinstance(second, int) else largest_magnitude(second)
    if largest_magnitude(first) + other < 2 * SAFE:
        return first - second
    return wide(first) - (second if isinstance(second, int) else wide(second))


def scale(values: Ints, factor: int) -> Ints:
    """Return ``values * factor`` exactly."""
    if factor == 1:
        return values
    if largest_magnitude(values) * abs(factor) < 2 * SAFE:
        return values * factor
    return wide(values) * factor


def divide_down(values: Ints, divisor: int) -> Ints:
    """Return ``values / divisor`` rounded towards minus infinity."""
    return values if divisor == 1 else values // divisor


def divide_up(values: Ints, divisor: int) -> Ints:
    """Return ``values / divisor`` rounded towards plus infinity."""
    return values if divisor == 1 else -((-values) // divisor)


@dataclass(frozen=True, slots=True)
class Rate:
    """Bytes per nanosecond, as a reduced fraction."""

    bytes: int
    ns: int

    @classmethod
    def per_second(cls, bytes_per_s: int | Fraction) -> Rate:
        """Return the rate of ``bytes_per_s``."""
        exact = Fraction(bytes_per_s) / NS_PER_S
        return cls(exact.numerator, exact.denominator)

    @property
    def fraction(self) -> Fraction:
        """Bytes per nanosecond."""
        return Fraction(self.bytes, self.ns)

    def in_ns(self, ns: int) -> int:
        """Return the whole bytes that pass in ``ns``, rounded down."""
        return self.bytes * ns // self.ns

    def ns_for(self, count: int) -> int:
        """Return the nanoseconds that ``count`` bytes need, rounded up."""
        return -(-count * self.ns // self.bytes)

    def position(self, times: Ints) -> Ints:
        """Return ``floor(rate * t)`` for each time.

        A difference of two positions is the bytes of the time between them, at most one byte too many or too
        few; callers add or subtract so that the error widens their bound.
        """
        farthest = largest_magnitude(times)
        fits = farthest * self.bytes // self.ns < SAFE and max(self.ns**2, self.bytes) < SAFE
        if not fits or times.dtype == object:
            exact: Ints = wide(times) * self.bytes // self.ns
            return exact
        if farthest * self.bytes < SAFE:
            product: Ints = times * self.bytes
            return product // self.ns if self.ns != 1 else product
        # t = q*ns + r and bytes = b*ns + c: floor(bytes*t/ns) = bytes*q + b*r + floor(c*r/ns), each term in range.
        quotient, rest = np.divmod(times, self.ns)
        per_ns, part = divmod(self.bytes, self.ns)
        position: Ints = quotient * self.bytes + rest * per_ns + (rest * part) // self.ns
        return position


@dataclass(frozen=True, slots=True)
class Line:
    """What a port can carry: ``g(x) = 0`` for ``x <= 0``, else ``rate*x + step`` (bounds.md 2).

    ``step`` is the largest step by which the counter moves at once: a frame, or a super-packet.
    """

    rate: Rate
    step: int

    def most_in(self, ns: int) -> int:
        """Return ``g(ns)``, whole bytes: exact, since bytes are whole."""
        return 0 if ns <= 0 else self.rate.in_ns(ns) + self.step

    def most_in_each(self, ns: Ints) -> Ints:
        """Return ``g`` of each length."""
        most: Ints = np.where(ns > 0, self.rate.position(ns) + self.step, 0)
        return most
