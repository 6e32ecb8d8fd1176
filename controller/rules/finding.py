"""What rules and detectors say."""

from __future__ import annotations

import enum
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field


class Kind(enum.Enum):
    """What was found: shapes, then rules."""

    PERIODIC_EQUAL_BURSTS = "periodic-equal-bursts"
    SYMMETRIC_FLOW = "symmetric-flow"
    SYNCHRONOUS_BURSTS = "synchronous-bursts"
    CONSTANT_RATE = "constant-rate"
    LOAD_SHAPED_REPEATS = "load-shaped-repeats"
    ROTATING_LOAD = "rotating-load"
    RATE_OVER_WINDOW = "rate-over-window"
    VOLUME_OVER_WINDOW = "volume-over-window"
    PACKETS_OVER_WINDOW = "packets-over-window"
    BURST = "burst"
    BUDGET_BURN = "budget-burn"
    TELEMETRY_ABSENT = "telemetry-absent"


SHAPES = (
    Kind.PERIODIC_EQUAL_BURSTS,
    Kind.SYMMETRIC_FLOW,
    Kind.SYNCHRONOUS_BURSTS,
    Kind.CONSTANT_RATE,
    Kind.LOAD_SHAPED_REPEATS,
    Kind.ROTATING_LOAD,
)
"""They share the budget of false alarms in equal parts."""


class Severity(enum.Enum):
    """How loud. A ``note`` is recorded and shown, and never sent as an alert."""

    NOTE = "note"
    WARNING = "warning"
    PAGE = "page"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing found.

    Attributes:
        kind: what.
        places: the series, links, nodes or pods it is about.
        text: a sentence with the numbers.
        from_ns: begin of what it rests on.
        to_ns: end of what it rests on; the finding could not be made before.
        severity: a shape whose chance of a false alarm is above the budget is a note.
        rule: the name of the rule that made it; the kind's own name for shapes.
        numbers: statistic, threshold, counts; what the sentence is made of.
    """

    kind: Kind
    places: tuple[str, ...]
    text: str
    from_ns: int
    to_ns: int
    severity: Severity
    rule: str = ""
    numbers: Mapping[str, float | int | str | None] = field(default_factory=dict)

    @property
    def key(self) -> tuple[str, str, tuple[str, ...]]:
        """Findings with one key are the same thing going on."""
        return (self.kind.value, self.rule, self.places)

    @property
    def id(self) -> str:
        """Its name, the same wherever the same data are looked at: what, by which rule, where, and since when."""
        what = json.dumps([*self.key[:2], *self.places, self.to_ns], ensure_ascii=False)
        return f"{self.kind.value}-{hashlib.sha256(what.encode()).hexdigest()[:10]}"
