"""Burst volumes against what a ring all-reduce of a known model sends: ``2 (W-1)/W * P * bytes``.

Many volumes match something by chance, so the share of all volumes that do is given with it: a hint for people, never
a reason for an alarm.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache

from controller.rules.wording import size

PARAMETERS = {
    "Llama 3.2 1B": 1_235_814_400,
    "Llama 3.2 3B": 3_212_749_824,
    "Mistral 7B": 7_241_732_096,
    "Llama 3.1 8B": 8_030_261_248,
    "Mixtral 8x7B": 46_702_792_704,
    "Llama 3.1 70B": 70_553_706_496,
    "Llama 3.1 405B": 405_853_388_800,
    "DeepSeek-V3": 671_026_419_200,
}
"""Parameters as the models' cards count them."""
WORKERS = (2, 3, 4, 8, 16)
BYTES = {4.0: "32-bit", 2.0: "16-bit", 1.0: "8-bit", 0.5: "4-bit"}
WITHIN = 0.01


@dataclass(frozen=True, slots=True)
class ModelMatch:
    """What a volume is close to, how far off (a share of it), and how many volumes are this close to something."""

    name: str
    off: float
    chance: float
    text: str


def nearest_model(volume: float) -> ModelMatch | None:
    """Return the nearest known synchronisation, None if none is within :data:`WITHIN`."""
    if volume <= 0:
        return None
    name, expected = min(_volumes(), key=lambda each: abs(math.log(volume / each[1])))
    off = volume / expected - 1
    if abs(off) > WITHIN:
        return None
    chance = _covered()
    text = f"{off:+.1%} off {size(expected)}, {name} (by chance {chance:.0%} of volumes are this close to some model)"
    return ModelMatch(name, off, chance, text)


@cache
def _volumes() -> tuple[tuple[str, float], ...]:
    return tuple(
        (f"one all-reduce of {model} at {label} among {workers}", 2 * (workers - 1) / workers * parameters * width)
        for model, parameters in PARAMETERS.items()
        for width, label in BYTES.items()
        for workers in WORKERS
    )


@cache
def _covered() -> float:
    """The share of volumes, logarithmically, between the smallest and the largest that match something."""
    logs = sorted(math.log(volume) for _, volume in _volumes())
    covered, end = 0.0, -math.inf
    for place in logs:
        low, high = max(end, place - WITHIN), place + WITHIN
        covered += max(0.0, high - low)
        end = max(end, high)
    return covered / (logs[-1] - logs[0] + 2 * WITHIN)
