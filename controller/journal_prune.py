"""Drops what was measured long ago and keeps what proves it: leaves, tree, checkpoints, cosignatures, decisions.

What goes is the *bodies* of entries that collectors wrote (:data:`~controller.journal_schema.PRUNABLE`), recorded ten
minutes before a time T and earlier. The last :data:`LAST_OF_EACH` of each kind and source before that stay, so that
chains go on, and periods from T on are judged as they were, however long ago the readings at their edge were taken.

Rules (docs/adr/0096):

1. A signed checkpoint commits to all that goes; if the site has witnesses, one of them cosigned it.
2. A logged report has judged every moment of what goes.
3. No report that goes with it is open: a violation or an inconclusive result needs its evidence, until the operator
   names it as settled.
4. The decision is an entry of its own, and on the disk before the first body goes. A prune that was interrupted goes on
   with the next.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

from controller.bundle_statement import Report, report_of
from controller.errors import EvidenceError, OperatorError
from controller.evidence import statement as statements
from controller.evidence.grammar import decimal
from controller.evidence.refusal import VerificationError
from controller.journal import Journal, Kind, NewEntry
from controller.journal_entry import COLUMNS, Entry, Row
from controller.journal_leaf import Leaf
from controller.journal_schema import PRUNABLE

KEPT_BEFORE_NS = 600 * 10**9
"""What is kept before T: bounds at a period's edge rest on the readings outside it."""

LAST_OF_EACH = 30
"""As many as the reading of clocks at a period's edge takes; everything else takes fewer."""

_CHUNK_ENTRIES = 500
_DROPPED = f"kind IN {PRUNABLE} AND leaf < ? AND length(body) > 0"


@dataclass(frozen=True, slots=True)
class Plan:
    """What would go.

    Attributes:
        before_ns: T, on the timeline.
        stop: the first leaf whose body stays whatever it is.
        entries: how many bodies go.
        body_bytes: how many bytes they have.
        first_ns: when the oldest of them was recorded; None if none goes.
    """

    before_ns: int
    stop: int
    entries: int
    body_bytes: int
    first_ns: int | None


@dataclass(frozen=True, slots=True)
class Logged:
    """A report in the log."""

    leaf: int
    report: Report


def plan(journal: Journal, before_ns: int) -> Plan:
    """Return what would go of ``journal`` before ``before_ns``.

    Raises:
        OperatorError: the time is in the future, or before what went already.
    """
    last_ns = journal.last_recorded_ns()
    known_stop, known_ns = journal.pruned()
    if last_ns is None or before_ns > last_ns:
        raise OperatorError("nothing was recorded after the time to prune before. Name an earlier one.")
    if known_ns is not None and before_ns < known_ns:
        raise OperatorError("a later prune dropped all of that already.")
    first = journal.rows("SELECT min(leaf) FROM entry WHERE recorded_ns >= ?", before_ns - KEPT_BEFORE_NS)[0][0]
    stop = max(int(first), known_stop)
    entries, size, first_ns = 0, 0, None
    for chunk in _to_drop(journal, stop):
        entries += len(chunk)
        size += sum(length for _, length, _ in chunk)
        first_ns = (
            min(at_ns for *_, at_ns in chunk) if first_ns is None else min(first_ns, *(each[2] for each in chunk))
        )
    return Plan(before_ns, stop, entries, size, first_ns)


def last_of_each(journal: Journal, stop: int) -> Collection[int]:
    """Return the leaves before ``stop`` that are among the last of their kind and source."""
    query = (
        "SELECT leaf FROM (SELECT leaf, row_number() OVER (PARTITION BY kind, source ORDER BY leaf DESC) AS place "
        "FROM entry WHERE leaf < ?) WHERE place <= ?"
    )
    return {leaf for (leaf,) in journal.rows(query, stop, LAST_OF_EACH)}


