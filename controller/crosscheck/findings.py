"""Findings about one link and direction: who is accused, which limits broke, what was not seen, what restarted."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from controller.crosscheck.case import Case
from controller.crosscheck.columns import columns
from controller.crosscheck.coverage import UNEXPLAINED, Stretches, gaps, why
from controller.crosscheck.laws import LAWS, Law
from controller.crosscheck.liars import DOMAIN_NAMES, UNDECIDABLE, Conflict, explanations, host_alone, told
from controller.crosscheck.model import Finding, FindingKind, Holds, LawResult, LimitResult
from controller.crosscheck.observed import Observed
from controller.crosscheck.quantity import bounds
from controller.crosscheck.wording import at_least, at_most, moment, name, stretch
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
            f"the host of {evidence.link} {what.format(at_least(worst.gap_at_least_bytes))}: DPU and switch each saw "
            f"it, and agree with each other. {worst.text[0].upper()}{worst.text[1:]}. Other explanations: "
            f"{told([found for found in sets if found != frozenset({TrustDomain.HOST})], liars)}; "
            f"{UNDECIDABLE}"
        )
    else:
        kind = FindingKind.OBSERVERS_DISAGREE
        worst = max((result for _, result in broken), key=lambda result: result.gap_at_least_bytes)
        named = "; ".join(
            f"'{law.name}' is broken by at least {at_least(result.gap_at_least_bytes)}" for law, result in broken
        )
        text = f"the observers of {evidence.link} disagree: {named}. Either {told(sets, liars)}. "
        text += _under(broken)
    return [
        Finding(
            kind=kind,
            certain=True,
            text=text,
            link=evidence.link,
            node=evidence.node,
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


def limit_findings(cases: Sequence[Case], results: Iterable[LimitResult]) -> list[Finding]:
    """Return a finding for each limit of a node and direction that is exceeded, or not proven kept."""
    found = []
    evidence = cases[0].evidence
    alone = len(cases) == 1
    where = evidence.link if alone else f"{evidence.node} ({len(cases)} links)"
    for result in results:
        if result.holds is Holds.YES:
            continue
        certain = result.holds is Holds.NO
        from_ns = result.worst_from_ns if certain else None
        found.append(
            Finding(
                kind=FindingKind.LIMIT_EXCEEDED if certain else FindingKind.LIMIT_POSSIBLY_EXCEEDED,
                certain=certain,
                text=f"{where} {evidence.direction.value}: limit {result.text}",
                link=evidence.link if alone else None,
                node=evidence.node,
                direction=evidence.direction,
                bytes_at_least=max(0, result.worst_at_least_bytes - result.limit.bytes) if certain else None,
                from_ns=from_ns,
                to_ns=None if from_ns is None else from_ns + result.limit.window_ns,
            )
        )
    return found


@dataclass(frozen=True, slots=True)
class Gap:
    """A stretch in which an observer was not looking, and the most that passed in it.

    It is longer than the largest gap, or it is the whole period.
    """

    link: str
    node: str
    observer: Observer
    from_ns: int
    to_ns: int
    reason: str
    direction: Direction
    most: int | None


def unseen(case: Case, looked: Mapping[Observer, Stretches]) -> list[Gap]:
    """Return every gap of one link and direction.

    Each says who was not looking, and the most that can have passed, from what the observer showed before and after
    or from its line rate.
    """
    found = []
    for observer, stretches in looked.items():
        one = case.seen[observer]
        for start, end in gaps(stretches, case.period.from_ns, case.period.to_ns):
            whole = (start, end) == (case.period.from_ns, case.period.to_ns)
            if end - start <= case.assumptions.largest_gap_ns and not whole:
                continue
            most = bounds(one.bytes, start - case.origin, end - case.origin)[1] if one.usable else None
            reason = _why_unseen(one, start, end)
            link, node = case.evidence.link, case.evidence.node
            found.append(Gap(link, node, observer, start, end, reason, case.direction, most))
    return found


def _why_unseen(one: Observed, start: int, end: int) -> str:
    """Return why an observer gave no usable evidence in a stretch.

    1. It contradicts itself as a whole.
    2. Readings of the stretch belong to counter epochs that contradict themselves: who was not looking is then only a
       part of it, if anybody was not.
    3. Who was not looking, as recorded.
    """
    if not one.usable and one.problems:
        return one.problems[0]
    void = {wrong.epoch: str(wrong) for wrong in one.counted.contradictions}
    readings = columns(one.track.readings)
    met = readings.where((readings.latest > start) & (readings.earliest < end)).epochs if void else []
    told = [f"{name(one.observer)} contradicts itself: {void[epoch]}" for epoch in met if epoch in void]
    recorded = why(one.track.looked, (start, end))
    return "; ".join([*told, *([recorded] if recorded != UNEXPLAINED or not told else [])])


def gap_findings(found: Iterable[Gap]) -> list[Finding]:
    """Return a finding for each gap, both directions of a link together where both were unseen."""
    groups: dict[tuple[str, Observer, int, int, str], list[Gap]] = {}
    for gap in found:
        groups.setdefault((gap.link, gap.observer, gap.from_ns, gap.to_ns, gap.reason), []).append(gap)
    findings = []
    for (link, observer, start, end, reason), group in groups.items():
        passed = ", ".join(
            f"{gap.direction.value}: " + ("not bounded" if gap.most is None else f"at most {at_most(gap.most)}")
            for gap in group
        )
        text = f"{name(observer)} of {link} gave no usable evidence {stretch(start, end)}: {reason}; passed, {passed}"
        findings.append(
            Finding(
                FindingKind.COVERAGE_GAP,
                certain=False,
                text=text,
                link=link,
                node=group[0].node,
                direction=group[0].direction if len(group) == 1 else None,
                from_ns=start,
                to_ns=end,
            )
        )
    return findings


def reset_findings(case: Case) -> list[Finding]:
    """Return a finding for each counter epoch that began within the period."""
    found = []
    evidence, period = case.evidence, case.period
    for observer, one in case.seen.items():
        readings = columns(one.track.readings)
        for epoch in readings.epochs[1:]:
            own = readings.of_epoch(epoch)
            first = int(np.argmin(own.latest))
            since, began = int(own.earliest[first]), int(own.latest[first])
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
                    node=evidence.node,
                    direction=evidence.direction,
                    from_ns=since,
                    to_ns=began,
                )
            )
    return found


def merged_resets(found: Iterable[Finding]) -> list[Finding]:
    """Return findings about restarts with those that say the same about both directions of a link made one."""
    kept: dict[tuple[str | None, str], Finding] = {}
    for finding in found:
        key = (finding.link, finding.text)
        kept[key] = replace(kept[key], direction=None) if key in kept else finding
    return list(kept.values())
