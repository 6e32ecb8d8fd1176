"""Journal entries as what the streaming evaluation is fed with: the same for entries just written and for old ones.

1. A frame's readings are placed on the timeline by the agent's last clock exchanges, as they were known when it came.
   Before the first exchange of a boot nothing is: counters are cumulative, so what is late is resolution, not volume.
2. Two readings of one uplink in one epoch are what moved between them; across epochs nothing is known.
3. The meters' totals by class and by peer stand beside it: egress at the host ports, ingress at the uplink.
4. The rules take every frame; the detectors, whose bins are minutes, the first of each minute.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from controller.errors import EvidenceError
from controller.journal_entry import Entry, Kind
from controller.loads.window import CLOSE, windows_in
from controller.rules.evaluator import Evaluator
from controller.rules.moved import MOST_MOVED, Load, Moved, Places
from controller.rules.shapestream import STEP_NS
from controller.rules.tally import Change
from controller.site import Dpu, Link, Site
from protos.buckets import CLASSES, TrafficClass
from protos.reading import Direction
from protos.v1 import frame_pb2, meter_pb2, reading_pb2
from protos.wire import WireError, parse_signed_frame

KINDS = (Kind.FRAME, Kind.CLOCK, Kind.POLL, Kind.RUN_START, Kind.RUN_STOP, Kind.LOAD_WINDOW)
"""What says something to the rules."""
EXCHANGES = 16
"""The narrowest of so many last clock exchanges counts."""
_Key = TypeVar("_Key")


class Recorded(Protocol):
    """An entry, written or about to be."""

    @property
    def kind(self) -> Kind: ...  # noqa: D102  as of entries
    @property
    def source(self) -> str: ...  # noqa: D102
    @property
    def recorded_ns(self) -> int: ...  # noqa: D102
    @property
    def body(self) -> bytes: ...  # noqa: D102


def places_of(site: Site) -> Places:
    """Return what is where in a site."""
    return Places(
        site=site.name,
        nodes={link.name: link.node for link in site.links},
        pods={node.name: node.pod for node in site.nodes},
        sources=(*(dpu.name for dpu in site.agents()), *(switch.name for switch in site.switches)),
    )


@dataclass(slots=True)
class _Seen:
    """A link at the reading before."""

    epoch: tuple[object, ...]
    at_ns: int
    counted: Mapping[Direction, tuple[int, int | None]]


@dataclass(slots=True)
class _Meter:
    """A port's meter at the reading before."""

    since: tuple[int, int] = (-1, -1)
    complete: bool = False
    classes: dict[TrafficClass, tuple[int, int]] = field(default_factory=dict)
    peers: dict[str, tuple[int, int]] = field(default_factory=dict)


_Counts = dict[_Key, tuple[int, int]]


