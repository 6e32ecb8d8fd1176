"""Makes a report out of a journal: signs it, puts it into the log, and hands it out as a bundle."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

from controller.bundle import Extent, Head, write_bundle
from controller.bundle_omission import Omission
from controller.bundle_statement import JOURNAL, PREDICATE_TYPE, RESULT, Report, report_of
from controller.crosscheck.model import Period
from controller.evidence import statement as statements
from controller.evidence.envelope import open_envelope, seal
from controller.evidence.statement import Statement
from controller.journal import Entry, Journal, Kind, NewEntry
from controller.journal_entry import COLUMNS, Row, read_row
from controller.journal_log import best_witnessed, leaf_data, publish, subtree
from controller.judgement import Part, json_text, worst
from controller.logkeys import SiteKeys
from controller.program import program_sha256
from controller.treeproof import prove_consistency, prove_inclusion

_PAGE_ENTRIES = 256


def issue(
    journal: Journal,
    keys: SiteKeys,
    parts: tuple[Part, ...],
    *,
    size: int,
    period: Period,
    now_ns: int,
    result: bytes | None = None,
) -> int:
    """Sign the report on ``period``, which ``parts`` judge from the first ``size`` entries; return its leaf number.

    ``result`` is the document to sign; without it, that of ``parts``.

    Raises:
        EvidenceError: the journal does not continue its last checkpoint.
        OperatorError: it cannot be written.
    """
    result = json_text(parts).encode() if result is None else result
    site = parts[0].site.name
    statement = Statement(
        PREDICATE_TYPE,
        {JOURNAL: subtree(journal)(0, size), RESULT: hashlib.sha256(result).digest()},
        {
            "site": site,
            "period": {"from_ns": str(period.from_ns), "to_ns": str(period.to_ns)},
            "verdict": worst(parts).value,
            "entries": str(size),
            "issued_ns": str(now_ns),
            "version": version("weighbridge"),
            "program_sha256": program_sha256(),
        },
    )
    envelope = seal(statement.encode(), [keys.report])
    (leaf,) = journal.append(NewEntry(Kind.REPORT, site, now_ns, envelope))
    publish(journal, keys.log)
    assert leaf is not None  # noqa: S101  an entry without a sequence is always new
    return leaf


def write(journal: Journal, keys: SiteKeys, path: Path, *, leaf: int, size: int, result: bytes, extent: Extent) -> None:
    """Write the bundle of the report in ``leaf`` to ``path``.

    It stands under the newest checkpoint; or, if that one has fewer cosignatures than an earlier one that has the
    report as well, under the one with the most.

    Raises:
        EvidenceError: the journal is damaged.
        OperatorError: the file cannot be written.
    """
    publish(journal, keys.log)
    under = best_witnessed(journal, leaf)
    root = subtree(journal)
    entry = next(journal.entries(kinds=[Kind.REPORT], from_leaf=leaf))
    head = Head(
        extent,
        entry.body,
        result,
        under.note.encode(),
        next(leaf_data(journal, leaf, leaf + 1)),
        tuple(prove_inclusion(leaf, under.checkpoint.size, root)),
        tuple(prove_consistency(size, under.checkpoint.size, root)),
    )
    report = report_of(statements.decode(open_envelope(entry.body, [keys.report_public], 1)))
    write_bundle(path, head, _entries(journal, report) if extent is Extent.FULL else ())


def _entries(journal: Journal, report: Report) -> Iterator[tuple[bytes, bytes | None]]:
    query = f"SELECT {COLUMNS} FROM entry WHERE leaf BETWEEN ? AND ? ORDER BY leaf"  # noqa: S608  constants
    pruned_stop, _ = journal.pruned()
    rule = Omission(journal, report.period, report.entries)
    for first in range(0, report.entries, _PAGE_ENTRIES):
        for columns in journal.rows(query, first, min(first + _PAGE_ENTRIES, report.entries) - 1):
            found = read_row(journal.path, columns, pruned_stop=pruned_stop)
            row = Row(*columns[:-2])
            is_here = isinstance(found, Entry) and not rule.allows(row.leaf, row.kind)
            yield row.leaf_data(), columns[-1] if is_here else None
