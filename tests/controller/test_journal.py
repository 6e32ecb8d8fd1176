"""The journal: durable, consecutive, idempotent, safe for several processes, and honest about damage."""

from __future__ import annotations

import itertools
import os
import random
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from controller import journal_schema
from controller.errors import EvidenceError, InternalError, OperatorError
from controller.journal import ConflictingEntryError, Entry, Journal, JsonValue, Kind, NewEntry
from controller.journal_entry import MAX_INTEGER


def frame(sequence: int, body: bytes = b"frame", source: str = "dpu0", at: int | None = None) -> NewEntry:
    return NewEntry(Kind.FRAME, source, sequence if at is None else at, body, {"received_ns": "1"}, sequence)


def poll(at: int, body: bytes = b"poll", source: str = "sw1") -> NewEntry:
    return NewEntry(Kind.POLL, source, at, body)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "journal.db"


@pytest.fixture
def journal(path: Path) -> Iterator[Journal]:
    with Journal.create(path) as journal:
        yield journal


def leaves(entries: Iterator[Entry]) -> list[int]:
    return [entry.leaf for entry in entries]


# ---------------------------------------------------------------- appending and reading


def test_what_went_in_comes_out(journal: Journal) -> None:
    body = bytes(range(256)) * 40
    meta: dict[str, JsonValue] = {"received_ns": "18446744073709551615", "list": [1, None, "ü"], "nested": {"a": True}}
    new = NewEntry(Kind.SCRAPE, "node1", 7, body, meta, None)
    assert journal.append(new, frame(1)) == [0, 1]
    entry = next(journal.entries())
    assert (entry.leaf, entry.kind, entry.source, entry.recorded_ns) == (0, Kind.SCRAPE, "node1", 7)
    assert entry.body == body
    assert entry.meta == meta
    assert entry.sequence is None
    assert len(journal) == 2


def test_an_append_of_nothing_writes_nothing(journal: Journal) -> None:
    assert journal.append() == []
    assert len(journal) == 0
    assert journal.last_recorded_ns() is None
    assert list(journal.entries()) == []


def test_the_same_entry_twice_is_kept_once(journal: Journal) -> None:
    assert journal.append(frame(1), frame(1), frame(2)) == [0, None, 1]
    assert journal.append(frame(2), frame(3)) == [None, 2]
    assert leaves(journal.entries()) == [0, 1, 2]


def test_without_a_sequence_equal_bytes_are_two_entries(journal: Journal) -> None:
    assert journal.append(poll(1), poll(1)) == [0, 1]


def test_other_bytes_under_the_same_number_are_refused_and_nothing_is_written(journal: Journal) -> None:
    journal.append(frame(1), frame(2))
    with pytest.raises(ConflictingEntryError, match=r"frame 2 of dpu0 is leaf 1 already, with other bytes") as raised:
        journal.append(frame(3), frame(2, b"other"), frame(4))
    assert (raised.value.kind, raised.value.source, raised.value.sequence, raised.value.leaf) == (
        Kind.FRAME,
        "dpu0",
        2,
        1,
    )
    assert journal.last_sequence(Kind.FRAME, "dpu0") == 2
    assert journal.append(frame(3)) == [2]  # the refused transaction took no leaf


def test_the_same_number_of_another_source_or_kind_is_another_entry(journal: Journal) -> None:
    other_kind = NewEntry(Kind.CLOCK, "dpu0", 1, b"clock", sequence=1)
    assert journal.append(frame(1), frame(1, b"x", source="dpu1"), other_kind) == [0, 1, 2]


def test_last_and_last_sequence(journal: Journal) -> None:
    journal.append(frame(1), frame(5), frame(2, source="dpu1"), poll(9), frame(3))
    assert journal.last_sequence(Kind.FRAME, "dpu0") == 5
    assert journal.last_sequence(Kind.FRAME, "nobody") == 0
    newest = journal.last(Kind.FRAME)
    assert newest is not None
    assert newest.leaf == 4
    of_other = journal.last(Kind.FRAME, "dpu1")
    assert of_other is not None
    assert of_other.sequence == 2
    assert journal.last(Kind.SITE) is None
    assert journal.last_recorded_ns() == 9


@pytest.mark.parametrize("sequence", [0, -1, MAX_INTEGER + 1, 2**64 - 1])
def test_an_impossible_sequence_is_the_sources_fault(journal: Journal, sequence: int) -> None:
    with pytest.raises(EvidenceError, match="a sequence cannot be"):
        journal.append(frame(sequence, at=1))
    assert len(journal) == 0


