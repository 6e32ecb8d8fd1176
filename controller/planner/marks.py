"""How well a number is known: every number of the planner carries one of these, and where it is from."""

from __future__ import annotations

import enum
from dataclasses import dataclass


class Mark(enum.Enum):
    """How a number came to be known."""

    GIVEN = "given"
    """The caller said so."""
    MEASURED = "measured"
    """Counted in a recorded run."""
    PUBLISHED = "published"
    """In a paper or report, not checked here."""
    DERIVED = "derived"
    """Follows by arithmetic from the others."""
    ASSUMED = "assumed"
    """A choice: the result changes with it."""


@dataclass(frozen=True, slots=True)
class Assumption:
    """One number or statement that a result rests on. ``value`` is text with its unit."""

    name: str
    value: str
    mark: Mark
    source: str

    def json(self) -> dict[str, str]:
        """Return it as JSON has it."""
        return {"name": self.name, "value": self.value, "mark": self.mark.value, "source": self.source}

    def __str__(self) -> str:
        return f"{self.name} = {self.value} ({self.mark.value}: {self.source})"


class PlanError(ValueError):
    """What was asked is impossible, incomplete or ambiguous; the text names the parameter and the remedy."""
