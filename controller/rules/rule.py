"""What a rules file asks for, as values: each rule with its scope, its windows and how loud it is. Pure."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from math import ceil

from controller.rules.finding import Kind, Severity
from controller.rules.limits import VolumeLimit
from controller.rules.shape import Shape
from protos.buckets import TrafficClass


class Scope(enum.Enum):
    """What a rule holds for, each direction by itself.

    A node is the sum of its links; a pod and the site are the sums of their nodes. A pair is a node and one peer, a
    class a node and one traffic class, as the DPUs' meters count them.
    """

    NODE = "node"
    PAIR = "pair"
    POD = "pod"
    CLASS = "class"
    SITE = "site"


class Measure(enum.Enum):
    """What is counted."""

    BYTES = "bytes"
    PACKETS = "packets"


@dataclass(frozen=True, slots=True)
class Bound:
    """At most ``most`` (bytes or packets) in any ``window_ns``."""

    window_ns: int
    most: int


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule.

    Attributes:
        name: of the rules file.
        kind: what its findings are called.
        bounds: the window set; for a burst one bound, whose window is how long the bucket takes to drain; none for
            absence.
        all_bounds: whether every one must be exceeded (budgets over a long and a short window), or any.
        scope: what it holds for.
        measure: bytes or packets.
        classes: only these traffic classes count; empty: everything on the wire.
        severity: of its findings.
        for_ns: so long must it be exceeded without a break before it is a finding.
        drain_bytes_per_s: of a burst's bucket; 0 for every other kind.
        with_loads: whether what load windows allow counts against it too.
        text: what the operator wrote about it.
    """

    name: str
    kind: Kind
    bounds: tuple[Bound, ...] = ()
    all_bounds: bool = False
    scope: Scope = Scope.NODE
    measure: Measure = Measure.BYTES
    classes: tuple[TrafficClass, ...] = ()
    severity: Severity = Severity.PAGE
    for_ns: int = 0
    drain_bytes_per_s: int = 0
    with_loads: bool = False
    text: str = ""


@dataclass(frozen=True, slots=True)
class Rules:
    """Everything a rules file says."""

    rules: tuple[Rule, ...]
    shape: Shape

    @property
    def limits(self) -> tuple[VolumeLimit, ...]:
        """What the rules say of a single recorded series: rates and volumes of nodes, of everything on the wire."""
        return tuple(
            VolumeLimit(rule.name, bound.window_ns, bound.most, rule.severity, rule.text)
            for rule in self.rules
            if rule.kind in _OF_SERIES and rule.scope is Scope.NODE and not rule.classes
            for bound in rule.bounds
        )

    @property
    def longest_window_ns(self) -> int:
        """So much of the past decides what the rules say now: their longest window, and how long it must last."""
        return max((bound.window_ns + rule.for_ns for rule in self.rules for bound in rule.bounds), default=0)


_OF_SERIES = frozenset({Kind.RATE_OVER_WINDOW, Kind.VOLUME_OVER_WINDOW})


def share_of(level: float, volume: float) -> int:
    """Return the most that is still below ``level`` of ``volume``: one more reaches it."""
    return max(0, ceil(level * volume) - 1)
