from __future__ import annotations

from controller.crosscheck.check import crosscheck
from controller.crosscheck.model import (
    Assumptions,
    FindingKind,
    Holds,
    Limit,
    Period,
    PortEvidence,
    Silence,
    Track,
    Unknown,
    Verdict,
)
from protos.reading import Direction, Observer, Reading
from tests.controller.crosscheck.scene import MS, S, Poller, Truth, everywhere, link, site, steady

T0 = 1_790_000_000 * S
PERIOD = Period(T0 - 5 * S, T0 + 65 * S)
LIMIT = Limit(10 * S, 10_000_000)
READ = {"start": T0 - 20 * S, "end": T0 + 80 * S}


def test_honest_traffic_below_the_limit_is_compliant() -> None:
    truth = steady(T0, T0 + 60 * S, 50_000)
    links = [link(everywhere(truth), direction=direction, limits=(LIMIT,), **READ) for direction in Direction]
    result = crosscheck(site(*links, period=PERIOD))
    assert result.verdict is Verdict.COMPLIANT
    assert result.findings == ()
    for one in result.links:
        assert one.verdict is Verdict.COMPLIANT
        assert one.coverage == 1.0
        assert all(law.holds is Holds.YES for law in one.laws)
        # Idle before and after: every observer is exact, whatever its cache.
        assert {(interval.lower, interval.upper) for interval in one.observers.values()} == {(3_000_000, 3_000_000)}
        assert one.hidden_bytes_bound == 0


def test_training_exceeds_the_limit_for_certain_and_nobody_is_accused() -> None:
    truth = steady(T0 + 10 * S, T0 + 40 * S, 20_000_000, frame=100_000)
    result = crosscheck(site(link(everywhere(truth), limits=(LIMIT,), **READ), period=PERIOD))
    assert [finding.kind for finding in result.findings] == [FindingKind.LIMIT_EXCEEDED]
    (finding,) = result.findings
    assert finding.certain
    assert finding.bytes_at_least is not None
    assert finding.bytes_at_least > 150_000_000
    assert result.verdict is Verdict.VIOLATION


def test_a_host_that_reports_a_hundredth_is_named_with_the_bytes_missing() -> None:
    truth = steady(T0 + 10 * S, T0 + 40 * S, 20_000_000, frame=100_000)
    result = crosscheck(site(link(everywhere(truth) | {Observer.HOST: truth.scaled(0.01)}, **READ), period=PERIOD))
    (finding,) = result.findings
    assert finding.kind is FindingKind.HOST_UNDER_REPORTS
    assert finding.certain
    assert finding.bytes_at_least == 594_000_000
    assert finding.margin
    assert result.links[0].verdict is Verdict.VIOLATION
