"""Sliding windows over millisecond buckets of one port, in device time.

A bucket i holds the bytes of ``[i*d, (i+1)*d)``. Any ``n`` whole buckets lie in a window of ``n*d``; any window of w
lies in ``ceil(w/d) + 1`` buckets (bounds.md 7). The device's clock may run fast or slow by a stated drift, so w is
narrowed for what is certain and widened for what is possible. Memory is one chunk, whatever the number of buckets.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

CHUNK = 1 << 18
"""Buckets worked on at once: 2 MB of int64, which stays in the cache."""
PPM = 1_000_000
Buckets = npt.NDArray[np.unsignedinteger[Any]] | npt.NDArray[np.signedinteger[Any]]


@dataclass(frozen=True, slots=True)
class BucketWindows:
    """The fullest window: at least and at most, and the first bucket of each.

    ``least`` is 0 and ``least_first`` None if the window is shorter than a bucket: nothing is then certain.
    """

    least: int
    least_first: int | None
    most: int
    most_first: int


def fullest_buckets(buckets: Buckets, bucket_ns: int, window_ns: int, drift_ppm: int = 0) -> BucketWindows:
    """Return bounds of the fullest window of ``window_ns`` over consecutive buckets.

    Args:
        buckets: bytes of each bucket, none missing; their sum must fit into 63 bits.
        bucket_ns: width d of a bucket on the device's clock.
        window_ns: length w of the window in true time.
        drift_ppm: most by which the device's clock is fast or slow, parts per million.

    Raises:
        ValueError: no bucket, or a width or drift that is not possible.
    """
    if len(buckets) == 0 or bucket_ns <= 0 or window_ns <= 0 or not 0 <= drift_ppm < PPM:
        raise ValueError(
            f"{len(buckets)} buckets of {bucket_ns} ns, window {window_ns} ns, drift {drift_ppm} ppm: need at least "
            "one bucket, positive lengths and a drift from 0 to below 1,000,000 ppm"
        )
    # n buckets last at most n*d/(1 - drift) in true time, and w lasts at most w*(1 + drift) on the device's clock.
    whole = window_ns * (PPM - drift_ppm) // (bucket_ns * PPM)
    touched = -(-window_ns * (PPM + drift_ppm) // (bucket_ns * PPM)) + 1
    least, least_first = (0, None) if whole == 0 else _fullest_run(buckets, min(whole, len(buckets)))
    most, most_first = _fullest_run(buckets, min(touched, len(buckets)))
    return BucketWindows(least, least_first, most, most_first)


def _fullest_run(buckets: Buckets, count: int) -> tuple[int, int]:
    """Return the largest sum of ``count`` consecutive buckets, and the first of them.

    The sum of a run follows from the one before by adding a bucket and taking one away: a running sum of differences,
    chunk by chunk.
    """
    current = int(buckets[:count].sum(dtype=np.int64))
    best, first = current, 0
    moves = len(buckets) - count
    for start in range(0, moves, CHUNK):
        end = min(start + CHUNK, moves)
        change = np.subtract(buckets[start + count : end + count], buckets[start:end], dtype=np.int64)
        np.cumsum(change, out=change)
        at = int(np.argmax(change))
        if current + int(change[at]) > best:
            best, first = current + int(change[at]), start + at + 1
        current += int(change[-1])
    return best, first


@dataclass(frozen=True, slots=True)
class LineExcess:
    """The most by which any stretch of buckets exceeds a line ``rate * time``: buckets ``[first, end)``."""

    bytes: int
    first: int
    end: int


def greatest_over_line(buckets: Buckets, bytes_per_bucket: int) -> LineExcess:
    """Return the greatest excess over ``r*w`` of all window lengths w at once, in one pass.

    A limit of the form ``r*w + b`` for every w is exceeded for certain where this is above b (a maximum-subarray scan
    of the buckets less r). 0 and an empty stretch if every bucket is within its share.
    """
    best, first, end = 0, 0, 0
    total, lowest, lowest_at = 0, 0, 0
    for start in range(0, len(buckets), CHUNK):
        part = buckets[start : start + CHUNK].astype(np.int64) - bytes_per_bucket
        after = np.cumsum(part) + total
        before = np.concatenate([[min(lowest, total)], after[:-1]])
        floor = np.minimum.accumulate(before)
        gain = after - floor
        at = int(np.argmax(gain))
        if total < lowest:
            lowest, lowest_at = total, start
        if int(gain[at]) > best:
            best, end = int(gain[at]), start + at + 1
            inside = int(np.argmin(before[: at + 1]))
            first = lowest_at if inside == 0 else start + inside
        low = int(np.argmin(before))
        if int(before[low]) < lowest:
            lowest, lowest_at = int(before[low]), start + low
        total = int(after[-1])
    return LineExcess(best, first, end)
