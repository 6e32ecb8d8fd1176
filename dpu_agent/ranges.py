"""A set of sequence numbers kept as runs: a spool of a million frames is a handful of them."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator


class Ranges:
    """Whole numbers from 1 up, as disjoint runs ``[first, last]`` in order that do not touch."""

    def __init__(self, runs: Iterable[tuple[int, int]] = ()) -> None:
        self._firsts: list[int] = []
        self._lasts: list[int] = []
        for first, last in runs:
            self.add(first, last)

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return iter(list(zip(self._firsts, self._lasts, strict=True)))

    def __contains__(self, number: int) -> bool:
        at = bisect_left(self._lasts, number)
        return at < len(self._lasts) and self._firsts[at] <= number

    def __len__(self) -> int:
        return self.count_after(0)

    def add(self, first: int, last: int) -> None:
        """Put ``[first, last]`` in; nothing if it is empty."""
        if first > last:
            return
        # The runs that overlap or touch the new one: from the first that ends at first - 1 or later...
        low = bisect_left(self._lasts, first - 1)
        # ...up to the last that begins at last + 1 or earlier.
        high = bisect_left(self._firsts, last + 2)
        if low < high:
            first, last = min(first, self._firsts[low]), max(last, self._lasts[high - 1])
        self._firsts[low:high] = [first]
        self._lasts[low:high] = [last]

    def remove(self, first: int, last: int) -> int:
        """Take ``[first, last]`` out; return how many numbers that took."""
        if first > last:
            return 0
        low = bisect_left(self._lasts, first)
        high = bisect_left(self._firsts, last + 1)
        if low >= high:
            return 0
        before = sum(self._lasts[at] - self._firsts[at] + 1 for at in range(low, high))
        kept = [(self._firsts[low], first - 1), (last + 1, self._lasts[high - 1])]
        kept = [(start, end) for start, end in kept if start <= end]
        self._firsts[low:high] = [start for start, _ in kept]
        self._lasts[low:high] = [end for _, end in kept]
        return before - sum(end - start + 1 for start, end in kept)

    def count_after(self, number: int) -> int:
        """How many numbers above ``number`` there are."""
        return sum(last - max(first - 1, number) for first, last in self if last > number)

    def next_after(self, number: int) -> int | None:
        """The lowest number above ``number``, None if there is none."""
        at = bisect_left(self._lasts, number + 1)
        return max(self._firsts[at], number + 1) if at < len(self._lasts) else None

    def missing(self, first: int, last: int) -> Ranges:
        """What of ``[first, last]`` is not in here."""
        gaps = Ranges([(first, last)])
        for start, end in self:
            gaps.remove(start, end)
        return gaps
