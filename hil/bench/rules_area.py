"""Figures of the shape detectors: false alarms on honest traffic, what is caught of training, and what it costs."""

from __future__ import annotations

import resource
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from controller.corpus.honest import HONEST
from controller.corpus.score import EVERY_MINUTES, MEMORY_MINUTES, STEP_NS, score
from controller.replay.record import read_record
from controller.rules.examine import shapes
from controller.rules.series import Flow, Series
from controller.rules.shape import DEFAULT_SHAPE
from hil.bench.figure import Figure

SEED = 20_261
HONEST_NODES, HONEST_DAYS = 4, 8.0
TRAINING_NODES, TRAINING_DAYS = 2, 4.0
LINKS = 10_000
ROWS = 300_000


def figures() -> Iterator[Figure]:
    """Yield every figure of this area; about ten minutes, most of it the corpus."""
    yield from _cost()
    yield from _replay()
    yield from _corpus()


def _corpus() -> Iterator[Figure]:
    alarms, node_days = 0, 0.0
    for found in score(DEFAULT_SHAPE, seed=SEED, nodes=HONEST_NODES, days=HONEST_DAYS, honest_only=True):
        alarms, node_days = alarms + found.alarms, node_days + found.node_days
    note = f"{alarms} alarms in {node_days:.0f} node-days of {len(HONEST)} honest classes"
    yield Figure("rules.false_alarms_per_node_year", round(alarms * 365.25 / node_days, 3), "1", 1, note=note)
    for found in score(DEFAULT_SHAPE, seed=SEED, nodes=TRAINING_NODES, days=TRAINING_DAYS):
        if not found.honest:
            name = f"rules.caught.{found.label}.hidden_{found.strength}"
            when = "" if found.hours is None else f"median after {found.hours:.1f} h by {', '.join(found.kinds)}; "
            over = f"{found.over_limit} of {found.nodes} exceed the report's limits"
            yield Figure(name, found.caught / found.nodes, "1", note=when + over)


def _cost() -> Iterator[Figure]:
    """What looking at one link's memory costs, for each honest class, and so at all links."""
    spent = []
    for make in HONEST.values():
        out, inward = make(np.random.default_rng(1), MEMORY_MINUTES)
        flow = Flow("n", Series("out", 0, STEP_NS, out), Series("in", 0, STEP_NS, inward))
        begin = time.process_time()
        shapes(flow, DEFAULT_SHAPE, spectrum=False)
        spent.append(time.process_time() - begin)
    mean = sum(spent) / len(spent)
    yield Figure("rules.evaluation.mean", round(mean * 1e3, 3), "ms", note="one link, both directions, 48 h of minutes")
    share = mean * LINKS / (EVERY_MINUTES * 60)
    note = f"detectors alone, were {LINKS} links looked at every {EVERY_MINUTES} min"
    yield Figure("rules.evaluation.share_of_a_core", round(share, 4), "1", note=note)


def _replay() -> Iterator[Figure]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "record.csv"
        with path.open("w", encoding="ascii") as file:
            file.write("Time,n1 rx\n")
            file.writelines(f"{1_777_000_000 + 15 * at},{at % 977 + 1} kB/s\n" for at in range(ROWS))
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        begin = time.process_time()
        read_record(path)
        spent = time.process_time() - begin
        grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024
        size = path.stat().st_size
    yield Figure("rules.replay.bytes_per_s", round(size / spent), "B/s", note=f"CSV with units, {ROWS} rows, one core")
    yield Figure("rules.replay.memory_grown", grown, "B", note=f"while reading {size} B")
