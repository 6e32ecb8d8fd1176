"""The pages that name a test for each failure elsewhere name tests that there are."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parents[2]
EXPLANATIONS = PROJECT / "docs" / "explanation"
PAGES = pytest.mark.parametrize("page", ["what-went-wrong-elsewhere.md", "switch-counters.md"])


@PAGES
def test_every_test_that_is_named_is_there(page: str) -> None:
    named = re.findall(r"`(tests/[\w/]+\.py)::(test_\w+)`", (EXPLANATIONS / page).read_text(encoding="utf-8"))
    assert len(named) > 25
    missing = [
        f"{path}::{name}"
        for path, name in named
        if f"\ndef {name}(" not in (PROJECT / path).read_text(encoding="utf-8")
    ]
    assert missing == []


@PAGES
def test_every_row_names_a_test(page: str) -> None:
    rows = [line for line in (EXPLANATIONS / page).read_text(encoding="utf-8").splitlines() if line.startswith("| ")][
        1:
    ]
    assert [row for row in rows if "::test_" not in row and "---" not in row] == []
