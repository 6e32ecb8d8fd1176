"""What both drawings of a site share: its cables in order, the sign of a verdict, a name that fits its place."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from controller.crosscheck.model import LinkEvidence, Verdict
from controller.report import words
from controller.report.svg import tag
from protos.reading import Direction

WORST_FIRST = (Verdict.VIOLATION, Verdict.INCONCLUSIVE, Verdict.COMPLIANT)

Verdicts = dict[tuple[str, Direction], Verdict]
"""The verdict of each link and direction."""


@dataclass(frozen=True, slots=True)
class Cable:
    """One physical link, both directions."""

    link: str
    node: str
    pod: str
    dpu: str
    switch: str
    port: str


def worst(verdicts: Sequence[Verdict]) -> Verdict:
    """Return the gravest of some verdicts; a violation outranks what could not be decided."""
    return next(verdict for verdict in WORST_FIRST if verdict in verdicts)


def sign(verdict: Verdict, x: float, y: float, size: float = 18) -> Markup:
    """Return the verdict's sign, centred on a point: tick, cross or question mark, each in its own outline."""
    href = f"#sign-{verdict.value}"
    return tag("use", href=href, class_=verdict.value, x=x - size / 2, y=y - size / 2, width=size, height=size)


def cables(links: Sequence[LinkEvidence]) -> list[Cable]:
    """Return the cables ordered by pod, node, DPU and name: neighbours in the drawing are neighbours in the site."""
    first = {link.link: link for link in reversed(links)}
    ordered = sorted(
        first.values(),
        key=lambda link: [words.natural(part) for part in (link.pod, link.node, link.dpu or "", link.link)],
    )
    return [
        Cable(link.link, link.node, link.pod, link.dpu or "DPU", link.switch or "switch", link.port or "")
        for link in ordered
    ]


def label(text: str, x: float, y: float, class_: str, longest: int) -> Markup:
    """Return a name as SVG text, cut to ``longest`` characters; the whole of it appears on hover."""
    whole = words.shown(text)
    short = words.shortened(whole, max(3, longest))
    content = [short] if short == whole else [tag("title", whole), short]
    return tag("text", *content, class_=class_, x=x, y=y)
