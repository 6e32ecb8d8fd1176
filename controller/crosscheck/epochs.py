"""Readings of one observer split into counter epochs, as arrays from one origin."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from controller.crosscheck.columns import ReadingColumns
from controller.crosscheck.columns import columns as columns_of
from controller.crosscheck.envelope import Columns
from controller.crosscheck.exact import add, narrow, subtract
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
    counted = near_readings(readings, origin)
    if packets and not bool(counted.counted.all()):
        counted = counted.where(counted.counted)
    result = []
    for number in counted.epochs:
        group = counted.of_epoch(number)
        values = group.packets if packets else group.bytes
        base = int(values.min())
        low = narrow(subtract(values, base))
        columns = Columns(
            narrow(subtract(group.earliest, origin)),
            narrow(subtract(group.latest, origin)),
            low,
            low if packets or group.slack is None else add(low, group.slack),
        )
        start = starts.get(number)
        if start is not None:
            start = EpochStart(*(_from_origin(at, origin) for at in (start.by_ns, start.not_before_ns)))
        result.append(EpochReadings(number, columns, base, number in proven, start))
    return result


def near_readings(readings: Sequence[Reading], origin: int) -> ReadingColumns:
    """Return the readings that are less than 36 years from the origin, which nearly always are all."""
    given = columns_of(readings)
    if len(given) == 0:
        return given
    first, last = int(given.earliest.min()) - origin, int(given.latest.max()) - origin
    if first > -FARTHEST_NS and last < FARTHEST_NS:
        return given
    low, high = origin - FARTHEST_NS, origin + FARTHEST_NS
    near = (given.earliest > low) & (given.latest < high) & (given.latest > low) & (given.earliest < high)
    return given.where(near.astype(bool))


def _from_origin(at: int | None, origin: int) -> int | None:
    """Return a start's bound from the origin; one that is decades away bounds nothing."""
    return None if at is None or abs(at - origin) >= FARTHEST_NS else at - origin
