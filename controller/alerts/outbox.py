"""What one receiver is still to be told: new alerts, alerts that are over, and reminders. Pure; bounded.

1. An alert is told when it is new and when it is over; while it goes on it is told again every ``repeat_ns``.
2. What belongs to one group is told together: the first at most ``wait_ns`` after it came, the next not before
   ``interval_ns`` have passed. A receiver that groups by itself has no wait and no interval.
3. What could not be delivered stays due. An alert that began and ended meanwhile is told as over, with both times.
4. There is room for ``most`` alerts. Beyond that the oldest goes, those that are over first; what was not told is lost
   and counted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from controller.alerts.alert import Alert

MOST_ALERTS = 10_000
MOST_TOLD = 256
"""So many alerts go into one message."""


@dataclass(frozen=True, slots=True)
class Rhythm:
    """How often a receiver is told; nanoseconds. ``grouped`` is whether we group for it."""

    repeat_ns: int
    wait_ns: int = 0
    interval_ns: int = 0
    grouped: bool = False


@dataclass(slots=True)
class _Held:
    alert: Alert
    since_ns: int
    told_ns: int | None = None
    dirty: bool = True


@dataclass(frozen=True, slots=True)
class Message:
    """Alerts that are told together. ``others`` go on in the group and are not told again now."""

    group: tuple[str, str]
    alerts: tuple[Alert, ...]
    others: int = 0


class Outbox:
    """One receiver's."""

    def __init__(self, rhythm: Rhythm, *, most: int = MOST_ALERTS) -> None:
        self._rhythm, self._most = rhythm, most
        self._held: dict[str, _Held] = {}
        self._told: dict[tuple[str, str], int] = {}
        self.lost = 0

    def take(self, alert: Alert, now_ns: int) -> None:
        """Take an alert that began or is over."""
        known = self._held.get(alert.id)
        if known is None:
            self._held[alert.id] = _Held(alert, now_ns)
            self._shrink()
            return
        known.alert, known.dirty = alert, known.dirty or known.alert.resolved != alert.resolved

    def due(self, now_ns: int) -> Iterator[Message]:
        """Yield what is to be told now, a message a group."""
        groups: dict[tuple[str, str], list[_Held]] = {}
        for held in self._held.values():
            groups.setdefault(self._group(held.alert), []).append(held)
        for group, members in groups.items():
            fresh = [held for held in members if held.dirty]
            again = [held for held in members if not held.dirty and self._repeats(held, now_ns)]
            last_ns = self._told.get(group)
            early = fresh and (
                now_ns < min(held.since_ns for held in fresh) + self._rhythm.wait_ns
                if last_ns is None
                else now_ns < last_ns + self._rhythm.interval_ns
            )
            if early or not (fresh or again):
                continue
            told = sorted([*fresh, *again], key=lambda held: held.alert.starts_ns)
            for at in range(0, len(told), MOST_TOLD):
                part = told[at : at + MOST_TOLD]
                yield Message(group, tuple(held.alert for held in part), len(members) - len(told))

    def delivered(self, message: Message, now_ns: int) -> None:
        """Take that a message was taken; what is over is forgotten."""
        self._told[message.group] = now_ns
        for alert in message.alerts:
            held = self._held.get(alert.id)
            if held is None:
                continue
            # It may have ended while the message was on its way.
            held.dirty, held.told_ns = held.alert.resolved != alert.resolved, now_ns
            if held.alert.resolved and not held.dirty:
                del self._held[alert.id]
        if not any(self._group(held.alert) == message.group for held in self._held.values()):
            # Kept until the interval is over, so that what comes and goes is no storm.
            self._told = {group: at for group, at in self._told.items() if now_ns - at < self._rhythm.interval_ns}

    def next_ns(self, now_ns: int) -> int | None:
        """Return when something will be due if nothing comes; None for never."""
        moments = []
        for held in self._held.values():
            last_ns = self._told.get(self._group(held.alert))
            if held.dirty:
                moments.append(
                    held.since_ns + self._rhythm.wait_ns if last_ns is None else last_ns + self._rhythm.interval_ns
                )
            elif held.told_ns is not None:
                moments.append(held.told_ns + self._rhythm.repeat_ns)
        return max(now_ns, min(moments)) if moments else None

    def waiting(self) -> Sequence[Alert]:
        """Return what was never told as it is now."""
        return [held.alert for held in self._held.values() if held.dirty]

    def _repeats(self, held: _Held, now_ns: int) -> bool:
        return held.told_ns is not None and now_ns >= held.told_ns + self._rhythm.repeat_ns

    def _group(self, alert: Alert) -> tuple[str, str]:
        return (alert.labels["site"], alert.labels["place"]) if self._rhythm.grouped else ("", "")

    def _shrink(self) -> None:
        if len(self._held) <= self._most:
            return
        victim = next((key for key, held in self._held.items() if held.alert.resolved), next(iter(self._held)))
        self.lost += self._held.pop(victim).dirty
