from __future__ import annotations

import io
from collections.abc import Mapping

import pytest
from rich.console import Console

from controller.crosscheck.model import CrossCheck, SiteEvidence
from controller.report import render_table, words

Scenarios = Mapping[str, tuple[CrossCheck, SiteEvidence]]
NAMES = ("compliant", "training", "lying-host", "undeclared-port", "with-gaps", "large", "hostile", "without-links")


def printed(scenarios: Scenarios, name: str, width: int, *, terminal: bool = False) -> str:
    out = io.StringIO()
    console = Console(file=out, width=width, force_terminal=terminal, color_system="standard" if terminal else None)
    render_table(scenarios[name][0], console)
    return out.getvalue()


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("width", [80, 100, 120])
def test_it_fits_the_width(scenarios: Scenarios, name: str, width: int) -> None:
    assert max(len(line) for line in printed(scenarios, name, width).splitlines()) <= width


@pytest.mark.parametrize("name", NAMES)
def test_no_colour_when_not_a_terminal(scenarios: Scenarios, name: str) -> None:
    assert "\x1b" not in printed(scenarios, name, 80)


def test_colour_on_a_terminal(scenarios: Scenarios) -> None:
    assert "\x1b[1;31mviolation" in printed(scenarios, "training", 80, terminal=True)


def test_names_never_reach_the_terminal_as_control(scenarios: Scenarios) -> None:
    text = printed(scenarios, "hostile", 80, terminal=True)
    assert "\x1b[31m{" not in text
    assert "\u202e" not in text


def test_names_are_not_markup(scenarios: Scenarios) -> None:
    assert r"\x1b[31m{{7*7}}" in printed(scenarios, "hostile", 120).replace("\n", "")


def test_one_row_a_link_and_direction_the_worst_first(scenarios: Scenarios) -> None:
    lines = [line for line in printed(scenarios, "training", 80).splitlines() if "/p0 " in line and "gress" in line]
    rows = [line.split()[:3] for line in lines[:8]]
    assert rows == [
        ["node1/p0", "egress", "violation"],
        ["node1/p0", "ingress", "violation"],
        ["node3/p0", "egress", "violation"],
        ["node3/p0", "ingress", "violation"],
        ["node2/p0", "egress", "compliant"],
        ["node2/p0", "ingress", "compliant"],
        ["node4/p0", "egress", "compliant"],
        ["node4/p0", "ingress", "compliant"],
    ]


@pytest.mark.parametrize("width", [80, 120])
def test_the_essentials_are_said(scenarios: Scenarios, width: int) -> None:
    text = " ".join(printed(scenarios, "lying-host", width).split())
    assert text.startswith("violation: node1 and node3 moved more than the agreed limit.")
    assert "host-under-reports: node1/p0 egress: The host claims" in text
    assert text.count("limit-exceeded:") == 4
    assert "could have been hidden: at most" in text


def test_gaps_are_one_line_and_open_points_are_said(scenarios: Scenarios) -> None:
    text = " ".join(printed(scenarios, "with-gaps", 80).split())
    assert text.count("coverage-gap:") == 1
    assert "open: the switch's ports were not compared with the site file" in text


def test_an_undeclared_port_has_its_own_line(scenarios: Scenarios) -> None:
    text = printed(scenarios, "undeclared-port", 80)
    assert "sw1 eth7" in text
    assert "undeclared-port: Port eth7 of sw1 is not in the site file and carried at least" in " ".join(text.split())


def test_a_large_site_keeps_to_its_rows(scenarios: Scenarios) -> None:
    assert len(printed(scenarios, "large", 80).splitlines()) < 220


@pytest.mark.parametrize(
    ("lower", "upper", "text"),
    [
        (214_783_210, 214_792_412, "~214 MB"),
        (159_000_000, 235_000_000, "159-235 MB"),
        (287_000, 1_650_000, "287 kB-1.65 MB"),
        (0, 1_500, "0-1.50 kB"),
        (5_000, 5_000, "5.00 kB"),
        (1_970_000, None, ">= 1.97 MB"),
        (0, 0, "0 B"),
    ],
)
def test_narrow_intervals(lower: int, upper: int | None, text: str) -> None:
    assert words.brief(lower, upper) == text