def test_the_largest_sequence_fits(journal: Journal) -> None:
    journal.append(frame(MAX_INTEGER, at=MAX_INTEGER))
    assert journal.last_sequence(Kind.FRAME, "dpu0") == MAX_INTEGER


def test_what_cannot_be_stored_is_our_own_fault(journal: Journal) -> None:
    with pytest.raises(InternalError, match="needs a source"):
        journal.append(poll(1, source=""))
    with pytest.raises(InternalError, match="at most"):
        journal.append(poll(1, b"x" * (64 * 2**20 + 1)))


_entries = st.lists(
    st.tuples(
        st.sampled_from([Kind.FRAME, Kind.POLL, Kind.SITE]),
        st.sampled_from(["a", "b"]),
        st.integers(0, 20),
    ),
    max_size=40,
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    rows=_entries,
    kinds=st.none() | st.sets(st.sampled_from([Kind.FRAME, Kind.POLL, Kind.SITE])),
    source=st.none() | st.sampled_from(["a", "b", "c"]),
    from_leaf=st.integers(0, 45),
    from_ns=st.none() | st.integers(-1, 22),
    to_ns=st.none() | st.integers(-1, 22),
    page=st.integers(1, 7),
)
def test_entries_selects_what_a_plain_filter_selects(  # noqa: PLR0917
    tmp_path_factory: pytest.TempPathFactory,
    rows: list[tuple[Kind, str, int]],
    kinds: set[Kind] | None,
    source: str | None,
    from_leaf: int,
    from_ns: int | None,
    to_ns: int | None,
    page: int,
) -> None:
    path = tmp_path_factory.mktemp("journal") / "j.db"
    with pytest.MonkeyPatch.context() as patch, Journal.create(path) as journal:
        patch.setattr("controller.journal._PAGE_ENTRIES", page)
        journal.append(*(NewEntry(kind, source_, at, b"x") for kind, source_, at in rows))
        seen = leaves(journal.entries(kinds=kinds, source=source, from_leaf=from_leaf, from_ns=from_ns, to_ns=to_ns))
    expected = [
        leaf
        for leaf, (kind, of, at) in enumerate(rows)
        if (kinds is None or kind in kinds)
        and (source is None or of == source)
        and leaf >= from_leaf
        and (from_ns is None or at >= from_ns)
        and (to_ns is None or at <= to_ns)
    ]
    assert seen == expected


def test_entries_are_as_they_stood_when_the_first_was_asked_for(journal: Journal) -> None:
    journal.append(*(poll(at) for at in range(600)))
    walk = journal.entries(kinds=[Kind.POLL, Kind.FRAME])
    seen = [next(walk).leaf]
    journal.append(*(frame(number) for number in range(1, 400)), *(poll(at) for at in range(300)))
    seen += leaves(walk)
    assert seen == list(range(600))


def test_walks_use_an_index_in_leaf_order(journal: Journal) -> None:
    # A sort would read every frame of a month into a temporary file before the first is seen.
    for condition in ("kind = 'frame'", "kind = 'frame' AND source = 'a'", "true"):
        plan = journal._connection.execute(
            f"EXPLAIN QUERY PLAN SELECT body FROM entry WHERE {condition} AND leaf BETWEEN 5 AND 9 "  # noqa: S608
            "ORDER BY leaf LIMIT 9"
        ).fetchall()
        text = " ".join(row[3] for row in plan)
        assert "SEARCH" in text
        assert "rowid>" in text
        assert "TEMP B-TREE" not in text


# ---------------------------------------------------------------- append-only, in the file itself


@pytest.mark.parametrize(
    ("statement", "text"),
    [
        ("UPDATE entry SET body = x'00' WHERE leaf = 0", "append-only"),
        ("DELETE FROM entry WHERE leaf = 1", "append-only"),
        (
            "INSERT INTO entry SELECT 7, kind, source, NULL, 0, meta, body, body_sha256, entry_sha256 FROM entry",
            "consec",
        ),
    ],
)
def test_the_file_refuses_to_be_changed(journal: Journal, statement: str, text: str) -> None:
    journal.append(frame(1), frame(2))
    with pytest.raises(sqlite3.IntegrityError, match=text):
        journal._connection.execute(statement)


def test_the_file_is_synchronous_and_written_ahead(journal: Journal) -> None:
    assert journal._connection.execute("PRAGMA journal_mode").fetchone()[0] == "wal"
    assert journal._connection.execute("PRAGMA synchronous").fetchone()[0] == 2  # FULL


