"""Where a law is broken for certain, over all start and end times at once.

``X(s, t] <= Y(s, t] + allowance`` is broken where the least of X exceeds the most of Y and the allowance:

    max over t of [ (LoX(t) - HiY(t)) - min over s <= t of (HiX(s) - LoY(s)) ]  >  allowance

in one pass (bounds.md 9). Testing fixed windows, or from one start, would let a liar hide the same amount in every
window, or take credit from having said too much before.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from controller.crosscheck.exact import Ints, subtract
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

    1. The ends of all readings' windows in the period are the only times at which the breach can be largest: the
       least of X falls back nowhere else, the most of Y grows between them.
    2. At each time: what an end there adds (least of X, most of Y) and what a start there takes away.
    3. Within each segment a running minimum of the starts makes every end meet its best start, in one pass.
    """
    events = np.concatenate([concrete.left.events(), concrete.right.events()])
    inside = events[(events > from_ns) & (events < to_ns)]
    times = np.unique(np.concatenate([inside, np.array([from_ns, to_ns], dtype=np.int64)]))
    worst: Breach | None = None
    for right, constant in concrete.tests:
        breach = _greatest(concrete.left, right, times)
        if breach is not None and breach.gap > constant and (worst is None or breach.gap - constant > worst.gap):
            worst = Breach(breach.gap - constant, breach.from_ns, breach.to_ns)
    return worst


def _greatest(left: Quantity, right: Quantity, times: Ints) -> Breach | None:
    least_end, least_start = left.edge(times, Edge.LEAST_END), left.edge(times, Edge.LEAST_START)
    most_end, most_start = right.edge(times, Edge.MOST_END), right.edge(times, Edge.MOST_START)
    ends = subtract(least_end.values, most_end.values)
    starts = subtract(least_start.values, most_start.values)
    ends_known, starts_known = least_end.known & most_end.known, least_start.known & most_start.known
    segment = least_end.segment + most_end.segment
    worst: Breach | None = None
    for part in np.unique(segment):
        here = segment == part
        start_at = np.flatnonzero(here & starts_known)
        end_at = np.flatnonzero(here & ends_known)
        if len(start_at) == 0 or len(end_at) == 0:
            continue
        best_start = np.minimum.accumulate(starts[start_at])
        # For each end, the starts up to it; an end before the first start meets none.
        met = np.searchsorted(start_at, end_at, side="right")
        end_at, met = end_at[met > 0], met[met > 0]
        if len(end_at) == 0:
            continue
        gaps = subtract(ends[end_at], best_start[met - 1])
        index = int(np.argmax(gaps))
        gap = int(gaps[index])
        if worst is None or gap > worst.gap:
            # The latest of the best starts: the shortest stretch that shows the breach.
            first = int(met[index]) - 1 - int(np.argmin(starts[start_at[: met[index]]][::-1]))
            worst = Breach(gap, int(times[start_at[first]]), int(times[end_at[index]]))
    return worst
