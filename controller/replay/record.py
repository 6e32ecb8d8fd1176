"""A recorded file as flows: the format told from its first bytes, receive and transmit columns of one place paired."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from controller.replay.column import Column
from controller.replay.csvfile import read_csv
from controller.replay.openmetrics import read_openmetrics
from controller.replay.places import ReplayError
from controller.replay.promjson import read_json
from controller.rules.series import Flow, Series
from controller.rules.wording import duration

_SIDES = (
    (re.compile(r"(?<![a-z])(rx|receive[d]?|ingress|inbound|in|inward|recv)(?![a-z])", re.IGNORECASE), "inward"),
    (re.compile(r"(?<![a-z])(tx|transmit(?:ted)?|egress|outbound|out|sent|send)(?![a-z])", re.IGNORECASE), "outward"),
)
_SAMPLE = re.compile(r'[a-zA-Z_:][a-zA-Z0-9_:]*(\{[^,\n]*|\{.*")?\}?\s+\S+(\s+[0-9.eE+-]+)?\s*(#.*)?')


_Read = Callable[[Path, TextIO], tuple[list[Column], list[str]]]


@dataclass(frozen=True, slots=True)
class Record:
    """One file's flows and what a reader should know about them."""

    path: Path
    flows: tuple[Flow, ...]
    notes: tuple[str, ...]


def read_record(path: Path, *, window_ns: int | None = None, counter: bool | None = None) -> Record:
    """Read a recorded file of any known format; memory does not grow with its length.

    Args:
        path: the file.
        window_ns: trailing average of its rates, if it is known; 0 for none.
        counter: True for cumulative counters, False for rates, None to tell from units, names and values.

    Raises:
        ReplayError: it cannot be read without doubt.
    """
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            beginning = file.read(4096)
            file.seek(0)
            if not beginning.strip():
                raise ReplayError(path, None, "the file is empty", "Export it again")
            read = _format(beginning)
            columns, notes = read(path, file)
    except OSError as error:
        raise ReplayError(path, None, f"cannot be read ({error.strerror})", "Name a file") from error
    except UnicodeDecodeError as error:
        raise ReplayError(
            path, None, "is not UTF-8 text", "Export it again; compressed files must be unpacked"
        ) from error
    known = [column for column in columns if column.samples]
    notes += [f"{column.name}: no value is known" for column in columns if not column.samples]
    series = [column.series(window_ns, counter=counter) for column in known]
    notes += [note for column, one in zip(known, series, strict=True) for note in _told(column, one)]
    return Record(path, tuple(_paired(series)), tuple(dict.fromkeys(notes)))


def _format(beginning: str) -> _Read:
    first = beginning.lstrip()
    if first[0] == "{":
        return read_json
    line = next(line for line in first.splitlines() if line.strip())
    if line.startswith("#") or _SAMPLE.fullmatch(line.strip()):
        return read_openmetrics
    return read_csv


def _told(column: Column, series: Series) -> list[str]:
    told = []
    if series.window_ns:
        told.append(
            f"{column.name}: a rate averaged over {duration(series.window_ns)}: volumes, means and starts of bursts "
            "remain valid; peaks are understated, bursts look longer by as much, and pauses shorter than that vanish"
        )
    if column.repeated:
        told.append(f"{column.name}: {column.repeated} rows that repeat the one before were left out")
    if column.decreases and column.cumulative:
        told.append(f"{column.name}: the counter began again {column.decreases} times; what passed then is not known")
    return told


def _side(name: str) -> tuple[str, str] | None:
    """Return the direction a name says, and the name without it."""
    spaced = name.replace("_", " ")
    for pattern, side in _SIDES:
        if pattern.search(spaced):
            return side, " ".join(pattern.sub("", spaced).split())
    return None


def _paired(series: Sequence[Series]) -> list[Flow]:
    """Return flows: two series whose names differ by the direction are one, all others stand alone.

    A series whose name says no direction is taken as inward: what it received.
    """
    flows: list[Flow] = []
    waiting: dict[tuple[str, str], Series] = {}
    used: set[str] = set()
    for one in series:
        told = _side(one.name)
        if told is not None:
            waiting.setdefault((told[1], told[0]), one)
    for one in series:
        if one.name in used:
            continue
        told = _side(one.name)
        other = None if told is None else waiting.get((told[1], "inward" if told[0] == "outward" else "outward"))
        if told is None or other is None or other.name in used:
            flows.append(Flow(one.name, one, None) if told and told[0] == "outward" else Flow(one.name, None, one))
            used.add(one.name)
            continue
        one_, other_ = _one_grid(one, other)
        used |= {one.name, other.name}
        outward, inward = (one_, other_) if told[0] == "outward" else (other_, one_)
        flows.append(Flow(told[1] or one.name, outward, inward))
    return flows


def _one_grid(one: Series, other: Series) -> tuple[Series, Series]:
    """Return both on the coarser grid, over the time they share; as they are if their steps do not fit."""
    coarse = max(one.step_ns, other.step_ns)
    one, other = (each.coarser(max(1, round(coarse / each.step_ns))) for each in (one, other))
    start, end = max(one.start_ns, other.start_ns), min(one.end_ns, other.end_ns)
    one, other = one.between(start, end), other.between(start, end)
    length = min(len(one.rate), len(other.rate))
    return _cut(one, length), _cut(other, length)


def _cut(series: Series, length: int) -> Series:
    return Series(
        series.name, series.start_ns, series.step_ns, series.rate[:length], series.window_ns, series.resolution
    )
