"""Readings that no honest device gives: each handled by rule, none an exception, none a silent guess."""

from __future__ import annotations

import json
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from controller.crosscheck.check import crosscheck
from controller.crosscheck.json_form import csv_rows, to_json
from controller.crosscheck.model import (
    Assumptions,
    EpochStart,
    Limit,
    LinkEvidence,
    Period,
    PortEvidence,
    SiteEvidence,
    Track,
    Verdict,
)
from protos.reading import Direction, Framing, Observer, Reading
from tests.controller.crosscheck.cases import cases
from tests.controller.crosscheck.scene import S, everywhere, link, site, steady

numbers = st.sampled_from([0, 1, 1_000, 2**32, 2**63 - 1, 2**64 - 1]) | st.integers(0, 2**64 - 1)
moments = st.integers(-50, 200).map(lambda tick: tick * S // 10) | st.sampled_from([-(2**70), 2**62, 2**80])


@st.composite
def readings(draw: st.DrawFn) -> Reading:
    first, second = sorted((draw(moments), draw(moments)))
    return Reading(
        first,
        second,
        draw(numbers),
        draw(st.none() | numbers),
        draw(st.integers(0, 2)),
        draw(st.sampled_from(Framing)),
        draw(st.sampled_from([0, 0, 0, 2**12])),
    )


@st.composite
def tracks(draw: st.DrawFn, observer: Observer) -> Track:
    lists = st.lists(readings(), max_size=6).map(tuple)
    return Track(
        observer,
        draw(lists),
        line_rate_bytes_per_s=draw(st.sampled_from([None, 1, 125_000_000, 99_999_999_999])),
        step_bytes=draw(st.sampled_from([0, 9_216])),
        refresh_ns=draw(st.sampled_from([0, S])),
        drop_packets=draw(lists),
        proven_epochs=draw(st.frozensets(st.integers(0, 2))),
        epoch_starts=draw(
            st.dictionaries(st.integers(0, 2), st.builds(EpochStart, st.none() | moments, st.none() | moments))
        ),
        unpadded=draw(st.booleans()),
        super_packet_header_bytes=draw(st.sampled_from([None, (54, 66)])),
    )


@settings(max_examples=cases(150), deadline=None)
@given(st.data())
def test_no_input_raises_and_nothing_bad_is_compliant(data: st.DataObject) -> None:
    chosen = data.draw(st.sets(st.sampled_from(Observer)))
    evidence = SiteEvidence(
        "site",
        Period(0, data.draw(st.integers(0, 200)) * S // 10),
        Assumptions(liars=data.draw(st.integers(0, 3))),
        (
            LinkEvidence(
                "node1/p0",
                "node1",
                "pod-a",
                data.draw(st.sampled_from(Direction)),
                {observer: data.draw(tracks(observer)) for observer in chosen},
                (Limit(S, 1_000), Limit(100 * S, 0)),
            ),
        ),
        (
            PortEvidence(
                "sw1", "eth9", declared=False, operational=None, readings=tuple(data.draw(st.lists(readings())))
            ),
        ),
        inventory_checked=True,
    )
    result = crosscheck(evidence)
    assert result.verdict in Verdict
    for one in result.links:
        for interval in one.observers.values():
            assert interval.lower >= 0
            assert interval.upper is None or interval.upper >= 0
    again = json.loads(json.dumps(to_json(result), allow_nan=False))
    assert again["verdict"] == result.verdict.value
    assert len({len(row) for row in csv_rows(result)}) == 1


def honest(**more: object) -> tuple[LinkEvidence, Period]:
    truth = steady(100 * S, 160 * S, 50_000)
    return link(everywhere(truth), start=80 * S, end=180 * S, **more), Period(95 * S, 165 * S)  # type: ignore[arg-type]


def changed(evidence: LinkEvidence, observer: Observer, *extra: Reading) -> LinkEvidence:
    track = evidence.tracks[observer]
    altered = Track(observer, (*track.readings, *extra), drop_packets=track.drop_packets, refresh_ns=track.refresh_ns)
    return LinkEvidence("node1/p0", "node1", "pod-a", evidence.direction, {**evidence.tracks, observer: altered})


def test_duplicates_and_disorder_change_nothing() -> None:
    evidence, period = honest()
    shuffled = {
        observer: Track(observer, (*track.readings[::-1], *track.readings), drop_packets=track.drop_packets)
        for observer, track in evidence.tracks.items()
    }
    twice = replace(evidence, tracks=shuffled)
    first, second = (crosscheck(site(one, period=period)).links[0] for one in (evidence, twice))
    assert first.observers == second.observers
    assert first.verdict is second.verdict is Verdict.COMPLIANT


def test_a_counter_of_2_64_less_1_in_the_middle_voids_its_observer_and_says_so() -> None:
    evidence, period = honest()
    jumped = changed(evidence, Observer.SWITCH, Reading(120 * S, 120 * S, 2**64 - 1, 10))
    result = crosscheck(site(jumped, period=period))
    (one,) = result.links
    assert one.observers[Observer.SWITCH].upper is None
    assert one.verdict is Verdict.INCONCLUSIVE
    assert any("contradict" in text for text in one.undecided)
    assert not any(finding.certain for finding in result.findings)


def test_a_reading_decades_away_is_left_out_and_said_so() -> None:
    evidence, period = honest()
    result = crosscheck(site(changed(evidence, Observer.SWITCH, Reading(2**70, 2**70, 5)), period=period))
    (one,) = result.links
    assert any("decades away" in text for text in one.undecided)
    assert one.observers[Observer.SWITCH].upper == 3_000_000


def test_a_reading_in_another_framing_is_left_out_and_said_so() -> None:
    evidence, period = honest()
    other = Reading(120 * S, 120 * S, 5, framing=Framing.L1)
    (one,) = crosscheck(site(changed(evidence, Observer.SWITCH, other), period=period)).links
    assert any("another framing" in text for text in one.undecided)


def test_an_snmp_counter_that_jumped_by_2_32_below_the_line_rate_is_caught_by_its_packets() -> None:
    """Snmpd adds 2^32 to bytes and packets alike when an interface is made again within its refresh."""
    evidence, period = honest()
    track = evidence.tracks[Observer.SWITCH]
    jumped = tuple(
        Reading(one.earliest_ns, one.latest_ns, one.bytes + 2**32, (one.packets or 0) + 2**32)
        if one.earliest_ns > 130 * S
        else one
        for one in track.readings
    )
    fast = Track(Observer.SWITCH, jumped, line_rate_bytes_per_s=12_500_000_000, step_bytes=9_216)
    result = crosscheck(
        site(
            LinkEvidence("node1/p0", "node1", "pod-a", Direction.EGRESS, {**evidence.tracks, Observer.SWITCH: fast}),
            period=period,
        )
    )
    (one,) = result.links
    assert any("its packets need" in text for text in one.undecided)
    assert not any(finding.certain for finding in result.findings)
