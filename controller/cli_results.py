"""A result of the cross-check on paper: as a table, JSON, CSV or HTML, to standard output or into a file."""

from __future__ import annotations

import contextlib
import csv
import enum
import io
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from controller.cli_period import format_utc
from controller.errors import OperatorError

if TYPE_CHECKING:  # a command is parsed, and refused where it is wrong, before what it needs is loaded
    from controller.judgement import Judged
    from controller.timeline import ClockError

TABLE_COLUMNS_IN_A_FILE = 120


class Format(enum.Enum):
    """How the result is printed."""

    TABLE = "table"
    JSON = "json"
    CSV = "csv"
    HTML = "html"


@dataclass(frozen=True, slots=True)
class Writing:
    """What a report says about its own making: when (UTC, nanoseconds), and how well the time was known."""

    generated_ns: int
    clock_error: ClockError | None

    @property
    def most_clock_error_ns(self) -> int | None:
        """Most by which the timeline was off UTC, as far as it was noted."""
        error = self.clock_error
        return None if error is None else max(abs(error.least_ns), abs(error.most_ns))


def print_result(parts: Sequence[Judged], form: Format, output: Path | None, writing: Writing) -> None:
    """Print each part, or all of them as one, to ``output`` or standard output."""
    if form is Format.HTML:
        _print_html(parts, output, writing)
        return
    if form is Format.TABLE and output is None:
        from rich.console import Console  # noqa: PLC0415  loaded by who prints a table

        _tables(parts, Console())
        return
    from controller.judgement import json_text  # noqa: PLC0415  see above

    text = {Format.TABLE: _table_text, Format.JSON: json_text, Format.CSV: csv_text}[form](parts)
    if output is None:
        typer.echo(text, nl=False)
    else:
        write_whole(output, text)


def _table_text(parts: Sequence[Judged]) -> str:
    from rich.console import Console  # noqa: PLC0415

    text = io.StringIO()
    _tables(parts, Console(file=text, width=TABLE_COLUMNS_IN_A_FILE))
    return text.getvalue()


def _tables(parts: Sequence[Judged], console: Any) -> None:
    from controller.report import render_table  # noqa: PLC0415

    for number, part in enumerate(parts, 1):
        if len(parts) > 1:
            console.rule(f"part {number} of {len(parts)}: another site file was in force")
        render_table(part.result, console)


def csv_text(parts: Sequence[Judged]) -> str:
    """Return one row a part, link, direction and observer, under one heading."""
    from controller.crosscheck.json_form import csv_rows  # noqa: PLC0415

    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    for number, part in enumerate(parts):
        period = part.result.period
        for row_number, row in enumerate(csv_rows(part.result)):
            if row_number > 0:
                writer.writerow((period.from_ns, period.to_ns, *row))
            elif number == 0:
                writer.writerow(("from_ns", "to_ns", *row))
    return text.getvalue()


def html_texts(parts: Sequence[Judged], writing: Writing) -> list[str]:
    """Return a report a part."""
    from controller.report import render_html  # noqa: PLC0415

    return [
        render_html(
            part.result,
            part.evidence,
            generated_ns=writing.generated_ns,
            version=version("weighbridge"),
            clock_error_ns=writing.most_clock_error_ns,
        )
        for part in parts
    ]


def _print_html(parts: Sequence[Judged], output: Path | None, writing: Writing) -> None:
    if len(parts) > 1 and output is None:
        changed = ", ".join(format_utc(part.result.period.from_ns) for part in parts[1:])
        raise OperatorError(
            f"the site file changed within the period (at {changed}), which makes {len(parts)} reports. "
            "Give -o FILE, which writes FILE-1 and so on; or a period on one side of the change."
        )
    for number, (part, text) in enumerate(zip(parts, html_texts(parts, writing), strict=True), 1):
        if output is None:
            typer.echo(text, nl=False)
            return
        path = output if len(parts) == 1 else output.with_name(f"{output.stem}-{number}{output.suffix}")
        write_whole(path, text)
        typer.echo(f"{path}: {part.result.verdict.value}", err=True)


def write_whole(path: Path, text: str, *, sync: Callable[[int], None] = os.fsync) -> None:
    """Write ``text`` to ``path`` in one step: who reads it sees the old file or the new one, never half.

    Raises:
        OperatorError: it cannot be written; what was there is there still.
    """
    fresh = path.with_name(f".{path.name}.new-{os.getpid()}")
    try:
        with fresh.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            sync(file.fileno())
        fresh.replace(path)
    except OSError as error:
        with contextlib.suppress(OSError):
            fresh.unlink()
        raise OperatorError(
            f"{path}: cannot be written ({error.strerror}). Check the folder and its rights."
        ) from error
