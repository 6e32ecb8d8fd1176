"""Adversaries: ways of training that a limit is held against, and what it does to each. Never one verdict.

The built-in list is of published methods, from the one that needs most to those that need next to nothing. All of them
compute with a whole pod; two pods take part, as a ring of two moves fewer bytes a node than any larger one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from controller.planner.marks import Mark, PlanError
from controller.planner.training import STOPS_NOTHING, TrainingPlan, plan_training

_TWO = {"nodes": "2"}
BUILT_IN: dict[str, dict[str, str]] = {
    "ddp": {"method": "ddp", "params": "8e9", "bits": "16", **_TWO},
    "diloco-500": {"method": "diloco", "params": "8e9", "bits": "32", "sync-steps": "500", **_TWO},
    "streaming-diloco-100": {"method": "streaming-diloco", "params": "8e9", "bits": "4", "sync-steps": "100", **_TWO},
    "compressed-16x-200": {
        "method": "diloco",
        "params": "8e9",
        "bits": "16",
        "compression": "16",
        "sync-steps": "200",
        **_TWO,
    },
    "distro": {"method": "distro", "params": "1.2e9", "bits": "16", "compression": "857", **_TWO},
    "lora-50": {
        "method": "lora",
        "params": "8e9",
        "adapter-params": "41943040",
        "bits": "16",
        "sync-steps": "50",
        **_TWO,
    },
    "sparseloco-30": {
        "method": "sparseloco",
        "params": "72.7e9",
        "density": "64/4096",
        "bits-per-value": "14",
        "sync-steps": "30",
        **_TWO,
    },
    "sparseloco-500": {
        "method": "sparseloco",
        "params": "72.7e9",
        "density": "64/4096",
        "bits-per-value": "14",
        "sync-steps": "500",
        **_TWO,
    },
    "rl-patch": {"method": "rl-refresh", "params": "7e9", "patch-bytes": "108MB", "period": "300s", **_TWO},
}
"""Name to the parameters of its plan, but for the pod's computing and the limit."""
REMARKS = {
    "sparseloco-500": (
        Mark.ASSUMED,
        "an interval that is published only for DiLoCo, with a compression published only for 30 steps",
    ),
    "rl-patch": (
        Mark.PUBLISHED,
        "PULSE (arXiv 2602.03839): weights that changed, to nodes that serve; rollouts look like serving",
    ),
    "distro": (Mark.PUBLISHED, "2.8 MB a step for 1.2e9 parameters (DisTrO report, 2024), at that size only"),
    "lora-50": (Mark.DERIVED, "adapters of rank 16 on all matrices; trains little, and needs little"),
}
_COMPUTE = ("flops-per-s", "mfu", "local-batch-tokens")


@dataclass(frozen=True, slots=True)
class Held:
    """One adversary under one limit. ``needs_bytes_per_s``: from there on it is not slowed at all."""

    name: str
    plan: TrainingPlan

    @property
    def needs_bytes_per_s(self) -> Fraction:
        """The limit that does not slow it."""
        return self.plan.needed_bytes_per_s

    def limit_for(self, slow_by: Fraction) -> Fraction:
        """Return the largest limit (bytes/s) that makes it ``slow_by`` times slower, overlapped."""
        return self.needs_bytes_per_s / slow_by

    @property
    def is_stopped(self) -> bool:
        """Whether the limit is any obstacle at all."""
        return self.plan.slowdown.overlapped >= STOPS_NOTHING


def hold(adversaries: Mapping[str, Mapping[str, str]], compute: Mapping[str, str], limit: Fraction) -> tuple[Held, ...]:
    """Return every adversary under ``limit`` (bytes/s of each direction), those that need most first.

    ``compute`` is the pod's: ``flops-per-s``, ``mfu``, ``local-batch-tokens``.

    Raises:
        PlanError: an adversary's parameters are incomplete or impossible; the message names it.
    """
    found = []
    for name, given in adversaries.items():
        own = dict(given)
        if "period" not in own and "step-time" not in own:
            own = {**{key: compute[key] for key in _COMPUTE if key in compute}, **own}
        try:
            found.append(Held(name, plan_training({**own, "limit": written(limit)})))
        except PlanError as error:
            raise PlanError(f"the adversary {name}: {error}") from error
    return tuple(sorted(found, key=lambda each: -each.needs_bytes_per_s))


def written(rate: Fraction) -> str:
    """Return a rate of at least a byte a second as text, whole."""
    return f"{max(1, round(rate))}B/s"


def chosen(names: Sequence[str], known: Mapping[str, Mapping[str, str]]) -> dict[str, Mapping[str, str]]:
    """Return the adversaries of these names, all where none is named.

    Raises:
        PlanError: one is not known.
    """
    for name in names:
        if name not in known:
            raise PlanError(f"the adversary {name!r} is not known. Use of {', '.join(known)}")
    return {name: known[name] for name in (names or known)}
