"""The milliseconds of a limiter, frame after frame, under one bound: what was the worst window of any length."""

from __future__ import annotations

import math

from controller.crosscheck.enforcement import Window, WindowScan
from protos.buckets import BucketError
from protos.moments import unpack_moments
from protos.v1 import lease_pb2

_MOST_WIDTH_NS = 1_000_000_000


class BucketScan:
    """Buckets of one width, under the greatest rate and depth that any order in force meanwhile had."""

    def __init__(self, rate: int, depth: int, moments: lease_pb2.LimiterMoments, from_ns: int) -> None:
        """Begin with ``moments``, told in a frame that was made after ``from_ns``."""
        self._bound = rate, depth, moments.bucket_zero_ns
        self._scan = WindowScan(rate, moments.width_ns)
        self._next = 0
        self.width_ns, self.from_ns, self.to_ns = moments.width_ns, from_ns, from_ns

    def goes_on(self, rate: int, depth: int, moments: lease_pb2.LimiterMoments) -> bool:
        """Whether ``moments`` are the same bucket's, later."""
        same = (rate, depth, moments.bucket_zero_ns) == self._bound and moments.width_ns == self.width_ns
        return same and moments.first_bucket >= self._next

    def take(self, moments: lease_pb2.LimiterMoments, to_ns: int) -> None:
        """Take the buckets of one frame, received by ``to_ns``; a series that cannot be read is left out."""
        if not 0 < self.width_ns <= _MOST_WIDTH_NS:
            return
        try:
            found = unpack_moments(moments.series, moments.first_bucket, moments.bucket_count)
        except BucketError:
            return
        for index, passed, _ in found:
            if passed:
                self._scan.take(index, passed)
        self._next, self.to_ns = moments.first_bucket + moments.bucket_count, to_ns

    @property
    def excess_bytes(self) -> int:
        """Bytes that certainly passed beyond the bound in the worst window."""
        return max(0, math.ceil(self._scan.beyond) - self._bound[1])

    @property
    def window(self) -> Window:
        """The worst window."""
        return self._scan.window or Window(0, 0, 0)
