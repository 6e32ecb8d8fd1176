"""One observer's readings of one link, in both directions, numbered by counter epoch."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field

from controller.crosscheck.model import BucketRun
from protos.reading import Direction, Framing, Reading


@dataclass(frozen=True, slots=True)
class Note:
    """What was said about a stretch in which there is no reading: a port missing from a poll, frames lost..."""

    from_ns: int
    to_ns: int
    text: str


def _empty() -> dict[Direction, list[Reading]]:
    return {direction: [] for direction in Direction}


@dataclass(slots=True)
class Series:
    """Readings in the order they were made.

    Attributes:
        readings: by direction, in order; ``epoch`` is the number in ``reasons`` and ``proven``.
        drops: packets dropped, as readings (``bytes`` holds packets), in the same epochs.
        reasons: why each epoch after the first began.
        proven: the epochs whose continuity is evidenced.
        clock_width_ns: widest clock offset interval that went into a reading.
        refresh_ns: R that went into the readings, the longest; 0 where the source keeps no copies.
        buckets: what meters told by the millisecond of what enters the ports.
        notes: why there is no reading where somebody looked; neighbours of one reason are one note.
    """

    readings: dict[Direction, list[Reading]] = field(default_factory=_empty)
    drops: dict[Direction, list[Reading]] = field(default_factory=_empty)
    reasons: dict[int, str] = field(default_factory=dict)
    proven: set[int] = field(default_factory=set)
    clock_width_ns: int = 0
    refresh_ns: int = 0
    buckets: tuple[BucketRun, ...] = ()
    notes: list[Note] = field(default_factory=list)
    _numbers: dict[Hashable, int] = field(default_factory=dict)

    def number_of(self, key: Hashable, reason: str, *, proven: bool) -> int:
        """Return the number of the epoch that ``key`` names; a key that is new begins one, because of ``reason``."""
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self._numbers)
            if number > 0:
                self.reasons[number] = reason
            if proven:
                self.proven.add(number)
        return number

    def note(self, from_ns: int, to_ns: int, text: str) -> None:
        """Somebody looked then and got no reading, because of ``text``."""
        last = self.notes[-1] if self.notes else None
        newest = max((both[-1].latest_ns for both in self.readings.values() if both), default=None)
        if last is not None and last.text == text and (newest is None or newest <= last.from_ns):
            self.notes[-1] = Note(last.from_ns, max(last.to_ns, to_ns), text)
        else:
            self.notes.append(Note(from_ns, to_ns, text))

    @property
    def framing(self) -> Framing | None:
        """What the readings count, None without readings."""
        return next((reading.framing for both in self.readings.values() for reading in both), None)

    def moments(self) -> list[int]:
        """Return when something was read, in either direction: the latest time of each reading, in order."""
        return sorted({reading.latest_ns for both in self.readings.values() for reading in both})


def summed(parts: Sequence[Reading], *, epoch: int, window: tuple[int, int] | None = None) -> Reading | None:
    """Return the reading of several counters together (``bounds.md`` 1), None if they count different things.

    The sum was true between the first and the last moment at which a part can have been; ``window`` gives these
    moments, earliest and latest, where they are known on another clock than the parts'.
    """
    if len({part.framing for part in parts}) != 1:
        return None
    packets = [part.packets for part in parts if part.packets is not None]
    return Reading(
        earliest_ns=min(part.earliest_ns for part in parts) if window is None else window[0],
        latest_ns=max(part.latest_ns for part in parts) if window is None else window[1],
        bytes=sum(part.bytes for part in parts),
        packets=sum(packets) if len(packets) == len(parts) else None,
        epoch=epoch,
        framing=parts[0].framing,
        bytes_slack=sum(part.bytes_slack for part in parts),
    )


def paired(parts: Sequence[Series]) -> Series:
    """Return the sum of several series that were not read together, such as a bond's ports on two switches.

    Any reading of one with any reading of another bounds their sum (``bounds.md`` 1); those nearest in time bound it
    best, so each reading of the series with the fewest is added to its neighbours in the others.
    """
    total = Series(
        clock_width_ns=max(part.clock_width_ns for part in parts), refresh_ns=max(part.refresh_ns for part in parts)
    )
    total.notes = sorted((note for part in parts for note in part.notes), key=lambda note: note.from_ns)
    for direction in Direction:
        rows = _neighbours([part.readings[direction] for part in parts])
        for row in rows:
            numbers = tuple(reading.epoch for reading in row)
            reason = "; ".join(
                dict.fromkeys(
                    part.reasons[number] for part, number in zip(parts, numbers, strict=True) if number in part.reasons
                )
            )
            proven = all(number in part.proven for part, number in zip(parts, numbers, strict=True))
            reading = summed(row, epoch=total.number_of(numbers, reason, proven=proven))
            if reading is not None:
                total.readings[direction].append(reading)
        for row in _neighbours([part.drops[direction] for part in parts]):
            numbers = tuple(reading.epoch for reading in row)
            dropped = summed(row, epoch=total.number_of(numbers, "", proven=False))
            if dropped is not None:
                total.drops[direction].append(dropped)
    return total


def _neighbours(columns: Sequence[Sequence[Reading]]) -> list[tuple[Reading, ...]]:
    """Each reading of the shortest column with the nearest one of each other column; empty if a column is."""
    if not all(columns):
        return []
    shortest = min(columns, key=len)
    times = [[reading.latest_ns for reading in column] for column in columns]
    rows = []
    for reading in shortest:
        row = []
        for column, latest in zip(columns, times, strict=True):
            at = bisect_left(latest, reading.latest_ns)
            near = column[max(0, at - 1) : at + 1]
            row.append(min(near, key=lambda other: abs(other.latest_ns - reading.latest_ns)))
        rows.append(tuple(row))
    return rows
