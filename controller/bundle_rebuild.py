"""Makes a journal out of a full bundle's entries: step 9 of :mod:`controller.bundle_steps`."""

from __future__ import annotations

from typing import Any, BinaryIO

from controller import journal_leaf as leaves
from controller.bundle_entries import read_entries
from controller.bundle_omission import check_missing
from controller.bundle_statement import Report
from controller.errors import WeighbridgeError
from controller.evidence.grammar import json_object
from controller.evidence.refusal import VerificationError
from controller.evidence.tree import CompactRange, leaf_hash
from controller.journal import Journal, Kind, NewEntry
from controller.journal_leaf import Leaf
from controller.journal_prune import append_pruned, carry_out, wrongly_dropped

_CHUNK_ENTRIES = 500


def rebuild(file: BinaryIO, journal: Journal, report: Report, version: int) -> int:
    """Fill ``journal`` with the bundle's entries; what is in it afterwards has the root that was signed.

    Returns:
        How many bodies are missing; none that the report's period needs. In a bundle of version 1 a decision among
        the entries dropped each.

    Raises:
        VerificationError: an entry is missing, another one, out of place, or cannot be what was recorded.
    """
    tree = CompactRange()
    waiting: list[NewEntry] = []
    without: list[Leaf] = []
    dropped, last_dropped = 0, -1
    for data, body in read_entries(file):
        leaf = leaves.decode(data)
        if leaf.number != tree.size or tree.size >= report.entries:
            raise VerificationError(f"entry {tree.size} of the evidence is missing, or there are more than were signed")
        tree.append(leaf_hash(data))
        if body is None:
            _append(journal, waiting)
            without.append(leaf)
            dropped, last_dropped = dropped + 1, leaf.number
        else:
            _append_dropped(journal, without)
            leaf.check_body(body)
            waiting.append(_entry(leaf, body))
        if len(waiting) == _CHUNK_ENTRIES:
            _append(journal, waiting)
        if len(without) == _CHUNK_ENTRIES:
            _append_dropped(journal, without)
    _append(journal, waiting)
    _append_dropped(journal, without)
    if tree.size != report.entries or tree.root() != report.journal_root:
        raise VerificationError(f"the bundle's {tree.size} entries do not give the root that was signed")
    if version > 1:
        check_missing(journal, report.period)
    elif dropped:
        _check_dropped(journal, last_dropped, report)
    return dropped


def _append_dropped(journal: Journal, without: list[Leaf]) -> None:
    try:
        append_pruned(journal, without)
    except WeighbridgeError as error:
        raise VerificationError(f"an entry of the evidence cannot be what was recorded: {error}") from error
    without.clear()


def _check_dropped(journal: Journal, last_dropped: int, report: Report) -> None:
    """Return if the evidence itself decides that bodies up to ``last_dropped`` go, and the period begins after that."""
    try:
        carry_out(journal)
    except WeighbridgeError as error:
        raise VerificationError(f"a body is missing, and no decision to drop it can be read: {error}") from error
    stop, before_ns = journal.pruned()
    if last_dropped >= stop or before_ns is None:
        raise VerificationError(
            f"the body of entry {last_dropped} is missing, and no entry decides that it was dropped"
        )
    if wrongly_dropped(journal, stop):
        raise VerificationError(f"the body of entry {wrongly_dropped(journal, stop)[0]} is missing, and was not to go")
    if report.period.from_ns < before_ns:
        raise VerificationError("the report's period begins before the time whose evidence was dropped")


def _entry(leaf: Leaf, body: bytes) -> NewEntry:
    try:
        kind = Kind(leaf.kind)
    except ValueError as error:
        raise VerificationError(
            f"entry {leaf.number} is of a kind that this program does not know; update it"
        ) from error
    meta: Any = json_object(leaf.meta.encode("utf-8", "surrogatepass"), f"the meta of entry {leaf.number}")
    return NewEntry(kind, leaf.source, leaf.recorded_ns, body, meta, leaf.sequence)


def _append(journal: Journal, waiting: list[NewEntry]) -> None:
    try:
        if None in journal.append(*waiting):
            raise VerificationError("two entries of the evidence have the same kind, source and number")
    except WeighbridgeError as error:
        raise VerificationError(f"an entry of the evidence cannot be what was recorded: {error}") from error
    waiting.clear()
