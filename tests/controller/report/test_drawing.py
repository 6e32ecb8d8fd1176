from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Mapping

import pytest

from controller.crosscheck.model import CrossCheck, SiteEvidence, Verdict
from controller.report import drawing
from controller.report.cables import worst
from controller.report.svg import polyline, tag

Scenarios = Mapping[str, tuple[CrossCheck, SiteEvidence]]


def drawn(scenarios: Scenarios, name: str) -> ET.Element:
    return ET.fromstring(drawing.site(*scenarios[name]))  # noqa: S314  # our own output


def texts(svg: ET.Element) -> list[str]:
    return ["".join(part.itertext()) for part in svg.iter("text")]


def of_class(svg: ET.Element, name: str) -> list[ET.Element]:
    return [part for part in svg.iter() if part.get("class") == name]


def test_every_cable_is_drawn_in_both_directions_with_its_verdict(scenarios: Scenarios) -> None:
    svg = drawn(scenarios, "training")
    assert len(of_class(svg, "cable violation")) == 4
    assert len(of_class(svg, "cable compliant")) == 4
    signs = [part.get("href", "") for part in svg.iter("use")]
    assert sorted(signs) == ["#sign-compliant"] * 4 + ["#sign-violation"] * 4
    assert {"sw1", "pod-a", "node3", "node4-dpu0", "eth2", "p0", "port eth5"} <= set(texts(svg))


def test_an_undeclared_port_is_drawn_as_a_cable_somebody_found(scenarios: Scenarios) -> None:
    svg = drawn(scenarios, "undeclared-port")
    assert len(of_class(svg, "found-cable undeclared")) == 1
    assert "undeclared: eth7" in texts(svg)
    assert "at least 150 MB" in texts(svg)
    assert not of_class(drawn(scenarios, "compliant"), "found-cable undeclared")


def test_a_refuted_claim_stands_at_its_node_only(scenarios: Scenarios) -> None:
    svg = drawn(scenarios, "lying-host")
    assert texts(svg).count("claim refuted") == 1
    assert len(of_class(svg, "node refuted")) == 1
    assert "claim refuted" not in texts(drawn(scenarios, "training"))


def test_two_switches_share_the_ports(scenarios: Scenarios) -> None:
    svg = drawn(scenarios, "two-switches")
    assert len(of_class(svg, "switch")) == 2
    assert len(of_class(svg, "port")) == 6
    assert texts(svg).count("eth1") == 2


def test_a_large_site_becomes_a_board_with_a_tile_for_each_node(scenarios: Scenarios) -> None:
    svg = drawn(scenarios, "large")
    assert len(of_class(svg, "tile violation")) == 2
    assert len(of_class(svg, "tile inconclusive")) == 10
    assert len(of_class(svg, "tile compliant")) == 48
    assert len(list(svg.iter("use"))) == 120


@pytest.mark.parametrize("name", ["compliant", "two-switches", "large", "undeclared-port", "hostile"])
def test_everything_lies_inside_the_picture(scenarios: Scenarios, name: str) -> None:
    svg = drawn(scenarios, name)
    _, _, width, height = map(float, svg.attrib["viewBox"].split())
    for part in svg.iter("rect"):
        x, y = float(part.attrib["x"]), float(part.attrib["y"])
        assert x >= 0
        assert y >= 0
        assert x + float(part.attrib["width"]) <= width
        assert y + float(part.attrib["height"]) <= height


def test_the_gravest_verdict_stands_for_several() -> None:
    assert worst([Verdict.COMPLIANT, Verdict.VIOLATION, Verdict.INCONCLUSIVE]) is Verdict.VIOLATION
    assert worst([Verdict.COMPLIANT, Verdict.INCONCLUSIVE]) is Verdict.INCONCLUSIVE
    assert worst([Verdict.COMPLIANT]) is Verdict.COMPLIANT


def test_attributes_and_text_are_escaped() -> None:
    written = tag("text", "<b>&", class_='"><script>', x=1.25)
    assert written == '<text class="&#34;&gt;&lt;script&gt;" x="1.2">&lt;b&gt;&amp;</text>'


def test_runs_along_one_axis_are_merged() -> None:
    assert polyline([(0, 0), (1, 0), (2, 0), (2, 5), (3, 6)]) == "M0 0H2V5L3 6"
