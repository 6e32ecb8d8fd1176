"""The journal's file: its tables, its format version, how it is made and how it is opened.

The file is an SQLite database in write-ahead mode with full synchronisation: a transaction that has returned is on
the disk. One table, ``entry``, is append-only; triggers refuse updates, deletions and gaps in the leaf numbers, so
that a mistake in our own code cannot break what a later signature over the leaves will rest on.

Each row carries two digests. ``body_sha256`` is SHA-256 of the body; ``entry_sha256`` is SHA-256 of everything else
in the row and of ``body_sha256``. A flipped bit anywhere in a row is found when the row is read.

Format 2 adds what the entries are as a log (:mod:`controller.journal_log`): signed checkpoints, their cosignatures, and
roots of full subtrees, so that a proof does not read every leaf. All but the signatures can be computed again
from the entries.

Format 3 adds the keys of witnesses, so that cosignatures can be checked for damage, and pruning
(:mod:`controller.journal_prune`): the body of an entry may be emptied, nothing else of it, and only where a journaled
decision says so.

An older journal gets what it lacks when it is next opened for writing; its entries stay as they are.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path

from controller.errors import EvidenceError, InternalError, OperatorError, WeighbridgeError

FORMAT_VERSION = 3
"""Stored in ``PRAGMA user_version``. A reader refuses a newer one: it would not know what it does not see."""

APPLICATION_ID = 0x57424A4E
"""``WBJN``, stored in ``PRAGMA application_id``: tells a journal from any other SQLite file."""

BUSY_TIMEOUT_S = 30.0
"""How long a writer waits for another process's transaction; ours last milliseconds, a copy or a backup may not."""

SIDE_FILES = ("-wal", "-shm", "-journal")
"""What SQLite keeps beside the file. A log that outlives its journal would be replayed into the next one."""

_TABLES = """
CREATE TABLE entry (
    leaf         INTEGER PRIMARY KEY CHECK (leaf >= 0),
    kind         TEXT    NOT NULL,
    source       TEXT    NOT NULL,
    sequence     INTEGER CHECK (sequence >= 1),
    recorded_ns  INTEGER NOT NULL,
    meta         TEXT    NOT NULL,
    body         BLOB    NOT NULL,
    body_sha256  BLOB    NOT NULL CHECK (length(body_sha256) = 32),
    entry_sha256 BLOB    NOT NULL CHECK (length(entry_sha256) = 32)
) STRICT;
CREATE UNIQUE INDEX entry_once ON entry (kind, source, sequence) WHERE sequence IS NOT NULL;
CREATE INDEX entry_by_kind ON entry (kind);
CREATE INDEX entry_by_source ON entry (kind, source);
CREATE INDEX entry_by_time ON entry (recorded_ns);
CREATE TRIGGER entry_leaves_are_consecutive BEFORE INSERT ON entry
    WHEN NEW.leaf <> (SELECT coalesce(max(leaf) + 1, 0) FROM entry)
    BEGIN SELECT RAISE(ABORT, 'leaf numbers are consecutive'); END;
CREATE TRIGGER entry_is_never_changed BEFORE UPDATE ON entry
    BEGIN SELECT RAISE(ABORT, 'the journal is append-only'); END;
CREATE TRIGGER entry_is_never_removed BEFORE DELETE ON entry
    BEGIN SELECT RAISE(ABORT, 'the journal is append-only'); END;
"""

_LOG_TABLES = """
CREATE TABLE checkpoint (
    size   INTEGER PRIMARY KEY CHECK (size >= 0),
    note   BLOB    NOT NULL,
    hashes BLOB    NOT NULL
) STRICT;
CREATE TABLE cosignature (
    size   INTEGER NOT NULL REFERENCES checkpoint (size),
    line   TEXT    NOT NULL,
    PRIMARY KEY (size, line)
) STRICT;
CREATE TABLE tile (
    level  INTEGER NOT NULL CHECK (level >= 1),
    number INTEGER NOT NULL CHECK (number >= 0),
    hash   BLOB    NOT NULL CHECK (length(hash) = 32),
    PRIMARY KEY (level, number)
) STRICT;
CREATE TRIGGER checkpoint_never_shrinks BEFORE INSERT ON checkpoint
    WHEN NEW.size <= (SELECT coalesce(max(size), -1) FROM checkpoint)
      OR NEW.size > (SELECT coalesce(max(leaf) + 1, 0) FROM entry)
    BEGIN SELECT RAISE(ABORT, 'checkpoints only grow, and no further than the entries'); END;
CREATE TRIGGER checkpoint_is_never_changed BEFORE UPDATE ON checkpoint
    BEGIN SELECT RAISE(ABORT, 'the journal is append-only'); END;
CREATE TRIGGER checkpoint_is_never_removed BEFORE DELETE ON checkpoint
    BEGIN SELECT RAISE(ABORT, 'the journal is append-only'); END;
"""


