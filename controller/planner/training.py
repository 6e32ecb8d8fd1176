"""``plan training``: one method under one limit. Text in, numbers out, with everything they rest on.

1. Read the method's parameters; what is missing is an error, what is filled in is said.
2. Bytes a node moves for one synchronisation (:mod:`.methods`, :mod:`.volume`).
3. Time between synchronisations without a limit; time that the bytes take under it (:mod:`.timing`).
4. Slowdowns, the limit that would not slow it, the fewest steps between synchronisations.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from controller.planner import quantities as kind
from controller.planner.inputs import Inputs
from controller.planner.marks import Assumption, Mark, PlanError
from controller.planner.methods import METHODS, Case, Traffic
from controller.planner.quality import TESTED_SYNC_STEPS, compression_quality, replica_loss, sync_efficiency
from controller.planner.timing import (
    Slowdown,
    needed_bytes_per_s,
    refilled_bytes,
    slowdown,
    step_time_s,
    sync_steps_min,
    transfer_s,
)
from controller.planner.volume import NodeBytes, framed_bytes

PARAMETERS: dict[str, kind.Quantity | None] = {
    "params": kind.MODEL,
    "nodes": kind.COUNT,
    "method": None,
    "topology": None,
    "duplex": None,
    "bits": kind.BITS,
    "compression": kind.FACTOR,
    "density": kind.SHARE,
    "bits-per-value": kind.BITS,
    "sync-steps": kind.COUNT,
    "fragments": kind.COUNT,
    "micro-steps": kind.COUNT,
    "step-time": kind.SECONDS,
    "flops-per-s": kind.FLOPS,
    "mfu": kind.SHARE,
    "local-batch-tokens": kind.COUNT,
    "adapter-params": kind.MODEL,
    "lora-rank": kind.COUNT,
    "lora-shapes": None,
    "layers": kind.COUNT,
    "hidden": kind.COUNT,
    "micro-batches": kind.COUNT,
    "micro-batch-tokens": kind.COUNT,
    "patch-bytes": kind.SIZE,
    "period": kind.SECONDS,
    "limit": kind.RATE,
    "depth": kind.DEPTH,
    "latency": kind.LATENCY,
    "framing-overhead": kind.AT_LEAST_ZERO,
    "tokens": kind.MODEL,
}
"""Every parameter of ``plan training`` and what it is; None: a word."""

OUTSIDE = (
    "training inside one pod, where no limit is",
    "paths that are not limited: a second cable, storage or management networks, other traffic classes",
    "any other method: one that sends less, or more seldom, is slowed less under the same limit",
    "what the bytes mean: a limit does not tell a gradient from a token",
    "how many nodes share the limit: the figures are for each node's own link, each direction",
    "stragglers, failures, and a transport that does not fill the limit",
)
"""What no result of the planner says anything about."""

STOPS_NOTHING = 2
"""Less than twice as slow is not called an obstacle."""


@dataclass(frozen=True, slots=True)
class TrainingPlan:
    """What one method does under one limit. Bytes and seconds are exact; ``moved`` is on the wire.

    ``compute_s`` lies between two synchronisations without a limit; ``step_s`` is None for a method without steps.
    """

    method: str
    moved: NodeBytes
    limit_bytes_per_s: Fraction
    compute_s: Fraction
    step_s: Fraction | None
    transfer_s: Fraction
    slowdown: Slowdown
    needed_bytes_per_s: Fraction
    sync_steps_min: int
    parts: Fraction
    nodes: int
    depth_bytes: int
    total_s: Fraction | None
    quality: dict[str, float] | None
    assumptions: tuple[Assumption, ...]
    warnings: tuple[str, ...]

    @property
    def sustained_bytes_per_s(self) -> Fraction:
        """What the fuller direction carries on average under the limit, overlapped."""
        return max(self.moved.up_bytes, self.moved.down_bytes) / max(self.compute_s, self.transfer_s)

    @property
    def peak_bytes_per_s(self) -> Fraction:
        """The rate while it sends: the limit itself, beyond the depth that passes at once."""
        return self.limit_bytes_per_s

    def json(self) -> dict[str, Any]:
        """Return it as JSON has it: bytes are decimal strings, rates, times and ratios numbers."""
        period = max(self.compute_s, self.transfer_s)
        return {
            "method": self.method,
            "bytes_per_sync_up": str(math.ceil(self.moved.up_bytes)),
            "bytes_per_sync_down": str(math.ceil(self.moved.down_bytes)),
            "limit_bytes_per_s": float(self.limit_bytes_per_s),
            "needed_bytes_per_s": float(self.needed_bytes_per_s),
            "slowdown": {"overlapped": float(self.slowdown.overlapped), "blocking": float(self.slowdown.blocking)},
            "sync_steps_min": self.sync_steps_min,
            "transfer_s": float(self.transfer_s),
            "compute_s": float(self.compute_s),
            "step_s": None if self.step_s is None else float(self.step_s),
            "sustained_bytes_per_s": {
                "up": float(self.moved.up_bytes / period),
                "down": float(self.moved.down_bytes / period),
            },
            "peak_bytes_per_s": float(self.peak_bytes_per_s),
            "at_once_bytes": str(self.depth_bytes),
            "piece_bytes": str(math.ceil(max(self.moved.up_bytes, self.moved.down_bytes) / self.parts)),
            "limit_for_slowdown_bytes_per_s": {
                str(times): float(self.needed_bytes_per_s / times) for times in (1, 10, 100, 1_000)
            },
            "total_s": self._totals(),
            "quality": self.quality,
            "warnings": list(self.warnings),
            "assumptions": [each.json() for each in self.assumptions],
            "outside_model": [*METHODS[self.method].outside, *OUTSIDE],
        }

    def _totals(self) -> dict[str, float] | None:
        if self.total_s is None:
            return None
        return {
            "unrestricted": float(self.total_s),
            "overlapped": float(self.total_s * self.slowdown.overlapped),
            "blocking": float(self.total_s * self.slowdown.blocking),
        }


def plan_training(given: Mapping[str, str]) -> TrainingPlan:
    """Return the plan for parameters given as texts, by the names in :data:`PARAMETERS`.

    Raises:
        PlanError: something is missing, impossible, can be taken two ways, or was given and changes nothing.
    """
    inputs = Inputs(given, PARAMETERS)
    name = inputs.text("method", "a plan")
    if name not in METHODS:
        raise PlanError(f"--method: {name!r} is not known. Use one of {', '.join(METHODS)}")
    method = METHODS[name]
    params, nodes = inputs.need("params", "a plan"), inputs.need("nodes", "a plan")
    limit = inputs.need("limit", "a plan")
    inputs.taken(("topology",))
    traffic = method.plan(inputs, Case(params, nodes, given.get("topology")))
    compute, step = _compute(inputs, params, traffic, method.title)
    inputs.taken(("duplex",))
    duplex = given.get("duplex", "full")
    inputs.assume("duplex", duplex, *_said("duplex" in given, "both directions at once, each with the limit"))
    latency = inputs.default("latency", "0s", "small against the transfer; give --latency")
    overhead = inputs.default("framing-overhead", "0", "payload only; TCP in 1500-byte packets adds 66/1448")
    moved = NodeBytes(framed_bytes(traffic.moved.up_bytes, overhead), framed_bytes(traffic.moved.down_bytes, overhead))
    depth = inputs.default("depth", "0B", "of the token bucket; what it holds after computing passes at once")
    rested = refilled_bytes(depth, limit, compute)
    whole = transfer_s(moved, limit, duplex=duplex, latency_s=latency)
    taken = transfer_s(moved, limit, duplex=duplex, latency_s=latency, at_once_bytes=rested)
    slower = slowdown(whole, compute, taken)
    unit = step if step is not None else compute
    inputs.assume("bytes per synchronisation", f"form of {name}", Mark.PUBLISHED, method.source)
    total = _total(inputs, nodes, compute, traffic)
    inputs.finish(f"the method {name}")
    fewest = sync_steps_min(whole, unit)
    return TrainingPlan(
        method=name,
        moved=moved,
        limit_bytes_per_s=limit,
        compute_s=compute,
        step_s=step,
        transfer_s=taken,
        slowdown=slower,
        needed_bytes_per_s=needed_bytes_per_s(moved, compute, duplex=duplex),
        sync_steps_min=fewest,
        parts=traffic.parts,
        nodes=int(nodes),
        depth_bytes=int(depth),
        total_s=total,
        quality=_quality(inputs, params, nodes, traffic),
        assumptions=tuple(inputs.assumptions),
        warnings=tuple(_warnings(slower, fewest, traffic, moved, rarer=method.rarer)),
    )


def _said(given: bool, reason: str) -> tuple[Mark, str]:
    return (Mark.GIVEN, "the caller") if given else (Mark.ASSUMED, f"default: {reason}")


def _compute(inputs: Inputs, params: Fraction, traffic: Traffic, title: str) -> tuple[Fraction, Fraction | None]:
    """Return the seconds between synchronisations and of a step, the latter None where there are none."""
    if traffic.period_s is not None:
        return traffic.period_s, None
    parts = ("flops-per-s", "mfu", "local-batch-tokens")
    step = inputs.optional("step-time")
    if step is not None and any(inputs.has(name) for name in ("flops-per-s", "mfu")):
        raise PlanError("--step-time and --flops-per-s with --mfu say the same. Give one of the two")
    if step is None:
        if not any(inputs.has(name) for name in parts):
            raise PlanError(f"{title} needs --step-time, or --flops-per-s with --mfu and --local-batch-tokens")
        purpose = "a step's time"
        flops, mfu = inputs.need("flops-per-s", purpose), inputs.need("mfu", purpose)
        step = step_time_s(params, inputs.need("local-batch-tokens", purpose), flops, mfu)
        inputs.assume("step time", f"{float(step):.6g} s", Mark.DERIVED, "6 P B / (F MFU), arXiv 2001.08361")
    return step * (traffic.sync_steps or 1), step


def _total(inputs: Inputs, nodes: Fraction, compute: Fraction, traffic: Traffic) -> Fraction | None:
    tokens = inputs.optional("tokens")
    if tokens is None:
        return None
    batch = inputs.need("local-batch-tokens", "the time of --tokens")
    if traffic.sync_steps is None:
        raise PlanError("--tokens means nothing for a method without steps. Leave it out")
    inputs.assume("total time", "D/(B N H) rounds", Mark.DERIVED, "every node computes a batch of its own each step")
    return tokens / (batch * nodes * traffic.sync_steps) * compute


def _quality(inputs: Inputs, params: Fraction, nodes: Fraction, traffic: Traffic) -> dict[str, float] | None:
    if traffic.sync_steps is None or traffic.sync_steps <= 1:
        return None
    steps = float(traffic.sync_steps)
    source = "Rahman 2026 (arXiv 2605.29359): modelling choices, not measured at this size; not part of the slowdown"
    inputs.assume("quality", "efficiency of rare synchronisation", Mark.ASSUMED, source)
    return {
        "sync_efficiency": sync_efficiency(float(params), steps),
        "compression_factor": compression_quality(float(traffic.compression or 1)),
        "replica_loss_factor": replica_loss(float(params), float(nodes), steps),
    }


def _warnings(slower: Slowdown, fewest: int, traffic: Traffic, moved: NodeBytes, *, rarer: bool) -> list[str]:
    found = []
    if slower.overlapped < STOPS_NOTHING:
        found.append(
            f"this limit does not stop it: {float(slower.overlapped):.3g} times slower if transfer and computing "
            f"overlap, {float(slower.blocking):.3g} if not"
        )
    steps = traffic.sync_steps
    if steps is not None and rarer and slower.overlapped > 1 and fewest > steps:
        known = "published" if fewest <= TESTED_SYNC_STEPS else "not tested in public"
        found.append(f"with {fewest} steps between synchronisations it would not be slowed at all ({known})")
    if steps is not None and steps > TESTED_SYNC_STEPS:
        found.append(f"{steps} steps between synchronisations are more than the {TESTED_SYNC_STEPS} that are published")
    if moved.up_bytes != moved.down_bytes:
        fuller = "down" if moved.down_bytes > moved.up_bytes else "up"
        found.append(f"the slowdown is of the direction {fuller}; the other one moves less")
    return found
