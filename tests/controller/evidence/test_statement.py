"""Statements and leaves: what they bind, and in which single spelling."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller import journal_leaf as leaves
from controller.evidence import statement as statements
from controller.evidence.refusal import VerificationError
from controller.evidence.statement import Statement
from controller.journal_leaf import Leaf

GOOD = Statement("urn:weighbridge:verdict:v1", {"site": bytes(32), "journal": bytes(range(32))}, {"n": "1", "z": None})
LEAF = Leaf(7, "frame", "node1-dpu0", 3, 1_000, '{"received_ns":"5"}', bytes(range(32)))


def test_statement_round_trip() -> None:
    assert statements.decode(GOOD.encode()) == GOOD


@pytest.mark.parametrize(
    "fields",
    [
        {"_type": "https://in-toto.io/Statement/v0.1"},
        {"_type": None},
        {"predicate": None},
        {"predicate": []},
        {"predicateType": None},
        {"subject": []},
        {"subject": None},
        {"subject": [{"name": "a"}]},
        {"subject": [{"name": "a", "digest": {"sha512": "0"}}]},
        {"subject": [{"name": "a", "digest": {"sha256": "0"}}]},
        {"subject": [{"name": "a", "digest": {"sha256": "A" * 64}}]},
        {"subject": [{"name": "", "digest": {"sha256": "0" * 64}}]},
        {"subject": [{"digest": {"sha256": "0" * 64}}]},
        {"subject": [{"name": "a", "digest": {"sha256": "0" * 64}}] * 2},
        {"subject": [{"name": str(n), "digest": {"sha256": "0" * 64}} for n in range(1001)]},
        {"predicate": {"n": 1.5}},
        {"predicate": {"n": 2**53}},
    ],
)
def test_statements_that_are_none(fields: dict[str, Any]) -> None:
    with pytest.raises(VerificationError):
        statements.decode(json.dumps({**json.loads(GOOD.encode()), **fields}).encode())


def test_what_nobody_could_read_is_not_signed() -> None:
    with pytest.raises(VerificationError, match=r"2\^53"):
        replace(GOOD, predicate={"bytes": 2**60}).encode()


def test_unknown_fields_are_passed_over() -> None:
    assert statements.decode(json.dumps({**json.loads(GOOD.encode()), "later": {"x": 1}}).encode()) == GOOD


@given(
    st.builds(
        Leaf,
        number=st.integers(0, 2**63 - 1),
        kind=st.text(max_size=8),
        source=st.text(max_size=30),
        sequence=st.none() | st.integers(1, 2**63 - 1),
        recorded_ns=st.integers(-(2**63) + 1, 2**63 - 1),
        meta=st.text(max_size=40),
        body_sha256=st.binary(min_size=32, max_size=32),
    )
)
def test_leaf_round_trip(leaf: Leaf) -> None:
    assert leaves.decode(leaf.encode()) == leaf


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("number", 8),
        ("kind", "poll"),
        ("source", "node1-dpu1"),
        ("sequence", 4),
        ("sequence", None),
        ("recorded_ns", 1_001),
        ("meta", "{}"),
        ("body_sha256", bytes(32)),
    ],
)
def test_a_leaf_binds_everything(field: str, value: Any) -> None:
    assert replace(LEAF, **{field: value}).encode() != LEAF.encode()


ROW = '[7,"frame","a",3,1000,"{}","' + "0" * 64 + '"]'


@pytest.mark.parametrize(
    "row",
    [
        "",
        "[]",
        "{}",
        ROW[:-1],
        ROW.replace(",", ", ", 1),
        ROW.replace("7", "7.0", 1),
        ROW.replace("7", "true", 1),
        ROW.replace("7", "-7", 1),
        ROW.replace("7", str(2**63), 1),
        ROW.replace(",3,", ",0,"),
        ROW.replace(",3,", ",true,"),
        ROW.replace('"a"', '"\\u0061"'),
        ROW.replace('"a"', '"é"'),
        ROW.replace('"a"', "null"),
        ROW.replace('"a"', '"\\ud800"'),
        ROW.replace("1000", "NaN"),
        ROW.replace("0" * 64, "A" * 64),
        ROW.replace("0" * 64, "0" * 63),
        ROW[:-1] + ',"more"]',
        "[" * 50_000,
        '[7,"frame","' + "a" * leaves.MAX_LEAF_BYTES + '",3,1000,"{}","' + "0" * 64 + '"]',
    ],
)
def test_leaves_in_another_spelling(row: str) -> None:
    with pytest.raises(VerificationError):
        leaves.decode(leaves.PREFIX + row.encode())


def test_the_row_that_the_others_bend_is_read() -> None:
    assert leaves.decode(leaves.PREFIX + ROW.encode()).number == 7
    with pytest.raises(VerificationError):
        leaves.decode(ROW.encode())


def test_a_body_is_held_against_its_leaf() -> None:
    with pytest.raises(VerificationError, match="body of leaf 7"):
        LEAF.check_body(b"another")
