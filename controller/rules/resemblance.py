"""What a recorded flow resembles: one word, and the numbers it rests on.

In this order: something periodic or continuous that trains, a load of weights, serving, nothing. What fits none of
them is ``unknown``; so is what would need the other direction, or more of the record, to tell.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from controller.rules.bursts import Burst, Bursts
from controller.rules.detectors.direction import one_way
from controller.rules.finding import Finding, Kind
from controller.rules.series import Floats, Flow
from controller.rules.shape import HOUR_NS, Shape
from controller.rules.wording import duration, size, speed

IDLE_BYTES_PER_S = 2_500.0
"""Monitoring alone takes about 1 kB/s of a node."""
TOKENS_BYTES_PER_S = 20_000_000.0
"""What a node's tokens cannot explain: 8 accelerators, 10,000 tokens a second each, 250 bytes a token as events."""
LIMIT_BYTES_PER_S = 1_000_000.0
"""Slower than the report's limit, a single recorded direction cannot tell serving from training."""
BULK_BYTES_PER_S = TOKENS_BYTES_PER_S / 2
"""Short bursts faster than this are a transfer of something, not a crowd of requests."""
LOAD_BYTES = 10_000_000.0
BOTH_WAYS = 0.5
"""Smaller over larger direction up to which a lasting flow is a feed, not an exchange."""
QUARTILES_APART = 1.349
"""Of a normal variable, in standard deviations."""
STEADY, VERY_STEADY = 0.2, 0.02
LEAST_CONTINUOUS_NS = HOUR_NS // 2
LOAD_PAUSE_NS = HOUR_NS // 2


class Label(enum.Enum):
    """What a flow resembles."""

    TRAINING_CONTINUOUS = "training-continuous"
    TRAINING_PERIODIC = "training-periodic"
    MODEL_LOAD = "model-load"
    INFERENCE = "inference"
    IDLE = "idle"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Resemblance:
    """The label, why in words, and the numbers."""

    label: Label
    why: str
    numbers: dict[str, float | int | None]


@dataclass(frozen=True, slots=True)
class _Plateau:
    """The longest stretch of a rate that stays on one level."""

    length_ns: int
    mean: float
    variation: float


def resemblance(flow: Flow, bursts: Bursts, findings: Sequence[Finding], shape: Shape) -> Resemblance:
    """Return what ``flow`` resembles, given the bursts of its main direction and what the detectors found in it."""
    main = flow.main
    known = main.rate[~np.isnan(main.rate)]
    if len(known) == 0:
        return Resemblance(Label.UNKNOWN, "nothing is known of it", {})
    plateau = _plateau(flow)
    sided = one_way(flow, main, bursts.found, shape)
    reverse = None if flow.reverse is None else float(np.nansum(flow.reverse.rate)) / max(1.0, float(known.sum()))
    numbers: dict[str, float | int | None] = {
        "median_bytes_per_s": float(np.median(known)),
        "p95_bytes_per_s": float(np.percentile(known, 95)),
        "highest_bytes_per_s": float(known.max()),
        "volume_bytes": round(main.volume(0, len(main.rate))),
        "bursts": len(bursts.found),
        "largest_burst_bytes": round(max((burst.bytes for burst in bursts.found), default=0.0)),
        "plateau_s": plateau.length_ns / 1e9,
        "plateau_bytes_per_s": plateau.mean,
        "plateau_variation": plateau.variation,
        "reverse_share": reverse,
    }
    p95, highest = float(np.percentile(known, 95)), float(known.max())
    label, why = _judge(_Seen(flow, bursts, findings, plateau, sided, reverse, p95, highest))
    return Resemblance(label, why, numbers)


@dataclass(frozen=True, slots=True)
class _Seen:
    """What a judgement rests on."""

    flow: Flow
    bursts: Bursts
    findings: Sequence[Finding]
    plateau: _Plateau
    one_way: bool | None
    reverse: float | None
    p95: float
    highest: float


_Judged = tuple[Label, str]


def _trains(seen: _Seen) -> _Judged | None:  # noqa: PLR0911  one line a reason
    kinds = {finding.kind for finding in seen.findings}
    plateau = seen.plateau
    periodic = [each for each in seen.findings if each.kind is Kind.PERIODIC_EQUAL_BURSTS]
    if any(each.numbers.get("one_way") != "true" for each in periodic):
        return Label.TRAINING_PERIODIC, "equal bursts in regular intervals"
    if Kind.SYMMETRIC_FLOW in kinds:
        if len(seen.bursts.found) >= 2 and plateau.length_ns < LEAST_CONTINUOUS_NS:
            return Label.TRAINING_PERIODIC, "bursts that send as much as they receive"
        return Label.TRAINING_CONTINUOUS, "a lasting flow that sends as much as it receives"
    if plateau.length_ns < LEAST_CONTINUOUS_NS or (seen.reverse is not None and seen.reverse <= BOTH_WAYS):
        return None
    if plateau.mean >= TOKENS_BYTES_PER_S and plateau.variation <= STEADY:
        return Label.TRAINING_CONTINUOUS, f"{_told(plateau)}: more than tokens can explain"
    steady = plateau.mean >= LIMIT_BYTES_PER_S and plateau.variation <= VERY_STEADY
    if steady and seen.reverse is None and plateau.length_ns >= 2 * LEAST_CONTINUOUS_NS:
        told = f"{_told(plateau)}: steadier than requests are; the other direction is not recorded"
        return Label.TRAINING_CONTINUOUS, told
    return None


