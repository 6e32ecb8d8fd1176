"""The seam to whatever counts: each source says what it is before it says what it counted.

A source reads ports and answers with one :class:`PortSample` each, in the words of the node (egress leaves it,
ingress enters it), on the agent's clock, stating framing, refresh period and blind spots in its
:class:`SourceDescription`. Whether a counter went on since the last sample is not the source's to say: that is
:mod:`dpu_agent.epochs`. A port may have several sources; their counters never mix.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from dpu_agent.config import PortConfig
from protos.reading import Direction, Framing, Missing


@dataclass(frozen=True, slots=True)
class SourceDescription:
    """What a source's numbers are.

    Attributes:
        name: stands beside every reading.
        framing: which bytes of a frame it counts.
        sees, cannot_see: which traffic, in words for the report.
    """

    name: str
    framing: Framing
    sees: tuple[str, ...]
    cannot_see: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CounterValues:
    """One direction's cumulative counters; None is "this source does not count that", never zero."""

    bytes: int
    packets: int | None = None
    dropped_packets: int | None = None
    error_packets: int | None = None

    def decreased_from(self, before: CounterValues) -> bool:
        """Whether any counter both have is lower here: then it was reset in between."""
        pairs = (
            (before.bytes, self.bytes),
            (before.packets, self.packets),
            (before.dropped_packets, self.dropped_packets),
            (before.error_packets, self.error_packets),
        )
        return any(old is not None and new is not None and new < old for old, new in pairs)


@dataclass(frozen=True, slots=True)
class PortSample:
    """One look at one port.

    Attributes:
        earliest_ns, latest_ns: each counter was true at an instant between them (the agent's monotonic clock,
            the source's refresh period already subtracted); where ``missing``, when the agent looked.
        ifindex: the kernel's number of the interface, another after re-creation; 0 while missing.
        counters: by direction; empty exactly when ``missing`` says why.
        mtu_bytes, speed_bytes_per_s: of the interface, where known.
    """

    port: PortConfig
    source: SourceDescription
    earliest_ns: int
    latest_ns: int
    ifindex: int = 0
    counters: Mapping[Direction, CounterValues] = field(default_factory=dict)
    missing: Missing | None = None
    mtu_bytes: int | None = None
    speed_bytes_per_s: int | None = None

    def __post_init__(self) -> None:
        if bool(self.counters) == (self.missing is not None):
            raise ValueError(f"{self.port.name}: a sample has counters or a reason why not")


class CounterSource(Protocol):
    """Reads ports."""

    @property
    def description(self) -> SourceDescription:
        """What its numbers are."""

    def read(self, ports: Sequence[PortConfig]) -> list[PortSample]:
        """Return one sample a port, in the order asked; a port that cannot be read is missing, not left out."""

    def close(self) -> None:
        """Give back what it holds."""


class MemoryCounters:
    """The double: ports whose counters are set by hand. A port that was never set, or taken away, is absent."""

    description = SourceDescription("memory", Framing.L2_WITHOUT_FCS, ("what was set",), ())

    def __init__(self, monotonic_ns: Callable[[], int]) -> None:
        self._now_ns = monotonic_ns
        self.ports: dict[str, tuple[int, Mapping[Direction, CounterValues]]] = {}
        self.missing: dict[str, Missing] = {}

    def set(self, port: str, ifindex: int, egress: CounterValues, ingress: CounterValues) -> None:
        """Let ``port`` have these counters from now on."""
        self.ports[port] = (ifindex, {Direction.EGRESS: egress, Direction.INGRESS: ingress})

    def read(self, ports: Sequence[PortConfig]) -> list[PortSample]:
        """Return what was set."""
        now = self._now_ns()
        samples = []
        for port in ports:
            ifindex, counters = self.ports.get(port.name, (0, {}))
            missing = self.missing.get(port.name, None if counters else Missing.ABSENT)
            if missing is not None:
                ifindex, counters = 0, {}
            samples.append(
                PortSample(port, self.description, max(0, now - port.refresh_ns), now, ifindex, counters, missing)
            )
        return samples

    def close(self) -> None:
        """Nothing is held."""
