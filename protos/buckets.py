"""Buckets of a meter: what each held, and the packed form in which a frame carries them.

The packed form is a format byte (0 plain, 1 zlib) and, as LEB128 varints, the number of buckets and four columns:

1. gaps: buckets left out before this one (they are empty);
2. segments: the change from the bucket before, zigzag;
3. a typical frame length, then wire bytes beyond segments times that length, zigzag;
4. a unit, then wire bytes less raw bytes in that unit, zigzag.

Frames of one size, the usual bulk traffic, leave columns 1, 3 and 4 all but empty, and zlib takes them away.
"""

from __future__ import annotations

import enum
import math
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

MAX_BUCKETS = 1 << 18
"""Most buckets that are not empty in one frame: 26 s of 100 us buckets."""
_PLAIN, _ZLIB = 0, 1
_MAX_VARINT_BYTES = 10
_COLUMNS = 4
_MAX_VALUE = (1 << 64) - 1
# What seven bits a byte hold: differences of 64-bit numbers and what is left after prediction.
_MAX_VARINT = (1 << 7 * _MAX_VARINT_BYTES) - 1
# Below this zlib's own header costs more than it saves.
_MIN_COMPRESSED = 48


class TrafficClass(enum.IntEnum):
    """What a frame is for; the numbers are the meter program's."""

    UNKNOWN = 0
    SAME_POD = 1
    OTHER_POD = 2
    FRONT_END = 3
    STORAGE = 4
    MANAGEMENT = 5
    L2_CONTROL = 6
    NON_IP = 7

    @property
    def title(self) -> str:
        """As site files and reports write it."""
        return self.name.lower().replace("_", "-")


CLASSES = tuple(TrafficClass)


class BucketError(ValueError):
    """Bytes that are not a packed series, or a series that cannot be."""


@dataclass(frozen=True, slots=True)
class Totals:
    """Frame bytes without FCS: ``raw`` as handed to the meter, ``wire`` as frames on a wire; frames on a wire."""

    raw_bytes: int = 0
    wire_bytes: int = 0
    segments: int = 0

    def __add__(self, other: Totals) -> Totals:
        return Totals(
            self.raw_bytes + other.raw_bytes, self.wire_bytes + other.wire_bytes, self.segments + other.segments
        )

    def __sub__(self, other: Totals) -> Totals:
        return Totals(
            self.raw_bytes - other.raw_bytes, self.wire_bytes - other.wire_bytes, self.segments - other.segments
        )


NOTHING = Totals()


@dataclass(frozen=True, slots=True)
class Bucket:
    """What moved in bucket ``index``: the time from ``index`` times the width until a width later."""

    index: int
    moved: Totals


def summed(buckets: Iterable[Bucket]) -> Totals:
    """Return what moved in all of ``buckets``."""
    raw = wire = segments = 0
    for bucket in buckets:
        raw += bucket.moved.raw_bytes
        wire += bucket.moved.wire_bytes
        segments += bucket.moved.segments
    return Totals(raw, wire, segments)


