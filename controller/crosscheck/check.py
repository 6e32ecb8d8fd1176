"""The cross-check: evidence of a site in, result out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from controller.crosscheck.cable import difference, in_frames
from controller.crosscheck.case import Case
from controller.crosscheck.coverage import OFF_HOST, Stretches, covered, intersection, share
from controller.crosscheck.findings import (
    Gap,
    accusations,
    gap_findings,
    limit_findings,
    merged_resets,
    reset_findings,
    unseen,
)
from controller.crosscheck.judging import judge
from controller.crosscheck.laws import LAWS
from controller.crosscheck.liars import agreed
from controller.crosscheck.limits import judge_limit
from controller.crosscheck.model import (
    Assumptions,
    ByteInterval,
    CrossCheck,
    Finding,
    Holds,
    KnownWeight,
    LawResult,
    Limit,
    LimitResult,
    LinkEvidence,
    LinkResult,
    SiteEvidence,
    Unknown,
    Verdict,
)
from controller.crosscheck.observed import Observed, observe
from controller.crosscheck.ports import undeclared, weigh_port
from controller.crosscheck.quantity import bounds
from controller.crosscheck.sumjudging import sum_laws
from controller.crosscheck.sums import unaccounted
from controller.crosscheck.verdict import BROKEN, WIRING, LinkFacts, link_verdict, site_verdict
from controller.crosscheck.weights import Weighed, scale_off, weigh
from controller.crosscheck.wording import name, share_at_least
from protos.reading import Direction, Observer, TrustDomain
from protos.units import format_duration


@dataclass(frozen=True, slots=True)
class CheckedLink:
    """One link and direction, with what the rest of the site needs from it."""

    result: LinkResult
    accusations: tuple[Finding, ...]
    gaps: tuple[Gap, ...]
    resets: tuple[Finding, ...]
    evidence_from_ns: int | None


def crosscheck(evidence: SiteEvidence) -> CrossCheck:
    """Test everything the observers of a site say about a period against each other and against the limits.

    1. Node by node and direction by direction: each limit on the sum of the node's links, each link by itself
       (:func:`check_link`). Only one node's readings are worked on at a time.
    2. Each switch port: bytes on one that no one declared are an undeclared path.
    3. Each known weight that was sent within the period: every observer must show it, or the scale is off.
    4. Laws over the links of a switch, of a pod and between two nodes, and the sum of the hosts' claims: what went in
       and cannot be found again.
    5. The start of evidence: from when on all links have off-host evidence; windows are clipped to it.
    6. The site's verdict by the table of :mod:`controller.crosscheck.verdict`.

    Pure: no clock, no file, no socket; the same evidence gives the same result.
    """
    period = evidence.period
    checked: dict[int, CheckedLink] = {}
    found: list[Finding] = []
    for indices in grouped(evidence.links):
        cases = [Case.of(evidence.links[index], evidence.assumptions, period) for index in indices]
        starts = [start for start in (evidence_from(case) for case in cases) if start is not None]
        limits = tuple(
            judge_limit(limit, under(limit, cases), max(starts, default=period.from_ns)) for limit in _limits_of(cases)
        )
        found += limit_findings(cases, limits)
        for index, case in zip(indices, cases, strict=True):
            checked[index] = check_link(case, limits, inventory_checked=evidence.inventory_checked)
    in_order = [checked[index] for index in range(len(evidence.links))]
    ports = tuple(weigh_port(port, period) for port in evidence.ports)
    about_ports = [
        replace(finding, from_ns=period.from_ns, to_ns=period.to_ns)
        for finding in (undeclared(port) for port in ports)
        if finding is not None
    ]
    weights = list(_weights(evidence))
    sums = tuple(sum_laws(evidence))
    off = [finding for finding in (scale_off(*one) for one in weights) if finding is not None]
    verdict = site_verdict(
        [one.result.verdict for one in in_order],
        bytes_on_undeclared_port=any(finding.certain for finding in about_ports),
        agreement_broken=any(each.certain and each.kind in BROKEN for each in evidence.about_meters),
        ports_clean=not about_ports and not any(each.kind in WIRING for each in evidence.about_switches),
        scale_right=not off,
    )
    findings = [
        *about_ports,
        *off,
        *(finding for one in in_order for finding in one.accusations),
        *found,
        *evidence.about_switches,
        *evidence.about_meters,
        *unaccounted(evidence, [one.result for one in in_order], sums),
        *gap_findings(gap for one in in_order for gap in one.gaps),
        *merged_resets(finding for one in in_order for finding in one.resets),
    ]
    return CrossCheck(
        site=evidence.site,
        period=period,
        evidence_from_ns=max(
            (one.evidence_from_ns for one in in_order if one.evidence_from_ns is not None), default=None
        ),
        assumptions=evidence.assumptions,
        links=tuple(one.result for one in in_order),
        ports=ports,
        findings=tuple(sorted(findings, key=lambda finding: not finding.certain)),
        verdict=verdict,
        known_weights=tuple((weight, weighed.shown, weighed.text) for weight, weighed in weights),
        scope=evidence.scope,
        pairs=evidence.pairs,
        sums=sums,
        agreements=evidence.agreements,
    )


def grouped(links: Sequence[LinkEvidence]) -> list[list[int]]:
    """Return the indices of the links of each node and direction."""
    groups: dict[tuple[str, Direction], list[int]] = {}
    for index, link in enumerate(links):
        groups.setdefault((link.node, link.direction), []).append(index)
    return list(groups.values())


def _limits_of(cases: Sequence[Case]) -> list[Limit]:
    return list(dict.fromkeys(limit for case in cases for limit in case.evidence.limits))


def under(limit: Limit, cases: Sequence[Case]) -> list[Case]:
    """Return what a limit sums: a bond stands for its cables, which have no limit of their own."""
    return [case for case in cases if limit in case.evidence.limits]


def check_link(case: Case, limits: tuple[LimitResult, ...], *, inventory_checked: bool) -> CheckedLink:
    """Cross-check one link and direction.

    1. Each observer's certain interval of bytes in the period, and the interval that holds with f liars.
    2. Every law over all start and end times; broken ones accuse (:func:`findings.accusations`).
    3. Coverage, gaps with who was not looking, counter epochs.
    4. The verdict by its table, with the limits of the link's node, and what would decide it if it is inconclusive.
    """
    evidence, period, assumptions, seen = case.evidence, case.period, case.assumptions, case.seen
    intervals = {observer: ByteInterval(*bounds(one.bytes, 0, case.length)) for observer, one in seen.items()}
    laws = tuple(judge(law, case) for law in LAWS[evidence.direction])
    looked = {observer: _looked(one, assumptions) for observer, one in seen.items()}
    both = _covered_by_all(looked, evidence.tracks)
    coverage = share(both, period.from_ns, period.to_ns)
    facts = LinkFacts(
        limit_exceeded=any(limit.holds is Holds.NO for limit in limits),
        law_broken=any(law.holds is Holds.NO for law in laws),
        limits_agreed=bool(limits),
        limits_kept=all(limit.holds is Holds.YES for limit in limits),
        laws_tested=all(law.unknown_because in (None, Unknown.BY_DESIGN) for law in laws),
        consistent=not any(one.problems for one in seen.values()),
        covered=coverage >= assumptions.required_coverage,
        inventory_checked=inventory_checked,
    )
    verdict = link_verdict(facts)
    result = LinkResult(
        link=evidence.link,
        node=evidence.node,
        pod=evidence.pod,
        direction=evidence.direction,
        verdict=verdict,
        coverage=coverage,
        hidden_bytes_bound=_hidden(laws),
        observers=intervals,
        laws=laws,
        limits=limits,
        undecided=_undecided(case, facts, laws, limits, coverage) if verdict is Verdict.INCONCLUSIVE else (),
        agreed=agreed(_on_the_cable(intervals, case), assumptions.liars),
        epochs={observer: one.counted.epoch_count for observer, one in seen.items()},
    )
    return CheckedLink(
        result=result,
        accusations=tuple(accusations(case, laws)),
        gaps=tuple(unseen(case, looked)),
        resets=tuple(reset_findings(case)),
        evidence_from_ns=evidence_from(case),
    )


def _looked(one: Observed, assumptions: Assumptions) -> Stretches:
    if not one.usable:
        return ()
    void = frozenset(wrong.epoch for wrong in one.counted.contradictions)
    return covered(one.track, void, assumptions.largest_gap_ns)


def _covered_by_all(looked: Mapping[Observer, Stretches], tracks: Mapping[Observer, object]) -> Stretches:
    """Return when the DPU's ports and the switch were all looking; the DPU may have only one port in the site."""
    dpu = [observer for observer in tracks if observer.trust_domain is TrustDomain.DPU]
    if not dpu or Observer.SWITCH not in tracks:
        return ()
    both = looked[Observer.SWITCH]
    for observer in dpu:
        both = intersection(both, looked[observer])
    return both


