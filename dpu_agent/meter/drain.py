"""Reads a meter's memory: what moved in which bucket since the last drain. Pure, over memoryviews of 64-bit words.

A lane is what one CPU counts. A slot of its ring says by itself what its bucket held (totals before and after), so

- the sum of what is found is checked against the lane's totals at both ends, and always equal to them: what lies
  between two slots that do not touch is *unplaced*, with its exact bytes and the buckets it can be in;
- a lane whose totals stand still had no frame: nothing of its ring is read;
- a frame written late (its CPU was held up between clock and count) is found by the next drain, which begins at the
  newest bucket it knows of the lane; it is unplaced too, never moved to another bucket.

Buckets are read once they have been over for a while (``settled``), so that no slot is read while it is written.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from dpu_agent.meter.layout import (
    LANE_INDEX,
    LANE_WORDS,
    SLOT_AFTER,
    SLOT_WORDS,
    TOTALS_WORDS,
    Shape,
)
from protos.buckets import Bucket, Totals

Words = memoryview
"""Of format ``Q``."""

SETTLED_NS = 3_000_000
"""A bucket is read when it has been over for this long: a CPU is rarely held up longer between clock and count."""
BEHIND_NS = 100_000_000
"""No frame is written later than this; it bounds where unplaced bytes can be, nothing else."""
GUARD_NS = 100_000_000
"""Slots that are overwritten within this time are not read: the reader may be held up as well."""
_NOTHING = Totals()


@dataclass(frozen=True, slots=True)
class LaneMark:
    """The totals of a lane up to where it was drained, and the newest bucket in them (0: none)."""

    index: int = 0
    totals: Totals = _NOTHING


@dataclass(frozen=True, slots=True)
class Mark:
    """How far a meter was drained: every bucket below ``bucket`` is told of."""

    bucket: int
    lanes: tuple[LaneMark, ...]

    @property
    def totals(self) -> Totals:
        """All lanes together."""
        total = _NOTHING
        for lane in self.lanes:
            total += lane.totals
        return total


@dataclass(frozen=True, slots=True)
class UnplacedPart:
    """What moved in one or several of the buckets ``[first, end)``, nobody can say in which.

    ``first`` can lie before the drain's own buckets: those were told of without it.
    """

    first: int
    end: int
    moved: Totals


@dataclass(frozen=True, slots=True)
class Drained:
    """What moved in the buckets ``[start.bucket, end.bucket)``.

    ``buckets`` are those that are not empty, in order. They and ``unplaced`` add up to the difference of the marks.
    ``lost`` counts the buckets of them of which not all is known, because the drain came too late.
    """

    start: Mark
    end: Mark
    buckets: tuple[Bucket, ...]
    unplaced: tuple[UnplacedPart, ...]
    lost: int

    @property
    def moved(self) -> Totals:
        """All of it."""
        return self.end.totals - self.start.totals


def fresh(shape: Shape, now_ns: int) -> Mark:
    """Return the mark of a meter whose maps were just made, at ``now_ns`` of the kernel's monotonic clock."""
    return Mark(now_ns // shape.width_ns, (LaneMark(),) * shape.cpus)


def drain(shape: Shape, lanes: Words, ring: Words, mark: Mark, now_ns: int) -> Drained:
    """Return what is known of the buckets from ``mark`` to the newest that is settled at ``now_ns``.

    1. The newest settled bucket, and the slots that may be written over just now.
    2. Each lane for itself: nothing if its totals stand still; else its slots.
    3. Buckets of all lanes together, in order; unplaced parts that overlap together.
    """
    end = max(mark.bucket, (now_ns - SETTLED_NS) // shape.width_ns)
    now, guard = now_ns // shape.width_ns, max(1, GUARD_NS // shape.width_ns)
    behind = max(1, BEHIND_NS // shape.width_ns)
    placed: dict[int, list[int]] = {}
    parts: list[UnplacedPart] = []
    after = []
    for cpu, lane in enumerate(mark.lanes):
        at = cpu * LANE_WORDS
        if lanes[at + TOTALS_WORDS - 1] == lane.totals.segments:
            after.append(lane)
            continue
        base = cpu * shape.slots * SLOT_WORDS
        own = ring[base : base + shape.slots * SLOT_WORDS]
        # A lane counts in the order of time, and only itself writes over its slots, a ring's length later.
        # One that paused may hold slots older than that length, so only their own index says what they hold.
        found = _Lane(lane, mark.bucket, mark.bucket - behind)
        for slot in _slots(own, shape.slots, max(lane.index, 1), min(end, lanes[at + LANE_INDEX] + 1)):
            # The next frame may be writing over the slots whose turn it is now.
            if (slot[0] - now) % shape.slots >= guard:
                found.take(slot)
        for index, raw, wire, segments in found.placed:
            if (sums := placed.get(index)) is None:
                placed[index] = [raw, wire, segments]
            else:
                sums[0] += raw
                sums[1] += wire
                sums[2] += segments
        parts += found.parts
        after.append(LaneMark(found.index, found.totals))
    unplaced = tuple(_joined(parts))
    return Drained(
        start=mark,
        end=Mark(end, tuple(after)),
        buckets=tuple(Bucket(index, Totals(*placed[index])) for index in sorted(placed)),
        unplaced=unplaced,
        lost=sum(max(0, part.end - max(part.first, mark.bucket)) for part in unplaced),
    )


class _Lane:
    """Follows one lane's slots from its mark; in plain numbers, since a busy second has a thousand of them a CPU."""

    def __init__(self, mark: LaneMark, from_bucket: int, earliest: int) -> None:
        self.index = mark.index
        self._at = (mark.totals.raw_bytes, mark.totals.wire_bytes, mark.totals.segments)
        self.placed: list[tuple[int, int, int, int]] = []
        self.parts: list[UnplacedPart] = []
        self._from, self._earliest = from_bucket, earliest

    @property
    def totals(self) -> Totals:
        """Up to the last slot taken."""
        return Totals(*self._at)

    def take(self, slot: Sequence[int]) -> None:
        """Follow on to ``slot``: its index, the totals before its bucket and after."""
        index, raw_before, wire_before, before, raw, wire, segments = slot
        raw_at, wire_at, at = self._at
        if segments <= at:
            return
        if before > at:
            # A CPU counts in the order of time: not before the last bucket known, and before this one.
            first = max(self.index, min(self._earliest, index - 1))
            missed = Totals(raw_before - raw_at, wire_before - wire_at, before - at)
            self.parts.append(UnplacedPart(first, index, missed))
            raw_at, wire_at, at = raw_before, wire_before, before
        if index < self._from:
            moved = Totals(raw - raw_at, wire - wire_at, segments - at)
            self.parts.append(UnplacedPart(index, index + 1, moved))
        else:
            self.placed.append((index, raw - raw_at, wire - wire_at, segments - at))
        self.index, self._at = index, (raw, wire, segments)


def _slots(ring: Words, slots: int, first: int, end: int) -> Iterator[Sequence[int]]:
    """Yield index and totals of the slots that hold buckets ``[first, end)``, in order."""
    if end - first > slots:
        for index in sorted(index for index in ring[::SLOT_WORDS].tolist() if first <= index < end):
            row = ring[(place := index % slots * SLOT_WORDS) : place + SLOT_AFTER + TOTALS_WORDS].tolist()
            if row[0] == index:
                yield row
        return
    at = first
    while at < end:
        place = at % slots
        stretch = min(end - at, slots - place)
        words = ring[place * SLOT_WORDS : (place + stretch) * SLOT_WORDS]
        columns = [words[column::SLOT_WORDS].tolist() for column in range(SLOT_AFTER + TOTALS_WORDS)]
        yield from (row for expected, row in enumerate(zip(*columns, strict=True), at) if row[0] == expected)
        at += stretch


def _joined(parts: list[UnplacedPart]) -> Iterator[UnplacedPart]:
    current: UnplacedPart | None = None
    for part in sorted(parts, key=lambda item: item.first):
        if current is not None and part.first < current.end:
            current = UnplacedPart(current.first, max(current.end, part.end), current.moved + part.moved)
            continue
        if current is not None:
            yield current
        current = part
    if current is not None:
        yield current
