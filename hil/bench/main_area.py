"""The main job's figures: no false alarm, every lie found, no frame lost, bytes exact. About ten minutes."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from hil import rigfile, scenarios
from hil.bench.figure import Figure, Goal
from hil.operation import Operation
from hil.rig import Rig

RUNS = 10
CONTROLLER_KILLS, AGENT_KILLS = 10, 5
FRAME_BYTES = 1514
_FOLDER = Path("build/bench/main")


def figures() -> Iterator[Figure]:
    """Run every scenario on a rig of its own and yield the figures as they come."""
    with Rig.up(rigfile.load(rigfile.find("demo")), _FOLDER / "rig", name="benchmain", progress=_say) as rig:
        operation = Operation(rig, _FOLDER / "logs")
        operation.prepare()
        try:
            yield from _exactness(operation)
            yield from _kills(operation)
            yield from _watched(operation)
        finally:
            operation.kill()


def _exactness(operation: Operation) -> Iterator[Figure]:
    operation.start()
    directions = scenarios.exact_transfer(operation)
    operation.stop()
    for found in directions:
        name = f"main.exactness.{found.direction}"
        truth = f"{found.truth_bytes} B crossed the wire"
        yield Figure(f"{name}.observers_that_contain_it", found.containing_truth, "1", 4, Goal.EXACTLY, truth)
        widest = found.widest_bytes
        yield Figure(f"{name}.widest_interval", None if widest is None else widest / FRAME_BYTES, "frames", 3)


def _kills(operation: Operation) -> Iterator[Figure]:
    kills = scenarios.kill_run(operation, controller_kills=CONTROLLER_KILLS, agent_kills=AGENT_KILLS, seed=1)
    note = f"{kills.controller_kills} kills of the controller, {kills.agent_kills} of an agent, {kills.frames} frames"
    yield Figure("main.kills.frames_missing", kills.missing, "1", 0, Goal.EXACTLY, note)
    yield Figure("main.kills.frames_doubled", kills.doubled, "1", 0, Goal.EXACTLY)


def _watched(operation: Operation) -> Iterator[Figure]:
    runs = []
    for seed in range(RUNS):
        _say(f"run {seed + 1} of {RUNS}: honest, then lying")
        runs.append(scenarios.watched_run(operation, seed))
    alarms = sum(len(run.honest_findings) for run in runs)
    yield Figure("main.honest_runs.certain_findings", alarms, "1", 0, Goal.EXACTLY, f"{RUNS} runs")
    found = sum(run.lie_found for run in runs)
    yield Figure("main.lying_runs.found", found, "1", RUNS, Goal.EXACTLY, f"of {RUNS} runs")
    others = sum(len(run.accused) - run.lie_found for run in runs)
    yield Figure("main.lying_runs.others_accused", others, "1", 0, Goal.EXACTLY)
    share = min(run.found_bytes / run.hidden_bytes for run in runs)
    yield Figure("main.lying_runs.least_share_of_the_lie_proven", round(share, 4), "1")


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
