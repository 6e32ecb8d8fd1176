"""Whether one observer can be telling the truth at all, and what would explain it if not.

Within an epoch ``v_j - v_i <= g(l_j - e_i)`` must hold for all pairs, equivalently ``Lo <= Hi`` at every ``e`` and
``l`` (bounds.md 3). A failure voids both bounds of the epoch. A second test needs packets: every frame is at least
the shortest and at most the largest frame long, over any stretch.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from controller.crosscheck.envelope import Columns, Envelope
from controller.crosscheck.exact import Line, subtract
from protos.units import format_bytes, format_duration, format_rate


@dataclass(frozen=True, slots=True)
class Contradiction:
    """Readings of one epoch that cannot all be true.

    Attributes:
        epoch: the counter epoch, which proves nothing any more.
        at_ns: where the lowest possible value is highest above the highest possible (from the origin).
        excess: by how much.
        explanations: what would have to be so for the readings to be true, one sentence part each.
    """

    epoch: int
    at_ns: int
    excess: int
    explanations: tuple[str, ...]

    def __str__(self) -> str:
        return f"its readings of counter epoch {self.epoch} contradict each other by {format_bytes(self.excess)}; " + (
            "this could be " + ", or ".join(self.explanations)
        )


def contradiction(epoch: int, envelope: Envelope) -> Contradiction | None:
    """Return the worst contradiction inside one epoch, None if its readings can all be true.

    1. At every ``e_i``, Lo must not be above ``v_i``: that is ``v_j - v_i <= g(l_j - e_i)`` for all j.
    2. The worst place gives the excess; the two readings that make it give the explanations.
    """
    times = envelope.earliest
    low, known = envelope.lo(times)
    over = np.where(known, subtract(low, envelope.high), 0)
    worst = int(np.argmax(over))
    # A rounded position can be a byte off: that byte proves nothing.
    if int(over[worst]) <= (0 if envelope.line is None or envelope.line.rate.ns == 1 else 1):
        return None
    at = int(times[worst])
    first, second = _witnesses(envelope.columns, envelope.line, at)
    excess = int(over[worst])
    return Contradiction(epoch, at, excess, _explain(envelope.columns, envelope.line, first, second, excess))


def _witnesses(columns: Columns, line: Line | None, at: int) -> tuple[int, int]:
    """Return the indices of the readings that set Hi and Lo at a time."""
    after, before = columns.earliest - at, columns.latest - at
    if line is None:
        high = np.where(after >= 0, columns.high, columns.high.max() + 1)
        low = np.where(before <= 0, columns.low, columns.low.min() - 1)
    else:
        high = columns.high + line.most_in_each(-after)
        low = columns.low - line.most_in_each(before)
    return int(np.argmin(high)), int(np.argmax(low))


def _explain(columns: Columns, line: Line | None, first: int, second: int, excess: int) -> tuple[str, ...]:
    """Return what would make a pair of readings possible: the counter rose from ``first`` to ``second``."""
    length = int(columns.latest[second]) - int(columns.earliest[first])
    risen = int(columns.low[second]) - int(columns.high[first])
    if length <= 0:
        return (
            f"a reset that went unnoticed (the counter fell by {format_bytes(risen)})",
            f"a refresh period or clock error longer than assumed by {format_duration(-length + 1)}",
            "a false reading",
        )
    if line is None:
        return ("a false reading",)
    # One byte in hand: the rate that would carry the rise in the time, and the time that the rate would need.
    needed = (risen - line.step) * 1_000_000_000 / length
    longer = line.rate.ns_for(excess)
    return (
        f"a refresh period or clock error longer than assumed by {format_duration(longer)}",
        f"a line rate of at least {format_rate(needed)}",
        "a counter that jumped",
        "a false reading",
    )
