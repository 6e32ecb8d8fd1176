"""The spool: every frame that is not acknowledged, on disk, through crashes, up to a declared size.

Frames go into segments (:mod:`dpu_agent.segment`) named by their first sequence. A frame counts as stored once it was
flushed; only then may anyone see it. Acknowledged segments become the *spare*, the next one to write: with a
controller that keeps up the spool lives in two files and needs no new disk, so a disk that others filled stops it
only once it must grow. Beyond its bounds the oldest segment goes, and that is a :class:`Loss`; on a full disk the
newest frame is lost instead, because whoever fills the disk must not be able to wipe what was recorded before.

A loss always starts at the first frame that is not acknowledged: the frames that went may themselves have recorded
earlier losses. Used under the recorder's lock; not safe by itself for several threads.
"""

from __future__ import annotations

import errno
import logging
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from dpu_agent import segment
from dpu_agent.disk import Disk
from dpu_agent.ranges import Ranges
from dpu_agent.segment import Moment
from dpu_agent.state import Loss

SPOOL_FULL = "spool-full"
SPOOL_AGE = "spool-age"
DISK_FULL = "disk-full"
DISK_ERROR = "disk-error"
SPOOL_DAMAGED = "spool-damaged"

# 40 minutes of small frames: what is lost at once when the oldest goes, and a thousandth of the default size.
LARGEST_SEGMENT_BYTES = 1 << 20
SEGMENTS_AT_LEAST = 8
FULL_ERRNOS = frozenset({errno.ENOSPC, errno.EDQUOT})

_NAME = re.compile(r"([0-9]{20})\.seg", re.ASCII)
_SPARE = "spare.seg"
_NEW_SPARE = "spare.new"
_READ_BYTES = segment.MAX_PAYLOAD_BYTES + segment.RECORD_BYTES

