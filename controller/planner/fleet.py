"""A fleet of training jobs, node by node: how much slower, and what the product's own rules and detectors say. Pure.

1. Each job is played once through the limiter (:mod:`.player`); its stretches of computing vary as measured.
2. Each of its nodes is seen minute by minute, at moments of its own, together with honest traffic of its own.
3. Of each node: every rule of volume and rate over the record, every shape detector at its end.
4. Nodes of the first job are also fed to the streaming evaluation, as one pod: when would it have told?
5. The same of the first :data:`CONTROL` nodes without their training: what would have been said anyway.

One job is in memory at a time, and of a node only counts remain.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from controller.corpus.honest import HONEST
from controller.planner.marks import PlanError
from controller.planner.player import Job, Played, Way, play
from controller.rules.evaluator import Evaluator
from controller.rules.examine import shapes
from controller.rules.finding import Severity
from controller.rules.limits import over_limit
from controller.rules.moved import Places, bins
from controller.rules.rule import Rules
from controller.rules.series import Floats, Flow, Series
from protos.reading import Direction
from protos.units import NS_PER_S

STEP_NS = 60 * NS_PER_S
MOST_NODES = 1_000_000
LEAST_DEPTH_BYTES = 1_600
"""A full Ethernet frame must fit: a policer passes frames whole or not at all."""
LONGEST_NS = 48 * 3_600 * NS_PER_S
"""As far as the detectors remember."""
ROUNDS = 20
"""Of each job at least, for its slowdown, however short the time looked at."""
CONTROL = 1_000
WATCHED = 16
COMPUTE_SPREAD = 0.0267
"""Of the seconds between two synchronisations, relative: 28.3 s of 1,060 s in the recorded run."""


@dataclass(frozen=True, slots=True)
class Fleet:
    """What is played: so many nodes in jobs of ``job_nodes``, looked at for ``length_ns``."""

    nodes: int
    job_nodes: int
    length_ns: int
    job: Job
    background: tuple[str, ...]
    compute_spread: float
    seed: int

    def check(self) -> None:
        """Refuse what cannot be played.

        Raises:
            PlanError: with the remedy.
        """
        if not self.job_nodes <= self.nodes <= MOST_NODES:
            raise PlanError(f"--fleet: {self.nodes} nodes hold no job of {self.job_nodes}, or are above {MOST_NODES}")
        if not 600 * NS_PER_S <= self.length_ns <= LONGEST_NS:
            raise PlanError("--for: play from 10 minutes to 48 hours, as far as the detectors remember")
        if self.job.depth_bytes < LEAST_DEPTH_BYTES:
            raise PlanError(f"--depth: {self.job.depth_bytes} B pass no whole frame. Use {LEAST_DEPTH_BYTES} B or more")
        for name in self.background:
            if name not in HONEST:
                raise PlanError(f"--background: {name!r} is not known. Use of {', '.join(HONEST)}")


@dataclass
class Said:
    """What was said of so many nodes: alarms by rule or kind, and nodes with any."""

    nodes: int = 0
    alarmed: int = 0
    limits: int = 0
    shapes: int = 0
    by: Counter[str] = field(default_factory=Counter)

    def json(self) -> dict[str, Any]:
        """Return counts and shares as JSON has them."""
        share = (
            {name: getattr(self, name) / self.nodes for name in ("alarmed", "limits", "shapes")} if self.nodes else {}
        )
        return {"nodes": self.nodes, "share": share, "nodes_by_rule_or_shape": dict(self.by.most_common())}


@dataclass(frozen=True, slots=True)
class FleetResult:
    """What came of it. Slowdowns are of jobs.

    ``first_alarm_s``: by rule or shape, of the watched nodes as it went on; ``anyway_s``: the same without training.
    """

    jobs: int
    slowdown_mean: float
    slowdown_least: float
    slowdown_most: float
    seen: Said
    control: Said
    watched_nodes: int
    first_alarm_s: dict[str, float]
    anyway_s: dict[str, float]

    def json(self) -> dict[str, Any]:
        """Return it as JSON has it."""
        return {
            "jobs": self.jobs,
            "slowdown": {"mean": self.slowdown_mean, "least": self.slowdown_least, "most": self.slowdown_most},
            "training": self.seen.json(),
            "honest_control": self.control.json(),
            "watched": {
                "nodes": self.watched_nodes,
                "first_alarm_s": self.first_alarm_s,
                "without_training_s": self.anyway_s,
            },
        }


def play_fleet(fleet: Fleet, rules: Rules) -> FleetResult:
    """Play a fleet; the module says how. Memory does not grow with its nodes.

    Raises:
        PlanError: it cannot be played.
    """
    fleet.check()
    jobs = fleet.nodes // fleet.job_nodes
    watched = min(WATCHED, fleet.job_nodes)
    seen, control = Said(), Said()
    first: dict[str, float] = {}
    anyway: dict[str, float] = {}
    total, least, most = 0.0, np.inf, 0.0
    for number in range(jobs):
        played, start_ns = _played(fleet, np.random.default_rng([fleet.seed, 1, number]))
        factor = played.seconds_a_round / float(fleet.job.compute_s)
        total, least, most = total + factor, min(least, factor), max(most, factor)
        if number == 0:
            first = _watched([_node(fleet, played, start_ns, (0, at)) for at in range(watched)], rules)
            anyway = _watched([_node(fleet, None, 0, (0, at)) for at in range(watched)], rules)
        for at in range(fleet.job_nodes):
            _look(_node(fleet, played, start_ns, (number, at)), rules, seen)
            if control.nodes < CONTROL:
                _look(_node(fleet, None, 0, (number, at)), rules, control)
    return FleetResult(
        jobs=jobs,
        slowdown_mean=total / jobs,
        slowdown_least=float(least),
        slowdown_most=most,
        seen=seen,
        control=control,
        watched_nodes=watched,
        first_alarm_s=first,
        anyway_s=anyway,
    )


def _played(fleet: Fleet, rng: np.random.Generator) -> tuple[Played, int]:
    """Return a job, and when in its course it begins to be looked at: anywhere in its second round."""
    spread = fleet.compute_spread

    def factor() -> float:
        return max(0.1, float(rng.normal(1.0, spread)))

    job = fleet.job
    fuller = max(job.moved.up_bytes, job.moved.down_bytes)
    round_s = float(job.compute_s + fuller / job.rate_bytes_per_s)
    start_ns = round(rng.uniform(1.0, 2.0) * round_s * NS_PER_S)
    whole = start_ns + fleet.length_ns + STEP_NS
    return play(job, least_ns=whole, least_rounds=ROUNDS, factor=factor), start_ns


def _node(fleet: Fleet, played: Played | None, start_ns: int, which: tuple[int, int]) -> Flow:
    """Return what the uplink of a node of a job counted, a minute a bin, read at moments of its own."""
    rng = np.random.default_rng([fleet.seed, 2, *which])
    count = fleet.length_ns // STEP_NS
    if fleet.background:
        out, inward = HONEST[fleet.background[int(rng.integers(len(fleet.background)))]](rng, count)
    else:
        out, inward = np.zeros(count), np.zeros(count)
    if played is not None:
        edges = start_ns + int(rng.integers(STEP_NS)) + np.arange(count + 1, dtype=np.int64) * STEP_NS
        out, inward = out + _rate(played.up, edges), inward + _rate(played.down, edges)
    return Flow("node", Series("node egress", 0, STEP_NS, out), Series("node ingress", 0, STEP_NS, inward))


def _rate(way: Way, edges: Any) -> Floats:
    passed = np.interp(edges, np.array(way.times_ns, dtype=np.float64), np.array(way.passed_bytes, dtype=np.float64))
    rate: Floats = np.diff(passed) * NS_PER_S / STEP_NS
    return rate


def _look(flow: Flow, rules: Rules, said: Said) -> None:
    """Ask the rules and the detectors about one node."""
    over = {
        found.rule
        for series in (flow.outward, flow.inward)
        if series is not None
        for limit in rules.limits
        if (found := over_limit(series, limit)) is not None and found.severity is not Severity.NOTE
    }
    formed = {
        found.kind.value for found in shapes(flow, rules.shape, spectrum=False) if found.severity is not Severity.NOTE
    }
    said.nodes += 1
    said.alarmed += bool(over or formed)
    said.limits += bool(over)
    said.shapes += bool(formed)
    said.by.update(over | formed)


def _watched(flows: Sequence[Flow], rules: Rules) -> dict[str, float]:
    """Return when each rule or shape first gave an alarm of these nodes, one pod, to the streaming evaluation."""
    links = {f"n{at}/p0": f"n{at}" for at in range(len(flows))}
    evaluator = Evaluator(rules, Places("fleet", links, dict.fromkeys(links.values(), "pod")))
    first: dict[str, float] = {}
    moved = [
        list(bins(link, direction, 0, STEP_NS, (series.rate * series.step_s).tolist()))
        for link, flow in zip(links, flows, strict=True)
        for direction, series in ((Direction.EGRESS, flow.outward), (Direction.INGRESS, flow.inward))
        if series is not None
    ]
    for minute in zip(*moved, strict=True):
        for change in evaluator.feed(minute):
            found = change.finding
            if change.resolved_ns is None and found.severity is not Severity.NOTE:
                first.setdefault(found.rule or found.kind.value, found.to_ns / NS_PER_S)
    return first
