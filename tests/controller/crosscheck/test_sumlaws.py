"""Laws over a switch, a pod and a pair of nodes: an honest world is never accused, what lacks is found."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.crosscheck import sumjudging
from controller.crosscheck.check import crosscheck
from controller.crosscheck.json_form import to_json
from controller.crosscheck.model import (
    Assumptions,
    FindingKind,
    Holds,
    LinkEvidence,
    Period,
    SharedTraffic,
    SiteEvidence,
    SumOf,
    SumResult,
    Unknown,
    Verdict,
)
from controller.crosscheck.quantity import bounds
from controller.crosscheck.sumjudging import sum_laws
from controller.crosscheck.together import together
from protos.reading import Direction, Observer, Reading
from tests.controller.crosscheck.cases import cases
from tests.controller.crosscheck.scene import MS, Poller, S, Truth, everywhere, link, site, steady

T0 = 120 * S
START, END = 100 * S, 220 * S
PERIOD = Period(T0 - 10 * S, T0 + 70 * S)
NOTHING = Truth(())
NODES = ("node1", "node2", "node3")


def merge(parts: Sequence[Truth]) -> Truth:
    return Truth(tuple(sorted(frame for part in parts for frame in part.frames)))


class World:
    """Three nodes on one switch: who sends how much to whom, and what of it the receivers get."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.sent = {
            (a, b): Truth(
                tuple(sorted((T0 + self.rng.randrange(60 * S), self.rng.randint(60, 9000)) for _ in range(200)))
            )
            for a in NODES
            for b in NODES
            if a != b and self.rng.random() < 0.8
        }
        self.received = dict(self.sent)
        self.reset: tuple[int, ...] = ()

    def links(self) -> tuple[LinkEvidence, ...]:
        found = []
        for number, node in enumerate(NODES, 1):
            out = merge([truth for (a, _), truth in self.sent.items() if a == node])
            into = merge([truth for (_, b), truth in self.received.items() if b == node])
            for direction, truth in ((Direction.EGRESS, out), (Direction.INGRESS, into)):
                one = link(everywhere(truth), start=START, end=END, name=f"{node}/p0", direction=direction)
                found.append(replace(one, node=node, pod="pod-a", switch="sw1", port=f"eth{number}"))
        return tuple(found)

    def _counted(self, truth: Truth) -> tuple[Sequence[Reading], frozenset[int]]:
        poller = Poller(
            interval=self.rng.choice([S, 3 * S]), phase=self.rng.randrange(S), width=20 * MS, resets=self.reset
        )
        track = poller.read(truth, Observer.DPU_UPLINK, START, END, self.rng)
        return track.readings, track.proven_epochs

    def shared(self) -> tuple[SharedTraffic, ...]:
        found = []
        for told, direction in ((self.sent, Direction.EGRESS), (self.received, Direction.INGRESS)):
            for node in NODES:
                own = {
                    (b if direction is Direction.EGRESS else a): truth
                    for (a, b), truth in told.items()
                    if node == (a if direction is Direction.EGRESS else b)
                }
                found += [SharedTraffic(node, direction, peer, (self._counted(truth),)) for peer, truth in own.items()]
                found.append(SharedTraffic(node, direction, None, (self._counted(merge([*own.values()])),)))
        return tuple(found)

    def evidence(self, **assumed: int) -> SiteEvidence:
        built = site(*self.links(), period=PERIOD, assumptions=Assumptions(**assumed))
        return replace(built, shared=self.shared())


def results(evidence: SiteEvidence) -> dict[tuple[SumOf, tuple[str, ...]], SumResult]:
    return {(one.of, one.nodes): one for one in sum_laws(evidence)}


@settings(max_examples=cases(20), deadline=None)
@given(st.integers(0, 2**32), st.booleans())
def test_an_honest_world_breaks_no_law(seed: int, reset: bool) -> None:
    world = World(seed)
    if reset:
        world.reset = (T0 + 17 * S,)
    found = results(world.evidence())
    assert not [one for one in found.values() if one.result.holds is Holds.NO]
    assert found[SumOf.SWITCH, NODES].result.holds is Holds.YES
    if not reset:
        assert all(one.result.holds is Holds.YES for one in found.values())
        assert {of for of, _ in found} == {SumOf.SWITCH, SumOf.POD, SumOf.NODE_PAIR}


@settings(max_examples=cases(20), deadline=None)
@given(st.integers(0, 2**32), st.floats(0.0, 0.95))
def test_more_than_is_printed_as_hidden_is_found(seed: int, kept: float) -> None:
    world = World(seed)
    if not world.sent:
        return
    pair = world.rng.choice(sorted(world.sent))
    honest = results(world.evidence())
    world.received = {**world.sent, pair: world.sent[pair].scaled(kept)}
    lacking = world.sent[pair].count(END) - world.received[pair].count(END)
    found = results(world.evidence())
    for key in ((SumOf.NODE_PAIR, pair), (SumOf.POD, NODES), (SumOf.SWITCH, NODES)):
        one = found[key]
        assert one.left.lower <= (one.left.upper or 0)
        hidden = honest[key].result.hidden_bytes_bound
        assert hidden is not None
        if lacking > hidden:
            assert one.result.holds is Holds.NO
            assert 0 < one.result.gap_at_least_bytes <= lacking
            assert one.result.margin
            assert one.result.from_ns is not None
            assert PERIOD.from_ns <= one.result.from_ns < (one.result.to_ns or 0) <= PERIOD.to_ns
    others = [one for (of, nodes), one in found.items() if of is SumOf.NODE_PAIR and nodes != pair]
    assert all(one.result.holds is Holds.YES for one in others)


