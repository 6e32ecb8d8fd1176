"""What a limiter passed by the bucket: back as it was packed, and nothing else opens."""

from __future__ import annotations

import struct
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protos.buckets import BucketError
from protos.moments import pack_moments, unpack_moments

AMOUNTS = st.tuples(st.integers(0, 2**64 - 1), st.integers(0, 2**64 - 1)).filter(any)


@given(st.integers(0, 2**62), st.dictionaries(st.integers(0, 5_000), AMOUNTS, max_size=40))
def test_a_series_comes_back(first: int, found: dict[int, tuple[int, int]]) -> None:
    moments = [(first + offset, *amounts) for offset, amounts in sorted(found.items())]
    assert unpack_moments(pack_moments(first, moments), first, 5_001) == moments


def test_what_cannot_be_is_refused() -> None:
    good = pack_moments(7, [(7, 1, 0), (9, 0, 2)])
    assert unpack_moments(good, 7, 3) == [(7, 1, 0), (9, 0, 2)]
    for packed, count in (
        (good, 2),
        (good, 1),
        (good[:-1], 3),
        (good + b"x", 3),
        (b"x", 3),
        (zlib.compress(b""), 3),
        (zlib.compress(bytes(20)), 3),
        (zlib.compress(bytes(19)), 3),
        (zlib.compress(bytes(1 << 24)), 3),
        (zlib.compress(struct.pack("<IQQ", 3, 1, 1)), 3),
    ):
        with pytest.raises(BucketError):
            unpack_moments(packed, 7, count)
    for moments in ([(9, 1, 0), (8, 1, 0)], [(8, 1 << 64, 0)], [(6, 1, 1)]):
        with pytest.raises(BucketError):
            pack_moments(7, moments)


@given(st.binary(max_size=80), st.integers(0, 50))
def test_anything_opens_or_is_refused(packed: bytes, count: int) -> None:
    try:
        found = unpack_moments(packed, 0, count)
    except BucketError:
        return
    assert len(found) <= count
