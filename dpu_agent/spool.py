"""The spool: every frame that is not acknowledged, on disk, through crashes, up to a declared size.

Frames go into segments (:mod:`dpu_agent.segments`) named by their first sequence. A frame counts as stored once it
was flushed; only then may anyone see it. Beyond the spool's bounds the oldest segment goes, and that is a
:class:`~dpu_agent.state.Loss`; on a full disk the newest frame is lost instead, because whoever fills the disk must
not be able to wipe what was recorded before. With a controller that keeps up two segments take turns, and a full disk
changes nothing.

A loss always starts at the first frame that is not acknowledged: the frames that went may themselves have recorded
earlier losses. Used under the recorder's lock; not safe by itself for several threads.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from dpu_agent import segment
from dpu_agent.disk import Disk
from dpu_agent.ranges import Ranges
from dpu_agent.segment import Moment, Record
from dpu_agent.segments import Segment, Segments
from dpu_agent.state import Loss

SPOOL_FULL = "spool-full"
SPOOL_AGE = "spool-age"
DISK_FULL = "disk-full"
DISK_ERROR = "disk-error"
SPOOL_DAMAGED = "spool-damaged"

# 40 minutes of small frames: what is lost at once when the oldest goes, and a thousandth of the default size.
LARGEST_SEGMENT_BYTES = 1 << 20
SEGMENTS_AT_LEAST = 8
_READ_BYTES = segment.MAX_PAYLOAD_BYTES + segment.RECORD_BYTES

log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Cursor:
    """Where the record after ``sequence`` begins, so that a reader that goes on does not start over."""

    first: int
    sequence: int
    offset: int


@dataclass(frozen=True, slots=True)
class Recovered:
    """What :meth:`Spool.open` found.

    Attributes:
        tail: sequence and payload of the newest record, None if there is none.
        explained: frames that a stored frame already records as lost.
    """

    tail: tuple[int, bytes] | None
    explained: Ranges = field(default_factory=Ranges)


class Spool:
    """Frames on disk, by sequence."""

    def __init__(self, segments: Segments, segment_bytes: int) -> None:
        self._segments, self._segment_bytes = segments, segment_bytes
        self._kept = Ranges()
        self._acknowledged = 0
        self._losses: list[Loss] = []
        self._lost = 0
        self._cursor: _Cursor | None = None

    @classmethod
    def open(
        cls,
        disk: Disk,
        directory: Path,
        *,
        max_bytes: int,
        acknowledged: int,
        losses_in: Callable[[bytes], list[Loss]],
        segment_bytes: int | None = None,
    ) -> tuple[Spool, Recovered]:
        """Return the spool in ``directory`` as the last crash left it.

        1. Read every segment; what is whole is kept, what is damaged or torn is not.
        2. Gather what stored frames record as lost (``losses_in`` parses them), so that it is not found lost again.
        3. Free what is acknowledged; go on in the newest segment, behind its last whole record.

        Raises:
            StateError: a segment was written by a newer agent.
            OSError: the directory cannot be read.
        """
        if segment_bytes is None:
            segment_bytes = min(LARGEST_SEGMENT_BYTES, max_bytes // SEGMENTS_AT_LEAST)
        segments = Segments(disk, directory, max_bytes, segment_bytes)
        spool = cls(segments, segment_bytes)
        recovered = spool._recover(losses_in)
        spool.release(acknowledged)
        segments.activate()
        return spool, recovered

    # ------------------------------------------------------------------ what is in it

    @property
    def oldest(self) -> int:
        """The oldest unacknowledged frame; 0 if there is none."""
        return self._kept.next_after(self._acknowledged) or 0

    @property
    def frames(self) -> int:
        """How many unacknowledged frames there are."""
        return self._kept.count_after(self._acknowledged)

    @property
    def disk_bytes(self) -> int:
        """Disk taken, the spare included."""
        return self._segments.disk_bytes

    @property
    def troubles(self) -> list[str]:
        """What is wrong with the disk now, in words; empty when all is well."""
        return [self._segments.cannot_grow] if self._segments.cannot_grow else []

    def has_after(self, sequence: int) -> bool:
        """Whether there is a stored frame above ``sequence``."""
        return self._kept.next_after(sequence) is not None

    def take_losses(self) -> tuple[list[Loss], int]:
        """Return the losses since the last call, and how many unacknowledged frames went with them."""
        losses, lost = self._losses, self._lost
        self._losses, self._lost = [], 0
        return losses, lost

    def missing(self, last: int) -> Ranges:
        """Return which unacknowledged sequences up to ``last`` are not here."""
        return self._kept.missing(self._acknowledged + 1, last)

    # ------------------------------------------------------------------ writing

    def append(self, sequence: int, moment: Moment, payload: bytes, *, has_losses: bool) -> None:
        """Store a frame; it is on disk when this returns.

        Raises:
            OSError: it is not, and never will be under this sequence.
            ValueError: it is too large.
        """
        content = segment.encode_record(sequence, moment, segment.FLAG_LOSSES if has_losses else 0, payload)
        if len(content) > self._segment_bytes - segment.HEADER_BYTES:
            raise ValueError(f"a frame of {len(payload)} bytes does not fit into a segment of {self._segment_bytes}")
        if not self._segments.has_room_for(len(content)):
            if self._segments.at_bound:
                self._drop_oldest(SPOOL_FULL)
            self._segments.begin(sequence)
        end = self._segments.write(content)
        self._segments.row[-1].took(Record(sequence, moment, 0, None, end))
        self._kept.add(sequence, sequence)

    def release(self, acknowledged: int) -> None:
        """Free the segments of which everything is acknowledged; the acknowledgement must be on disk already.

        Raises:
            OSError: a segment could not be freed; it is tried again the next time.
        """
        self._acknowledged = max(self._acknowledged, acknowledged)
        self._kept.remove(1, self._acknowledged)
        while self.would_release(self._acknowledged):
            self._segments.free_oldest()

    def would_release(self, acknowledged: int) -> bool:
        """Whether :meth:`release` would free a segment."""
        row = self._segments.row
        return len(row) > 1 and row[1].first <= acknowledged + 1

    def expire(self, now: Moment, max_age_ns: int) -> None:
        """Drop the oldest segments all of whose frames are certainly older than ``max_age_ns``.

        Certainly: a frame of this boot by the monotonic clock, of an earlier boot by the time since this one began.
        The wall clock has no say: stepping it must not make the agent forget.

        Raises:
            OSError: a segment could not be freed; it is tried again the next time.
        """
        while len(self._segments.row) > 1:
            newest = self._segments.row[0].newest
            age = now.monotonic_ns
            if newest is not None and newest.boot == now.boot:
                age -= newest.monotonic_ns
            if age <= max_age_ns:
                return
            self._drop_oldest(SPOOL_AGE)

    def forget(self, first: int, last: int) -> None:
        """Treat these frames as lost though they may be readable: it has been recorded that they are."""
        self._kept.remove(first, last)

    def close(self) -> None:
        """Close the segment that is written to."""
        self._segments.close()

    # ------------------------------------------------------------------ reading

    def read_after(self, sequence: int, max_frames: int) -> list[tuple[int, bytes]]:
        """Return up to ``max_frames`` stored frames with sequences above ``sequence``, in order.

        Fewer when they are large. A frame that cannot be read any more becomes a loss.
        """
        found: list[tuple[int, bytes]] = []
        read = 0
        while len(found) < max_frames and read < _READ_BYTES:
            wanted = self._kept.next_after(sequence)
            if wanted is None:
                break
            some, sequence = self._read_from(wanted, max_frames - len(found))
            found += some
            read += sum(len(payload) for _, payload in some)
        return found

    def _read_from(self, wanted: int, max_frames: int) -> tuple[list[tuple[int, bytes]], int]:
        """Return frames from ``wanted`` on out of one segment, and up to which sequence that settles the matter."""
        holder = next(found for found in reversed(self._segments.row) if found.first <= wanted)
        found: list[tuple[int, bytes]] = []
        expected, read = wanted, 0
        try:
            for record in self._records(holder, wanted):
                if record.payload is None:
                    self._unreadable(record.sequence, record.sequence, holder)
                elif record.sequence in self._kept:
                    found.append((record.sequence, record.payload))
                    read += len(record.payload)
                expected = record.sequence + 1
                if len(found) >= max_frames or read >= _READ_BYTES:
                    return found, record.sequence
        except OSError as error:
            log.warning("%s: %s", holder.path, error)
        # What is kept and was not found by now will never be; going on behind it, so that a reader always gets on.
        last = max(holder.last, wanted)
        self._unreadable(expected, last, holder)
        return found, last

    def _records(self, holder: Segment, wanted: int) -> Iterator[Record]:
        """Yield the records of ``holder`` from ``wanted`` on, beginning where the last reader stopped if that helps."""
        offset, above = segment.HEADER_BYTES, holder.first - 1
        cursor = self._cursor
        if cursor is not None and cursor.first == holder.first and cursor.sequence < wanted:
            offset, above = cursor.offset, cursor.sequence
        for record in self._segments.records(holder, offset, above, _READ_BYTES):
            self._cursor = _Cursor(holder.first, record.sequence, record.end)
            if record.sequence >= wanted:
                yield record

    def _unreadable(self, first: int, last: int, holder: Segment) -> None:
        """Count what is kept of ``[first, last]`` as lost: it should have been read and was not."""
        lost = self._kept.remove(first, last)
        if lost:
            log.error("%s: frames %d to %d cannot be read; they are recorded as lost", holder.path, first, last)
            if holder is self._segments.row[-1]:
                self._segments.seal()
            self._losses.append(Loss(first, last, SPOOL_DAMAGED))
            self._lost += lost

    # ------------------------------------------------------------------ the two ends of its life

    def _recover(self, losses_in: Callable[[bytes], list[Loss]]) -> Recovered:
        tail: tuple[int, bytes] | None = None
        explained = Ranges()
        for record in self._segments.load():
            if record.payload is None:
                continue
            tail = (record.sequence, record.payload)
            self._kept.add(record.sequence, record.sequence)
            if record.flags & segment.FLAG_LOSSES:
                for loss in losses_in(record.payload):
                    explained.add(loss.first, loss.last)
        return Recovered(tail, explained)

    def _drop_oldest(self, reason: str) -> None:
        row = self._segments.row
        last = row[1].first - 1 if len(row) > 1 else row[0].last
        self._segments.free_oldest()
        lost = self._kept.remove(1, last)
        if last > self._acknowledged:
            self._losses.append(Loss(self._acknowledged + 1, last, reason))
            self._lost += lost
