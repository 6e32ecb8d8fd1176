"""What the agents' meters counted by node, as certain intervals of bytes in a period: which node pair moved how much.

A meter counts, by peer, what enters its port; the class table says which addresses are whose. The counts run on from
when a table came in force, and begin at zero with the next one. A frame tells those that changed since the frame
before, now and then all of them. So, as everywhere, a count read between two times bounds what moved before and after:

1. At most what the first frame surely after the period shows, less the last one surely before it.
2. At least what the last frame surely within the period shows, less the first one.
3. A count that was not told yet, or not since a frame that never came, is at most what it is told next.
4. What moved between a table's last frame and the next table is not known: not bounded above.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from controller.crosscheck.model import ByteInterval, NodePair, Period
from protos.reading import Direction
from protos.v1 import frame_pb2

_Key = tuple[str, int, bytes]
"""Boot, since when the meter's totals run, and the class table: others are other counts."""


class PairCounts:
    """Takes in an agent's frames in order."""

    def __init__(self, agent: str, node: str, period: Period, directions: Mapping[str, Direction]) -> None:
        """``directions`` says for each port of the agent which of the node's directions enters it."""
        self._agent, self._node, self._period, self._directions = agent, node, period, directions
        self._open: dict[str, _Counts] = {}
        self._all: list[tuple[str, _Counts]] = []
        self._sequence = 0

    def take(self, frame: frame_pb2.Frame, from_ns: int, to_ns: int) -> None:
        """Take in what ``frame`` says; it was made after ``from_ns`` and received by ``to_ns``."""
        if frame.sequence != self._sequence + 1:
            # A frame that never came may have told of a change.
            for counts in self._open.values():
                counts.miss()
        self._sequence = frame.sequence
        for meter in frame.meters:
            if meter.unavailable or meter.port not in self._directions:
                continue
            key = (frame.clock.boot_id, meter.since_ns, frame.class_table_sha256)
            before = self._open.get(meter.port)
            if before is None or before.key != key:
                if before is not None:
                    before.ended_ns = to_ns
                self._open[meter.port] = _Counts(key, self._period, None if before is None else before.newest_ns)
                self._all.append((meter.port, self._open[meter.port]))
            told = {each.peer: each.wire_bytes for each in meter.peers}
            self._open[meter.port].take(told, from_ns, to_ns, full=meter.full)

    def pairs(self) -> Iterator[NodePair]:
        """Yield each peer that was told of, by port: what moved certainly, and at most."""
        found: dict[tuple[str, str], ByteInterval] = {}
        for port, counts in self._all:
            for peer, moved in counts.moved():
                before = found.get((port, peer), ByteInterval(0, 0))
                both = (before.upper, moved.upper)
                upper = None if None in both else sum(each for each in both if each is not None)
                found[port, peer] = ByteInterval(before.lower + moved.lower, upper)
        for (port, peer), interval in sorted(found.items()):
            if interval.upper != 0:
                yield NodePair(self._node, self._agent, port, self._directions[port], peer, interval)


@dataclass(slots=True)
class _Snapshot:
    """The counts as a frame left them; those it left open become at most what is told next."""

    values: dict[str, int]
    complete: bool

    def fill(self, told: Mapping[str, int]) -> None:
        if not self.complete:
            self.values = {**told, **self.values}

    def at_most(self, peer: str) -> int | None:
        return self.values.get(peer, 0 if self.complete else None)


class _Counts:
    """One port's counts under one table, and what they were at the four frames that bound the period."""

    def __init__(self, key: _Key, period: Period, since_ns: int | None) -> None:
        """``since_ns``: they began at zero after this; None: before anything was read."""
        self.key, self.newest_ns = key, 0
        self.ended_ns: int | None = None
        """By then another table was in force."""
        self._period, self._since_ns = period, since_ns
        self._complete = since_ns is not None
        self._known: dict[str, int] = {}
        self._certain: dict[str, int] = {}
        self._before: dict[str, int] | None = None
        self._start: _Snapshot | None = None
        self._last: dict[str, int] | None = None
        self._after: _Snapshot | None = None

    def miss(self) -> None:
        self._complete, self._certain = False, {}

    def take(self, told: Mapping[str, int], from_ns: int, to_ns: int, *, full: bool) -> None:
        period = self._period
        if to_ns > period.from_ns and self._before is None:
            self._before = dict(self._known)
        if to_ns > period.to_ns and self._last is None:
            self._last = dict(self._known)
        self._known |= told
        self._certain |= told
        self._complete |= full
        self.newest_ns = from_ns
        for snapshot in (self._start, self._after):
            if snapshot is not None:
                snapshot.fill(told)
        if from_ns >= period.from_ns and self._start is None:
            self._start = _Snapshot(dict(self._certain), self._complete)
        if from_ns >= period.to_ns and self._after is None:
            self._after = _Snapshot(dict(self._certain), self._complete)

    def moved(self) -> Iterator[tuple[str, ByteInterval]]:
        over = self.ended_ns is not None and self.ended_ns <= self._period.from_ns
        late = self._since_ns is not None and self._since_ns >= self._period.to_ns
        if not over and not late:
            for peer in self._known:
                yield peer, ByteInterval(self._least(peer), self._most(peer))

    def _least(self, peer: str) -> int:
        last = (self._known if self._last is None else self._last).get(peer, 0)
        if self._since_ns is not None and self._since_ns >= self._period.from_ns:
            return last
        start = None if self._start is None else self._start.at_most(peer)
        return 0 if start is None else max(0, last - start)

    def _most(self, peer: str) -> int | None:
        end = None if self._after is None else self._after.at_most(peer)
        return None if end is None else end - (self._before or {}).get(peer, 0)
