"""What the agents' meters counted by peer and of the node's own pod, as readings: for laws between nodes.

A meter counts what enters its port: on the host port by destination, on the uplink by source. A frame tells the counts
that changed since the frame before, now and then all of them; so what stands still is known too, but only while no
frame is missing since all were told.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, field

from controller.crosscheck.model import SharedTraffic
from protos.buckets import TrafficClass
from protos.reading import Direction, Reading
from protos.v1 import frame_pb2, meter_pb2

_OWN_POD = ""
"""The key of the own pod's count beside the peers' names, none of which is empty."""


@dataclass(slots=True)
class _Port:
    """One port's counts: when all of them were known, and where each changed."""

    key: tuple[str, int, int, bytes] | None = None
    epoch: int = -1
    complete: bool = False
    known: dict[str, int] = field(default_factory=dict)
    looks: list[tuple[int, int, int]] = field(default_factory=list)
    changes: dict[str, list[tuple[int, int]]] = field(default_factory=dict)
    begins: list[int] = field(default_factory=list)

    def begin(self, key: tuple[str, int, int, bytes]) -> None:
        """Count anew: what the first frame does not tell of is not known before all are told."""
        self.key, self.epoch, self.complete, self.known = key, self.epoch + 1, False, {}
        for changes in self.changes.values():
            changes.append((len(self.looks), 0))
        self.begins.append(len(self.looks))

    def look(self, meter: meter_pb2.MeterReading, from_ns: int, to_ns: int) -> None:
        """Take in what a frame tells, and what stands still because it does not tell of it."""
        told = {each.peer: each.wire_bytes for each in meter.peers if each.peer}
        for each in meter.classes:
            if each.traffic_class == TrafficClass.SAME_POD:
                told[_OWN_POD] = each.total.wire_bytes
        if meter.full:
            told = {**dict.fromkeys(self.known, 0), **told}
        for name, value in told.items():
            if self.known.get(name, 0) != value:
                self.changes.setdefault(name, []).append((len(self.looks), value))
        self.known |= told
        self.looks.append((from_ns, to_ns, self.epoch))

    def readings(self, name: str) -> tuple[Reading, ...]:
        """Return the count of ``name`` where it changed: the last look before, the first after; 0 before it was told.

        What stands still between two looks that show the same proves nothing more.
        """
        changes = self.changes.get(name, [])
        edges = [0, *(number for number, _ in changes), *self.begins, len(self.looks)]
        wanted = sorted({at for edge in edges for at in (edge - 1, edge) if 0 <= at < len(self.looks)})
        numbers = [number for number, _ in changes]
        found = []
        for number in wanted:
            last = bisect_right(numbers, number) - 1
            from_ns, to_ns, epoch = self.looks[number]
            found.append(Reading(from_ns, to_ns, changes[last][1] if last >= 0 else 0, epoch=epoch))
        return tuple(found)


class Shares:
    """Takes in the frames of one node's agents, each agent's in order."""

    def __init__(self, node: str, directions: Mapping[tuple[str, str], Direction]) -> None:
        """``directions`` says for each port of each agent which of the node's directions enters it."""
        self._node, self._directions = node, directions
        self._ports = {place: _Port() for place in directions}
        self._sequences: dict[str, int] = {}

    def take(self, frame: frame_pb2.Frame, from_ns: int, to_ns: int) -> None:
        """Take in what ``frame`` says; it was made after ``from_ns`` and received by ``to_ns``."""
        # A frame that never came may have told of a change.
        missed = self._sequences.get(frame.agent, 0) + 1 != frame.sequence
        self._sequences[frame.agent] = frame.sequence
        meters = {meter.port: meter for meter in frame.meters if not meter.unavailable}
        for (agent, name), port in self._ports.items():
            if agent != frame.agent:
                continue
            meter = meters.get(name)
            if meter is None:
                port.complete = False
                continue
            key = frame.clock.boot_id, meter.since_ns, meter.epoch, bytes(frame.class_table_sha256)
            if key != port.key:
                port.begin(key)
            port.complete = meter.full or (port.complete and not missed)
            if port.complete:
                port.look(meter, from_ns, to_ns)

    @property
    def peers(self) -> set[str]:
        """The peers that any port told of; with the empty name if the own pod was."""
        return {name for port in self._ports.values() for name in port.changes}

    def of(self, name: str, direction: Direction) -> SharedTraffic:
        """Return what all ports of one direction counted of a peer, or of the own pod (the empty name)."""
        ports = [port for place, port in self._ports.items() if self._directions[place] is direction]
        parts = tuple((port.readings(name), frozenset(range(port.epoch + 1))) for port in ports)
        return SharedTraffic(self._node, direction, name or None, parts)


def shared(nodes: Mapping[str, Shares]) -> tuple[SharedTraffic, ...]:
    """Return both ends of all traffic between two nodes of the site, and within pods.

    What one end told of is asked of the other as well, where it may stand at zero.
    """
    found: dict[tuple[str, Direction, str], SharedTraffic] = {}
    within = any(_OWN_POD in node.peers for node in nodes.values())
    for name, own in nodes.items():
        if within:
            found |= {(name, direction, _OWN_POD): own.of(_OWN_POD, direction) for direction in Direction}
        for peer in sorted(own.peers & set(nodes)):
            found[name, Direction.EGRESS, peer] = own.of(peer, Direction.EGRESS)
            found[peer, Direction.INGRESS, name] = nodes[peer].of(name, Direction.INGRESS)
    return tuple(found.values())
