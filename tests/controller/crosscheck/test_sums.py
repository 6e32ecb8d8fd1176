"""Sums over a switch and over the hosts: what went in and cannot be found again is told, and accuses nobody."""

from __future__ import annotations

from dataclasses import replace

import pytest

from controller.crosscheck.check import crosscheck
from controller.crosscheck.model import (
    Assumptions,
    CrossCheck,
    Finding,
    FindingKind,
    LinkEvidence,
    Period,
    PortEvidence,
    Verdict,
)
from protos.reading import Direction, Observer, Reading
from tests.controller.crosscheck.scene import S, Truth, everywhere, link, site, steady

START, END, T0 = 100 * S, 220 * S, 120 * S
PERIOD = Period(T0 - 10 * S, T0 + 70 * S)
SENT = steady(T0, T0 + 60 * S, 50_000)
NOTHING = Truth(())


def cable(name: str, out: dict[Observer, Truth], into: dict[Observer, Truth], port: str) -> list[LinkEvidence]:
    sides = ((Direction.EGRESS, out), (Direction.INGRESS, into))
    return [
        replace(link(truths, start=START, end=END, name=name, direction=side), switch="sw1", port=port)
        for side, truths in sides
    ]


def two_nodes(received: dict[Observer, Truth]) -> list[LinkEvidence]:
    """Node 1 sends to node 2, who sends nothing."""
    return [
        *cable("node1/p0", everywhere(SENT), everywhere(NOTHING), "eth1"),
        *cable("node2/p0", everywhere(NOTHING), received, "eth2"),
    ]


def port(name: str, moved: int) -> PortEvidence:
    readings = (Reading(START, START, 0), Reading(T0, T0, 0), Reading(T0 + 60 * S, T0 + 61 * S, moved))
    return PortEvidence("sw1", name, True, True, (*readings, Reading(END, END, moved)))


def judged(links: list[LinkEvidence], *ports: PortEvidence, assumed: Assumptions | None = None) -> CrossCheck:
    return crosscheck(site(*links, period=PERIOD, ports=ports, assumptions=assumed))


def told(result: CrossCheck) -> list[Finding]:
    return [finding for finding in result.findings if finding.kind is FindingKind.BYTES_UNACCOUNTED]


def test_what_arrives_where_it_was_sent_is_accounted_for() -> None:
    result = judged(two_nodes(everywhere(SENT)))
    assert result.findings == ()
    assert result.verdict is Verdict.COMPLIANT


def test_a_host_that_claims_less_than_it_received_is_missed_by_the_sum_and_not_by_its_link() -> None:
    result = judged(two_nodes(everywhere(SENT) | {Observer.HOST: SENT.scaled(0.9)}))
    (finding,) = result.findings
    assert (finding.kind, finding.certain, finding.switch) == (FindingKind.BYTES_UNACCOUNTED, False, None)
    # 3 MB were sent and 2.7 MB claimed; the edges of a host read in 50 ms lie in idle time.
    assert finding.bytes_at_least == 300_000
    assert "claimed by nobody" in finding.text
    # It accuses nobody, so it does not change the verdict.
    assert result.verdict is Verdict.COMPLIANT


def test_bytes_that_enter_a_switch_and_leave_it_nowhere_are_told() -> None:
    result = judged(two_nodes(everywhere(SENT.scaled(0.5))), port("eth5", 100_000))
    (finding,) = told(result)
    assert finding.switch == "sw1"
    assert finding.bytes_at_least == 1_400_000
    assert "left by a port that sw1 does not list" in finding.text
    assert not any(one.certain for one in result.findings)


def test_what_another_port_took_is_no_mystery() -> None:
    assert told(judged(two_nodes(everywhere(SENT.scaled(0.5))), port("eth5", 1_500_000))) == []


def test_floods_make_more_come_out_than_went_in_and_are_nothing() -> None:
    links = two_nodes(everywhere(SENT)) + cable("node3/p0", everywhere(NOTHING), everywhere(SENT), "eth3")
    assert judged(links).findings == ()


def test_what_is_declared_in_flight_is_allowed_for() -> None:
    links = two_nodes(everywhere(SENT) | {Observer.HOST: SENT.scaled(0.9)})
    assert told(judged(links, assumed=Assumptions(in_flight_bytes=50_000))) == []
    assert told(judged(links, assumed=Assumptions(in_flight_bytes=49_000))) != []


@pytest.mark.parametrize("gone", [Observer.HOST, Observer.SWITCH, Observer.DPU_UPLINK])
def test_where_somebody_is_missing_nothing_is_told(gone: Observer) -> None:
    links = [
        replace(one, tracks={observer: track for observer, track in one.tracks.items() if observer is not gone})
        for one in two_nodes(everywhere(SENT) | {Observer.HOST: SENT.scaled(0.9)})
    ]
    assert told(judged(links)) == []


def test_where_drops_are_not_counted_nothing_is_told() -> None:
    links = [
        replace(one, tracks={observer: replace(track, drop_packets=()) for observer, track in one.tracks.items()})
        for one in two_nodes(everywhere(SENT.scaled(0.5)) | {Observer.HOST: SENT.scaled(0.1)})
    ]
    assert told(judged(links)) == []


def test_a_switch_whose_ports_were_not_listed_is_not_asked_where_bytes_went() -> None:
    evidence = site(*two_nodes(everywhere(SENT.scaled(0.5))), period=PERIOD)
    assert told(crosscheck(evidence)) != []
    assert told(crosscheck(replace(evidence, inventory_checked=False))) == []
