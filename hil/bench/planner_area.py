"""``make bench AREA=planner``: the planner against known answers, a recorded run, and the rig."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import numpy as np

from controller.planner.trace import measure
from controller.replay.record import read_record
from controller.rules.series import Flow
from hil.bench import planner_fleet, planner_rig
from hil.bench.figure import Figure, Goal
from hil.bench.planner_cases import LLAMA_8B, known, training

TRACES = Path(__file__).resolve().parents[3] / "shared" / "traces"
"""The recorded runs, beside the project."""
MILLION = Fraction(1_000_000)


def figures() -> Iterator[Figure]:
    """Compare everything."""
    yield from _known()
    yield from _recorded()
    yield from _plateaus()
    yield from planner_fleet.figures()
    yield from planner_rig.figures()


def _known() -> Iterator[Figure]:
    count = 0
    worst = 0.0
    for each in known():
        count += 1
        worst = max(worst, each.off / each.within if each.within else float(each.off > 0))
        note = f"computed {each.computed:.6g} {each.unit}, known {each.expected:.6g}: {each.source}"
        yield Figure(f"planner.known.{each.name}", round(each.off, 9), "1", each.within, note=note)
    note = "the largest share of its tolerance that a known answer uses up"
    yield Figure("planner.known.count", count, "1")
    yield Figure("planner.known.worst", round(worst, 4), "1", 1, note=note)


def _plateaus() -> Iterator[Figure]:
    """Other recorded runs: what a five-minute average makes of a burst, the level of FSDP, one load's reverse share."""
    for name, file, find, low, high, unit in (
        ("peak_of_a_burst", "diloco_internode_bytes_per_s.csv", _peak, 168.5e6, 170e6, "B/s"),
        ("fsdp_plateau", "baseline_internode_bytes_per_s.csv", _plateau, 2.07e9, 2.14e9, "B/s"),
        ("load_reverse_share", "model_load_8b_internode_bytes_per_s.csv", _reverse, 0.0016, 0.0018, "1"),
    ):
        path = TRACES / file
        if path.exists():
            value = find(read_record(path).flows[0])
            within = f"between {low:.4g} and {high:.4g}"
            yield Figure(f"planner.recorded.{name}", round(value, 6), unit, note=within)
            yield Figure(f"planner.recorded.{name}.within", int(low <= value <= high), "1", 1, Goal.EXACTLY)


def _peak(flow: Flow) -> float:
    return float(np.nanmax(flow.main.rate))


def _plateau(flow: Flow) -> float:
    return float(np.nanmedian(flow.main.rate))


def _reverse(flow: Flow) -> float:
    back = flow.reverse
    return float(np.nansum(back.rate) / np.nansum(flow.main.rate)) if back is not None else float("nan")


def _recorded() -> Iterator[Figure]:
    """The recorded DiLoCo run: 48.3 GB a synchronisation, how often, and what 1 MB/s would do to it."""
    names = ("sync_bytes", "against_formula", "interval", "interval_sd", "mean_rate", "slowdown", "slowdown_blocking")
    path = TRACES / "diloco_total_bytes.csv"
    if not path.exists():
        for name in names:
            yield Figure(f"planner.recorded.{name}", None, "1", note="the recorded traces are not beside the project")
        return
    found = measure(read_record(path).flows[0].main)
    formula = training(params=LLAMA_8B, nodes="4", method="diloco", bits="32", sync_steps="500", step_time="2s")
    predicted = float(formula.moved.up_bytes)
    slower = found.under(MILLION)
    note = f"formula 2 (W-1)/W P 4 with four ranks: {predicted / 1e9:.2f} GB; median of {len(found.volumes_bytes)}"
    yield Figure("planner.recorded.sync_bytes", round(found.median_bytes), "B", note=note)
    off = abs(found.median_bytes / predicted - 1)
    yield Figure("planner.recorded.against_formula", round(off, 5), "1", 0.005)
    yield Figure("planner.recorded.interval", found.mean_interval_s, "s", 1060, Goal.EXACTLY, "mean, start to start")
    yield Figure("planner.recorded.interval_sd", round(found.interval_sd_s, 2), "s", 28.28, Goal.EXACTLY, "population")
    off = abs(found.mean_rate_bytes_per_s / 45.6e6 - 1)
    note = f"{found.mean_rate_bytes_per_s / 1e6:.2f} MB/s over the run, 45.6 known"
    yield Figure("planner.recorded.mean_rate", round(off, 5), "1", 0.005, note=note)
    for name, value, expected in (
        ("slowdown", slower.overlapped, 45.6),
        ("slowdown_blocking", slower.blocking, 46.6),
    ):
        note = f"{float(value):.2f} times at 1 MB/s, {expected} known"
        yield Figure(f"planner.recorded.{name}", round(abs(float(value) / expected - 1), 5), "1", 0.005, note=note)
