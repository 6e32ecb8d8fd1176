"""One link and direction under examination: what was said, what that proves, and what is assumed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from controller.crosscheck.model import Assumptions, LinkEvidence, Period
from controller.crosscheck.observed import Observed, observe
from controller.crosscheck.plausible import plausible
from protos.reading import Direction, Observer


@dataclass(frozen=True, slots=True)
class Case:
    """Everything that judging one link and direction needs. Inside, time 0 is the start of the period."""

    evidence: LinkEvidence
    seen: Mapping[Observer, Observed]
    assumptions: Assumptions
    period: Period

    @classmethod
    def of(cls, evidence: LinkEvidence, assumptions: Assumptions, period: Period) -> Case:
        """Build what each observer's track proves; one whose bytes and packets do not fit together proves nothing."""
        length = period.to_ns - period.from_ns
        seen = {
            observer: plausible(observe(track, period.from_ns), assumptions.largest_frame_bytes, 0, length)
            for observer, track in evidence.tracks.items()
        }
        return cls(evidence, seen, assumptions, period)

    @property
    def direction(self) -> Direction:
        """The direction examined."""
        return self.evidence.direction

    @property
    def origin(self) -> int:
        """The time that is 0 in all quantities, nanoseconds of the timeline."""
        return self.period.from_ns

    @property
    def length(self) -> int:
        """Length of the period, nanoseconds."""
        return self.period.to_ns - self.period.from_ns
