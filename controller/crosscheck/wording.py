"""Times, sizes and observers as sentences say them."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

from protos.reading import Direction, Observer
from protos.units import format_bytes, format_duration

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


def size(count: int) -> str:
    """Return a number of bytes: rounded for the eye, exact for the record."""
    return format_bytes(count) if count < 1000 else f"{format_bytes(count)} ({count:,} B)"
