"""Every finding as a card: what was seen, by whom, how many bytes at least, when, and its margin."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from controller.crosscheck.json_form import finding_id
from controller.crosscheck.model import CrossCheck, Finding, FindingKind, Holds, LinkResult
from controller.report import stories, words
from controller.report.rows import Row
from controller.report.sentences import KINDS, VIOLATING, ordered
from protos.reading import TrustDomain

MOST_OPEN = 8
"""Cards of one kind that stand open; the rest wait folded."""
_AS_CARD = VIOLATING | {FindingKind.LIMIT_POSSIBLY_EXCEEDED, FindingKind.SCALE_OFF, FindingKind.BYTES_UNACCOUNTED}
_DOMAIN_WORDS = {
    TrustDomain.HOST: "the host's own claim",
    TrustDomain.DPU: "the DPU",
    TrustDomain.SWITCH: "the switch",
}
_AT_LEAST = {
    FindingKind.LIMIT_EXCEEDED: "Over by at least",
    FindingKind.HOST_UNDER_REPORTS: "Missing at least",
    FindingKind.HOST_OVER_REPORTS: "Too much by at least",
    FindingKind.OBSERVERS_DISAGREE: "Apart by at least",
    FindingKind.UNDECLARED_PORT: "Carried at least",
    FindingKind.SCALE_OFF: "Short by at least",
    FindingKind.BYTES_UNACCOUNTED: "Missing at least",
}
"""What a finding's bytes are: the least that is certain, of each kind something else."""


@dataclass(frozen=True, slots=True)
class Card:
    """A finding that convicts, or could."""

    id: str
    kind: str
    certain: bool
    where: str
    story: str
    text: str
    at_least_label: str
    at_least: str
    at_least_exact: str
    when: str
    proven_by: str
    margin: str
    row: Row | None
    show: str
    """``observers`` or ``limits`` of the row stand in the card as bars; empty: neither."""


@dataclass(frozen=True, slots=True)
class Group:
    """All cards of one kind: what they mean is said once."""

    kind: str
    title: str
    by_whom: str
    meaning: str
    cards: Sequence[Card]
    more: Sequence[Card]


def groups(result: CrossCheck, rows: Sequence[Row]) -> list[Group]:
    """Return the findings that convict, or could, by kind, the gravest first."""
    row_of = {(row.link, row.direction): row for row in rows}
    of_kind: dict[FindingKind, list[Card]] = {}
    for finding in ordered(result.findings):
        if finding.kind in _AS_CARD:
            of_kind.setdefault(finding.kind, []).append(_card(finding, result, row_of.get(_row_key(finding))))
    return [
        Group(
            kind=kind.value,
            title=KINDS[kind].title,
            by_whom=KINDS[kind].by_whom,
            meaning=KINDS[kind].meaning,
            cards=_by_place(cards[:MOST_OPEN]),
            more=cards[MOST_OPEN:],
        )
        for kind, cards in of_kind.items()
    ]


def _by_place(cards: list[Card]) -> list[Card]:
    return sorted(cards, key=lambda card: words.natural(card.where))


def _row_key(finding: Finding) -> tuple[str, str]:
    return words.shown(finding.link or ""), finding.direction.value if finding.direction else ""


def _when(finding: Finding, result: CrossCheck) -> str:
    if finding.from_ns is None and finding.to_ns is None:
        return ""
    day = result.period.from_ns
    if finding.from_ns is None or finding.to_ns is None:
        only = finding.from_ns if finding.to_ns is None else finding.to_ns
        return f"{words.when(only or 0, day)} UTC"
    return words.span(finding.from_ns, finding.to_ns, day)


def _card(finding: Finding, result: CrossCheck, row: Row | None) -> Card:
    place = (finding.link, finding.direction)
    link = next((link for link in result.links if (link.link, link.direction) == place), None)
    show = (
        "observers" if finding.kind in stories.OF_OBSERVERS else ("limits" if finding.kind in stories.OF_LIMITS else "")
    )
    at_least = finding.bytes_at_least
    return Card(
        id=finding_id(finding),
        kind=finding.kind.value,
        certain=finding.certain,
        where=stories.where(finding),
        story=stories.story(finding, link),
        text=words.shown(finding.text),
        at_least_label=_AT_LEAST.get(finding.kind, "At least"),
        at_least=words.floor_bytes(at_least) if at_least is not None else "",
        at_least_exact=words.exact(at_least) if at_least is not None else "",
        when=_when(finding, result),
        proven_by=_proven_by(finding, link),
        margin=words.shown(finding.margin),
        row=row if show else None,
        show=show if row is not None else "",
    )


def _proven_by(finding: Finding, link: LinkResult | None) -> str:
    """Return whose own evidence proves an exceeded limit."""
    if finding.kind is not FindingKind.LIMIT_EXCEEDED or link is None:
        return ""
    domains = dict.fromkeys(d for limit in link.limits if limit.holds is Holds.NO for d in limit.exceeded_by)
    return words.listed([_DOMAIN_WORDS[domain] for domain in domains]) if domains else ""
