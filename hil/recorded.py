"""Recorded counters as a host's claims: what a Grafana export of Prometheus series says, as readings of known width.

An export prints three digits, so each number is a range. A column of volumes (``48.3 GB``) is a counter. A column of
rates (``169 MB/s``) is ``rate(...[5m])`` over scrapes ``step`` apart: the counter's rise between the first and the last
scrape of the window, divided by the ``300 s - step`` between them (Prometheus ``extrapolatedRate``, where the series
fills its window). So ``rate * (300 s - step)`` is that rise: windows end to end undo the average exactly, but for the
digits; what happened inside a window stays unknown.

    python -m hil.recorded FILE.csv --link node-a/eth0 --column 1 --direction egress > readings.jsonl
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from decimal import ROUND_CEILING, Decimal
from itertools import pairwise
from pathlib import Path
from typing import Annotated

import typer

from controller.errors import OperatorError
from protos.reading import Direction, Observer, Reading
from protos.units import NS_PER_S

RATE_WINDOW_S = 300
_VALUE = re.compile(r"(?P<number>\d+(?:\.(?P<decimals>\d+))?) (?P<prefix>[kMGT]?)B(?P<rate>/s)?", re.ASCII)
_FACTORS = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}


@dataclass(frozen=True, slots=True)
class Range:
    """A printed number: bytes, or bytes per second, between two whole numbers."""

    least: int
    most: int


@dataclass(frozen=True, slots=True)
class Column:
    """One column of an export. ``rates`` says which of the two kinds; ``step_s`` is the time between rows."""

    name: str
    times_ns: tuple[int, ...]
    values: tuple[Range, ...]
    rates: bool
    step_s: int


def printed(text: str) -> tuple[Range, bool]:
    """Return what a printed number can have stood for, half a unit of its last digit either way; and if it is a rate.

    Raises:
        ValueError: it is no number of bytes.
    """
    match = _VALUE.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is not a number of B, kB, MB, GB or TB")
    factor = _FACTORS[match["prefix"]]
    number = Decimal(match["number"]) * factor
    half = Decimal(factor) / 2 / 10 ** len(match["decimals"] or "")
    if factor == 1 and match["decimals"] is None:
        half = Decimal(1) / 2
    least, most = max(Decimal(0), number - half), number + half
    return Range(int(least), int(most.to_integral_value(ROUND_CEILING))), match["rate"] is not None


def read_column(text: str, name: str, column: int) -> Column:
    """Return a column of an export; times are taken to be UTC, since they carry no zone.

    Raises:
        OperatorError: there is no such column, or a row cannot be read, or rows are not evenly spaced.
    """
    rows = list(csv.reader(io.StringIO(text)))
    if len(rows) < 3 or not 0 < column < len(rows[0]):
        raise OperatorError(
            f"{name}: no column {column} with at least two rows in it. Columns count from 1, after the time."
        )
    times, values, kinds = [], [], set()
    for number, row in enumerate(rows[1:], 2):
        try:
            times.append(int(datetime.fromisoformat(row[0]).replace(tzinfo=timezone.utc).timestamp()) * NS_PER_S)
            value, rate = printed(row[column])
        except (ValueError, IndexError) as error:
            raise OperatorError(f"{name}:{number}: {error}. Export the series again.") from error
        values.append(value)
        kinds.add(rate)
    steps = {later - earlier for earlier, later in pairwise(times)}
    if len(steps) != 1 or len(kinds) != 1:
        raise OperatorError(
            f"{name}: rows of one step and of one kind (all B, or all B/s) are needed. Export it again."
        )
    return Column(rows[0][column], tuple(times), tuple(values), kinds.pop(), steps.pop() // NS_PER_S)


def readings(column: Column, *, first: int = 0) -> tuple[Reading, ...]:
    """Return a column as cumulative readings; of rates every ``300 s - step``, from row ``first`` on, from zero.

    A row shows the newest scrape before it: its value was true within the ``step`` before.
    """
    step = column.step_s * NS_PER_S
    if not column.rates:
        return tuple(
            Reading(at - step, at, value.least, bytes_slack=value.most - value.least)
            for at, value in zip(column.times_ns, column.values, strict=True)
        )
    return tuple(_chained(column, first))


def _chained(column: Column, first: int) -> Iterator[Reading]:
    step, span_s = column.step_s * NS_PER_S, RATE_WINDOW_S - column.step_s
    least = most = 0
    start = column.times_ns[first] - span_s * NS_PER_S
    yield Reading(start - step, start, 0)
    for index in range(first, len(column.values), span_s // column.step_s):
        at, value = column.times_ns[index], column.values[index]
        least, most = least + value.least * span_s, most + value.most * span_s
        yield Reading(at - step, at, least, bytes_slack=most - least)


def lines(found: Sequence[Reading], link: str, direction: Direction) -> Iterator[str]:
    """Yield the readings as lines of a readings file, as the host's."""
    for reading in found:
        body = {
            "observer": Observer.HOST.value,
            "link": link,
            "direction": direction.value,
            "earliest_ns": str(reading.earliest_ns),
            "latest_ns": str(reading.latest_ns),
            "bytes": str(reading.bytes),
            "bytes_slack": str(reading.bytes_slack),
            "framing": reading.framing.value,
        }
        yield json.dumps(body)


def main(
    file: Annotated[Path, typer.Argument(metavar="FILE.csv", help="A Grafana export, one time and some columns.")],
    link: Annotated[str, typer.Option("--link", help="The link it was measured on, for example node-a/eth0.")],
    direction: Annotated[Direction, typer.Option("--direction", help="As the node sees it.")],
    column: Annotated[int, typer.Option("--column", help="Which column, from 1, after the time.")] = 1,
) -> None:
    """Print a recorded column as readings that `weighbridge crosscheck --readings` takes."""
    try:
        text = file.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise SystemExit(f"{file}: cannot be read ({error})") from error
    try:
        for line in lines(readings(read_column(text, str(file), column)), link, direction):
            typer.echo(line)
    except OperatorError as error:
        raise SystemExit(str(error)) from error


if __name__ == "__main__":
    typer.run(main)
