"""The journal as a log: the RFC 6962 tree over its entries, and the signed checkpoints that commit to it.

The tree is computed from the entries (:mod:`controller.journal_leaf` says which bytes a leaf is). Two things are kept
so that nobody has to read all of them: with each checkpoint the full subtrees that the tree goes on from, and roots of
256, 256 x 256, ... leaves (*tiles*), from which proofs are made.

Rules of signing:

1. A checkpoint is signed only of entries that are on the disk.
2. The last checkpoint is read back first: its signature must be this key's, or that of one that handed over to it
   (:mod:`controller.logrotation`), and the subtrees kept lead to its root.
3. The new one is opened as a stranger would, and shown to continue the last one, before it is kept.
4. It is kept in a transaction that takes nothing but a larger tree. Only what is kept is ever handed out.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from controller.errors import EvidenceError
from controller.evidence import checkpoint as checkpoints
from controller.evidence import note as notes
from controller.evidence.checkpoint import Checkpoint, check_cosignature, open_checkpoint
from controller.evidence.note import Note, NoteKey
from controller.evidence.refusal import VerificationError
from controller.evidence.tree import HASH_BYTES, CompactRange, check_consistency, leaf_hash, node_hash
from controller.journal import Journal
from controller.journal_entry import Row
from controller.logkeys import SigningKey
from controller.logrotation import KeyHistory
from controller.treeproof import Subtree, prove_consistency

TILE_LEAVES = 256
"""Tile level n holds this many of level n-1; level 0 is the leaves."""

_HEADERS = f"SELECT {', '.join(Row._fields)} FROM entry WHERE leaf BETWEEN ? AND ? ORDER BY leaf"  # noqa: S608
_PAGE_LEAVES = 1024


@dataclass(frozen=True, slots=True)
class Stored:
    """A checkpoint as the journal keeps it; ``note`` carries the cosignatures that came in."""

    checkpoint: Checkpoint
    note: Note
    hashes: tuple[bytes, ...]


def leaf_data(journal: Journal, start: int, stop: int) -> Iterator[bytes]:
    """Yield the data of leaves ``start`` to ``stop - 1``.

    Raises:
        EvidenceError: one is missing, or the file is damaged.
    """
    expected = start
    for first in range(start, stop, _PAGE_LEAVES):
        for values in journal.rows(_HEADERS, first, min(first + _PAGE_LEAVES, stop) - 1):
            row = Row(*values)
            if row.leaf != expected:
                break
            expected += 1
            yield row.leaf_data()
    if expected < stop:
        raise EvidenceError(f"{journal.path}: leaf {expected} is missing. Run `weighbridge journal fsck`.")


def has_log(journal: Journal) -> bool:
    """Return whether the journal is of a format that keeps checkpoints."""
    return bool(journal.rows("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'checkpoint'"))


def sizes(journal: Journal) -> list[int]:
    """Return the sizes of the checkpoints there are, smallest first."""
    return [row[0] for row in journal.rows("SELECT size FROM checkpoint ORDER BY size")] if has_log(journal) else []


def stored(journal: Journal, size: int) -> Stored:
    """Return the checkpoint of ``size``; its form is checked, its signatures are not.

    Raises:
        EvidenceError: there is none, or it cannot be read.
    """
    rows = journal.rows("SELECT note, hashes FROM checkpoint WHERE size = ?", size)
    if not rows:
        raise EvidenceError(f"{journal.path}: there is no checkpoint of {size} leaves.")
    raw, packed = rows[0]
    try:
        note = notes.decode(raw)
        lines = journal.rows("SELECT line FROM cosignature WHERE size = ? ORDER BY line", size)
        more = notes.decode_signatures("".join(line for (line,) in lines)) if lines else ()
        found = checkpoints.decode(note.text)
    except VerificationError as error:
        raise EvidenceError(f"{journal.path}: the checkpoint of {size} leaves: {error}. Restore a copy.") from error
    if found.size != size:
        raise EvidenceError(f"{journal.path}: the checkpoint of {found.size} leaves is kept as one of {size}.")
    hashes = tuple(packed[at : at + HASH_BYTES] for at in range(0, len(packed), HASH_BYTES))
    return Stored(found, Note(note.text, (*note.signatures, *more)), hashes)


def last_checkpoint(journal: Journal) -> Stored | None:
    """Return the newest checkpoint, or None before the first.

    Raises:
        EvidenceError: it cannot be read.
    """
    known = sizes(journal)
    return stored(journal, known[-1]) if known else None


def publish(journal: Journal, key: SigningKey) -> Stored:
    """Return a checkpoint of everything the journal holds now, signed and kept; the last one if nothing came since.

    Raises:
        EvidenceError: what is there does not check; nothing was signed.
        OperatorError: the journal cannot be written.
    """
    size = len(journal)
    last = last_checkpoint(journal)
    if last is not None and last.checkpoint.size >= size:
        return last
    try:
        keys = KeyHistory(journal, key.public)
        keys.check_is_newest()
        tree = CompactRange() if last is None else _resume(last, keys.at(last.checkpoint.size))
        tiles = _Tiles(journal, tree.size)
        for data in leaf_data(journal, tree.size, size):
            hashed = leaf_hash(data)
            tree.append(hashed)
            tiles.append(hashed)
        checkpoint = Checkpoint(key.public.name, tree.size, tree.root())
        note = checkpoints.sign(checkpoint, key.private)
        open_checkpoint(note.encode(), key.public)
        if last is not None and last.checkpoint.size > 0:
            path = prove_consistency(last.checkpoint.size, size, subtree(journal, tiles.fresh))
            check_consistency(last.checkpoint.size, size, path, last.checkpoint.root, checkpoint.root)
    except VerificationError as error:
        raise EvidenceError(
            f"{journal.path}: no checkpoint was signed, because the journal does not continue the last one: {error}. "
            "Keep the file as it is and run `weighbridge journal fsck`."
        ) from error
    with journal.writing() as connection:
        newest = connection.execute("SELECT coalesce(max(size), -1) FROM checkpoint").fetchone()[0]
        if newest < size:
            connection.execute(
                "INSERT INTO checkpoint (size, note, hashes) VALUES (?, ?, ?)",
                (size, note.encode(), b"".join(tree.hashes)),
            )
            connection.executemany(
                "INSERT OR IGNORE INTO tile (level, number, hash) VALUES (?, ?, ?)",
                [(level, number, value) for (level, number), value in tiles.fresh.items()],
            )
    # Another process may have been faster: what it kept is the journal's.
    return stored(journal, max(newest, size))


def keep_cosignature(journal: Journal, size: int, line: str, witness: NoteKey) -> int:
    """Keep a witness's signature line for the checkpoint of ``size``; return when it saw it, in seconds since 1970.

    Raises:
        EvidenceError: it is not this witness's cosignature of that checkpoint.
    """
    kept = stored(journal, size)
    try:
        note = Note(kept.note.text, notes.decode_signatures(line))
        time_s = check_cosignature(note, witness)
    except VerificationError as error:
        raise EvidenceError(f"the cosignature of {witness.name} was not kept: {error}") from error
    if time_s is None or len(note.signatures) != 1:
        raise EvidenceError(f"the answer of {witness.name} is not one cosignature of its key; it was not kept")
    with journal.writing() as connection:
        connection.execute("INSERT OR IGNORE INTO witness (vkey) VALUES (?)", (witness.encode(),))
        connection.execute("INSERT OR IGNORE INTO cosignature (size, line) VALUES (?, ?)", (size, line))
    return time_s


def best_witnessed(journal: Journal, leaf: int) -> Stored:
    """Return, of the checkpoints that commit to ``leaf``, the one with the most cosignatures; of these the newest.

    Raises:
        EvidenceError: there is none, or it cannot be read.
    """
    rows = journal.rows(
        "SELECT checkpoint.size FROM checkpoint LEFT JOIN cosignature USING (size) WHERE size > ? "
        "GROUP BY size ORDER BY count(line) DESC, size DESC LIMIT 1",
        leaf,
    )
    if not rows:
        raise EvidenceError(
            f"{journal.path}: no checkpoint commits to entry {leaf}. Run `weighbridge journal checkpoint`."
        )
    return stored(journal, rows[0][0])


def cosigned_size(journal: Journal, witness: NoteKey) -> int:
    """Return the size of the newest checkpoint that ``witness`` cosigned, as far as the journal knows; 0 for none.

    Raises:
        EvidenceError: a cosignature that is kept cannot be read.
    """
    if not has_log(journal):
        return 0
    for size, line in journal.rows("SELECT size, line FROM cosignature ORDER BY size DESC"):
        try:
            (found,) = notes.decode_signatures(line)
        except VerificationError as error:
            raise EvidenceError(
                f"{journal.path}: a cosignature of the checkpoint of {size} leaves: {error}. Restore a copy."
            ) from error
        if (found.name, found.key_id) == (witness.name, witness.key_id):
            return int(size)
    return 0


def witnesses(journal: Journal) -> list[str]:
    """Return the verifier keys of the witnesses whose cosignatures the journal has."""
    known = journal.rows("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'witness'")
    return [row[0] for row in journal.rows("SELECT vkey FROM witness ORDER BY vkey")] if known else []


def subtree(journal: Journal, fresh: dict[tuple[int, int], bytes] | None = None) -> Subtree:
    """Return the roots of subtrees of the journal, from tiles where there are some.

    Args:
        journal: whose.
        fresh: tiles that are not kept yet.
    """

    def root(start: int, stop: int) -> bytes:
        count = stop - start
        level = next((n for n in range(1, 8) if TILE_LEAVES**n == count and start % count == 0), 0)
        if level:
            place = level, start // count
            if fresh and place in fresh:
                return fresh[place]
            rows = journal.rows("SELECT hash FROM tile WHERE level = ? AND number = ?", *place)
            if rows:
                return bytes(rows[0][0])
        if count <= TILE_LEAVES:
            tree = CompactRange()
            for data in leaf_data(journal, start, stop):
                tree.append(leaf_hash(data))
            return tree.root()
        middle = start + (1 << (count - 1).bit_length() - 1)
        return node_hash(root(start, middle), root(middle, stop))

    return root


def _resume(last: Stored, key: NoteKey) -> CompactRange:
    found, _ = open_checkpoint(last.note.encode(), key)
    tree = CompactRange(found.size, last.hashes)
    if tree.root() != found.root:
        raise VerificationError("the subtrees kept with the last checkpoint do not lead to its root")
    return tree


class _Tiles:
    """The tiles that become whole while leaves are added from ``size`` on."""

    def __init__(self, journal: Journal, size: int) -> None:
        self.fresh: dict[tuple[int, int], bytes] = {}
        self._root = subtree(journal, self.fresh)
        self._size = size
        # The tile that is under way began before: its first leaves are read again.
        self._tile = CompactRange()
        for data in leaf_data(journal, size - size % TILE_LEAVES, size):
            self._tile.append(leaf_hash(data))

    def append(self, hashed_leaf: bytes) -> None:
        self._tile.append(hashed_leaf)
        self._size += 1
        if self._size % TILE_LEAVES:
            return
        self.fresh[1, self._size // TILE_LEAVES - 1] = self._tile.root()
        self._tile = CompactRange()
        level, leaves = 2, TILE_LEAVES**2
        while self._size % leaves == 0:
            self.fresh[level, self._size // leaves - 1] = self._root_of(leaves)
            level, leaves = level + 1, leaves * TILE_LEAVES

    def _root_of(self, leaves: int) -> bytes:
        half = self._size - leaves // 2
        return node_hash(self._root(self._size - leaves, half), self._root(half, self._size))
