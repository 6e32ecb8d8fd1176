"""What agents' meters counted, held against the agreement: limits by traffic class and by node pair.

The site file's limits are on everything a link carries; an agreement is finer. A meter counts by class and by peer what
enters its port, before the limiter drops any of it, so what certainly passed between two frames is the difference of
the counts less everything the limiter dropped from before the first to after the second. Counts of a frame were read
after its time stamp and before the next frame's. Where that is more than the agreement lets pass in any window at
least as long, the limit is exceeded for certain; load windows of the class are added to what it lets pass.

A pod's limit is on its nodes together and is not judged here: leases under it are added up when they are granted.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from controller.agreement.arithmetic import bound_text
from controller.agreement.document import EVERYONE, Agreement, Limit
from controller.agreement.envelope import SignedAgreement
from controller.crosscheck.model import AgreementInForce, Finding, FindingKind, Period
from controller.loads.window import Opened
from controller.site import Dpu
from protos.buckets import TrafficClass
from protos.lease import Bound
from protos.reading import Direction
from protos.units import format_bytes, format_duration
from protos.v1 import frame_pb2, meter_pb2

_AS_OTHER_POD = frozenset({TrafficClass.OTHER_POD, TrafficClass.UNKNOWN, TrafficClass.NON_IP})
_BETWEEN_NODES = frozenset({TrafficClass.SAME_POD, TrafficClass.OTHER_POD})
_NS_OF_A_FRAME = 60_000_000_000
"""No frame interval is longer; a pair of frames further apart has one missing between them."""

Thing = TrafficClass | str
"""What is counted at a port: a class, or a peer's name."""


@dataclass(frozen=True, slots=True)
class InForce:
    """An agreement and when it held, on the timeline: from its acceptance, within its validity, to the next one's."""

    agreement: Agreement
    from_ns: int
    to_ns: int


@dataclass(frozen=True, slots=True)
class _Look:
    """A count that was true within ``[earliest_ns, latest_ns]`` of the agent's clock, and the drops around that."""

    earliest_ns: int
    latest_ns: int
    bytes: int
    dropped_before: int
    dropped_after: int
    times: tuple[int, int]


@dataclass(slots=True)
class _Bounded:
    """One thing under one bound, frame after frame."""

    what: str
    bound: Bound
    allowed_bytes: int
    direction: Direction
    looks: deque[_Look] = field(default_factory=deque)
    worst: tuple[int, _Look, _Look] | None = None

    def take(self, look: _Look) -> None:
        while self.looks and look.latest_ns - self.looks[0].earliest_ns > self.bound.window_ns:
            self.looks.popleft()
        if self.looks:
            first = self.looks[0]
            passed = look.bytes - first.bytes - (look.dropped_after - first.dropped_before)
            if passed > self.allowed_bytes and (self.worst is None or passed > self.worst[0]):
                self.worst = passed, first, look
        self.looks.append(look)


@dataclass(slots=True)
class _Port:
    """What one port's meter told so far, and what was dropped as of the frame before and this one.

    ``complete``: every count has been told, so that one that comes later was zero.
    """

    key: tuple[str, int, bytes]
    stamp_ns: int
    times: tuple[int, int]
    counts: dict[Thing, int]
    complete: bool
    before: Mapping[Thing, int]
    after: Mapping[Thing, int]