def _to_drop(journal: Journal, stop: int) -> Iterator[list[tuple[int, int, int]]]:
    """Yield leaf, length and time recorded of each body before ``stop`` that goes, some at a time."""
    kept, seen = last_of_each(journal, stop), -1
    query = f"SELECT leaf, length(body), recorded_ns FROM entry WHERE {_DROPPED} AND leaf > ? ORDER BY leaf LIMIT ?"  # noqa: S608
    while rows := journal.rows(query, stop, seen, _CHUNK_ENTRIES):
        seen = rows[-1][0]
        chunk = [(leaf, length, at_ns) for leaf, length, at_ns in rows if leaf not in kept]
        if chunk:
            yield chunk


def logged_reports(journal: Journal) -> Iterator[Logged]:
    """Yield every report in the log.

    Raises:
        EvidenceError: one cannot be read.
    """
    for entry in journal.entries(kinds=[Kind.REPORT]):
        yield Logged(entry.leaf, _report(journal, entry))


def _report(journal: Journal, entry: Entry) -> Report:
    try:
        return report_of(statements.decode(base64.b64decode(json.loads(entry.body)["payload"])))
    except (ValueError, KeyError, TypeError, VerificationError) as error:
        raise EvidenceError(f"{journal.path}: leaf {entry.leaf} is not a report that can be read: {error}") from error


def refuse_if_needed(journal: Journal, what: Plan, settled: Collection[int]) -> None:
    """Return if nobody needs what would go.

    Raises:
        OperatorError: an open report does, or nobody judged some of it; the text names which, and the remedy.
    """
    if what.first_ns is None:
        return
    touched = [each for each in logged_reports(journal) if each.report.period.from_ns < what.before_ns]
    unknown = set(settled) - {each.leaf for each in touched}
    if unknown:
        raise OperatorError(f"entry {min(unknown)} is no report on what would go. Name open reports as settled only.")
    for each in touched:
        if each.report.verdict != "compliant" and each.leaf not in settled:
            raise OperatorError(
                f"the report in entry {each.leaf} says {each.report.verdict} and needs what would go. "
                f"Once both sides are done with it, name it: --settled {each.leaf}"
            )
    at = what.first_ns
    for begin, end in sorted((each.report.period.from_ns, each.report.period.to_ns) for each in touched):
        if begin <= at:
            at = max(at, end)
    if at < what.before_ns:
        raise OperatorError(
            "nobody judged some of what would go: no report in the log is about it. Write one first: "
            f"`weighbridge report --from {_second(at)} --to {_second(what.before_ns + 10**9 - 1)}`"
        )


def _second(time_ns: int) -> str:
    """Return the second that has begun at ``time_ns``, as options take it."""
    return f"{datetime.fromtimestamp(time_ns // 10**9, timezone.utc):%Y-%m-%dT%H:%M:%SZ}"


def decide(journal: Journal, site: str, what: Plan, settled: Collection[int], *, now_ns: int) -> int:
    """Journal the decision to carry out ``what``; return its leaf."""
    body = {
        "before_ns": str(what.before_ns),
        "stop": str(what.stop),
        "entries": str(what.entries),
        "body_bytes": str(what.body_bytes),
        "settled": [str(leaf) for leaf in sorted(settled)],
    }
    (leaf,) = journal.append(NewEntry(Kind.PRUNE, site, now_ns, json.dumps(body).encode()))
    assert leaf is not None  # noqa: S101  an entry without a sequence is always new
    return leaf


def carry_out(journal: Journal) -> int:
    """Drop what the journaled decisions say, as far as it is still there; return how many bodies went.

    Raises:
        EvidenceError: a decision cannot be read.
        OperatorError: the journal cannot be written.
    """
    last = journal.last(Kind.PRUNE)
    if last is None:
        return 0
    before_ns, stop = read_decision(last)
    if reaches_too_far(journal, before_ns, stop):
        raise EvidenceError(
            f"leaf {last.leaf} decides to drop what was recorded later than it says; nothing was dropped"
        )
    with journal.writing() as connection:
        # What is dropped is not to be found in the file afterwards.
        connection.execute("PRAGMA secure_delete = ON")
        connection.execute("INSERT OR IGNORE INTO prune VALUES (?, ?, ?)", (stop, before_ns, last.leaf))
    dropped = 0
    for chunk in _to_drop(journal, stop):
        with journal.writing() as connection:
            connection.executemany("UPDATE entry SET body = x'' WHERE leaf = ?", [(leaf,) for leaf, *_ in chunk])
        dropped += len(chunk)
    return dropped


