"""Counts by peer as readings: what stands still is known while no frame is missing; a new table counts anew."""

from __future__ import annotations

from collections.abc import Mapping

from controller.observations.shares import Shares, shared
from protos.buckets import TrafficClass
from protos.reading import Direction
from protos.v1 import frame_pb2, meter_pb2

S = 1_000_000_000
ENTERING = {("dpu1", "pf0hpf"): Direction.EGRESS, ("dpu1", "p0"): Direction.INGRESS}


def frame(
    sequence: int, sent: Mapping[str, int] | None, *, full: bool = False, table: bytes = b"t", pod: int | None = None
) -> frame_pb2.Frame:
    meter = meter_pb2.MeterReading(port="pf0hpf", since_ns=1, epoch=1, full=full)
    if sent is None:
        meter = meter_pb2.MeterReading(port="pf0hpf", unavailable="kernel-refused")
    else:
        meter.peers.extend(meter_pb2.PeerTotals(peer=name, wire_bytes=value) for name, value in sent.items())
        if pod is not None:
            total = meter_pb2.MeterTotals(wire_bytes=pod)
            meter.classes.add(traffic_class=TrafficClass.SAME_POD, total=total)
            meter.classes.add(traffic_class=TrafficClass.OTHER_POD, total=total)
    clock = frame_pb2.ClockStamp(boot_id="b")
    return frame_pb2.Frame(agent="dpu1", sequence=sequence, clock=clock, class_table_sha256=table, meters=[meter])


def heard(*frames: frame_pb2.Frame) -> Shares:
    shares = Shares("node1", ENTERING)
    for each in frames:
        shares.take(each, each.sequence * S, each.sequence * S + S // 10)
    return shares


def told(shares: Shares, peer: str) -> list[tuple[int, int, int]]:
    (part,) = shares.of(peer, Direction.EGRESS).parts
    return [(reading.earliest_ns // S, reading.bytes, reading.epoch) for reading in part[0]]


def test_nothing_is_known_before_all_was_told() -> None:
    shares = heard(frame(1, {"node2": 5}), frame(2, {"node2": 7}, full=True), frame(3, {}))
    assert told(shares, "node2") == [(2, 7, 0), (3, 7, 0)]


def test_what_stands_still_is_read_at_its_ends_only() -> None:
    quiet = [frame(number, {}) for number in range(2, 9)]
    shares = heard(frame(1, {"node2": 5}, full=True), *quiet, frame(9, {"node2": 8}), frame(10, {}))
    assert told(shares, "node2") == [(1, 5, 0), (8, 5, 0), (9, 8, 0), (10, 8, 0)]


def test_a_peer_that_was_never_told_of_stands_at_zero() -> None:
    shares = heard(frame(1, {}, full=True), frame(2, {}), frame(3, {"node2": 4}))
    assert told(shares, "node2") == [(1, 0, 0), (2, 0, 0), (3, 4, 0)]
    assert told(shares, "node3") == [(1, 0, 0), (3, 0, 0)]


def test_after_a_frame_that_never_came_all_must_be_told_again() -> None:
    shares = heard(frame(1, {"node2": 5}, full=True), frame(3, {}), frame(4, {"node2": 9}, full=True))
    assert told(shares, "node2") == [(1, 5, 0), (4, 9, 0)]


def test_a_new_table_counts_anew() -> None:
    shares = heard(
        frame(1, {"node2": 5}, full=True),
        frame(2, {"node2": 1}, table=b"u"),
        frame(3, {}, table=b"u", full=True),
        frame(4, {"node2": 2}, table=b"u"),
    )
    assert told(shares, "node2") == [(1, 5, 0), (3, 0, 1), (4, 2, 1)]


def test_without_a_meter_nothing_is_told() -> None:
    assert told(heard(frame(1, None), frame(2, None)), "node2") == []


def test_the_own_pod_is_one_class_and_both_ends_are_asked() -> None:
    nodes = {
        "node1": heard(frame(1, {"node2": 5}, full=True, pod=5), frame(2, {"node2": 6, "elsewhere": 9}, pod=6)),
        "node2": Shares("node2", {("dpu2", "p0"): Direction.INGRESS}),
    }
    found = {(one.node, one.direction, one.peer) for one in shared(nodes)}
    assert found == {
        ("node1", Direction.EGRESS, "node2"),
        ("node2", Direction.INGRESS, "node1"),
        *((node, direction, None) for node in nodes for direction in Direction),
    }
    (own,) = nodes["node1"].of("", Direction.EGRESS).parts
    assert [reading.bytes for reading in own[0]] == [5, 6]
