"""One counter over all its epochs, as one virtual cumulative count of what truly passed.

Let ``T`` be the true total and ``C_k`` the counter in epoch k, so that ``T = c_k + C_k`` with an unknown offset
``c_k``. Each epoch bounds ``T - c_k`` at every time by its envelopes. What the offsets can do from one epoch to the
next is bounded by (bounds.md 12):

    c_(k+1) - c_k  >=  max v of k  -  min v of k+1              nothing is counted before the epoch began
    c_(k+1) - c_k  <=  min over j in k+1 of  Hi_k(l_j) - v_j    the gap carried no more than the line allows

An epoch proven to begin at zero counts as one more reading ``(not before, by, 0)``, which turns the first line into
"all that the old epoch had counted is kept" and the second into "at most what the line allows until the reset".
Without a line rate the second is infinite, and the most ends there: a new segment.

Epochs whose continuity is not proven give a least but no most. Even the least then needs to know which of two readings
came first: of one before and one after an unnoticed restart, in windows that overlap, the higher may be the older. So
only readings whose windows are apart are used.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Literal

import numpy as np

from controller.crosscheck.consistency import Contradiction, contradiction
from controller.crosscheck.envelope import Columns, Envelope
from controller.crosscheck.epochs import EpochReadings
from controller.crosscheck.exact import Ints, Line, add, merged, subtract, whole
from controller.crosscheck.quantity import Curve, Edge


class Account:
    """A counter over all its epochs; a :class:`~controller.crosscheck.quantity.Quantity`.

    ``contradictions`` names the epochs that contradict themselves; they prove nothing and are left out.
    """

    def __init__(self, epochs: Iterable[EpochReadings], line: Line | None) -> None:
        self._given = tuple(epochs)
        self._line = line
        self.contradictions: tuple[Contradiction, ...] = ()
        self._least, self._most = _Chain(), _Chain()
        found = []
        previous: Envelope | None = None
        base: int | None = None
        for epoch in self._given:
            known = epoch if epoch.proven else replace(epoch, columns=_apart(epoch.columns))
            envelope = Envelope(_with_start(known, previous), line)
            wrong = contradiction(epoch.number, envelope) or _out_of_order(epoch, previous, envelope)
            if wrong is not None:
                found.append(wrong)
                # What goes on from readings that prove nothing goes on from nothing.
                base = None
                continue
            apart = epoch.base - base if epoch.continues and base is not None else None
            self._least.append(envelope, _least_step(previous, envelope, apart))
            if epoch.proven:
                self._most.append(envelope, _most_step(self._most.last, envelope))
            previous, base = envelope, epoch.base
        self.contradictions = tuple(found)
        self.first_latest = min((int(epoch.columns.latest.min()) for epoch in self._given), default=None)
        newest = self._given[-1:]
        self.newest_latest = min((int(epoch.columns.latest.min()) for epoch in newest), default=None)
        """By when the last epoch had begun."""
        self.last_earliest = max((int(epoch.columns.earliest.max()) for epoch in self._given), default=None)

    @property
    def line(self) -> Line | None:
        """What the port can carry."""
        return self._line

    @property
    def epoch_count(self) -> int:
        """Counter epochs with readings; one that was cut where a counter may have wrapped is one."""
        return len({epoch.number for epoch in self._given})

    @property
    def usable(self) -> bool:
        """Whether any epoch proves anything."""
        return bool(self._least.envelopes)

    def widened(self, before: int, after: int) -> Account:
        """Return the account with each reading's window wider by ``before`` and ``after`` nanoseconds."""
        return Account(
            (
                replace(
                    epoch,
                    columns=replace(
                        epoch.columns,
                        earliest=epoch.columns.earliest - before,
                        latest=epoch.columns.latest + after,
                    ),
                )
                for epoch in self._given
            ),
            self._line,
        )

    def without_line(self) -> Account:
        """Return the account as the readings alone prove it."""
        return Account(self._given, None)

    def edge(self, times: Ints, edge: Edge) -> Curve:
        """Return one edge at each time."""
        chain = self._most if edge in (Edge.MOST_END, Edge.MOST_START) else self._least
        upward = edge in (Edge.MOST_END, Edge.LEAST_START)
        segment: Ints = np.zeros(len(times), dtype=np.int64)
        if not chain.envelopes:
            return Curve(np.zeros(len(times), dtype=np.int64), np.zeros(len(times), dtype=bool), segment)
        if len(chain.envelopes) == 1:
            (envelope,) = chain.envelopes
            values, known = envelope.hi(times) if upward else envelope.lo(times)
            return Curve(values, known, segment)
        values, known = np.zeros(len(times), dtype=np.int64), np.zeros(len(times), dtype=bool)
        # The least of a start needs a reading after it: between two epochs that is the later one's.
        side: Literal["left", "right"] = "left" if edge is Edge.LEAST_START else "right"
        limits = chain.last_earliest if edge is Edge.LEAST_START else chain.first_latest
        which = np.searchsorted(np.array(limits, dtype=np.int64), times, side=side)
        for index in np.flatnonzero(np.bincount(which)):
            here = which == index
            envelope = chain.envelopes[index]
            part, part_known = envelope.hi(times[here]) if upward else envelope.lo(times[here])
            part = add(part, chain.offsets[index])
            if part.dtype == object and values.dtype != object:
                values = values.astype(object)
            values[here], known[here], segment[here] = part, part_known, chain.segments[index]
        return Curve(values, known, segment)

    @property
    def sloped(self) -> bool:
        """Whether a line rate makes its edges rise between readings."""
        return self._line is not None

    def peaks(self, edge: Edge) -> Ints:
        """Return the ends of windows at which the least is best, or where the most changes to the next epoch's."""
        if edge is Edge.LEAST_END:
            return merged([envelope.latest for envelope in self._least.envelopes])
        if edge is Edge.LEAST_START:
            return merged([envelope.earliest for envelope in self._least.envelopes])
        changes = np.array(self._most.first_latest, dtype=np.int64)
        return changes if edge is Edge.MOST_END else changes - 1

    def bends(self, edge: Edge) -> Ints:
        """Return the ends of windows at which the most turns against a breach."""
        if edge is Edge.MOST_END:
            return merged([envelope.earliest for envelope in self._most.envelopes])
        if edge is Edge.MOST_START:
            return merged([envelope.latest for envelope in self._most.envelopes])
        return np.zeros(0, dtype=np.int64)

    def landmarks(self) -> Ints:
        """Return the first ``l`` and last ``e`` of each epoch, and the nanoseconds beside them."""
        ends = [
            at
            for chain in (self._least, self._most)
            for envelope in chain.envelopes
            for at in (int(envelope.latest[0]), int(envelope.earliest[-1]))
        ]
        marks = np.array(ends, dtype=np.int64)
        return merged([marks - 1, marks, marks + 1])

    def events(self) -> Ints:
        """Return the ends of all readings' windows that still prove something."""
        return merged([part for envelope in self._least.envelopes for part in (envelope.earliest, envelope.latest)])

    def kinks(self, edge: Edge) -> Ints:
        """Return where an edge of the most turns between readings."""
        if edge is Edge.MOST_END:
            return merged([envelope.high_kinks() for envelope in self._most.envelopes])
        if edge is Edge.MOST_START:
            return merged([envelope.low_kinks() for envelope in self._most.envelopes])
        return np.zeros(0, dtype=np.int64)

    def turns(self) -> Ints:
        """Return where an envelope bends between readings."""
        return merged([self.kinks(Edge.MOST_END), self.kinks(Edge.MOST_START)])