class AgreedFindings:
    """Takes in an agent's frames in order."""

    def __init__(self, dpu: Dpu, period: Period, agreements: Sequence[InForce], windows: Sequence[Opened]) -> None:
        """``windows`` are the agent's load windows."""
        self._dpu, self._period, self._agreements = dpu, period, agreements
        self._windows = [each for each in windows if each.opened_ns < period.to_ns and each.end_ns > period.from_ns]
        self._directions = {port: Direction.EGRESS for uplink in dpu.uplinks for port in uplink.host_ports}
        self._directions |= {uplink.name: Direction.INGRESS for uplink in dpu.uplinks}
        self._ports: dict[str, _Port] = {}
        self._bounded: dict[tuple[int, str, Thing], list[_Bounded]] = {}
        self._done: list[_Bounded] = []

    def take(self, frame: frame_pb2.Frame, from_ns: int, to_ns: int) -> None:
        """Take in what ``frame`` says; it was made after ``from_ns`` and received by ``to_ns``."""
        dropped = _dropped(frame)
        for meter in frame.meters:
            if meter.unavailable or meter.port not in self._directions:
                continue
            key = (frame.clock.boot_id, meter.since_ns, frame.class_table_sha256)
            before = self._ports.get(meter.port)
            counts = dict(before.counts) if before is not None and before.key == key else {}
            told = _told(meter)
            after = dropped.get(meter.port, {})
            goes_on = before is not None and before.key == key and _rises(before, told, after)
            if before is not None and goes_on:
                self._look(meter.port, before, frame.clock.monotonic_ns)
            else:
                self._end(meter.port)
                counts = {}
            now = _Port(
                key,
                frame.clock.monotonic_ns,
                (from_ns, to_ns),
                counts | told,
                meter.full or (before is not None and goes_on and before.complete),
                before.after if before is not None and goes_on else after,
                after,
            )
            self._ports[meter.port] = now

    def findings(self) -> list[Finding]:
        """Return the worst excess of each bound, in order of time."""
        found = [
            each for each in (*self._done, *(one for many in self._bounded.values() for one in many)) if each.worst
        ]
        return sorted((self._finding(each) for each in found), key=lambda each: each.from_ns or 0)

    def _end(self, port: str) -> None:
        for key in [key for key in self._bounded if key[1] == port]:
            self._done += self._bounded.pop(key)

    def _look(self, port: str, before: _Port, next_stamp_ns: int) -> None:
        """Give every bound the frame before, now that it is known by when its counts had been read."""
        if next_stamp_ns - before.stamp_ns > _NS_OF_A_FRAME:
            self._end(port)
            return
        within = before.times[1] > self._period.from_ns and before.times[0] <= self._period.to_ns
        if not within or not before.complete:
            return
        for number, held in enumerate(self._agreements):
            if before.times[0] < held.from_ns or before.times[1] > held.to_ns:
                continue
            for thing, count in _together(before.counts).items():
                look = _Look(
                    before.stamp_ns,
                    next_stamp_ns,
                    count,
                    before.before.get(thing, before.before.get("", 0)),
                    before.after.get(thing, before.after.get("", 0)),
                    before.times,
                )
                key = (number, port, thing)
                if key not in self._bounded:
                    self._bounded[key] = list(self._bounds(held.agreement, self._directions[port], thing))
                for bounded in self._bounded[key]:
                    bounded.take(look)

    def _bounds(self, agreement: Agreement, direction: Direction, thing: Thing) -> Iterator[_Bounded]:
        for limit in agreement.limits:
            if direction in limit.directions and _is_about(limit, self._dpu.node, thing):
                extra = 0 if isinstance(thing, str) else self._load_bytes(thing, direction)
                what = f"{limit.place}: {self._dpu.node}" + (f" and {thing}" if isinstance(thing, str) else "")
                for bound in limit.bounds:
                    yield _Bounded(what, bound, bound.bytes + extra, direction)

    def _load_bytes(self, traffic_class: TrafficClass, direction: Direction) -> int:
        return sum(
            each.window.ingress_bytes if direction is Direction.INGRESS else each.window.egress_bytes
            for each in self._windows
            if each.window.traffic_class is traffic_class
        )

    def _finding(self, bounded: _Bounded) -> Finding:
        passed, first, last = bounded.worst or (0, bounded.looks[0], bounded.looks[0])
        length = format_duration(last.latest_ns - first.earliest_ns)
        return Finding(
            FindingKind.LIMIT_EXCEEDED,
            certain=True,
            text=(
                f"agreement, {bounded.what}, {bounded.direction.value}: at least {format_bytes(passed)} passed within "
                f"{length}, agreed are {bound_text(bounded.bound)}"
            ),
            node=self._dpu.node,
            direction=bounded.direction,
            bytes_at_least=passed - bounded.allowed_bytes,
            from_ns=first.times[0],
            to_ns=last.times[1],
        )


