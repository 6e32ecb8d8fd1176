"""What an agent's meters told, bucket by bucket, as runs that the cross-check can take sliding windows from.

A frame's buckets count if everything about them is in order, and only once the frame after it was too: that one tells
of bytes that were counted late, and of a filter that may have stood before the meter for a second already.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import reduce

import numpy as np

from controller.clockoffset import AgentClock
from controller.crosscheck.exact import Ints
from controller.crosscheck.metered import added
from controller.crosscheck.model import BucketRun
from protos.buckets import MAX_BUCKETS, BucketError, opened, unpack
from protos.v1 import frame_pb2, meter_pb2

MOST_IN_A_BUCKET = 1 << 31
"""No line carries 2 GB in a millisecond, nor in ten: a frame that says so is not believed, and no sum overflows."""
MOST_BUCKETS = 1 << 28
"""Of one run: three days of milliseconds. A longer series goes on in another run."""
_MOST_UNPLACED = 1 << 40
"""Bytes of one frame."""
_FARTHEST = 1 << 61
"""No clock has run for so many buckets."""
_VARINT_BITS, _VARINT_BYTES = 7, 6


@dataclass(frozen=True, slots=True)
class _Told:
    """One frame's buckets of one port."""

    reading: meter_pb2.MeterReading
    boot_id: str
    clock_epoch: int
    at: Ints
    bytes: Ints
    begins: tuple[int, int]
    ends: tuple[int, int]

    @property
    def end(self) -> int:
        """The first bucket that the next frame tells of."""
        return self.reading.first_bucket + self.reading.bucket_count


@dataclass(slots=True)
class _Open:
    """A run that may still grow. ``pending`` is the frame whose successor has not come yet."""

    frames: list[_Told] = field(default_factory=list)
    pending: _Told | None = None


class BucketRuns:
    """Takes in an agent's frames in order."""

    def __init__(self, agent: str, drift_ppm: int) -> None:
        self._agent, self._drift_ppm = agent, drift_ppm
        self._open: dict[str, _Open] = {}
        self._done: dict[str, list[BucketRun]] = {}

    def take(self, frame: frame_pb2.Frame, clock: AgentClock | None, received_ns: int) -> None:
        """Take in what ``frame`` tells, received at ``received_ns``, by its boot's clock."""
        told = {each.port: _told(each, frame.clock.boot_id, clock, received_ns) for each in frame.meters}
        for port in {*self._open, *told}:
            self._next(port, told.get(port))

    def runs(self, ports: Sequence[str]) -> tuple[BucketRun, ...]:
        """Return the runs in which all of ``ports`` are known, added up."""
        for port in ports:
            self._close(port)
        found: Sequence[BucketRun] = reduce(added, (self._done.get(port, []) for port in ports))
        return tuple(found)

    def _next(self, port: str, told: _Told | None) -> None:
        run = self._open.setdefault(port, _Open())
        before = run.pending
        if before is None or told is None or not _goes_on(before, told):
            self._close(port)
            self._open[port].pending = told
            return
        run.frames.append(before)
        run.pending = told
        if told.end - run.frames[0].reading.first_bucket > MOST_BUCKETS:
            self._close(port)
            self._open[port].pending = told

    def _close(self, port: str) -> None:
        run = self._open.get(port, _Open())
        if run.frames:
            self._done.setdefault(port, []).append(self._sealed(run))
        self._open[port] = _Open()

    def _sealed(self, run: _Open) -> BucketRun:
        first = run.frames[0]
        reading, last = first.reading, run.frames[-1]
        # What was counted late is told by the frame after.
        unplaced = [part for each in (*run.frames, run.pending) if each is not None for part in each.reading.unplaced]
        begin = reading.first_bucket
        at = np.concatenate([each.at - begin for each in run.frames])
        held = np.concatenate([each.bytes for each in run.frames])
        if len(held) == 0 or int(held.max()) < 1 << 32:
            held = held.astype(np.uint32)
        key = f"{self._agent} {first.boot_id} {first.clock_epoch} {reading.bucket_zero_ns}"
        knots = [(each.reading.first_bucket, *each.begins) for each in run.frames if each.reading.bucket_count]
        return BucketRun(
            clock=key,
            width_ns=reading.width_ns,
            drift_ppm=self._drift_ppm,
            first=begin,
            count=last.end - begin,
            at=at.astype(np.uint32),
            bytes=held,
            unplaced=tuple(
                sorted(
                    (part.first_bucket, part.count, part.moved.wire_bytes)
                    for part in unplaced
                    if part.moved.wire_bytes and part.first_bucket < last.end
                )
            ),
            knots=(*knots, (last.end, *last.ends)),
        )


