"""The whole report as values ready to print: the template below it decides nothing.

Steps: order the links, the gravest first; make the rows; choose which rows, cards and plots stand open and which wait
folded; draw; collect what was not seen; say it in words.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from controller.crosscheck.model import CrossCheck, LinkResult, SiteEvidence, Verdict
from controller.report import blind, cards, detail, drawing, meanings, places, sentences, words
from controller.report.cables import WORST_FIRST
from controller.report.pairs import PairLine, pair_lines
from controller.report.rows import Row, link_order, row
from controller.report.series import seen
from controller.report.sumlines import SumLine, sum_lines

MOST_OPEN_ROWS = 16
"""With more links and directions than this the report shows the worst first and folds the whole table."""
MOST_WORST_ROWS = 20
MOST_BARRED_ROWS = 1_000
"""Rows of the table of all links up to which each number has its bar; beyond, they would be most of the page."""
MOST_UNDECIDED = 4
MOST_BESIDE = 5
"""Up to so many cables the drawing fits beside the facts; a larger one gets the page's width."""


@dataclass(frozen=True, slots=True)
class Fact:
    """One line beside the headline."""

    label: str
    value: str


@dataclass(frozen=True, slots=True)
class PortLine:
    """A port of a switch."""

    switch: str
    port: str
    declared: bool
    state: str
    moved: str
    exact: str


@dataclass(frozen=True, slots=True)
class WeightLine:
    """A known weight and whether the scale showed it."""

    where: str
    when: str
    bytes: str
    shown: bool
    text: str


@dataclass(frozen=True, slots=True)
class View:
    """Everything on the page."""

    title: str
    site: str
    verdict: str
    headline: str
    also: Sequence[str]
    rests_on: str
    facts: Sequence[Fact]
    tally: Sequence[tuple[str, int]]
    undecided: Sequence[tuple[str, str]]
    more_undecided: Sequence[tuple[str, str]]
    site_drawing: Markup
    drawn_as_board: bool
    drawn_wide: bool
    groups: Sequence[cards.Group]
    rows: Sequence[Row]
    all_rows: Sequence[Row]
    details: Sequence[detail.LinkDetail]
    hidden_sentence: str
    hidden: Sequence[blind.HiddenLine]
    ports: Sequence[PortLine]
    sums: Sequence[SumLine]
    pairs: Sequence[PairLine]
    weights: Sequence[WeightLine]
    gap_words: str
    gaps: Sequence[blind.Gap]
    restarts: Sequence[blind.Restart]
    assumptions: Sequence[meanings.Assumption]
    timings: Sequence[meanings.Timing]
    cannot_see: Sequence[sentences.Passage]
    how_to_read: Sequence[sentences.Passage]
    glossary: Sequence[tuple[str, str]]
    generated: str
    version: str
    folded_tables: bool
    without_section: int
    bars_in_all: bool


def build(
    result: CrossCheck, evidence: SiteEvidence, *, generated_ns: int, version: str, clock_error_ns: int | None
) -> View:
    """Return the page of one cross-check; arguments as in :func:`controller.report.html.render_html`."""
    of_link = seen(evidence)
    order = {name: index for index, name in enumerate(link_order(result.links))}
    results = sorted(result.links, key=lambda link: (order[link.link], link.direction.value))
    rows = [
        row(link, of_link.get((link.link, link.direction)), _anchor(order[link.link]), result.period.from_ns)
        for link in results
    ]
    many = len(rows) > MOST_OPEN_ROWS
    gaps, restarts = blind.gaps(of_link, evidence), blind.restarts(evidence)
    undecided = _undecided(results)
    not_kept = [r for r in rows if r.verdict != Verdict.COMPLIANT.value]
    return View(
        title=f"{words.shown(result.site)}: {result.verdict.value}",
        site=words.shown(result.site),
        verdict=result.verdict.value,
        headline=sentences.headline(result),
        also=sentences.violations(result)[1:],
        rests_on=sentences.rests_on(result),
        facts=_facts(result, evidence, clock_error_ns),
        tally=[(v.value, sum(link.verdict is v for link in result.links)) for v in WORST_FIRST],
        undecided=undecided[:MOST_UNDECIDED],
        more_undecided=undecided[MOST_UNDECIDED:],
        site_drawing=drawing.site(result, evidence),
        drawn_as_board=len(order) > drawing.MOST_CABLES,
        drawn_wide=len(order) > MOST_BESIDE,
        groups=cards.groups(result, rows),
        rows=not_kept[:MOST_WORST_ROWS] if many else rows,
        all_rows=rows if many else [],
        details=detail.details(results, rows, of_link, evidence),
        hidden_sentence=blind.hidden_sentence(result),
        hidden=blind.hidden(results),
        ports=_ports(result),
        sums=sum_lines(result.sums),
        pairs=pair_lines(result.pairs),
        weights=_weights(result),
        gap_words=blind.counted(gaps, restarts),
        gaps=gaps,
        restarts=restarts,
        assumptions=meanings.declared(result.assumptions),
        timings=meanings.timings(evidence.links),
        cannot_see=sentences.CANNOT_SEE,
        how_to_read=sentences.HOW_TO_READ,
        glossary=sentences.GLOSSARY,
        generated=f"{words.date_of(generated_ns)} {words.clock_of(generated_ns)} UTC",
        version=version,
        folded_tables=many,
        without_section=max(0, len(order) - detail.MOST_SECTIONS),
        bars_in_all=len(rows) <= MOST_BARRED_ROWS,
    )