def evidence_from(case: Case) -> int | None:
    """Return from when on all off-host observers have evidence; None if one of them never has."""
    firsts = [one.counted.first_latest for observer, one in case.seen.items() if observer in OFF_HOST]
    if not firsts or None in firsts:
        return None
    latest = max(first for first in firsts if first is not None) + case.origin
    return min(max(latest, case.period.from_ns), case.period.to_ns)


def _on_the_cable(intervals: Mapping[Observer, ByteInterval], case: Case) -> dict[TrustDomain, ByteInterval]:
    """Return what each domain says passed the cable: the tightest of what its observers say."""
    domains: dict[TrustDomain, ByteInterval] = {}
    for observer, interval in intervals.items():
        apart = difference(observer, case, case.length)
        lower = 0 if apart.below is None else max(0, interval.lower - apart.below)
        framed = in_frames(case.seen[observer])
        most = None if framed is None else bounds(framed, 0, case.length)[1]
        upper = None if apart.above is None or most is None else most + apart.above
        known = domains.get(observer.trust_domain, ByteInterval(0, None))
        uppers = [one for one in (upper, known.upper) if one is not None]
        domains[observer.trust_domain] = ByteInterval(max(lower, known.lower), min(uppers, default=None))
    return domains


def _hidden(laws: Iterable[LawResult]) -> int | None:
    """Return the most bytes that could be missing from any tested law; None if none was tested."""
    return max((law.hidden_bytes_bound for law in laws if law.hidden_bytes_bound is not None), default=None)