def test_the_file_is_for_its_owner_alone(journal: Journal, path: Path) -> None:
    journal.append(frame(1))
    modes = {file.name: oct(file.stat().st_mode & 0o777) for file in path.parent.iterdir()}
    assert modes == {"journal.db": "0o600", "journal.db-wal": "0o600", "journal.db-shm": "0o600"}


# ---------------------------------------------------------------- making and opening


def test_create_holds_its_first_entries_and_leaves_only_the_journal(path: Path) -> None:
    with Journal.create(path, NewEntry(Kind.SITE, "demo", 1, b"site")) as journal:
        assert leaves(journal.entries()) == [0]
    assert [file.name for file in path.parent.iterdir()] == ["journal.db"]


def test_create_puts_the_file_on_the_disk_before_its_name_and_then_the_name(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[tuple[str, bool]] = []
    really_fsync = os.fsync

    def fsync(descriptor: int) -> None:
        target = Path(f"/proc/self/fd/{descriptor}").readlink()
        synced.append(("folder" if target == path.parent else "file", path.exists()))
        really_fsync(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    Journal.create(path).close()
    assert synced == [("file", False), ("folder", True)]


def test_create_refuses_what_is_there_and_leaves_it_alone(path: Path) -> None:
    path.write_bytes(b"precious")
    with pytest.raises(OperatorError, match="exists already; a journal is never overwritten"):
        Journal.create(path)
    assert path.read_bytes() == b"precious"
    assert [file.name for file in path.parent.iterdir()] == ["journal.db"]


def test_create_refuses_a_log_left_from_another_journal(path: Path) -> None:
    path.with_name("journal.db-wal").write_bytes(b"old")
    with pytest.raises(OperatorError, match="left from a journal that is no longer"):
        Journal.create(path)
    assert not path.exists()


def test_create_leaves_nothing_behind_when_an_entry_is_refused(path: Path) -> None:
    with pytest.raises(ConflictingEntryError):
        Journal.create(path, frame(1), frame(1, b"other"))
    assert list(path.parent.iterdir()) == []


def test_create_in_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(OperatorError, match=r"nowhere/\.?j.* cannot make the journal .*Check the folder"):
        Journal.create(tmp_path / "nowhere" / "j.db")


def test_of_many_who_create_at_once_one_wins(path: Path) -> None:
    made: list[Journal] = []
    refused: list[OperatorError] = []

    def create(number: int) -> None:
        try:
            made.append(Journal.create(path, NewEntry(Kind.SITE, "demo", number, b"%d" % number)))
        except OperatorError as error:
            refused.append(error)

    threads = [threading.Thread(target=create, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == 1
    assert len(refused) == 7
    assert len(made[0]) == 1
    made[0].close()
    assert [file.name for file in path.parent.iterdir()] == ["journal.db"]


def test_open_without_a_journal(path: Path) -> None:
    with pytest.raises(
        OperatorError, match=r"journal\.db: the journal does not exist\. Make one with `weighbridge init"
    ):
        Journal.open(path)
    assert not path.exists()
    path.mkdir()
    with pytest.raises(OperatorError, match="is not a file"):
        Journal.open(path)


@pytest.mark.parametrize("read_only", [True, False])
def test_open_what_is_no_journal(path: Path, read_only: bool) -> None:
    path.write_text("a letter " * 1000)
    with pytest.raises(OperatorError, match=r"journal\.db is not a journal"):
        Journal.open(path, read_only=read_only)
    path.unlink()
    path.touch()
    with pytest.raises(OperatorError, match="is not a journal: it is another program's"):
        Journal.open(path, read_only=read_only)
    path.unlink()
    with sqlite3.connect(path) as other:
        other.execute("CREATE TABLE t (x)")
    other.close()
    content = path.read_bytes()
    with pytest.raises(OperatorError, match="is not a journal: it is another program's"):
        Journal.open(path, read_only=read_only)
    assert path.read_bytes() == content


def test_a_journal_of_a_newer_version_is_refused_and_not_touched(path: Path) -> None:
    Journal.create(path, frame(1)).close()
    with sqlite3.connect(path) as newer:
        newer.execute(f"PRAGMA user_version = {journal_schema.FORMAT_VERSION + 1}")
    newer.close()
    content = path.read_bytes()
    for read_only in (True, False):
        known = journal_schema.FORMAT_VERSION
        text = rf"has format {known + 1}, this program knows formats up to {known}\. Update weighbridge"
        with pytest.raises(OperatorError, match=text):
            Journal.open(path, read_only=read_only)
    assert path.read_bytes() == content


def test_a_kind_this_program_does_not_know(path: Path) -> None:
    with Journal.create(path) as journal, pytest.MonkeyPatch.context() as patch:
        patch.setattr(Kind.POLL, "_value_", "hologram")
        journal.append(poll(1))
    with Journal.open(path) as journal, pytest.raises(EvidenceError, match=r"unknown kind 'hologram'.*Update"):
        list(journal.entries())


# ---------------------------------------------------------------- damage


def test_a_truncated_journal(path: Path) -> None:
    with Journal.create(path) as journal:
        journal.append(*(frame(number, b"x" * 500) for number in range(1, 200)))
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size // 2)
    with pytest.raises(EvidenceError, match=r"journal\.db is damaged"), Journal.open(path) as journal:
        list(journal.entries())


@pytest.mark.parametrize(
    ("column", "value", "what"),
    [
        ("body", b"fram\x00", "the body of leaf 1 "),
        ("recorded_ns", 3, "the header of leaf 1 "),
        ("meta", '{"received_ns":"2"}', "the header of leaf 1 "),
        ("source", "dpu9", "the header of leaf 1 "),
        ("kind", "poll", "the header of leaf 1 "),
        ("sequence", 77, "the header of leaf 1 "),
    ],
)
def test_a_changed_column_is_found_when_it_is_read(path: Path, column: str, value: object, what: str) -> None:
    with Journal.create(path) as journal:
        journal.append(frame(1), frame(2), frame(3))
    _change(path, f"UPDATE entry SET {column} = ? WHERE leaf = 1", value)  # noqa: S608
    with Journal.open(path, read_only=True) as journal:
        walk = journal.entries()
        assert next(walk).leaf == 0
        with pytest.raises(EvidenceError, match=what):
            next(walk)


def _change(path: Path, statement: str, *values: object) -> None:
    """Change the file behind the journal's back, as someone with the file and time would."""
    with sqlite3.connect(path) as editor:
        for trigger in ("entry_is_never_changed", "entry_is_never_removed", "entry_leaves_are_consecutive"):
            editor.execute(f"DROP TRIGGER {trigger}")
        editor.execute(statement, values)
    editor.close()


def test_one_flipped_bit_anywhere_in_a_body_is_found(path: Path) -> None:
    marker = b"an-unmistakable-body-" * 4
    with Journal.create(path) as journal:
        journal.append(frame(1), frame(2, marker), frame(3))
    content = bytearray(path.read_bytes())
    start = content.index(marker)
    for bit in random.Random(5).sample(range(8 * len(marker)), 20):
        flipped = bytearray(content)
        flipped[start + bit // 8] ^= 1 << bit % 8
        path.write_bytes(flipped)
        with Journal.open(path, read_only=True) as journal, pytest.raises(EvidenceError, match="leaf 1 "):
            list(journal.entries())


# ---------------------------------------------------------------- several at once


def test_a_reader_reads_while_a_writer_writes(journal: Journal, path: Path) -> None:
    journal.append(frame(1))
    with Journal.open(path, read_only=True) as reader:
        assert len(reader) == 1
        journal._connection.execute("BEGIN IMMEDIATE")  # a writer in the middle of its transaction
        assert leaves(reader.entries()) == [0]
        journal._connection.execute("COMMIT")
        journal.append(frame(2))
        assert leaves(reader.entries()) == [0, 1]
        with pytest.raises(OperatorError, match="opened for reading only"):
            reader.append(frame(3))


def test_a_journal_on_a_read_only_disk_can_be_read(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Journal.create(path, frame(1)).close()
    asked: list[str] = []
    really_connect = journal_schema._connect

    def connect(where: Path, query: str) -> sqlite3.Connection:
        # What SQLite says of a write-ahead database on a disk where it cannot make the shared-memory file.
        asked.append(query)
        if query == "mode=ro":
            return really_connect(where.with_name("not-there"), query)
        return really_connect(where, query)

    monkeypatch.setattr(
        journal_schema,
        "_connect",
        lambda where, query: _Refusing() if query == "mode=ro" else connect(where, query),
    )
    with Journal.open(path, read_only=True) as journal:
        assert leaves(journal.entries()) == [0]
    assert asked == ["mode=ro&immutable=1"]


class _Refusing:
    def execute(self, _query: str) -> None:
        raise sqlite3.OperationalError("unable to open database file")

    def close(self) -> None:
        pass


def test_a_writer_that_waits_too_long_says_who_to_look_for(
    journal: Journal, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal_schema, "BUSY_TIMEOUT_S", 0.05)
    with Journal.open(path) as second:
        journal._connection.execute("BEGIN IMMEDIATE")
        with pytest.raises(OperatorError, match=r"was held by another process.*End that process"):
            second.append(frame(1))
        journal._connection.execute("COMMIT")
        assert second.append(frame(1)) == [0]  # and it goes on


def test_a_full_disk_writes_nothing_of_the_transaction(journal: Journal) -> None:
    journal.append(frame(1))
    pages = journal._connection.execute("PRAGMA page_count").fetchone()[0]
    journal._connection.execute(f"PRAGMA max_page_count = {pages + 5}")
    with pytest.raises(OperatorError, match=r"is on a full disk; nothing of this transaction was written\. Free space"):
        journal.append(frame(2), frame(3, b"x" * 100_000))
    assert journal.last_sequence(Kind.FRAME, "dpu0") == 1
    journal._connection.execute(f"PRAGMA max_page_count = {pages + 500}")
    assert journal.append(frame(2), frame(3, b"x" * 100_000)) == [1, 2]  # and it goes on


def test_threads_share_a_journal(journal: Journal) -> None:
    def write(source: str) -> None:
        for number in range(1, 51):
            journal.append(frame(number, source=source))
            assert journal.last_sequence(Kind.FRAME, source) == number

    threads = [threading.Thread(target=write, args=(f"dpu{number}",)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert leaves(journal.entries()) == list(range(200))


_WRITER = """
import sys, time
from controller.journal import Journal, Kind, NewEntry
path, source, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
with Journal.open(path) as journal:
    number = journal.last_sequence(Kind.FRAME, source)
    print("ready", flush=True)
    sys.stdin.readline()
    while number < count:
        number += 1
        body = b"%s %d " % (source.encode(), number) * (number % 50 + 1)
        journal.append(NewEntry(Kind.FRAME, source, number, body, {}, number))
        print(number, flush=True)
        time.sleep(0.0005)  # the other one's turn
"""


def _writer(path: Path, source: str, count: int) -> subprocess.Popen[str]:
    """Start a writer that has opened the journal and waits for a line on its standard input."""
    writer = subprocess.Popen(
        [sys.executable, "-c", _WRITER, str(path), source, str(count)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert writer.stdout is not None
    assert writer.stdout.readline() == "ready\n"
    return writer


def _go(writer: subprocess.Popen[str]) -> None:
    assert writer.stdin is not None
    writer.stdin.write("go\n")
    writer.stdin.close()


def test_two_processes_append_at_once(path: Path) -> None:
    Journal.create(path).close()
    writers = [_writer(path, source, 300) for source in ("one", "two")]
    for writer in writers:
        _go(writer)
    for writer in writers:
        assert writer.wait(timeout=60) == 0
        assert writer.stdout is not None
        writer.stdout.close()
    with Journal.open(path, read_only=True) as journal:
        entries = list(journal.entries())
        assert [entry.leaf for entry in entries] == list(range(600))
        for source in ("one", "two"):
            assert [entry.sequence for entry in entries if entry.source == source] == list(range(1, 301))
        changes = sum(a.source != b.source for a, b in itertools.pairwise(entries))
        assert changes > 1  # they really did take turns


def test_a_writer_killed_twenty_times_loses_nothing_it_acknowledged(path: Path) -> None:
    Journal.create(path).close()
    rng = random.Random(20261130)
    acknowledged = 0
    for _ in range(20):
        writer = _writer(path, "dpu0", 10**9)
        assert writer.stdout is not None
        _go(writer)
        time.sleep(rng.uniform(0, 0.08))
        os.kill(writer.pid, signal.SIGKILL)
        writer.wait()
        lines = writer.stdout.read().split("\n")
        writer.stdout.close()
        # The last line may have been cut; only whole lines were acknowledged.
        acknowledged = max([acknowledged, *(int(line) for line in lines[:-1])])
        with Journal.open(path, read_only=True) as journal:
            assert journal.last_sequence(Kind.FRAME, "dpu0") >= acknowledged
    assert acknowledged > 20
    with Journal.open(path) as journal:
        entries = list(journal.entries())
        assert [entry.leaf for entry in entries] == list(range(len(entries)))
        assert [entry.sequence for entry in entries] == list(range(1, len(entries) + 1))
        assert journal._connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


def test_meta_must_be_json(journal: Journal) -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        journal.append(NewEntry(Kind.POLL, "sw1", 1, b"", {"rate": float("nan")}))
    assert len(journal) == 0
