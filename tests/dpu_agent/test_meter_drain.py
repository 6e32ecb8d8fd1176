"""The drain against a model of the program: whatever the traffic and however late the drain, the sums are exact."""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from dpu_agent.meter.drain import GUARD_NS, SETTLED_NS, Drained, Mark, drain, fresh
from dpu_agent.meter.layout import LANE_INDEX, LANE_WORDS, SLOT_AFTER, SLOT_BEFORE, SLOT_WORDS, Shape, possible_cpus
from protos.buckets import NOTHING, Totals, summed

MS = 1_000_000
SHAPE = Shape(width_ns=MS, cpus=2, peers=1, at_host_port=True)
START_NS = 50_000 * MS


@dataclass
class Kernel:
    """What the program does with a frame, word for word, and what was sent, beside it."""

    shape: Shape = SHAPE
    lanes: array[int] = field(init=False)
    ring: array[int] = field(init=False)
    sent: dict[int, Totals] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.lanes = array("Q", bytes(8 * LANE_WORDS * self.shape.cpus))
        self.ring = array("Q", bytes(8 * SLOT_WORDS * self.shape.cpus * self.shape.slots))

    def frame(self, cpu: int, at_ns: int, frame: Totals) -> None:
        index, lane = at_ns // self.shape.width_ns, cpu * LANE_WORDS
        slot = (cpu * self.shape.slots + index % self.shape.slots) * SLOT_WORDS
        if self.ring[slot] != index:
            self.ring[slot + SLOT_BEFORE : slot + SLOT_BEFORE + 3] = self.lanes[lane : lane + 3]
            self.ring[slot] = index
        self.lanes[lane + LANE_INDEX] = index
        for word, value in enumerate((frame.raw_bytes, frame.wire_bytes, frame.segments)):
            self.lanes[lane + word] += value
        self.ring[slot + SLOT_AFTER : slot + SLOT_AFTER + 3] = self.lanes[lane : lane + 3]
        self.sent[index] = self.sent.get(index, NOTHING) + frame

    def drain(self, mark: Mark, now_ns: int) -> Drained:
        return drain(self.shape, memoryview(self.lanes), memoryview(self.ring), mark, now_ns)


def check(found: Drained) -> None:
    total = summed(found.buckets)
    for part in found.unplaced:
        assert part.first < part.end
        total += part.moved
    assert total == found.moved
    indexes = [bucket.index for bucket in found.buckets]
    assert indexes == sorted(set(indexes))
    assert all(found.start.bucket <= index < found.end.bucket for index in indexes)


steps = st.lists(
    st.tuples(
        st.integers(0, 1),
        st.integers(0, 3 * MS) | st.integers(0, 400 * MS) | st.integers(0, 12_000 * MS),
        st.integers(60, 9_000),
        st.integers(1, 45),
        st.booleans(),
    ),
    max_size=25,
)


