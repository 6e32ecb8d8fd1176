"""Rows for people: a table where the screen is wide enough, else one row after the other; nothing is cut."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence

import typer

_INDENT = " " * 4


def print_rows(headings: Sequence[str], rows: Iterable[Sequence[str]], *, names: int = 1) -> None:
    """Print ``rows`` under ``headings``; the first ``names`` cells of a row say whose it is.

    What does not fit the screen as a table is printed as ``NAME`` and ``heading: value; ...`` below it. Cells come from
    devices: they are text, never markup, and nothing in them moves the cursor.
    """
    from rich import box  # noqa: PLC0415  loaded by who prints a table
    from rich.console import Console  # noqa: PLC0415
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    cells = [["".join(each if each.isprintable() else "?" for each in cell) for cell in row] for row in rows]
    console = Console()
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, padding=(0, 1, 0, 0))
    for heading in headings:
        table.add_column(heading, no_wrap=True)
    for row in cells:
        table.add_row(*map(Text, row))
    if console.measure(table, options=console.options.update(width=10_000)).maximum <= console.width:
        console.print(table)
        return
    for row in cells:
        told = [f"{heading}: {cell}" for heading, cell in zip(headings, row, strict=True) if cell]
        typer.echo(" ".join(row[:names]))
        typer.echo(_wrapped("; ".join(told[names:]), console.width))


def _wrapped(text: str, width: int) -> str:
    return textwrap.fill(
        text, width, initial_indent=_INDENT, subsequent_indent=_INDENT, break_long_words=False, break_on_hyphens=False
    )
