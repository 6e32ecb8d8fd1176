"""Checks what the journal keeps as a log against its entries, while they go by (:mod:`controller.journal_fsck`)."""

from __future__ import annotations

from collections.abc import Iterator

from controller.errors import EvidenceError
from controller.evidence.checkpoint import check_cosignature, open_checkpoint
from controller.evidence.note import NoteKey, decode_key
from controller.evidence.refusal import VerificationError
from controller.evidence.tree import CompactRange, leaf_hash, node_hash
from controller.journal import Entry, Journal
from controller.journal_entry import Pruned
from controller.journal_log import TILE_LEAVES, Stored, has_log, sizes, stored, witnesses
from controller.logrotation import KeyHistory


class TreeCheck:
    """Feed it every leaf in order with :meth:`add`, then ask :meth:`faults`."""

    def __init__(self, journal: Journal, log: NoteKey | None) -> None:
        self._journal, self._log = journal, log
        self._keys = None if log is None else KeyHistory(journal, log)
        self._tree = CompactRange()
        self._tiles: list[list[bytes]] = []
        self._broken_at: int | None = None
        self._faults: list[str] = []
        self._sizes = iter(self._known())
        self._next: int | None = next(self._sizes, None)
        self.checkpoints = 0
        self._witnesses = list(self._known_witnesses())
        self._check_checkpoint()

    def add(self, leaf: int, entry: Entry | Pruned | EvidenceError, data: bytes) -> None:
        """Take the next leaf as it was found, with its data."""
        if self._broken_at is not None:
            return
        if isinstance(entry, EvidenceError) or leaf != self._tree.size:
            self._broken_at = self._tree.size
            return
        hashed = leaf_hash(data)
        self._tree.append(hashed)
        self._add_to_tiles(0, leaf, hashed)
        self._check_checkpoint()

    def faults(self) -> Iterator[str]:
        """Yield what is wrong, after the last leaf."""
        if self._keys is not None and self._keys.fault is not None:
            yield self._keys.fault
        yield from self._faults
        # Behind a damaged leaf, which is a fault by itself, no root can be computed.
        if self._next is not None and self._broken_at is None:
            yield (
                f"{self._journal.path}: a checkpoint of {self._next} leaves was signed, but only {self._tree.size} "
                "entries are there: the journal was cut short"
            )

    def _known(self) -> list[int]:
        try:
            return sizes(self._journal)
        except EvidenceError as error:
            self._faults.append(str(error))
            return []

    def _known_witnesses(self) -> Iterator[NoteKey]:
        try:
            for text in witnesses(self._journal):
                yield decode_key(text)
        except (EvidenceError, VerificationError) as error:
            self._faults.append(f"{self._journal.path}: the keys of the witnesses cannot be read: {error}")

    def _check_checkpoint(self) -> None:
        if self._next is None or self._next != self._tree.size:
            return
        size, self._next = self._next, next(self._sizes, None)
        self.checkpoints += 1
        where = f"{self._journal.path}: the checkpoint of {size} leaves"
        try:
            found = stored(self._journal, size)
            if self._keys is not None:
                open_checkpoint(found.note.encode(), self._keys.at(size))
            self._check_cosignatures(found)
        except EvidenceError as error:
            self._faults.append(str(error))
            return
        except VerificationError as error:
            self._faults.append(f"{where} does not check: {error}")
            return
        if found.checkpoint.root != self._tree.root():
            self._faults.append(f"{where} commits to other entries than are there: an entry up to it was changed")
        elif found.hashes != self._tree.hashes:
            self._faults.append(f"{where} is kept with other subtrees than the entries have")

    def _check_cosignatures(self, found: Stored) -> None:
        seen = {witness for witness in self._witnesses if check_cosignature(found.note, witness) is not None}
        # The log's own is checked apart; every other one was kept because it was a witness's.
        names = {(witness.name, witness.key_id) for witness in seen}
        log = None if self._keys is None else self._keys.at(found.checkpoint.size)
        for each in found.note.signatures[1:]:
            if (each.name, each.key_id) not in names and (log is None or each.key_id != log.key_id):
                raise VerificationError(f"a signature under the name {each.name} is of no witness that was ever asked")

    def _add_to_tiles(self, level: int, number: int, hashed: bytes) -> None:
        """Count a node of ``level``; when it makes the tile above whole, hold that against the one that is kept."""
        if level == len(self._tiles):
            self._tiles.append([])
        nodes = self._tiles[level]
        nodes.append(hashed)
        if len(nodes) < TILE_LEAVES:
            return
        while len(nodes) > 1:
            nodes = [node_hash(*nodes[at : at + 2]) for at in range(0, len(nodes), 2)]
        self._tiles[level] = []
        place = level + 1, number // TILE_LEAVES
        if has_log(self._journal):
            rows = self._journal.rows("SELECT hash FROM tile WHERE level = ? AND number = ?", *place)
            if rows and rows[0][0] != nodes[0]:
                self._faults.append(
                    f"{self._journal.path}: tile {place[1]} of level {place[0]} is not what its leaves give"
                )
        self._add_to_tiles(*place, nodes[0])
