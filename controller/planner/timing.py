"""Times: how long a synchronisation takes under a limit, and how much slower training is. Exact on Fractions.

Sources: Rahman, "Does Distributed Training Undermine Compute Governance?" (arXiv 2605.29359) for the half-duplex form,
the straggler factor and the latency term; the rest is arithmetic.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from controller.planner.marks import PlanError
from controller.planner.volume import NodeBytes

FLOPS_PER_PARAM_TOKEN = 6
"""Forward and backward pass: 2 and 4 (Kaplan et al., arXiv 2001.08361, section 2.1)."""
DUPLEX = ("full", "half")


@dataclass(frozen=True, slots=True)
class Slowdown:
    """Times slower than without a limit.

    Attributes:
        overlapped: the next steps are computed while the update travels (streaming): ``max(1, T_s/(H T))``.
        blocking: computing waits for it: ``1 + T_s/(H T)``.
    """

    overlapped: Fraction
    blocking: Fraction


def step_time_s(params: Fraction, local_batch_tokens: Fraction, flops_per_s: Fraction, mfu: Fraction) -> Fraction:
    """Return seconds of a step: ``6 P B / (F MFU)``, F and B those of one node."""
    return FLOPS_PER_PARAM_TOKEN * params * local_batch_tokens / (flops_per_s * mfu)


def transfer_s(
    moved: NodeBytes,
    limit_bytes_per_s: Fraction,
    *,
    duplex: str,
    latency_s: Fraction = Fraction(0),
    straggler: Fraction = Fraction(1),
    at_once_bytes: Fraction = Fraction(0),
) -> Fraction:
    """Return the seconds that ``moved`` takes under a limit of each direction.

    ``at_once_bytes`` of each direction pass without waiting: what a token bucket holds when the transfer begins.
    full duplex: both directions at once, so the fuller decides. half: one after the other (Rahman's simulator).

    Raises:
        PlanError: the duplex is not known.
    """
    if duplex not in DUPLEX:
        raise PlanError(f"--duplex: {duplex!r} is not known. Use full or half")
    up_s = max(Fraction(0), moved.up_bytes - at_once_bytes) / limit_bytes_per_s
    down_s = max(Fraction(0), moved.down_bytes - at_once_bytes) / limit_bytes_per_s
    return ((max(up_s, down_s) if duplex == "full" else up_s + down_s) + latency_s) * straggler


def slowdown(transfer: Fraction, compute_s: Fraction, waited: Fraction | None = None) -> Slowdown:
    """Return how much slower: ``transfer`` and ``compute_s`` (``H T``) are seconds for one synchronisation.

    ``waited``: the transfer of one that finds a refilled bucket, for the blocking case; when transfers follow each
    other the bucket stays empty.
    """
    blocked = transfer if waited is None else waited
    return Slowdown(max(Fraction(1), transfer / compute_s), 1 + blocked / compute_s)


def refilled_bytes(depth_bytes: Fraction, limit_bytes_per_s: Fraction, compute_s: Fraction) -> Fraction:
    """Return what a token bucket holds after ``compute_s`` of rest: ``min(depth, rate * time)`` (RFC 2697)."""
    return min(depth_bytes, limit_bytes_per_s * compute_s)


def sync_steps_min(transfer: Fraction, step_s: Fraction) -> int:
    """Return the fewest steps between synchronisations at which computing never waits: ``ceil(T_s/T)``, at least 1."""
    return max(1, math.ceil(transfer / step_s))


def needed_bytes_per_s(moved: NodeBytes, compute_s: Fraction, *, duplex: str) -> Fraction:
    """Return the limit of each direction at which overlapped training is not slowed: ``V/(H T)``.

    With ``V = beta P`` and ``T = 6 P B/(F MFU)`` it is ``beta F MFU/(6 B H)``: the size of the model cancels.
    """
    together = max(moved.up_bytes, moved.down_bytes) if duplex == "full" else moved.up_bytes + moved.down_bytes
    return together / compute_s


def straggler_factor(nodes: int) -> float:
    """Return ``1 + 0.05 log2 N``: the slowest of N (Rahman 2026, a modelling choice of his)."""
    return 1 + 0.05 * math.log2(nodes)
