"""A part of a result: one link, one pod, the limits of one window. What is left out is said, never silently dropped.

Laws and limits are judged before anything is left out: a limit is on the sum of all links of a node.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

from controller.crosscheck.model import CrossCheck, Finding, LinkResult, SiteEvidence, Verdict
from controller.errors import OperatorError
from protos.units import format_duration

MOST_NAMES = 20


@dataclass(frozen=True, slots=True)
class Selection:
    """What is asked for; empty or None: everything."""

    links: tuple[str, ...] = ()
    pods: tuple[str, ...] = ()
    window_ns: int | None = None

    @property
    def everything(self) -> bool:
        """Whether nothing is left out."""
        return not self.links and not self.pods and self.window_ns is None


def select(result: CrossCheck, wanted: Selection) -> CrossCheck:
    """Return what a result says about the links, pods and window asked for.

    1. The links asked for, and those of the pods asked for; the findings about them, their nodes and their ports.
    2. Of their limits, those of the window.
    3. The verdict of these links: the worst of them. What else the site's verdict rests on is named in ``scope``.

    Raises:
        OperatorError: there is no such link, pod or window.
    """
    if wanted.everything:
        return result
    _known("--link", wanted.links, {link.link for link in result.links})
    _known("--pod", wanted.pods, {link.pod for link in result.links} - {""})
    kept = [link for link in result.links if _asked(link, wanted)]
    if wanted.window_ns is not None:
        windows = {limit.limit.window_ns for link in kept for limit in link.limits}
        if wanted.window_ns not in windows:
            agreed = ", ".join(format_duration(one) for one in sorted(windows)) or "none"
            raise OperatorError(
                f"--window {format_duration(wanted.window_ns)}: no limit has that window. Agreed are: {agreed}."
            )
        kept = [_of_window(link, wanted.window_ns) for link in kept]
    left_out = len({link.link for link in result.links}) - len({link.link for link in kept})
    scope = [result.scope] if result.scope else []
    if wanted.links or wanted.pods:
        scope.append(
            f"the links asked for; {left_out} others and the switches' other ports are left out, with which the "
            f"verdict is {result.verdict.value}"
        )
    if wanted.window_ns is not None:
        scope.append(
            f"of the limits only those of {format_duration(wanted.window_ns)} are shown; the verdicts are of all"
        )
    return replace(
        result,
        links=tuple(kept),
        ports=() if wanted.links or wanted.pods else result.ports,
        findings=_about(result.findings, result, kept, wanted),
        known_weights=tuple(one for one in result.known_weights if one[0].link in {link.link for link in kept}),
        pairs=tuple(pair for pair in result.pairs if pair.node in {link.node for link in kept}),
        verdict=_worst([link.verdict for link in kept]) if wanted.links or wanted.pods else result.verdict,
        scope="; ".join(scope),
    )


def select_evidence(evidence: SiteEvidence, kept: CrossCheck) -> SiteEvidence:
    """Return the evidence of the links in ``kept``, for drawing it."""
    links = {link.link for link in kept.links}
    ports = {(port.switch, port.port) for port in kept.ports}
    return replace(
        evidence,
        links=tuple(link for link in evidence.links if link.link in links),
        ports=tuple(port for port in evidence.ports if (port.switch, port.port) in ports),
        scope=kept.scope,
    )


def _asked(link: LinkResult, wanted: Selection) -> bool:
    if not wanted.links and not wanted.pods:
        return True
    return link.link in wanted.links or link.pod in wanted.pods


def _of_window(link: LinkResult, window_ns: int) -> LinkResult:
    return replace(link, limits=tuple(limit for limit in link.limits if limit.limit.window_ns == window_ns))


def _about(
    findings: tuple[Finding, ...], result: CrossCheck, kept: Collection[LinkResult], wanted: Selection
) -> tuple[Finding, ...]:
    if not wanted.links and not wanted.pods:
        return findings
    links, nodes = {link.link for link in kept}, {link.node for link in kept}
    known = {link.link for link in result.links}
    return tuple(
        finding
        for finding in findings
        if (finding.link in links if finding.link in known else finding.node in nodes and finding.node is not None)
    )


def _known(option: str, names: Collection[str], known: Collection[str]) -> None:
    for name in names:
        if name not in known:
            listed = sorted(known)
            more = f" and {len(listed) - MOST_NAMES} more" if len(listed) > MOST_NAMES else ""
            there = ", ".join(listed[:MOST_NAMES]) or "none"
            raise OperatorError(f"{option} {name!r} is not in the result. There: {there}{more}.")


def _worst(verdicts: Collection[Verdict]) -> Verdict:
    for verdict in (Verdict.VIOLATION, Verdict.INCONCLUSIVE):
        if verdict in verdicts:
            return verdict
    return Verdict.COMPLIANT
