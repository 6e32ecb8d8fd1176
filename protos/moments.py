"""What a limiter passed and dropped in each bucket of time, packed as a frame carries it.

A packed series is zlib over three columns, little-endian: gaps (32 bits: buckets left out before this one, which are
empty), bytes passed and bytes dropped (64 bits each). No bytes at all: every bucket is empty.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence

from protos.buckets import MAX_BUCKETS, BucketError

_ROW_BYTES = 4 + 8 + 8

Moment = tuple[int, int, int]
"""Index, bytes passed, bytes dropped."""


def pack_moments(first: int, moments: Sequence[Moment]) -> bytes:
    """Return ``moments``, in order, none before ``first``; :func:`unpack_moments` gives them back.

    Raises:
        BucketError: they are not in order, too many, or a number does not fit.
    """
    if not moments:
        return b""
    if len(moments) > MAX_BUCKETS:
        raise BucketError(f"{len(moments)} buckets are more than a frame carries ({MAX_BUCKETS})")
    indices, passed, dropped = zip(*moments, strict=True)
    gaps = [after - before - 1 for before, after in zip((first - 1, *indices), indices, strict=False)]
    count = len(moments)
    try:
        return zlib.compress(struct.pack(f"<{count}I{count}Q{count}Q", *gaps, *passed, *dropped), 6)
    except struct.error as error:
        raise BucketError(f"buckets out of order, or of impossible size: {error}") from error


def unpack_moments(packed: bytes, first: int, count: int) -> list[Moment]:
    """Return the buckets that are not empty among ``[first, first + count)``.

    Raises:
        BucketError: not a packed series, or one that leaves that range or holds an empty bucket.
    """
    if not packed:
        return []
    most = min(count, MAX_BUCKETS) * _ROW_BYTES
    inflate = zlib.decompressobj()
    try:
        # One byte more than there can be, so that a longer one is seen; never 0, which would be no bound.
        columns = inflate.decompress(packed, most + 1)
    except zlib.error as error:
        raise BucketError(f"a packed series does not open: {error}") from error
    length, rest = divmod(len(columns), _ROW_BYTES)
    if not inflate.eof or inflate.unused_data or rest or not length or len(columns) > most:
        raise BucketError(f"a packed series of {len(columns)} bytes is cut short, or too long for {count} buckets")
    values = struct.unpack(f"<{length}I{length}Q{length}Q", columns)
    found, index = [], first - 1
    for gap, passed, dropped in zip(values[:length], values[length : 2 * length], values[2 * length :], strict=True):
        index += 1 + gap
        if index >= first + count or not passed + dropped:
            raise BucketError(f"bucket {index} is empty, or not among the {count} from {first} on")
        found.append((index, passed, dropped))
    return found