log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Segment:
    """A segment in memory: where its records end, its last record's sequence and moment (None: it has none)."""

    first: int
    path: Path
    size: int
    end: int = segment.HEADER_BYTES
    last: int = 0
    newest: Moment | None = None


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

    def __init__(self, disk: Disk, directory: Path, max_bytes: int, segment_bytes: int) -> None:
        self._disk, self._directory = disk, directory
        self._max_bytes, self._segment_bytes = max_bytes, segment_bytes
        self._segments: list[_Segment] = []
        self._spare_bytes = 0
        self._active_descriptor: int | None = None
        self._sealed = False
        self._names_in_doubt = False
        self._kept = Ranges()
        self._acknowledged = 0
        self._losses: list[Loss] = []
        self._lost = 0
        self._cursor: _Cursor | None = None
        self._cannot_grow = ""

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
        spool = cls(disk, directory, max_bytes, segment_bytes)
        recovered = spool._recover(losses_in)
        spool.release(acknowledged)
        spool._activate()
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
        return sum(found.size for found in self._segments) + self._spare_bytes

    @property
    def troubles(self) -> list[str]:
        """What is wrong with the disk now, in words; empty when all is well."""
        return [self._cannot_grow] if self._cannot_grow else []

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
        record = segment.encode_record(sequence, moment, segment.FLAG_LOSSES if has_losses else 0, payload)
        if len(record) > self._segment_bytes - segment.HEADER_BYTES:
            raise ValueError(f"a frame of {len(payload)} bytes does not fit into a segment of {self._segment_bytes}")
        active = self._segments[-1] if self._segments else None
        if active is None or self._active_descriptor is None or self._sealed or active.end + len(record) > active.size:
            active = self._roll(sequence)
        try:
            self._disk.write_at(self._active(), record, active.end)
            self._disk.flush(self._active())
            self._flush_names()
        except OSError as error:
            # After a failed flush nobody knows what of the file is on disk; do not build on it. An empty segment is
            # tried again, else each failure would take a new one.
            self._sealed = error.errno not in FULL_ERRNOS and active.last != 0
            raise
        active.end += len(record)
        active.last, active.newest = sequence, moment
        self._kept.add(sequence, sequence)

    def release(self, acknowledged: int) -> None:
        """Free the segments of which everything is acknowledged; the acknowledgement must be on disk already.

        Raises:
            OSError: a segment could not be freed; it is tried again the next time.
        """
        self._acknowledged = max(self._acknowledged, acknowledged)
        self._kept.remove(1, self._acknowledged)
        while len(self._segments) > 1 and self._segments[1].first <= self._acknowledged + 1:
            self._free_oldest()

    def would_release(self, acknowledged: int) -> bool:
        """Whether :meth:`release` would free a segment."""
        return len(self._segments) > 1 and self._segments[1].first <= acknowledged + 1

    def expire(self, now: Moment, max_age_ns: int) -> None:
        """Drop the oldest segments all of whose frames are certainly older than ``max_age_ns``.

        Certainly: a frame of this boot by the monotonic clock, of an earlier boot by the time since this one began.
        The wall clock has no say: stepping it must not make the agent forget.

        Raises:
            OSError: a segment could not be freed; it is tried again the next time.
        """
        while len(self._segments) > 1:
            newest = self._segments[0].newest
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
        if self._active_descriptor is not None:
            self._disk.close(self._active_descriptor)
            self._active_descriptor = None

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
        holder = next(found for found in reversed(self._segments) if found.first <= wanted)
        found: list[tuple[int, bytes]] = []
        expected, read = wanted, 0
        try:
            for record in self._records(holder, wanted):
                self._unreadable(expected, record.sequence - 1, holder)
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
        self._unreadable(expected, holder.last, holder)
        return found, holder.last

    def _records(self, holder: _Segment, wanted: int) -> Iterator[segment.Record]:
        """Yield the records of ``holder`` from ``wanted`` on, beginning where the last reader stopped if that helps."""
        offset, above = segment.HEADER_BYTES, holder.first - 1
        cursor = self._cursor
        if cursor is not None and cursor.first == holder.first and cursor.sequence < wanted:
            offset, above = cursor.offset, cursor.sequence
        active = holder is self._segments[-1] and self._active_descriptor is not None
        descriptor = self._active() if active else self._disk.open(holder.path)
        try:
            start = -1
            while start < offset < holder.end:
                start = offset
                content = segment.read_through(self._disk, descriptor, start, min(_READ_BYTES, holder.end - start))
                for record in segment.records(content, start, above):
                    offset, above = record.end, record.sequence
                    self._cursor = _Cursor(holder.first, above, offset)
                    if above >= wanted:
                        yield record
        finally:
            if not active:
                self._disk.close(descriptor)

    def _unreadable(self, first: int, last: int, holder: _Segment) -> None:
        """Count what is kept of ``[first, last]`` as lost: it should have been read and was not."""
        lost = self._kept.remove(first, last)
        if lost:
            log.error("%s: frames %d to %d cannot be read; they are recorded as lost", holder.path, first, last)
            self._losses.append(Loss(first, last, SPOOL_DAMAGED))
            self._lost += lost

    # ------------------------------------------------------------------ segments

    def _recover(self, losses_in: Callable[[bytes], list[Loss]]) -> Recovered:
        tail: tuple[int, bytes] | None = None
        explained = Ranges()
        for name in self._disk.list(self._directory):
            match = _NAME.fullmatch(name)
            if match is None:
                if name not in {_SPARE, _NEW_SPARE}:
                    log.warning("%s: is no file of the spool; left alone", self._directory / name)
                continue
            found = _Segment(int(match[1]), self._directory / name, 0)
            descriptor = self._disk.open(found.path)
            try:
                found.size = self._disk.size(descriptor)
                content = segment.read_through(self._disk, descriptor, 0, found.size)
            finally:
                self._disk.close(descriptor)
            self._segments.append(found)
            if segment.first_sequence(found.path, content) != found.first:
                # Its name says the same, and every record has a checksum of its own.
                log.error("%s: its header is damaged; its records are read all the same", found.path)
            for record in segment.records(content[found.end :], found.end, found.first - 1):
                if record.payload is None:
                    continue
                tail = (record.sequence, record.payload)
                found.end, found.last, found.newest = record.end, record.sequence, record.moment
                self._kept.add(record.sequence, record.sequence)
                if record.flags & segment.FLAG_LOSSES:
                    for loss in losses_in(record.payload):
                        explained.add(loss.first, loss.last)
        return Recovered(tail, explained)

    def _activate(self) -> None:
        """Find the spare, and open the newest segment for writing."""
        names = self._disk.list(self._directory)
        if _NEW_SPARE in names:
            self._disk.remove(self._directory / _NEW_SPARE)
        if _SPARE in names:
            descriptor = self._disk.open(self._directory / _SPARE)
            self._spare_bytes = self._disk.size(descriptor)
            self._disk.close(descriptor)
        if not self._segments:
            return
        active = self._segments[-1]
        self._active_descriptor = self._disk.open(active.path)
        # What is there already, unless it was damaged.
        self._disk.write_at(self._active_descriptor, segment.encode_header(active.first), 0)
        if active.size < self._segment_bytes:
            try:
                self._disk.allocate(self._active_descriptor, self._segment_bytes)
                active.size = self._segment_bytes
            except OSError as error:
                log.warning("%s: cannot be given its %d bytes (%s)", active.path, self._segment_bytes, error)

    def _active(self) -> int:
        if self._active_descriptor is None:
            raise OSError(errno.EBADF, "the spool has no segment open")
        return self._active_descriptor

    def _roll(self, first: int) -> _Segment:
        """Begin the next segment: the spare, a new file, or, at the bound, the oldest."""
        if not self._spare_bytes and self._segments and self.disk_bytes + self._segment_bytes > self._max_bytes:
            self._drop_oldest(SPOOL_FULL)
        if not self._spare_bytes:
            self._make_spare()
        spare = self._directory / _SPARE
        active = _Segment(first, self._directory / f"{first:020d}.seg", self._spare_bytes)
        descriptor = self._disk.open(spare)
        try:
            self._disk.allocate(descriptor, self._segment_bytes)
            active.size = max(active.size, self._segment_bytes)
            self._disk.write_at(descriptor, segment.encode_header(first), 0)
            self._disk.flush(descriptor)
            self._disk.rename(spare, active.path)
        except OSError:
            self._disk.close(descriptor)
            raise
        if self._active_descriptor is not None:
            self._disk.close(self._active_descriptor)
        self._active_descriptor, self._spare_bytes, self._sealed = descriptor, 0, False
        self._segments.append(active)
        self._names_in_doubt = True
        self._keep_a_spare()
        return active

    def _keep_a_spare(self) -> None:
        """Make the next segment ahead of need, so that a full disk is known before it hurts."""
        self._cannot_grow = ""
        if self.disk_bytes + self._segment_bytes > self._max_bytes:
            return
        try:
            self._make_spare()
        except OSError as error:
            self._cannot_grow = f"the spool cannot grow: {error}"

    def _make_spare(self) -> None:
        scratch = self._directory / _NEW_SPARE
        if _NEW_SPARE in self._disk.list(self._directory):
            self._disk.remove(scratch)
        descriptor = self._disk.open(scratch, create=True)
        try:
            self._disk.allocate(descriptor, self._segment_bytes)
            self._disk.flush(descriptor)
        except OSError:
            self._disk.remove(scratch)
            raise
        finally:
            self._disk.close(descriptor)
        self._disk.rename(scratch, self._directory / _SPARE)
        self._names_in_doubt = True
        self._spare_bytes = self._segment_bytes

    def _drop_oldest(self, reason: str) -> None:
        last = self._segments[1].first - 1 if len(self._segments) > 1 else self._segments[0].last
        self._free_oldest()
        lost = self._kept.remove(1, last)
        if last > self._acknowledged:
            self._losses.append(Loss(self._acknowledged + 1, last, reason))
            self._lost += lost

    def _free_oldest(self) -> None:
        """Make the oldest segment the spare, or remove it if there is one."""
        oldest = self._segments[0]
        if len(self._segments) == 1 and self._active_descriptor is not None:
            self._disk.close(self._active_descriptor)
            self._active_descriptor = None
        if self._spare_bytes:
            self._disk.remove(oldest.path)
        else:
            self._disk.rename(oldest.path, self._directory / _SPARE)
            self._spare_bytes = oldest.size
        self._cannot_grow = ""
        del self._segments[0]
        self._names_in_doubt = True

    def _flush_names(self) -> None:
        """Put names on disk before anything counts as stored under them."""
        if self._names_in_doubt:
            self._disk.flush_directory(self._directory)
            self._names_in_doubt = False
