"""The journal: the append-only store of everything the controller received, did and decided.

Each entry has a leaf number, consecutive from 0, given inside the transaction that writes it, so that several
processes may append at once and no number is ever missing. What has been returned by :meth:`Journal.append` is on
the disk. The bytes of an entry are kept exactly as they came; a digest of them and of the row around them is
checked whenever the entry is read.

What an entry is, and which bytes each kind has, is in :mod:`controller.journal_entry`.
"""

from __future__ import annotations

import contextlib
import heapq
import os
import sqlite3
import threading
from collections.abc import Collection, Iterator
from operator import attrgetter
from pathlib import Path
from types import TracebackType
from typing import Any, final

from controller.errors import OperatorError
from controller.journal_entry import (
    COLUMNS,
    MAX_INTEGER,
    ConflictingEntryError,
    Entry,
    JsonValue,
    Kind,
    NewEntry,
    Row,
    entry_of,
    prepare,
    read_row,
)
from controller.journal_schema import SIDE_FILES, fsync_folder, new_database, open_database, sqlite_errors

__all__ = ["ConflictingEntryError", "Entry", "Journal", "JsonValue", "Kind", "NewEntry"]

_INSERT = f"INSERT INTO entry ({COLUMNS}) VALUES ({', '.join('?' * (len(Row._fields) + 2))})"  # noqa: S608  constants

_PAGE_ENTRIES = 256
# Reading goes page by page, without a transaction between pages: a long read inside one transaction would keep
# the write-ahead log from being folded back, and it would grow for as long as someone looks.