@given(steps)
@settings(max_examples=60, deadline=None, phases=(Phase.explicit, Phase.reuse, Phase.generate))
def test_sums_are_exact_and_nothing_is_in_a_wrong_bucket(traffic: list[tuple[int, int, int, int, bool]]) -> None:
    kernel, now, mark = Kernel(), START_NS, fresh(SHAPE, START_NS)
    placed: dict[int, Totals] = {}
    said, lost, latest = NOTHING, 0, 0
    for cpu, wait_ns, size, segments, drains in [*traffic, (0, 10 * MS, 60, 1, True)]:
        now += wait_ns
        kernel.frame(cpu, now, Totals(size, size + (segments - 1) * 54, segments))
        if drains:
            now += SETTLED_NS + 2 * MS
            latest = max(latest, now // MS - mark.bucket)
            found = kernel.drain(mark, now)
            check(found)
            placed.update({bucket.index: bucket.moved for bucket in found.buckets})
            said, lost, mark = said + found.moved, lost + found.lost, found.end
    # What a drain leaves alone, because it may be written over just then, the next one finds.
    last = kernel.drain(mark, now + 2 * GUARD_NS)
    check(last)
    placed.update({bucket.index: bucket.moved for bucket in last.buckets})
    assert said + last.moved == summed_sent(kernel)
    for index, moved in placed.items():
        sent = kernel.sent[index]
        assert moved.wire_bytes <= sent.wire_bytes
        assert moved.segments <= sent.segments
    if latest < SHAPE.slots - GUARD_NS // MS:
        assert placed == kernel.sent, "in time, every bucket is at its place"
        assert lost == 0


def summed_sent(kernel: Kernel) -> Totals:
    total = NOTHING
    for moved in kernel.sent.values():
        total += moved
    return total


def test_an_idle_meter_is_not_read() -> None:
    kernel, mark = Kernel(), fresh(SHAPE, START_NS)
    kernel.ring = array("Q")  # a slot that is looked at raises
    found = kernel.drain(mark, START_NS + 1_000 * MS)
    assert (found.buckets, found.lost, found.end.bucket - found.start.bucket) == ((), 0, 1_000 - SETTLED_NS // MS)


def test_a_bucket_is_not_read_before_it_is_over_for_a_while() -> None:
    kernel, mark = Kernel(), fresh(SHAPE, START_NS)
    kernel.frame(0, START_NS + 10 * MS, Totals(60, 60, 1))
    assert kernel.drain(mark, START_NS + 13 * MS).buckets == ()
    assert kernel.drain(mark, START_NS + 14 * MS).moved == Totals(60, 60, 1)


def test_a_late_drain_counts_lost_buckets_and_keeps_their_bytes() -> None:
    kernel, mark = Kernel(), fresh(SHAPE, START_NS)
    for ms in range(20_000):
        kernel.frame(0, START_NS + ms * MS, Totals(100, 100, 1))
    now = START_NS + 20_000 * MS
    found = kernel.drain(mark, now)
    check(found)
    assert found.lost == 20_000 - SHAPE.slots + GUARD_NS // MS
    assert found.moved == Totals(100 * 19_997, 100 * 19_997, 19_997), "all but the buckets that are not settled"
    assert len(found.buckets) == 19_997 - found.lost
    (part,) = found.unplaced
    assert part.moved.segments == found.lost
    assert (part.first, part.end) == (START_NS // MS - 100, START_NS // MS + found.lost)


def test_a_lane_that_stood_still_loses_nothing_however_late_the_drain() -> None:
    kernel, mark = Kernel(), fresh(SHAPE, START_NS)
    kernel.frame(1, START_NS, Totals(60, 60, 1))
    mark = kernel.drain(mark, START_NS + 100 * MS).end
    found = kernel.drain(mark, START_NS + 100_000 * MS)
    assert (found.lost, found.moved, found.unplaced) == (0, NOTHING, ())


def test_a_sparse_lane_keeps_its_places_across_a_late_drain() -> None:
    """Its one frame lies in the part of the ring that is still there, and says that nothing came before it."""
    kernel, mark = Kernel(), fresh(SHAPE, START_NS)
    kernel.frame(0, START_NS + 19_000 * MS, Totals(60, 60, 1))
    found = kernel.drain(mark, START_NS + 20_000 * MS)
    assert (found.lost, found.unplaced) == (0, ())
    assert [bucket.index for bucket in found.buckets] == [START_NS // MS + 19_000]


def test_a_lane_that_paused_keeps_what_is_older_than_the_ring_is_long() -> None:
    """Only the slots its later frames wrote over are gone, as when the traffic moves to another CPU and back."""
    kernel, mark = Kernel(), fresh(SHAPE, START_NS)
    for ms in (0, 1, 2, 500, SHAPE.slots + 1, SHAPE.slots + 700):
        kernel.frame(0, START_NS + ms * MS, Totals(60, 60, 1))
    found = kernel.drain(mark, START_NS + (SHAPE.slots + 1_000) * MS)
    check(found)
    places = [bucket.index - START_NS // MS for bucket in found.buckets]
    assert places == [0, 2, 500, SHAPE.slots + 1, SHAPE.slots + 700], "the bucket at 1 was written over"
    assert [(part.first - START_NS // MS, part.end - START_NS // MS) for part in found.unplaced] == [(0, 2)]
    assert found.lost == 2


def test_a_frame_that_was_counted_late_is_unplaced_not_moved() -> None:
    kernel, mark = Kernel(), fresh(SHAPE, START_NS)
    kernel.frame(0, START_NS + 5 * MS, Totals(60, 60, 1))
    mark = kernel.drain(mark, START_NS + 50 * MS).end
    kernel.frame(0, START_NS + 20 * MS, Totals(99, 99, 1))  # its clock was read 30 ms ago
    kernel.frame(0, START_NS + 60 * MS, Totals(70, 70, 1))
    found = kernel.drain(mark, START_NS + 100 * MS)
    check(found)
    assert [(bucket.index, bucket.moved.raw_bytes) for bucket in found.buckets] == [(START_NS // MS + 60, 70)]
    (part,) = found.unplaced
    assert (part.first, part.end, part.moved.raw_bytes) == (START_NS // MS + 20, START_NS // MS + 21, 99)


def test_a_frame_more_in_a_bucket_that_was_told_of_is_unplaced() -> None:
    kernel, mark = Kernel(), fresh(SHAPE, START_NS)
    kernel.frame(0, START_NS + 5 * MS, Totals(60, 60, 1))
    mark = kernel.drain(mark, START_NS + 50 * MS).end
    kernel.frame(0, START_NS + 5 * MS, Totals(99, 99, 1))
    found = kernel.drain(mark, START_NS + 100 * MS)
    check(found)
    assert found.buckets == ()
    assert [(part.first, part.moved.raw_bytes) for part in found.unplaced] == [(START_NS // MS + 5, 99)]


@pytest.mark.parametrize(
    ("width_us", "slots", "deep_s"), [(100, 131_072, 13.1072), (1_000, 8_192, 8.192), (10_000, 1_024, 10.24)]
)
def test_the_ring_is_eight_seconds_deep_or_more(width_us: int, slots: int, deep_s: float) -> None:
    shape = Shape(width_us * 1_000, 2, 1, at_host_port=True)
    assert shape.slots == slots
    assert shape.slots * shape.width_ns / 1e9 == deep_s


def test_cpu_numbers_with_holes_have_their_own_lanes() -> None:
    assert possible_cpus("0-3\n") == 4
    assert possible_cpus("0") == 1
    assert possible_cpus("0-1,4-5,9") == 10
