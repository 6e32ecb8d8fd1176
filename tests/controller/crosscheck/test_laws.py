"""The law test against a linear programme: broken for certain exactly when no two counters fit all readings."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from controller.crosscheck.breach import greatest_breach
from controller.crosscheck.case import Case
from controller.crosscheck.check import crosscheck
from controller.crosscheck.exact import Rate
from controller.crosscheck.framing import padding
from controller.crosscheck.judging import judge
from controller.crosscheck.laws import LAWS, Sides
from controller.crosscheck.model import Assumptions, Holds, LawResult, LinkEvidence, Period, Unknown
from controller.crosscheck.quantity import Steady, bounds
from protos.reading import Framing, Observer, Reading
from tests.controller.crosscheck.cases import cases
from tests.controller.crosscheck.oracle import Said
from tests.controller.crosscheck.scene import MS, Poller, S, Truth, everywhere, link, site, steady
from tests.controller.crosscheck.test_envelope import account

LAST = 12


@dataclass(frozen=True)
class Counter:
    """What was read of a counter, and the line rate that it keeps."""

    said: list[Said]
    rate: int | None
    step: int


def fits(left: Counter, right: Counter, in_flight: int) -> bool:
    """Whether two counters exist with ``X(s,t] <= Y(s,t] + Q`` for all s < t, by a linear programme."""
    count = LAST + 1
    rows, limits = [], []

    def at_most(terms: dict[int, float], most: float) -> None:
        row = np.zeros(2 * count)
        for index, factor in terms.items():
            row[index] += factor
        rows.append(row)
        limits.append(most)

    for base in (0, count):
        for t in range(LAST):
            at_most({base + t: 1, base + t + 1: -1}, 0)
    for base, counter in ((0, left), (count, right)):
        if counter.rate is not None:
            for s, t in itertools.combinations(range(count), 2):
                at_most({base + t: 1, base + s: -1}, counter.rate * (t - s) + counter.step)
        for one in counter.said:
            at_most({base + one.earliest: 1}, one.value)
            at_most({base + one.latest: -1}, -one.value)
    for s, t in itertools.combinations(range(count), 2):
        at_most({t: 1, s: -1, count + t: -1, count + s: 1}, in_flight)
    solved = linprog(np.zeros(2 * count), A_ub=np.array(rows), b_ub=np.array(limits), bounds=[(None, None)] * 2 * count)
    assert solved.status in (0, 2), solved.message
    return bool(solved.status == 0)


@st.composite
def counters(draw: st.DrawFn) -> Counter:
    """Readings of a counter, consistent in themselves."""
    rate, step = draw(st.sampled_from([(None, 0), (None, 0), (3, 0), (3, 2)]))
    counter = [draw(st.integers(0, 5))]
    for _ in range(LAST):
        counter.append(counter[-1] + draw(st.integers(0, 5 if rate is None else rate)))
    said = []
    width = draw(st.sampled_from([1, 2, 6]))
    for _ in range(draw(st.integers(1, 5))):
        at = draw(st.integers(0, LAST))
        first, last = draw(st.integers(max(0, at - width), at)), draw(st.integers(at, min(LAST, at + width)))
        said.append(Said(first, last, counter[at]))
    return Counter(said, rate, step)


@settings(max_examples=cases(1000), deadline=None)
@given(counters(), counters(), st.integers(0, 6))
def test_broken_exactly_when_the_linear_programme_has_no_solution(
    left: Counter, right: Counter, in_flight: int
) -> None:
    first, second = (account(*one.said, rate=one.rate, step=one.step) for one in (left, right))
    carried = None if right.rate is None else (Steady(Rate(right.rate, 1)), in_flight + right.step)
    breach = greatest_breach(Sides(first, second, second, in_flight, carried), 0, LAST)
    assert (breach is None) == fits(left, right, in_flight)


T0 = 1_790_000_000 * S
PERIOD = Period(T0 - 5 * S, T0 + 65 * S)
START, END = T0 - 20 * S, T0 + 80 * S


def laws(
    evidence: LinkEvidence, assumptions: Assumptions | None = None, period: Period = PERIOD
) -> dict[str, LawResult]:
    (one,) = crosscheck(site(evidence, assumptions=assumptions, period=period)).links
    return {law.law: law for law in one.laws}


def test_a_liar_hides_the_same_amount_in_every_window_only_once() -> None:
    """1,000 bytes hidden a second: each second alone is within what the readings leave open, a minute is not."""
    truth = steady(T0, T0 + 60 * S, 100_000)
    evidence = link(everywhere(truth) | {Observer.HOST: truth.scaled(0.99)}, start=START, end=END)
    (_, host) = (evidence.tracks[Observer.DPU_HOST_PORT], evidence.tracks[Observer.HOST])
    case = Case.of(evidence, Assumptions(), PERIOD)
    seen = case.seen[Observer.HOST]
    least, most = bounds(seen.bytes, 35 * S, 36 * S)
    assert most is not None
    assert most - least > 1_000
    assert len(host.readings) > 50
    assert laws(evidence)["dpu.host_port <= host"].gap_at_least_bytes == 60_000


def test_credit_from_having_said_too_much_before_does_not_hide_a_later_lie() -> None:
    """From the start of the period the host has said 5 MB too much; then it hides 4 MB. In the middle that shows."""
    early = Truth(tuple((T0 + index * 10 * MS, 1_000) for index in range(1_000)))
    late = Truth(tuple((T0 + 40 * S + index * 10 * MS, 10_000) for index in range(500)))
    truth = Truth(early.frames + late.frames)
    said = Truth(tuple((at, 6_000) for at, _ in early.frames) + tuple((at, 2_000) for at, _ in late.frames))
    result = laws(link(everywhere(truth) | {Observer.HOST: said}, start=START, end=END))["dpu.host_port <= host"]
    assert said.between(T0 - S, END) > truth.between(T0 - S, END)
    assert result.holds is Holds.NO
    assert result.gap_at_least_bytes == 4_000_000
    assert result.from_ns is not None
    assert T0 + 10 * S < result.from_ns < T0 + 41 * S


def test_resets_let_a_liar_hide_at_most_what_the_printed_bound_says() -> None:
    truth = steady(T0, T0 + 60 * S, 100_000)
    often = {Observer.DPU_UPLINK: Poller(resets=tuple(T0 + at * S for at in (10, 20, 30, 40, 50)))}
    once, many = (laws(link(everywhere(truth), pollers=pollers, start=START, end=END)) for pollers in ({}, often))
    name = "switch <= dpu.uplink"
    assert once[name].hidden_bytes_bound == 0
    assert (many[name].hidden_bytes_bound or 0) > 1_000_000


@pytest.mark.parametrize("framing", list(Framing))
@pytest.mark.parametrize("with_packets", [True, False])
def test_framing_is_converted_and_never_accuses(framing: Framing, with_packets: bool) -> None:
    truth = steady(T0, T0 + 60 * S, 100_000, frame=200)
    poller = {Observer.SWITCH: Poller(refresh=3 * S, framing=framing, with_packets=with_packets)}
    evidence = site(link(everywhere(truth), pollers=poller, start=START, end=END), period=PERIOD)
    result = crosscheck(evidence)
    assert not any(finding.certain for finding in result.findings)
    interval = result.links[0].observers[Observer.SWITCH]
    if framing is Framing.L2_WITHOUT_FCS or with_packets:
        assert (interval.lower, interval.upper) == (6_000_000, 6_000_000)
    else:
        over = framing.bytes_per_frame_over_l2
        counted = 30_000 * (200 + over)
        assert (interval.lower, interval.upper) == (counted * 60 // (60 + over), counted)


def test_a_lie_of_four_bytes_a_frame_does_not_hide_behind_the_framing() -> None:
    truth = steady(T0, T0 + 60 * S, 100_000, frame=200)
    short = Truth(tuple((at, size - 4) for at, size in truth.frames))
    poller = {Observer.SWITCH: Poller(refresh=3 * S, framing=Framing.L2_WITH_FCS)}
    said = everywhere(truth) | {Observer.HOST: short}
    assert laws(link(said, pollers=poller, start=START, end=END))["switch <= host"].gap_at_least_bytes == 120_000


def test_counted_drops_explain_what_did_not_come_out_and_no_more() -> None:
    truth = steady(T0, T0 + 60 * S, 100_000)
    kept = Truth(truth.frames[::2])
    dropped = Truth(truth.frames[1::2])
    said = {observer: truth if observer in (Observer.HOST, Observer.DPU_HOST_PORT) else kept for observer in Observer}
    evidence = link(said, start=START, end=END)
    name = "dpu.host_port <= dpu.uplink + drops"
    assert laws(evidence)[name].gap_at_least_bytes == 3_000_000

    def with_drops(count: Truth) -> LinkEvidence:
        readings = tuple(Reading(at, at, count.packets(at)) for at in range(T0 - 10 * S, T0 + 75 * S, 10 * S))
        track = replace(evidence.tracks[Observer.DPU_HOST_PORT], drop_packets=readings)
        return replace(evidence, tracks={**evidence.tracks, Observer.DPU_HOST_PORT: track})

    largest = Assumptions(largest_frame_bytes=1_000)
    assert laws(with_drops(dropped), largest)[name].holds is Holds.YES
    # What drop counters leave open grows with the traffic, and is said.
    assert laws(with_drops(dropped), largest)[name].hidden_bytes_bound == 3_000_000
    assert laws(with_drops(Truth(dropped.frames[:2000])), largest)[name].gap_at_least_bytes == 1_000_000


@pytest.mark.parametrize(
    ("law", "field", "needed"),
    [
        ("switch <= dpu.uplink", "control_bytes_per_s", 100),
        ("switch <= dpu.uplink", "in_flight_bytes", 6_000),
        ("dpu.uplink <= dpu.host_port", "dpu_own_bytes_per_s", 100),
        ("dpu.host_port <= host", "late_completion_bytes", 6_000),
    ],
)
def test_each_allowance_explains_exactly_as_much_as_is_declared(law: str, field: str, needed: int) -> None:
    """100 bytes more a second at one observer for a minute, which the allowance covers or does not."""
    truth = steady(T0, T0 + 60 * S, 100_000)
    more = Truth(tuple((at, size + 1) for at, size in truth.frames))
    left, right = law.split(" <= ")
    order = [observer.value for observer in Observer]
    # Everybody from the left observer on, away from the right one, saw the larger count.
    said = {
        observer: more
        if (order.index(observer.value) - order.index(right)) * (order.index(left) - order.index(right)) > 0
        else truth
        for observer in Observer
    }
    evidence = link(said, start=START, end=END)
    enough, short = ({field: needed}, {field: needed - 1 if needed > 1_000 else needed // 2})
    assert laws(evidence, Assumptions(**enough))[law].holds is Holds.YES
    assert laws(evidence, Assumptions(**short))[law].holds is Holds.NO


def test_the_padding_that_a_host_does_not_count_is_allowed_for_and_no_more() -> None:
    """Acknowledgements of 42 bytes travel as 60: the host counts 42, the wire 60."""
    truth = Truth(tuple((T0 + index * 10 * MS, 60) for index in range(6_000)))
    counted = Truth(tuple((at, 42) for at, _ in truth.frames))

    def unpadded(count: Truth, *, declared: bool) -> LawResult:
        evidence = link(everywhere(truth) | {Observer.HOST: count}, start=START, end=END)
        host = replace(evidence.tracks[Observer.HOST], unpadded=declared)
        tracks = {**evidence.tracks, Observer.HOST: host}
        return laws(replace(evidence, tracks=tracks), Assumptions(largest_frame_bytes=1_514))["dpu.host_port <= host"]

    assert unpadded(counted, declared=False).gap_at_least_bytes == 6_000 * 18
    assert unpadded(counted, declared=True).holds is Holds.YES
    # A frame can be padded by no more than 46 bytes: hidden frames are not explained by it.
    fewer = Truth(counted.frames[::2])
    assert unpadded(fewer, declared=True).holds is Holds.NO


def test_super_packets_are_allowed_the_headers_they_repeat_and_no_more() -> None:
    """A host that segments in its card counts 64 kB once; the wire carries 44 frames with their own headers."""
    wire = Truth(tuple((T0 + index * 10 * MS + part, 1_514) for index in range(500) for part in range(44)))
    host = Truth(tuple((T0 + index * 10 * MS, 44 * 1_448 + 66) for index in range(500)))
    evidence = link(everywhere(wire) | {Observer.HOST: host}, start=START, end=END)

    def judged(header: tuple[int, int] | None) -> LawResult:
        track = replace(evidence.tracks[Observer.HOST], super_packet_header_bytes=header)
        return laws(replace(evidence, tracks={**evidence.tracks, Observer.HOST: track}))["dpu.host_port <= host"]

    assert judged(None).gap_at_least_bytes == 500 * 43 * 66
    assert judged((54, 66)).holds is Holds.YES
    assert judged((54, 60)).gap_at_least_bytes == 500 * 43 * 6


def test_padding_bounds() -> None:
    assert padding(42 * 100, 100, 1_514) == (1_800, min(4_600, 46 * (1_514 * 100 - 4_200) // 1_500))
    assert padding(1_514 * 100, 100, 1_514) == (0, 0)


def test_every_law_names_observers_in_their_order_and_is_unknown_without_them() -> None:
    for direction, table in LAWS.items():
        nothing = Case.of(replace(link({}, start=START, end=END), direction=direction), Assumptions(), PERIOD)
        for law in table:
            result = judge(law, nothing)
            assert result.holds is Holds.UNKNOWN
            assert result.unknown_because is Unknown.BY_DESIGN
            left, right = law.name.split(" <= ")
            assert left == law.left.value
            assert right.split(" + ")[0] == law.right.value
