"""Counters of several ports as one: their sum, from readings that were taken at nearly the same times.

A sum of counters is read between the first of its parts' earliest and the last of their latest (bounds.md 1). Ports of
one switch are read in one poll, so little is lost; and a law over a hundred ports is then no more work than over one.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from controller.crosscheck.account import Account
from controller.crosscheck.envelope import Columns
from controller.crosscheck.epochs import EpochReadings, near_readings
from controller.crosscheck.exact import Ints, add, narrow, subtract
from protos.reading import Reading


def together(parts: Sequence[tuple[Sequence[Reading], frozenset[int]]], origin: int) -> Account:
    """Return the sum of counters, each with its epochs that are proven, as one account from ``origin``.

    1. Each reading of the counter that has fewest, with the nearest one of each other.
    2. An epoch of the sum lasts while none of its parts begins another; it is proven if all of them are.

    Args:
        parts: readings of each counter; one without readings leaves nothing to add.
        origin: the time that becomes 0.
    """
    columns = [_columns(readings, origin) for readings, _ in parts]
    if not columns or min(len(column[0]) for column in columns) == 0:
        return Account((), None)
    base = min(columns, key=lambda column: len(column[1]))
    rows = [_nearest(column[1], base[1]) for column in columns]
    earliest = np.minimum.reduce([column[0][row] for column, row in zip(columns, rows, strict=True)])
    latest = np.maximum.reduce([column[1][row] for column, row in zip(columns, rows, strict=True)])
    low, high = (_sum([column[at][row] for column, row in zip(columns, rows, strict=True)]) for at in (2, 3))
    epochs = np.stack([column[4][row] for column, row in zip(columns, rows, strict=True)])
    begins = [0, *(int(at) + 1 for at in np.flatnonzero((np.diff(epochs, axis=1) != 0).any(axis=0))), epochs.shape[1]]
    found = []
    for number, (first, end) in enumerate(pairwise(begins)):
        proven = all(int(own) in of_part for own, (_, of_part) in zip(epochs[:, first], parts, strict=True))
        least = int(low[first:end].min())
        found.append(
            EpochReadings(
                number,
                Columns(
                    earliest[first:end], latest[first:end], add(low[first:end], -least), add(high[first:end], -least)
                ),
                least,
                proven,
            )
        )
    return Account(found, None)


def _columns(readings: Sequence[Reading], origin: int) -> tuple[Ints, Ints, Ints, Ints, Ints]:
    near = near_readings(readings, origin)
    ordered = near.where(np.argsort(near.latest, kind="stable"))
    return (
        narrow(subtract(ordered.earliest, origin)),
        narrow(subtract(ordered.latest, origin)),
        ordered.bytes,
        ordered.bytes if ordered.slack is None else add(ordered.bytes, ordered.slack),
        ordered.epoch,
    )


def _nearest(times: Ints, wanted: Ints) -> Ints:
    """Return which of ``times`` is nearest to each of ``wanted``; both are in order, and so is what is returned."""
    after = np.minimum(np.searchsorted(times, wanted), len(times) - 1)
    before = np.maximum(after - 1, 0)
    nearest: Ints = np.where(np.abs(wanted - times[before]) <= np.abs(times[after] - wanted), before, after)
    return nearest


def _sum(parts: Sequence[Ints]) -> Ints:
    total = parts[0]
    for part in parts[1:]:
        total = add(total, part)
    return total