def _undecided(
    case: Case, facts: LinkFacts, laws: Sequence[LawResult], limits: Sequence[LimitResult], coverage: float
) -> tuple[str, ...]:
    """Return what keeps the verdict open, each with what would decide it."""
    open_points = []
    for one in case.seen.values():
        open_points += [f"{name(one.observer)} contradicts itself: {problem}" for problem in one.problems]
    if not facts.limits_agreed:
        open_points.append("no limit is agreed, so none can be proven kept; `limits` in the site file would name one")
    open_points += [limit.text for limit in limits if limit.holds is Holds.UNKNOWN]
    open_points += [
        f"law '{law.law}': {law.text}" for law in laws if law.unknown_because not in (None, Unknown.BY_DESIGN)
    ]
    if not facts.covered:
        required, largest_gap = case.assumptions.required_coverage, case.assumptions.largest_gap_ns
        open_points.append(
            f"DPU and switch together covered {share_at_least(coverage)} of the period, {100 * required:g} % are "
            f"required; readings no further apart than {format_duration(largest_gap)} would decide it"
        )
    if not facts.inventory_checked:
        open_points.append(
            "the switch's ports were not compared with the site file; a poll of all its ports would decide it"
        )
    return tuple(open_points)


def _weights(evidence: SiteEvidence) -> Iterable[tuple[KnownWeight, Weighed]]:
    for weight in evidence.known_weights:
        if weight.to_ns <= evidence.period.from_ns or weight.from_ns > evidence.period.to_ns:
            continue
        tracks = next(
            (link.tracks for link in evidence.links if (link.link, link.direction) == (weight.link, weight.direction)),
            {},
        )
        seen = {observer: observe(track, evidence.period.from_ns) for observer, track in tracks.items()}
        yield weight, weigh(weight, seen)