def _goes_on(before: _Told, told: _Told) -> bool:
    """Return whether ``told`` is of the same series as ``before`` and begins where that ended, in bytes as well."""
    one, other = before.reading, told.reading
    same: Sequence[Callable[[meter_pb2.MeterReading], int]] = (
        lambda each: each.since_ns,
        lambda each: each.epoch,
        lambda each: each.width_ns,
        lambda each: each.bucket_zero_ns,
    )
    return (
        (before.boot_id, before.clock_epoch) == (told.boot_id, told.clock_epoch)
        and all(key(one) == key(other) for key in same)
        and before.end == other.first_bucket
        and one.start.wire_bytes + one.moved.wire_bytes == other.start.wire_bytes
    )


def _told(reading: meter_pb2.MeterReading, boot_id: str, clock: AgentClock | None, received_ns: int) -> _Told | None:
    """Return one frame's buckets of one port; None if anything about them is not in order.

    1. There is a meter, it was audited, and nothing was found; no bucket was lost, and it was never away.
    2. Its buckets and what it could not place add up to what it says moved.
    3. Its clock did not step meanwhile and can be placed on the timeline, at a time when nothing was received yet.
    """
    if reading.unavailable or not reading.HasField("audit") or reading.audit.findings:
        return None
    possible = reading.bucket_count <= MOST_BUCKETS and reading.first_bucket + reading.bucket_count <= _FARTHEST
    if reading.lost_buckets or reading.gaps or not reading.width_ns or not possible or clock is None:
        return None
    try:
        at, held = wire_bytes(reading.series, reading.first_bucket, reading.bucket_count)
    except BucketError:
        return None
    loose = sum(part.moved.wire_bytes for part in reading.unplaced)
    if loose > _MOST_UNPLACED or int(held.sum()) + loose != reading.moved.wire_bytes:
        return None
    begin_ns = reading.bucket_zero_ns + reading.first_bucket * reading.width_ns
    end_ns = begin_ns + reading.bucket_count * reading.width_ns
    epoch = clock.epoch_of(begin_ns)
    begins, ends = clock.interval(begin_ns), clock.interval(end_ns)
    if epoch is None or epoch != clock.epoch_of(end_ns) or begins is None or ends is None or ends[0] > received_ns:
        return None
    ends = ends[0], min(ends[1], received_ns)
    begins = begins[0], min(begins[1], received_ns)
    return _Told(reading, boot_id, epoch, at, held, begins, ends)


def wire_bytes(packed: bytes, first: int, count: int) -> tuple[Ints, Ints]:
    """Return which of the buckets ``[first, first + count)`` are not empty, and the wire bytes of each.

    As :func:`protos.buckets.unpack`, with whole columns at once; a series with numbers of more than 42 bits, which
    no meter writes, is left to that.

    Raises:
        BucketError: not a packed series, or one that leaves that range, or holds an impossible bucket.
    """
    nothing = np.zeros(0, dtype=np.int64)
    if not packed:
        return nothing, nothing
    content = np.frombuffer(opened(packed, min(count, MAX_BUCKETS)), dtype=np.uint8)
    ends = np.flatnonzero(content < 1 << _VARINT_BITS)
    starts = np.concatenate([[0], ends[:-1] + 1])
    length = int((ends - starts).max(initial=0)) + 1
    if len(ends) == 0 or length > _VARINT_BYTES or int(ends[-1]) != len(content) - 1:
        return _slowly(packed, first, count)
    values = np.zeros(len(ends), dtype=np.int64)
    for place in range(length):
        here = np.minimum(starts + place, ends)
        part = (content[here] & 0x7F).astype(np.int64) << (_VARINT_BITS * place)
        values += np.where(starts + place <= ends, part, 0)
    number = int(values[0])
    if not 0 < number <= count or len(values) != 3 + 4 * number:
        return _slowly(packed, first, count)
    gaps, changes, beyond = (
        values[1 : 1 + number],
        values[1 + number : 1 + 2 * number],
        values[2 + 2 * number :][:number],
    )
    typical = int(values[1 + 2 * number])
    at = first - 1 + np.cumsum(gaps + 1)
    segments = np.cumsum(_unzigzag(changes))
    if typical >= 1 << 20 or int(segments.max()) >= 1 << 20:
        return _slowly(packed, first, count)
    held = segments * typical + _unzigzag(beyond)
    if int(at[-1]) >= first + count or int(segments.min()) <= 0 or int(held.min()) <= 0:
        return _slowly(packed, first, count)
    return at, _believed(held)


def _unzigzag(values: Ints) -> Ints:
    signed: Ints = (values >> 1) ^ -(values & 1)
    return signed


def _slowly(packed: bytes, first: int, count: int) -> tuple[Ints, Ints]:
    buckets = unpack(packed, first, count)
    held = [bucket.moved.wire_bytes for bucket in buckets]
    if held and max(held) >= MOST_IN_A_BUCKET:
        raise BucketError(f"a bucket of {max(held)} bytes is more than any line carries")
    return np.array([bucket.index for bucket in buckets], dtype=np.int64), np.array(held, dtype=np.int64)


def _believed(held: Ints) -> Ints:
    if int(held.max()) >= MOST_IN_A_BUCKET:
        raise BucketError(f"a bucket of {int(held.max())} bytes is more than any line carries")
    return held
