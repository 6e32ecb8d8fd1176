"""Axes of the plots: which scale, where its ticks stand, what they say.

Inference moves kilobytes where training moves hundreds of megabytes: where both must be read on one axis it is
logarithmic, with a short linear foot so that zero has a place.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from controller.report import words
from protos.units import NS_PER_S

_LINEAR_RATIO = 20
"""Up to this ratio between the largest and the smallest value of interest a linear axis shows both."""
_MOST_DECADES = 6
_FOOT = 0.10
"""Share of a logarithmic axis given to the values below its first decade, zero included."""


@dataclass(frozen=True, slots=True)
class ByteAxis:
    """A vertical axis of bytes; ``floor`` is the first decade of a logarithmic one, None if linear."""

    top: int
    floor: int | None

    @classmethod
    def over(cls, values: list[int]) -> ByteAxis:
        """Return the axis that shows all ``values`` (bytes), the limit among them."""
        positive = sorted(value for value in values if value > 0)
        if not positive:
            return cls(top=1_000, floor=None)
        largest, smallest = positive[-1], positive[len(positive) // 20]
        if largest <= _LINEAR_RATIO * smallest:
            return cls(top=_nice_above(largest), floor=None)
        top_power = math.ceil(math.log10(largest * 1.25))
        floor_power = max(math.floor(math.log10(smallest)), top_power - _MOST_DECADES)
        return cls(top=10**top_power, floor=10**floor_power)

    def share(self, value: int) -> float:
        """Return the height of ``value`` as a share of the axis, clamped to it."""
        if self.floor is None:
            return min(1.0, value / self.top)
        if value <= self.floor:
            return _FOOT * max(0, value) / self.floor
        decades = math.log10(self.top / self.floor)
        return min(1.0, _FOOT + (1 - _FOOT) * math.log10(value / self.floor) / decades)

    def ticks(self) -> list[tuple[int, str]]:
        """Return the values to mark, each with its text."""
        if self.floor is None:
            step = _nice_step(self.top / 5)
            values = list(range(0, self.top + 1, step))
        else:
            powers = range(round(math.log10(self.floor)), round(math.log10(self.top)) + 1)
            values = [0, *(10**power for power in powers)]
        return [(value, _tick_text(value)) for value in values]


def _nice_step(rough: float) -> int:
    power: int = 10 ** max(0, math.floor(math.log10(max(rough, 1))))
    return next((factor * power for factor in (1, 2, 5) if factor * power >= rough), 10 * power)


def _nice_above(value: int) -> int:
    step = _nice_step(value * 1.1 / 5)
    return -(-value * 11 // 10 // step) * step


def _tick_text(value: int) -> str:
    text = words.floor_bytes(value)
    digits, unit = text.split(" ")
    return f"{digits.rstrip('0').rstrip('.') if '.' in digits else digits} {unit}" if value else "0"


_TIME_STEPS_S = (0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200)
_DAY_S = 86_400


def time_ticks(from_ns: int, to_ns: int, most: int) -> list[tuple[int, str]]:
    """Return at most about ``most`` round UTC times inside the stretch, each with its text."""
    rough = (to_ns - from_ns) / NS_PER_S / most
    days = math.ceil(rough / _DAY_S)
    step_s = next((step for step in _TIME_STEPS_S if step >= rough), days * _DAY_S)
    step_ns = round(step_s * NS_PER_S)
    first = -(-from_ns // step_ns) * step_ns
    return [(at, _time_text(at, step_s)) for at in range(first, to_ns + 1, step_ns)]


def _time_text(at_ns: int, step_s: float) -> str:
    time = words.moment(at_ns)
    if step_s >= _DAY_S or (time.hour, time.minute, time.second) == (0, 0, 0):
        return time.strftime("%d %b")
    if step_s < 1:
        return words.clock_of(at_ns)
    return time.strftime("%H:%M" if step_s >= 60 else "%H:%M:%S")
