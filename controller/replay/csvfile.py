"""CSV: a time and one or more columns, with unit text in the cells (Grafana) or in the header, or without (plain)."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

from controller.replay.cells import CellError, time_ns, value
from controller.replay.column import Column, OutOfOrderError
from controller.replay.places import ReplayError

_TIMES = frozenset({"time", "timestamp", "date", "datetime", "ts", "time_s", "time_ms", "time_ns", "unix", "epoch"})


def read_csv(path: Path, file: TextIO) -> tuple[list[Column], list[str]]:
    """Return the columns, and notes for the reader.

    Raises:
        ReplayError: with the line: no header, no time column, a row that is too short or too long, a cell that cannot
            be read, a column whose unit changes its kind, or times that go back or stand twice.
    """
    rows = _rows(path, file)
    _, header = next(rows, (1, []))
    header = [name.strip() for name in header]
    if not header:
        raise ReplayError(path, 1, "the file is empty", "Export it again, with its header")
    if header[0].lower() not in _TIMES:
        raise ReplayError(
            path,
            1,
            f"the first column is {header[0]!r}, not a time",
            "The first line must be a header whose first column is `Time`",
        )
    if len(header) < 2:
        raise ReplayError(path, 1, "there is a time and no other column", "Export at least one series")
    doubled = {name for name in header if header.count(name) > 1}
    if doubled:
        raise ReplayError(path, 1, f"two columns are called {min(doubled)!r}", "Give each series a name of its own")
    columns = [Column(name or f"column {place}") for place, name in enumerate(header[1:], 2)]
    zoned = True
    for line, row in rows:
        if not row or (len(row) == 1 and not row[0].strip()):
            continue
        if len(row) != len(header):
            remedy = "Every row needs as many cells as the header"
            if len(row) > len(header):
                remedy += "; a number with a thousands separator counts as two"
            raise ReplayError(path, line, f"{len(row)} cells, the header has {len(header)}", remedy)
        zoned &= _take(path, line, row, columns)
    if all(column.samples == 0 for column in columns):
        raise ReplayError(path, None, "there is a header and no value", "Export a period with data")
    return columns, [] if zoned else ["times carry no zone and are taken for UTC"]


def _rows(path: Path, file: TextIO) -> Iterator[tuple[int, list[str]]]:
    reader = csv.reader(file, strict=True)
    try:
        for row in reader:
            yield reader.line_num, row
    except csv.Error as error:
        raise ReplayError(path, reader.line_num, f"not CSV ({error})", "Export it again as CSV") from error


def _take(path: Path, line: int, row: list[str], columns: list[Column]) -> bool:
    try:
        moment, zoned = time_ns(row[0])
    except CellError as error:
        raise ReplayError(path, line, str(error), error.remedy) from error
    for column, cell in zip(columns, row[1:], strict=True):
        try:
            number, unit, resolution = value(cell)
        except CellError as error:
            raise ReplayError(path, line, f"column {column.name!r}: {error}", error.remedy) from error
        if number is not None:
            if column.samples and unit is not column.unit:
                have = "no unit" if column.unit is None else column.unit.value
                now = "no unit" if unit is None else unit.value
                raise ReplayError(
                    path,
                    line,
                    f"column {column.name!r} changes from {have} to {now}",
                    "A column holds one kind of value: volumes, or rates; the prefix may change",
                )
            column.unit = unit
            if number > 0:
                # Three printed digits round by at most this; the mean over many values is what matters.
                column.resolution += (resolution - column.resolution) / (column.samples + 1)
        try:
            column.add(moment, number)
        except OutOfOrderError as error:
            raise ReplayError(
                path, line, f"column {column.name!r}: {error}", "Sort the rows by time, once each"
            ) from error
    return zoned
