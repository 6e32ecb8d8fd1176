"""The controller's timeline: one time for everything it records, which never steps and never goes back.

Timeline time is CLOCK_MONOTONIC plus an offset, in integer nanoseconds. The offset is fixed by the first run of a
boot so that the timeline then equals the wall clock (UTC), and is journaled under the boot's id; later runs of the
same boot use it again. So an interval between two times is a true one, across restarts and whatever is done to
the wall clock, and a time is UTC up to the *clock error*, which is journaled when it changes and printed in
reports. Across a reboot times only go forward: should the wall clock be behind what was recorded, the timeline
begins one nanosecond after it.

:func:`choose_anchor` decides and is pure; :class:`Timeline` reads clocks and writes to the journal.

The body of a TIMELINE entry is JSON: ``boot_id``, ``offset_ns``, ``monotonic_ns``, ``wall_ns`` (64-bit numbers as
decimal strings) and ``reason``: ``anchor`` (the offset was chosen), ``run`` (a run used it again) or ``wall-clock``
(the wall clock moved against the timeline). Sequence 1 of a boot is its anchor, so two processes that start at the
same moment agree on one.
"""

from __future__ import annotations

import json
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from controller.errors import EvidenceError, OperatorError
from controller.journal import ConflictingEntryError, Entry, Journal, Kind, NewEntry

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")

NOTED_CHANGE_NS = 100_000_000
"""The wall clock's movement against the timeline is journaled when it exceeds this: slewing by a time daemon stays
below it for minutes, a step a person would notice in a report does not."""


class Clocks(Protocol):
    """What the timeline reads from the machine."""

    def monotonic_ns(self) -> int:
        """CLOCK_MONOTONIC."""

    def wall_ns(self) -> int:
        """CLOCK_REALTIME, nanoseconds since 1970 UTC."""

    def boot_id(self) -> str:
        """The kernel's id of this boot."""


class SystemClocks:
    """This machine's clocks."""

    def monotonic_ns(self) -> int:
        """CLOCK_MONOTONIC."""
        return time.monotonic_ns()

    def wall_ns(self) -> int:
        """CLOCK_REALTIME, nanoseconds since 1970 UTC."""
        return time.time_ns()

    def boot_id(self) -> str:
        """The kernel's id of this boot.

        Raises:
            OperatorError: it cannot be read.
        """
        try:
            return BOOT_ID.read_text(encoding="ascii").strip()
        except OSError as error:
            raise OperatorError(
                f"{BOOT_ID} cannot be read ({error.strerror}): without it a reboot cannot be told. Mount /proc."
            ) from error


@dataclass(frozen=True, slots=True)
class Anchor:
    """Ties a boot's CLOCK_MONOTONIC to the timeline: timeline time = monotonic time + ``offset_ns``."""

    boot_id: str
    offset_ns: int


@dataclass(frozen=True, slots=True)
class ClockError:
    """How far the wall clock was ahead of the timeline in a period, at least and at most, as far as it was noted."""

    least_ns: int
    most_ns: int


def choose_anchor(
    *, boot_id: str, monotonic_ns: int, wall_ns: int, of_this_boot: Anchor | None, last_recorded_ns: int | None
) -> Anchor:
    """Return the anchor for a run that starts now.

    1. A boot that has an anchor keeps it.
    2. Otherwise the timeline equals the wall clock now,
    3. but lies after everything that was recorded.
    """
    if of_this_boot is not None:
        return of_this_boot
    now_ns = wall_ns if last_recorded_ns is None else max(wall_ns, last_recorded_ns + 1)
    return Anchor(boot_id, now_ns - monotonic_ns)


