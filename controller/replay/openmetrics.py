"""OpenMetrics and Prometheus text with timestamps: ``name{label="value"} number time``.

In OpenMetrics (a file that ends with ``# EOF``) times are seconds, in the older text milliseconds; both are told by
their size, as everywhere here. Samples of one series must be in the order of time; series may be mixed.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TextIO

from controller.replay.cells import CellError, bare, time_ns
from controller.replay.column import Column, OutOfOrderError
from controller.replay.places import ReplayError

_LINE = re.compile(
    r"(?P<name>[a-zA-Z_:][a-zA-Z0-9_:]*(?:\{(?:[^\"}]|\"(?:[^\"\\]|\\.)*\")*\})?)\s+(?P<value>\S+)(?:\s+(?P<time>\S+))?"
    r"(?:\s+#.*)?"
)
MOST_SERIES = 2_048


def read_openmetrics(path: Path, file: TextIO) -> tuple[list[Column], list[str]]:
    """Return the series, and notes.

    Raises:
        ReplayError: with the line: a line that is no sample, a sample without a time, a value that is no number, times
            of a series that go back or stand twice, too many series, or nothing at all.
    """
    columns: dict[str, Column] = {}
    for line, raw in enumerate(file, 1):
        text = raw.strip()
        if not text or text.startswith("#"):
            continue
        match = _LINE.fullmatch(text)
        if match is None:
            raise ReplayError(path, line, f"{text[:60]!r} is no sample", 'Expected `name{label="value"} number time`')
        if match["time"] is None:
            raise ReplayError(
                path, line, "the sample has no time", "A single scrape is no record: export samples with timestamps"
            )
        column = columns.get(match["name"])
        if column is None:
            if len(columns) == MOST_SERIES:
                raise ReplayError(path, line, f"more than {MOST_SERIES} series", "Export the byte counters only")
            column = columns[match["name"]] = Column(match["name"])
        try:
            moment, _ = time_ns(match["time"])
            column.add(moment, bare(match["value"]))
        except CellError as error:
            raise ReplayError(path, line, f"{column.name}: {error}", error.remedy) from error
        except OutOfOrderError as error:
            raise ReplayError(path, line, f"{column.name}: {error}", "Sort each series by time") from error
    if not any(column.samples for column in columns.values()):
        raise ReplayError(path, None, "there is no sample", "Export a period with data")
    return list(columns.values()), []
