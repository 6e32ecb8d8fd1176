"""Sums over the last window, kept up as readings come: a ring of at most sixty bins a window. Pure, integers.

A window that ends now is made of the bins that begin within it, the newest of them still filling: it is never longer
than the window, at most a sixtieth shorter, and exact whenever a bin has just filled. So it never holds too much, and
what exceeds a limit steadily, or after a pause, is seen at once.
"""

from __future__ import annotations

from array import array

from protos.units import NS_PER_S

BINS = 60
"""Of a window, at most."""
LEAST_STEP_NS = NS_PER_S
"""Readings come about once a second: finer bins would hold guesses."""


class Window:
    """The sum over the last ``length_ns`` of one place."""

    __slots__ = ("_bins", "_newest", "_step_ns", "length_ns", "total")

    def __init__(self, length_ns: int) -> None:
        self.length_ns = length_ns
        step_ns = -(-length_ns // BINS // LEAST_STEP_NS) * LEAST_STEP_NS if length_ns > LEAST_STEP_NS else length_ns
        self._step_ns = max(1, step_ns)
        self._bins = array("q", bytes(8 * max(1, length_ns // self._step_ns)))
        self._newest = -1
        self.total = 0

    def add(self, from_ns: int, to_ns: int, amount: int) -> None:
        """Take what moved in ``(from_ns, to_ns]``, spread evenly over it; what lies before the window is let go."""
        step_ns = self._step_ns
        last = (to_ns - 1) // step_ns
        if last > self._newest:
            self._advance(last)
        first = from_ns // step_ns
        if first >= last:
            self._put(last, amount)
            return
        length = to_ns - from_ns
        begin = max(first, self._newest - len(self._bins) + 1)
        before = amount * max(0, begin * step_ns - from_ns) // length
        for place in range(begin, last + 1):
            until = amount * (min(to_ns, (place + 1) * step_ns) - from_ns) // length
            self._put(place, until - before)
            before = until

    def _put(self, place: int, amount: int) -> None:
        if place > self._newest - len(self._bins):
            self._bins[place % len(self._bins)] += amount
            self.total += amount

    def _advance(self, newest: int) -> None:
        bins = self._bins
        count = len(bins)
        if newest - self._newest >= count:
            self._bins = array("q", bytes(8 * count))
            self.total = 0
        else:
            for place in range(self._newest + 1, newest + 1):
                self.total -= bins[place % count]
                bins[place % count] = 0
        self._newest = newest


class Bucket:
    """A bucket that drains at a rate: above its depth is a burst. Empty since ``empty_ns`` at the latest."""

    __slots__ = ("_at_ns", "_drain", "empty_ns", "total")

    def __init__(self, drain_bytes_per_s: int) -> None:
        self._drain = drain_bytes_per_s
        self._at_ns = 0
        self.empty_ns = 0
        self.total = 0

    def add(self, from_ns: int, to_ns: int, amount: int) -> None:
        """Take what moved in ``(from_ns, to_ns]``: it drains meanwhile, as before."""
        before_ns, during_ns = max(0, from_ns - self._at_ns), max(0, to_ns - max(from_ns, self._at_ns))
        self.total = max(0, self.total - self._drain * before_ns // NS_PER_S)
        if self.total == 0:
            self.empty_ns = from_ns
        self.total = max(0, self.total + amount - self._drain * during_ns // NS_PER_S)
        self._at_ns = max(self._at_ns, to_ns)
