"""A link's own section: both directions with their plots, laws, limits and exact numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from markupsafe import Markup

from controller.crosscheck.model import ByteInterval, Limit, LinkResult, Period, SiteEvidence, Track, Verdict
from controller.report import plot, words
from controller.report.axes import ByteAxis
from controller.report.cables import worst
from controller.report.rows import Row
from controller.report.series import LinkKey, Seen
from protos.reading import Direction, Observer

MOST_OPEN_SECTIONS = 8
"""So many links stand open, the gravest; the others wait folded."""
MOST_SECTIONS = 300
"""Links with a section and plots of their own, the worst first: with thousands a page would not open everywhere."""


@dataclass(frozen=True, slots=True)
class Count:
    """One observer's exact numbers."""

    observer: str
    readings: str
    interval: str
    width: str


@dataclass(frozen=True, slots=True)
class Side:
    """One direction of a link: its plots with their captions, laws, limits and exact numbers."""

    row: Row
    plots: Sequence[tuple[str, Markup]]
    counts: Sequence[Count]


@dataclass(frozen=True, slots=True)
class LinkDetail:
    """The link's own section."""

    anchor: str
    link: str
    verdict: str
    place: str
    sides: Sequence[Side]
    open: bool


def details(
    results: Sequence[LinkResult],
    rows: Sequence[Row],
    all_seen: Mapping[LinkKey, Seen],
    evidence: SiteEvidence,
) -> list[LinkDetail]:
    """Return the links' sections in the order of ``results``; ``rows`` are theirs, one each.

    Where there are more than :data:`MOST_SECTIONS`, those that come first, which are the worst.
    """
    of_link: dict[str, list[tuple[LinkResult, Row]]] = {}
    for link, its_row in zip(results, rows, strict=True):
        of_link.setdefault(link.link, []).append((link, its_row))
    few = len(of_link) <= MOST_OPEN_SECTIONS
    made: list[LinkDetail] = []
    for pairs in islice(of_link.values(), MOST_SECTIONS):
        first, first_row = pairs[0]
        both = [one for link, _ in pairs if (one := all_seen.get((link.link, link.direction))) is not None]
        gravest = worst([link.verdict for link, _ in pairs])
        opened = few or (gravest is not Verdict.COMPLIANT and len(made) < MOST_OPEN_SECTIONS)
        drawn = _curves(both, evidence)
        axes = _axes(drawn)
        made.append(
            LinkDetail(
                anchor=first_row.anchor,
                link=first_row.link,
                verdict=gravest.value,
                place=_place(first, both),
                sides=[
                    Side(
                        row=its_row,
                        plots=_plots(link, drawn, axes, evidence.period),
                        counts=_counts(link, all_seen.get((link.link, link.direction)), evidence.assumptions.liars),
                    )
                    for link, its_row in pairs
                ],
                open=opened,
            )
        )
    return made


def _place(link: LinkResult, both: Sequence[Seen]) -> str:
    parts = [f"node {words.shown(link.node)}", f"pod {words.shown(link.pod)}"]
    if both:
        first = both[0].evidence
        named = (("DPU", first.dpu), ("switch", first.switch), ("port", first.port))
        parts.extend(f"{word} {words.shown(name)}" for word, name in named if name)
    return ", ".join(parts)


_Drawn = dict[tuple[Direction, Limit], plot.Curves]


def _curves(both: Sequence[Seen], evidence: SiteEvidence) -> _Drawn:
    return {
        (one.evidence.direction, limit): plot.curves(one, evidence.period, limit)
        for one in both
        for limit in dict.fromkeys(one.evidence.limits)
    }


def _axes(drawn: _Drawn) -> dict[Limit, ByteAxis]:
    """One scale a limit: the directions of a link share it, so that the eye may compare them."""
    values: dict[Limit, list[int]] = {}
    for (_, limit), curves in drawn.items():
        values.setdefault(limit, []).extend(curves.values)
    return {limit: ByteAxis.over(of_limit) for limit, of_limit in values.items()}


def _plots(link: LinkResult, drawn: _Drawn, axes: Mapping[Limit, ByteAxis], period: Period) -> list[tuple[str, Markup]]:
    answers = {answer.limit: answer for answer in link.limits}
    return [
        (
            f"most bytes in any {words.lasting(limit.window_ns)} that end at the time below",
            plot.draw(curves, period, axes[limit], answers.get(limit)),
        )
        for (direction, limit), curves in drawn.items()
        if direction is link.direction
    ]


def _counts(link: LinkResult, one: Seen | None, liars: int) -> list[Count]:
    tracks: Mapping[Observer, Track] = {} if one is None else one.evidence.tracks
    believed = f"true with up to {words.counted(liars, 'liar')}"
    counts = [
        Count(
            observer=observer.value,
            readings="none" if observer not in tracks else f"{len(tracks[observer].readings):,}",
            interval=words.exact_interval(*_ends(interval)),
            width=_width(interval),
        )
        for observer, interval in link.observers.items()
    ]
    return [*counts, Count(believed, "", words.exact_interval(*_ends(link.agreed)), _width(link.agreed))]


def _ends(interval: ByteInterval) -> tuple[int, int | None]:
    return interval.lower, interval.upper


def _width(interval: ByteInterval) -> str:
    return "unbounded" if interval.upper is None else words.exact(interval.upper - interval.lower)
