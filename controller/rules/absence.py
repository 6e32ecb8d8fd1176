"""Absence of telemetry: an agent or switch that is not heard of. Pure: the caller says what time it is.

A finding's time is when the source had been silent for as long as the rule allows, whenever somebody looked; so looking
later finds the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from controller.rules.finding import Finding, Kind
from controller.rules.rule import Rule
from controller.rules.tally import Change
from controller.rules.wording import duration


class Absence:
    """The sources, when each was last heard of, and what was said about it."""

    def __init__(self, rules: Sequence[Rule], sources: Sequence[str]) -> None:
        self._rules = [rule for rule in rules if rule.kind is Kind.TELEMETRY_ABSENT]
        self._heard_ns: dict[str, int | None] = dict.fromkeys(sources)
        self._firing: dict[tuple[str, str], Finding] = {}

    def begin(self, now_ns: int) -> None:
        """Collection begins: nobody is late yet, and what was said before is nothing to go on."""
        self._heard_ns = dict.fromkeys(self._heard_ns, now_ns)
        self._firing.clear()

    def end(self) -> None:
        """Collection ends: nobody looks, so nobody is missed."""
        self._heard_ns = dict.fromkeys(self._heard_ns)
        self._firing.clear()

    def heard(self, source: str, at_ns: int) -> Iterator[Change]:
        """Take that something came of a source, and yield what changed."""
        last_ns = self._heard_ns.get(source, at_ns)
        if source not in self._heard_ns:
            return
        for rule in self._rules:
            if last_ns is not None:
                yield from self._late(rule, source, last_ns, at_ns)
            found = self._firing.pop((rule.name, source), None)
            if found is not None:
                yield Change(found, at_ns)
        self._heard_ns[source] = max(at_ns, last_ns or at_ns)

    def clock(self, now_ns: int) -> Iterator[Change]:
        """Take that it is ``now_ns``, and yield what changed."""
        for rule in self._rules:
            for source, last_ns in self._heard_ns.items():
                if last_ns is not None:
                    yield from self._late(rule, source, last_ns, now_ns)

    def firing(self) -> Iterator[Finding]:
        """Yield the findings that are not over."""
        yield from self._firing.values()

    def _late(self, rule: Rule, source: str, last_ns: int, now_ns: int) -> Iterator[Change]:
        if now_ns - last_ns <= rule.for_ns or (rule.name, source) in self._firing:
            return
        text = f"{source}: no reading came for {duration(rule.for_ns)}; what passes meanwhile is not looked at"
        numbers = {"silent_s": rule.for_ns / 1e9}
        found = Finding(
            Kind.TELEMETRY_ABSENT, (source,), text, last_ns, last_ns + rule.for_ns, rule.severity, rule.name, numbers
        )
        self._firing[rule.name, source] = found
        yield Change(found)