class _Chain:
    """Epochs one after another, each with the offset of its scale and its segment."""

    def __init__(self) -> None:
        self.envelopes: list[Envelope] = []
        self.offsets: list[int] = []
        self.segments: list[int] = []
        self.first_latest: list[int] = []
        """From the first ``l`` of an epoch on, times belong to it; without the first epoch's."""
        self.last_earliest: list[int] = []
        """Up to the last ``e`` of an epoch, times belong to it; without the last epoch's."""

    @property
    def last(self) -> Envelope | None:
        return self.envelopes[-1] if self.envelopes else None

    def append(self, envelope: Envelope, step: int | None) -> None:
        """Add an epoch whose offset is ``step`` from the one before; None starts a new segment."""
        if self.envelopes:
            self.first_latest.append(int(envelope.latest[0]))
            self.last_earliest.append(int(self.envelopes[-1].earliest[-1]))
        self.offsets.append((self.offsets[-1] if self.offsets else 0) + (step or 0))
        broken = step is None and bool(self.envelopes)
        self.segments.append((self.segments[-1] if self.segments else 0) + broken)
        self.envelopes.append(envelope)


def _apart(columns: Columns) -> Columns:
    """Return readings whose windows do not overlap, as many as there can be."""
    order = np.argsort(columns.latest, kind="stable")
    earliest, latest = columns.earliest[order], columns.latest[order]
    kept: list[int] = []
    end: int | None = None
    for index, (first, last) in enumerate(zip(earliest.tolist(), latest.tolist(), strict=True)):
        if end is None or first >= end:
            kept.append(index)
            end = last
    chosen = order[kept]
    return Columns(*(part[chosen] for part in (columns.earliest, columns.latest, columns.low, columns.high)))


def _least_step(previous: Envelope | None, envelope: Envelope, apart: int | None) -> int | None:
    """Return the least by which the next epoch's scale lies above the one before; ``apart`` if its values go on."""
    if previous is None:
        return None
    restarted = previous.highest - envelope.lowest
    return restarted if apart is None else max(apart, restarted)


def _most_step(previous: Envelope | None, envelope: Envelope) -> int | None:
    if previous is None or previous.line is None:
        return None
    reachable, _ = previous.hi(envelope.columns.latest)
    return int(subtract(reachable, envelope.columns.low).min())


def _out_of_order(epoch: EpochReadings, previous: Envelope | None, envelope: Envelope) -> Contradiction | None:
    """A reset lies between the readings of two epochs: the old one's cannot all be after the new one's."""
    if previous is None or int(previous.earliest[-1]) <= int(envelope.latest[0]):
        return None
    why = "epochs numbered out of order", "a clock or refresh period further off than assumed", "a false start"
    return Contradiction(epoch.number, int(envelope.latest[0]), 0, why)


def _with_start(epoch: EpochReadings, previous: Envelope | None) -> Columns:
    """Return an epoch's readings with its proven start as a reading of zero.

    The start's later end bounds ``Lo``, its earlier end ``Hi``. Where nothing says how early it can have been, the
    row repeats a real reading's part of ``Hi``, which adds nothing.
    """
    start, columns = epoch.start, epoch.columns
    if start is None:
        return columns
    first = int(columns.latest.min())
    by = first if start.by_ns is None else min(start.by_ns, first)
    not_before = [at for at in (start.not_before_ns, _last_of(previous)) if at is not None]
    zero = whole([-epoch.base])
    earliest, high = (min(max(not_before), by), zero) if not_before else (columns.earliest[0], columns.high[:1])
    return Columns(
        np.append(columns.earliest, earliest),
        np.append(columns.latest, by),
        np.concatenate([columns.low, zero]),
        np.concatenate([columns.high, high]),
    )


def _last_of(previous: Envelope | None) -> int | None:
    return None if previous is None else int(previous.earliest[-1])
