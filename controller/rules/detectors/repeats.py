"""``load-shaped-repeats``: one-way inbound transfers of one size, more often than a server loads weights.

Null, either of: honest loads come at random, at most so many a day on average; repeated inbound transfers vary in
volume. Both must be refuted: a crash loop that loads the same weights, or weights refreshed by reinforcement learning.
"""

from __future__ import annotations

import numpy as np

from controller.rules.bursts import Bursts
from controller.rules.detectors.direction import reverse_share
from controller.rules.finding import Finding, Kind
from controller.rules.probability import at_least_poisson, equal_by_chance
from controller.rules.series import Flow
from controller.rules.shape import DAY_NS, Shape
from controller.rules.wording import duration, size

LEAST_REPEATS = 4


def load_shaped_repeats(flow: Flow, bursts: Bursts, shape: Shape) -> Finding | None:
    """Return the finding for the inbound bursts of the last day; None unless both directions are recorded.

    Args:
        flow: both directions.
        bursts: of its inward direction.
        shape: what honest loads are.
    """
    inward = flow.inward
    if inward is None or flow.outward is None:
        return None
    loads = [
        burst
        for burst in bursts.found
        if burst.whole
        and burst.bytes >= shape.least_load_bytes
        and burst.start_ns > inward.end_ns - DAY_NS
        and (reverse_share(flow, inward, burst) or 0.0) < shape.one_way_below
    ]
    if len(loads) < LEAST_REPEATS:
        return None
    volumes = np.array([load.bytes for load in loads])
    variation = float(np.hypot(volumes.std(ddof=1) / volumes.mean(), inward.resolution))
    span_ns = loads[-1].start_ns - loads[0].start_ns
    expected = shape.honest_loads_per_day * span_ns / DAY_NS
    # The first one opens the span: it is the others that are many or few.
    chance = max(
        at_least_poisson(len(loads) - 1, expected),
        equal_by_chance(variation, len(loads), shape.honest_volume_variation),
    )
    spacing_ns = span_ns / (len(loads) - 1)
    severity = shape.severity(chance, spacing_ns)
    if severity is None:
        return None
    text = (
        f"{inward.name}: {len(loads)} one-way inbound transfers of {size(float(volumes.mean()))} (variation "
        f"{variation:.1%}) in {duration(span_ns)}, like weights loaded again and again. By chance: {chance:.1e}; an "
        f"alarm needs {shape.allowed_chance(spacing_ns):.1e}"
    )
    return Finding(
        Kind.LOAD_SHAPED_REPEATS,
        (inward.name,),
        text,
        loads[0].start_ns,
        loads[-1].end_ns,
        severity,
        numbers={
            "loads": len(loads),
            "volume_mean_bytes": round(float(volumes.mean())),
            "volume_variation": variation,
            "expected": expected,
            "chance": chance,
            "threshold": shape.allowed_chance(spacing_ns),
        },
    )
