"""Each detector finds what it is for, and keeps quiet where its null holds."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from controller.corpus.honest import HONEST
from controller.corpus.score import at_most_a_year, score
from controller.corpus.training import TRAINING
from controller.rules.bursts import find_bursts
from controller.rules.detectors.together import rotating_load, synchronous_bursts
from controller.rules.examine import shapes
from controller.rules.finding import Finding, Kind, Severity
from controller.rules.limits import VolumeLimit, over_limit
from controller.rules.series import Floats, Flow, Series
from controller.rules.shape import DEFAULT_SHAPE
from protos.units import NS_PER_S

STEP_NS = 60 * NS_PER_S
METHODS = {method.name: method for method in TRAINING}


def _flow(out: Floats, inward: Floats, name: str = "n") -> Flow:
    return Flow(name, Series(f"{name} out", 0, STEP_NS, out), Series(f"{name} in", 0, STEP_NS, inward))


def _made(method: str, strength: int = 0, hours: int = 8, seed: int = 1) -> Flow:
    return _flow(*METHODS[method].make(np.random.default_rng(seed), 60 * hours, strength))


def _alarms(flow: Flow) -> set[Kind]:
    return {each.kind for each in shapes(flow, DEFAULT_SHAPE, spectrum=False) if each.severity is not Severity.NOTE}


@pytest.mark.parametrize(
    ("method", "hours", "kind"),
    [
        ("DiLoCo", 8, Kind.PERIODIC_EQUAL_BURSTS),
        ("DiLoCo", 2, Kind.SYMMETRIC_FLOW),
        ("LoRA", 4, Kind.SYMMETRIC_FLOW),
        ("FSDP", 5, Kind.SYMMETRIC_FLOW),
        ("Streaming DiLoCo, at the limit", 49, Kind.CONSTANT_RATE),
        ("RL weight refresh", 12, Kind.LOAD_SHAPED_REPEATS),
    ],
)
def test_found(method: str, hours: int, kind: Kind) -> None:
    assert kind in _alarms(_made(method, hours=hours))


@pytest.mark.parametrize("method", ["hidden in requests", "SparseLoCo, every 10 h"])
def test_what_metadata_does_not_show(method: str) -> None:
    assert not _alarms(_made(method, hours=24))


@pytest.mark.parametrize("label", sorted(HONEST))
def test_honest_traffic_is_no_alarm(label: str) -> None:
    for seed in range(3):
        assert not _alarms(_flow(*HONEST[label](np.random.default_rng(seed), 2 * 1_440)))


@pytest.mark.parametrize("scale", [1e-2, 1.0, 1e3])
def test_a_finding_does_not_depend_on_the_scale(scale: float) -> None:
    plain = _made("DiLoCo")
    both = plain.both
    assert both is not None
    flow = _flow(both[0].rate * scale, both[1].rate * scale)
    assert Kind.PERIODIC_EQUAL_BURSTS in _alarms(flow)


def test_four_bursts_are_too_few_for_an_alarm() -> None:
    rate = np.full(80, 800.0)
    rate[10:80:20] = 1e9
    found = [
        each
        for each in shapes(Flow("n", None, Series("n in", 0, STEP_NS, rate)), DEFAULT_SHAPE)
        if each.kind is Kind.PERIODIC_EQUAL_BURSTS
    ]
    assert all(each.severity is Severity.NOTE for each in found)


def test_bursts_hidden_by_a_gap_count_as_the_periods_they_are() -> None:
    rate = np.full(400, 800.0)
    rate[10:400:20] = 1e9
    rate[100:155] = np.nan
    (found,) = (
        each
        for each in shapes(Flow("n", None, Series("n in", 0, STEP_NS, rate)), DEFAULT_SHAPE)
        if each.kind is Kind.PERIODIC_EQUAL_BURSTS
    )
    assert found.severity is Severity.PAGE
    assert found.numbers["interval_mean_s"] == pytest.approx(1_200, rel=0.01)


def test_one_way_bursts_are_a_note() -> None:
    rate = np.full(1_000, 800.0)
    rate[10:1_000:20] = 1e9
    flow = _flow(rate, np.full(1_000, 900.0))
    found = [each for each in shapes(flow, DEFAULT_SHAPE) if each.kind is Kind.PERIODIC_EQUAL_BURSTS]
    assert [each.severity for each in found] == [Severity.NOTE]


def test_acknowledgements_of_one_way_bursts_are_a_note() -> None:
    rate = np.full(1_000, 800.0)
    rate[10:1_000:20] = 1e9
    flow = _flow(rate, 900.0 + 0.004 * rate)
    found = [each for each in shapes(flow, DEFAULT_SHAPE) if each.kind is Kind.PERIODIC_EQUAL_BURSTS]
    assert {each.places for each in found} == {("n out",), ("n in",)}
    assert {each.severity for each in found} == {Severity.NOTE}


def test_what_carries_more_than_acknowledgements_is_an_alarm() -> None:
    rate = np.full(1_000, 800.0)
    rate[10:1_000:20] = 1e9
    flow = _flow(rate, 900.0 + 0.0526 * rate)  # updates of twenty nodes, and one's own through the same store
    loud = [each for each in shapes(flow, DEFAULT_SHAPE) if each.severity is Severity.PAGE]
    assert [each.places for each in loud if each.kind is Kind.PERIODIC_EQUAL_BURSTS] == [("n in",)]


def test_weights_loaded_everywhere_at_once_are_not_synchronous_bursts() -> None:
    """Not even where a quiet day's sent bytes outweigh them, so that their acknowledgements are what is looked at."""
    sent = np.full(1_000, 5e6)
    loaded = np.full(1_000, 1e3)
    for at in (100, 310, 640, 900):
        loaded[at] = 1e9
        sent[at] += 3e7
    flows = [_flow(sent, loaded, name) for name in ("a", "b")]
    assert all(flow.main is flow.outward for flow in flows)
    assert _together(flows)[0] == []