def pack(first: int, buckets: Sequence[Bucket]) -> bytes:
    """Return ``buckets``, in order, none empty, the first not before ``first``; :func:`unpack` gives them back.

    Raises:
        BucketError: they are not in order, one is empty, or a number is impossibly large.
    """
    if not buckets:
        return b""
    moved = [bucket.moved for bucket in buckets]
    segments = [each.segments for each in moved]
    if min(segments) <= 0 or len(buckets) > MAX_BUCKETS:
        raise BucketError(f"{len(buckets)} buckets, of which one has {min(segments)} frames, cannot be packed")
    typical = _typical(moved)
    lacking = [each.wire_bytes - each.raw_bytes for each in moved]
    unit = math.gcd(*lacking) or 1
    out = bytearray()
    _put(out, [len(buckets)])
    _put(out, [after - before - 1 for before, after in _pairs(first - 1, [bucket.index for bucket in buckets])])
    _put(out, [_zigzag(after - before) for before, after in _pairs(0, segments)])
    _put(out, [typical, *[_zigzag(each.wire_bytes - each.segments * typical) for each in moved]])
    _put(out, [unit, *[_zigzag(each // unit) for each in lacking]])
    if len(out) >= _MIN_COMPRESSED:
        squeezed = zlib.compress(out, 6)
        if len(squeezed) < len(out):
            return bytes([_ZLIB]) + squeezed
    return bytes([_PLAIN]) + bytes(out)


def unpack(packed: bytes, first: int, count: int) -> list[Bucket]:
    """Return the buckets that are not empty among ``[first, first + count)``.

    Raises:
        BucketError: not a packed series, or one that leaves that range, or holds an empty or impossible bucket.
    """
    if not packed:
        return []
    most = min(count, MAX_BUCKETS)
    numbers = _numbers(opened(packed, most))
    length = _take(numbers, 1)[0]
    if not 0 < length <= most:
        raise BucketError(f"{length} of {count} buckets are said not to be empty; at most {most} can be")
    gaps = _take(numbers, length)
    changes = [_unzigzag(value) for value in _take(numbers, length)]
    typical, *beyond = _take(numbers, 1 + length)
    unit, *lacking = _take(numbers, 1 + length)
    if next(numbers, None) is not None:
        raise BucketError("there are bytes after the series")
    buckets = []
    index, segments = first - 1, 0
    for gap, change, more, less in zip(gaps, changes, beyond, lacking, strict=True):
        index, segments = index + 1 + gap, segments + change
        wire = segments * typical + _unzigzag(more)
        raw = wire - _unzigzag(less) * unit
        if index >= first + count or not (
            0 < segments <= _MAX_VALUE and 0 < wire <= _MAX_VALUE and 0 < raw <= _MAX_VALUE
        ):
            raise BucketError(f"bucket {index}: {raw} raw bytes, {wire} bytes in {segments} frames cannot be")
        buckets.append(Bucket(index, Totals(raw, wire, segments)))
    return buckets


def _typical(moved: Sequence[Totals]) -> int:
    """The commonest exact frame length; if no bucket has one, the mean."""
    exact = Counter(each.wire_bytes // each.segments for each in moved if each.wire_bytes % each.segments == 0)
    if exact:
        return exact.most_common(1)[0][0]
    return sum(each.wire_bytes for each in moved) // sum(each.segments for each in moved)


def _pairs(before: int, values: Sequence[int]) -> Iterator[tuple[int, int]]:
    return zip([before, *values], values, strict=False)


def _zigzag(value: int) -> int:
    return value * 2 if value >= 0 else -value * 2 - 1


def _unzigzag(value: int) -> int:
    return value >> 1 if value & 1 == 0 else -((value + 1) >> 1)


def _put(out: bytearray, values: Iterable[int]) -> None:
    for value in values:
        if not 0 <= value <= _MAX_VARINT:
            raise BucketError(f"{value} does not fit: buckets out of order, or of impossible size")
        left = value
        while left > 0x7F:
            out.append(left & 0x7F | 0x80)
            left >>= 7
        out.append(left)


def opened(packed: bytes, count: int) -> bytes:
    """Return the columns; never more bytes than ``count`` buckets can take, whatever zlib is told to make of them.

    Raises:
        BucketError: not a packed series.
    """
    most = (3 + _COLUMNS * count) * _MAX_VARINT_BYTES
    if packed[0] == _PLAIN:
        return packed[1:]
    if packed[0] != _ZLIB:
        raise BucketError(f"format {packed[0]} of a packed series is unknown")
    inflate = zlib.decompressobj()
    try:
        opened = inflate.decompress(packed[1:], most)
    except zlib.error as error:
        raise BucketError(f"a packed series does not open: {error}") from error
    if not inflate.eof or inflate.unused_data:
        raise BucketError("a packed series is cut short, too long, or has bytes after it")
    return opened


def _take(numbers: Iterator[int], count: int) -> list[int]:
    taken = list(islice(numbers, count))
    if len(taken) < count:
        raise BucketError("a packed series ends early")
    return taken


def _numbers(content: bytes) -> Iterator[int]:
    """Yield the varints of ``content``; each is the shortest form of its number.

    Raises:
        BucketError: one is cut off, too large or not in its shortest form.
    """
    value = shift = 0
    for byte in content:
        value |= (byte & 0x7F) << shift
        if byte & 0x80:
            shift += 7
            continue
        if value > _MAX_VARINT or (shift and byte == 0):
            raise BucketError("a number of a packed series is too large, or not in its shortest form")
        yield value
        value = shift = 0
    if shift:
        raise BucketError("a packed series ends within a number")
