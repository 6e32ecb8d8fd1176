"""A packed series gives back what went in, and refuses everything that is not one."""

from __future__ import annotations

import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protos.buckets import MAX_BUCKETS, Bucket, BucketError, Totals, pack, summed, unpack

_BYTES, _SEGMENTS = st.integers(1, (1 << 40) - 1), st.integers(1, (1 << 24) - 1)


@st.composite
def series(draw: st.DrawFn) -> tuple[int, int, list[Bucket]]:
    first = draw(st.integers(0, 1 << 50))
    gaps = draw(st.lists(st.integers(0, 5) | st.integers(0, 1 << 30), max_size=40))
    buckets, index = [], first - 1
    for gap in gaps:
        index += 1 + gap
        buckets.append(Bucket(index, Totals(draw(_BYTES), draw(_BYTES), draw(_SEGMENTS))))
    return first, index + 1 - first + draw(st.integers(0, 10)), buckets


@given(series())
def test_what_goes_in_comes_out(given_series: tuple[int, int, list[Bucket]]) -> None:
    first, count, buckets = given_series
    assert unpack(pack(first, buckets), first, count) == buckets


@given(st.binary(max_size=200), st.integers(0, 1 << 40), st.integers(0, 2000))
def test_any_bytes_are_buckets_in_range_or_refused(data: bytes, first: int, count: int) -> None:
    try:
        buckets = unpack(data, first, count)
    except BucketError:
        return
    indexes = [bucket.index for bucket in buckets]
    assert indexes == sorted(set(indexes))
    assert all(first <= index < first + count for index in indexes)
    assert all(min(b.moved.raw_bytes, b.moved.wire_bytes, b.moved.segments) > 0 for b in buckets)


@given(series(), st.data())
def test_a_changed_byte_never_gives_what_cannot_be(
    given_series: tuple[int, int, list[Bucket]], data: st.DataObject
) -> None:
    first, count, buckets = given_series
    packed = bytearray(pack(first, buckets))
    if not packed:
        return
    at = data.draw(st.integers(0, len(packed) - 1))
    packed[at] ^= data.draw(st.integers(1, 255))
    try:
        found = unpack(bytes(packed), first, count)
    except BucketError:
        return
    assert all(first <= bucket.index < first + count for bucket in found)


@given(series(), st.data())
def test_cut_short_is_refused(given_series: tuple[int, int, list[Bucket]], data: st.DataObject) -> None:
    first, count, buckets = given_series
    packed = pack(first, buckets)
    if packed:
        cut = data.draw(st.integers(1, len(packed) - 1))
        with pytest.raises(BucketError):
            unpack(packed[:cut], first, count)


def test_a_small_message_cannot_make_a_large_one() -> None:
    bomb = b"\x01" + zlib.compress(bytes(50 << 20))
    assert len(bomb) < 60_000
    with pytest.raises(BucketError, match="cut short, too long"):
        unpack(bomb, 0, 1000)


def test_more_buckets_than_a_frame_may_hold_are_refused() -> None:
    one = Totals(60, 60, 1)
    with pytest.raises(BucketError):
        pack(0, [Bucket(index, one) for index in range(MAX_BUCKETS + 1)])


@pytest.mark.parametrize(
    ("packed", "why"),
    [
        (b"\x02\x01", "format 2"),
        (b"\x00\x00", "are said not to be empty"),
        (b"\x00\x81", "ends within a number"),
        (b"\x00\x81\x00", "shortest form"),
        (b"\x00" + b"\xff" * 10 + b"\x01", "too large"),
        (b"\x00\x01\x00\x02\x3c\x00\x01\x00\x00", "bytes after"),
        (b"\x00\x01\x00\x00\x3c\x00\x01\x00", "cannot be"),
        (b"\x00\x01\x05\x02\x3c\x00\x01\x00", "cannot be"),
        (b"\x01abc", "does not open"),
    ],
)
def test_what_is_refused_and_why(packed: bytes, why: str) -> None:
    with pytest.raises(BucketError, match=why):
        unpack(packed, 10, 5)


def test_a_second_of_saturated_traffic_is_small() -> None:
    """800 frames of one length a millisecond, more or less: 1.3 kB, where plain columns take 6."""
    buckets = [
        Bucket(index, Totals(n * 1514, n * 1514, n)) for index in range(1000) for n in (800 + index * 7919 % 97,)
    ]
    assert len(pack(0, buckets)) < 2_000
    assert summed(unpack(pack(0, buckets), 0, 1000)) == summed(buckets)
