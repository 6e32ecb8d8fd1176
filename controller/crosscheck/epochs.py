"""Readings of one observer split into counter epochs, as arrays from one origin."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from controller.crosscheck.envelope import Columns
from controller.crosscheck.exact import add, whole
from controller.crosscheck.model import EpochStart
from protos.reading import Reading

FARTHEST_NS = 1 << 60
"""36 years from the origin. A reading further away is not of this site: it is left out, and said so."""


@dataclass(frozen=True, slots=True)
class EpochReadings:
    """The readings of one epoch.

    Attributes:
        number: of the epoch.
        columns: times from the origin, values from ``base``.
        base: the value that is 0 in ``columns``: a counter near 2^64 then still fits into int64.
        proven: its continuity is evidenced.
        start: its proven start, times from the origin.
        continues: its values go on from those of the epoch before: nothing is counted twice or taken back.
    """

    number: int
    columns: Columns
    base: int
    proven: bool
    start: EpochStart | None = None
    continues: bool = False


def epochs_of(
    readings: Sequence[Reading],
    *,
    origin: int,
    proven: frozenset[int],
    starts: Mapping[int, EpochStart],
    packets: bool = False,
) -> list[EpochReadings]:
    """Split readings into epochs, in the order of their numbers.

    Args:
        readings: of one observer and direction, in any order; duplicates do no harm.
        origin: the time that becomes 0, nanoseconds.
        proven: epochs whose continuity is evidenced.
        starts: epochs proven to begin at zero.
        packets: take the packet counter; readings without one are left out.
    """
    counted = [reading for reading in readings if reading.packets is not None] if packets else readings
    groups = by_epoch(near_readings(counted, origin))
    result = []
    for number in sorted(groups):
        group = groups[number]
        values = [(reading.packets or 0) if packets else reading.bytes for reading in group]
        base = min(values)
        low = whole([value - base for value in values])
        slack = [] if packets else [reading.bytes_slack for reading in group]
        columns = Columns(
            whole([reading.earliest_ns - origin for reading in group]),
            whole([reading.latest_ns - origin for reading in group]),
            low,
            add(low, whole(slack)) if any(slack) else low,
        )
        start = starts.get(number)
        if start is not None:
            start = EpochStart(*(_from_origin(at, origin) for at in (start.by_ns, start.not_before_ns)))
        result.append(EpochReadings(number, columns, base, number in proven, start))
    return result


def by_epoch(readings: Sequence[Reading]) -> dict[int, Sequence[Reading]]:
    """Return the readings of each epoch, in the order they have; nearly always there is one."""
    numbers = {reading.epoch for reading in readings}
    if len(numbers) == 1:
        return {numbers.pop(): readings}
    groups: dict[int, list[Reading]] = {number: [] for number in numbers}
    for reading in readings:
        groups[reading.epoch].append(reading)
    return dict(groups)


def near_readings(readings: Sequence[Reading], origin: int) -> Sequence[Reading]:
    """Return the readings that are less than 36 years from the origin, which nearly always are all."""
    if not readings:
        return readings
    first = min([reading.earliest_ns for reading in readings])
    last = max([reading.latest_ns for reading in readings])
    if first - origin > -FARTHEST_NS and last - origin < FARTHEST_NS:
        return readings
    return [
        reading
        for reading in readings
        if max(abs(reading.earliest_ns - origin), abs(reading.latest_ns - origin)) < FARTHEST_NS
    ]


def _from_origin(at: int | None, origin: int) -> int | None:
    """Return a start's bound from the origin; one that is decades away bounds nothing."""
    return None if at is None or abs(at - origin) >= FARTHEST_NS else at - origin
