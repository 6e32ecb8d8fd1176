"""Each breach says how wrong an assumption would have to be: a little less leaves it, a little more dissolves it."""

from __future__ import annotations

import random
import re
from dataclasses import replace

import pytest

from controller.crosscheck.breach import greatest_breach
from controller.crosscheck.case import Case
from controller.crosscheck.check import crosscheck
from controller.crosscheck.judging import judge
from controller.crosscheck.laws import LAWS, sides
from controller.crosscheck.model import Assumptions, FindingKind, Holds, Period, Track, Unknown
from protos.reading import Direction, Observer, Reading
from protos.units import parse_duration_ns
from tests.controller.crosscheck.scene import DPU, SWITCH, Poller, S, Truth, everywhere, link, site, steady

T0 = 1_790_000_000 * S
PERIOD = Period(T0 - 5 * S, T0 + 65 * S)
LAW = {law.name: law for law in LAWS[Direction.EGRESS]}


def bursts(seed: int) -> Truth:
    rng = random.Random(seed)
    return Truth(tuple(sorted((T0 + rng.randint(0, 60 * S), rng.randint(100, 1_000_000)) for _ in range(60))))


@pytest.mark.parametrize("seed", range(8))
def test_the_margin_is_where_the_breach_dissolves(seed: int) -> None:
    truth = bursts(seed)
    said = everywhere(truth) | {Observer.HOST: truth.scaled(random.Random(seed).uniform(0.3, 0.97))}
    case = Case.of(link(said, start=T0 - 20 * S, end=T0 + 80 * S, seed=seed), Assumptions(), PERIOD)
    law = LAW["dpu.host_port <= host"]
    result = judge(law, case)
    assert result.holds is Holds.NO
    assert result.margin_ns is not None

    def holds(error: int) -> Holds:
        wider = {who: one.widened(error, error) for who, one in case.seen.items()}
        concrete = sides(law, wider, case.assumptions)
        broken = greatest_breach(concrete, -1_000 * S, 1_000 * S) is not None
        return Holds.NO if broken else Holds.UNKNOWN

    assert holds(result.margin_ns) is Holds.NO
    assert holds(result.margin_ns + result.margin_ns // 100 + 2_000) is not Holds.NO


@pytest.mark.parametrize("true_refresh", [6, 10])
def test_a_refresh_period_longer_than_declared_is_the_printed_explanation(true_refresh: int) -> None:
    """Everybody honest, but the switch serves counters up to 10 s old and is declared to serve them 3 s old."""
    truth = steady(T0 + 5 * S, T0 + 55 * S, 20_000_000, frame=100_000)
    slow = Poller(refresh=true_refresh * S, declared_refresh=3 * S)
    evidence = site(
        link(everywhere(truth), pollers={Observer.SWITCH: slow}, start=T0 - 20 * S, end=T0 + 80 * S), period=PERIOD
    )
    result = crosscheck(evidence)
    (finding,) = [one for one in result.findings if one.certain]
    assert finding.kind is FindingKind.OBSERVERS_DISAGREE
    found = re.search(r"the switch port refreshes more than ([0-9.]+ m?s) later than its declared 3 s", finding.margin)
    assert found is not None, finding.margin
    assert parse_duration_ns(found[1].replace(" ", "")) <= (true_refresh - 3) * S
    # Declared truly, nobody is accused.
    true = Poller(refresh=true_refresh * S)
    honest = link(everywhere(truth), pollers={Observer.SWITCH: true}, start=T0 - 20 * S, end=T0 + 80 * S)
    assert not any(one.certain for one in crosscheck(site(honest, period=PERIOD)).findings)


def test_a_clock_further_off_than_its_bound_is_an_explanation_too() -> None:
    truth = steady(T0 + 5 * S, T0 + 55 * S, 20_000_000, frame=100_000)
    evidence = link(everywhere(truth), pollers={Observer.SWITCH: DPU}, start=T0 - 20 * S, end=T0 + 80 * S)
    rng = random.Random(1)
    fast = DPU.read(truth, Observer.DPU_UPLINK, T0 - 20 * S, T0 + 80 * S, rng, clock_width_ns=1_000_000)
    ahead = replace(
        fast,
        readings=tuple(
            replace(one, earliest_ns=one.earliest_ns + 2 * S, latest_ns=one.latest_ns + 2 * S) for one in fast.readings
        ),
    )
    tracks = {Observer.DPU_UPLINK: ahead, Observer.SWITCH: evidence.tracks[Observer.SWITCH]}
    result = crosscheck(site(replace(evidence, tracks=tracks), period=PERIOD))
    (finding,) = [one for one in result.findings if one.certain]
    found = re.search(r"the clock of the DPU's uplink is wrong by more than ([0-9.]+) s beyond", finding.margin)
    assert found is not None, finding.margin
    assert 0.5 < float(found[1]) <= 2.01


def test_only_an_error_as_long_as_the_silence_around_it_explains_what_was_never_counted() -> None:
    truth = steady(T0, T0 + 60 * S, 1_000_000)
    said = everywhere(truth) | {Observer.HOST: Truth(())}
    evidence = link(said, start=T0 - 500 * S, end=T0 + 600 * S, pollers={Observer.SWITCH: SWITCH})
    (one,) = crosscheck(site(evidence, period=Period(T0 - 5 * S, T0 + 65 * S))).links
    law = next(law for law in one.laws if law.law == "dpu.host_port <= host")
    assert law.holds is Holds.NO
    # Ten minutes of silence on either side: less than a quarter of the evidence explains nothing.
    assert law.margin_ns is not None
    assert law.margin_ns > 250 * S


@pytest.mark.parametrize(
    ("own_rate", "count"),
    [(None, 10_000_000), (10_000_000, 10_000_000), (1_500_000, 1_400_000), (1_000_000, 10_000_000)],
)
def test_a_breach_that_needs_the_line_rate_says_so(own_rate: int | None, count: int) -> None:
    # The switch moved more within a second than the DPU's line can; its readings around leave that open otherwise.
    said = (Reading(T0, T0, 0), Reading(T0 + S, T0 + S, count))
    switch = Track(Observer.SWITCH, said, own_rate, 1_514)
    around = Track(
        Observer.DPU_UPLINK,
        (Reading(T0 - 50 * S, T0 - 50 * S, 0), Reading(T0 + 50 * S, T0 + 50 * S, 10_000_000)),
        line_rate_bytes_per_s=1_000_000,
        step_bytes=1_514,
    )
    evidence = link({}, start=T0, end=T0)
    tracks = {Observer.SWITCH: switch, Observer.DPU_UPLINK: around}
    (one,) = crosscheck(site(replace(evidence, tracks=tracks), period=Period(T0, T0 + S))).links
    law = next(law for law in one.laws if law.law == "switch <= dpu.uplink")
    if own_rate == 1_000_000:
        # Its own line cannot have carried it: the switch contradicts itself and breaks no law.
        assert law.unknown_because is Unknown.CONTRADICTION
        return
    assert law.holds is Holds.NO
    assert law.gap_at_least_bytes == count - 1_000_000 - 1_514
    assert "it rests on the declared line rate" in law.margin
