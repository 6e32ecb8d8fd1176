"""A figure with its goal: printed whether it holds or not."""

from __future__ import annotations

import enum
import json
from dataclasses import dataclass


class Goal(enum.Enum):
    """Which side of the goal is good."""

    AT_MOST = "at most"
    AT_LEAST = "at least"
    EXACTLY = "exactly"


@dataclass(frozen=True, slots=True)
class Figure:
    """One measured figure.

    Attributes:
        name: ``area.subject.statistic``, stable, for example ``meter.ns_per_packet.median``.
        value: what was measured; None when it could not be, and ``note`` says why.
        unit: ``ns``, ``B``, ``1`` (a count or a ratio), ...
        goal: the target, or None for a figure that has none.
    """

    name: str
    value: float | int | None
    unit: str
    goal: float | int | None = None
    sense: Goal = Goal.AT_MOST
    note: str = ""

    @property
    def holds(self) -> bool | None:
        """Whether the goal is met; None where there is none."""
        if self.goal is None:
            return None
        if self.value is None:
            return False
        if self.sense is Goal.AT_MOST:
            return self.value <= self.goal
        if self.sense is Goal.AT_LEAST:
            return self.value >= self.goal
        return self.value == self.goal

    def line(self) -> str:
        """Return the figure as one line of JSON."""
        body: dict[str, object] = {"figure": self.name, "value": self.value, "unit": self.unit, "goal": self.goal}
        body["holds"] = self.holds
        if self.goal is not None and self.sense is not Goal.AT_MOST:
            body["sense"] = self.sense.value
        if self.note:
            body["note"] = self.note
        return json.dumps(body, ensure_ascii=False)
