"""Two results of one evidence by two programs: other words are the same in substance, another claim is not."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.bundle import read_head
from controller.bundle_substance import contradictions, read_result
from controller.evidence.refusal import VerificationError
from controller.program import program_sha256

REPORTS = Path(__file__).resolve().parents[1] / "vectors" / "reports"


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    with (REPORTS / "full" / "report.bundle").open("rb") as file:
        found: dict[str, Any] = json.loads(read_head(file).result)
    link = found["links"][0]
    link["observers"] = {"switch": {"lower_bytes": "100", "upper_bytes": "200"}}
    link["laws"] = [{"law": "a", "holds": "yes"}, {"law": "b", "holds": "unknown"}]
    link["hidden_bytes_bound"] = "500"
    finding = dict.fromkeys(("link", "node", "direction", "switch", "port"))
    found["findings"] = [{**finding, "kind": "x", "certain": True, "text": "so"}, *found["findings"]]
    return found


def changed(document: dict[str, Any], path: str, value: Any) -> dict[str, Any]:
    found = copy.deepcopy(document)
    *parents, last = [int(each) if each.isdigit() else each for each in path.split(".")]
    at: Any = found
    for parent in parents:
        at = at[parent]
    if value is ...:
        del at[last]
    else:
        at[last] = value
    return found


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("findings.0.text", "in other words"),
        ("findings.0.id", "a-new-field"),
        ("links.0.laws.0.holds", "unknown"),
        ("links.0.laws.1.holds", "no"),
        ("links.0.laws", []),
        ("links.0.observers.switch.lower_bytes", "150"),
        ("links.0.observers.switch.upper_bytes", None),
        ("links.0.hidden_bytes_bound", "400"),
        ("links.0.coverage", 1.0),
        ("links.0.new", "field"),
        ("scope", "something new"),
        ("assumptions.new", 1),
        ("findings.1.certain", False),
    ],
)
def test_another_program_may_say_more_and_otherwise(document: dict[str, Any], path: str, value: Any) -> None:
    assert contradictions(document, changed(document, path, value)) == []


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("verdict", "compliant"),
        ("site", "other"),
        ("period.to_ns", "1"),
        ("links.0.verdict", "compliant"),
        ("links.0.direction", "other"),
        ("links.0.laws.0.holds", "no"),
        ("links.0.observers.switch.lower_bytes", "201"),
        ("links.0.observers", {}),
        ("links.0.hidden_bytes_bound", "501"),
        ("links.0.hidden_bytes_bound", None),
        ("findings.0.certain", False),
        ("findings.0.kind", "y"),
        ("findings.0.node", "node1"),
        ("assumptions.liars", "many"),
        ("links", []),
        ("parts", []),
    ],
)
def test_another_claim_is_a_contradiction(document: dict[str, Any], path: str, value: Any) -> None:
    assert contradictions(document, changed(document, path, value))


@pytest.mark.parametrize(
    "path",
    ["verdict", "links", "findings", "assumptions", "links.0.verdict", "links.0.observers", "links.0.laws"],
)
def test_what_a_report_leaves_out_is_a_contradiction(document: dict[str, Any], path: str) -> None:
    assert contradictions(changed(document, path, ...), document)


def test_more_coverage_than_there_is(document: dict[str, Any]) -> None:
    less = changed(document, "links.0.coverage", 0.0)
    more = changed(document, "links.0.coverage", 0.9)
    assert contradictions(less, more) == []
    assert "coverage" in contradictions(more, less)[0]


def test_one_thing_twice_is_a_contradiction(document: dict[str, Any]) -> None:
    twice = changed(document, "links", [*document["links"], document["links"][0]])
    assert contradictions(twice, document)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["links", "verdict", "parts"]), inner),
)


@given(value=JSON)
def test_whatever_was_signed_only_contradictions_come_out(document: dict[str, Any], value: Any) -> None:
    assert contradictions(value, document)


@pytest.mark.parametrize(
    "raw",
    [
        b'{"verdict": "compliant", "verdict": "violation"}',
        b'{"links": [{"a": 1, "a": 2}]}',
        b'{"coverage": NaN}',
        b'{"coverage": -Infinity}',
        b"[]",
        b"",
        b"\xff",
        b"[" * 100_000,
    ],
)
def test_a_result_that_two_readers_could_read_differently_is_refused(raw: bytes) -> None:
    with pytest.raises(VerificationError):
        read_result(raw)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), "much", None, [[]]])
def test_what_is_no_coverage_is_a_contradiction(document: dict[str, Any], value: Any) -> None:
    assert contradictions(changed(document, "links.0.coverage", value), document)


def test_parts_are_compared_one_by_one(document: dict[str, Any]) -> None:
    whole = {"verdict": document["verdict"], "parts": [document, document]}
    assert contradictions(whole, whole) == []
    assert contradictions(whole, {**whole, "parts": [document]})
    (text, *_) = contradictions(whole, {**whole, "parts": [document, changed(document, "site", "other")]})
    assert text.startswith("parts[1].site")


def test_a_program_has_one_digest() -> None:
    assert program_sha256() == program_sha256()
    assert len(bytes.fromhex(program_sha256())) == 32
