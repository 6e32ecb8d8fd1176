"""Bytes that were once read are read for ever; bytes that must be refused are."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from controller import journal_leaf as leaf
from controller.evidence import statement
from controller.evidence.checkpoint import check_quorum, open_checkpoint
from controller.evidence.envelope import open_envelope
from controller.evidence.note import decode_key
from controller.evidence.refusal import VerificationError

FOLDER = Path(__file__).resolve().parents[2] / "vectors" / "evidence"
INDEX = json.loads((FOLDER / "index.json").read_text(encoding="utf-8"))


def read(kind: str, raw: bytes) -> Any:
    keys = INDEX["keys"]
    if kind == "envelope":
        return statement.decode(open_envelope(raw, [bytes.fromhex(keys["report"])], 1))
    if kind == "checkpoint":
        found, note = open_checkpoint(raw, decode_key(keys["log"]))
        return found, check_quorum(note, [decode_key(keys["witness"])], 1)
    return {"statement": statement.decode, "leaf": leaf.decode}[kind](raw)


@pytest.mark.parametrize("name", INDEX["files"])
def test_every_vector(name: str) -> None:
    case = INDEX["files"][name]
    raw = (FOLDER / name).read_bytes()
    if case["good"]:
        assert read(case["kind"], raw)
        return
    assert case["why"]
    assert "_fail" in name
    with pytest.raises(VerificationError):
        read(case["kind"], raw)


def test_every_file_is_listed() -> None:
    assert {path.name for path in FOLDER.iterdir()} == {"index.json", *INDEX["files"]}
