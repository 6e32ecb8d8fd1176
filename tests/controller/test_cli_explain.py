"""``weighbridge explain``: every finding that can be made is told in full, from its JSON alone."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from controller.cli import app
from controller.crosscheck.check import crosscheck
from controller.crosscheck.json_form import to_json
from controller.crosscheck.model import Finding, FindingKind, Limit, Period
from controller.explanation import explained, find
from protos.reading import Direction, Observer
from tests.controller.crosscheck.scene import S, everywhere, link, site, steady

START, END, T0 = 100 * S, 220 * S, 120 * S


@pytest.fixture(scope="module")
def result() -> dict[str, Any]:
    truth = steady(T0, T0 + 60 * S, 50_000)
    lying = everywhere(truth) | {Observer.HOST: truth.scaled(0.9)}
    evidence = site(
        link(lying, start=START, end=END, limits=(Limit(10 * S, 100_000), Limit(300 * S, 3_100_000))),
        period=Period(T0 - 10 * S, T0 + 70 * S),
    )
    made = json.loads(json.dumps(to_json(crosscheck(evidence))))
    assert isinstance(made, dict)
    return made


@pytest.fixture
def saved(result: dict[str, Any], tmp_path: Path) -> Path:
    path = tmp_path / "result.json"
    path.write_text(json.dumps(result))
    return path


def run(*arguments: object) -> tuple[int, str, str]:
    outcome = CliRunner().invoke(app, ["explain", *map(str, arguments)])
    return outcome.exit_code, " ".join(outcome.stdout.split()), " ".join(outcome.stderr.split())


def test_a_host_that_counts_four_octets_as_one_is_told_as_what_it_looks_like(tmp_path: Path) -> None:
    truth = steady(T0, T0 + 60 * S, 50_000)
    quarter = everywhere(truth) | {Observer.HOST: truth.scaled(0.25)}
    evidence = site(link(quarter, start=START, end=END), period=Period(T0 - 10 * S, T0 + 70 * S))
    path = tmp_path / "result.json"
    path.write_text(json.dumps(to_json(crosscheck(evidence))))
    code, out, _ = run("host-under-reports", "--result", path)
    assert code == 0
    assert "What it looks like" in out
    assert "shows 4 times what host shows: perhaps one counts units of four octets" in out


def test_a_lying_host_is_told_with_numbers_laws_margin_and_assumptions(saved: Path) -> None:
    code, out, _ = run("host-under-reports", "--result", saved)
    assert code == 0
    for said in (
        "certain: under the assumptions below",
        "host counted 2,700,000 B",
        "dpu.host_port <= host: BROKEN",
        "unless every time is wrong by more than",
        "in_flight: 0 B",
        "liars: 1",
    ):
        assert said in out


def test_a_limit_is_told_with_its_window_and_who_proves_it(saved: Path) -> None:
    _, out, _ = run("limit-exceeded", "--result", saved)
    assert "100 kB in any 10 s: the fullest window held" in out
    assert "an excess is proven by host, dpu, switch" in out
    assert "all of them would have to be wrong" in out


def test_number_id_and_beginning_name_the_same(saved: Path, result: dict[str, Any]) -> None:
    name = result["findings"][0]["id"]
    assert run("1", "--result", saved) == run(name, "--result", saved) == run(name[:-2], "--result", saved)
    body = json.loads(CliRunner().invoke(app, ["explain", "1", "--result", str(saved), "--json"]).stdout)
    assert body["finding"] == result["findings"][0]
    assert all(section["lines"] for section in body["sections"])


@pytest.mark.parametrize("kind", list(FindingKind))
def test_every_kind_can_be_explained(kind: FindingKind, result: dict[str, Any]) -> None:
    truth = steady(T0, T0 + 60 * S, 50_000)
    evidence = site(link(everywhere(truth), start=START, end=END), period=Period(T0, T0 + 60 * S))
    told = Finding(kind, certain=False, text="seen", link="node1/p0", direction=Direction.EGRESS)
    made = to_json(replace(crosscheck(evidence), findings=(told, replace(told, link=None, switch="sw1", port="eth1"))))
    whole: dict[str, Any] = {"parts": [json.loads(json.dumps(made)), result]}
    for number in ("1", "2"):
        sections = explained(*find(whole, number))
        assert sections[0].heading == "What was seen"
        assert sections[-1].heading == "What it rests on"


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        ("0", "is not a finding"),
        ("99", "is not a finding"),
        ("", "is not a finding"),
        ("nonsense", "There: host-under"),
    ],
)
def test_a_finding_that_is_not_there_is_refused_with_those_that_are(saved: Path, wanted: str, said: str) -> None:
    code, out, error = run(wanted, "--result", saved)
    assert (code, out) == (2, "")
    assert said in error


def test_several_that_begin_alike_are_listed(saved: Path, result: dict[str, Any]) -> None:
    again = dict(result["findings"][0]) | {"id": "host-under-reports-00000000"}
    saved.write_text(json.dumps(result | {"findings": [*result["findings"], again]}))
    code, _, error = run("host-under", "--result", saved)
    assert code == 2
    assert "names several findings" in error


@pytest.mark.parametrize(
    ("text", "said"),
    [("{", "not JSON"), ("[]", "not a result"), ("{}", "whose findings have ids"), ('{"parts": 5}', "have ids")],
)
def test_what_is_no_result_is_refused(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "x.json"
    path.write_text(text)
    code, _, error = run("1", "--result", path)
    assert code == 2
    assert said in error


def test_a_result_that_lacks_a_part_is_refused(saved: Path, result: dict[str, Any]) -> None:
    saved.write_text(json.dumps({key: value for key, value in result.items() if key != "assumptions"}))
    code, _, error = run("1", "--result", saved)
    assert code == 2
    assert "Make it again with this version" in error


def test_a_period_beside_a_result_and_no_file_are_refused(saved: Path, tmp_path: Path) -> None:
    assert "has a period already" in run("1", "--result", saved, "--last", "5m")[2]
    assert "cannot be read" in run("1", "--result", tmp_path / "none.json")[2]
