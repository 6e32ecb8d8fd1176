"""Windows across a change of the site file: they lie in two parts of a period, and neither part alone tests them.

Where a limit of one window length was agreed before and after the change, every window across it was under one of the
two at each moment: it must keep the larger. That is tested for nodes whose links are the same in both; of others it is
said that it cannot be.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from controller.crosscheck.case import Case
from controller.crosscheck.check import evidence_from, grouped, under
from controller.crosscheck.findings import limit_findings
from controller.crosscheck.limits import judge_limit
from controller.crosscheck.model import (
    CrossCheck,
    Finding,
    Holds,
    Limit,
    LimitResult,
    LinkResult,
    SiteEvidence,
    Verdict,
)
from controller.crosscheck.wording import moment
from protos.reading import Direction


@dataclass(frozen=True, slots=True)
class Seam:
    """What the windows across a change at ``at_ns`` show of one node and direction.

    ``recabled``: its links are not the same before and after, so no window across the change can be tested.
    """

    at_ns: int
    node: str
    direction: Direction
    results: tuple[LimitResult, ...] = ()
    findings: tuple[Finding, ...] = ()
    recabled: bool = False

    @property
    def said(self) -> str:
        """What keeps the verdict open."""
        across = f"windows across the change of the site file at {moment(self.at_ns)}"
        if self.recabled:
            return f"{across}: the links of {self.node} are not the same before and after it, so none can be tested"
        return f"{across}: " + "; ".join(one.text for one in self.results if one.holds is Holds.UNKNOWN)


def common_limits(before: Iterable[Limit], after: Iterable[Limit]) -> tuple[Limit, ...]:
    """Return the limits that windows across a change have to keep: of each length agreed in both, the larger."""
    most: dict[int, int] = {}
    for limit in before:
        most[limit.window_ns] = max(limit.bytes, most.get(limit.window_ns, 0))
    return tuple(
        Limit(limit.window_ns, max(limit.bytes, most[limit.window_ns])) for limit in after if limit.window_ns in most
    )


def judge_seam(evidence: SiteEvidence, limits: Sequence[Limit], at_ns: int, same: Mapping[str, bool]) -> list[Seam]:
    """Judge the windows around a change.

    Args:
        evidence: around the change, as far as the longest window reaches on both sides.
        limits: what they have to keep.
        at_ns: when the site file changed.
        same: for each node whether its links are the same before and after.
    """
    found = []
    for group in grouped(evidence.links):
        links = [
            replace(evidence.links[index], limits=tuple(limits) if evidence.links[index].limits else ())
            for index in group
        ]
        node, direction = links[0].node, links[0].direction
        if not same.get(node, False):
            found.append(Seam(at_ns, node, direction, recabled=True))
            continue
        cases = [Case.of(link, evidence.assumptions, evidence.period) for link in links]
        starts = [start for start in map(evidence_from, cases) if start is not None]
        start = max(starts, default=evidence.period.from_ns)
        results = tuple(judge_limit(limit, under(limit, cases), start) for limit in limits if under(limit, cases))
        findings = tuple(
            replace(each, text=f"across the change of the site file at {moment(at_ns)}: {each.text}")
            for each in limit_findings(cases, results)
        )
        found.append(Seam(at_ns, node, direction, results, findings))
    return found


def joined(result: CrossCheck, seams: Sequence[Seam]) -> CrossCheck:
    """Return the result of the part after a change, with what the windows across it show.

    1. An excess makes the node's links a violation, and the site.
    2. What is not proven kept, or cannot be tested, leaves a compliant link open, and the site.
    """
    by_place = {(seam.node, seam.direction): seam for seam in seams}
    links = tuple(_with(link, by_place.get((link.node, link.direction))) for link in result.links)
    verdict = result.verdict
    if any(link.verdict is Verdict.VIOLATION for link in links):
        verdict = Verdict.VIOLATION
    elif verdict is Verdict.COMPLIANT and any(link.verdict is not Verdict.COMPLIANT for link in links):
        verdict = Verdict.INCONCLUSIVE
    findings = [*result.findings, *(finding for seam in seams for finding in seam.findings)]
    return replace(
        result, links=links, verdict=verdict, findings=tuple(sorted(findings, key=lambda each: not each.certain))
    )


def _with(link: LinkResult, seam: Seam | None) -> LinkResult:
    if seam is None:
        return link
    if any(one.holds is Holds.NO for one in seam.results):
        return replace(link, verdict=Verdict.VIOLATION, undecided=())
    if not seam.recabled and all(one.holds is Holds.YES for one in seam.results):
        return link
    if link.verdict is Verdict.VIOLATION:
        return link
    return replace(link, verdict=Verdict.INCONCLUSIVE, undecided=(*link.undecided, seam.said))
