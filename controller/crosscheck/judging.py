"""One law judged over a period: kept, broken for certain, or unknown, with the sentence that says why."""

from __future__ import annotations

from collections.abc import Mapping

from controller.crosscheck.breach import greatest_breach
from controller.crosscheck.case import Case
from controller.crosscheck.hidden import tested
from controller.crosscheck.laws import Law, frames_needed, sides
from controller.crosscheck.margins import margins
from controller.crosscheck.model import Holds, LawResult, Unknown
from controller.crosscheck.observed import Observed
from controller.crosscheck.wording import at_least, at_most, name, share_at_least, stretch
from protos.reading import Observer


def judge(law: Law, case: Case) -> LawResult:
    """Test one law over a period.

    1. An observer that is not part of the site, or a drop counter that is not there, makes it untestable by design;
       an observer without evidence, or one that contradicts itself, makes it unknown.
    2. The greatest breach in the period, if any, is the proof that it is broken; its margin says how far every time
       would have to be wrong for it to dissolve.
    3. Otherwise it is kept if it was tested over at least the required coverage of the period.
    """
    seen = case.seen
    missing = _untestable(law, seen)
    if missing is not None:
        because, text = missing
        return LawResult(law.name, Holds.UNKNOWN, 0, "", None, text, because)
    left, right = seen[law.left], seen[law.right]
    concrete = sides(law, seen, case.assumptions)
    span = tested(concrete, (left, right), 0, case.length)
    breach = greatest_breach(concrete, 0, case.length)
    if breach is not None:
        start, end = breach.from_ns + case.origin, breach.to_ns + case.origin
        text = (
            f"{name(law.left)} certainly counted at least {at_least(breach.gap)} more than {name(law.right)} can have "
            f"counted and the allowances explain, {stretch(start, end)}"
        )
        margin_ns, margin = margins(law, case)
        return LawResult(law.name, Holds.NO, breach.gap, margin, margin_ns, text, None, span.hidden, start, end)
    share = span.ns / max(1, case.length)
    if share >= case.assumptions.required_coverage and span.hidden is not None:
        text = f"kept; at most {at_most(span.hidden)} could be missing from it unnoticed"
        return LawResult(law.name, Holds.YES, 0, "", None, text, None, span.hidden)
    text = (
        f"not broken where it could be tested, but {name(law.left)} and {name(law.right)} together gave evidence for "
        f"{share_at_least(share)} of the period"
    )
    return LawResult(law.name, Holds.UNKNOWN, 0, "", None, text, Unknown.MISSING_EVIDENCE, span.hidden)


def _untestable(law: Law, seen: Mapping[Observer, Observed]) -> tuple[Unknown, str] | None:
    """Return why a law cannot be tested at all, None if it can."""
    for observer in (law.left, law.right, *law.drops_at):
        if observer not in seen:
            return Unknown.BY_DESIGN, f"untestable: {name(observer)} is not part of the site"
    for place in law.drops_at:
        if not seen[place].drops:
            return Unknown.BY_DESIGN, f"untestable: {name(place)} has no counter of what was dropped"
    for observer in (law.left, law.right):
        one = seen[observer]
        if one.problems and not one.usable:
            return Unknown.CONTRADICTION, f"unknown: {name(observer)} contradicts itself: {one.problems[0]}"
        if not one.usable:
            return Unknown.MISSING_EVIDENCE, f"unknown: {name(observer)} gave no readings"
    if frames_needed(seen[law.left], seen[law.right]):
        text = f"untestable: {name(law.left)} counts no frames, and {name(law.right)} leaves out a part of each"
        return Unknown.BY_DESIGN, text
    return None
