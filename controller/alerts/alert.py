"""An alert: a finding as receivers take it. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path

from controller.rules.finding import SHAPES, Finding, Severity
from controller.rules.shapestream import EVERY_BINS, MEMORY_BINS, STEP_NS
from controller.rules.tally import Change
from protos.units import NS_PER_S

LEEWAY_NS = (EVERY_BINS + 2) * STEP_NS
"""A shape is found at the next look after what it rests on."""
LOUDNESS = {Severity.NOTE: 0, Severity.WARNING: 1, Severity.PAGE: 2}


@dataclass(frozen=True, slots=True)
class Alert:
    """One alert.

    Attributes:
        id: the finding's.
        labels: what it is about; the same for the same thing at another time.
        annotations: what there is to say, and the command that explains it.
        severity: of the finding.
        starts_ns: when the finding could first be made, wall clock.
        ends_ns: when it was over; None while it goes on.
    """

    id: str
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    severity: Severity
    starts_ns: int
    ends_ns: int | None = None

    @property
    def resolved(self) -> bool:
        """Whether it is over."""
        return self.ends_ns is not None


@dataclass(frozen=True, slots=True)
class Explaining:
    """What the command that explains a finding needs.

    Attributes:
        site_file: of the site.
        rules_file: that the finding was made by; None for the defaults.
        longest_window_ns: of its rules.
        wall_ahead_ns: how far the wall clock is ahead of the timeline.
    """

    site_file: Path
    rules_file: Path | None
    longest_window_ns: int
    wall_ahead_ns: int = 0

    def command(self, finding: Finding) -> str:
        """Return ``weighbridge explain ...`` with all the past that the finding rests on."""
        words = ["weighbridge", "explain", finding.id, "--site", str(self.site_file)]
        if self.rules_file is not None:
            words += ["--rules", str(self.rules_file)]
        past_ns = MEMORY_BINS * STEP_NS if finding.kind in SHAPES else self.longest_window_ns
        from_ns = max(0, min(finding.from_ns, finding.to_ns - past_ns) - LEEWAY_NS)
        words += ["--from-ns", str(from_ns), "--to-ns", str(finding.to_ns + LEEWAY_NS)]
        return shlex.join(words)


def alert_of(change: Change, site: str, explaining: Explaining) -> Alert:
    """Return the alert for what changed."""
    finding, shift = change.finding, explaining.wall_ahead_ns
    labels = {
        "alertname": finding.kind.value,
        "site": site,
        "rule": finding.rule or finding.kind.value,
        "severity": finding.severity.value,
        "place": ", ".join(finding.places),
    }
    annotations = {"summary": finding.text, "explain": explaining.command(finding), "finding": finding.id}
    ends_ns = None if change.resolved_ns is None else max(change.resolved_ns, finding.to_ns) + shift
    return Alert(finding.id, labels, annotations, finding.severity, finding.to_ns + shift, ends_ns)


def rfc3339(time_ns: int) -> str:
    """Return a wall-clock time as receivers read it, to the microsecond."""
    seconds, rest = divmod(time_ns, NS_PER_S)
    moment = datetime.fromtimestamp(seconds, timezone.utc)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{rest // 1000:06d}Z"
