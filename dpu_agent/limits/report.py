"""What a frame says of leases and limiters, from what the shell holds. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dpu_agent.keeper import KeeperState, Place
from dpu_agent.limits.order import LimitClass, Moments, Order, Passed
from protos.buckets import TrafficClass
from protos.lease import LeaseKind, Slot
from protos.leasewire import DIRECTION_TO_WIRE, KIND_TO_WIRE
from protos.moments import pack_moments
from protos.v1 import lease_pb2

Key = tuple[str, LimitClass]


@dataclass(frozen=True, slots=True)
class Refusals:
    """How often leases were refused for one reason since the agent's start; the newest in words, and when."""

    count: int
    text: str
    at_ns: int


def limits_message(
    *,
    backend: str,
    unavailable: str,
    state: KeeperState,
    orders: Mapping[Key, Order],
    passed: Mapping[Key, Passed],
    deviations: Mapping[Key, str],
    moments: Mapping[Key, Moments],
    refusals: Mapping[str, Refusals],
    slots: Sequence[Slot],
    read_ns: tuple[int, int],
    clock_offset_ns: int,
) -> lease_pb2.LimitsReading:
    """Return the message: one limiter for every order, and the refusals by reason.

    ``read_ns`` is when the counters were read, at the earliest and the latest, on the agent's clock.
    """
    leased = {(slot.port, LimitClass(slot.traffic_class)): slot for slot in slots}
    directions = {slot.port: slot.direction for slot in slots}
    limiters = []
    for key, order in orders.items():
        message = lease_pb2.LimiterReading(
            state=_state(leased[key], state) if key in leased else lease_pb2.LeaseState(floor_reason="fixed"),
            earliest_ns=read_ns[0],
            latest_ns=read_ns[1],
            trouble=deviations.get(key, ""),
            floor_rate_bytes_per_s=order.floor_rate_bytes_per_s,
            floor_depth_bytes=order.floor_depth_bytes,
        )
        _say_order(message.state, order, clock_offset_ns)
        if order.port in directions:
            message.state.direction = DIRECTION_TO_WIRE[directions[order.port]]
        if key in passed:
            message.counters.CopyFrom(_counters(passed[key]))
        if key in moments:
            message.moments.CopyFrom(_moments(moments[key], clock_offset_ns))
        limiters.append(message)
    return lease_pb2.LimitsReading(
        backend=backend,
        unavailable=unavailable,
        highest_sequence=state.highest_sequence,
        limiters=limiters,
        refusals=[
            lease_pb2.LeaseRefusal(reason=reason, count=each.count, text=each.text, at_ns=each.at_ns)
            for reason, each in sorted(refusals.items())
        ],
    )


def _say_order(message: lease_pb2.LeaseState, order: Order, clock_offset_ns: int) -> None:
    message.port = order.port
    message.traffic_class = TrafficClass(order.traffic_class)
    message.rate_bytes_per_s = order.rate_bytes_per_s
    message.depth_bytes = order.depth_bytes
    if order.until_ns is not None:
        message.until_ns = order.until_ns + clock_offset_ns


def _state(slot: Slot, state: KeeperState) -> lease_pb2.LeaseState:
    found = state.in_force(slot)
    if found is None:
        return lease_pb2.LeaseState(floor_reason=newest(state, slot).floor.value)
    kind, place = found
    lease = place.held.lease if place.held is not None else None
    if lease is None:
        return lease_pb2.LeaseState(floor_reason=place.floor.value)
    return lease_pb2.LeaseState(
        sequence=lease.sequence,
        kind=KIND_TO_WIRE[kind],
        volume_bytes=lease.volume_bytes,
        used_bytes=place.used_bytes,
        budget=lease.budget,
        agreement_sha256=lease.agreement_sha256,
    )


def newest(state: KeeperState, slot: Slot) -> Place:
    """Return the place of ``slot`` that was leased last: its reason is why the floor holds."""
    return max((state.place(slot, kind) for kind in LeaseKind), key=lambda place: place.budget)


def _moments(moments: Moments, clock_offset_ns: int) -> lease_pb2.LimiterMoments:
    return lease_pb2.LimiterMoments(
        width_ns=moments.width_ns,
        bucket_zero_ns=clock_offset_ns,
        first_bucket=moments.first,
        bucket_count=moments.count,
        series=pack_moments(moments.first, moments.buckets),
        unplaced_bytes=moments.unplaced_bytes,
    )


def _counters(passed: Passed) -> lease_pb2.LimiterCounters:
    return lease_pb2.LimiterCounters(
        offered_bytes=passed.offered_bytes,
        passed_bytes=passed.passed_bytes,
        dropped_bytes=passed.dropped_bytes,
        offered_packets=passed.offered_packets,
        passed_packets=passed.passed_packets,
        dropped_packets=passed.dropped_packets,
    )
