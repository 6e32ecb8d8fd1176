"""The page that names a test for each failure elsewhere names tests that there are."""

from __future__ import annotations

import re
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2]
PAGE = PROJECT / "docs" / "explanation" / "what-went-wrong-elsewhere.md"


def test_every_test_that_is_named_is_there() -> None:
    named = re.findall(r"`(tests/[\w/]+\.py)::(test_\w+)`", PAGE.read_text(encoding="utf-8"))
    assert len(named) > 25
    missing = [
        f"{path}::{name}"
        for path, name in named
        if f"\ndef {name}(" not in (PROJECT / path).read_text(encoding="utf-8")
    ]
    assert missing == []


def test_every_row_names_a_test() -> None:
    rows = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| ")][1:]
    assert [row for row in rows if "::test_" not in row and "---" not in row] == []
