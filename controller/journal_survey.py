"""Looks over a whole journal: every leaf, readable or not; what SQLite finds; how much there is of what."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from controller.errors import EvidenceError
from controller.journal import Journal
from controller.journal_entry import COLUMNS, Entry, Pruned, Row, read_row

_PAGE_ENTRIES = 256


@dataclass(frozen=True, slots=True)
class Summary:
    """How much there is of one kind and source. ``last_sequence`` is None where entries have no number."""

    kind: str
    source: str
    entries: int
    body_bytes: int
    first_ns: int
    last_ns: int
    last_sequence: int | None


class Seen(NamedTuple):
    """A leaf number with its entry, what was left of it, or what is wrong with it; ``data`` is empty then."""

    leaf: int
    found: Entry | Pruned | EvidenceError
    data: bytes


def survey(journal: Journal) -> Iterator[Seen]:
    """Yield every leaf number there is and what is there.

    For checking the whole journal: goes on after damage, where :meth:`Journal.entries` stops.

    Raises:
        EvidenceError: the file is damaged so that not even its first and last leaf can be told.
    """
    first, last = journal.rows("SELECT min(leaf), max(leaf) FROM entry")[0]
    if last is None:
        return
    pruned_stop = journal.pruned()[0]
    for start in range(first, last + 1, _PAGE_ENTRIES):
        yield from _page(journal, start, min(start + _PAGE_ENTRIES - 1, last), pruned_stop)


def _page(journal: Journal, start: int, end: int, pruned_stop: int) -> Iterator[Seen]:
    query = f"SELECT {COLUMNS} FROM entry WHERE leaf BETWEEN ? AND ? ORDER BY leaf"  # noqa: S608  constants
    try:
        rows = journal.rows(query, start, end)
    except EvidenceError as error:
        # A page of the file is damaged: take its leaves one by one, so that only those on it are lost.
        if start == end:
            damage = EvidenceError(f"{journal.path}: leaf {start} cannot be read: the file is damaged there")
            damage.__cause__ = error
            yield Seen(start, damage, b"")
            return
        for leaf in range(start, end + 1):
            yield from _page(journal, leaf, leaf, pruned_stop)
        return
    for row in rows:
        found = _entry_or_damage(journal, row, pruned_stop)
        yield Seen(row[0], found, b"" if isinstance(found, EvidenceError) else Row(*row[:-2]).leaf_data())


def _entry_or_damage(journal: Journal, row: tuple[Any, ...], pruned_stop: int) -> Entry | Pruned | EvidenceError:
    try:
        return read_row(journal.path, row, pruned_stop=pruned_stop)
    except EvidenceError as error:
        return error
    except (TypeError, ValueError) as error:
        # A damaged page can give a column another type than the table allows.
        damage = EvidenceError(f"{journal.path}: leaf {row[0]} is not a journal's row: the file is damaged there")
        damage.__cause__ = error
        return damage


def integrity(journal: Journal) -> list[str]:
    """Return what SQLite itself finds wrong with the file; empty when it finds nothing."""
    try:
        return [str(row[0]) for row in journal.rows("PRAGMA integrity_check(20)") if row[0] != "ok"]
    except EvidenceError as error:
        return [str(error)]


def summary(journal: Journal) -> list[Summary]:
    """Return how much there is of each kind and source; bodies are not read."""
    rows = journal.rows(
        "SELECT kind, source, count(*), sum(length(body)), min(recorded_ns), max(recorded_ns), max(sequence) "
        "FROM entry GROUP BY kind, source ORDER BY min(leaf)"
    )
    return [Summary(*row) for row in rows]
