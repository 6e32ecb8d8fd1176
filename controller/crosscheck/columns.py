"""Readings as columns: what the cross-check works on, a sixth of the memory of as many objects, and no loop over them.

A sequence of readings like any other; a reading is made when it is asked for.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import overload

import numpy as np
import numpy.typing as npt

from controller.crosscheck.exact import Bools, Ints, whole
from protos.reading import Framing, Reading

_FRAMINGS = tuple(Framing)
_NUMBER = {framing: number for number, framing in enumerate(_FRAMINGS)}


@dataclass(frozen=True, slots=True, eq=False)
class ReadingColumns(Sequence[Reading]):
    """Columns of equal length, exact whatever their size; ``packets`` means something only where ``counted``.

    ``slack`` is None if every value is exact.
    """

    earliest: Ints
    latest: Ints
    bytes: Ints
    packets: Ints
    counted: Bools
    epoch: Ints
    framings: npt.NDArray[np.int8]
    slack: Ints | None = None

    def __len__(self) -> int:
        return len(self.earliest)

    @overload
    def __getitem__(self, at: int) -> Reading: ...
    @overload
    def __getitem__(self, at: slice) -> ReadingColumns: ...
    def __getitem__(self, at: int | slice) -> Reading | ReadingColumns:
        """Return one reading, or the readings of a slice."""
        if isinstance(at, slice):
            return self.where(at)
        return Reading(
            int(self.earliest[at]),
            int(self.latest[at]),
            int(self.bytes[at]),
            int(self.packets[at]) if self.counted[at] else None,
            int(self.epoch[at]),
            _FRAMINGS[self.framings[at]],
            0 if self.slack is None else int(self.slack[at]),
        )

    def __iter__(self) -> Iterator[Reading]:
        """Yield each reading."""
        return (self[at] for at in range(len(self)))

    def __eq__(self, other: object) -> bool:
        """Compare as sequences of readings."""
        return (
            isinstance(other, Sequence)
            and len(self) == len(other)
            and all(one == another for one, another in zip(self, other, strict=True))
        )

    __hash__ = None  # type: ignore[assignment]

    def where(self, chosen: slice | Bools | Ints) -> ReadingColumns:
        """Return the readings chosen by a slice, a mask or indices."""
        return ReadingColumns(
            self.earliest[chosen],
            self.latest[chosen],
            self.bytes[chosen],
            self.packets[chosen],
            self.counted[chosen],
            self.epoch[chosen],
            self.framings[chosen],
            None if self.slack is None else self.slack[chosen],
        )

    @property
    def framing(self) -> Framing:
        """The framing of the first; layer 2 without FCS where there is none."""
        return _FRAMINGS[self.framings[0]] if len(self) else Framing.L2_WITHOUT_FCS

    @property
    def epochs(self) -> list[int]:
        """The numbers of the counter epochs that there are, in order."""
        if len(self) == 0 or bool((self.epoch == self.epoch[0]).all()):
            return [int(number) for number in self.epoch[:1]]
        return sorted({int(number) for number in self.epoch})

    def of_epoch(self, number: int) -> ReadingColumns:
        """Return the readings of one epoch."""
        mine = self.epoch == number
        return self if bool(mine.all()) else self.where(mine)


def columns(readings: Sequence[Reading]) -> ReadingColumns:
    """Return readings as columns; columns are returned as they are."""
    if isinstance(readings, ReadingColumns):
        return readings
    slack = [reading.bytes_slack for reading in readings]
    packets = [reading.packets for reading in readings]
    return ReadingColumns(
        whole([reading.earliest_ns for reading in readings]),
        whole([reading.latest_ns for reading in readings]),
        whole([reading.bytes for reading in readings]),
        whole([number or 0 for number in packets]),
        np.array([number is not None for number in packets], dtype=bool),
        whole([reading.epoch for reading in readings]),
        np.array([_NUMBER[reading.framing] for reading in readings], dtype=np.int8),
        whole(slack) if any(slack) else None,
    )
