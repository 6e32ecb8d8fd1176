"""One row of the report a link and direction: four observers side by side, laws, limits, coverage, hidden bytes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from controller.crosscheck.model import (
    ByteInterval,
    Holds,
    LawResult,
    LimitResult,
    LinkResult,
    Unknown,
    Verdict,
    WindowsBy,
    WindowWitness,
)
from controller.crosscheck.wording import moment
from controller.report import words
from controller.report.cables import WORST_FIRST, worst
from controller.report.sentences import limit_text
from controller.report.series import Seen
from protos.reading import Observer

OBSERVER_WORDS: Mapping[Observer, str] = {
    Observer.HOST: "Host's claim",
    Observer.DPU_HOST_PORT: "DPU, host port",
    Observer.DPU_UPLINK: "DPU, uplink",
    Observer.SWITCH: "Switch port",
}


@dataclass(frozen=True, slots=True)
class Cell:
    """What one observer proves; the bar runs from ``start`` to ``end``, percent of the row's largest number."""

    observer: str
    words: str
    text: str
    exact: str
    start: float = 0.0
    end: float = 0.0
    bar: bool = False
    unbounded: bool = False


_SOURCES = {
    WindowsBy.BUCKETS: "by millisecond buckets",
    WindowsBy.READINGS: "by readings",
    WindowsBy.BOTH: "by millisecond buckets and readings",
}


@dataclass(frozen=True, slots=True)
class LimitLine:
    """One limit's outcome; ``start`` and ``end`` of the worst window and ``mark`` of the limit are in percent."""

    holds: str
    limit: str
    worst: str
    exact: str
    excess: str
    start: float
    end: float
    mark: float
    text: str
    witnesses: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class LawLine:
    """One law's outcome."""

    law: str
    holds: str
    gap: str
    gap_exact: str
    margin: str
    text: str


@dataclass(frozen=True, slots=True)
class Row:
    """One link and direction."""

    anchor: str
    verdict: str
    link: str
    direction: str
    node: str
    pod: str
    cells: Sequence[Cell]
    limits: Sequence[LimitLine]
    laws: Sequence[LawLine]
    laws_summary: str
    broken: bool
    coverage: str
    hidden: str
    hidden_exact: str
    undecided: Sequence[str]


def link_order(links: Sequence[LinkResult]) -> list[str]:
    """Return the links' names, those with the gravest verdict in either direction first, then by name."""
    of_link: dict[str, list[Verdict]] = {}
    for link in links:
        of_link.setdefault(link.link, []).append(link.verdict)
    return sorted(of_link, key=lambda name: (WORST_FIRST.index(worst(of_link[name])), words.natural(name)))


def row(result: LinkResult, seen: Seen | None, anchor: str, day_ns: int) -> Row:
    """Return the row of one link and direction; times on another day than ``day_ns`` carry their date."""
    most = max([0, *(_known_end(interval) for interval in result.observers.values())])
    return Row(
        anchor=anchor,
        verdict=result.verdict.value,
        link=words.shown(result.link),
        direction=result.direction.value,
        node=words.shown(result.node),
        pod=words.shown(result.pod),
        cells=[_cell(observer, result, seen, most) for observer in Observer],
        limits=[_limit_line(limit) for limit in result.limits],
        laws=[_law_line(law, day_ns) for law in result.laws],
        laws_summary=_laws_summary(result.laws),
        broken=any(law.holds is Holds.NO for law in result.laws),
        coverage=words.floor_percent(result.coverage),
        hidden="no bound" if result.hidden_bytes_bound is None else words.ceil_bytes(result.hidden_bytes_bound),
        hidden_exact="" if result.hidden_bytes_bound is None else words.exact(result.hidden_bytes_bound),
        undecided=[words.shown(text) for text in result.undecided],
    )


def _known_end(interval: ByteInterval) -> int:
    return interval.lower if interval.upper is None else interval.upper