PRUNABLE = ("frame", "clock", "poll", "scrape", "attempt")
"""Kinds whose bodies may be dropped: what collectors wrote. Decisions, keys, site files and reports stay for ever."""

_PRUNE_TABLES = f"""
CREATE TABLE witness (
    vkey TEXT PRIMARY KEY
) STRICT;
CREATE TABLE prune (
    stop      INTEGER PRIMARY KEY CHECK (stop >= 0),
    before_ns INTEGER NOT NULL,
    decision  INTEGER NOT NULL REFERENCES entry (leaf) CHECK (decision >= stop)
) STRICT;
CREATE TRIGGER prune_only_grows BEFORE INSERT ON prune
    WHEN NEW.stop < (SELECT coalesce(max(stop), 0) FROM prune)
    BEGIN SELECT RAISE(ABORT, 'what was dropped stays dropped'); END;
CREATE TRIGGER prune_is_never_changed BEFORE UPDATE ON prune
    BEGIN SELECT RAISE(ABORT, 'the journal is append-only'); END;
CREATE TRIGGER prune_is_never_removed BEFORE DELETE ON prune
    BEGIN SELECT RAISE(ABORT, 'the journal is append-only'); END;
CREATE TRIGGER cosignature_is_never_changed BEFORE UPDATE ON cosignature
    BEGIN SELECT RAISE(ABORT, 'the journal is append-only'); END;
CREATE TRIGGER cosignature_is_never_removed BEFORE DELETE ON cosignature
    BEGIN SELECT RAISE(ABORT, 'the journal is append-only'); END;
DROP TRIGGER IF EXISTS entry_is_never_changed;
CREATE TRIGGER entry_is_never_changed BEFORE UPDATE ON entry
    WHEN NOT (NEW.body = x'' AND OLD.kind IN {PRUNABLE}
              AND OLD.leaf < (SELECT coalesce(max(stop), 0) FROM prune)
              AND (NEW.leaf, NEW.kind, NEW.source, NEW.sequence, NEW.recorded_ns, NEW.meta, NEW.body_sha256,
                   NEW.entry_sha256)
               IS (OLD.leaf, OLD.kind, OLD.source, OLD.sequence, OLD.recorded_ns, OLD.meta, OLD.body_sha256,
                   OLD.entry_sha256))
    BEGIN SELECT RAISE(ABORT, 'the journal is append-only'); END;
"""  # noqa: S608  constants

_SCRIPTS = {1: _TABLES, 2: _LOG_TABLES, 3: _PRUNE_TABLES}
"""What each format adds to the one before."""


@contextlib.contextmanager
def sqlite_errors(path: Path) -> Iterator[None]:
    """Turn what SQLite raises about the journal at ``path`` into an error that says what to do."""
    try:
        yield
    except sqlite3.Error as error:
        raise _in_words(path, error) from error
    except UnicodeDecodeError as error:
        # What SQLite says quotes the file, which is damaged there.
        raise _in_words(path, sqlite3.DatabaseError("malformed text")) from error


# What SQLite says, whose fault it is, and what to do; the first that fits counts.
_WORDS: tuple[tuple[tuple[str, ...], type[WeighbridgeError], str], ...] = (
    (
        ("not a database",),
        OperatorError,
        "is not a journal (nor any SQLite file). Name the journal that `weighbridge init` made.",
    ),
    (
        ("malformed", "corrupt", "Could not decode", "unsupported file format"),
        EvidenceError,
        "is damaged. Keep a copy of it as it is, and run `weighbridge journal fsck` to learn what can still be read.",
    ),
    (
        ("locked", "busy"),
        OperatorError,
        f"was held by another process for more than {BUSY_TIMEOUT_S:.0f} s. End that process and start again.",
    ),
    (("full",), OperatorError, "is on a full disk; nothing of this transaction was written. Free space there."),
    (
        ("readonly", "unable to open"),
        OperatorError,
        "cannot be opened or written. Check the rights of the file and of its folder.",
    ),
    (("disk I/O",), OperatorError, "is on a disk that failed. Look at the system's log before going on."),
)


def _in_words(path: Path, error: sqlite3.Error) -> WeighbridgeError:
    text = str(error)
    for marks, fault, sentence in _WORDS:
        if any(mark in text for mark in marks):
            return fault(f"{path} {sentence} (SQLite says: {text})")
    return InternalError(f"the journal {path} refused what this program asked of it: {text}")


