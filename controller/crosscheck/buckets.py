"""Sliding windows over millisecond buckets of one port, in device time.

A bucket i holds the bytes of ``[i*d, (i+1)*d)``. Any ``n`` whole buckets lie in a window of ``n*d``; any window of w
lies in ``ceil(w/d) + 1`` buckets (bounds.md 7). The device's clock may run fast or slow by a stated drift, so w is
narrowed for what is certain and widened for what is possible. Memory is a few chunks, whatever the number of buckets.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

CHUNK = 1 << 18
"""Buckets worked on at once: 2 MB of int64, which stays in the cache."""
BLOCK = 64
"""Buckets added up for the first look: a window can only be the fullest if its blocks allow it."""
FEW = 4
"""Looking closer costs about twice a plain pass for each bucket: worth it for up to a quarter of them."""
PPM = 1_000_000
Buckets = npt.NDArray[np.unsignedinteger[Any]] | npt.NDArray[np.signedinteger[Any]]
Sums = npt.NDArray[np.int64]


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
    """Return bounds of the fullest window of ``window_ns``; see :func:`fullest_of_each`."""
    return fullest_of_each(buckets, bucket_ns, [window_ns], drift_ppm)[0]


def fullest_of_each(
    buckets: Buckets, bucket_ns: int, windows_ns: Sequence[int], drift_ppm: int = 0
) -> list[BucketWindows]:
    """Return bounds of the fullest window of each length over consecutive buckets.

    Args:
        buckets: bytes of each bucket, none missing, none negative; their sum must fit into 63 bits.
        bucket_ns: width d of a bucket on the device's clock.
        windows_ns: lengths w of the windows in true time.
        drift_ppm: most by which the device's clock is fast or slow, parts per million.

    Raises:
        ValueError: no bucket, or a width or drift that is not possible.
    """
    if len(buckets) == 0 or bucket_ns <= 0 or min(windows_ns) <= 0 or not 0 <= drift_ppm < PPM:
        raise ValueError(
            f"{len(buckets)} buckets of {bucket_ns} ns, windows {list(windows_ns)} ns, drift {drift_ppm} ppm: need at "
            "least one bucket, positive lengths and a drift from 0 to below 1,000,000 ppm"
        )
    runs = _Runs(buckets)
    found = []
    for window_ns in windows_ns:
        whole, touched = (
            whole_buckets(bucket_ns, window_ns, drift_ppm),
            touched_buckets(bucket_ns, window_ns, drift_ppm),
        )
        least, least_first = (0, None) if whole == 0 else runs.fullest(min(whole, len(buckets)))
        most, most_first = runs.fullest(min(touched, len(buckets)))
        found.append(BucketWindows(least, least_first, most, most_first))
    return found


def whole_buckets(bucket_ns: int, window_ns: int, drift_ppm: int) -> int:
    """Return how many buckets in a row certainly lie in some window: they last at most n*d*(1 + drift)."""
    return window_ns * PPM // (bucket_ns * (PPM + drift_ppm))


def touched_buckets(bucket_ns: int, window_ns: int, drift_ppm: int) -> int:
    """Return how many buckets in a row any window can touch: it lasts at most w/(1 - drift) on the device's clock."""
    return -(-window_ns * PPM // (bucket_ns * (PPM - drift_ppm))) + 1


def fullest_run(buckets: Buckets, count: int) -> tuple[int, int]:
    """Return the largest sum of ``count`` consecutive buckets, 1 to all of them, and the first of those."""
    return _Runs(buckets).fullest(count)


class _Runs:
    """Sums of consecutive buckets, with the sums of blocks of them that every length can use."""

    def __init__(self, buckets: Buckets) -> None:
        self._buckets = buckets
        blocks = len(buckets) // BLOCK
        self._smallest: Sums = np.empty(blocks, dtype=np.int64)
        self._before: Sums = np.zeros(blocks + 1, dtype=np.int64)
        for start in range(0, blocks, CHUNK // BLOCK):
            end = min(start + CHUNK // BLOCK, blocks)
            part = buckets[start * BLOCK : end * BLOCK].reshape(-1, BLOCK)
            np.add.reduce(part, axis=1, dtype=np.int64, out=self._before[start + 1 : end + 1])
            self._smallest[start:end] = np.minimum.reduce(part, axis=1)
        np.cumsum(self._before, out=self._before)

    def fullest(self, count: int) -> tuple[int, int]:
        """Return the largest sum of ``count`` consecutive buckets, and the first of them.

        1. The run that begins with the fullest blocks is a run: what cannot be above it need not be looked at.
        2. A run that begins in block c lies in the blocks from c to that of its last bucket: at most their sum, less
           the smallest of the first or last block for each bucket of them that the run leaves out.
        3. Only runs that begin in blocks where that is enough are added up one by one; if those are many, all are.
        """
        whole = count // BLOCK
        if whole < FEW or len(self._before) <= whole + 2:
            return self._plain(count)
        aligned = self._before[whole:] - self._before[:-whole]
        first = min(int(np.argmax(aligned)) * BLOCK, len(self._buckets) - count)
        best = int(self._buckets[first : first + count].sum(dtype=np.int64))
        # The block of a run's last bucket is at most ``reach`` blocks after that of its first.
        reach = (count + BLOCK - 2) // BLOCK + 1
        can = len(self._before) - reach
        if can <= 0:
            return self._plain(count)
        most = self._before[reach:] - self._before[:can]
        most -= (reach * BLOCK - count) * np.minimum(self._smallest[:can], self._smallest[reach - 1 :])
        chosen = np.flatnonzero(most > best)
        if len(chosen) * FEW > can:
            return self._plain(count)
        best, first = self._closer(chosen, count, (best, first))
        return self._plain_from(can * BLOCK, count, (best, first))

    def _closer(self, blocks: npt.NDArray[np.intp], count: int, best: tuple[int, int]) -> tuple[int, int]:
        """Add up the runs that begin in each of ``blocks``, a matrix of them at once."""
        whole, rest = divmod(count, BLOCK)
        steps = np.arange(BLOCK)
        for at in range(0, len(blocks), CHUNK // BLOCK):
            rows = blocks[at : at + CHUNK // BLOCK]
            begin = rows * BLOCK
            sums = np.zeros((len(rows), BLOCK), dtype=np.int64)
            last = begin + whole * BLOCK
            sums[:, 0] = self._before[rows + whole] - self._before[rows]
            if rest:
                sums[:, 0] += self._buckets[last[:, None] + steps[:rest]].sum(axis=1, dtype=np.int64)
            index = begin[:, None] + steps[:-1]
            np.subtract(self._buckets[index + count], self._buckets[index], out=sums[:, 1:], dtype=np.int64)
            np.cumsum(sums, axis=1, out=sums)
            top = int(np.argmax(sums))
            row, column = divmod(top, BLOCK)
            if int(sums[row, column]) > best[0]:
                best = int(sums[row, column]), int(begin[row]) + column
        return best

    def _plain(self, count: int) -> tuple[int, int]:
        return self._plain_from(0, count, (-1, 0))

    def _plain_from(self, begin: int, count: int, best: tuple[int, int]) -> tuple[int, int]:
        """Return the largest sum of ``count`` buckets that begin at ``begin`` or later, if it is above the best so far.

        The sum of a run follows from the one before by adding a bucket and taking one away: a running sum of
        differences, chunk by chunk.
        """
        buckets = self._buckets
        begin = min(begin, len(buckets) - count)
        current = int(buckets[begin : begin + count].sum(dtype=np.int64))
        most, first = max(best, (current, begin), key=lambda one: one[0])
        moves = len(buckets) - count
        change = np.empty(min(CHUNK, max(1, moves - begin)), dtype=np.int64)
        for start in range(begin, moves, CHUNK):
            end = min(start + CHUNK, moves)
            part = change[: end - start]
            np.subtract(buckets[start + count : end + count], buckets[start:end], dtype=np.int64, out=part)
            np.cumsum(part, out=part)
            at = int(np.argmax(part))
            if current + int(part[at]) > most:
                most, first = current + int(part[at]), start + at + 1
            current += int(part[-1])
        return most, first


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