def _cell(observer: Observer, result: LinkResult, seen: Seen | None, most: int) -> Cell:
    interval = result.observers.get(observer)
    name, spoken = observer.value, OBSERVER_WORDS[observer]
    if interval is None:
        return Cell(name, spoken, "not an observer here", "")
    one = None if seen is None else seen.observed.get(observer)
    if one is not None and not one.track.readings:
        return Cell(name, spoken, "no readings", "")
    if one is not None and not one.usable:
        return Cell(name, spoken, "contradicts itself", "; ".join(map(words.shown, one.problems)))
    scale = max(1, most)
    return Cell(
        observer=name,
        words=spoken,
        text=words.interval(interval.lower, interval.upper),
        exact=words.exact_interval(interval.lower, interval.upper),
        start=100 * interval.lower / scale,
        end=100.0 if interval.upper is None else 100 * interval.upper / scale,
        bar=most > 0,
        unbounded=interval.upper is None,
    )


def _limit_line(result: LimitResult) -> LimitLine:
    allowed, low, high = result.limit.bytes, result.worst_at_least_bytes, result.worst_at_most_bytes
    scale = max(1, allowed, low, high or 0) * 1.04
    excess = words.excess(low, allowed, "the limit") if result.holds is Holds.NO else ""
    return LimitLine(
        holds=result.holds.value,
        limit=limit_text(result.limit),
        worst=words.interval(low, high),
        exact=words.exact_interval(low, high),
        excess=excess,
        start=100 * low / scale,
        end=100.0 if high is None else 100 * high / scale,
        mark=100 * allowed / scale,
        text=words.shown(result.text) if result.holds is Holds.UNKNOWN else "",
        witnesses=[_witness(one) for one in result.witnesses],
    )


def _witness(one: WindowWitness) -> str:
    """Return what one observer shows of the fullest window, and whether by the millisecond or from readings."""
    by = {one.least_by, one.most_by}
    source = _SOURCES[by.pop()] if len(by) == 1 else _SOURCES[WindowsBy.BOTH]
    if one.most_by is WindowsBy.BOTH:
        source += f" ({words.floor_percent(one.bucket_share)} of the windows by the millisecond)"
    when = ""
    if one.from_ns is not None:
        when = f", fullest from {moment(one.from_ns)}"
        when += f" (or up to {words.lasting(one.exact_to_ns)} later)" if one.exact_to_ns else ""
    return f"{OBSERVER_WORDS[one.observer]}: {words.interval(one.least, one.most)} {source}{when}"


def _law_line(law: LawResult, day_ns: int) -> LawLine:
    broken = law.holds is Holds.NO
    return LawLine(
        law=words.shown(law.law),
        holds="by-design" if law.unknown_because is Unknown.BY_DESIGN else law.holds.value,
        gap=words.floor_bytes(law.gap_at_least_bytes) if broken else "",
        gap_exact=words.exact(law.gap_at_least_bytes) if broken else "",
        margin=words.shown(law.margin),
        text=_law_text(law, day_ns),
    )


def _law_text(law: LawResult, day_ns: int) -> str:
    """Return what the table says beside the result; a broken law's full sentence stands in its finding."""
    if law.holds is Holds.YES and law.hidden_bytes_bound is not None:
        return f"hides at most {words.ceil_bytes(law.hidden_bytes_bound)}"
    if law.holds is Holds.NO and law.from_ns is not None and law.to_ns is not None:
        return words.span(law.from_ns, law.to_ns, day_ns)
    return words.shown(law.text).removeprefix("untestable: ").removeprefix("unknown: ")


def _laws_summary(laws: Sequence[LawResult]) -> str:
    """Count the laws; one that cannot be tested by design is named apart, for it does not weigh on the verdict."""
    if not laws:
        return "none tested"
    by_design = sum(law.unknown_because is Unknown.BY_DESIGN for law in laws)
    count = {holds: sum(law.holds is holds for law in laws) for holds in Holds}
    said = (
        (count[Holds.NO], "broken"),
        (count[Holds.UNKNOWN] - by_design, "open"),
        (count[Holds.YES], "hold"),
        (by_design, "untestable"),
    )
    return ", ".join(f"{number} {word}" for number, word in said if number)
