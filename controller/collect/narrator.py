"""Tells the operator, in plain words on stderr, when something starts, fails and recovers; repetitions are counted.

A switch that is down for an hour is two lines: when it stopped answering and when it answered again. In between a
reminder comes at growing distances, so that whoever looks at the terminal now sees what is wrong now.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import TextIO

from protos.units import format_duration

FIRST_REMINDER_NS = 60_000_000_000
LAST_REMINDER_NS = 3_600_000_000_000
"""Reminders double from a minute to an hour."""


@dataclass(slots=True)
class _Trouble:
    since_ns: int
    reason: str
    looks: int
    remind_at_ns: int
    remind_after_ns: int


class Narrator:
    """What has been said about each device. ``now_ns`` is any clock in ns that does not go back."""

    def __init__(self, now_ns: Callable[[], int], stream: TextIO | None = None) -> None:
        self._now_ns = now_ns
        self._stream = stream
        self._well: set[tuple[str, str]] = set()
        self._troubles: dict[tuple[str, str], _Trouble] = {}

    def say(self, text: str) -> None:
        """Print one line."""
        print(text, file=self._stream or sys.stderr, flush=True)

    def well(self, device: str, what: str, text: str) -> None:
        """``what`` works at ``device``: said the first time (``text``) and after trouble, with how long it took."""
        trouble = self._troubles.pop((device, what), None)
        if trouble is not None:
            lasted = format_duration(self._now_ns() - trouble.since_ns)
            looks = "1 look" if trouble.looks == 1 else f"{trouble.looks} looks"
            self.say(f"{device}: {text} again after {lasted} ({looks} failed)")
        elif (device, what) not in self._well:
            self.say(f"{device}: {text}")
        self._well.add((device, what))

    def trouble(self, device: str, what: str, reason: str, text: str) -> None:
        """``what`` failed at ``device``: said when the reason is new, and again at growing distances."""
        now = self._now_ns()
        known = self._troubles.get((device, what))
        if known is None or known.reason != reason:
            since, looks = (now, 0) if known is None else (known.since_ns, known.looks)
            self._troubles[device, what] = _Trouble(
                since, reason, looks + 1, now + FIRST_REMINDER_NS, FIRST_REMINDER_NS
            )
            self.say(f"{device}: {text}")
            return
        known.looks += 1
        if now >= known.remind_at_ns:
            known.remind_after_ns = min(2 * known.remind_after_ns, LAST_REMINDER_NS)
            known.remind_at_ns = now + known.remind_after_ns
            self.say(f"{device}: still, for {format_duration(now - known.since_ns)} ({known.looks} looks): {text}")
