"""``symmetric-flow``: as much is sent as is received, stretch after stretch, as all-reduces and exchanges make it.

Null: what an honest flow sends to what it receives lies anywhere between 1 : span and span : 1, and each stretch (a
burst, else an hour) draws anew. A stretch is then symmetric with chance ``2 * within / ln(span)`` (|ln ratio| is twice
the asymmetry), and n in a row with its n-th power. A relay that passes on what it receives looks the same.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from controller.rules.bursts import Bursts
from controller.rules.finding import Finding, Kind
from controller.rules.series import Flow
from controller.rules.shape import HOUR_NS, Shape
from controller.rules.wording import duration, size

LEAST_STRETCHES = 2
_BURSTS_CARRY = 0.5


@dataclass(frozen=True, slots=True)
class _Stretch:
    start_ns: int
    end_ns: int
    first: int
    end: int


def symmetric_flow(flow: Flow, bursts: Bursts, shape: Shape) -> Finding | None:
    """Return the finding for the run of symmetric stretches that lasts until now; None where there is none."""
    both = flow.both
    if both is None:
        return None
    stretches = _stretches(flow, bursts, shape)
    run = 0
    asymmetries: list[float] = []
    for stretch in reversed(stretches):
        asymmetry = _asymmetry(flow, stretch)
        if asymmetry is None or asymmetry > shape.symmetric_within:
            break
        asymmetries.append(asymmetry)
        run += 1
    if run < LEAST_STRETCHES:
        return None
    per_stretch = min(1.0, 2 * shape.symmetric_within / math.log(shape.honest_ratio_span))
    chance = per_stretch**run
    newest, oldest = stretches[-1], stretches[-run]
    spacing_ns = (newest.start_ns - oldest.start_ns) / (run - 1)
    severity = shape.severity(chance, spacing_ns)
    if severity is None:
        return None
    volume = sum(series.volume(oldest.first, newest.end) for series in both)
    worst = max(asymmetries)
    text = (
        f"{flow.name}: {run} stretches in a row, over {duration(newest.end_ns - oldest.start_ns)} and {size(volume)}, "
        f"sent as much as they received, within {worst:.1%}. By chance: {chance:.1e}; an alarm needs "
        f"{shape.allowed_chance(spacing_ns):.1e}"
    )
    return Finding(
        Kind.SYMMETRIC_FLOW,
        (flow.name,),
        text,
        oldest.start_ns,
        newest.end_ns,
        severity,
        numbers={
            "stretches": run,
            "worst_asymmetry": worst,
            "within": shape.symmetric_within,
            "volume_bytes": round(volume),
            "chance": chance,
            "threshold": shape.allowed_chance(spacing_ns),
        },
    )


def _stretches(flow: Flow, bursts: Bursts, shape: Shape) -> list[_Stretch]:
    """Return the bursts, if they carry most of it; else the whole hours that carry enough."""
    main = flow.main
    material = [burst for burst in bursts.found if burst.whole and burst.bytes >= shape.least_burst_bytes]
    if len(material) >= LEAST_STRETCHES:
        carried = sum(burst.bytes for burst in material)
        if carried >= _BURSTS_CARRY * main.volume(0, len(main.rate)):
            return [_Stretch(burst.start_ns, burst.end_ns, burst.first, burst.end) for burst in material]
    width = max(1, HOUR_NS // main.step_ns)
    found = []
    for first in range(len(main.rate) % width, len(main.rate) - width + 1, width):
        start_ns = main.start_ns + first * main.step_ns
        known = ~np.isnan(main.rate[first : first + width])
        if known.any() and float(main.rate[first : first + width][known].mean()) >= shape.least_rate_bytes_per_s:
            found.append(_Stretch(start_ns, start_ns + width * main.step_ns, first, first + width))
        else:
            found = []  # a quiet hour ends a continuous flow
    return found


def _asymmetry(flow: Flow, stretch: _Stretch) -> float | None:
    """Return the asymmetry of a stretch's volume, and no less than half that of its typical bin."""
    both = flow.both
    if both is None:
        return None
    out, inward = (series.rate[stretch.first : stretch.end] for series in both)
    known = ~(np.isnan(out) | np.isnan(inward))
    total = out[known] + inward[known]
    busy = total > 0.1 * total.max() if len(total) else total > 0
    if not busy.any():
        return None
    apart = np.abs(out[known] - inward[known])
    of_volume = abs(float((out[known] - inward[known]).sum())) / float(total.sum())
    return max(of_volume, float(np.median(apart[busy] / total[busy])) / 2)
