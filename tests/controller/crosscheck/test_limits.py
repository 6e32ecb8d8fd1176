"""How many trust domains must prove a limit exceeded or kept, and which of them may."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest

from controller.crosscheck.case import Case
from controller.crosscheck.limits import judge_limit
from controller.crosscheck.model import Assumptions, Holds, Limit, LimitResult, LinkEvidence, Period, Track
from protos.reading import Direction, Observer, Reading, TrustDomain
from tests.controller.crosscheck.scene import S, everywhere, link, steady

T0 = 1_790_000_000 * S
PERIOD = Period(T0 - 5 * S, T0 + 65 * S)
LIMIT = Limit(10 * S, 10_000_000)
HOST, DPU, SWITCH = TrustDomain
QUIET, LOUD = steady(T0, T0 + 60 * S, 50_000), steady(T0, T0 + 60 * S, 5_000_000, frame=50_000)
DOMAINS = {
    HOST: [Observer.HOST],
    DPU: [Observer.DPU_HOST_PORT, Observer.DPU_UPLINK],
    SWITCH: [Observer.SWITCH],
}


def evidence(loud: set[TrustDomain], silent: set[TrustDomain], direction: Direction) -> LinkEvidence:
    said = everywhere(QUIET) | {observer: LOUD for domain in loud for observer in DOMAINS[domain]}
    built = link(said, direction=direction, start=T0 - 20 * S, end=T0 + 80 * S)
    nothing = {observer: Track(observer, ()) for domain in silent for observer in DOMAINS[domain]}
    return replace(built, tracks={**built.tracks, **nothing})


def judged(one: LinkEvidence, liars: int, limit: Limit = LIMIT, **more: int) -> LimitResult:
    case = Case.of(one, Assumptions(liars=liars, **more), PERIOD)
    return judge_limit(limit, [case], PERIOD.from_ns)


@pytest.mark.parametrize("liars", [0, 1, 2, 3])
@pytest.mark.parametrize("direction", list(Direction))
def test_every_choice_of_domains_that_show_an_excess_or_are_silent(liars: int, direction: Direction) -> None:
    for states in itertools.product(("loud", "quiet", "silent"), repeat=3):
        shown = dict(zip(TrustDomain, states, strict=True))
        loud = {domain for domain, state in shown.items() if state == "loud"}
        quiet = {domain for domain, state in shown.items() if state == "quiet"}
        result = judged(evidence(loud, {d for d, s in shown.items() if s == "silent"}, direction), liars)
        # What a host says it received bounds nothing that was sent to it.
        keeping = quiet if direction is Direction.EGRESS else quiet - {HOST}
        assert set(result.exceeded_by) == loud
        assert set(result.kept_by) == keeping
        if len(loud) > liars and loud != {HOST}:
            assert result.holds is Holds.NO
        elif len(keeping) > liars and keeping != {HOST}:
            assert result.holds is Holds.YES
        else:
            assert result.holds is Holds.UNKNOWN
            assert "not proven kept" in result.text


def test_the_worst_window_is_given_with_its_start_and_what_it_certainly_held() -> None:
    burst = steady(T0 + 20 * S, T0 + 25 * S, 5_000_000, frame=50_000)
    built = link(everywhere(burst), start=T0 - 20 * S, end=T0 + 80 * S)
    result = judged(built, 1)
    assert result.holds is Holds.NO
    assert result.worst_from_ns is not None
    true = burst.between(result.worst_from_ns, result.worst_from_ns + LIMIT.window_ns)
    assert LIMIT.bytes < result.worst_at_least_bytes <= true
    assert result.worst_at_most_bytes == 25_000_000
    assert "exceeded for certain (at most 10.0 MB sent in any 10 s)" in result.text


def test_the_dpus_other_port_speaks_for_the_cable_within_what_may_lie_between() -> None:
    """Only the host port is there: kept or exceeded by more than the DPU's own traffic and drops can be."""
    for truth, holds in ((QUIET, Holds.YES), (LOUD, Holds.NO)):
        whole = link(everywhere(truth), start=T0 - 20 * S, end=T0 + 80 * S)
        one = replace(whole, tracks={who: whole.tracks[who] for who in (Observer.DPU_HOST_PORT, Observer.DPU_UPLINK)})
        silent = replace(one.tracks[Observer.DPU_UPLINK], readings=())
        only = replace(one, tracks={**one.tracks, Observer.DPU_UPLINK: silent})
        assert judged(only, 0).holds is holds
        assert judged(only, 0, in_flight_bytes=100_000_000).holds is Holds.UNKNOWN
        # Without drop counters on both ports, less may have reached the cable, but not more.
        no_drops = {who: replace(track, drop_packets=()) for who, track in only.tracks.items()}
        blind = judged(replace(only, tracks=no_drops), 0)
        assert blind.holds is (Holds.YES if holds is Holds.YES else Holds.UNKNOWN)


def test_what_could_be_proven_is_said_when_nothing_is() -> None:
    truth = steady(T0, T0 + 60 * S, 900_000)
    built = link(everywhere(truth), start=T0 - 20 * S, end=T0 + 80 * S)
    slow = replace(
        built.tracks[Observer.SWITCH],
        readings=tuple(
            Reading(T0 + at * S - 3 * S, T0 + at * S, 900_000 * max(0, min(at, 60))) for at in range(-20, 85, 20)
        ),
    )
    result = judged(replace(built, tracks={**built.tracks, Observer.SWITCH: slow}), 2)
    assert result.holds is Holds.UNKNOWN
    # 10 MB over 10 s + 2 * (20 s + 3 s), rounded down
    assert "a steady 178 kB/s is the most that can be proven" in result.text


def test_what_a_load_window_let_in_is_neither_an_excess_nor_a_proof_that_the_limit_was_kept() -> None:
    burst = steady(T0 + 20 * S, T0 + 25 * S, 5_000_000, frame=50_000)
    built = link(everywhere(burst), direction=Direction.INGRESS, start=T0 - 20 * S, end=T0 + 80 * S)
    assert judged(built, 1).holds is Holds.NO
    explained = judged(replace(built, load_bytes=15_000_000), 1)
    assert explained.holds is Holds.UNKNOWN
    assert explained.exceeded_by == ()
    assert "beside the load windows, which let 15.0 MB in" in explained.text
    # More than limit and load windows together is an excess all the same, and a quiet node is compliant as ever.
    assert judged(replace(built, load_bytes=14_000_000), 1).holds is Holds.NO
    quiet = link(everywhere(QUIET), direction=Direction.INGRESS, start=T0 - 20 * S, end=T0 + 80 * S)
    assert judged(replace(quiet, load_bytes=15_000_000), 1).holds is Holds.YES
