"""One finding of rules or detectors in full: what was seen, what it rests on, and what it does not say."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from controller.crosscheck.model import Period
from controller.crosscheck.wording import stretch
from controller.errors import OperatorError
from controller.explanation import MOST_NAMED, Section
from controller.journal import Journal, Kind
from controller.judgement import in_force
from controller.replay.answer import told_finding
from controller.rules.finding import SHAPES, Finding
from controller.rules.finding import Kind as FindingKind
from controller.rules.rule import Rules
from controller.rules_history import Told, evaluated, remembered
from controller.site import Site
from protos.units import format_duration

_SAYS_NOT = {
    "shape": "a shape is no proof: it says how rarely honest traffic looks so, if it is as the rules file says honest "
    "traffic is. A relay, a crash loop or a timer can break that",
    "sum": "a sum over readings that are placed by one clock and spread evenly between looks: proof that a limit was "
    "exceeded, with its margin, is what `weighbridge crosscheck` gives for the same time",
    "absence": "it says that nobody looked, not why: `weighbridge report` tells whether the controller, the way or the "
    "device failed",
}


def explanation(journal: Journal, rules: Rules, period: Period, wanted: str) -> tuple[dict[str, Any], list[Section]]:
    """Return a finding as JSON has it, and its explanation.

    Args:
        journal: of the site.
        rules: that the finding was made by.
        period: in which it was made, with the past that it needs.
        wanted: its id.

    Raises:
        OperatorError: these rules find nothing of that id in the period.
        EvidenceError: a journaled record cannot be read.
    """
    site = in_force(journal)
    of_shape = FindingKind(wanted.rpartition("-")[0]) in SHAPES
    told = (remembered if of_shape else evaluated)(journal, site, rules, period)
    found = next((each for each in told if each.finding.id == wanted), None)
    if found is None:
        there = ", ".join([each.finding.id for each in told][:MOST_NAMED]) or "none"
        raise OperatorError(
            f"{wanted!r} is not found in that period by these rules. There: {there}. Give the rules and the period "
            "that the alert names."
        )
    return told_finding(found.finding, found.resolved_ns), list(_sections(journal, site, rules, found))


def _sections(journal: Journal, site: Site, rules: Rules, found: Told) -> Iterator[Section]:
    finding = found.finding
    yield Section("What was seen", (finding.text,))
    rule = next((each for each in rules.rules if each.name == finding.rule), None)
    if rule is not None:
        said = f"{rule.name}: {rule.text}" if rule.text else rule.name
        classes = ", ".join(each.title for each in rule.classes) or "everything on the wire"
        yield Section("By which rule", (said, f"of each {rule.scope.value}; what counts: {classes}"))
    over = (
        "it goes on"
        if found.resolved_ns is None
        else f"over after {format_duration(found.resolved_ns - finding.to_ns)}"
    )
    yield Section("When", (stretch(finding.from_ns, finding.to_ns), over))
    yield Section("Numbers", tuple(f"{name}: {value}" for name, value in finding.numbers.items()))
    kind = "shape" if finding.kind in SHAPES else "absence" if finding.kind is FindingKind.TELEMETRY_ABSENT else "sum"
    yield Section("What it does not say", (_SAYS_NOT[kind],))
    yield Section("Evidence, by leaf of the journal", tuple(_entries(journal, site, finding)) or ("none",))


def _entries(journal: Journal, site: Site, finding: Finding) -> Iterator[str]:
    """Yield where the frames (and polls) of what it is about stand."""
    words = {word for place in finding.places for word in place.split()}
    links = [link for link in site.links if {link.name, link.node, link.pod, site.name} & words]
    sources = {(Kind.FRAME, link.dpu) for link in links} | {(Kind.FRAME, word) for word in words}
    sources |= {(Kind.POLL, word) for word in words}
    for kind, source in sorted(sources, key=lambda each: (each[0].value, each[1])):
        rows = journal.rows(
            "SELECT count(*), min(leaf), max(leaf) FROM entry "
            "WHERE kind = ? AND source = ? AND recorded_ns BETWEEN ? AND ?",
            kind.value,
            source,
            finding.from_ns,
            finding.to_ns,
        )
        count, first, last = rows[0]
        if count:
            yield f"{count} of kind {kind.value} from {source}: leaves {first} to {last}"
