"""Counts by node between frames become certain intervals of the period, whatever was told when and what never came."""

from __future__ import annotations

import random

import pytest

from controller.crosscheck.model import ByteInterval, NodePair, Period
from controller.observations.pairs import PairCounts
from protos.reading import Direction
from protos.v1 import frame_pb2, meter_pb2

S = 1_000_000_000
PERIOD = Period(10 * S, 20 * S)
PORTS = {"pf0hpf": Direction.EGRESS, "p0": Direction.INGRESS}


def frame(
    sequence: int, told: dict[str, int], *, full: bool = False, table: bytes = b"t", port: str = "pf0hpf"
) -> frame_pb2.Frame:
    peers = [meter_pb2.PeerTotals(peer=peer, wire_bytes=value) for peer, value in told.items()]
    meter = meter_pb2.MeterReading(port=port, since_ns=1, full=full, peers=peers)
    return frame_pb2.Frame(agent="a", sequence=sequence, class_table_sha256=table, meters=[meter])


def counts(*frames: tuple[float, frame_pb2.Frame]) -> dict[str, ByteInterval]:
    """By peer; each frame was made at its second and received half a second later."""
    found = PairCounts("node1-dpu0", "node1", PERIOD, PORTS)
    for second, each in frames:
        found.take(each, round(second * S), round((second + 0.5) * S))
    return {pair.peer: pair.bytes for pair in found.pairs()}


def test_what_moved_lies_between_the_frames_within_and_those_around() -> None:
    found = counts(
        (8, frame(1, {"b": 100, "c": 7}, full=True)),
        (9.8, frame(2, {"b": 150})),  # across the period's edge
        (11, frame(3, {"b": 200})),
        (19, frame(4, {"b": 900})),
        (19.8, frame(5, {"b": 950})),
        (21, frame(6, {"b": 1_000})),
    )
    assert found == {"b": ByteInterval(700, 900)}, "c did not move, and is not told"


def test_a_count_that_was_not_told_yet_is_at_most_what_it_is_told_next() -> None:
    found = counts((11, frame(1, {})), (12, frame(2, {"b": 500})), (19, frame(3, {"b": 600})), (21, frame(4, {})))
    assert found == {"b": ByteInterval(100, 600)}


def test_when_all_were_told_one_that_was_not_is_zero() -> None:
    found = counts((8, frame(1, {}, full=True)), (11, frame(2, {})), (12, frame(3, {"b": 500})), (21, frame(4, {})))
    assert found == {"b": ByteInterval(500, 500)}


def test_a_frame_that_never_came_may_have_told_of_a_change() -> None:
    known = (8, frame(1, {"b": 100}, full=True))
    # Frame 2 told of 150, before the period; frame 3 of nothing.
    found = counts(known, (11, frame(3, {})), (19, frame(4, {"b": 160})), (21, frame(5, {})))
    assert found == {"b": ByteInterval(0, 60)}
    found = counts(known, (11, frame(2, {})), (21, frame(4, {})))
    assert found == {"b": ByteInterval(0, None)}, "nothing says what it was afterwards"


def test_another_table_begins_at_zero_and_what_its_last_frame_left_is_not_bounded() -> None:
    found = counts(
        (8, frame(1, {"b": 100}, full=True)),
        (11, frame(2, {"b": 200})),
        (12, frame(3, {"b": 30}, table=b"u")),
        (21, frame(4, {}, table=b"u")),
    )
    assert found == {"b": ByteInterval(30, None)}
    over = counts(
        (6, frame(1, {"b": 100}, full=True)),
        (7, frame(2, {"b": 30}, table=b"u")),
        (11, frame(3, {"b": 40}, table=b"u")),
        (21, frame(4, {}, table=b"u")),
    )
    assert over == {"b": ByteInterval(0, 10)}, "what was over before the period is not in it"
    late = counts((11, frame(1, {"b": 9}, full=True)), (21, frame(2, {})), (22, frame(3, {"b": 5}, table=b"u")))
    assert late == {"b": ByteInterval(0, 9)}


def test_no_end_is_no_upper_bound_and_ports_are_told_apart() -> None:
    found = PairCounts("node1-dpu0", "node1", PERIOD, PORTS)
    for sequence, (second, port, value) in enumerate([(11, "pf0hpf", 5), (12, "p0", 7), (13, "p9", 9)], 1):
        found.take(frame(sequence, {"b": value}, full=True, port=port), second * S, second * S + 1)
    assert list(found.pairs()) == [
        NodePair("node1", "node1-dpu0", "p0", Direction.INGRESS, "b", ByteInterval(0, None)),
        NodePair("node1", "node1-dpu0", "pf0hpf", Direction.EGRESS, "b", ByteInterval(0, None)),
    ]


@pytest.mark.parametrize("seed", range(60))
def test_the_truth_is_always_within(seed: int) -> None:
    """Random traffic, random frames of which some never come, tables that change: no interval leaves out the truth."""
    rng = random.Random(seed)
    told = PairCounts("node1-dpu0", "node1", PERIOD, PORTS)
    total, since_table, said = dict.fromkeys("bcd", 0), dict.fromkeys("bcd", 0), dict.fromkeys("bcd", 0)
    at_start, table, now, sequence = dict(total), 0, 5.0, 0
    at_end = dict(total)
    next_frame, next_table = 5.2, rng.uniform(5, 40)
    while now < 25:
        now += 0.05
        for peer in total:
            moved = rng.choice([0, 0, 0, rng.randrange(50)])
            total[peer], since_table[peer] = total[peer] + moved, since_table[peer] + moved
        if now <= 10:
            at_start = dict(total)
        if now <= 20:
            at_end = dict(total)
        if now >= next_table:
            table, next_table = table + 1, now + rng.uniform(2, 20)
            since_table, said = dict.fromkeys("bcd", 0), dict.fromkeys("bcd", 0)
        if now >= next_frame:
            sequence, next_frame = sequence + 1, now + rng.choice([0.5, 1, 3])
            full = rng.random() < 0.15
            changed = {p: v for p, v in since_table.items() if v and (full or v != said[p])}
            said = dict(since_table)
            if rng.random() < 0.85:
                # Read at this instant, made a little before, received a little after.
                made = frame(sequence, changed, full=full, table=bytes([table]))
                told.take(made, round((now - rng.uniform(0, 0.3)) * S), round((now + rng.uniform(0, 0.3)) * S))
    intervals = {pair.peer: pair.bytes for pair in told.pairs()}
    for peer in total:
        moved, interval = at_end[peer] - at_start[peer], intervals.get(peer, ByteInterval(0, None))
        assert interval.lower <= moved
        assert interval.upper is None or moved <= interval.upper
