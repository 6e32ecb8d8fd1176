"""Rows are a table where they fit, and whole where they do not."""

from __future__ import annotations

import pytest

from controller.cli_rows import print_rows

HEADINGS = ("agent", "port", "table", "by class")
ROWS = [
    ("node1-dpu0", "p0", "205081b290f0", "other-pod 1.25 GB, same-pod 22.0 MB"),
    ("node1-dpu0", "pf0hpf", "", "nothing"),
]


@pytest.mark.parametrize("columns", ["20", "40", "80", "200"])
def test_nothing_is_cut_at_any_width(
    columns: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    print_rows(HEADINGS, ROWS, names=2)
    told = " ".join(capsys.readouterr().out.split())
    for cell in (cell for row in ROWS for cell in row):
        assert cell in told


def test_a_table_where_it_fits_else_a_block_a_row(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    print_rows(HEADINGS, ROWS, names=2)
    assert capsys.readouterr().out.splitlines()[0].split() == ["agent", "port", "table", "by", "class"]
    monkeypatch.setenv("COLUMNS", "40")
    print_rows(HEADINGS, ROWS, names=2)
    assert capsys.readouterr().out.splitlines() == [
        "node1-dpu0 p0",
        "    table: 205081b290f0; by class:",
        "    other-pod 1.25 GB, same-pod 22.0 MB",
        "node1-dpu0 pf0hpf",
        "    by class: nothing",
    ]


def test_what_a_device_says_is_text(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    print_rows(("agent", "says"), [("[red]dpu", "\x1b[2Jgone")])
    assert "[red]dpu  ?[2Jgone" in capsys.readouterr().out
