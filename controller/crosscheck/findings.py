"""Findings about one link and direction: who is accused, which limits broke, what was not seen, what restarted."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from controller.crosscheck.case import Case
from controller.crosscheck.coverage import Stretches, gap_text, gaps, why
from controller.crosscheck.laws import LAWS, Law
from controller.crosscheck.liars import DOMAIN_NAMES, UNDECIDABLE, Conflict, explanations, host_alone, told
from controller.crosscheck.model import Finding, FindingKind, Holds, LawResult, LimitResult, LinkEvidence
from controller.crosscheck.quantity import bounds
from controller.crosscheck.wording import moment, name, size
from protos.reading import Direction, Observer, TrustDomain


def accusations(case: Case, laws: Sequence[LawResult]) -> list[Finding]:
    """Return what the broken laws say about who is wrong.

    1. Each broken law is a conflict between its trust domains.
    2. DPU and switch each against the host, and not against each other: the host is named.
    3. Anything else names nobody: every smallest explanation is given, and separately what follows if nobody
       reports more than there was.
    """
    evidence, liars = case.evidence, case.assumptions.liars
    by_name = {law.name: law for law in LAWS[evidence.direction]}
    broken = [(by_name[result.law], result) for result in laws if result.holds is Holds.NO]
    if not broken:
        return []
    conflicts: list[Conflict] = [law.domains for law, _ in broken]
    sets = explanations({observer.trust_domain for observer in case.seen}, conflicts)
    if host_alone(conflicts):
        under = evidence.direction is Direction.EGRESS
        kind = FindingKind.HOST_UNDER_REPORTS if under else FindingKind.HOST_OVER_REPORTS
        worst = max((result for _, result in broken), key=lambda result: result.gap_at_least_bytes)
        what = "sent at least {} more than it reports" if under else "reports at least {} more than it received"
        text = (
            f"the host of {evidence.link} {what.format(size(worst.gap_at_least_bytes))}: DPU and switch each saw it, "
            f"and agree with each other. {worst.text[0].upper()}{worst.text[1:]}. Other explanations: "
            f"{told([found for found in sets if found != frozenset({TrustDomain.HOST})], liars)}; "
            f"{UNDECIDABLE}"
        )
    else:
        kind = FindingKind.OBSERVERS_DISAGREE
        worst = max((result for _, result in broken), key=lambda result: result.gap_at_least_bytes)
        named = "; ".join(
            f"'{law.name}' is broken by at least {size(result.gap_at_least_bytes)}" for law, result in broken
        )
        text = f"the observers of {evidence.link} disagree: {named}. Either {told(sets, liars)}. "
        text += _under(broken)
    return [
        Finding(
            kind=kind,
            certain=True,
            text=text,
            link=evidence.link,
            direction=evidence.direction,
            bytes_at_least=worst.gap_at_least_bytes,
            from_ns=worst.from_ns,
            to_ns=worst.to_ns,
            margin=worst.margin,
        )
    ]


def _under(broken: Sequence[tuple[Law, LawResult]]) -> str:
    """Return what follows if nobody reports more than there was: the right side of each broken law reports less."""
    less = {law.right.trust_domain for law, _ in broken}
    names = " and ".join(DOMAIN_NAMES[domain] for domain in sorted(less, key=lambda domain: domain.value))
    return f"If nobody reports more than there was, {names} {'reports' if len(less) == 1 else 'report'} less"


def limit_findings(evidence: LinkEvidence, results: Iterable[LimitResult]) -> list[Finding]:
    """Return a finding for each limit that is exceeded, or not proven kept."""
    found = []
    for result in results:
        if result.holds is Holds.YES:
            continue
        certain = result.holds is Holds.NO
        from_ns = result.worst_from_ns if certain else None
        found.append(
            Finding(
                kind=FindingKind.LIMIT_EXCEEDED if certain else FindingKind.LIMIT_POSSIBLY_EXCEEDED,
                certain=certain,
                text=f"{evidence.link} {evidence.direction.value}: {result.text}",
                link=evidence.link,
                direction=evidence.direction,
                bytes_at_least=max(0, result.worst_at_least_bytes - result.limit.bytes) if certain else None,
                from_ns=from_ns,
                to_ns=None if from_ns is None else from_ns + result.limit.window_ns,
            )
        )
    return found


def gap_findings(case: Case, looked: Mapping[Observer, Stretches]) -> list[Finding]:
    """Return a finding for each stretch longer than the largest gap in which an observer was not looking.

    Each says who was not looking and the most that can have passed, from what the observer showed before and after
    or from its line rate.
    """
    found = []
    evidence = case.evidence
    for observer, stretches in looked.items():
        for gap in gaps(stretches, case.period.from_ns, case.period.to_ns):
            if gap[1] - gap[0] <= case.assumptions.largest_gap_ns:
                continue
            one = case.seen[observer]
            most = bounds(one.bytes, gap[0] - case.origin, gap[1] - case.origin)[1] if one.usable else None
            passed = "what passed is not bounded" if most is None else f"at most {size(most)} passed"
            reason = why(one.track.looked, gap)
            if not one.usable and one.problems:
                reason = one.problems[0]
            text = gap_text(observer, evidence.link, gap, reason, passed)
            found.append(
                Finding(
                    FindingKind.COVERAGE_GAP,
                    certain=False,
                    text=text,
                    link=evidence.link,
                    direction=evidence.direction,
                    from_ns=gap[0],
                    to_ns=gap[1],
                )
            )
    return found


def reset_findings(case: Case) -> list[Finding]:
    """Return a finding for each counter epoch that began within the period."""
    found = []
    evidence, period = case.evidence, case.period
    for observer, one in case.seen.items():
        firsts: dict[int, tuple[int, int]] = {}
        for reading in one.track.readings:
            known = firsts.get(reading.epoch)
            if known is None or reading.latest_ns < known[1]:
                firsts[reading.epoch] = (reading.earliest_ns, reading.latest_ns)
        for epoch in sorted(firsts)[1:]:
            began = firsts[epoch][1]
            if not period.from_ns < began <= period.to_ns:
                continue
            reason = one.track.epoch_reasons.get(epoch, "no reason recorded")
            text = f"{name(observer)} of {evidence.link} began counter epoch {epoch} by {moment(began)}: {reason}"
            found.append(
                Finding(
                    FindingKind.COUNTER_RESET,
                    certain=False,
                    text=text,
                    link=evidence.link,
                    direction=evidence.direction,
                    from_ns=firsts[epoch][0],
                    to_ns=began,
                )
            )
    return found


def merged_directions(found: Iterable[Finding]) -> list[Finding]:
    """Return the findings with those that say the same about both directions of a link made one."""
    kept: dict[tuple[object, ...], Finding] = {}
    for finding in found:
        key = (finding.kind, finding.link, finding.text, finding.from_ns, finding.to_ns)
        if finding.kind in (FindingKind.COVERAGE_GAP, FindingKind.COUNTER_RESET) and key in kept:
            kept[key] = replace(kept[key], direction=None)
        else:
            kept[key if finding.direction is None or key not in kept else (*key, finding.direction)] = finding
    return list(kept.values())
