"""What the cross-check makes of this evidence: an honest site is never accused, a lying host always is."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from controller.crosscheck.check import crosscheck
from controller.crosscheck.model import CrossCheck, FindingKind, Period, Verdict
from controller.observations import end_of_evidence_ns, evidence
from controller.site import Site
from protos.reading import Direction

if TYPE_CHECKING:
    from tests.controller.observations.conftest import SimulatedSite

S = 1_000_000_000
START = 1_800_000_000 * S
Make = Callable[..., "SimulatedSite"]


def _check(simulated: SimulatedSite, site: Site, tmp_path: Path) -> CrossCheck:
    with simulated.build(tmp_path / "journal.db") as journal:
        end = end_of_evidence_ns(journal, site)
        assert end is not None
        return crosscheck(evidence(journal, site, Period(START + 10 * S, end)))


@pytest.mark.parametrize("seed", range(10))
def test_an_honest_site_is_never_accused(make_site: Make, site: Site, tmp_path: Path, seed: int) -> None:
    result = _check(make_site(seed), site, tmp_path)
    assert [finding for finding in result.findings if finding.certain] == []
    for link in result.links:
        assert link.verdict is Verdict.COMPLIANT, link.undecided
    assert result.verdict is Verdict.INCONCLUSIVE or result.verdict is Verdict.COMPLIANT


@pytest.mark.parametrize("seed", range(5))
def test_an_honest_site_with_every_trouble_is_never_accused(
    make_site: Make, site: Site, tmp_path: Path, seed: int
) -> None:
    simulated = make_site(seed, seconds=90)
    simulated.stopped, simulated.killed = [(20, 24)], bool(seed % 2)
    simulated.cut = [(30, 40)]
    simulated.cut_agents = {"node2-dpu0": [(50, 75)]}
    simulated.silent_agents = {"node1-dpu0": [(45, 55)]}
    simulated.silent_switch = [(60, 68)]
    simulated.lost_port = {"eth2": [(70, 76)]}
    result = _check(simulated, site, tmp_path)
    assert [finding for finding in result.findings if finding.certain] == []
    assert any(finding.kind is FindingKind.COVERAGE_GAP for finding in result.findings)


@pytest.mark.parametrize("seed", range(5))
def test_a_host_that_reports_a_hundredth_is_found(make_site: Make, site: Site, tmp_path: Path, seed: int) -> None:
    simulated = make_site(seed)
    simulated.claim = lambda name, value: value // 100 if name == "node1" else value
    result = _check(simulated, site, tmp_path)
    certain = [finding for finding in result.findings if finding.certain]
    assert {(finding.kind, finding.link) for finding in certain} == {(FindingKind.HOST_UNDER_REPORTS, "node1/p0")}
    assert result.verdict is Verdict.VIOLATION


def test_an_undeclared_port_that_moves_bytes_is_found(make_site: Make, site: Site, tmp_path: Path) -> None:
    simulated = make_site(1)
    simulated.undeclared = {"eth7": type(simulated.nodes[0].counter("host", Direction.EGRESS))(simulated.nodes[0].sent)}
    result = _check(simulated, site, tmp_path)
    [finding] = [finding for finding in result.findings if finding.certain]
    assert (finding.kind, finding.switch, finding.port) == (FindingKind.UNDECLARED_PORT, "sw1", "eth7")
    assert finding.bytes_at_least is not None
    assert finding.bytes_at_least > 1_000_000
    assert result.verdict is Verdict.VIOLATION


@pytest.mark.parametrize("seed", range(3))
def test_a_switch_staler_than_declared_is_found_and_accuses_nobody(
    make_site: Make, site: Site, tmp_path: Path, seed: int
) -> None:
    """The site file says 3.5 s, the switch copies its counters every 12 s: without widening, laws would break."""
    simulated = make_site(seed)
    simulated.copies_every_ns = 12 * S
    result = _check(simulated, site, tmp_path)
    assert [finding for finding in result.findings if finding.certain] == []
    [stale] = [finding for finding in result.findings if finding.kind is FindingKind.COUNTER_STALE]
    assert stale.switch == "sw1"
    assert "3.5 s old" in stale.text


def test_a_host_that_lies_is_found_even_beside_a_stale_switch(make_site: Make, site: Site, tmp_path: Path) -> None:
    simulated = make_site(1)
    simulated.copies_every_ns = 12 * S
    simulated.claim = lambda name, value: value // 100 if name == "node1" else value
    result = _check(simulated, site, tmp_path)
    assert {finding.kind for finding in result.findings if finding.certain} == {FindingKind.HOST_UNDER_REPORTS}
    assert result.verdict is Verdict.VIOLATION
