"""The rules on what moves, as it comes: sums of nodes, pairs, pods, classes and the site. Pure, bounded memory.

A tally stands for one place, direction, measure and set of classes; the rules that hold there share its windows. What
is not known adds nothing, and time goes on only where something was read: a finding is never dissolved by silence.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain

from controller.rules.finding import Finding, Kind
from controller.rules.moved import Load, Moved, Places
from controller.rules.rule import Measure, Rule, Scope
from controller.rules.shape import DAY_NS
from controller.rules.tally import Change, Tally
from protos.buckets import CLASSES, TrafficClass
from protos.reading import Direction

FORGOTTEN_AFTER_NS = 31 * DAY_NS
"""No window of a rule is longer."""
MOST_PLACES = 1 << 18
"""Pairs grow with the square of the nodes: beyond so many places further pairs are left out, and it is told."""
_Key = tuple[Scope, str, Direction, Measure, tuple[TrafficClass, ...]]


class RuleStream:
    """Every rule but those of absence, over everything that moves."""

    def __init__(self, rules: Sequence[Rule], places: Places) -> None:
        self._places = places
        self._groups: dict[tuple[Scope, Measure, tuple[TrafficClass, ...]], list[Rule]] = {}
        for rule in rules:
            if rule.kind is not Kind.TELEMETRY_ABSENT:
                self._groups.setdefault((rule.scope, rule.measure, rule.classes), []).append(rule)
        self._tallies: dict[_Key, Tally] = {}
        self._loads: dict[str, list[Load]] = {}
        self._unmeasured: dict[tuple[str, str], None] = {}

    def feed(self, moved: Moved) -> Iterator[Change]:
        """Take what moved over one link and yield what changed."""
        node = self._places.nodes.get(moved.link)
        if node is None:
            return
        for (scope, measure, classes), rules in self._groups.items():
            if scope is Scope.PAIR:
                yield from self._pairs(moved, node, classes, rules)
            elif scope is Scope.CLASS:
                yield from self._classes(moved, node, classes, rules)
            else:
                amount = _amount(moved, measure, classes)
                if amount is None:
                    self._miss(node, rules)
                    continue
                name = {Scope.NODE: node, Scope.POD: self._places.pods[node], Scope.SITE: self._places.site}[scope]
                tally = self._tally((scope, name, moved.direction, measure, classes), rules, [])
                yield from tally.add(moved.from_ns, moved.to_ns, amount)

    def load(self, load: Load) -> None:
        """Take a load window that was opened, or one that is known again with another end."""
        kept_ns = load.from_ns - FORGOTTEN_AFTER_NS
        known = [
            each for each in self._loads.get(load.node, ()) if each.from_ns != load.from_ns and each.to_ns > kept_ns
        ]
        self._loads[load.node] = [*known, load]

    def unmeasured(self) -> Iterator[tuple[str, str]]:
        """Yield each rule and node of which what the rule counts is not measured, or has too many pairs."""
        yield from self._unmeasured

    def firing(self) -> Iterator[Finding]:
        """Yield the findings that are not over."""
        yield from chain.from_iterable(tally.firing() for tally in self._tallies.values())

    def _pairs(
        self, moved: Moved, node: str, classes: tuple[TrafficClass, ...], rules: Sequence[Rule]
    ) -> Iterator[Change]:
        if moved.peers is None:
            self._miss(node, rules)
            return
        for peer, amount in moved.peers.items():
            key = (Scope.PAIR, f"{node} - {peer}", moved.direction, Measure.BYTES, classes)
            if key not in self._tallies and len(self._tallies) >= MOST_PLACES:
                self._miss(node, rules)
                continue
            yield from self._tally(key, rules, [node]).add(moved.from_ns, moved.to_ns, amount)

    def _classes(
        self, moved: Moved, node: str, classes: tuple[TrafficClass, ...], rules: Sequence[Rule]
    ) -> Iterator[Change]:
        measure = rules[0].measure
        counted = moved.classes if measure is Measure.BYTES else moved.class_packets
        if counted is None:
            self._miss(node, rules)
            return
        for each in classes or CLASSES:
            if each in counted:
                key = (Scope.CLASS, f"{node} {each.title}", moved.direction, measure, classes)
                yield from self._tally(key, rules, [node]).add(moved.from_ns, moved.to_ns, counted[each])

    def _tally(self, key: _Key, rules: Sequence[Rule], nodes: Sequence[str]) -> Tally:
        tally = self._tallies.get(key)
        if tally is None:
            scope, name, direction = key[:3]
            if scope is Scope.NODE:
                nodes = [name]
            elif scope is Scope.POD:
                nodes = [node for node, pod in self._places.pods.items() if pod == name]
            elif scope is Scope.SITE:
                nodes = list(self._places.pods)
            place = f"{scope.value} {name} {direction.value}"
            tally = Tally(place, rules, lambda from_ns, to_ns: self._allowed(nodes, direction, from_ns, to_ns))
            self._tallies[key] = tally
        return tally

    def _allowed(self, nodes: Iterable[str], direction: Direction, from_ns: int, to_ns: int) -> int:
        return sum(
            load.bytes.get(direction, 0)
            for node in nodes
            for load in self._loads.get(node, ())
            if load.from_ns <= to_ns and load.to_ns > from_ns
        )

    def _miss(self, node: str, rules: Sequence[Rule]) -> None:
        for rule in rules:
            self._unmeasured[rule.name, node] = None


def _amount(moved: Moved, measure: Measure, classes: tuple[TrafficClass, ...]) -> int | None:
    """Return what a rule counts of it; None where that is not measured."""
    if not classes:
        return moved.bytes if measure is Measure.BYTES else moved.packets
    counted: Mapping[TrafficClass, int] | None = moved.classes if measure is Measure.BYTES else moved.class_packets
    return None if counted is None else sum(counted.get(each, 0) for each in classes)
