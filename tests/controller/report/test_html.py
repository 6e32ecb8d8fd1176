from __future__ import annotations

import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections.abc import Mapping
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from controller.crosscheck.model import ByteInterval, CrossCheck, NodePair, SiteEvidence, Verdict
from controller.report import board, detail, render_html, words
from protos.reading import Direction

Scenarios = Mapping[str, tuple[CrossCheck, SiteEvidence]]
NAMES = (
    "compliant",
    "training",
    "lying-host",
    "undeclared-port",
    "with-gaps",
    "large",
    "two-switches",
    "hostile",
    "without-links",
)
GENERATED_NS = 1_780_263_700_000_000_000
VOID = {"meta", "br", "link", "img", "input", "hr"}


class Page(HTMLParser):
    """The page as a browser would take it apart: open elements, text by element, ids and link targets."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.ids: list[str] = []
        self.targets: list[str] = []
        self.attributes: list[tuple[str, str, str]] = []
        self.text: list[str] = []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        if tag not in VOID:
            self.open.append(tag)
        for name, value in attrs:
            self.attributes.append((tag, name, value or ""))
            if name == "id":
                self.ids.append(value or "")
            if name == "href":
                self.targets.append(value or "")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open, f"</{tag}> closes nothing"
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] != "style":
            self.text.append(data)

    @property
    def words(self) -> str:
        return re.sub(r"\s+", " ", " ".join(self.text))


_RENDERED: dict[str, str] = {}


def fresh(scenarios: Scenarios, name: str) -> str:
    result, evidence = scenarios[name]
    return render_html(result, evidence, generated_ns=GENERATED_NS, version="0.1.0", clock_error_ns=12_000_000)


def rendered(scenarios: Scenarios, name: str) -> str:
    if name not in _RENDERED:
        _RENDERED[name] = fresh(scenarios, name)
    return _RENDERED[name]


@pytest.mark.parametrize("name", NAMES)
def test_the_page_is_well_formed(scenarios: Scenarios, name: str) -> None:
    page = Page(rendered(scenarios, name))
    assert page.open == []
    assert len(set(page.ids)) == len(page.ids)
    assert {target.removeprefix("#") for target in page.targets} <= set(page.ids)


@pytest.mark.parametrize("name", NAMES)
def test_the_page_needs_nothing_from_elsewhere(scenarios: Scenarios, name: str) -> None:
    html = rendered(scenarios, name)
    page = Page(html)
    assert "script" not in page.tags
    assert not {"link", "img", "iframe", "object", "embed", "form", "base"} & set(page.tags)
    assert all(target.startswith("#") for target in page.targets)
    assert not [name for _, name, _ in page.attributes if name.startswith("on") or name in {"src", "srcset", "action"}]
    style = html[html.index("<style>") : html.index("</style>")]
    assert set(re.findall(r"url\(([^)]*)\)", style)) <= {"#hatch"}
    assert "@import" not in style
    assert "default-src 'none'" in html


@pytest.mark.parametrize("name", NAMES)
def test_every_drawing_is_xml(scenarios: Scenarios, name: str) -> None:
    html = rendered(scenarios, name)
    drawings = re.findall(r'<svg class="(?:plot|site)".*?</svg>', html, re.DOTALL)
    assert drawings
    for drawing in drawings:
        ET.fromstring(drawing)  # noqa: S314  # our own output; the point is that it parses


@pytest.mark.parametrize("name", [name for name in NAMES if name != "large"])
def test_the_same_input_gives_the_same_bytes(scenarios: Scenarios, name: str) -> None:
    assert fresh(scenarios, name) == rendered(scenarios, name)


def test_another_process_gives_the_same_bytes(scenarios: Scenarios) -> None:
    """String hashing differs between processes: an order taken from a set would show."""
    here = Path(__file__).parent / "conftest.py"
    program = (
        "import importlib.util, sys, hashlib\n"
        f"spec = importlib.util.spec_from_file_location('sites', {str(here)!r})\n"
        "sites = importlib.util.module_from_spec(spec); sys.modules['sites'] = sites; spec.loader.exec_module(sites)\n"
        "from controller.report import render_html\n"
        "evidence = sites.lying_host(); result = sites.crosscheck(evidence)\n"
        f"html = render_html(result, evidence, generated_ns={GENERATED_NS}, version='0.1.0', "
        "clock_error_ns=12_000_000)\n"
        "sys.stdout.write(html)\n"
    )
    for seed in ("1", "2"):
        ran = subprocess.run(
            [sys.executable, "-c", program], env={"PYTHONHASHSEED": seed}, capture_output=True, check=True, text=True
        )
        assert ran.stdout == rendered(scenarios, "lying-host")


def test_the_page_stays_small(scenarios: Scenarios) -> None:
    assert len(rendered(scenarios, "with-gaps").encode()) < 300_000
    assert len(rendered(scenarios, "large").encode()) < 4_000_000


@pytest.mark.parametrize(
    ("name", "headline"),
    [
        ("compliant", "This site stayed within its agreed limit."),
        ("training", "node1 and node3 moved more than the agreed limit."),
        ("undeclared-port", "A port that is not in the site file carried traffic: eth7 of sw1."),
        ("with-gaps", "The evidence does not decide."),
    ],
)
def test_the_headline_says_the_verdict_in_words(scenarios: Scenarios, name: str, headline: str) -> None:
    html = rendered(scenarios, name)
    assert f"<h1>{headline}</h1>" in html


def test_the_second_violation_stands_under_the_headline(scenarios: Scenarios) -> None:
    html = rendered(scenarios, "lying-host")
    assert "<h1>node1 and node3 moved more than the agreed limit.</h1>" in html
    assert '<p class="also">The host node1 reported fewer bytes than its DPU and switch port counted.</p>' in html


@pytest.mark.parametrize("name", ["training", "lying-host", "undeclared-port", "hostile"])
def test_every_finding_is_on_the_page_in_full(scenarios: Scenarios, name: str) -> None:
    result, _ = scenarios[name]
    page = Page(rendered(scenarios, name))
    shown = [finding for finding in result.findings if finding.certain]
    assert shown
    for finding in shown:
        assert re.sub(r"\s+", " ", words.shown(finding.text)) in page.words
        assert words.shown(finding.margin) in page.words
        if finding.bytes_at_least is not None:
            assert words.exact(finding.bytes_at_least) in page.words


@pytest.mark.parametrize("name", ["compliant", "with-gaps", "large"])
def test_every_exact_number_is_on_the_page(scenarios: Scenarios, name: str) -> None:
    result, _ = scenarios[name]
    text = Page(rendered(scenarios, name)).words
    for link in result.links:
        for interval in (*link.observers.values(), link.agreed):
            assert words.exact_interval(interval.lower, interval.upper) in text
        for law in link.laws:
            assert law.law in text


def test_the_four_observers_stand_in_one_row(scenarios: Scenarios) -> None:
    html = rendered(scenarios, "compliant")
    rows = re.findall(r'<tr class="compliant">.*?</tr>', html, re.DOTALL)
    assert len(rows) == 8
    for row in rows:
        labels = re.findall(r'data-label="([^"]*)"', row)
        assert labels[:4] == ["Host&#39;s claim", "DPU, host port", "DPU, uplink", "Switch port"]


def test_what_could_have_been_hidden_is_said(scenarios: Scenarios) -> None:
    result, _ = scenarios["compliant"]
    page = Page(rendered(scenarios, "compliant")).words
    total = sum(link.hidden_bytes_bound or 0 for link in result.links)
    assert f"could have kept at most {words.ceil_bytes(total)} from every observer" in page
    for blind_spot in ("inside one pod", "Steganography", "side channels", "Low-communication training"):
        assert blind_spot in page


def test_a_link_without_a_bound_is_counted_apart(scenarios: Scenarios) -> None:
    result, evidence = scenarios["compliant"]
    links = (replace(result.links[0], hidden_bytes_bound=None), *result.links[1:])
    html = render_html(
        replace(result, links=links), evidence, generated_ns=GENERATED_NS, version="0.1.0", clock_error_ns=None
    )
    assert "For 1 more link and direction no bound can be given." in Page(html).words
    assert "how far it was off UTC is not known" in html


def test_what_could_have_been_hidden_speaks_only_of_what_was_covered(scenarios: Scenarios) -> None:
    page = Page(rendered(scenarios, "with-gaps")).words
    assert "in what was covered (66.2 % of the period at worst)" in page
    assert "in the time covered" in page
    whole = Page(rendered(scenarios, "compliant")).words
    assert "in what was covered" not in whole
    assert "from every observer over the whole period" in whole


def test_a_bound_that_leaves_the_plot_says_how_far_it_goes(scenarios: Scenarios) -> None:
    assert "no upper bound" in Page(rendered(scenarios, "with-gaps")).words
    assert "no upper bound" not in Page(rendered(scenarios, "compliant")).words


def test_gaps_say_who_was_not_looking_once_for_all_links(scenarios: Scenarios) -> None:
    page = Page(rendered(scenarios, "with-gaps")).words
    gaps = page[page.index("Gaps, and who was not looking") : page.index("Counter epochs")]
    assert gaps.count("the management network was cut") == 1
    assert "all 4 links, both directions" in gaps
    assert gaps.count("the device did not answer while it could be reached") == 2
    assert "boot id changed from 5b0c to 9e1f" in page


def test_a_known_weight_stands_in_the_report(scenarios: Scenarios) -> None:
    page = Page(rendered(scenarios, "compliant")).words
    weights = page[page.index("Every observer showed it") :]
    assert "1,000,000 B" in weights
    assert weights[:600].count(" yes ") == 1
    assert "No known weight was sent" in Page(rendered(scenarios, "training")).words


def test_every_assumption_is_explained(scenarios: Scenarios) -> None:
    page = Page(rendered(scenarios, "compliant")).words
    for key in (
        "in_flight",
        "late_completion",
        "dpu_own",
        "control",
        "largest_frame",
        "required_coverage",
        "largest_gap",
        "liars",
    ):
        assert key in page
    for value in ("64,000 B", "1,514 B", "95 %", "1 trust domain", "3.5 s"):
        assert value in page


def test_what_would_decide_it_is_said_once_with_its_links(scenarios: Scenarios) -> None:
    result, _ = scenarios["with-gaps"]
    assert result.verdict is Verdict.INCONCLUSIVE
    page = Page(rendered(scenarios, "with-gaps")).words
    assert page.count("the switch's ports were not compared with the site file;") == 1
    for text in {text for link in result.links for text in link.undecided}:
        assert text in page


def test_a_large_site_shows_the_worst_first_and_folds_the_rest(scenarios: Scenarios) -> None:
    html = rendered(scenarios, "large")
    before, _, after = html.partition("<details><summary>All 120 links and directions</summary>")
    worst = re.findall(r'<tr class="(\w+)">\s*<th scope="row"', before)
    assert worst == ["violation"] * 4 + ["inconclusive"] * 16
    assert len(re.findall(r'<th scope="row"', after)) == 120
    sections = re.findall(r'<details class="link" id="[^"]*"( open)?>', html)
    assert len(sections) == 60
    assert sections.count(" open") == 8
    assert sections[:8] == [" open"] * 8


def test_node_pairs_stand_in_one_line_sent_beside_received(scenarios: Scenarios) -> None:
    result, evidence = scenarios["compliant"]
    pairs = (
        NodePair("node2", "node2-dpu0", "p0", Direction.INGRESS, "node1", ByteInterval(4_000, None)),
        NodePair("node1", "node1-dpu0", "pf0hpf", Direction.EGRESS, "node10", ByteInterval(0, 9)),
        NodePair("node1", "node1-dpu0", "pf0hpf", Direction.EGRESS, "node2", ByteInterval(3_000, 5_000)),
        NodePair("node1", "node1-dpu1", "pf0hpf", Direction.EGRESS, "node2", ByteInterval(1_000_000, 1_000_000)),
    )
    html = render_html(
        replace(result, pairs=pairs), evidence, generated_ns=GENERATED_NS, version="1", clock_error_ns=None
    )
    shown = " ".join(Page(html).words.split())
    assert "Who talked to whom: 2 pairs of nodes" in shown
    table = shown[shown.index("meter at the receiver's uplink") :]
    row = "node1 node2 1.003\u20131.005 MB at least 4.00 kB node1 node10 0\u20139 B no meter told of it"
    assert table.startswith(f"meter at the receiver's uplink {row} Bytes over time")
    assert "1,003,000 to 1,005,000" in html, "both ports' bytes, to the byte"
    assert "Who talked to whom" not in rendered(scenarios, "compliant")


def test_hostile_names_stay_text(scenarios: Scenarios) -> None:
    html = rendered(scenarios, "hostile")
    page = Page(html)
    assert "<script>alert" not in html
    assert "\x1b" not in html
    assert "\u202e" not in html
    assert "{{7*7}}" in page.words, "a name is not a template either"
    assert "<script>alert(1)</script>" in page.words, "the name itself is readable"


def test_a_site_without_links_is_a_page_too(scenarios: Scenarios) -> None:
    page = Page(rendered(scenarios, "without-links")).words
    assert "There is no link in this site." in page
    assert "No bound can be given" in page


def test_a_site_of_more_links_than_have_sections_says_which_are_drawn(
    scenarios: Scenarios, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(detail, "MOST_SECTIONS", 4)
    monkeypatch.setattr(board, "MOST_TILES", 10)
    html = fresh(scenarios, "large")
    assert len(re.findall(r'<details class="link"', html)) == 4
    shown = Page(html).words
    assert "Drawn are the 4 worst links; 56 more are in the table above" in shown
    anchors = set(re.findall(r'href="#(link-\d+)"', html))
    assert anchors == set(re.findall(r'id="(link-\d+)"', html)), "no row leads nowhere"
    assert len(re.findall(r'class="tile compliant"', html)) == 0
    assert len(re.findall(r'class="tile (?:violation|inconclusive)"', html)) == 12
    assert "all compliant" in shown
    assert "9 nodes compliant" in shown