class Timeline:
    """The timeline of one process. Threads may share it."""

    def __init__(self, anchor: Anchor, clocks: Clocks) -> None:
        """Use :meth:`start`, or :meth:`view` to look without writing."""
        self.anchor = anchor
        self._clocks = clocks
        self._noted_error_ns: int | None = None
        self._lock = threading.Lock()

    @classmethod
    def start(cls, journal: Journal, clocks: Clocks | None = None) -> Timeline:
        """Return this boot's timeline, and journal that it is used.

        Raises:
            OperatorError: the journal cannot be written, or the boot id not read.
            EvidenceError: what the journal holds of this boot cannot be read.
        """
        clocks = clocks if clocks is not None else SystemClocks()
        of_this_boot = _of_this_boot(journal, clocks.boot_id())
        timeline = cls(_anchor(journal, clocks, of_this_boot), clocks)
        if of_this_boot is None:
            try:
                journal.append(timeline._entry("anchor", sequence=1))
            except ConflictingEntryError:
                # Another process anchored this boot since we looked: its anchor counts.
                timeline.anchor = _anchor(journal, clocks, _of_this_boot(journal, timeline.anchor.boot_id))
            else:
                return timeline
        journal.append(timeline._entry("run"))
        return timeline

    @classmethod
    def first(cls, clocks: Clocks | None = None) -> tuple[Timeline, NewEntry]:
        """Return this boot's timeline for a journal that is about to be made, and the entry that anchors it there."""
        clocks = clocks if clocks is not None else SystemClocks()
        anchor = choose_anchor(
            boot_id=clocks.boot_id(),
            monotonic_ns=clocks.monotonic_ns(),
            wall_ns=clocks.wall_ns(),
            of_this_boot=None,
            last_recorded_ns=None,
        )
        timeline = cls(anchor, clocks)
        return timeline, timeline._entry("anchor", sequence=1)

    @classmethod
    def view(cls, journal: Journal, clocks: Clocks | None = None) -> Timeline:
        """Return the timeline of this boot for who only looks: nothing is journaled.

        On a boot that no run has used, it is the one a run would begin now.
        """
        clocks = clocks if clocks is not None else SystemClocks()
        return cls(_anchor(journal, clocks, _of_this_boot(journal, clocks.boot_id())), clocks)

    def now_ns(self) -> int:
        """Return the time now, in nanoseconds on the timeline."""
        return self._clocks.monotonic_ns() + self.anchor.offset_ns

    def at_monotonic_ns(self, monotonic_ns: int) -> int:
        """Return the timeline's time at a time of this boot's CLOCK_MONOTONIC."""
        return monotonic_ns + self.anchor.offset_ns

    def clock_error_ns(self) -> int:
        """Return how far the wall clock is ahead of the timeline now."""
        return self._clocks.wall_ns() - self.now_ns()

    def note_wall_clock(self, journal: Journal) -> int | None:
        """Journal the clock error if it changed by more than :data:`NOTED_CHANGE_NS` since it last was.

        Call it now and then (once a minute is plenty).

        Returns:
            The change since then, in nanoseconds, or None when it was not worth noting.
        """
        with self._lock:
            error_ns = self.clock_error_ns()
            change_ns = error_ns - (self._noted_error_ns or 0)
            if abs(change_ns) <= NOTED_CHANGE_NS:
                return None
            journal.append(self._entry("wall-clock"))
            return change_ns

    def _entry(self, reason: str, *, sequence: int | None = None) -> NewEntry:
        monotonic_ns, wall_ns = self._clocks.monotonic_ns(), self._clocks.wall_ns()
        self._noted_error_ns = wall_ns - self.at_monotonic_ns(monotonic_ns)
        body = {
            "boot_id": self.anchor.boot_id,
            "offset_ns": str(self.anchor.offset_ns),
            "monotonic_ns": str(monotonic_ns),
            "wall_ns": str(wall_ns),
            "reason": reason,
        }
        return NewEntry(
            Kind.TIMELINE,
            self.anchor.boot_id,
            self.at_monotonic_ns(monotonic_ns),
            json.dumps(body, sort_keys=True).encode(),
            sequence=sequence,
        )


def clock_error(journal: Journal, *, from_ns: int, to_ns: int) -> ClockError | None:
    """Return the clock error noted in a period and last before it, or None if none ever was.

    Raises:
        EvidenceError: a TIMELINE entry cannot be read.
    """
    before: int | None = None
    noted = []
    for entry in journal.entries(kinds=[Kind.TIMELINE], to_ns=to_ns):
        body = _body(journal, entry)
        error_ns = body["wall_ns"] - body["monotonic_ns"] - body["offset_ns"]
        if entry.recorded_ns < from_ns:
            before = error_ns
        else:
            noted.append(error_ns)
    if before is not None:
        noted.append(before)
    return ClockError(min(noted), max(noted)) if noted else None


def _of_this_boot(journal: Journal, boot_id: str) -> Anchor | None:
    entry = journal.last(Kind.TIMELINE, boot_id)
    return None if entry is None else Anchor(boot_id, _body(journal, entry)["offset_ns"])


def _anchor(journal: Journal, clocks: Clocks, of_this_boot: Anchor | None) -> Anchor:
    return choose_anchor(
        boot_id=clocks.boot_id(),
        monotonic_ns=clocks.monotonic_ns(),
        wall_ns=clocks.wall_ns(),
        of_this_boot=of_this_boot,
        last_recorded_ns=journal.last_recorded_ns(),
    )


def _body(journal: Journal, entry: Entry) -> dict[str, int]:
    try:
        body: Any = json.loads(entry.body)
        return {key: int(body[key]) for key in ("offset_ns", "monotonic_ns", "wall_ns")}
    except (ValueError, KeyError, TypeError) as error:
        raise EvidenceError(
            f"{journal.path}: leaf {entry.leaf} is not a timeline entry this program can read. "
            "Update weighbridge on this machine, or restore the journal from a copy."
        ) from error
