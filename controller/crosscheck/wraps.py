"""Counters that begin again at 2^32: every multiple that the line allows, none guessed (bounds.md 12).

Between two readings such a counter rose by ``r + k*2^32`` for some whole ``k``. Where the line rate leaves one ``k``,
the rise is known and the counter goes on as if it were wider. Where it leaves several, or there is no line rate, the
epoch is cut: what follows is known to have risen by at least the smallest, and by no more than the line carries.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from controller.crosscheck.envelope import Columns
from controller.crosscheck.epochs import EpochReadings
from controller.crosscheck.exact import Line, add, subtract, whole


def unwrapped(epoch: EpochReadings, bits: int, line: Line | None) -> list[EpochReadings]:
    """Return the readings of one epoch as one or more epochs of a counter that does not wrap.

    1. In order of time. The rise from one reading to the next lies in ``[-g(l_i - e_j), g(l_j - e_i)]``: windows that
       overlap leave open which of the two came first. Without a line rate such a reading says nothing and is left out.
    2. One rise that fits: the reading goes on in the same scale.
    3. Several: a new epoch begins, in the scale of the smallest rise.
    4. None: the readings contradict each other, which the smallest rise that is not negative leaves to be found.
    """
    columns = epoch.columns
    order = np.lexsort((columns.earliest, columns.latest))
    modulus = 1 << bits
    parts: list[list[tuple[int, int]]] = [[]]
    before: _Placed | None = None
    for index in (int(one) for one in order):
        earliest, latest, read = (int(column[index]) for column in (columns.earliest, columns.latest, columns.low))
        value = read
        if before is not None:
            if line is None and earliest < before.latest:
                continue
            rise, only = _rise((read - before.read) % modulus, modulus, before, (earliest, latest), line)
            value = before.value + rise
            if not only:
                parts.append([])
        parts[-1].append((index, value))
        before = _Placed(earliest, latest, read, value)
    return [_part(epoch, number, part) for number, part in enumerate(parts)]


@dataclass(frozen=True, slots=True)
class _Placed:
    """The reading before, and its value in the scale that does not wrap."""

    earliest: int
    latest: int
    read: int
    value: int


def _rise(rest: int, modulus: int, before: _Placed, window: tuple[int, int], line: Line | None) -> tuple[int, bool]:
    """Return the smallest rise that fits, and whether it is the only one."""
    if line is None:
        return rest, False
    overlap, length = before.latest - window[0], window[1] - before.earliest
    least, most = -line.most_in(overlap), line.most_in(length)
    smallest = rest - (rest - least) // modulus * modulus
    if smallest > most:
        return rest, True
    return smallest, smallest + modulus > most


def _part(epoch: EpochReadings, number: int, part: list[tuple[int, int]]) -> EpochReadings:
    members, values = [index for index, _ in part], [value for _, value in part]
    base = min(values)
    low = whole([value - base for value in values])
    spread = subtract(epoch.columns.high, epoch.columns.low)[members]
    columns = Columns(epoch.columns.earliest[members], epoch.columns.latest[members], low, add(low, spread))
    start = epoch.start if number == 0 else None
    return replace(epoch, columns=columns, base=epoch.base + base, start=start, continues=number > 0)
