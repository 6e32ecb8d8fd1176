"""What the detectors catch of the corpus, how soon, and how often they are wrong. Deterministic for a seed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from controller.corpus.honest import HONEST, Both
from controller.corpus.training import TRAINING, Method
from controller.rules.examine import shapes
from controller.rules.finding import Kind, Severity
from controller.rules.limits import REPORT_LIMITS, over_limit
from controller.rules.probability import at_least_poisson
from controller.rules.series import Flow, Series
from controller.rules.shape import HOUR_NS, Shape
from protos.units import NS_PER_S

STEP_NS = 60 * NS_PER_S
MEMORY_MINUTES = 48 * 60
EVERY_MINUTES = 30
STRENGTHS = (0, 1, 2, 3)


@dataclass(frozen=True, slots=True)
class Scored:
    """One class at one strength of hiding.

    Attributes:
        label: the class.
        honest: whether it is.
        strength: of jitter, padding and cover; 0 for honest classes.
        nodes: so many were made.
        node_days: of traffic looked at.
        caught: nodes with an alarm.
        hours: median time to the first alarm of those caught; None without any.
        alarms: distinct alarms (an alarm that goes on is one).
        kinds: of alarms, the most frequent first.
        over_limit: nodes that exceed the limits, whatever their shape.
    """

    label: str
    honest: bool
    strength: int
    nodes: int
    node_days: float
    caught: int
    hours: float | None
    alarms: int
    kinds: tuple[str, ...]
    over_limit: int


def score(shape: Shape, *, seed: int, nodes: int, days: float, honest_only: bool = False) -> Iterator[Scored]:
    """Yield a row for each honest class, and for each way to train at each strength."""
    for label in HONEST:
        yield score_honest(label, shape, seed=seed, nodes=nodes, days=days)
    for method in () if honest_only else TRAINING:
        for strength in STRENGTHS:
            yield score_training(method, strength, shape, seed=seed, nodes=nodes, days=days)


def score_honest(label: str, shape: Shape, *, seed: int, nodes: int, days: float) -> Scored:
    """Return the row of one honest class."""
    seeds = ([seed, 1, *label.encode(), node] for node in range(nodes))
    made = (HONEST[label](np.random.default_rng(each), int(days * 1_440)) for each in seeds)
    return _scored(label, True, 0, list(_alarms(made, shape)), days)


def score_training(method: Method, strength: int, shape: Shape, *, seed: int, nodes: int, days: float) -> Scored:
    """Return the row of one way to train, hidden with a strength."""
    seeds = ([seed, 2, strength, *method.name.encode(), node] for node in range(nodes))
    made = (method.make(np.random.default_rng(each), int(days * 1_440), strength) for each in seeds)
    return _scored(method.name, False, strength, list(_alarms(made, shape)), days)


def at_most_a_year(alarms: int, node_days: float, confidence: float = 0.95) -> float:
    """Return the alarms a node-year that so many seen do not exceed, with confidence.

    The exact upper bound of a Poisson rate (Garwood 1936): the mean at which no more than ``alarms`` have the chance
    ``1 - confidence``. None seen in three node-years is at most one a node-year.
    """
    low, high = 0.0, 10.0 * (alarms + 5)
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if 1 - at_least_poisson(alarms + 1, middle) > 1 - confidence else (low, middle)
    return high / (node_days / 365.25)


def _alarms(made: Iterator[Both], shape: Shape) -> Iterator[tuple[list[tuple[float, Kind]], bool]]:
    """Yield for each node its alarms: hours to the first, and its kind; an alarm goes on while it is found again."""
    for outward, inward in made:
        flow = Flow("node", Series("out", 0, STEP_NS, outward), Series("in", 0, STEP_NS, inward))
        alarms: list[tuple[float, Kind]] = []
        going: set[tuple[str, str, tuple[str, ...]]] = set()
        for now in range(EVERY_MINUTES, len(outward) + 1, EVERY_MINUTES):
            memory = flow.between((now - MEMORY_MINUTES) * STEP_NS, now * STEP_NS)
            found = [each for each in shapes(memory, shape, spectrum=False) if each.severity is not Severity.NOTE]
            alarms += [(now * STEP_NS / HOUR_NS, each.kind) for each in found if each.key not in going]
            going = {each.key for each in found}
        over = [over_limit(one, limit) for one in flow.both or () for limit in REPORT_LIMITS]
        yield alarms, any(each is not None for each in over)


def _scored(
    label: str, honest: bool, strength: int, made: list[tuple[list[tuple[float, Kind]], bool]], days: float
) -> Scored:
    nodes = [alarms for alarms, _ in made]
    firsts = [alarms[0][0] for alarms in nodes if alarms]
    kinds = [kind.value for alarms in nodes for _, kind in alarms]
    ordered = tuple(sorted(set(kinds), key=lambda kind: -kinds.count(kind)))
    over = sum(exceeds for _, exceeds in made)
    hours = float(np.median(firsts)) if firsts else None
    return Scored(label, honest, strength, len(nodes), len(nodes) * days, len(firsts), hours, len(kinds), ordered, over)


def rows(shape: Shape, *, seed: int, nodes: int, days: float, honest_only: bool = False) -> Iterator[dict[str, object]]:
    """Yield each class as plain values; as :func:`score`."""
    for one in score(shape, seed=seed, nodes=nodes, days=days, honest_only=honest_only):
        yield {
            "class": one.label,
            "honest": one.honest,
            "strength": one.strength,
            "nodes": one.nodes,
            "node_days": one.node_days,
            "caught": one.caught,
            "hours_to_detect": one.hours,
            "false_alarms_per_week": 7 * one.alarms / one.node_days if one.honest else None,
            "at_most_per_node_year": at_most_a_year(one.alarms, one.node_days) if one.honest else None,
            "kinds": list(one.kinds),
            "over_limit": one.over_limit,
        }


def table(found: Iterator[dict[str, object]]) -> Iterator[str]:
    """Yield the rows as lines of text, as they come."""
    rates = f"{'false/week':>10} {'most/year':>9}"
    yield f"{'class':32} {'hidden':>6} {'caught':>8} {'hours':>6} {rates} {'over limit':>10}  by"
    for row in found:
        caught, over = f"{row['caught']}/{row['nodes']}", f"{row['over_limit']}/{row['nodes']}"
        hours = "" if row["hours_to_detect"] is None else f"{row['hours_to_detect']:.1f}"
        false = "" if row["false_alarms_per_week"] is None else f"{row['false_alarms_per_week']:.2f}"
        most = "" if row["at_most_per_node_year"] is None else f"{row['at_most_per_node_year']:.2f}"
        kinds = row["kinds"] if isinstance(row["kinds"], list) else []
        text = f"{row['class']:32} {row['strength']:>6} {caught:>8} {hours:>6} {false:>10} {most:>9} {over:>10}"
        yield f"{text}  {', '.join(kinds)}"
