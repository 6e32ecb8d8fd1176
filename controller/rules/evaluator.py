"""The streaming evaluation: feed what moves, get what is found. Pure, incremental, bounded memory.

One object for live data and for history: :mod:`controller.collect.watch` feeds it as readings arrive, ``weighbridge
rules history`` with what the journal holds, the planner with traffic it made. Fed the same in the same order it finds
the same, however the feeding is cut into batches::

    places = Places("lab", nodes={"n1/p0": "n1"}, pods={"n1": "pod-a"})
    evaluator = Evaluator(rules, places)
    for change in evaluator.feed(bins("n1/p0", Direction.EGRESS, start_ns, NS_PER_S, volumes)):
        print(change.finding.text, change.resolved_ns)

1. Rules (:mod:`controller.rules.stream`): sums over sliding windows. A finding begins with the first reading that
   exceeds its rule (for as long as the rule asks) and is over when the rule was kept for a minute.
2. Shapes (:mod:`controller.rules.shapestream`): the detectors, over two days of minutes, every half hour a link.
3. Absence (:mod:`controller.rules.absence`): only if :meth:`Evaluator.clock` and :meth:`Evaluator.heard` are called.

Memory a link: 23 kB of minutes, and for each window of a rule 60 integers a direction. It does not grow with time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from controller.rules.absence import Absence
from controller.rules.finding import Finding
from controller.rules.moved import Load, Moved, Places
from controller.rules.rule import Rules
from controller.rules.series import Flow
from controller.rules.shapestream import ShapeStream
from controller.rules.stream import RuleStream
from controller.rules.tally import Change


class Evaluator:
    """Everything that rules and detectors say of a site, as it comes."""

    def __init__(self, rules: Rules, places: Places, *, with_shapes: bool = True) -> None:
        self._stream = RuleStream(rules.rules, places)
        self._absence = Absence(rules.rules, places.sources)
        self._shapes = ShapeStream(rules.shape, places) if with_shapes else None

    def feed(self, moved: Iterable[Moved]) -> list[Change]:
        """Take what moved, each link's in the order of time, and return what changed."""
        changes: list[Change] = []
        for each in moved:
            changes += self._stream.feed(each)
            if self._shapes is not None:
                changes += self._shapes.feed(each)
        return changes

    def feed_rules(self, moved: Iterable[Moved]) -> list[Change]:
        """As :meth:`feed`, the rules alone."""
        return [change for each in moved for change in self._stream.feed(each)]

    def feed_shapes(self, moved: Iterable[Moved]) -> list[Change]:
        """As :meth:`feed`, the detectors alone: their bins are minutes, so readings a minute apart are enough."""
        return [] if self._shapes is None else [change for each in moved for change in self._shapes.feed(each)]

    def load(self, load: Load) -> None:
        """Take a load window that was opened or closed."""
        self._stream.load(load)

    def begin(self, now_ns: int) -> None:
        """Collection begins now: silence counts from here."""
        self._absence.begin(now_ns)

    def end(self) -> None:
        """Collection ends: silence means nothing until it begins again."""
        self._absence.end()

    def heard(self, source: str, at_ns: int) -> list[Change]:
        """Take that something came from an agent or a switch, and return what changed."""
        return list(self._absence.heard(source, at_ns))

    def clock(self, now_ns: int) -> list[Change]:
        """Take that it is ``now_ns``, and return what changed: who has fallen silent."""
        return list(self._absence.clock(now_ns))

    def unmeasured(self) -> list[tuple[str, str]]:
        """Return each rule and node of which what the rule counts is not measured, so that it says nothing."""
        return list(self._stream.unmeasured())

    def firing(self) -> Iterator[Finding]:
        """Yield the findings that are not over."""
        yield from self._stream.firing()
        yield from self._absence.firing()
        if self._shapes is not None:
            yield from self._shapes.firing()

    def flows(self) -> list[Flow]:
        """Return what is remembered of each link, minute by minute."""
        return [] if self._shapes is None else self._shapes.flows()
