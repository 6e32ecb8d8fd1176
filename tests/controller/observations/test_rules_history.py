"""``weighbridge rules history``: from the journal to what a link's traffic resembles."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from typer.testing import CliRunner

from controller.cli_rules import app
from controller.crosscheck.model import Period
from controller.observations import links
from controller.rules_history import flows
from controller.site import Site
from protos.reading import Direction

if TYPE_CHECKING:
    from tests.controller.observations.conftest import SimulatedSite

S = 1_000_000_000
START = 1_800_000_000 * S
Make = Callable[..., "SimulatedSite"]


def test_the_series_hold_what_passed(make_site: Make, site: Site, tmp_path: Path) -> None:
    simulated = make_site(1)
    period = Period(START + 10 * S, START + 50 * S)
    with simulated.build(tmp_path / "journal.db") as journal:
        found = {flow.name: flow for flow in flows(links(journal, site, period), period, step_ns=S)}
    assert sorted(found) == ["node1/p0", "node2/p0"]
    for node in simulated.nodes:
        flow = found[f"{node.name}/p0"]
        for series, direction in ((flow.outward, Direction.EGRESS), (flow.inward, Direction.INGRESS)):
            assert series is not None
            counter = node.counter("uplink", direction)
            # A reading is true within the width of the agent's clock: look that much around the edges.
            least = counter.at(period.to_ns - S) - counter.at(period.from_ns + S)
            most = counter.at(period.to_ns + S) - counter.at(period.from_ns - S)
            assert least <= series.volume(0, len(series.rate)) <= most


def test_the_command(make_site: Make, site: Site, tmp_path: Path) -> None:
    (tmp_path / "site.yaml").write_bytes(site.content)
    with make_site(1).build(tmp_path / "journal.db"):
        pass
    result = CliRunner().invoke(app, ["history", "--site", str(tmp_path / "site.yaml"), "--last", "1min", "--json"])
    assert result.exit_code in (0, 1), result.output
    names = [one["name"] for one in json.loads(result.stdout)["series"]]
    assert names == [f"node{number}/p0 {side}" for number in (1, 2) for side in ("egress", "ingress")]
    none = CliRunner().invoke(app, ["history", "--site", str(tmp_path / "site.yaml"), "--last", "1s"])
    assert none.exit_code == 3
    assert "no DPU's uplink" in none.stderr


@pytest.mark.parametrize("length", [0, 5])
def test_a_period_without_readings_has_no_link(make_site: Make, site: Site, tmp_path: Path, length: int) -> None:
    period = Period(START + 1_000 * S, START + (1_001 + length) * S)
    with make_site(1).build(tmp_path / "journal.db") as journal:
        assert flows(links(journal, site, period), period) == []