def read_decision(entry: Entry) -> tuple[int, int]:
    """Return T, and the first leaf whose body stays.

    Raises:
        EvidenceError: it cannot be read.
    """
    try:
        body: Any = json.loads(entry.body)
        before_ns, stop = (decimal(body[key], key) for key in ("before_ns", "stop"))
    except (ValueError, KeyError, TypeError, VerificationError) as error:
        raise EvidenceError(f"leaf {entry.leaf} is not a decision to prune that can be read: {error}") from error
    if stop > entry.leaf:
        raise EvidenceError(f"leaf {entry.leaf} decides to drop what came after it")
    return before_ns, stop


def reaches_too_far(journal: Journal, before_ns: int, stop: int) -> bool:
    """Return whether an entry before leaf ``stop`` was recorded too late to go with a prune before ``before_ns``.

    Else a decision could name an early time, by which periods are refused, and take what came long after it.
    """
    latest = journal.rows("SELECT max(recorded_ns) FROM entry WHERE leaf < ?", stop)[0][0]
    return latest is not None and latest >= before_ns - KEPT_BEFORE_NS


def wrongly_dropped(journal: Journal, stop: int) -> list[int]:
    """Return the leaves whose bodies are gone though no decision takes them: the last of each kind and source stays."""
    query = (
        f"SELECT leaf FROM entry WHERE kind IN {PRUNABLE} AND leaf < ? AND length(body) = 0 AND body_sha256 <> ? "  # noqa: S608
        "AND leaf IN (SELECT max(leaf) FROM entry WHERE leaf < ? GROUP BY kind, source) ORDER BY leaf"
    )
    return [row[0] for row in journal.rows(query, stop, hashlib.sha256(b"").digest(), stop)]


class Decisions:
    """Holds what is kept about dropped bodies against the decisions that go by."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._decided: dict[int, tuple[int, int]] = {}
        self._faults: list[str] = []

    def add(self, entry: Entry) -> None:
        """Take the next decision."""
        try:
            self._decided[entry.leaf] = read_decision(entry)
        except EvidenceError as error:
            self._faults.append(f"{self._journal.path}: {error}")

    def faults(self) -> Iterator[str]:
        """Yield what is wrong, after the last entry."""
        yield from self._faults
        if self._journal.rows("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'prune'"):
            for stop, before_ns, leaf in self._journal.rows("SELECT stop, before_ns, decision FROM prune"):
                if self._decided.get(leaf) != (before_ns, stop):
                    yield f"{self._journal.path}: bodies before leaf {stop} may go, and leaf {leaf} does not say so"
                if reaches_too_far(self._journal, before_ns, stop):
                    yield f"{self._journal.path}: leaf {leaf} decides to drop what was recorded later than it says"
            for leaf in wrongly_dropped(self._journal, self._journal.pruned()[0]):
                yield f"{self._journal.path}: the body of leaf {leaf}, the last of its kind, was not to be dropped"


def append_pruned(journal: Journal, without: Sequence[Leaf]) -> None:
    """Append entries whose bodies are not known, as a copy of a pruned journal has them.

    Raises:
        EvidenceError: bodies of a kind among them are never dropped.
    """
    if not without:
        return
    marks = ", ".join("?" * (len(Row._fields) + 2))
    with journal.writing() as connection:
        for leaf in without:
            if leaf.kind not in PRUNABLE:
                raise EvidenceError(f"entry {leaf.number} ({leaf.kind}) has no body, and none of its kind is dropped")
            row = Row(leaf.number, leaf.kind, leaf.source, leaf.sequence, leaf.recorded_ns, leaf.meta, leaf.body_sha256)
            connection.execute(f"INSERT INTO entry ({COLUMNS}) VALUES ({marks})", (*row, row.digest(), b""))  # noqa: S608