def _loads_or_serves(seen: _Seen) -> _Judged | None:
    loads = _loads(seen.flow, seen.bursts, seen.one_way)
    main = seen.flow.main
    if not loads:
        return None
    quiet_ns = len(main.rate) * main.step_ns - sum(burst.end_ns - burst.start_ns for burst in loads)
    if len(loads) < 3 and seen.bursts.quiet > IDLE_BYTES_PER_S and quiet_ns >= LOAD_PAUSE_NS:
        return Label.INFERENCE, f"{speed(seen.bursts.quiet)} beside {size(loads[0].bytes)} that were loaded"
    return Label.MODEL_LOAD, f"one-way: {len(loads)} of up to {size(max(each.bytes for each in loads))}"


def _serves_or_idles(seen: _Seen) -> _Judged | None:
    moved = any(burst.bytes >= LOAD_BYTES for burst in seen.bursts.found)
    if seen.p95 < IDLE_BYTES_PER_S and not moved:
        return Label.IDLE, "no more than monitoring takes"
    if seen.highest <= TOKENS_BYTES_PER_S and not _bulk_without_a_name(seen.flow, seen.bursts):
        return Label.INFERENCE, f"up to {speed(seen.highest)}, in no shape that training or loads have"
    return None


def _judge(seen: _Seen) -> _Judged:
    found = _trains(seen) or _loads_or_serves(seen) or _serves_or_idles(seen)
    return found or (Label.UNKNOWN, f"neither shape nor direction tells what it is ({_told(seen.plateau)})")


def _told(plateau: _Plateau) -> str:
    return f"{speed(plateau.mean)} for {duration(plateau.length_ns)}, variation {plateau.variation:.1%}"


def _plateau(flow: Flow) -> _Plateau:
    """Return the longest stretch in which the rate stays within a third of its own median; flanks do not count."""
    main = flow.main
    rate = np.nan_to_num(main.rate)
    busy = rate[rate > 0]
    if len(busy) == 0:
        return _Plateau(0, 0.0, 0.0)
    upper = rate[rate >= max(IDLE_BYTES_PER_S, 0.3 * float(np.percentile(rate, 90)))]
    if len(upper) == 0:
        return _Plateau(0, 0.0, 0.0)
    level = float(np.median(upper))
    on = np.abs(main.rate - level) <= level / 3
    on |= np.isnan(main.rate)
    edges = np.flatnonzero(np.diff(np.concatenate([[False], on, [False]]).astype(np.int8)))
    if len(edges) == 0:
        return _Plateau(0, 0.0, 0.0)
    lengths = edges[1::2] - edges[::2]
    best = int(np.argmax(lengths))
    stretch = main.rate[edges[2 * best] : edges[2 * best + 1]]
    stretch = stretch[~np.isnan(stretch)]
    if len(stretch) == 0:
        return _Plateau(0, 0.0, 0.0)
    # What an average over minutes still shows: so that a finer raster is not taken for a rougher flow.
    width = max(1, 300_000_000_000 // main.step_ns)
    means = stretch[: len(stretch) // width * width].reshape(-1, width).mean(axis=1) if not main.window_ns else stretch
    if len(means) < 2:
        means = stretch
    return _Plateau(int(lengths[best]) * main.step_ns, float(stretch.mean()), _variation(means))


def _variation(values: Floats) -> float:
    """Return the coefficient of variation as the quartiles show it: flanks at either end do not count."""
    low, middle, high = (float(each) for each in np.percentile(values, (25, 50, 75)))
    return (high - low) / QUARTILES_APART / middle if middle > 0 else 0.0


def _loads(flow: Flow, bursts: Bursts, sided: bool | None) -> list[Burst]:
    """Return the bursts that can be loads: inward or of unknown direction, one way, large, and few or known one-way."""
    large = [burst for burst in bursts.found if burst.bytes >= LOAD_BYTES]
    if not large or flow.main is flow.outward:
        return []
    if sided is None:
        return large if len(large) == 1 and large[0].end_ns - large[0].start_ns < 2 * LEAST_CONTINUOUS_NS else []
    return large if sided else []


def _bulk_without_a_name(flow: Flow, bursts: Bursts) -> bool:
    """Whether the bursts are bulk that is not serving: large, fast and short, and most of what was moved."""
    bulk = [burst for burst in bursts.found if burst.bytes >= 5 * LOAD_BYTES]
    short = [each for each in bulk if each.end_ns - each.start_ns < 2 * LEAST_CONTINUOUS_NS]
    fast = [each for each in short if each.bytes * 1e9 >= BULK_BYTES_PER_S * (each.end_ns - each.start_ns)]
    return sum(burst.bytes for burst in fast) > 0.5 * flow.main.volume(0, len(flow.main.rate))
