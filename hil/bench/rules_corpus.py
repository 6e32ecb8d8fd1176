"""False alarms on honest traffic, class by class with the bound that so many node-years give; and what is caught."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial

from controller.corpus.honest import HONEST
from controller.corpus.score import STRENGTHS, Scored, at_most_a_year, score_honest, score_training
from controller.corpus.training import TRAINING
from controller.rules.shape import DEFAULT_SHAPE
from hil.bench.figure import Figure

SEED = 20_261
HONEST_NODES, HONEST_DAYS = 37, 30.0
"""Three node-years a class: if none of them raises an alarm, each has at most one a node-year, with 95 % confidence."""
TRAINING_NODES, TRAINING_DAYS = 4, 4.0
GOAL = 1.0


def honest() -> Iterator[Figure]:
    """Yield the false alarms of each class, and of all."""
    alarms, node_days = 0, 0.0
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        count = partial(_honest, nodes=HONEST_NODES, days=HONEST_DAYS)
        for found in pool.map(count, HONEST):
            alarms, node_days = alarms + found.alarms, node_days + found.node_days
            yield _rate(f"rules.false_alarms.{found.label}", found.alarms, found.node_days, ", ".join(found.kinds))
    note = f"{len(HONEST)} honest classes together"
    yield Figure("rules.false_alarms_per_node_year", round(alarms * 365.25 / node_days, 3), "1", GOAL, note=note)
    yield _rate("rules.false_alarms.all", alarms, node_days, note)


def _rate(name: str, alarms: int, node_days: float, more: str) -> Figure:
    seen = f"{alarms} alarms in {node_days / 365.25:.2f} node-years"
    note = f"a node-year at most, with 95 % confidence; {seen}" + (f"; {more}" if more else "")
    return Figure(name, round(at_most_a_year(alarms, node_days), 3), "1", GOAL, note=note)


def trained() -> Iterator[Figure]:
    """Yield for each way to train and each strength of hiding the share of nodes that is caught."""
    cases = [(at, strength) for at in range(len(TRAINING)) for strength in STRENGTHS]
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        for found in pool.map(_training, cases):
            name = f"rules.caught.{found.label}.hidden_{found.strength}"
            when = "" if found.hours is None else f"median after {found.hours:.1f} h by {', '.join(found.kinds)}; "
            over = f"{found.over_limit} of {found.nodes} exceed the report's limits"
            yield Figure(name, found.caught / found.nodes, "1", note=when + over)


def _honest(label: str, nodes: int, days: float) -> Scored:
    return score_honest(label, DEFAULT_SHAPE, seed=SEED, nodes=nodes, days=days)


def _training(case: tuple[int, int]) -> Scored:
    at, strength = case
    return score_training(TRAINING[at], strength, DEFAULT_SHAPE, seed=SEED, nodes=TRAINING_NODES, days=TRAINING_DAYS)
