"""What moved over a link between two readings: what the streaming evaluation is fed with. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from protos.buckets import TrafficClass
from protos.reading import Direction

MOST_MOVED = 1 << 50
"""Nothing moves a petabyte between two readings; a counter that says so is taken for this much."""


@dataclass(frozen=True, slots=True)
class Moved:
    """Bytes in ``(from_ns, to_ns]``, one direction of one link, spread evenly as far as anybody knows.

    Attributes:
        link, direction: where; egress leaves the node.
        from_ns, to_ns: on the timeline; ``to_ns`` is later.
        bytes: on the wire, as the DPU's uplink counts them.
        packets: None where none are counted.
        classes: bytes by traffic class; None where no meter tells.
        class_packets: the same in frames.
        peers: bytes by the peer's node; None where no meter tells.
    """

    link: str
    direction: Direction
    from_ns: int
    to_ns: int
    bytes: int
    packets: int | None = None
    classes: Mapping[TrafficClass, int] | None = None
    class_packets: Mapping[TrafficClass, int] | None = None
    peers: Mapping[str, int] | None = None


@dataclass(frozen=True, slots=True)
class Load:
    """A load window: what a node may move beyond its rules, in each direction, while it is open."""

    node: str
    from_ns: int
    to_ns: int
    bytes: Mapping[Direction, int]


@dataclass(frozen=True, slots=True)
class Places:
    """What is where.

    Attributes:
        site: its name.
        nodes: each link's node.
        pods: each node's pod.
        sources: the agents and switches that must be heard of.
    """

    site: str
    nodes: Mapping[str, str]
    pods: Mapping[str, str]
    sources: tuple[str, ...] = field(default=())


def bins(link: str, direction: Direction, start_ns: int, step_ns: int, volumes: Sequence[float]) -> Iterator[Moved]:
    """Yield a series of volumes, each of ``step_ns``, as what moved; those that are not known (NaN) are left out."""
    for at, volume in enumerate(volumes):
        if volume == volume:  # noqa: PLR0124  NaN is not
            yield Moved(link, direction, start_ns + at * step_ns, start_ns + (at + 1) * step_ns, round(volume))
