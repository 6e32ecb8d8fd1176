"""Prometheus' answer to ``/api/v1/query_range``: a matrix. Read piece by piece, so its size does not matter."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, TextIO

from controller.replay.cells import CellError, bare, time_ns
from controller.replay.column import Column, OutOfOrderError
from controller.replay.places import ReplayError

CHUNK = 1 << 18
_SPACE = re.compile(r"[\s,]*")
_PAIR = re.compile(r'\[\s*(-?[0-9][0-9.eE+-]*)\s*,\s*"([^"]*)"\s*\]')
_REMEDY = "Expected the answer of Prometheus to /api/v1/query_range, a matrix"


class _Reader:
    """A window over the file; ``line`` is where it begins."""

    def __init__(self, path: Path, file: TextIO) -> None:
        self.path, self._file = path, file
        self.text, self.at, self._line, self.ended = "", 0, 1, False

    @property
    def line(self) -> int:
        return self._line + self.text.count("\n", 0, self.at)

    def fill(self) -> bool:
        """Drop what was read and read on; False at the end."""
        self._line += self.text.count("\n", 0, self.at)
        more = self._file.read(CHUNK)
        self.text, self.at = self.text[self.at :] + more, 0
        self.ended = not more
        return bool(more)

    def skip(self) -> str:
        """Return the next character that is no space or comma, without taking it; empty at the end."""
        while True:
            match = _SPACE.match(self.text, self.at)
            self.at = match.end() if match else self.at
            if self.at < len(self.text):
                return self.text[self.at]
            if not self.fill():
                return ""

    def expect(self, character: str) -> None:
        found = self.skip()
        if found != character:
            raise self.wrong(
                f"{found!r} stands where {character!r} is expected" if found else "the file ends too early"
            )
        self.at += 1

    def wrong(self, problem: str) -> ReplayError:
        return ReplayError(self.path, self.line, problem, _REMEDY)

    def small(self) -> Any:
        """Return the next value, which is small (a text, a number, a metric's labels)."""
        self.skip()
        while True:
            try:
                found, end = json.JSONDecoder().raw_decode(self.text, self.at)
            except json.JSONDecodeError as error:
                if len(self.text) - self.at > CHUNK or not self.fill():
                    raise self.wrong(f"not JSON ({error.msg})") from error
                continue
            except (ValueError, RecursionError) as error:  # a number of thousands of digits; nested without end
                raise self.wrong(f"not JSON that can be read ({error})") from error
            if end == len(self.text) and not self.ended:
                self.fill()
                continue
            self.at = end
            return found


def read_json(path: Path, file: TextIO) -> tuple[list[Column], list[str]]:
    """Return the series of a matrix, and notes.

    Raises:
        ReplayError: not such an answer, a value that cannot be read, or times that go back or stand twice.
    """
    reader = _Reader(path, file)
    columns: list[Column] = []
    _object(reader, {"data": lambda: _data(reader, columns)})
    if not columns:
        raise ReplayError(path, None, "the answer holds no series", "Ask for a period and a metric that have data")
    return columns, []


def _object(reader: _Reader, parts: dict[str, Any]) -> dict[str, Any]:
    """Read an object; the keys in ``parts`` are read by their function, the others kept."""
    kept: dict[str, Any] = {}
    reader.expect("{")
    while reader.skip() != "}":
        key = reader.small()
        if not isinstance(key, str):
            raise reader.wrong(f"{key!r} is no key")
        if reader.skip() != ":":
            raise reader.wrong(f"no value stands after {key!r}")
        reader.at += 1
        if key in parts:
            parts[key]()
        else:
            kept[key] = reader.small()
            _check(reader, key, kept[key])
    reader.at += 1
    return kept


def _check(reader: _Reader, key: str, found: Any) -> None:
    if key == "status" and found != "success":
        raise reader.wrong(f"Prometheus answered {found!r}")
    if key == "resultType" and found != "matrix":
        raise reader.wrong(f"the result is a {found!r}, not a matrix (was it /query instead of /query_range?)")


def _data(reader: _Reader, columns: list[Column]) -> None:
    _object(reader, {"result": lambda: _result(reader, columns)})


def _result(reader: _Reader, columns: list[Column]) -> None:
    reader.expect("[")
    while reader.skip() == "{":
        column = Column("")
        metric = _object(reader, {"values": lambda column=column: _values(reader, column)}).get("metric", {})
        if not isinstance(metric, dict):
            raise reader.wrong("a series' metric is no object")
        labels = ", ".join(f'{key}="{text}"' for key, text in sorted(metric.items()) if key != "__name__")
        column.name = (
            str(metric.get("__name__", "")) + (f"{{{labels}}}" if labels else "") or f"series {len(columns) + 1}"
        )
        columns.append(column)
    reader.expect("]")


def _values(reader: _Reader, column: Column) -> None:
    reader.expect("[")
    while reader.skip() == "[":
        match = _PAIR.match(reader.text, reader.at)
        if match is None:
            if "]" not in reader.text[reader.at : reader.at + 256] and reader.fill():
                continue
            raise reader.wrong(
                f"{reader.text[reader.at : reader.at + 40]!r} is no pair of a time and a value in quotes"
            )
        reader.at = match.end()
        try:
            moment, _ = time_ns(match[1])
            column.add(moment, bare(match[2]))
        except CellError as error:
            raise ReplayError(reader.path, reader.line, str(error), error.remedy) from error
        except OutOfOrderError as error:
            raise ReplayError(reader.path, reader.line, str(error), "Sort each series by time") from error
    reader.expect("]")