def _together(flows: list[Flow]) -> tuple[list[Finding], Finding | None]:
    bursts = {flow.name: find_bursts(flow.main) for flow in flows}
    return synchronous_bursts(flows, bursts, DEFAULT_SHAPE), rotating_load(flows, bursts, DEFAULT_SHAPE)


def test_bursts_of_two_nodes_at_the_same_times() -> None:
    one = METHODS["DiLoCo"].make(np.random.default_rng(1), 600, 3)
    other = METHODS["DiLoCo"].make(np.random.default_rng(1), 600, 3)
    alone = METHODS["DiLoCo"].make(np.random.default_rng(2), 600, 3)
    found, _ = _together([_flow(*one, "a"), _flow(*other, "b"), _flow(*alone, "c")])
    assert [each.places for each in found if each.severity is Severity.PAGE] == [("a", "b")]


def test_work_that_goes_round() -> None:
    rng = np.random.default_rng(1)
    turns = np.repeat(rng.permutation(np.arange(60) % 3), 15)
    shares = [np.where(turns == node, 5e6, 1e3) for node in range(3)]
    flows = [_flow(share, share, f"n{node}") for node, share in enumerate(shares)]
    _, found = _together(flows)
    assert found is not None
    assert found.severity is Severity.PAGE
    shares = list(np.repeat(rng.random((3, 60)) < 0.3, 15, 1) * 5e6)
    independent = [_flow(share, share, f"n{at}") for at, share in enumerate(shares)]
    assert _together(independent)[1] is None


def test_limits() -> None:
    rate = np.zeros(120)
    rate[60:65] = 1e6
    series = Series("n", 0, STEP_NS, rate)
    assert over_limit(series, VolumeLimit("a", 5 * STEP_NS, 300_000_000)) is None
    found = over_limit(series, VolumeLimit("a", 5 * STEP_NS, 299_999_999))
    assert found is not None
    assert found.to_ns == 65 * STEP_NS
    assert found.numbers["held_bytes"] == 300_000_000


def test_the_score_is_the_same_for_the_same_seed() -> None:
    first, again = (list(score(DEFAULT_SHAPE, seed=3, nodes=1, days=1, honest_only=True)) for _ in range(2))
    assert first == again
    assert not any(each.alarms for each in first)


@pytest.mark.parametrize("alarms", [0, 1, 3, 20])
def test_the_bound_on_alarms_a_year_is_the_exact_one(alarms: int) -> None:
    exact = stats.chi2.ppf(0.95, 2 * (alarms + 1)) / 2
    assert at_most_a_year(alarms, 365.25) == pytest.approx(exact, rel=1e-6)
    assert at_most_a_year(alarms, 3 * 365.25) == pytest.approx(exact / 3, rel=1e-6)
