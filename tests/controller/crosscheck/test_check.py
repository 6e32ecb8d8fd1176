"""The cross-check of whole sites: who is named, what is left open, and what decides it."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from controller.crosscheck.check import crosscheck
from controller.crosscheck.model import (
    FindingKind,
    Holds,
    KnownWeight,
    Limit,
    Period,
    PortEvidence,
    Silence,
    Track,
    Unknown,
    Verdict,
)
from protos.reading import Direction, Observer, Reading
from tests.controller.crosscheck.scene import MS, Poller, S, Truth, everywhere, link, site, steady

T0 = 1_790_000_000 * S
PERIOD = Period(T0 - 5 * S, T0 + 65 * S)
LIMIT = Limit(10 * S, 10_000_000)
START, END = T0 - 20 * S, T0 + 80 * S


def test_honest_traffic_below_the_limit_is_compliant() -> None:
    truth = steady(T0, T0 + 60 * S, 50_000)
    links = [
        link(everywhere(truth), direction=direction, limits=(LIMIT,), start=START, end=END) for direction in Direction
    ]
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
    result = crosscheck(site(link(everywhere(truth), limits=(LIMIT,), start=START, end=END), period=PERIOD))
    assert [finding.kind for finding in result.findings] == [FindingKind.LIMIT_EXCEEDED]
    (finding,) = result.findings
    assert finding.certain
    assert finding.bytes_at_least is not None
    assert finding.bytes_at_least > 150_000_000
    assert result.verdict is Verdict.VIOLATION


def test_a_host_that_reports_a_hundredth_is_named_with_the_bytes_missing() -> None:
    truth = steady(T0 + 10 * S, T0 + 40 * S, 20_000_000, frame=100_000)
    result = crosscheck(
        site(link(everywhere(truth) | {Observer.HOST: truth.scaled(0.01)}, start=START, end=END), period=PERIOD)
    )
    (finding,) = result.findings
    assert finding.kind is FindingKind.HOST_UNDER_REPORTS
    assert finding.certain
    assert finding.bytes_at_least == 594_000_000
    assert finding.margin
    assert result.links[0].verdict is Verdict.VIOLATION


def test_a_host_cannot_buy_itself_out_with_packets_that_do_not_go_with_its_bytes() -> None:
    truth = steady(T0 + 10 * S, T0 + 40 * S, 2_000_000, frame=1_000)
    # Bytes scaled down, packets not: ten bytes a frame, which no frame has.
    said = everywhere(truth) | {Observer.HOST: truth.scaled(0.01)}
    result = crosscheck(site(link(said, start=START, end=END), period=PERIOD))
    (finding,) = result.findings
    assert finding.kind is FindingKind.HOST_UNDER_REPORTS
    assert finding.certain
    assert finding.bytes_at_least == 59_400_000
    assert result.verdict is Verdict.VIOLATION


def test_a_host_that_claims_to_have_received_too_much_is_named() -> None:
    truth = steady(T0 + 10 * S, T0 + 40 * S, 1_000_000)
    said = everywhere(truth) | {Observer.HOST: truth.scaled(1.5)}
    result = crosscheck(site(link(said, direction=Direction.INGRESS, start=START, end=END), period=PERIOD))
    (finding,) = result.findings
    assert finding.kind is FindingKind.HOST_OVER_REPORTS
    assert finding.certain
    assert finding.bytes_at_least == 15_000_000


def test_a_host_that_received_less_than_it_was_sent_may_have_dropped_it() -> None:
    truth = steady(T0 + 10 * S, T0 + 40 * S, 1_000_000)
    said = everywhere(truth) | {Observer.HOST: truth.scaled(0.5)}
    result = crosscheck(site(link(said, direction=Direction.INGRESS, start=START, end=END), period=PERIOD))
    assert result.findings == ()
    assert result.verdict is Verdict.COMPLIANT


def test_dpu_and_switch_that_disagree_name_nobody_if_the_host_cannot_decide() -> None:
    truth = steady(T0 + 10 * S, T0 + 40 * S, 1_000_000)
    said = everywhere(truth) | {Observer.SWITCH: truth.scaled(0.9)}
    result = crosscheck(site(link(said, start=START, end=END), period=PERIOD))
    (finding,) = result.findings
    assert finding.kind is FindingKind.OBSERVERS_DISAGREE
    assert finding.bytes_at_least == 3_000_000
    assert "the DPU is wrong, or the switch is wrong" in finding.text
    assert "If nobody reports more than there was, the switch reports less" in finding.text


def test_a_switch_alone_against_dpu_and_host_leaves_it_or_their_collusion() -> None:
    truth = steady(T0 + 10 * S, T0 + 40 * S, 1_000_000)
    said = everywhere(truth) | {Observer.SWITCH: truth.scaled(1.1)}
    result = crosscheck(site(link(said, start=START, end=END), period=PERIOD))
    (finding,) = result.findings
    assert finding.kind is FindingKind.OBSERVERS_DISAGREE
    assert "Either the switch is wrong, or the DPU and the host are both wrong" in finding.text


def test_a_dpu_whose_two_ports_disagree_contradicts_itself() -> None:
    truth = steady(T0 + 10 * S, T0 + 40 * S, 1_000_000)
    said = everywhere(truth) | {Observer.DPU_HOST_PORT: truth.scaled(0.9)}
    result = crosscheck(site(link(said, start=START, end=END), period=PERIOD))
    (finding,) = result.findings
    assert finding.kind is FindingKind.OBSERVERS_DISAGREE
    assert "Either the DPU is wrong." in finding.text


def test_an_observer_that_should_have_spoken_leaves_it_open_and_one_that_is_not_there_does_not() -> None:
    truth = steady(T0, T0 + 60 * S, 50_000)
    evidence = link(everywhere(truth), limits=(LIMIT,), start=START, end=END)
    silent = replace(evidence, tracks={**evidence.tracks, Observer.HOST: Track(Observer.HOST, ())})
    absent = replace(evidence, tracks={who: one for who, one in evidence.tracks.items() if who is not Observer.HOST})
    (one,) = crosscheck(site(silent, period=PERIOD)).links
    assert one.verdict is Verdict.INCONCLUSIVE
    assert any("the host gave no readings" in text for text in one.undecided)
    (one,) = crosscheck(site(absent, period=PERIOD)).links
    assert one.verdict is Verdict.COMPLIANT
    assert {law.unknown_because for law in one.laws if "host" in law.law.split(" <= ")[1:]} == {Unknown.BY_DESIGN}


def test_without_drop_counters_the_laws_that_need_them_are_untestable_and_block_nothing() -> None:
    truth = steady(T0, T0 + 60 * S, 50_000)
    (one,) = crosscheck(site(link(everywhere(truth), drops=False, start=START, end=END), period=PERIOD)).links
    assert one.verdict is Verdict.COMPLIANT
    untestable = [law for law in one.laws if law.holds is Holds.UNKNOWN]
    assert [law.law for law in untestable] == ["dpu.host_port <= dpu.uplink + drops", "dpu.uplink <= switch + errors"]
    assert all(law.unknown_because is Unknown.BY_DESIGN and "no counter" in law.text for law in untestable)


@pytest.mark.parametrize("observer", [Observer.SWITCH, Observer.DPU_UPLINK])
def test_a_gap_is_reported_once_for_both_directions_with_who_was_not_looking(observer: Observer) -> None:
    truth = steady(T0, T0 + 60 * S, 50_000)
    links = []
    for direction in Direction:
        evidence = link(everywhere(truth), direction=direction, limits=(LIMIT,), start=START, end=END)
        track = evidence.tracks[observer]
        cut = replace(
            track,
            readings=tuple(one for one in track.readings if not T0 + 20 * S < one.latest_ns < T0 + 50 * S),
            looked=(Silence(T0 + 20 * S, T0 + 50 * S, "network-cut", "no answer in 30 s"),),
        )
        links.append(replace(evidence, tracks={**evidence.tracks, observer: cut}))
    result = crosscheck(site(*links, period=PERIOD))
    gaps = [finding for finding in result.findings if finding.kind is FindingKind.COVERAGE_GAP]
    assert len(gaps) == 1
    assert gaps[0].direction is None
    assert not gaps[0].certain
    assert "the management network was cut (network-cut): no answer in 30 s" in gaps[0].text
    # 50 kB/s for 30 s, and what the readings around the gap leave open.
    most = re.search(r"egress: at most [^(]*\(([0-9,]+) B\)", gaps[0].text)
    assert most is not None
    assert 1_500_000 <= int(most[1].replace(",", "")) <= 2_000_000
    # 30 of 70 seconds are not covered; the limit is still proven, since the counter was alive.
    assert 0.5 < result.links[0].coverage < 0.65
    assert result.verdict is Verdict.INCONCLUSIVE
    assert any("covered" in text for text in result.links[0].undecided)


def test_a_restart_in_the_period_is_a_finding_with_its_reason_and_bounds_what_it_lost() -> None:
    truth = steady(T0, T0 + 60 * S, 50_000)
    restarting = {
        Observer.DPU_UPLINK: Poller(resets=(T0 + 30 * S,)),
        Observer.DPU_HOST_PORT: Poller(resets=(T0 + 30 * S,)),
    }
    result = crosscheck(site(link(everywhere(truth), pollers=restarting, start=START, end=END), period=PERIOD))
    (one,) = result.links
    resets = [finding for finding in result.findings if finding.kind is FindingKind.COUNTER_RESET]
    assert len(resets) == 2
    # Two seconds without evidence are no gap where 15 are allowed.
    assert len(result.findings) == 2
    assert all("boot" in finding.text and not finding.certain for finding in resets)
    assert one.epochs[Observer.DPU_UPLINK] == 2
    lower = one.observers[Observer.DPU_UPLINK].lower
    assert 2_900_000 <= lower <= 3_000_000
    # Without a line rate what was lost between the last reading and the restart is not bounded.
    assert one.observers[Observer.DPU_UPLINK].upper is None
    assert one.verdict is Verdict.COMPLIANT


def test_what_passes_while_a_host_restarts_its_counter_is_in_the_bound_of_what_it_can_have_hidden() -> None:
    quiet = steady(T0, T0 + 60 * S, 50_000)
    burst = Truth(tuple(sorted([*quiet.frames, *((T0 + 31 * S + index * 50_000, 1_000) for index in range(8_000))])))
    often = Poller(interval=100 * MS)
    pollers = {
        Observer.HOST: Poller(resets=(T0 + 31 * S,), proven_starts=False),
        Observer.DPU_HOST_PORT: often,
        Observer.DPU_UPLINK: often,
    }
    evidence = link(everywhere(burst) | {Observer.HOST: quiet}, pollers=pollers, start=START, end=END)
    said = evidence.tracks[Observer.HOST]
    silent = replace(said, readings=tuple(r for r in said.readings if not T0 + 30 * S < r.latest_ns < T0 + 32 * S))
    result = crosscheck(site(replace(evidence, tracks={**evidence.tracks, Observer.HOST: silent}), period=PERIOD))
    law = next(law for law in result.links[0].laws if law.law == "dpu.host_port <= host")
    assert law.holds is Holds.YES, "it was tested over most of the period"
    assert law.hidden_bytes_bound is not None
    assert law.hidden_bytes_bound >= 8_000_000


def test_undeclared_ports() -> None:
    def port(*readings: tuple[int, int], operational: bool | None = True, declared: bool = False) -> PortEvidence:
        said = tuple(Reading(T0 + at * S, T0 + at * S, count) for at, count in readings)
        return PortEvidence("sw1", "eth7", declared, operational, said)

    honest = link(everywhere(steady(T0, T0 + 60 * S, 50_000)), start=START, end=END)

    def verdict(one: PortEvidence) -> tuple[Verdict, list[bool]]:
        result = crosscheck(site(honest, ports=(one,), period=PERIOD))
        assert all(
            finding.kind is FindingKind.UNDECLARED_PORT and finding.port == "eth7" for finding in result.findings
        )
        return result.verdict, [finding.certain for finding in result.findings]

    moved, idle = ((-10, 5), (10, 105), (60, 1_000_105)), ((-10, 5), (10, 5), (70, 5))
    assert verdict(port(*moved)) == (Verdict.VIOLATION, [True])
    assert verdict(port(*moved, operational=False)) == (Verdict.VIOLATION, [True])
    assert verdict(port(*moved, declared=True)) == (Verdict.COMPLIANT, [])
    assert verdict(port(*idle)) == (Verdict.INCONCLUSIVE, [False])
    assert verdict(port(*idle, operational=False)) == (Verdict.COMPLIANT, [])
    # Up or not, it is shown to have moved nothing.
    assert verdict(port(*idle, operational=None)) == (Verdict.COMPLIANT, [])
    # A port of which nothing is known is not shown to be idle.
    assert verdict(port(operational=None)) == (Verdict.INCONCLUSIVE, [False])
    # A cable that moved its bytes before anyone looked at its port, and was pulled: down, with bytes on it, since when?
    assert verdict(port((10, 25_000_000), (70, 25_000_000), operational=False)) == (Verdict.INCONCLUSIVE, [False])


def test_an_unchecked_inventory_leaves_everything_open() -> None:
    honest = link(everywhere(steady(T0, T0 + 60 * S, 50_000)), start=START, end=END)
    result = crosscheck(site(honest, period=PERIOD, inventory_checked=False))
    assert result.verdict is Verdict.INCONCLUSIVE
    assert any("not compared with the site file" in text for text in result.links[0].undecided)


def test_known_weights_are_shown_by_every_observer_or_say_by_how_much_they_are_off() -> None:
    truth = Truth(tuple((T0 + 30 * S + index * MS, 1_000) for index in range(10_000)))
    weight = KnownWeight("node1/p0", Direction.EGRESS, T0 + 30 * S, T0 + 40 * S, 10_000_000, 10_000)

    def weighed(said: dict[Observer, Truth], **more: int) -> tuple[bool, str]:
        declared = replace(weight, **more)  # type: ignore[arg-type]
        evidence = site(link(said, start=START, end=END), period=PERIOD, known_weights=(declared,))
        ((_, shown, text),) = crosscheck(evidence).known_weights
        return shown, text

    shown, text = weighed(everywhere(truth))
    assert shown
    assert text.count("shows it") == 4
    shown, text = weighed(everywhere(truth) | {Observer.DPU_UPLINK: truth.scaled(0.99)})
    assert not shown
    assert "the DPU's uplink shows at most 9.90 MB (9,900,000 B), 100 kB (100,000 B) too little" in text
    shown, text = weighed(everywhere(truth), bytes=9_000_000)
    assert shown
    assert "at least 1.00 MB (1,000,000 B) besides" in text
    shown, text = weighed({})
    assert not shown
    # A weight outside the period is not judged.
    elsewhere = replace(weight, from_ns=T0 + 100 * S, to_ns=T0 + 110 * S)
    evidence = site(link(everywhere(truth), start=START, end=END), period=PERIOD, known_weights=(elsewhere,))
    assert crosscheck(evidence).known_weights == ()


def test_a_weight_that_was_certainly_not_shown_is_a_finding_and_never_compliant() -> None:
    truth = steady(T0, T0 + 60 * S, 50_000)
    sent = KnownWeight("node1/p0", Direction.EGRESS, T0 + 30 * S, T0 + 40 * S, 500_000, 500)
    evidence = site(link(everywhere(truth), start=START, end=END), period=PERIOD)
    assert crosscheck(replace(evidence, known_weights=(sent,))).verdict is Verdict.COMPLIANT
    heavier = replace(sent, bytes=10_000_000)
    result = crosscheck(replace(evidence, known_weights=(heavier,)))
    assert result.verdict is Verdict.INCONCLUSIVE
    (finding,) = result.findings
    assert (finding.kind, finding.certain, finding.link) == (FindingKind.SCALE_OFF, False, "node1/p0")
    assert finding.bytes_at_least is not None
    assert 9_000_000 < finding.bytes_at_least <= 9_500_000


def test_where_no_limit_is_agreed_nothing_is_compliant() -> None:
    evidence = link(everywhere(steady(T0, T0 + 60 * S, 50_000)), start=START, end=END, limits=())
    (one,) = crosscheck(site(evidence, period=PERIOD)).links
    assert one.verdict is Verdict.INCONCLUSIVE
    assert [text for text in one.undecided if "no limit is agreed" in text] == list(one.undecided)


def test_a_bond_stands_for_its_cables_and_is_not_counted_beside_them() -> None:
    half = steady(T0, T0 + 60 * S, 300_000)
    whole = link(everywhere(half.scaled(2)), limits=(LIMIT,), start=START, end=END, name="node1/bond0")
    cables = [
        replace(link(everywhere(half), limits=(), start=START, end=END, name=name), node="node1")
        for name in ("node1/p0", "node1/p1")
    ]
    result = crosscheck(site(*cables, whole, period=PERIOD))
    assert result.findings == ()
    assert {one.limits[0].holds for one in result.links} == {Holds.YES}
    assert result.links[0].limits[0].worst_at_most_bytes is not None
    assert result.links[0].limits[0].worst_at_most_bytes < LIMIT.bytes


def test_a_limit_is_a_nodes_and_its_links_are_summed() -> None:
    truth = steady(T0, T0 + 60 * S, 700_000)
    names = ("node1/p0", "node1/p1")
    links = [link(everywhere(truth), limits=(LIMIT,), start=START, end=END, name=name) for name in names]
    assert crosscheck(site(links[0], period=PERIOD)).links[0].limits[0].holds is Holds.YES
    result = crosscheck(site(*links, period=PERIOD))
    (finding,) = result.findings
    assert finding.kind is FindingKind.LIMIT_EXCEEDED
    assert (finding.node, finding.link) == ("node1", None)
    assert "node1 (2 links) egress" in finding.text
    assert [one.verdict for one in result.links] == [Verdict.VIOLATION] * 2
    quiet = [
        link(everywhere(steady(T0, T0 + 60 * S, 50_000)), limits=(LIMIT,), start=START, end=END, name=name)
        for name in names
    ]
    kept = crosscheck(site(*quiet, period=PERIOD))
    assert kept.verdict is Verdict.COMPLIANT
    assert kept.links[0].limits[0].worst_at_most_bytes == 2 * 603_000


def test_evidence_starts_where_all_off_host_observers_have_begun() -> None:
    truth = steady(T0, T0 + 60 * S, 50_000)
    evidence = link(everywhere(truth), limits=(LIMIT,), start=START, end=END)
    late = replace(
        evidence.tracks[Observer.SWITCH],
        readings=tuple(one for one in evidence.tracks[Observer.SWITCH].readings if one.latest_ns > T0),
    )
    result = crosscheck(site(replace(evidence, tracks={**evidence.tracks, Observer.SWITCH: late}), period=PERIOD))
    assert result.evidence_from_ns == min(one.latest_ns for one in late.readings)
    assert result.links[0].limits[0].holds is Holds.YES


def test_the_same_evidence_gives_the_same_result() -> None:
    evidence = site(
        link(everywhere(steady(T0, T0 + 60 * S, 50_000)), limits=(LIMIT,), start=START, end=END), period=PERIOD
    )
    assert crosscheck(evidence) == crosscheck(evidence)


def test_a_gap_of_readings_that_contradict_each_other_says_so() -> None:
    """One counter epoch of two is void: the time it would have covered was not unwatched, it was contradicted."""
    pollers = {Observer.DPU_UPLINK: Poller(width=MS, resets=(T0 + 30 * S,))}
    one = link(everywhere(steady(T0, T0 + 60 * S, 50_000)), start=START, end=END, pollers=pollers)
    track = one.tracks[Observer.DPU_UPLINK]
    at = next(number for number, reading in enumerate(track.readings) if reading.latest_ns > T0 + 50 * S)
    forged = replace(track.readings[at], bytes=track.readings[at - 5].bytes - 1)
    readings = (*track.readings[:at], forged, *track.readings[at + 1 :])
    tracks = {**one.tracks, Observer.DPU_UPLINK: replace(track, readings=readings)}
    result = crosscheck(site(replace(one, tracks=tracks), period=PERIOD))
    (gap,) = [each for each in result.findings if each.kind is FindingKind.COVERAGE_GAP]
    assert "the DPU's uplink contradicts itself: its readings of counter epoch 1 contradict each other" in gap.text
    assert "nothing recorded says why" not in gap.text
