"""Times, sizes and observers as sentences say them.

What a sentence calls a least is rounded down and what it calls a most is rounded up, so that no sentence claims more
than the evidence holds (docs/adr/0062); the exact number of bytes stands beside the rounded one.
"""

from __future__ import annotations

import math
from datetime import datetime, timedelta, timezone

from protos.reading import Direction, Observer
from protos.units import NS_PER_S, format_bytes, format_duration, format_rate

_NAMES = {
    Observer.HOST: "the host",
    Observer.DPU_HOST_PORT: "the DPU's host port",
    Observer.DPU_UPLINK: "the DPU's uplink",
    Observer.SWITCH: "the switch port",
}
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_LAST_NS = 253_402_300_799 * 10**9
"""The end of the year 9999, the last that a date can be written for."""


def name(observer: Observer) -> str:
    """Return an observer for a sentence."""
    return _NAMES[observer]


def verb(direction: Direction) -> str:
    """Return what the node did with the bytes."""
    return "sent" if direction is Direction.EGRESS else "received"


def moment(ns: int) -> str:
    """Return a time of the timeline in UTC, to the millisecond."""
    if not 0 <= ns <= _LAST_NS:
        return f"{ns} ns"
    at = _EPOCH + timedelta(microseconds=ns // 1000)
    return f"{at:%Y-%m-%d %H:%M:%S}.{at.microsecond // 1000:03d} UTC"


def stretch(from_ns: int, to_ns: int) -> str:
    """Return a stretch of time."""
    return f"between {moment(from_ns)} and {moment(to_ns)} ({format_duration(to_ns - from_ns)})"


def at_least(count: int) -> str:
    """Return bytes that were at least so many: rounded down for the eye, exact for the record."""
    return _with_exact(_three_digits(count), count)


def at_most(count: int) -> str:
    """Return bytes that were at most so many: rounded up for the eye, exact for the record."""
    return _with_exact(-_three_digits(-count), count)


def declared(count: int) -> str:
    """Return bytes that people agreed on; every digit beside it where rounding would lose one."""
    return format_bytes(count) if count == _three_digits(count) else f"{format_bytes(count)} ({count:,} B)"


def rate_at_least(bytes_per_s: int) -> str:
    """Return a rate that was at least so high, rounded down."""
    return format_rate(_three_digits(bytes_per_s))


def lasting_at_least(ns: int) -> str:
    """Return a duration that was at least so long, rounded down to what :func:`format_duration` shows of it."""
    if ns >= 3_600 * NS_PER_S:
        shown = ns - ns % (60 * NS_PER_S)
    elif ns >= 120 * NS_PER_S:
        shown = ns - ns % NS_PER_S
    else:
        shown = _three_digits(ns)
    return format_duration(shown)


def share_at_least(share: float) -> str:
    """Return a share that must not be overstated as a percentage: 94.97 % reads as 94.9 %."""
    # What float arithmetic takes from a whole tenth of a percent is not lost evidence.
    return f"{math.floor(share * 1_000 + 1e-9) / 10:.1f} %"


def _with_exact(rounded: int, count: int) -> str:
    return format_bytes(count) if count < 1000 else f"{format_bytes(rounded)} ({count:,} B)"


def _three_digits(value: int) -> int:
    """Return ``value`` with its first three digits kept, rounded towards minus infinity."""
    step: int = 10 ** max(0, len(str(abs(value))) - 3)
    return value // step * step
