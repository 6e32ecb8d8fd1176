"""How much could be missing from a law without it being broken: the honest answer to "what could have been hidden".

For a stretch ``(s, t]`` in which both sides are known, a Y that hides ``h`` bytes goes unnoticed only while

    h  <=  (most X - least X) + (most Y and allowance - least Y)

since else the least of X would be above the most of Y and the allowance. Under the test of all start and end times
that is once a counter epoch, not once a window (bounds.md 11). What drop counters, padding, segmentation and the
DPU's own traffic leave open grows with time and is counted in full.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from controller.crosscheck.coverage import gaps
from controller.crosscheck.exact import Ints, merged, within
from controller.crosscheck.laws import Sides
from controller.crosscheck.observed import Observed
from controller.crosscheck.quantity import Edge, Quantity, bounds


@dataclass(frozen=True, slots=True)
class Tested:
    """Where a law could be tested: stretches with both sides known, and what could hide in them and between them.

    ``hidden`` is None where nothing bounds it.
    """

    stretches: tuple[tuple[int, int], ...]
    hidden: int | None

    @property
    def ns(self) -> int:
        """Length of all stretches."""
        return sum(end - start for start, end in self.stretches)


def tested(concrete: Sides, seen: tuple[Observed, Observed], from_ns: int, to_ns: int) -> Tested:
    """Return where within ``(from_ns, to_ns]`` a law was tested, and what could have been hidden from it there.

    1. Both observers have begun, and neither has ended.
    2. A counter restart without a line rate ends a stretch: what X lost there, or Y had to spare, nobody knows.
    3. Each stretch hides at most what the test over it would not have noticed.
    4. Where X was counting and the law was not tested, all that X can have counted may be missing. What X lost at its
       own restart no law can tell; that is the coverage's to count.
    """
    first = max((one.counted.first_latest for one in seen if one.counted.first_latest is not None), default=to_ns)
    last = min((one.counted.last_earliest for one in seen if one.counted.last_earliest is not None), default=from_ns)
    start, end = max(from_ns, first), min(to_ns, last)
    if start >= end:
        return Tested((), None)
    stretches = _stretches(concrete, start, end)
    left = seen[0].counted
    begun = start if left.first_latest is None else max(from_ns, left.first_latest)
    ended = end if left.last_earliest is None else min(to_ns, left.last_earliest)
    parts = [_hidden(concrete, *stretch) for stretch in stretches]
    untested = [bounds(concrete.left, *gap)[1] for gap in gaps(stretches, begun, ended)]
    parts += [most for most in untested if most is not None]
    known = [part for part in parts if part is not None]
    return Tested(stretches, sum(known) if stretches and len(known) == len(parts) else None)


def _stretches(concrete: Sides, start: int, end: int) -> tuple[tuple[int, int], ...]:
    """Return the longest stretch of each segment at whose ends everything that is compared is known."""
    times = within(merged([concrete.left.landmarks(), concrete.right.landmarks()]), start, end)
    can_start, can_end = np.ones(len(times), dtype=bool), np.ones(len(times), dtype=bool)
    segment: Ints = np.zeros(len(times), dtype=np.int64)
    for quantity, edges in (
        (concrete.left, tuple(Edge)),
        (concrete.right, (Edge.MOST_START, Edge.MOST_END)),
        (concrete.counted, (Edge.LEAST_START, Edge.LEAST_END)),
    ):
        for edge in edges:
            curve = quantity.edge(times, edge)
            if edge in (Edge.MOST_START, Edge.LEAST_START):
                can_start &= curve.known
            else:
                can_end &= curve.known
                segment = segment + curve.segment
    stretches = []
    for part in np.unique(segment):
        starts, ends = times[(segment == part) & can_start], times[(segment == part) & can_end]
        if len(starts) and len(ends) and int(starts[0]) < int(ends[-1]):
            stretches.append((int(starts[0]), int(ends[-1])))
    return tuple(stretches)


def _hidden(concrete: Sides, start: int, end: int) -> int | None:
    """Return what one stretch can hide: by the very numbers that the test compares, rounding included."""
    most = bounds(concrete.left, start, end)[1]
    told = bounds(concrete.counted, start, end)[0]
    if most is None:
        return None
    least = _rise(concrete.left, Edge.LEAST_START, Edge.LEAST_END, start, end)
    allowed = [
        _rise(right, Edge.MOST_START, Edge.MOST_END, start, end) + constant for right, constant in concrete.tests
    ]
    return max(0, min(most, most - least + min(allowed) - told))


def _rise(quantity: Quantity, from_edge: Edge, to_edge: Edge, start: int, end: int) -> int:
    first: Ints = quantity.edge(np.array([start], dtype=np.int64), from_edge).values
    second: Ints = quantity.edge(np.array([end], dtype=np.int64), to_edge).values
    return int(second[0]) - int(first[0])
