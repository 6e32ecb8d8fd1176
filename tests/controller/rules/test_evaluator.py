"""The streaming evaluation: the same however it is fed, never too much, and every kind of rule."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.corpus.training import TRAINING
from controller.rules.evaluator import Evaluator
from controller.rules.finding import Kind, Severity
from controller.rules.limits import VolumeLimit, over_limit
from controller.rules.moved import Load, Moved, Places, bins
from controller.rules.rule import Bound, Measure, Rule, Rules, Scope
from controller.rules.series import Series
from controller.rules.shape import DEFAULT_SHAPE
from controller.rules.tally import RESOLVED_AFTER_NS, Change
from controller.rules.window import Window
from protos.buckets import TrafficClass
from protos.reading import Direction
from protos.units import NS_PER_S

BEGIN_NS = 1_796_000_000 * NS_PER_S
OUT, IN = Direction.EGRESS, Direction.INGRESS
PLACES = Places("lab", {"n1/p0": "n1", "n1/p1": "n1", "n2/p0": "n2"}, {"n1": "a", "n2": "a"}, ("n1-dpu0", "sw1"))
MINUTE_NS = 60 * NS_PER_S


def _rule(kind: Kind = Kind.VOLUME_OVER_WINDOW, window_s: int = 60, most: int = 1000, **more: object) -> Rule:
    return Rule("r", kind, (Bound(window_s * NS_PER_S, most),), **more)  # type: ignore[arg-type]


def _evaluator(*rules: Rule, shapes: bool = False) -> Evaluator:
    return Evaluator(Rules(rules, DEFAULT_SHAPE), PLACES, with_shapes=shapes)


def _each_second(volumes: Sequence[int], link: str = "n1/p0", direction: Direction = OUT) -> list[Moved]:
    return list(bins(link, direction, BEGIN_NS, NS_PER_S, volumes))


def _cut(moved: Sequence[Moved], random_cuts: random.Random) -> Iterable[list[Moved]]:
    at = 0
    while at < len(moved):
        size = random_cuts.choice([1, 2, 3, 10, 100])
        yield list(moved[at : at + size])
        at += size


RULES = (
    _rule(window_s=60, most=5_000),
    Rule("long", Kind.RATE_OVER_WINDOW, (Bound(600 * NS_PER_S, 30_000),), for_ns=20 * NS_PER_S, scope=Scope.POD),
    Rule("burst", Kind.BURST, (Bound(10 * NS_PER_S, 2_000),), drain_bytes_per_s=40, scope=Scope.SITE),
    Rule(
        "budget",
        Kind.BUDGET_BURN,
        (Bound(600 * NS_PER_S, 20_000), Bound(60 * NS_PER_S, 3_000)),
        all_bounds=True,
        severity=Severity.WARNING,
    ),
)


@settings(max_examples=8, deadline=None)
@given(st.integers(0, 2**32), st.integers(0, 2**32))
def test_any_cut_into_batches_finds_the_same(seed: int, cuts: int) -> None:
    rng = random.Random(seed)
    moved: list[Moved] = []
    at_ns = BEGIN_NS
    for _ in range(400):
        length_ns = rng.choice([1, 1, 1, 2, 5, 90, 700]) * NS_PER_S + rng.randrange(10**6)
        amount = rng.choice([0, 3, 90, 400, 5_000])
        moved.append(
            Moved(rng.choice(["n1/p0", "n1/p1", "n2/p0"]), rng.choice([OUT, IN]), at_ns, at_ns + length_ns, amount)
        )
        at_ns += length_ns
    whole = _evaluator(*RULES, shapes=True)
    at_once = whole.feed(moved)
    parts = _evaluator(*RULES, shapes=True)
    in_parts = [change for batch in _cut(moved, random.Random(cuts)) for change in parts.feed(batch)]
    assert in_parts == at_once
    assert list(parts.firing()) == list(whole.firing())
    assert at_once


@given(st.lists(st.integers(0, 100), min_size=1, max_size=300), st.sampled_from([5, 10, 60, 90, 120, 200]))
def test_a_window_never_holds_too_much_and_a_full_bin_is_exact(volumes: list[int], length_s: int) -> None:
    window = Window(length_s * NS_PER_S)
    step_s = -(-length_s // 60)
    count = length_s // step_s
    for at, volume in enumerate(volumes):
        window.add(BEGIN_NS + at * NS_PER_S, BEGIN_NS + (at + 1) * NS_PER_S, volume)
        assert window.total <= sum(volumes[max(0, at + 1 - length_s) : at + 1])
        # 1_796_000_000 is a multiple of every step here.
        if (at + 1) % step_s == 0:
            assert window.total == sum(volumes[max(0, at + 1 - count * step_s) : at + 1])


@given(st.lists(st.integers(0, 100), min_size=60, max_size=300), st.integers(1, 4_000))
def test_it_finds_what_the_rule_of_recorded_series_finds(volumes: list[int], most: int) -> None:
    """Both sum bins of a second; a minute has sixty of them, so the two agree to the second."""
    found = over_limit(
        Series("s", BEGIN_NS, NS_PER_S, np.array(volumes, dtype=np.float64)), VolumeLimit("r", MINUTE_NS, most)
    )
    changes = _evaluator(_rule(most=most)).feed(_each_second(volumes))
    if found is None:
        assert changes == []
    else:
        assert changes[0].finding.to_ns == found.to_ns
        assert changes[0].finding.numbers["held"] == found.numbers["held_bytes"]


def test_a_finding_begins_once_and_ends_once() -> None:
    volumes = [0] * 10 + [600] * 5 + [0] * 200 + [600] * 5 + [0] * 200
    changes = _evaluator(_rule()).feed(_each_second(volumes))
    assert [change.resolved_ns is None for change in changes] == [True, False, True, False]
    first, over = changes[:2]
    assert first.finding.to_ns == BEGIN_NS + 12 * NS_PER_S
    assert first.finding.places == ("node n1 egress",)
    assert over.finding == first.finding
    # The window holds more than a thousand until a minute after the burst's fourth second.
    assert over.resolved_ns == BEGIN_NS + 74 * NS_PER_S
    assert changes[2].finding.id != first.finding.id


def test_hovering_at_the_limit_is_one_finding() -> None:
    volumes = [0] * 59 + [1001] + [0, 1001] * 200
    changes = _evaluator(_rule(window_s=1)).feed(_each_second(volumes))
    assert len(changes) == 1
    assert RESOLVED_AFTER_NS >= 2 * NS_PER_S


def test_for_so_long_without_a_break() -> None:
    rule = _rule(window_s=1, most=10, for_ns=5 * NS_PER_S)
    assert _evaluator(rule).feed(_each_second(([11] * 5 + [0]) * 10)) == []
    (found,) = _evaluator(rule).feed(_each_second([11] * 6))
    assert found.finding.to_ns == BEGIN_NS + 6 * NS_PER_S


def test_what_is_not_known_dissolves_nothing() -> None:
    evaluator = _evaluator(_rule())
    assert len(evaluator.feed(_each_second([2_000]))) == 1
    assert evaluator.clock(BEGIN_NS + 10**15) == []
    assert [found.rule for found in evaluator.firing()] == ["r"]


def test_a_burst_is_more_than_its_bucket_holds() -> None:
    rule = Rule("b", Kind.BURST, (Bound(10 * NS_PER_S, 100),), drain_bytes_per_s=10)
    assert _evaluator(rule).feed(_each_second([10] * 1_000)) == []
    assert _evaluator(rule).feed(_each_second([110] + [0] * 10 + [110])) == []
    (found,) = _evaluator(rule).feed(_each_second([0] * 5 + [60, 61]))
    assert found.finding.kind is Kind.BURST
    assert found.finding.from_ns == BEGIN_NS + 5 * NS_PER_S


def test_a_budget_needs_both_windows() -> None:
    rule = Rule("b", Kind.BUDGET_BURN, (Bound(600 * NS_PER_S, 600), Bound(60 * NS_PER_S, 60)), all_bounds=True)
    assert _evaluator(rule).feed(_each_second([500])) == []
    assert len(_evaluator(rule).feed(_each_second([1_000]))) == 1
    burnt_long_ago = _each_second([1_000] + [0] * 200)
    assert [change.resolved_ns is None for change in _evaluator(rule).feed(burnt_long_ago)] == [True, False]


def test_sums_of_nodes_pods_and_the_site() -> None:
    moved = [
        Moved(link, OUT, BEGIN_NS, BEGIN_NS + NS_PER_S, 400) for link in ("n1/p0", "n1/p1", "n2/p0", "somewhere/else")
    ]
    for scope, expected in ((Scope.NODE, None), (Scope.POD, "pod a egress"), (Scope.SITE, "site lab egress")):
        changes = _evaluator(_rule(scope=scope)).feed(moved)
        assert [change.finding.places[0] for change in changes] == ([] if expected is None else [expected])
    assert [each.finding.numbers["held"] for each in _evaluator(_rule(most=799)).feed(moved)] == [800]


def test_pairs_classes_and_packets() -> None:
    moved = Moved(
        "n1/p0",
        IN,
        BEGIN_NS,
        BEGIN_NS + NS_PER_S,
        9_000,
        packets=50,
        classes={TrafficClass.STORAGE: 8_000, TrafficClass.OTHER_POD: 1_000},
        class_packets={TrafficClass.STORAGE: 40, TrafficClass.OTHER_POD: 10},
        peers={"n2": 7_000, "n3": 900},
    )

    def places(**more: object) -> list[str]:
        return [change.finding.places[0] for change in _evaluator(_rule(**more)).feed([moved])]  # type: ignore[arg-type]

    assert places(scope=Scope.PAIR, most=899) == ["pair n1 - n2 ingress", "pair n1 - n3 ingress"]
    assert places(scope=Scope.CLASS, most=1_000) == ["class n1 storage ingress"]
    assert places(classes=(TrafficClass.OTHER_POD,), most=1_000) == []
    assert places(classes=(TrafficClass.OTHER_POD, TrafficClass.UNKNOWN), most=999) == ["node n1 ingress"]
    assert places(kind=Kind.PACKETS_OVER_WINDOW, measure=Measure.PACKETS, most=49) == ["node n1 ingress"]
    assert places(measure=Measure.PACKETS, classes=(TrafficClass.STORAGE,), most=39) == ["node n1 ingress"]


def test_what_no_meter_counts_is_told() -> None:
    evaluator = _evaluator(_rule(scope=Scope.PAIR, most=1), _rule(classes=(TrafficClass.STORAGE,), most=1))
    assert evaluator.feed(_each_second([10])) == []
    assert evaluator.unmeasured() == [("r", "n1")]


def test_load_windows() -> None:
    load = Load("n1", BEGIN_NS, BEGIN_NS + 10 * NS_PER_S, {IN: 5_000, OUT: 50})
    for with_loads, volume, findings in ((False, 6_000, 0), (False, 6_001, 1), (True, 1_001, 1)):
        evaluator = _evaluator(_rule(with_loads=with_loads))
        evaluator.load(load)
        assert len(evaluator.feed(_each_second([volume], direction=IN))) == findings
    evaluator = _evaluator(_rule())
    evaluator.load(load)
    assert len(evaluator.feed(_each_second([1_051]))) == 1
    # A minute after its end a window holds nothing of it.
    late = _evaluator(_rule())
    late.load(load)
    assert late.feed(_each_second([0] * 60 + [1_000], direction=IN)) == []
    assert len(late.feed(list(bins("n1/p0", IN, BEGIN_NS + 80 * NS_PER_S, NS_PER_S, [1_001])))) == 1


def test_absence_is_the_same_whenever_somebody_looks() -> None:
    rule = Rule("gone", Kind.TELEMETRY_ABSENT, for_ns=30 * NS_PER_S)

    def looked(every_s: int) -> list[Change]:
        evaluator = _evaluator(rule)
        evaluator.begin(BEGIN_NS)
        changes: list[Change] = []
        for second in range(200):
            now_ns = BEGIN_NS + second * NS_PER_S
            changes += evaluator.heard("sw1", now_ns)
            if not 50 <= second < 120:
                changes += evaluator.heard("n1-dpu0", now_ns)
            if second % every_s == 0:
                changes += evaluator.clock(now_ns)
        return changes

    (began, ended) = looked(1)
    assert looked(1) == looked(150) == looked(199)
    assert began.finding.to_ns == BEGIN_NS + (49 + 30) * NS_PER_S
    assert (ended.finding, ended.resolved_ns) == (began.finding, BEGIN_NS + 120 * NS_PER_S)


def test_a_source_never_heard_of_is_absent() -> None:
    evaluator = _evaluator(Rule("gone", Kind.TELEMETRY_ABSENT, for_ns=NS_PER_S))
    assert evaluator.clock(BEGIN_NS) == []
    evaluator.begin(BEGIN_NS)
    assert [change.finding.places for change in evaluator.clock(BEGIN_NS + 2 * NS_PER_S)] == [("n1-dpu0",), ("sw1",)]


@pytest.mark.parametrize("step_s", [1, 60])
def test_training_is_found_by_shape_and_ends(step_s: int) -> None:
    hours = 10
    out, inward = next(each for each in TRAINING if each.name == "DiLoCo").make(np.random.default_rng(1), hours * 60, 0)
    quiet = np.full(60 * 60, 800.0)
    moved: list[Moved] = []
    for direction, rate in ((OUT, out), (IN, inward)):
        volumes = np.repeat(np.concatenate([rate, quiet]), 60 // step_s) * step_s
        moved += bins("n1/p0", direction, BEGIN_NS, step_s * NS_PER_S, volumes.tolist())
    moved.sort(key=lambda each: each.to_ns)
    if step_s == 1:
        moved = moved[: 2 * 3_600 * 6]
    changes = _evaluator(shapes=True).feed(moved)
    begun = {change.finding.kind for change in changes if change.resolved_ns is None}
    assert begun >= {Kind.SYMMETRIC_FLOW, Kind.PERIODIC_EQUAL_BURSTS}
    assert all(change.finding.severity is not Severity.NOTE for change in changes)
    if step_s == 60:
        assert {change.finding.kind for change in changes if change.resolved_ns is not None} >= begun


def test_two_nodes_at_the_same_times() -> None:
    rng = np.random.default_rng(4)
    starts = np.cumsum(rng.integers(20, 90, 40))
    volumes = np.full(int(starts[-1]) + 200, 60e3)
    volumes[starts] = rng.uniform(0.5e9, 9e9, len(starts))
    moved = [
        each
        for link, other in (("n1/p0", OUT), ("n2/p0", IN))
        for direction in (OUT, IN)
        for each in bins(
            link, direction, BEGIN_NS, MINUTE_NS, (volumes * (1.0 if direction is other else 0.7)).tolist()
        )
    ]
    moved.sort(key=lambda each: each.to_ns)
    found = [change.finding for change in _evaluator(shapes=True).feed(moved)]
    assert ("n1/p0", "n2/p0") in [each.places for each in found if each.kind is Kind.SYNCHRONOUS_BURSTS]


def test_pairs_beyond_the_room_there_is_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("controller.rules.stream.MOST_PLACES", 2)
    evaluator = _evaluator(_rule(scope=Scope.PAIR, most=1))
    peers = {f"n{number}": 5 for number in range(3)}
    moved = Moved("n1/p0", OUT, BEGIN_NS, BEGIN_NS + NS_PER_S, 9, classes={}, peers=peers)
    assert len(evaluator.feed([moved])) == 2
    assert evaluator.unmeasured() == [("r", "n1")]
