"""What rare or coarse synchronisation costs in quality: modelling choices of one source, marked ``assumed``.

Rahman, "Does Distributed Training Undermine Compute Governance?" (arXiv 2605.29359), simulator of 14 Apr 2026. No
measurement at these sizes is known, so these are never part of a slowdown.
"""

from __future__ import annotations

import itertools
import math

SECONDS_PER_YEAR = 365.25 * 86_400
TESTED_SYNC_STEPS = 500
"""As far as DiLoCo was published (arXiv 2311.08105); beyond it nothing is known."""
_COMPRESSION = ((1.0, 1.00), (4.0, 1.00), (16.0, 0.99), (100.0, 0.98), (500.0, 0.95))
_LEAST_EFFICIENCY = 0.4


def sync_efficiency(params: float, sync_steps: float) -> float:
    """Return ``max(0.4, 1 - alpha log10 H)``, ``alpha = 0.08/(1 + log10(P/1e9)/5)``: useful share of the computing.

    Below a billion parameters alpha is that of a billion: the source has no smaller ones.
    """
    alpha = 0.08 / (1 + max(0.0, math.log10(params / 1e9)) / 5)
    return max(_LEAST_EFFICIENCY, 1 - alpha * math.log10(max(1.0, sync_steps)))


def compression_quality(factor: float) -> float:
    """Return the source's expected quality factor, log-linear between its points; that of 500x beyond them."""
    for (low, at_low), (high, at_high) in itertools.pairwise(_COMPRESSION):
        if factor <= high:
            share = math.log(max(factor, low) / low) / math.log(high / low)
            return at_low + share * (at_high - at_low)
    return _COMPRESSION[-1][1]


def replica_loss(params: float, nodes: float, sync_steps: float) -> float:
    """Return by what the loss grows with replicas: ``N^(beta0 ln H/ln 30)``, ``beta0 = 1.0923 P^-0.2342``."""
    beta0: float = 1.0923 * params**-0.2342
    return float(nodes ** (beta0 * math.log(max(1.0, sync_steps)) / math.log(30)))


def local_compute_flop(nodes: float, flops_per_s: float, mfu: float, years: float, efficiency: float) -> float:
    """Return the FLOP that count as if done in one place: ``N F MFU t eta``."""
    return nodes * flops_per_s * mfu * years * SECONDS_PER_YEAR * efficiency
