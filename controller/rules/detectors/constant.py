"""``constant-rate``: the same rate day and night, as gradients streamed just below a limit have it.

Null: the coefficient of variation of an honest flow's ten-minute means within a day is Rayleigh distributed (demand
has hours, of random strength), so a day is at most c with chance ``1 - exp(-c^2 / 2 h^2)``; days in a row multiply.
A flow that goes one way, as the other direction's record shows, is a note: full batch queues and video feeds look so.
"""

from __future__ import annotations

import math

import numpy as np

from controller.rules.finding import Finding, Kind, Severity
from controller.rules.series import Flow
from controller.rules.shape import DAY_NS, Shape
from controller.rules.wording import duration, speed

BIN_NS = DAY_NS // 144
_MOST_UNKNOWN = 0.1


def constant_rate(flow: Flow, shape: Shape) -> Finding | None:
    """Return the finding for the constant days that last until now; None where there are none."""
    main = flow.main
    coarse = main.coarser(max(1, BIN_NS // main.step_ns))
    width = max(1, DAY_NS // coarse.step_ns)
    variations: list[float] = []
    for end in range(len(coarse.rate), width - 1, -width):
        day = coarse.rate[end - width : end]
        known = day[~np.isnan(day)]
        if len(known) < (1 - _MOST_UNKNOWN) * width or known.mean() < shape.least_rate_bytes_per_s:
            break
        variation = float(np.hypot(known.std() / known.mean(), main.resolution))
        if _chance(variation, shape) > math.sqrt(shape.note_chance):
            break
        variations.append(variation)
    if not variations:
        return None
    chance = math.prod(_chance(variation, shape) for variation in variations)
    severity = shape.severity(chance, DAY_NS)
    if severity is None:
        return None
    share = None
    if flow.reverse is not None:
        share = float(np.nansum(flow.reverse.rate)) / max(1.0, float(np.nansum(main.rate)))
        if share < 1 - 2 * shape.symmetric_within:
            severity = Severity.NOTE
    days, worst = len(variations), max(variations)
    mean = float(np.nanmean(coarse.rate[-days * width :]))
    text = (
        f"{main.name}: {speed(mean)} for {duration(days * DAY_NS)}, ten-minute means within {worst:.2%} of variation "
        f"each day. By chance: {chance:.1e}; an alarm needs {shape.allowed_chance(DAY_NS):.1e}"
    )
    return Finding(
        Kind.CONSTANT_RATE,
        (main.name,),
        text,
        coarse.end_ns - days * width * coarse.step_ns,
        coarse.end_ns,
        severity,
        numbers={
            "days": days,
            "worst_variation": worst,
            "mean_bytes_per_s": round(mean),
            "reverse_share": share,
            "chance": chance,
            "threshold": shape.allowed_chance(DAY_NS),
        },
    )


def _chance(variation: float, shape: Shape) -> float:
    return -math.expm1(-(variation**2) / (2 * shape.honest_day_variation**2))
