"""``synchronous-bursts`` and ``rotating-load``: what several nodes do together. Pure, all pairs.

Synchrony, null: the bursts of two nodes come independently; a burst of one then meets one of the other with chance
``1 - exp(-2 d n / T)``, and the number that meet is binomial. One-way bursts do not count: a rolled-out model is
loaded everywhere at once.

Rotation, null: the nodes' loads are independent, so the variance of their sum is the sum of their variances; their
ratio times its degrees of freedom (the number of turns) is chi-square. Work handed from node to node makes it small.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

import numpy as np

from controller.rules.bursts import Burst, Bursts
from controller.rules.detectors.direction import goes_one_way
from controller.rules.finding import Finding, Kind
from controller.rules.probability import at_least_binomial, chi_square_below
from controller.rules.series import Flow
from controller.rules.shape import Shape
from controller.rules.wording import duration

LEAST_MET = 3
LEAST_TURNS = 6


def synchronous_bursts(flows: Sequence[Flow], bursts: Mapping[str, Bursts], shape: Shape) -> list[Finding]:
    """Return a finding for each pair of flows whose bursts begin together.

    Only pairs that have a burst in one short stretch are looked at, so the work follows the bursts, not the pairs.
    """
    starts: dict[str, list[Burst]] = {}
    step_ns = max((flow.main.step_ns for flow in flows), default=1)
    by_time: dict[int, set[str]] = defaultdict(set)
    for flow in flows:
        starts[flow.name] = [burst for burst in bursts[flow.name].found if _counts(flow, burst, shape)]
        for burst in starts[flow.name]:
            place = burst.start_ns // (2 * step_ns)
            for near in (place - 1, place, place + 1):
                by_time[near].add(flow.name)
    met: set[tuple[str, str]] = set()
    for names in by_time.values():
        ordered = sorted(names)
        met.update((one, other) for at, one in enumerate(ordered) for other in ordered[at + 1 :])
    lengths = {flow.name: flow.main.end_ns - flow.main.start_ns for flow in flows}
    found = []
    pairs = max(1, len(flows) * (len(flows) - 1) // 2)
    for one, other in sorted(met):
        if len(starts[one]) >= LEAST_MET and len(starts[other]) >= LEAST_MET:
            finding = _pair(
                (one, other), (starts[one], starts[other]), min(lengths[one], lengths[other]), step_ns, pairs, shape
            )
            if finding is not None:
                found.append(finding)
    return found


def _counts(flow: Flow, burst: Burst, shape: Shape) -> bool:
    sided = goes_one_way(flow, flow.main, burst, shape)
    return burst.first > 0 and burst.bytes >= shape.least_burst_bytes and not sided


def _pair(  # noqa: PLR0917  what a pair's chance follows from
    names: tuple[str, str],
    bursts: tuple[list[Burst], list[Burst]],
    span_ns: int,
    step_ns: int,
    pairs: int,
    shape: Shape,
) -> Finding | None:
    few, many = sorted(bursts, key=len)
    times = np.array([burst.start_ns for burst in many])
    together = [burst for burst in few if np.abs(times - burst.start_ns).min() <= step_ns]
    by_chance = -float(np.expm1(-2 * step_ns * len(many) / span_ns))
    chance = min(1.0, at_least_binomial(len(together), len(few), by_chance) * pairs)
    spacing_ns = (few[-1].start_ns - few[0].start_ns) / (len(few) - 1)
    severity = shape.severity(chance, spacing_ns) if len(together) >= LEAST_MET else None
    if severity is None:
        return None
    return Finding(
        Kind.SYNCHRONOUS_BURSTS,
        names,
        f"{names[0]} and {names[1]}: {len(together)} of {len(few)} bursts begin within {duration(step_ns)} of each "
        f"other. By chance: {chance:.1e} over all {pairs} pairs; an alarm needs {shape.allowed_chance(spacing_ns):.1e}",
        few[0].start_ns,
        few[-1].end_ns,
        severity,
        numbers={
            "together": len(together),
            "of": len(few),
            "expected_share": by_chance,
            "pairs": pairs,
            "chance": chance,
            "threshold": shape.allowed_chance(spacing_ns),
        },
    )


def rotating_load(flows: Sequence[Flow], bursts: Mapping[str, Bursts], shape: Shape) -> Finding | None:
    """Return the finding if the flows take turns so that their sum stays level; all must be on one grid."""
    taking = [
        flow
        for flow in flows
        if sum(burst.bytes >= shape.least_burst_bytes for burst in bursts[flow.name].found) >= LEAST_MET
    ]
    if len(taking) < 2:
        return None
    length = min(len(flow.main.rate) for flow in taking)
    rows = np.stack([flow.main.rate[-length:] for flow in taking])
    rows = rows[:, ~np.isnan(rows).any(axis=0)]
    if rows.shape[1] < LEAST_TURNS:
        return None
    apart = float(rows.var(axis=1).sum())
    ratio = float(rows.sum(axis=0).var()) / apart if apart > 0 else 1.0
    turns = sum(len(bursts[flow.name].found) for flow in taking)
    chance = chi_square_below(ratio * turns, turns)
    main = taking[0].main
    spacing_ns = (main.end_ns - main.start_ns) / max(1, turns)
    severity = shape.severity(chance, spacing_ns) if turns >= LEAST_TURNS else None
    if severity is None:
        return None
    names = tuple(flow.name for flow in taking)
    return Finding(
        Kind.ROTATING_LOAD,
        names,
        f"{len(names)} nodes take turns, {turns} of them: their sum varies {ratio:.1%} as much as independent loads "
        f"would ({', '.join(names[:6])}). By chance: {chance:.1e}; an alarm needs "
        f"{shape.allowed_chance(spacing_ns):.1e}",
        main.start_ns,
        main.end_ns,
        severity,
        numbers={
            "nodes": len(names),
            "turns": turns,
            "variance_ratio": ratio,
            "chance": chance,
            "threshold": shape.allowed_chance(spacing_ns),
        },
    )