class _Agent:
    """One agent's frames, in order."""

    def __init__(self, dpu: Dpu, links: Iterable[Link]) -> None:
        self._links = {link.uplink.name: link for link in links}
        # Host ports that two uplinks of a bond share are counted once, with the first.
        self._link_of: dict[str, str] = {}
        for link in self._links.values():
            for port in link.uplink.host_ports:
                self._link_of.setdefault(port, link.uplink.name)
        self._uplinks = [uplink.name for uplink in dpu.uplinks]
        self._clocks: dict[str, deque[tuple[int, int]]] = {}
        self._seen: dict[str, _Seen] = {}
        self._coarse: dict[str, _Seen] = {}
        self._meters: dict[str, _Meter] = {}
        self._minute = -1
        self._last = (-1, -1)

    def exchange(self, body: bytes) -> None:
        """Take a clock exchange."""
        said = json.loads(body)
        t1, t2, t3, t4 = (int(said[key]) for key in ("t1", "t2", "t3", "t4"))
        boot = str(said["boot_id"])
        if boot not in self._clocks:
            self._clocks = {boot: deque(maxlen=EXCHANGES)}
        self._clocks[boot].append((t1 - t2, t4 - t3))

    def frame(self, raw: bytes, recorded_ns: int) -> tuple[list[Moved], list[Moved], bool]:
        """Return what moved since the frame before and, if a minute began, since its last; was every uplink read?"""
        _, frame = parse_signed_frame(raw)
        if (recorded_ns, frame.sequence) <= self._last:
            return [], [], False  # it was taken already
        self._last = (recorded_ns, frame.sequence)
        by_class, by_peer = self._metered(frame)
        exchanges = self._clocks.get(frame.clock.boot_id)
        if not exchanges:
            return [], [], False
        low, high = min(exchanges, key=lambda each: each[1] - each[0])
        offset_ns = (low + high) // 2
        minute = recorded_ns // STEP_NS
        begins, self._minute = minute > self._minute, max(minute, self._minute)
        fine: list[Moved] = []
        coarse: list[Moved] = []
        taken: set[str] = set()
        for port in frame.ports:
            link = self._links.get(port.port)
            # Of two readings of one port, by two sources, the first counts.
            if link is None or port.missing or port.port in taken:
                continue
            taken.add(port.port)
            now = _seen(port, frame.clock.boot_id, min(port.latest_ns + offset_ns, recorded_ns))
            for moved in _between(link.name, self._seen.get(port.port), now):
                key = (port.port, moved.direction)
                fine.append(_with_meters(moved, by_class.get(key), by_peer.get(key)))
            self._seen[port.port] = _later(self._seen.get(port.port), now)
            before = self._coarse.get(port.port)
            if begins or before is None or before.epoch != now.epoch:
                coarse += _between(link.name, before, now)
                self._coarse[port.port] = _later(before, now)
        return fine, coarse, len(taken) == len(self._links)

    def _metered(
        self, frame: frame_pb2.Frame
    ) -> tuple[dict[tuple[str, Direction], _Counts[TrafficClass]], dict[tuple[str, Direction], _Counts[str]]]:
        """Return by uplink and direction what moved by class and by peer, where a meter tells."""
        by_class: dict[tuple[str, Direction], _Counts[TrafficClass]] = {}
        by_peer: dict[tuple[str, Direction], _Counts[str]] = {}
        for meter in frame.meters:
            if meter.unavailable:
                self._meters.pop(meter.port, None)
                continue
            uplink = self._link_of.get(meter.port)
            key = (meter.port, Direction.INGRESS) if uplink is None else (uplink, Direction.EGRESS)
            if key[0] not in self._links:
                continue
            known = self._meters.setdefault(meter.port, _Meter())
            if known.since != (meter.since_ns, meter.epoch):
                known = self._meters[meter.port] = _Meter((meter.since_ns, meter.epoch))
            classes = {CLASSES[each.traffic_class]: _total(each) for each in meter.classes if _known(each)}
            peers = {each.peer: (each.wire_bytes, each.segments) for each in meter.peers}
            _add(by_class.setdefault(key, {}), _grown(known.classes, classes, known))
            _add(by_peer.setdefault(key, {}), _grown(known.peers, peers, known))
            known.complete = known.complete or meter.full
        return by_class, by_peer


def _known(totals: meter_pb2.ClassTotals) -> bool:
    return totals.traffic_class < len(CLASSES)


def _total(totals: meter_pb2.ClassTotals) -> tuple[int, int]:
    return totals.total.wire_bytes, totals.total.segments


def _grown(before: _Counts[_Key], now: _Counts[_Key], meter: _Meter) -> _Counts[_Key]:
    """Return what each count grew by; one that is new grew from nothing, if all that there were are known."""
    grown = {}
    for key, (count, packets) in now.items():
        last = before.get(key, (0, 0) if meter.complete else (count, packets))
        grown[key] = (min(MOST_MOVED, max(0, count - last[0])), max(0, packets - last[1]))
    before.update(now)
    return grown


def _add(total: _Counts[_Key], more: _Counts[_Key]) -> None:
    for key, (count, packets) in more.items():
        before = total.get(key, (0, 0))
        total[key] = (before[0] + count, before[1] + packets)