def _anchor(place: int) -> str:
    """Return the name of a link's section; empty if it has none."""
    return f"link-{place + 1}" if place < detail.MOST_SECTIONS else ""


def _facts(result: CrossCheck, evidence: SiteEvidence, clock_error_ns: int | None) -> list[Fact]:
    period = result.period
    links = len({link.link for link in result.links})
    readings = sum(len(track.readings) for link in evidence.links for track in link.tracks.values())
    limits = list(dict.fromkeys(limit for link in evidence.links for limit in link.limits))
    limited = ["; ".join(map(sentences.limit_text, limits)) + ", per node and direction"] if limits else []
    signed = [f"agreement {each.number} ({each.sha256.hex()[:12]}), signed by both" for each in result.agreements]
    started = result.evidence_from_ns
    if started is None:
        began = "there is none for this period"
    elif started <= period.from_ns:
        began = "the whole period"
    else:
        began = f"from {words.when(started, period.from_ns)} UTC; windows are cut there"
    facts = [
        Fact("Period", words.period(period.from_ns, period.to_ns)),
        Fact(
            "Clock",
            "how far it was off UTC is not known"
            if clock_error_ns is None
            else f"within {words.lasting(clock_error_ns)} of the controller's own UTC clock, which is its claim",
        ),
        Fact("Agreed limit", "; ".join([*limited, *signed]) or "none"),
        Fact(
            "Evidence",
            f"{began}; {words.counted(readings, 'reading')} on {words.counted(links, 'link')}, both directions",
        ),
        Fact("Could be hidden", blind.hidden_fact(result)),
        Fact(
            "Inventory",
            "the switch's ports were compared with the site file"
            if evidence.inventory_checked
            else "the switch's ports could not be compared with the site file",
        ),
    ]
    # A verdict about less than a whole site says so where it stands.
    return [*facts[:1], Fact("About", words.shown(result.scope)), *facts[1:5]] if result.scope else facts


def _undecided(results: Sequence[LinkResult]) -> list[tuple[str, str]]:
    """What is still open, each with the links it is open for; what many links share comes first."""
    together: dict[str, list[places.Place]] = {}
    for link in results:
        for text in link.undecided:
            together.setdefault(words.shown(text), []).append((link.link, link.direction))
    shared = sorted(together.items(), key=lambda item: -len(item[1]))
    return [(text, places.told(where, results)) for text, where in shared]


def _ports(result: CrossCheck) -> list[PortLine]:
    state = {True: "up", False: "down", None: "not known"}
    ordered = sorted(result.ports, key=lambda p: (p.declared, p.switch, words.natural(p.port)))
    return [
        PortLine(
            switch=words.shown(port.switch),
            port=words.shown(port.port),
            declared=port.declared,
            state=state[port.operational],
            moved=words.interval(port.lower_bytes, port.upper_bytes),
            exact=words.exact_interval(port.lower_bytes, port.upper_bytes),
        )
        for port in ordered
    ]


def _weights(result: CrossCheck) -> list[WeightLine]:
    return [
        WeightLine(
            where=f"{words.shown(weight.link)} {weight.direction.value}",
            when=words.span(weight.from_ns, weight.to_ns, result.period.from_ns),
            bytes=words.exact(weight.bytes),
            shown=seen,
            text=words.shown(text),
        )
        for weight, seen, text in result.known_weights
    ]
