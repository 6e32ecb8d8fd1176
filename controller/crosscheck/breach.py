"""Where a law is broken for certain, over all start and end times at once.

``X(s, t] <= Y(s, t] + allowance`` is broken where the least of X exceeds the most of Y and the allowance:

    max over t of [ (LoX(t) - HiY(t)) - min over s <= t of (HiX(s) - LoY(s)) ]  >  allowance

in one pass (bounds.md 9). Testing fixed windows, or from one start, would let a liar hide the same amount in every
window, or take credit from having said too much before.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from controller.crosscheck.exact import Ints, merged, subtract, within
from controller.crosscheck.laws import Sides
from controller.crosscheck.quantity import Edge, Quantity


@dataclass(frozen=True, slots=True)
class Breach:
    """The start and end between which a law is broken by most, from the origin."""

    gap: int
    from_ns: int
    to_ns: int


def greatest_breach(concrete: Sides, from_ns: int, to_ns: int) -> Breach | None:
    """Return where a law is broken for certain by most within ``(from_ns, to_ns]``; None if it is not.

    1. Ends are tried where the least of X rises, starts where it is last low: between those times the most of Y only
       drifts against a breach. Where X's least rises steadily (a line rate), also where Y's most turns.
    2. What an end adds (least of X, most of Y) and what a start takes away.
    3. Within each segment a running minimum of the starts makes every end meet its best start, in one pass.
    """
    worst: Breach | None = None
    for right, constant in concrete.tests:
        starts = _candidates(concrete.left, right, (Edge.LEAST_START, Edge.MOST_START), from_ns, to_ns)
        ends = _candidates(concrete.left, right, (Edge.LEAST_END, Edge.MOST_END), from_ns, to_ns)
        breach = _greatest(concrete.left, right, starts, ends)
        if breach is not None and breach.gap > constant and (worst is None or breach.gap - constant > worst.gap):
            worst = Breach(breach.gap - constant, breach.from_ns, breach.to_ns)
    return worst


def _candidates(left: Quantity, right: Quantity, edges: tuple[Edge, Edge], from_ns: int, to_ns: int) -> Ints:
    least, most = edges
    parts = [left.peaks(least), right.peaks(most)]
    if left.sloped:
        parts += [left.bends(least), right.bends(most)]
    return within(merged(parts), from_ns, to_ns)


def _greatest(left: Quantity, right: Quantity, starts: Ints, ends: Ints) -> Breach | None:
    least_end, most_end = left.edge(ends, Edge.LEAST_END), right.edge(ends, Edge.MOST_END)
    least_start, most_start = left.edge(starts, Edge.LEAST_START), right.edge(starts, Edge.MOST_START)
    added, taken = subtract(least_end.values, most_end.values), subtract(least_start.values, most_start.values)
    end_known, start_known = least_end.known & most_end.known, least_start.known & most_start.known
    end_part, start_part = least_end.segment + most_end.segment, least_start.segment + most_start.segment
    worst: Breach | None = None
    for part in range(int(end_part[0]), int(end_part[-1]) + 1):
        start_at = np.flatnonzero(start_known & (start_part == part))
        end_at = np.flatnonzero(end_known & (end_part == part))
        # For each end, the starts up to it; an end before the first start meets none.
        met = np.searchsorted(starts[start_at], ends[end_at], side="right")
        end_at, met = end_at[met > 0], met[met > 0]
        if len(end_at) == 0:
            continue
        best_start = np.minimum.accumulate(taken[start_at])
        gaps = subtract(added[end_at], best_start[met - 1])
        index = int(np.argmax(gaps))
        gap = int(gaps[index])
        if worst is None or gap > worst.gap:
            # The latest of the best starts: the shortest stretch that shows the breach.
            first = int(met[index]) - 1 - int(np.argmin(taken[start_at[: met[index]]][::-1]))
            worst = Breach(gap, int(starts[start_at[first]]), int(ends[end_at[index]]))
    return worst
