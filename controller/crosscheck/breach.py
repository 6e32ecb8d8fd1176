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
from controller.crosscheck.observed import Observed
from controller.crosscheck.quantity import Edge, Quantity, between


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
    tests = [(concrete.right, concrete.constant)]
    if concrete.carried is not None:
        tests.append(concrete.carried)
    worst: Breach | None = None
    for right, constant in tests:
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


@dataclass(frozen=True, slots=True)
class Tested:
    """Where a law could be tested: stretches with both sides known, and what could hide in all of them."""

    stretches: tuple[tuple[int, int], ...]
    hidden: int | None

    @property
    def ns(self) -> int:
        """Length of all stretches."""
        return sum(end - start for start, end in self.stretches)


def tested(concrete: Sides, seen: tuple[Observed, Observed], from_ns: int, to_ns: int) -> Tested:
    """Return where in the period a law was tested, and what could have been hidden from it there (bounds.md 11).

    A liar at Y who hides more than ``(most X - least X) + (most Y - least Y) + allowance`` over a stretch is found,
    since the least of X is then above the most of Y and the allowance. Each segment counts once.
    """
    first = max((one.counted.first_latest for one in seen if one.counted.first_latest is not None), default=to_ns)
    last = min((one.counted.last_earliest for one in seen if one.counted.last_earliest is not None), default=from_ns)
    start, end = max(from_ns, first), min(to_ns, last)
    if start >= end:
        return Tested((), None)
    events = np.concatenate([concrete.left.events(), concrete.right.events()])
    inside = events[(events > start) & (events < end)]
    times = np.unique(np.concatenate([inside, np.array([start, end], dtype=np.int64)]))
    left_end, left_start = concrete.left.edge(times, Edge.LEAST_END), concrete.left.edge(times, Edge.LEAST_START)
    right_end, right_start = concrete.right.edge(times, Edge.MOST_END), concrete.right.edge(times, Edge.MOST_START)
    can_start, can_end = left_start.known & right_start.known, left_end.known & right_end.known
    # Bytes that X lost in a restart are no stretch in which anything could be compared.
    segment = left_end.segment + concrete.left.edge(times, Edge.MOST_END).segment + right_end.segment
    stretches = []
    for part in np.unique(segment):
        starts = times[(segment == part) & can_start]
        ends = times[(segment == part) & can_end]
        if len(starts) and len(ends) and int(starts[0]) < int(ends[-1]):
            stretches.append((int(starts[0]), int(ends[-1])))
    if not stretches:
        return Tested((), None)
    from_times, to_times = (np.array(part, dtype=np.int64) for part in zip(*stretches, strict=True))
    left, right = between(concrete.left, from_times, to_times), between(concrete.right, from_times, to_times)
    if not (left.bounded.all() and right.bounded.all()):
        return Tested(tuple(stretches), None)
    slack = subtract(left.most, left.least).sum() + subtract(right.most, right.least).sum()
    return Tested(tuple(stretches), int(slack) + concrete.constant * len(stretches))
