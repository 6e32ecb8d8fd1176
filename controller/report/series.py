"""What the observers of a link prove, made ready to draw: every window of a length, and when each was looking.

The bounds are the cross-check's own (:mod:`controller.crosscheck`); only the choice of times is the plot's. Steps:

1. take the windows that end at each column's edge, and those at which a bound can be largest: where an envelope
   steps or bends at either end of the window;
2. ask for the certain interval of bytes of each;
3. keep, per column, the largest lower and the largest upper bound: a burst is never thinned away.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from controller.crosscheck.coverage import Stretches, covered, gaps
from controller.crosscheck.exact import Ints
from controller.crosscheck.model import LinkEvidence, Period, SiteEvidence
from controller.crosscheck.observed import Observed, observe
from controller.crosscheck.quantity import Quantity, Span, between
from protos.reading import Direction, Observer

LinkKey = tuple[str, Direction]


@dataclass(frozen=True, slots=True)
class Seen:
    """One link and direction with what each observer's readings prove, and when it was looking (nanoseconds)."""

    evidence: LinkEvidence
    observed: dict[Observer, Observed]
    looked: dict[Observer, Stretches]

    def gaps(self, observer: Observer, period: Period) -> Stretches:
        """Return the stretches of the period in which an observer was not looking."""
        return gaps(self.looked[observer], period.from_ns, period.to_ns)


def seen(site: SiteEvidence) -> dict[LinkKey, Seen]:
    """Return every link and direction of a site, its readings bounded once for all that is drawn from them."""
    return {(link.link, link.direction): _seen(link, site) for link in site.links}


def _seen(link: LinkEvidence, site: SiteEvidence) -> Seen:
    observed = {observer: observe(track, site.period.from_ns) for observer, track in link.tracks.items()}
    looked = {
        observer: covered(
            one.track,
            frozenset(wrong.epoch for wrong in one.counted.contradictions),
            site.assumptions.largest_gap_ns,
        )
        for observer, one in observed.items()
    }
    return Seen(link, observed, looked)


@dataclass(frozen=True, slots=True)
class Column:
    """The most bytes in any window that ends in ``(from_ns, to_ns]``; ``upper`` None is unbounded."""

    from_ns: int
    to_ns: int
    lower: int
    upper: int | None


def most_in_windows(one: Observed, period: Period, window_ns: int, columns: int) -> list[Column]:
    """Return the plot's columns over the part of the period that the observer's readings span; none without any.

    Windows are clipped to where the columns begin; ``columns`` is how many to cut the part into.
    """
    if not one.usable:
        return []
    from_ns = max(period.from_ns, min(reading.latest_ns for reading in one.track.readings)) - one.origin
    to_ns = min(period.to_ns, max(reading.earliest_ns for reading in one.track.readings)) - one.origin
    if to_ns <= from_ns:
        return []
    columns = min(columns, to_ns - from_ns)
    edges = np.array([from_ns + (to_ns - from_ns) * i // columns for i in range(columns + 1)], dtype=np.int64)
    ends = _ends(one.bytes, edges, window_ns)
    span = between(one.bytes, np.maximum(ends - window_ns, from_ns), ends)
    return _thinned(span, ends, edges, one.origin)


def _ends(quantity: Quantity, edges: Ints, window_ns: int) -> Ints:
    events, turns = quantity.events(), quantity.turns()
    times = (edges[1:], events, events + 1, events + window_ns, events + window_ns - 1, turns, turns + window_ns)
    ends: Ints = np.unique(np.concatenate(times))
    inside: Ints = ends[(ends > edges[0]) & (ends <= edges[-1])]
    return inside


def _thinned(span: Span, ends: Ints, edges: Ints, origin: int) -> list[Column]:
    firsts = np.searchsorted(ends, edges[:-1], side="right")
    least = np.maximum.reduceat(span.least, firsts)
    most = np.maximum.reduceat(np.where(span.bounded, span.most, 0), firsts)
    bounded = np.logical_and.reduceat(span.bounded, firsts)
    return [
        Column(
            from_ns=int(edges[i]) + origin,
            to_ns=int(edges[i + 1]) + origin,
            lower=int(least[i]),
            upper=int(most[i]) if bounded[i] else None,
        )
        for i in range(len(firsts))
    ]
