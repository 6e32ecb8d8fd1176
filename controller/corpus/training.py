"""Ways to train across nodes, as they look on one node's link, and how an adversary hides them.

Strength 0 is plain. Strengths 1 to 3 jitter the intervals (10, 30, 60 %), pad or split the volumes (5, 20, 50 %) and
add cover traffic (a tenth, a half, the whole of the mean rate) that goes each way by itself.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from controller.corpus.honest import MINUTE_S, Both, _scrape
from controller.rules.series import Floats

JITTER = (0.02, 0.1, 0.3, 0.6)
PADDING = (0.003, 0.05, 0.2, 0.5)
COVER = (0.0, 0.1, 0.5, 1.0)


@dataclass(frozen=True, slots=True)
class Method:
    """One way to train.

    Attributes:
        name: as the literature has it.
        sent: bytes each synchronisation sends from the node; a second if ``period_minutes`` is 0.
        received: the same for what it receives.
        period_minutes: between synchronisations; 0 for continuous ones.
        lasts_minutes: of a synchronisation.
    """

    name: str
    sent: float
    received: float
    period_minutes: float
    lasts_minutes: float = 1.0

    def make(self, rng: np.random.Generator, minutes: int, strength: int) -> Both:
        """Return ``(outward, inward)`` of one node, bytes per second, minute by minute."""
        out, inward = _scrape(rng, minutes)
        if self.period_minutes == 0:
            level = 1 + rng.normal(0, max(0.004, PADDING[strength] / 3), minutes)
            mine, theirs = self.sent * level, self.received * level
        else:
            mine, theirs = self._bursts(rng, minutes, strength)
        cover = COVER[strength]
        out += mine + cover * mine.mean() * rng.gamma(1.0, 1.0, minutes)
        inward += theirs + cover * theirs.mean() * rng.gamma(1.0, 1.0, minutes)
        return out, inward

    def _bursts(self, rng: np.random.Generator, minutes: int, strength: int) -> tuple[Floats, Floats]:
        mine, theirs = np.zeros(minutes), np.zeros(minutes)
        at = rng.uniform(0, self.period_minutes)
        while at < minutes - 1:
            padded = 1 + abs(rng.normal(0, PADDING[strength]))
            _put(mine, at, self.lasts_minutes, self.sent * padded)
            _put(theirs, at, self.lasts_minutes, self.received * padded)
            at += self.period_minutes * max(0.1, rng.normal(1, JITTER[strength]))
        return mine, theirs


def _put(rate: Floats, at: float, lasts: float, volume: float) -> None:
    """Spread a volume over the minutes it takes, in proportion."""
    edges = np.arange(len(rate) + 1, dtype=np.float64)
    first, end = int(at), min(len(rate), int(at + lasts) + 1)
    inside = np.minimum(edges[first + 1 : end + 1], at + lasts) - np.maximum(edges[first:end], at)
    rate[first:end] += volume * inside / lasts / MINUTE_S


TRAINING = (
    Method("FSDP", 2.08e9, 2.08e9, 0),
    Method("DiLoCo", 48.2e9, 48.2e9, 17.7, 1.6),
    Method("Streaming DiLoCo, at the limit", 0.99e6, 0.99e6, 0),
    Method("Streaming DiLoCo, a tenth of it", 0.08e6, 0.08e6, 0),
    Method("SparseLoCo, ring", 1.99e9, 1.99e9, 20),
    Method("SparseLoCo, through a store", 1.99e9, 37.8e9, 20, 2),
    Method("gossip pairs", 4e9, 4e9, 30),
    Method("LoRA", 84e6, 84e6, 6),
    Method("RL weight refresh", 0.3e6, 108e6, 5),
    Method("SparseLoCo, every 10 h", 1.99e9, 1.99e9, 600),
    Method("hidden in requests", 0.12e6, 0.4e6, 0),
)
"""The last two, and what is spread below the least rate, are the classes that metadata alone does not show."""
