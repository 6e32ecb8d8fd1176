"""A plan for people: sentences for one, columns for a sweep, and the same columns as CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from fractions import Fraction

from controller.planner.inference import InferencePlan
from controller.planner.marks import Assumption
from controller.planner.methods import METHODS
from controller.planner.training import OUTSIDE, TrainingPlan
from protos.units import NS_PER_S, format_bytes, format_duration, format_rate

COLUMNS = (
    "bytes_per_sync_up",
    "bytes_per_sync_down",
    "limit_bytes_per_s",
    "needed_bytes_per_s",
    "transfer_s",
    "compute_s",
    "slowdown_overlapped",
    "slowdown_blocking",
    "sync_steps_min",
)


def times(factor: Fraction) -> str:
    """Return ``1.66x``: three digits, at least."""
    value = float(factor)
    return f"{value:,.0f}x" if value >= 999.5 else f"{value:#.3g}x".replace(".x", "x")


def seconds(value: Fraction) -> str:
    """Return a duration for people."""
    days = float(value) / 86_400
    return f"{days:,.3g} d" if days >= 2 else format_duration(round(value * NS_PER_S))


def training_lines(plan: TrainingPlan) -> list[str]:
    """Return the plan as sentences."""
    up, down = format_bytes(round(plan.moved.up_bytes)), format_bytes(round(plan.moved.down_bytes))
    slower = plan.slowdown
    lines = [
        f"{METHODS[plan.method].title} under {format_rate(plan.limit_bytes_per_s)} each way",
        f"  a node sends {up} and receives {down} every {seconds(plan.compute_s)} of computing",
        f"  under the limit that takes {seconds(plan.transfer_s)}",
        f"  sustained {format_rate(plan.sustained_bytes_per_s)}, peak {format_rate(plan.peak_bytes_per_s)}, the limit",
        f"  slower: {times(slower.overlapped)} overlapped, {times(slower.blocking)} blocking",
        f"  not slowed at all from {format_rate(plan.needed_bytes_per_s)} on",
        f"  10 times slower at {format_rate(plan.needed_bytes_per_s / 10)}, overlapped",
    ]
    if plan.step_s is not None and METHODS[plan.method].rarer:
        steps = "1 step" if plan.sync_steps_min == 1 else f"{plan.sync_steps_min} steps"
        lines.append(f"  not slowed at all with {steps} between synchronisations, or more")
    if plan.total_s is not None:
        free, held = seconds(plan.total_s), seconds(plan.total_s * slower.overlapped)
        lines.append(f"  in all {free} without a limit, {held} under it (overlapped)")
    if plan.quality is not None:
        numbers = ", ".join(f"{name.replace('_', ' ')} {value:.3f}" for name, value in plan.quality.items())
        lines.append(f"  quality, a model's guess: {numbers}")
    lines += [f"  note: {text}" for text in plan.warnings]
    return lines + resting(plan.assumptions, (*METHODS[plan.method].outside, *OUTSIDE))


def inference_lines(plan: InferencePlan, outside: Sequence[str]) -> list[str]:
    """Return the plan as sentences."""
    lines = ["needed at the pod's boundary, each on its own:"]
    for name, rate in plan.needed.items():
        known = format_rate(rate) if rate is not None else plan.unknown.get(name, "none declared")
        lines.append(f"  {name.replace('_', ' ')}: {known}")
    lines.append(f"tokens, images and video together: {format_rate(plan.boundary_bytes_per_s)}")
    if plan.kv_bytes_per_token is not None:
        lines.append(f"key-value cache: {plan.kv_bytes_per_token} B a token")
    lines.append(
        f"must stay inside a pod: {', '.join(plan.must_stay).replace('_', ' ') or 'nothing that is known here'}"
    )
    if plan.pod_gpus_min is not None:
        nodes = "" if plan.pod_nodes_min is None else f", {plan.pod_nodes_min} nodes"
        lines.append(f"a pod has at least {plan.pod_gpus_min} GPUs{nodes}")
    if plan.load is not None:
        size = format_bytes(int(plan.load["bytes"]))
        took = plan.load.get("s_under_limit")
        lines.append(f"a load is {size}" + ("" if took is None else f", {seconds(Fraction(took))} under the limit"))
    return lines + resting(plan.assumptions, outside)


def resting(assumptions: Sequence[Assumption], outside: Sequence[str]) -> list[str]:
    """Return what a result rests on, and what it says nothing about."""
    return [
        "rests on:",
        *(f"  {each}" for each in assumptions),
        "says nothing about:",
        *(f"  {text}" for text in outside),
    ]


def row(plan: TrainingPlan) -> tuple[str, ...]:
    """Return one point of a sweep, by :data:`COLUMNS`, numbers without units."""
    held = plan.json()
    flat = {**held, **{f"slowdown_{name}": value for name, value in held["slowdown"].items()}}
    return tuple(str(flat[name]) for name in COLUMNS)


def csv_text(names: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return rows under a header, as RFC 4180 has it but for the line ends."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([*names, *COLUMNS])
    writer.writerows(rows)
    return out.getvalue()


def sweep_lines(names: Sequence[str], swept: Sequence[Sequence[str]], plans: Sequence[TrainingPlan]) -> list[str]:
    """Return the columns that matter of a sweep, aligned."""
    head = [*names, "up", "down", "needed", "overlapped", "blocking", "fewest steps"]
    body = [
        [
            *values,
            format_bytes(round(plan.moved.up_bytes)),
            format_bytes(round(plan.moved.down_bytes)),
            format_rate(plan.needed_bytes_per_s),
            times(plan.slowdown.overlapped),
            times(plan.slowdown.blocking),
            str(plan.sync_steps_min),
        ]
        for values, plan in zip(swept, plans, strict=True)
    ]
    return aligned([head, *body])


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return rows with their columns under each other, numbers to the right."""
    widths = [max(len(each[at]) for each in rows) for at in range(len(rows[0]))]
    return ["  ".join(text.rjust(width) for text, width in zip(each, widths, strict=True)) for each in rows]
