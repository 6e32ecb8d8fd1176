"""Each finding in one short sentence with its numbers; the cross-check's own text says the same at length."""

from __future__ import annotations

from controller.crosscheck.model import Finding, FindingKind, Holds, LimitResult, LinkResult
from controller.report import words
from protos.reading import Observer

OF_OBSERVERS = frozenset(
    {FindingKind.HOST_UNDER_REPORTS, FindingKind.HOST_OVER_REPORTS, FindingKind.OBSERVERS_DISAGREE}
)
OF_LIMITS = frozenset({FindingKind.LIMIT_EXCEEDED, FindingKind.LIMIT_POSSIBLY_EXCEEDED})


def where(finding: Finding) -> str:
    """Return the place of a finding: a link or a node with its direction, or a port of a switch."""
    named = finding.link or (finding.node if finding.switch is None else None)
    if named is not None:
        direction = f" {finding.direction.value}" if finding.direction else ""
        return f"{words.shown(named)}{direction}"
    place = [f"port {words.shown(finding.port)}" if finding.port else "", words.shown(finding.switch or "")]
    return " of ".join(part for part in place if part)


def story(finding: Finding, link: LinkResult | None) -> str:
    """Return the finding in one short sentence with its numbers; the cross-check's own, longer text follows it."""
    if finding.kind is FindingKind.UNDECLARED_PORT:
        moved = finding.bytes_at_least or 0
        what = f"carried at least {words.floor_bytes(moved)}" if moved else "may be in use; no bytes are certain"
        place = where(finding)
        return f"{place[:1].upper()}{place[1:]} is not in the site file and {what}."
    if link is None:
        return ""
    if finding.kind in OF_LIMITS:
        return " ".join(_limit_story(limit) for limit in link.limits if limit.holds is not Holds.YES)
    if finding.kind in OF_OBSERVERS:
        return _observers_story(finding, link)
    return ""


def _limit_story(limit: LimitResult) -> str:
    length, allowed = words.lasting(limit.limit.window_ns), words.declared_bytes(limit.limit.bytes)
    if limit.holds is Holds.NO:
        least = limit.worst_at_least_bytes
        over = words.excess(least, limit.limit.bytes, f"the agreed {allowed}")
        return f"Some {length} held at least {words.floor_bytes(least)}, {over}."
    if limit.worst_at_most_bytes is None:
        most = "nothing bounds the fullest window"
    else:
        most = f"the fullest {length} can have held {words.ceil_bytes(limit.worst_at_most_bytes)}"
    return f"It is not proven that every {length} kept within {allowed}: {most}."


def _observers_story(finding: Finding, link: LinkResult) -> str:
    host, port = link.observers.get(Observer.HOST), link.observers.get(Observer.DPU_HOST_PORT)
    if host is None or port is None or finding.kind is FindingKind.OBSERVERS_DISAGREE:
        return ""
    verb = "received from it" if finding.kind is FindingKind.HOST_UNDER_REPORTS else "delivered to it"
    claims, counted = words.between(host.lower, host.upper), words.between(port.lower, port.upper)
    return f"The host claims {claims}; its DPU {verb} {counted}."