def _seen(port: reading_pb2.PortReading, boot_id: str, at_ns: int) -> _Seen:
    counted: dict[Direction, tuple[int, int | None]] = {}
    for direction, counters in ((Direction.EGRESS, port.egress), (Direction.INGRESS, port.ingress)):
        if counters.HasField("bytes"):
            packets = counters.packets if counters.HasField("packets") else None
            counted[direction] = (counters.bytes, packets)
    return _Seen((boot_id, port.source, port.epoch), at_ns, counted)


def _later(before: _Seen | None, now: _Seen) -> _Seen:
    """Return what the next reading is compared with: one that stands no later than the last adds nothing yet."""
    return before if before is not None and before.epoch == now.epoch and now.at_ns <= before.at_ns else now


def _between(link: str, before: _Seen | None, now: _Seen) -> Iterable[Moved]:
    if before is None or before.epoch != now.epoch or now.at_ns <= before.at_ns:
        return
    for direction, (count, packets) in now.counted.items():
        last = before.counted.get(direction)
        if last is None or count < last[0]:
            continue
        more = None if packets is None or last[1] is None else max(0, packets - last[1])
        yield Moved(link, direction, before.at_ns, now.at_ns, min(count - last[0], MOST_MOVED), more)


def _with_meters(moved: Moved, classes: _Counts[TrafficClass] | None, peers: _Counts[str] | None) -> Moved:
    if classes is None:
        return moved
    return Moved(
        moved.link,
        moved.direction,
        moved.from_ns,
        moved.to_ns,
        moved.bytes,
        moved.packets,
        classes={key: count for key, (count, _) in classes.items()},
        class_packets={key: packets for key, (_, packets) in classes.items()},
        peers=None if peers is None else {key: count for key, (count, _) in peers.items()},
    )


class Intake:
    """Takes entries in the order of the journal and feeds an evaluator."""

    def __init__(self, site: Site, evaluator: Evaluator) -> None:
        self.evaluator = evaluator
        links = {dpu.name: [link for link in site.links if link.dpu == dpu.name] for dpu in site.agents()}
        self._agents = {dpu.name: _Agent(dpu, links[dpu.name]) for dpu in site.agents()}
        self._openings: dict[tuple[str, int], Entry] = {}

    def take(self, entry: Recorded, *, rules: bool = True) -> list[Change]:
        """Take one entry and return what changed; without ``rules`` only the detectors' memory is fed.

        Raises:
            EvidenceError: a frame cannot be read by this program.
        """
        if entry.kind is Kind.RUN_START:
            self.evaluator.begin(entry.recorded_ns)
        elif entry.kind is Kind.RUN_STOP:
            self.evaluator.end()
        elif entry.kind is Kind.POLL:
            return self.evaluator.heard(entry.source, entry.recorded_ns) if rules else []
        elif entry.kind is Kind.LOAD_WINDOW and isinstance(entry, Entry):
            self._load(entry)
        agent = self._agents.get(entry.source)
        if agent is None:
            return []
        if entry.kind is Kind.CLOCK:
            agent.exchange(entry.body)
        if entry.kind is not Kind.FRAME:
            return []
        try:
            fine, coarse, complete = agent.frame(entry.body, entry.recorded_ns)
        except WireError as error:
            raise EvidenceError(f"a frame of {entry.source} cannot be read: {error}. Update weighbridge.") from error
        changes: list[Change] = []
        if rules:
            # An agent that sends frames and cannot read a port is not heard of.
            changes += self.evaluator.heard(entry.source, entry.recorded_ns) if complete else []
            changes += self.evaluator.feed_rules(fine)
        return changes + self.evaluator.feed_shapes(coarse)

    def _load(self, entry: Entry) -> None:
        said = json.loads(entry.body)
        key = (entry.source, int(said["number"]))
        opening = self._openings.get(key)
        if said["action"] == CLOSE:
            found = [] if opening is None else windows_in([opening, entry])
            self._openings.pop(key, None)
        else:
            self._openings[key] = entry
            found = windows_in([entry])
        for opened in found:
            volumes = {direction: opened.window.most_bytes(direction) for direction in Direction}
            self.evaluator.load(Load(opened.node, opened.opened_ns, opened.end_ns, volumes))
