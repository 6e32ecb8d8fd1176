"""The journal as a log: checkpoints continue each other, never shrink, and fsck names what does not fit them."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from controller.errors import EvidenceError, OperatorError
from controller.evidence.checkpoint import check_cosignature, cosign, open_checkpoint
from controller.evidence.note import KeyKind, NoteKey
from controller.evidence.tree import EMPTY_ROOT, check_consistency, check_inclusion, leaf_hash
from controller.journal import Journal, Kind, NewEntry
from controller.journal_fsck import fsck
from controller.journal_log import (
    TILE_LEAVES,
    keep_cosignature,
    last_checkpoint,
    leaf_data,
    publish,
    sizes,
    stored,
    subtree,
)
from controller.journal_schema import _TABLES, APPLICATION_ID
from controller.logkeys import SigningKey, SiteKeys, keys_folder, load_log_public, load_site_keys, make_site_keys
from controller.treeproof import prove_consistency, prove_inclusion, subtree_of


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "journal.db"


@pytest.fixture
def journal(path: Path) -> Iterator[Journal]:
    with Journal.create(path) as journal:
        yield journal


@pytest.fixture
def keys(journal: Journal) -> SiteKeys:
    return make_site_keys(journal.path, "a site")


def fill(journal: Journal, count: int) -> None:
    start = len(journal)
    journal.append(*(NewEntry(Kind.SCRAPE, "node1", n, b"body %d" % n) for n in range(start, start + count)))


def tamper(path: Path, statement: str, *values: object) -> None:
    """Change the file as somebody does who holds the disk: no trigger stands in the way."""
    with sqlite3.connect(path) as connection:
        triggers = connection.execute("SELECT name, tbl_name, sql FROM sqlite_master WHERE type = 'trigger'").fetchall()
        for name, _, _ in triggers:
            connection.execute(f"DROP TRIGGER {name}")
        connection.execute(statement, values)
        for _, table, sql in triggers:
            if connection.execute("SELECT 1 FROM sqlite_master WHERE name = ?", (table,)).fetchone():
                connection.execute(sql)
    connection.close()


def texts(path: Path) -> list[str]:
    with Journal.open(path, read_only=True) as journal:
        return [fault.text for fault in fsck(journal, load_log_public(path)).faults]


def test_checkpoints_commit_to_every_entry(journal: Journal, keys: SiteKeys) -> None:
    known = []
    for count in (1, 2, 255, 1, 700, 0, 3):
        fill(journal, count)
        found = publish(journal, keys.log)
        hashes = [leaf_hash(data) for data in leaf_data(journal, 0, len(journal))]
        checkpoint, _ = open_checkpoint(found.note.encode(), keys.log.public)
        assert (checkpoint.size, checkpoint.root) == (len(hashes), subtree_of(hashes)(0, len(hashes)))
        known.append(checkpoint)
    assert sizes(journal) == [1, 3, 258, 259, 959, 962]
    assert known[4] == known[5]
    root = subtree(journal)
    for earlier in known:
        path = prove_consistency(earlier.size, 962, root)
        check_consistency(earlier.size, 962, path, earlier.root, known[-1].root)
    for index in (0, 255, 256, 600, 961):
        leaf = leaf_hash(next(leaf_data(journal, index, index + 1)))
        check_inclusion(index, 962, leaf, prove_inclusion(index, 962, root), known[-1].root)


def test_an_empty_journal_has_the_empty_root(journal: Journal, keys: SiteKeys) -> None:
    assert publish(journal, keys.log).checkpoint.root == EMPTY_ROOT
    fill(journal, 2)
    assert publish(journal, keys.log).checkpoint.size == 2


def test_tiles_are_read_instead_of_leaves(journal: Journal, keys: SiteKeys, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(journal, 4 * TILE_LEAVES + 5)
    publish(journal, keys.log)
    read: list[range] = []
    original = leaf_data

    def counted(journal: Journal, start: int, stop: int) -> Iterator[bytes]:
        read.append(range(start, stop))
        return original(journal, start, stop)

    monkeypatch.setattr("controller.journal_log.leaf_data", counted)
    prove_consistency(4 * TILE_LEAVES, 4 * TILE_LEAVES + 5, subtree(journal))
    assert sum(len(each) for each in read) == 5


def test_an_old_journal_becomes_a_log(path: Path) -> None:
    with Journal.create(path) as journal:
        fill(journal, 300)
    old = path.with_name("old.db")
    with sqlite3.connect(old, isolation_level=None) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.executescript(f"PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = 1; {_TABLES}")
        connection.execute("ATTACH ? AS new", (str(path),))
        connection.execute("INSERT INTO entry SELECT * FROM new.entry ORDER BY leaf")
    connection.close()
    path = old
    with Journal.open(path, read_only=True) as journal:
        assert sizes(journal) == []
        assert last_checkpoint(journal) is None
        assert fsck(journal).faults == ()
    with Journal.open(path) as journal:
        assert publish(journal, make_site_keys(path, "s").log).checkpoint.size == 300
        with pytest.raises(Exception, match="only grow"), journal.writing() as connection:
            connection.execute("INSERT INTO checkpoint VALUES (300, x'00', x'00')")
    assert texts(path) == []


@pytest.mark.parametrize("size", [4, 5, 6])
def test_a_checkpoint_is_never_smaller_nor_beyond_the_entries(journal: Journal, keys: SiteKeys, size: int) -> None:
    fill(journal, 5)
    publish(journal, keys.log)
    with pytest.raises(Exception, match="only grow"), journal.writing() as connection:
        connection.execute("INSERT INTO checkpoint VALUES (?, x'00', x'00')", (size,))
    for statement in ("UPDATE checkpoint SET note = x'00'", "DELETE FROM checkpoint"):
        with pytest.raises(Exception, match="append-only"), journal.writing() as connection:
            connection.execute(statement)


def test_nothing_is_signed_by_who_only_reads(journal: Journal, keys: SiteKeys) -> None:
    fill(journal, 1)
    with Journal.open(journal.path, read_only=True) as reader, pytest.raises(OperatorError, match="reading only"):
        publish(reader, keys.log)


def test_another_key_does_not_go_on(journal: Journal, keys: SiteKeys) -> None:
    fill(journal, 1)
    publish(journal, keys.log)
    fill(journal, 1)
    private = Ed25519PrivateKey.generate()
    other = SigningKey(NoteKey(keys.log.public.name, KeyKind.LOG, private.public_key().public_bytes_raw()), private)
    with pytest.raises(EvidenceError, match="no checkpoint was signed"):
        publish(journal, other)
    assert sizes(journal) == [1]


def test_subtrees_that_were_changed_are_not_gone_on_from(journal: Journal, keys: SiteKeys) -> None:
    fill(journal, 3)
    publish(journal, keys.log)
    tamper(journal.path, "UPDATE checkpoint SET hashes = zeroblob(64)")
    fill(journal, 1)
    with pytest.raises(EvidenceError, match="do not lead to its root"):
        publish(journal, keys.log)
    assert any("other subtrees" in text for text in texts(journal.path))


def test_fsck_names_an_entry_rewritten_with_its_digests(journal: Journal, keys: SiteKeys, path: Path) -> None:
    fill(journal, 6)
    publish(journal, keys.log)
    assert texts(path) == []
    with Journal.create(path.with_name("other.db")) as other:
        other.append(*(NewEntry(Kind.SCRAPE, "node1", n, b"body %d" % n) for n in (0, 1)))
        other.append(NewEntry(Kind.SCRAPE, "node1", 2, b"a better story"))
        row = other.rows("SELECT body, body_sha256, entry_sha256 FROM entry WHERE leaf = 2")[0]
    tamper(path, "UPDATE entry SET body = ?, body_sha256 = ?, entry_sha256 = ? WHERE leaf = 2", *row)
    assert texts(path) == [
        f"{path}: the checkpoint of 6 leaves commits to other entries than are there: an entry up to it was changed"
    ]


def test_fsck_names_a_journal_that_was_cut_short(journal: Journal, keys: SiteKeys, path: Path) -> None:
    fill(journal, 6)
    publish(journal, keys.log)
    tamper(path, "DELETE FROM entry WHERE leaf >= 4")
    assert any("cut short" in text for text in texts(path))


def test_fsck_names_a_damaged_leaf_once(journal: Journal, keys: SiteKeys, path: Path) -> None:
    fill(journal, 6)
    publish(journal, keys.log)
    tamper(path, "UPDATE entry SET body = x'00' WHERE leaf = 2")
    (found,) = texts(path)
    assert "the body of leaf 2" in found


def test_fsck_names_a_tile_and_a_forged_signature(journal: Journal, keys: SiteKeys, path: Path) -> None:
    fill(journal, TILE_LEAVES)
    note = publish(journal, keys.log).note.encode()
    tamper(path, "UPDATE tile SET hash = zeroblob(32)")
    assert [text.partition(": ")[2] for text in texts(path)] == ["tile 0 of level 1 is not what its leaves give"]
    tamper(path, "UPDATE checkpoint SET note = ?", note.replace(b"256\n", b"256\n", 1)[:-10] + b"AAAAAAA=\n")
    assert any("checkpoint of 256 leaves" in text for text in texts(path))


def test_a_witness_is_kept_once_and_only_if_it_is_one(journal: Journal, keys: SiteKeys) -> None:
    private = Ed25519PrivateKey.generate()
    witness = NoteKey("prover/w", KeyKind.WITNESS, private.public_key().public_bytes_raw())
    fill(journal, 3)
    kept = publish(journal, keys.log)
    line = cosign(kept.note, witness.name, private, 5).encode()
    for _ in range(2):
        assert keep_cosignature(journal, 3, line, witness) == 5
    again = stored(journal, 3)
    assert check_cosignature(again.note, witness) == 5
    assert len(again.note.signatures) == 2
    for bad in (line * 2, line[:-8] + "AAAAAA=\n", kept.note.signatures[0].encode(), "", "junk"):
        with pytest.raises(EvidenceError):
            keep_cosignature(journal, 3, bad, witness)


def test_keys_are_made_once_and_kept(path: Path) -> None:
    assert load_site_keys(path) is None
    first, again = make_site_keys(path, "a site"), make_site_keys(path, "another")
    assert first.log.public == again.log.public
    assert first.log.public.name == "weighbridge/a-site"
    assert first.report_public == again.report_public
    folder = keys_folder(path)
    assert [(each.name, each.stat().st_mode & 0o777) for each in sorted(folder.iterdir())] == [
        ("log.pem", 0o600),
        ("log.vkey", 0o644),
        ("report.pem", 0o600),
        ("report.pub", 0o644),
    ]
    shutil.copy(folder / "report.pem", folder / "log.pem")
    with pytest.raises(OperatorError, match="do not belong together"):
        load_site_keys(path)
