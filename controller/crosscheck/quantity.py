"""What can be bounded between any two times: a counter, or a sum of counters.

A law compares sums: a counter, another counter with drops times the largest frame, a rate times the time. What
makes testing every start and end at once possible is that each bound splits into a part of the end and a part of
the start:

    quantity(s, t]  <=  most_end(t)  - most_start(s)
    quantity(s, t]  >=  least_end(t) - least_start(s)        for all s < t in one segment

A sum of such quantities splits again; where a term is subtracted, its least takes the place of its most. A
*segment* ends where a bound cannot be carried across (a reset without a line rate); s and t must share it.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import lcm
from typing import Protocol

import numpy as np

from controller.crosscheck.exact import Bools, Ints, Line, Rate, add, divide_down, divide_up, merged, scale, subtract


class Edge(enum.Enum):
    """Which bound, and which of its two ends."""

    MOST_END = "most-end"
    MOST_START = "most-start"
    LEAST_END = "least-end"
    LEAST_START = "least-start"

    @property
    def of_subtracted(self) -> Edge:
        """The edge that a subtracted term contributes."""
        return _SUBTRACTED[self]

    @property
    def rounds_up(self) -> bool:
        """Whether rounding up widens the bound."""
        return self in (Edge.MOST_END, Edge.LEAST_START)


_SUBTRACTED = {
    Edge.MOST_END: Edge.LEAST_END,
    Edge.MOST_START: Edge.LEAST_START,
    Edge.LEAST_END: Edge.MOST_END,
    Edge.LEAST_START: Edge.MOST_START,
}


@dataclass(frozen=True, slots=True)
class Curve:
    """One edge at many times: its values, where they are known, and the segment each time lies in."""

    values: Ints
    known: Bools
    segment: Ints


class Quantity(Protocol):
    """Something cumulative that can be bounded between any two times (relative to one origin)."""

    def edge(self, times: Ints, edge: Edge) -> Curve:
        """Return one edge at each time."""

    def peaks(self, edge: Edge) -> Ints:
        """Return the times at which an edge is locally best for finding a breach, in order.

        For the least: where an end rises (the ``l`` of readings), and where a start is last low (the ``e``). For the
        most, which only drifts against a breach, hardly ever.
        """

    def bends(self, edge: Edge) -> Ints:
        """Return the times at which an edge turns against a breach, in order: best only if another edge is sloped."""

    def kinks(self, edge: Edge) -> Ints:
        """Return the times between readings at which an edge of the most turns from rising to level, or the reverse."""

    @property
    def sloped(self) -> bool:
        """Whether an edge of the least rises between readings, as it does with a line rate."""

    def landmarks(self) -> Ints:
        """Return the few times, within a nanosecond, at which it becomes known or unknown, or its segment changes."""

    def events(self) -> Ints:
        """Return both ends of all readings' windows, in order."""

    def turns(self) -> Ints:
        """Return the further times at which an edge bends, in order."""

    @property
    def line(self) -> Line | None:
        """What bounds it in any time, whatever was read; None if nothing does."""


@dataclass(frozen=True, slots=True)
class Span:
    """A quantity bounded over many pairs of times. ``most`` means something only where ``bounded``."""

    least: Ints
    most: Ints
    bounded: Bools


def between(quantity: Quantity, starts: Ints, ends: Ints) -> Span:
    """Return the bounds of ``quantity`` over each ``(start, end]``, never below 0 (bounds.md 2)."""
    most, bounded = most_between(quantity, starts, ends)
    return Span(least_between(quantity, starts, ends), most, bounded)


def least_between(quantity: Quantity, starts: Ints, ends: Ints) -> Ints:
    """Return the least of ``quantity`` over each ``(start, end]``, never below 0."""
    end, start = quantity.edge(ends, Edge.LEAST_END), quantity.edge(starts, Edge.LEAST_START)
    told = end.known & start.known & (end.segment == start.segment)
    least: Ints = np.where(told, np.maximum(subtract(end.values, start.values), 0), 0)
    return least


def most_between(quantity: Quantity, starts: Ints, ends: Ints) -> tuple[Ints, Bools]:
    """Return the most of ``quantity`` over each ``(start, end]``, and where it is bounded at all."""
    end, start = quantity.edge(ends, Edge.MOST_END), quantity.edge(starts, Edge.MOST_START)
    bounded = end.known & start.known & (end.segment == start.segment)
    most = np.maximum(subtract(end.values, start.values), 0)
    if quantity.line is None:
        return most, bounded
    carried = quantity.line.most_in_each(subtract(ends, starts))
    return np.where(bounded, np.minimum(most, carried), carried), np.ones(len(starts), dtype=bool)


def bounds(quantity: Quantity, start: int, end: int) -> tuple[int, int | None]:
    """Return least and most of ``quantity`` over ``(start, end]``; None is unbounded."""
    span = between(quantity, np.array([start], dtype=np.int64), np.array([end], dtype=np.int64))
    return int(span.least[0]), int(span.most[0]) if span.bounded[0] else None