def test_a_credit_built_up_before_hides_nothing() -> None:
    """What a receiver says too much at first does not pay for what it leaves out later."""
    world = World(1)
    world.sent = {("node1", "node2"): steady(T0, T0 + 60 * S, 50_000)}
    early = Truth(tuple((at, size * 2) for at, size in world.sent["node1", "node2"].frames if at < T0 + 20 * S))
    late = Truth(tuple(frame for frame in world.sent["node1", "node2"].frames if frame[0] > T0 + 40 * S))
    world.received = {("node1", "node2"): merge([early, late])}
    (one,) = [each for each in sum_laws(world.evidence()) if each.of is SumOf.NODE_PAIR]
    assert one.result.holds is Holds.NO
    assert one.result.gap_at_least_bytes >= 800_000


def test_a_broken_law_is_a_finding_that_accuses_nobody() -> None:
    world = World(2)
    world.received = {pair: truth.scaled(0.5) for pair, truth in world.sent.items()}
    result = crosscheck(world.evidence())
    found = [each for each in result.findings if each.kind is FindingKind.BYTES_UNACCOUNTED]
    assert len([one for one in result.sums if one.result.holds is Holds.NO]) == len(found)
    assert {finding.certain for finding in found} == {False}
    assert any("frames were filtered" in finding.text for finding in found)
    assert any("the sender's DPU counts too much, the receiver's too little" in finding.text for finding in found)
    assert result.verdict is not Verdict.VIOLATION
    told = to_json(result)["sums"]
    assert isinstance(told, list)
    assert len(told) == len(result.sums)


def test_what_was_dropped_and_counted_is_no_mystery() -> None:
    world = World(3)
    pair = min(world.sent)
    world.received = {**world.sent, pair: world.sent[pair].scaled(0.999)}
    lacking = world.sent[pair].count(END) - world.received[pair].count(END)
    assert lacking > 0
    assert results(world.evidence())[SumOf.NODE_PAIR, pair].result.holds is not Holds.YES
    assert results(world.evidence(in_flight_bytes=lacking))[SumOf.NODE_PAIR, pair].result.holds is Holds.YES


# ---------------------------------------------------------------- what cannot be tested says so


def unknown(evidence: SiteEvidence, of: SumOf) -> set[tuple[Unknown | None, str]]:
    return {(one.result.unknown_because, one.result.text) for one in sum_laws(evidence) if one.of is of}


def test_without_drop_counters_by_design() -> None:
    evidence = World(4).evidence()
    links = tuple(
        replace(one, tracks={who: replace(track, drop_packets=()) for who, track in one.tracks.items()})
        for one in evidence.links
    )
    for of in SumOf:
        ((why, text),) = unknown(replace(evidence, links=links), of)
        assert why is Unknown.BY_DESIGN
        assert "does not count what it drops" in text


def test_across_switches_by_design() -> None:
    evidence = World(4).evidence()
    links = tuple(replace(one, switch="sw2") if one.node == "node3" else one for one in evidence.links)
    ((why, text),) = unknown(replace(evidence, links=links), SumOf.POD)
    assert (why, "several switches" in text) == (Unknown.BY_DESIGN, True)


def test_a_meter_that_does_not_tell_is_missing_evidence() -> None:
    evidence = World(4).evidence()
    silent = tuple(
        replace(one, parts=(((), frozenset()),)) if (one.node, one.direction) == ("node1", Direction.INGRESS) else one
        for one in evidence.shared
    )
    ((why, text),) = unknown(replace(evidence, shared=silent), SumOf.POD)
    assert (why, "does not tell" in text) == (Unknown.MISSING_EVIDENCE, True)


def test_a_counter_that_contradicts_itself_leaves_the_law_open() -> None:
    evidence = World(4).evidence()
    wrong = ((Reading(T0, T0 + 1, 9_000), Reading(T0 + 5 * S, T0 + 5 * S, 10)), frozenset({0}))
    shared = tuple(replace(one, parts=(wrong,)) if one.peer is None else one for one in evidence.shared)
    ((why, _),) = unknown(replace(evidence, shared=shared), SumOf.POD)
    assert why is Unknown.CONTRADICTION


# ---------------------------------------------------------------- sums of counters read at nearly the same times


@settings(max_examples=cases(60), deadline=None)
@given(st.integers(0, 2**32))
def test_a_sum_of_counters_bounds_the_truth(seed: int) -> None:
    rng = random.Random(seed)
    truths = [Truth(tuple(sorted((T0 + rng.randrange(20 * S), 1000) for _ in range(50)))) for _ in range(3)]
    parts = []
    for truth in truths:
        resets = (T0 + rng.randrange(20 * S),) if rng.random() < 0.5 else ()
        poller = Poller(phase=rng.randrange(S), width=10 * MS, loss=0.2, resets=resets)
        track = poller.read(truth, Observer.SWITCH, T0 - 5 * S, T0 + 25 * S, rng)
        parts.append((track.readings, track.proven_epochs))
    account = together(parts, T0)
    assert account.contradictions == ()
    for _ in range(10):
        start, end = sorted(rng.randrange(-5 * S, 25 * S) for _ in range(2))
        least, most = bounds(account, start, end)
        true = sum(truth.between(T0 + start, T0 + end) for truth in truths)
        assert least <= true
        assert most is None or true <= most


def test_a_large_sum_is_read_as_if_all_at_once_and_finds_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(5)
    world.received = {pair: truth.scaled(0.5) for pair, truth in world.sent.items()}
    evidence = world.evidence()
    exact = {key: one.result.holds for key, one in results(evidence).items()}
    monkeypatch.setattr(sumjudging, "MOST_LOOKS", 0)
    coarse = results(evidence)
    assert {key: one.result.holds for key, one in coarse.items()} == exact
