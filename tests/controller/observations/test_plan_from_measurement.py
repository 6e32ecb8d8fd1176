"""``weighbridge plan propose --from-measurement``: needs from a journal."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from typer.testing import CliRunner

from controller.cli import app
from controller.planner import measured
from controller.site import Site

if TYPE_CHECKING:
    from tests.controller.observations.conftest import SimulatedSite

Make = Callable[..., "SimulatedSite"]
WORKLOADS = 'version = 1\n[pod]\nflops-per-s = "1.8e17"\nmfu = "0.4"\nlocal-batch-tokens = "4e6"\n'


def proposed(site: Site, folder: Path, *options: str) -> tuple[int, str]:
    (folder / "site.yaml").write_bytes(site.content)
    (folder / "w.toml").write_text(WORKLOADS, encoding="utf-8")
    arguments = ["plan", "propose", str(folder / "site.yaml"), "--workloads", str(folder / "w.toml")]
    arguments += ["-o", str(folder / "out"), "--slow-by", "2", "--adversary", "ddp", "--json", *options]
    done = CliRunner().invoke(app, arguments)
    return done.exit_code, done.output


def test_needs_are_percentiles_of_what_passed(
    make_site: Make, site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    simulated = make_site(1)
    with simulated.build(tmp_path / "journal.db"):
        pass
    # The journal of this test is a minute long: windows of a bin, and two of them are enough.
    monkeypatch.setattr(measured, "WINDOW_NS", 15_000_000_000)
    monkeypatch.setattr(measured, "LEAST_WINDOWS", 2)
    code, text = proposed(site, tmp_path, "--from-measurement", "45s", "--percentile", "100")
    assert code == 0, text
    found = json.loads(text[text.index("{") : text.rindex("}") + 1])
    assert {need["mark"] for need in found["needs"]} == {"measured"}
    assert {need["pod"] for need in found["needs"]} == {pod.name for pod in site.pods}
    assert {"the record", "measured need"} <= {each["name"] for each in found["assumptions"]}
    largest = max(need["bytes_per_s"] for need in found["needs"])
    assert largest > 0
    assert found["buckets"]["front-end"]["rate_bytes_per_s"] == pytest.approx(2 * largest, abs=2)


def test_a_short_record_is_no_percentile(make_site: Make, site: Site, tmp_path: Path) -> None:
    with make_site(1).build(tmp_path / "journal.db"):
        pass
    code, text = proposed(site, tmp_path, "--from-measurement", "45s")
    assert code == 2
    assert "shorter than five minutes" in text
    assert not (tmp_path / "out").exists()