def _is_about(limit: Limit, node: str, thing: Thing) -> bool:
    if isinstance(thing, str):
        if limit.scope != "pair" or limit.traffic_class not in _BETWEEN_NODES:
            return False
        return EVERYONE in limit.names or any({node, thing} == set(name.split()) for name in limit.names)
    named = EVERYONE in limit.names or node in limit.names
    return limit.scope == "node" and named and limit.traffic_class is thing


def _together(counts: Mapping[Thing, int]) -> dict[Thing, int]:
    """Return ``counts`` with what limits treat as other pods added up."""
    others = sum(counts.get(each, 0) for each in _AS_OTHER_POD)
    return {
        **{thing: count for thing, count in counts.items() if thing not in _AS_OTHER_POD},
        TrafficClass.OTHER_POD: others,
    }


def _told(meter: meter_pb2.MeterReading) -> dict[Thing, int]:
    found: dict[Thing, int] = {each.peer: each.wire_bytes for each in meter.peers if each.peer}
    known = set(TrafficClass)
    for each in meter.classes:
        if each.traffic_class in known:
            found[TrafficClass(each.traffic_class)] = each.total.wire_bytes
    return found


def _rises(before: _Port, told: Mapping[Thing, int], after: Mapping[Thing, int]) -> bool:
    return _none_less(told, before.counts) and _none_less(after, before.after) and after.keys() >= before.after.keys()


def _none_less(later: Mapping[Thing, int], earlier: Mapping[Thing, int]) -> bool:
    return all(value >= earlier.get(thing, 0) for thing, value in later.items())


def _dropped(frame: frame_pb2.Frame) -> dict[str, dict[Thing, int]]:
    """Return by port what the limiters dropped of each class so far; under "" of all of them, which is for peers."""
    found: dict[str, dict[Thing, int]] = {}
    for reading in frame.limits.limiters:
        here = found.setdefault(reading.state.port, {"": 0})
        here[""] += reading.counters.dropped_bytes
        if reading.state.traffic_class in set(TrafficClass):
            here[TrafficClass(reading.state.traffic_class)] = reading.counters.dropped_bytes
    return found


def in_force_over(accepted: Sequence[tuple[int, SignedAgreement]]) -> list[InForce]:
    """Return agreements with the time they held: from when each was accepted, within its validity, to the next one."""
    return [InForce(signed.agreement, from_ns, to_ns) for signed, from_ns, to_ns in _held(accepted)]


def agreements_in(accepted: Sequence[tuple[int, SignedAgreement]], period: Period) -> tuple[AgreementInForce, ...]:
    """Return those that held at some time of ``period``, as both parties signed them, for who reads the result."""
    return tuple(
        AgreementInForce(signed.agreement.number, signed.sha256, from_ns, to_ns, signed.encode())
        for signed, from_ns, to_ns in _held(accepted)
        if from_ns < period.to_ns and to_ns > period.from_ns
    )


def _held(accepted: Sequence[tuple[int, SignedAgreement]]) -> Iterator[tuple[SignedAgreement, int, int]]:
    """Yield each with the time it held; one that never did, because the next came first or it was over, is none."""
    for number, (at_ns, signed) in enumerate(accepted, 1):
        said, nexts = signed.agreement, [at_ns for at_ns, _ in accepted[number : number + 1]]
        from_ns, to_ns = max(at_ns, said.valid_from_ns), min([said.valid_to_ns, *nexts])
        if from_ns < to_ns:
            yield signed, from_ns, to_ns