def new_database(path: Path) -> sqlite3.Connection:
    """Return a connection to a new, empty journal at ``path``, which must not be there yet.

    Raises:
        OSError: the file exists, or cannot be made.
    """
    # SQLite gives its side files the rights of the main file: what agents and hosts said is for the operator.
    os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    with sqlite_errors(path):
        connection = _connect(path, "mode=rw")
        write_ahead(path, connection)
        _set_up(connection)
        connection.executescript(
            f"BEGIN IMMEDIATE; PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {FORMAT_VERSION};"
            f"{''.join(_SCRIPTS.values())} COMMIT;"
        )
    return connection


def open_database(path: Path, *, read_only: bool) -> sqlite3.Connection:
    """Return a connection to the journal at ``path`` after checking that it is one this program can read.

    Raises:
        OperatorError: there is none, it is something else, or its format is newer than this program.
        EvidenceError: it is damaged.
    """
    if not path.is_file():
        what = "is not a file" if path.exists() else "does not exist"
        raise OperatorError(f"{path}: the journal {what}. Make one with `weighbridge init SITE.yaml`.")
    with sqlite_errors(path):
        connection = _connect_read_only(path) if read_only else _connect(path, "mode=rw")
        try:
            _check_format(path, connection)
            if not read_only:
                _set_up(connection)
                _bring_up_to_date(connection)
        except BaseException:
            connection.close()
            raise
    return connection


def _connect(path: Path, query: str) -> sqlite3.Connection:
    # Autocommit (isolation_level None): transactions are opened by hand, as IMMEDIATE, where they are needed.
    # Threads share the connection under the journal's own lock.
    return sqlite3.connect(
        f"{path.absolute().as_uri()}?{query}",
        uri=True,
        timeout=BUSY_TIMEOUT_S,
        isolation_level=None,
        check_same_thread=False,
    )


def _connect_read_only(path: Path) -> sqlite3.Connection:
    connection = _connect(path, "mode=ro")
    try:
        connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    except sqlite3.OperationalError as error:
        connection.close()
        # A reader of a write-ahead journal needs its shared-memory file; on a read-only disk SQLite cannot make
        # it. Without a log beside it the file is all there is and cannot change: it may be read as it lies.
        if "unable to open" not in str(error) or path.with_name(path.name + "-wal").exists():
            raise
        connection = _connect(path, "mode=ro&immutable=1")
    return connection


def _check_format(path: Path, connection: sqlite3.Connection) -> None:
    application_id = connection.execute("PRAGMA application_id").fetchone()[0]
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    if application_id != APPLICATION_ID:
        raise OperatorError(
            f"{path} is not a journal: it is another program's SQLite file. "
            "Name the journal that `weighbridge init` made."
        )
    if version > FORMAT_VERSION:
        raise OperatorError(
            f"{path}: the journal has format {version}, this program knows formats up to {FORMAT_VERSION}. "
            "Update weighbridge on this machine; the journal was not touched."
        )
    if version < 1:
        raise EvidenceError(f"{path}: the journal has no format version: it is damaged. Restore it from a copy.")


def _bring_up_to_date(connection: sqlite3.Connection) -> None:
    """Add what this format has and an older journal has not; safe when two processes do so at once."""
    if format_of(connection) == FORMAT_VERSION:
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        for version in range(format_of(connection) + 1, FORMAT_VERSION + 1):
            for statement in _statements(_SCRIPTS[version]):
                connection.execute(statement)
            connection.execute(f"PRAGMA user_version = {version}")
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def format_of(connection: sqlite3.Connection) -> int:
    """Return the format of the journal behind ``connection``."""
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def expected_schema(version: int) -> set[tuple[str, str, str | None]]:
    """Return type, name and definition of everything that a journal of format ``version`` has."""
    with contextlib.closing(sqlite3.connect(":memory:")) as connection:
        for number in range(1, version + 1):
            connection.executescript(_SCRIPTS[number])
        return set(connection.execute(SCHEMA_QUERY))


SCHEMA_QUERY = "SELECT type, name, sql FROM sqlite_master WHERE name NOT LIKE 'sqlite_stat%'"


def _statements(script: str) -> Iterator[str]:
    # executescript() would commit what is open: it cannot be used inside a transaction.
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""


def write_ahead(path: Path, connection: sqlite3.Connection) -> None:
    """Put the file at ``path`` into write-ahead mode.

    Raises:
        OperatorError: it stays in another one; SQLite says nothing when a write fails here.
    """
    if connection.execute("PRAGMA journal_mode = WAL").fetchone()[0] != "wal":
        raise OperatorError(f"{path}: SQLite cannot keep a write-ahead log there. The journal belongs on a local disk.")


def _set_up(connection: sqlite3.Connection) -> None:
    for pragma in ("synchronous = FULL", "trusted_schema = OFF", "cell_size_check = ON"):
        connection.execute(f"PRAGMA {pragma}")


def fsync_folder(folder: Path) -> None:
    """Put the names in ``folder`` on the disk: a new file is durable only when its name is."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
