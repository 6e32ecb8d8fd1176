"""Sliding windows from the millisecond buckets of meters, placed on the timeline.

A meter tells in which millisecond of its own clock bytes passed. Where that is on the timeline is known to an interval,
but how long a window lasts on it is known to the clock's drift: so the fullest window is found in the device's time,
and only its place, and which buckets are in the period at all, rest on the clock's offset (bounds.md 7, 8).

What is certain comes from buckets that are certainly within the period. What is possible covers the windows that lie
wholly in one run; of all others the readings have to tell.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import chain

import numpy as np

from controller.crosscheck.buckets import PPM, fullest_run, touched_buckets, whole_buckets
from controller.crosscheck.coverage import Stretches, intersection, union
from controller.crosscheck.exact import Ints
from controller.crosscheck.model import BucketRun

DENSE = 8
"""From one bucket in so many that is not empty, all of them are laid out: adding a row is quicker than searching it."""


@dataclass(frozen=True, slots=True)
class Metered:
    """The fullest window as buckets show it. Times on the timeline.

    Attributes:
        least: bytes that some window certainly held.
        from_ns: the earliest that it can have begun; None where ``least`` is 0.
        exact_to_ns: it began no later than this much after.
        most: bytes that any covered window can have held.
        covered: the windows that are covered, by the stretches in which they begin (both ends included); empty: none.
    """

    least: int
    from_ns: int | None
    exact_to_ns: int
    most: int
    covered: Stretches

    def seen_from(self, origin: int) -> Metered:
        """Return it with the times of ``covered`` from another origin."""
        return replace(self, covered=tuple((first - origin, until - origin) for first, until in self.covered))


NOTHING_METERED = Metered(0, None, 0, 0, ())


def fullest_metered(
    ports: Sequence[Sequence[BucketRun]], window_ns: int, from_ns: int, to_ns: int, *, certain_from_ns: int
) -> Metered:
    """Return bounds of the fullest window of ``window_ns`` within ``(from_ns, to_ns]`` of several ports together.

    1. Ports on one clock are added up bucket by bucket.
    2. Clocks that are not the same are bounded each for itself: a window of all held at least what it held of one, and
       at most the most of each together, where all are covered.

    ``certain_from_ns`` is where the period begins for what is certain, which needs no start of evidence.
    """
    clocks = [dict.fromkeys((run.clock, run.width_ns) for run in runs) for runs in ports]
    period = from_ns, to_ns
    if all(own == clocks[0] for own in clocks):
        # A clock that began anew (a reboot) stands for what came then.
        parts = [_together(ports, clock, window_ns, period, certain_from_ns) for clock in clocks[0]]
        return _either(parts)
    if any(len(own) > 1 for own in clocks):
        return _either([])
    each = [_together(ports, clock, window_ns, period, certain_from_ns) for clock in dict.fromkeys(chain(*clocks))]
    best = max(each, key=lambda part: part.least)
    everywhere = reduce(intersection, (part.covered for part in each)) if all(clocks) else ()
    return replace(best, most=sum(part.most for part in each), covered=everywhere)


def _together(
    ports: Sequence[Sequence[BucketRun]],
    clock: tuple[str, int],
    window_ns: int,
    period: tuple[int, int],
    certain_from_ns: int,
) -> Metered:
    """Return what the ports on one clock show together."""
    own = [[run for run in runs if (run.clock, run.width_ns) == clock] for runs in ports]
    runs = reduce(added, [runs for runs in own if runs])
    return _either([_of_run(run, window_ns, period, certain_from_ns) for run in runs])


def added(first: Sequence[BucketRun], second: Sequence[BucketRun]) -> list[BucketRun]:
    """Return what two ports on one clock moved together, where both are known."""
    found = []
    for one in first:
        for other in second:
            begin, end = max(one.first, other.first), min(one.first + one.count, other.first + other.count)
            if begin < end and (one.clock, one.width_ns) == (other.clock, other.width_ns):
                found.append(_sum(_cut(one, begin, end), _cut(other, begin, end)))
    return found


def _cut(run: BucketRun, begin: int, end: int) -> BucketRun:
    low, high = (int(np.searchsorted(run.at, index - run.first)) for index in (begin, end))
    return replace(
        run,
        first=begin,
        count=end - begin,
        at=run.at[low:high].astype(np.int64) - (begin - run.first),
        bytes=run.bytes[low:high],
        unplaced=tuple(part for part in run.unplaced if part[0] < end and part[0] + part[1] > begin),
    )


def _sum(one: BucketRun, other: BucketRun) -> BucketRun:
    at, place = np.unique(np.concatenate([one.at, other.at]), return_inverse=True)
    total = np.zeros(len(at), dtype=np.int64)
    np.add.at(total, place, np.concatenate([one.bytes, other.bytes]).astype(np.int64))
    return replace(one, at=at, bytes=total, unplaced=tuple(sorted((*one.unplaced, *other.unplaced))))


def _either(parts: Sequence[Metered]) -> Metered:
    if not parts:
        return NOTHING_METERED
    best = max(parts, key=lambda part: part.least)
    covering = [part for part in parts if part.covered]
    return replace(
        best,
        most=max((part.most for part in covering), default=0),
        covered=union(stretch for part in covering for stretch in part.covered),
    )


def _of_run(run: BucketRun, window_ns: int, period: tuple[int, int], certain_from_ns: int) -> Metered:
    """Return what one run shows.

    1. Certain: the buckets that certainly began and ended within the period; as many as a window certainly holds.
    2. Possible: the windows that lie between the latest time the run began and the earliest it ended; as many buckets
       as a window can touch, and those unplaced bytes that can be in them.
    """
    from_ns, to_ns = period
    edges = _Edges(run)
    least, where = _certain(run, edges, window_ns, (certain_from_ns, to_ns))
    begin, end = max(edges.latest(run.first), from_ns), min(edges.earliest(run.first + run.count), to_ns)
    length = min(window_ns, to_ns - from_ns)
    most = 0
    covered: Stretches = ()
    if end - begin >= length > 0:
        most = _possible(run, edges, length, (begin, end))
        covered = ((begin, end - length),)
    if where is None:
        return Metered(0, None, 0, most, covered)
    from_at, exact_to = where
    return Metered(least, from_at, exact_to, most, covered)


def _certain(
    run: BucketRun, edges: _Edges, window_ns: int, period: tuple[int, int]
) -> tuple[int, tuple[int, int] | None]:
    low = edges.first_where(lambda index: edges.earliest(index) >= period[0])
    high = edges.first_where(lambda index: edges.latest(index) > period[1]) - 1
    count = whole_buckets(run.width_ns, min(window_ns, period[1] - period[0]), run.drift_ppm)
    if count == 0 or low >= high:
        return 0, None
    inside = _cut(run, low, high)
    least, first = _fullest(inside.at, inside.bytes, high - low, min(count, high - low))
    begin = low + first
    return least, ((edges.earliest(begin), edges.latest(begin) - edges.earliest(begin)) if least else None)


def _possible(run: BucketRun, edges: _Edges, length: int, stretch: tuple[int, int]) -> int:
    low = max(run.first, edges.first_where(lambda index: edges.latest(index) > stretch[0]) - 1)
    high = min(run.first + run.count, edges.first_where(lambda index: edges.earliest(index) >= stretch[1]))
    touched = touched_buckets(run.width_ns, length, run.drift_ppm)
    inside = _cut(run, low, high)
    most, _ = _fullest(inside.at, inside.bytes, high - low, min(touched, high - low))
    if not inside.unplaced:
        return most
    # Laid at the first bucket it can be in; a window it can be in reaches back to there if it is longer by the longest.
    longest = max(count for _, count, _ in inside.unplaced)
    at = np.array([max(0, first - low) for first, _, _ in inside.unplaced], dtype=np.int64)
    loose = np.array([size for _, _, size in inside.unplaced], dtype=np.int64)
    order = np.argsort(at, kind="stable")
    besides, _ = _fullest(at[order], loose[order], high - low, min(touched + longest, high - low))
    return most + besides


def _fullest(at: Ints, held: Ints, count: int, length: int) -> tuple[int, int]:
    """Return the most bytes in ``length`` of ``count`` buckets in a row, and the first of those; ``at`` are in order.

    The fullest begins with one that is not empty, or it could begin later.
    """
    if len(at) == 0:
        return 0, 0
    if len(at) * DENSE >= count and bool(np.all(at[:-1] < at[1:])):
        laid = np.zeros(count, dtype=held.dtype)
        laid[at] = held
        return fullest_run(laid, length)
    before = np.concatenate([[0], np.cumsum(held, dtype=np.int64)])
    end = np.searchsorted(at, at + length)
    sums = before[end] - before[np.arange(len(at))]
    best = int(np.argmax(sums))
    return int(sums[best]), max(0, min(int(at[best]), count - length))


class _Edges:
    """When, on the timeline, each bucket of a run began: at the earliest and at the latest."""

    def __init__(self, run: BucketRun) -> None:
        self._run = run
        self._knots = [index for index, _, _ in run.knots]

    def earliest(self, index: int) -> int:
        """Return the earliest time at which bucket ``index`` can have begun."""
        return self._from_knots(index, lambda knot, ns: knot[1] + ns * (PPM - self._drift(ns)) // PPM, max)

    def latest(self, index: int) -> int:
        """Return the latest time at which bucket ``index`` can have begun."""
        return self._from_knots(index, lambda knot, ns: knot[2] - -ns * (PPM + self._drift(ns)) // PPM, min)

    def first_where(self, true_from: Callable[[int], bool]) -> int:
        """Return the first bucket edge from which on ``true_from`` holds; one after the last if it never does."""
        low, high = self._run.first, self._run.first + self._run.count + 1
        while low < high:
            middle = (low + high) // 2
            low, high = (low, middle) if true_from(middle) else (middle + 1, high)
        return low

    def _drift(self, ns: int) -> int:
        # Backwards from a later knot the widest drift is the other way round.
        return self._run.drift_ppm if ns >= 0 else -self._run.drift_ppm

    def _from_knots(
        self,
        index: int,
        bound: Callable[[tuple[int, int, int], int], int],
        best: Callable[[list[int]], int],
    ) -> int:
        run = self._run
        before = bisect_right(self._knots, index) - 1
        after = bisect_left(self._knots, index)
        near = [run.knots[at] for at in (before, after) if 0 <= at < len(run.knots)]
        return best([bound(knot, (index - knot[0]) * run.width_ns) for knot in near])