@final
class Journal:
    """One journal, opened for appending or only for reading. Threads may share it."""

    def __init__(self, path: Path, connection: sqlite3.Connection, *, read_only: bool) -> None:
        """Use :meth:`create` or :meth:`open`."""
        self.path = path
        self.read_only = read_only
        self._connection = connection
        self._lock = threading.RLock()
        self._left_out: tuple[int, int] | None = None

    # ------------------------------------------------------------ life

    @classmethod
    def create(cls, path: Path | str, *entries: NewEntry) -> Journal:
        """Make a new journal at ``path`` holding ``entries``, and open it for appending.

        1. Build it under another name in the same folder, and put it on the disk.
        2. Give it its name in one step that fails if the name is taken.
        3. Put the name on the disk.

        So a journal is there whole or not at all.

        Raises:
            OperatorError: something is at ``path`` already, or the folder cannot be written; nothing is left behind.
        """
        path = Path(path)
        for taken in (path, *(path.with_name(path.name + suffix) for suffix in SIDE_FILES)):
            if taken.exists() or taken.is_symlink():
                raise _already_there(path, taken)
        building = path.with_name(f".{path.name}.new-{os.getpid()}-{threading.get_ident()}")
        try:
            with cls(building, new_database(building), read_only=False) as journal:
                journal.append(*entries)
            _fsync_file(building)
            os.link(building, path)
            fsync_folder(path.parent)
        except FileExistsError as error:
            raise _already_there(path, path) from error
        except OSError as error:
            raise OperatorError(f"{path}: cannot make the journal ({error.strerror}). Check the folder.") from error
        finally:
            for suffix in ("", *SIDE_FILES):
                with contextlib.suppress(OSError):
                    building.with_name(building.name + suffix).unlink(missing_ok=True)
        return cls.open(path)

    @classmethod
    def open(cls, path: Path | str, *, read_only: bool = False) -> Journal:
        """Open the journal at ``path``.

        Raises:
            OperatorError: there is none, it is something else, or its format is newer than this program.
            EvidenceError: it is damaged.
        """
        path = Path(path)
        return cls(path, open_database(path, read_only=read_only), read_only=read_only)

    def close(self) -> None:
        """Close it; safe to call twice."""
        with self._lock, sqlite_errors(self.path):
            self._connection.close()

    def __enter__(self) -> Journal:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # ------------------------------------------------------------ writing

    def append(self, *entries: NewEntry) -> list[int | None]:
        """Append ``entries`` in one transaction; they are on the disk when this returns.

        Returns:
            The leaf number of each, or None for one that is there already with the same bytes.

        Raises:
            ConflictingEntryError: one is there already with other bytes; none of ``entries`` was written.
            OperatorError: the journal was opened for reading, the disk is full or fails.
        """
        if self.read_only:
            raise OperatorError(f"{self.path} was opened for reading only; nothing was written.")
        prepared = [(entry, *prepare(entry)) for entry in entries]
        if not prepared:
            return []
        with self._lock, self._transaction():
            leaf: int = self._connection.execute("SELECT coalesce(max(leaf) + 1, 0) FROM entry").fetchone()[0]
            leaves: list[int | None] = []
            for entry, meta, body_sha256 in prepared:
                if self._is_there(entry, body_sha256):
                    leaves.append(None)
                    continue
                row = Row(leaf, entry.kind.value, entry.source, entry.sequence, entry.recorded_ns, meta, body_sha256)
                self._connection.execute(_INSERT, (*row, row.digest(), entry.body))
                leaves.append(leaf)
                leaf += 1
        return leaves

    @contextlib.contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """Hold the write lock for one transaction; for what stands beside the entries (:mod:`controller.journal_log`).

        Raises:
            OperatorError: the journal was opened for reading, the disk is full or fails.
        """
        if self.read_only:
            raise OperatorError(f"{self.path} was opened for reading only; nothing was written.")
        with self._lock, self._transaction():
            yield self._connection

    @contextlib.contextmanager
    def snapshot(self) -> Iterator[int]:
        """See one state of the journal throughout, whatever is appended meanwhile; yields how many entries it has.

        For a report: the write-ahead log is not folded back while it lasts.
        """
        with self._lock, sqlite_errors(self.path):
            self._connection.execute("BEGIN")
        try:
            yield len(self)
        finally:
            with self._lock, sqlite_errors(self.path):
                self._connection.execute("COMMIT")

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[None]:
        with sqlite_errors(self.path):
            # IMMEDIATE takes the write lock first: the leaf number read next is still the last one at commit.
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._connection.execute("COMMIT")
            except BaseException:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise

    def _is_there(self, entry: NewEntry, body_sha256: bytes) -> bool:
        if entry.sequence is None:
            return False
        row = self._connection.execute(
            "SELECT leaf, body_sha256 FROM entry WHERE kind = ? AND source = ? AND sequence = ?",
            (entry.kind.value, entry.source, entry.sequence),
        ).fetchone()
        if row is None:
            return False
        if row[1] != body_sha256:
            raise ConflictingEntryError(self.path, entry, row[0])
        return True

    # ------------------------------------------------------------ reading

    def entries(
        self,
        *,
        kinds: Collection[Kind] | None = None,
        source: str | None = None,
        from_leaf: int = 0,
        from_ns: int | None = None,
        to_ns: int | None = None,
    ) -> Iterator[Entry]:
        """Yield the entries in leaf order, as they stood when the first was asked for; without those that were pruned.

        Args:
            kinds: only these; None for all.
            source: only this one's.
            from_leaf: from this leaf on.
            from_ns: recorded at this time or later.
            to_ns: recorded at this time or earlier.

        Raises:
            EvidenceError: an entry's digest does not check; the text names the leaf.
        """
        # 1. Fix the last leaf, so that what is appended meanwhile is not half seen. 2. Narrow the leaves by time,
        # through the index alone. 3. Walk each kind in leaf order, a page at a time, and merge.
        low = -MAX_INTEGER if from_ns is None else max(from_ns, -MAX_INTEGER)
        high = MAX_INTEGER if to_ns is None else min(to_ns, MAX_INTEGER)
        first, last = self.rows("SELECT min(leaf), max(leaf) FROM entry WHERE recorded_ns BETWEEN ? AND ?", low, high)[
            0
        ]
        if last is None:
            return
        chosen: Collection[Kind | None] = [None]
        if kinds is not None or source is not None:
            chosen = set(kinds if kinds is not None else Kind)
        first = max(first, from_leaf)
        pruned_stop = self.pruned()[0]
        walks = [self._walk(kind, source, range(first, last + 1), pruned_stop) for kind in chosen]
        for entry in heapq.merge(*walks, key=attrgetter("leaf")):
            if low <= entry.recorded_ns <= high:
                yield entry

    def _walk(self, kind: Kind | None, source: str | None, leaves: range, pruned_stop: int) -> Iterator[Entry]:
        where, values = _where(kind, source)
        query = f"SELECT {COLUMNS} FROM entry WHERE {where} AND leaf BETWEEN ? AND ? ORDER BY leaf LIMIT ?"  # noqa: S608  constants
        while leaves:
            rows = self.rows(query, *values, leaves[0], leaves[-1], _PAGE_ENTRIES)
            for row in rows:
                found = read_row(self.path, row, pruned_stop=pruned_stop)
                if isinstance(found, Entry):
                    yield found
            if len(rows) < _PAGE_ENTRIES:
                return
            leaves = range(rows[-1][0] + 1, leaves.stop)

    def last(self, kind: Kind, source: str | None = None) -> Entry | None:
        """Return the newest entry of ``kind`` (and ``source``), or None.

        Raises:
            EvidenceError: its digest does not check.
        """
        where, values = _where(kind, source)
        rows = self.rows(f"SELECT {COLUMNS} FROM entry WHERE {where} ORDER BY leaf DESC LIMIT 1", *values)  # noqa: S608  constants
        return entry_of(self.path, rows[0]) if rows else None

    def pruned(self) -> tuple[int, int | None]:
        """Return before which leaf bodies may have been dropped, 0 for none, and before which time on the timeline."""
        if self._left_out is not None:
            return self._left_out
        if not self.rows("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'prune'"):
            return 0, None
        rows = self.rows("SELECT stop, before_ns FROM prune ORDER BY stop DESC LIMIT 1")
        return (int(rows[0][0]), int(rows[0][1])) if rows else (0, None)

    def leave_out(self, stop: int, before_ns: int) -> None:
        """Let bodies before leaf ``stop`` be missing, whatever was decided; no period before ``before_ns`` is judged.

        For what a bundle gave (:mod:`controller.bundle_omission`); nothing is written.
        """
        self._left_out = stop, before_ns

    def last_sequence(self, kind: Kind, source: str) -> int:
        """Return the highest sequence of ``kind`` and ``source``; 0 if there is none."""
        query = "SELECT max(sequence) FROM entry WHERE kind = ? AND source = ? AND sequence IS NOT NULL"
        return int(self.rows(query, kind.value, source)[0][0] or 0)

    def last_recorded_ns(self) -> int | None:
        """Return the latest time at which anything was recorded, on the timeline; None for an empty journal."""
        value = self.rows("SELECT max(recorded_ns) FROM entry")[0][0]
        return None if value is None else int(value)

    def __len__(self) -> int:
        """Return the number of entries: one more than the last leaf."""
        return int(self.rows("SELECT coalesce(max(leaf) + 1, 0) FROM entry")[0][0])

    def __bool__(self) -> bool:
        """Return True: an empty journal is a journal."""
        return True

    def rows(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        """Return the rows of a query that only reads; for modules that look over the whole journal."""
        with self._lock, sqlite_errors(self.path):
            return self._connection.execute(query, values).fetchall()


def _where(kind: Kind | None, source: str | None) -> tuple[str, tuple[str, ...]]:
    """Return a condition that one index answers in leaf order, and its values."""
    if kind is None:
        return "true", ()
    return ("kind = ?", (kind.value,)) if source is None else ("kind = ? AND source = ?", (kind.value, source))


def _already_there(path: Path, taken: Path) -> OperatorError:
    if taken == path:
        return OperatorError(
            f"{path} exists already; a journal is never overwritten. Name another file under `controller: journal:` "
            "in the site file, or move this one away."
        )
    return OperatorError(
        f"{taken} is left from a journal that is no longer at {path}; SQLite would replay it into a new one. "
        "Put the journal back, or move this file away."
    )


def _fsync_file(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