@dataclass(frozen=True, slots=True)
class Steady:
    """Between nothing and a rate times the time: traffic known only by its largest rate."""

    rate: Rate

    @property
    def line(self) -> Line | None:
        """At most the rate, in any time."""
        return Line(self.rate, 0)

    def edge(self, times: Ints, edge: Edge) -> Curve:
        """Return the rate's position for the most, zero for the least."""
        # Whole bytes: floor(a - b) is never above floor(a) - floor(b).
        most = edge in (Edge.MOST_END, Edge.MOST_START)
        values = self.rate.position(times) if most else np.zeros(len(times), dtype=np.int64)
        return Curve(values, np.ones(len(times), dtype=bool), np.zeros(len(times), dtype=np.int64))

    @property
    def sloped(self) -> bool:
        """Its least is nothing, which does not rise."""
        return False

    def peaks(self, edge: Edge) -> Ints:  # noqa: ARG002 - the protocol's
        """Return no time: it bends nowhere."""
        return np.zeros(0, dtype=np.int64)

    def bends(self, edge: Edge) -> Ints:
        """Return no time: it bends nowhere."""
        return self.peaks(edge)

    def kinks(self, edge: Edge) -> Ints:
        """Return no time: it bends nowhere."""
        return self.peaks(edge)

    def landmarks(self) -> Ints:
        """Return no time: it is known always."""
        return np.zeros(0, dtype=np.int64)

    def events(self) -> Ints:
        """Return no time: it has no readings."""
        return np.zeros(0, dtype=np.int64)

    def turns(self) -> Ints:
        """Return no time: it bends nowhere."""
        return np.zeros(0, dtype=np.int64)


class Combination:
    """A sum of quantities with exact factors, any of them negative; rounding to whole bytes widens it."""

    def __init__(self, terms: Sequence[tuple[int | Fraction, Quantity]], line: Line | None = None) -> None:
        self._divisor = lcm(*(Fraction(factor).denominator for factor, _ in terms))
        self._terms = [(int(factor * self._divisor), quantity) for factor, quantity in terms if factor != 0]
        self._line = line

    @property
    def line(self) -> Line | None:
        """What the maker of the sum said bounds it."""
        return self._line

    def edge(self, times: Ints, edge: Edge) -> Curve:
        """Return the sum of the terms' edges."""
        values: Ints = np.zeros(len(times), dtype=np.int64)
        known = np.ones(len(times), dtype=bool)
        segment: Ints = np.zeros(len(times), dtype=np.int64)
        first = True
        for factor, quantity in self._terms:
            curve = quantity.edge(times, edge if factor > 0 else edge.of_subtracted)
            scaled = scale(curve.values, factor)
            values = scaled if first else add(values, scaled)
            first = False
            known &= curve.known
            segment = segment + curve.segment
        divide = divide_up if edge.rounds_up else divide_down
        return Curve(divide(values, self._divisor), known, segment)

    @property
    def sloped(self) -> bool:
        """Whether any term is. Subtracted terms are packets, which no line rate bounds."""
        return any(quantity.sloped for _, quantity in self._terms)

    def peaks(self, edge: Edge) -> Ints:
        """Return the terms' peaks."""
        return merged([quantity.peaks(edge if sign > 0 else edge.of_subtracted) for sign, quantity in self._terms])

    def bends(self, edge: Edge) -> Ints:
        """Return the terms' bends."""
        return merged([quantity.bends(edge if sign > 0 else edge.of_subtracted) for sign, quantity in self._terms])

    def kinks(self, edge: Edge) -> Ints:
        """Return the terms' kinks."""
        return merged([quantity.kinks(edge if sign > 0 else edge.of_subtracted) for sign, quantity in self._terms])

    def landmarks(self) -> Ints:
        """Return the terms' landmarks."""
        return merged([quantity.landmarks() for _, quantity in self._terms])

    def events(self) -> Ints:
        """Return the terms' events."""
        return merged([quantity.events() for _, quantity in self._terms])

    def turns(self) -> Ints:
        """Return the terms' turns."""
        return merged([quantity.turns() for _, quantity in self._terms])


@dataclass(frozen=True, slots=True)
class Stretched:
    """A quantity known only to lie between two shares of another (a framing without packet counts)."""

    of: Quantity
    least_share: Fraction
    most_share: Fraction

    @property
    def line(self) -> Line | None:
        """The line of the other, which carries no less."""
        return self.of.line if self.most_share <= 1 else None

    def edge(self, times: Ints, edge: Edge) -> Curve:
        """Return the other's edge times the share that widens it."""
        share = self.most_share if edge in (Edge.MOST_END, Edge.MOST_START) else self.least_share
        curve = self.of.edge(times, edge)
        scaled = scale(curve.values, share.numerator)
        divide = divide_up if edge.rounds_up else divide_down
        return Curve(divide(scaled, share.denominator), curve.known, curve.segment)

    @property
    def sloped(self) -> bool:
        """Whether the other is."""
        return self.of.sloped

    def peaks(self, edge: Edge) -> Ints:
        """Return the other's peaks."""
        return self.of.peaks(edge)

    def bends(self, edge: Edge) -> Ints:
        """Return the other's bends."""
        return self.of.bends(edge)

    def kinks(self, edge: Edge) -> Ints:
        """Return the other's kinks."""
        return self.of.kinks(edge)

    def landmarks(self) -> Ints:
        """Return the other's landmarks."""
        return self.of.landmarks()

    def events(self) -> Ints:
        """Return the other's events."""
        return self.of.events()

    def turns(self) -> Ints:
        """Return the other's turns."""
        return self.of.turns()
