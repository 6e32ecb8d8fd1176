"""The cross-check: evidence of a site in, result out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from controller.crosscheck.cable import difference
from controller.crosscheck.case import Case
from controller.crosscheck.coverage import OFF_HOST, Stretches, covered, intersection, share
from controller.crosscheck.findings import (
    accusations,
    gap_findings,
    limit_findings,
    merged_directions,
    reset_findings,
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
    LimitResult,
    LinkEvidence,
    LinkResult,
    Period,
    SiteEvidence,
    Unknown,
    Verdict,
)
from controller.crosscheck.observed import Observed, observe
from controller.crosscheck.ports import undeclared, weigh_port
from controller.crosscheck.quantity import bounds
from controller.crosscheck.verdict import LinkFacts, link_verdict, site_verdict
from controller.crosscheck.weights import weigh
from controller.crosscheck.wording import name
from protos.reading import Observer, TrustDomain
from protos.units import format_duration


@dataclass(frozen=True, slots=True)
class CheckedLink:
    """One link and direction, with what the rest of the site needs from it."""

    result: LinkResult
    findings: tuple[Finding, ...]
    evidence_from_ns: int | None


def crosscheck(evidence: SiteEvidence) -> CrossCheck:
    """Test everything the observers of a site say about a period against each other and against the limits.

    1. Each link and direction by itself (:func:`check_link`).
    2. Each switch port: bytes on one that no one declared are an undeclared path.
    3. Each known weight that was sent within the period: every observer must show it.
    4. The start of evidence: from when on all links have off-host evidence; windows are clipped to it.
    5. The site's verdict by the table of :mod:`controller.crosscheck.verdict`.

    Pure: no clock, no file, no socket; the same evidence gives the same result.
    """
    period = evidence.period
    checked = [check_link(link, evidence) for link in evidence.links]
    ports = tuple(weigh_port(port, period) for port in evidence.ports)
    port_findings = [
        replace(found, from_ns=period.from_ns, to_ns=period.to_ns)
        for found in (undeclared(port) for port in ports)
        if found is not None
    ]
    starts = [one.evidence_from_ns for one in checked if one.evidence_from_ns is not None]
    verdict = site_verdict(
        [one.result.verdict for one in checked],
        bytes_on_undeclared_port=any(found.certain for found in port_findings),
        ports_clean=not port_findings,
    )
    findings = [*port_findings, *(found for one in checked for found in one.findings)]
    return CrossCheck(
        site=evidence.site,
        period=period,
        evidence_from_ns=max(starts, default=None),
        assumptions=evidence.assumptions,
        links=tuple(one.result for one in checked),
        ports=ports,
        findings=tuple(sorted(merged_directions(findings), key=lambda found: not found.certain)),
        verdict=verdict,
        known_weights=tuple(_weights(evidence)),
    )


def check_link(evidence: LinkEvidence, site: SiteEvidence) -> CheckedLink:
    """Cross-check one link and direction.

    1. What each observer's readings prove: envelopes over all its epochs, in one framing; an observer that
       contradicts itself proves nothing and says so.
    2. Each observer's certain interval of bytes in the period, and the interval that holds with f liars.
    3. Every law over all start and end times; broken ones accuse (:func:`findings.accusations`).
    4. Every limit over all sliding windows from the start of evidence on.
    5. Coverage, gaps with who was not looking, counter epochs.
    6. The verdict by its table, and what would decide it if it is inconclusive.
    """
    period, assumptions = site.period, site.assumptions
    case = Case.of(evidence, assumptions, period)
    seen = case.seen
    intervals = {observer: ByteInterval(*bounds(one.bytes, 0, case.length)) for observer, one in seen.items()}
    laws = tuple(judge(law, case) for law in LAWS[evidence.direction])
    looked = {observer: _looked(one, assumptions) for observer, one in seen.items()}
    evidence_from = _evidence_from(seen, period)
    start = max(period.from_ns, evidence_from or period.from_ns)
    limits = tuple(judge_limit(limit, case, start) for limit in evidence.limits)
    both = _covered_by_all(looked, evidence.tracks)
    coverage = share(both, period.from_ns, period.to_ns)
    facts = LinkFacts(
        limit_exceeded=any(limit.holds is Holds.NO for limit in limits),
        law_broken=any(law.holds is Holds.NO for law in laws),
        limits_kept=all(limit.holds is Holds.YES for limit in limits),
        laws_tested=all(law.unknown_because in (None, Unknown.BY_DESIGN) for law in laws),
        consistent=not any(one.problems for one in seen.values()),
        covered=coverage >= assumptions.required_coverage,
        inventory_checked=site.inventory_checked,
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
    found = [
        *accusations(case, laws),
        *limit_findings(evidence, limits),
        *gap_findings(case, looked),
        *reset_findings(case),
    ]
    return CheckedLink(result, tuple(found), evidence_from)


def _looked(one: Observed, assumptions: Assumptions) -> Stretches:
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


def _evidence_from(seen: Mapping[Observer, Observed], period: Period) -> int | None:
    """Return from when on all off-host observers have evidence; None if one of them never has."""
    firsts = [one.counted.first_latest for observer, one in seen.items() if observer in OFF_HOST]
    if not firsts or None in firsts:
        return None
    latest = max(first for first in firsts if first is not None) + period.from_ns
    return min(max(latest, period.from_ns), period.to_ns)


def _on_the_cable(intervals: Mapping[Observer, ByteInterval], case: Case) -> dict[TrustDomain, ByteInterval]:
    """Return what each domain says passed the cable: the tightest of what its observers say."""
    domains: dict[TrustDomain, ByteInterval] = {}
    for observer, interval in intervals.items():
        apart = difference(observer, case, case.length)
        lower = 0 if apart.below is None else max(0, interval.lower - apart.below)
        upper = None if apart.above is None or interval.upper is None else interval.upper + apart.above
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
    open_points += [limit.text for limit in limits if limit.holds is Holds.UNKNOWN]
    open_points += [
        f"law '{law.law}': {law.text}" for law in laws if law.unknown_because not in (None, Unknown.BY_DESIGN)
    ]
    if not facts.covered:
        required, largest_gap = case.assumptions.required_coverage, case.assumptions.largest_gap_ns
        open_points.append(
            f"DPU and switch together covered {100 * coverage:.1f} % of the period, {100 * required:g} % are required; "
            f"readings no further apart than {format_duration(largest_gap)} would decide it"
        )
    if not facts.inventory_checked:
        open_points.append(
            "the switch's ports were not compared with the site file; a poll of all its ports would decide it"
        )
    return tuple(open_points)


def _weights(evidence: SiteEvidence) -> Iterable[tuple[KnownWeight, bool, str]]:
    for weight in evidence.known_weights:
        if weight.to_ns <= evidence.period.from_ns or weight.from_ns > evidence.period.to_ns:
            continue
        tracks = next(
            (link.tracks for link in evidence.links if (link.link, link.direction) == (weight.link, weight.direction)),
            {},
        )
        seen = {observer: observe(track, evidence.period.from_ns) for observer, track in tracks.items()}
        yield weight, *weigh(weight, seen)
