"""A report as a set of files: one content in all of them, whole or not at all, and a PDF where a browser is."""

from __future__ import annotations

import csv
import json
import re
import shutil
import stat
from dataclasses import dataclass
from pathlib import Path

import pytest

from controller.cli_results import Writing
from controller.crosscheck.check import crosscheck
from controller.crosscheck.model import CrossCheck, Period, SiteEvidence
from controller.errors import OperatorError
from controller.judgement import json_text
from controller.report_set import BROWSERS, bundle_path, write_pages
from tests.controller.crosscheck.scene import S, everywhere, link, site, steady

T0 = 120 * S
WRITING = Writing(1_790_000_000 * S, None)


@dataclass(frozen=True)
class Judged:
    evidence: SiteEvidence
    result: CrossCheck


@pytest.fixture(scope="module")
def judged() -> Judged:
    truth = steady(T0, T0 + 60 * S, 50_000)
    evidence = site(link(everywhere(truth), start=T0 - 20 * S, end=T0 + 80 * S), period=Period(T0, T0 + 60 * S))
    return Judged(evidence, crosscheck(evidence))


PRINTS = 'for each; do case "$each" in --print-to-pdf=*) printf "{}" >"${{each#*=}}";; esac; done'


def browser(folder: Path, script: str) -> None:
    path = folder / "bin" / "chromium"
    path.parent.mkdir()
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


def written(judged: Judged, folder: Path) -> list[str]:
    return list(write_pages(folder, [judged], WRITING, json_text([judged])))


def test_where_the_bundle_goes(tmp_path: Path) -> None:
    assert bundle_path(tmp_path / "x.bundle") == tmp_path / "x.bundle"
    assert bundle_path(tmp_path / "new" / "folder") == tmp_path / "new" / "folder" / "report.bundle"
    assert (tmp_path / "new" / "folder").is_dir()
    (tmp_path / "file").touch()
    assert bundle_path(tmp_path / "file") == tmp_path / "file"
    with pytest.raises(OperatorError, match="cannot be made"):
        bundle_path(tmp_path / "file" / "below")


def test_all_files_say_the_same(judged: Judged, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    browser(tmp_path, PRINTS.format("%%PDF-1.4"))
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    said = written(judged, tmp_path)
    assert {each.name for each in tmp_path.iterdir() if each.is_file()} == {
        f"report.{kind}" for kind in ("json", "csv", "html", "pdf")
    }
    result = json.loads((tmp_path / "report.json").read_text())
    rows = list(csv.DictReader((tmp_path / "report.csv").read_text().splitlines()))
    for row in rows:
        assert row["lower_bytes"] == result["links"][0]["observers"][row["observer"]]["lower_bytes"]
        assert row["verdict"] == result["verdict"]
    html = (tmp_path / "report.html").read_text()
    assert result["verdict"] in html
    assert f"{int(rows[0]['lower_bytes']):,}" in html
    assert said[-1] == f"{tmp_path / 'report.pdf'}: to print, 8 bytes"


@pytest.mark.parametrize("script", ["exit 1", "exit 0", "kill -9 $$", PRINTS.format("no PDF")])
def test_a_browser_that_does_not_print_is_named_and_everything_else_is_there(
    judged: Judged, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str
) -> None:
    browser(tmp_path, script)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    assert "not made" in written(judged, tmp_path)[-1]
    assert not (tmp_path / "report.pdf").exists()
    assert (tmp_path / "report.html").exists()


def test_without_a_browser_it_is_said(judged: Judged, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "no Chromium is installed" in written(judged, tmp_path)[-1]


def test_parts_have_a_page_each(judged: Judged, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    list(write_pages(tmp_path, [judged, judged], WRITING, json_text([judged, judged])))
    assert {each.name for each in tmp_path.glob("*.html")} == {"report-1.html", "report-2.html"}


def test_a_folder_that_cannot_be_written_is_named(judged: Judged, tmp_path: Path) -> None:
    with pytest.raises(OperatorError, match="cannot be written"):
        written(judged, tmp_path / "none")


def test_the_real_browser_prints_the_page_if_there_is_one(judged: Judged, tmp_path: Path) -> None:
    *_, said = written(judged, tmp_path)
    if not any(map(shutil.which, BROWSERS)):
        assert "no Chromium is installed" in said
        return
    assert "to print" in said
    pdf = (tmp_path / "report.pdf").read_bytes()
    assert pdf.startswith(b"%PDF-")
    assert len(re.findall(rb"/Type\s*/Page\b", pdf)) >= 2
