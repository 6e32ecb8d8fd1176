"""Fleets through the limiter's arithmetic and the rules: slowdown, what is told, what is not, and what it costs."""

from __future__ import annotations

import resource
import time
from collections.abc import Iterator, Mapping

from controller.planner.fleet import COMPUTE_SPREAD, Fleet, FleetResult, play_fleet
from controller.planner.player import Job
from controller.planner.training import TrainingPlan
from controller.rulesfile import load_rules
from hil.bench.figure import Figure, Goal
from hil.bench.planner_cases import training
from protos.units import NS_PER_S

HOUR_NS = 3_600 * NS_PER_S
BACKGROUND = "text, little load"
NODES, HOURS = 400, 24
LARGE_NODES, LARGE_HOURS = 100_000, 3
SMALL_NODES = 1_000
_SPARSE = {"params": "72.7e9", "nodes": "20", "method": "sparseloco", "density": "64/4096", "bits_per_value": "14"}
FLEETS: Mapping[str, dict[str, str]] = {
    "ddp_at_1MBps": {
        "params": "8e9",
        "nodes": "20",
        "method": "ddp",
        "bits": "16",
        "step_time": "10s",
        "limit": "1MB/s",
    },
    "diloco_at_1MBps": {
        "params": "8e9",
        "nodes": "4",
        "method": "diloco",
        "bits": "32",
        "sync_steps": "500",
        "step_time": "2s",
        "limit": "1MB/s",
    },
    "diloco_blocking_at_10MBps": {
        "params": "8e9",
        "nodes": "4",
        "method": "diloco",
        "bits": "32",
        "sync_steps": "500",
        "step_time": "2s",
        "limit": "10MB/s",
    },
    "covenant_at_1MBps": {**_SPARSE, "sync_steps": "30", "step_time": "40s", "limit": "1MB/s"},
    "covenant_at_500kBps": {**_SPARSE, "sync_steps": "30", "step_time": "40s", "limit": "500kB/s"},
    "sparse_500_steps_at_500kBps": {**_SPARSE, "sync_steps": "500", "step_time": "40s", "limit": "500kB/s"},
    "sparse_500_steps_spread_at_500kBps": {
        **_SPARSE,
        "sync_steps": "500",
        "fragments": "500",
        "step_time": "40s",
        "limit": "500kB/s",
    },
    "rl_patch_at_500kBps": {
        "params": "7e9",
        "nodes": "20",
        "method": "rl-refresh",
        "patch_bytes": "108MB",
        "period": "300s",
        "limit": "500kB/s",
    },
}
"""What is played; but for one the limits are at and below those of the default rules."""
BLOCKING = frozenset({"diloco_blocking_at_10MBps"})
"""Computing waits for the transfer, so that there are pauses and bursts; the others overlap."""


def figures() -> Iterator[Figure]:
    """Play every fleet, then a large one."""
    for name, given in FLEETS.items():
        yield from _fleet(name, given)
    yield from _large()


def played(plan: TrainingPlan, nodes: int, hours: int, *, overlapped: bool = True) -> FleetResult:
    """Play a plan among nodes that serve a little text."""
    job = Job(
        plan.moved,
        plan.compute_s,
        int(plan.parts),
        overlapped,
        int(plan.limit_bytes_per_s),
        int(plan.limit_bytes_per_s) // 4,
    )
    fleet = Fleet(nodes, plan.nodes, hours * HOUR_NS, job, (BACKGROUND,), COMPUTE_SPREAD, 20_261)
    return play_fleet(fleet, load_rules(None))


def _fleet(name: str, given: dict[str, str]) -> Iterator[Figure]:
    plan = training(**given)
    overlapped = name not in BLOCKING
    found = played(plan, NODES, HOURS, overlapped=overlapped)
    planned = float(plan.slowdown.overlapped if overlapped else plan.slowdown.blocking)
    kind = "overlapped" if overlapped else "blocking"
    note = f"played {found.slowdown_mean:.4g} times slower, planned {planned:.4g}, {kind}"
    yield Figure(
        f"planner.fleet.{name}.slowdown", round(abs(found.slowdown_mean / planned - 1), 5), "1", 0.01, note=note
    )
    seen, control = found.seen, found.control
    when = ", ".join(f"{kind} {at / 3_600:.1f} h" for kind, at in sorted(found.first_alarm_s.items())) or "nothing"
    note = (
        f"by volume rules {seen.limits / seen.nodes:.3f}, by shape {seen.shapes / seen.nodes:.3f}; of one job: {when}"
    )
    yield Figure(f"planner.fleet.{name}.told", seen.alarmed / seen.nodes, "1", note=note)
    note = f"{control.nodes} of these nodes without training"
    yield Figure(f"planner.fleet.{name}.told_anyway", control.alarmed / control.nodes, "1", note=note)


def _large() -> Iterator[Figure]:
    """A hundred thousand nodes: memory must not grow with them, and what is found must be what few nodes show."""
    plan = training(**FLEETS["covenant_at_500kBps"])
    few = played(plan, SMALL_NODES, LARGE_HOURS)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    begin = time.process_time()
    many = played(plan, LARGE_NODES, LARGE_HOURS)
    spent = time.process_time() - begin
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024
    yield Figure("planner.fleet.large.nodes", many.seen.nodes, "1", LARGE_NODES, Goal.EXACTLY, f"{many.jobs} jobs")
    yield Figure(
        "planner.fleet.large.ms_a_node", round(spent / LARGE_NODES * 1e3, 3), "ms", note=f"{LARGE_HOURS} h each"
    )
    note = f"from {SMALL_NODES} to {LARGE_NODES} nodes"
    yield Figure("planner.fleet.large.memory_grown", grown, "B", 16 << 20, note=note)
    planned = float(plan.slowdown.overlapped)
    off = abs(many.slowdown_mean / planned - 1)
    note = f"mean of {many.jobs} jobs {many.slowdown_mean:.4g}, planned {planned:.4g}"
    yield Figure("planner.fleet.large.slowdown", round(off, 6), "1", 0.01, note=note)
    share, little = many.seen.alarmed / many.seen.nodes, few.seen.alarmed / few.seen.nodes
    note = f"{little:.4f} of {SMALL_NODES}; {many.control.alarmed} of {many.control.nodes} without training"
    yield Figure("planner.fleet.large.told", round(share, 4), "1", note=note)
