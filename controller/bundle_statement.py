"""What a report's statement says, for who writes it and who reads it."""

from __future__ import annotations

from dataclasses import dataclass

from controller.crosscheck.model import Period, Verdict
from controller.evidence.grammar import decimal, text_of
from controller.evidence.refusal import VerificationError
from controller.evidence.statement import Statement

PREDICATE_TYPE = "urn:weighbridge:verdict:v1"

JOURNAL = "journal"
"""Subject: the root of the RFC 6962 tree over the entries that the verdict was computed from."""

RESULT = "result.json"
"""Subject: the cross-check's document."""


@dataclass(frozen=True, slots=True)
class Report:
    """A report as its statement tells it. Times are a claim of the log's.

    ``entries`` is how many the evidence has; ``program_sha256`` says with which program it was made
    (:mod:`controller.program`), empty in reports of before.
    """

    site: str
    period: Period
    verdict: str
    entries: int
    version: str
    journal_root: bytes
    result_sha256: bytes
    program_sha256: str = ""


def report_of(statement: Statement) -> Report:
    """Return the report that ``statement`` is.

    Raises:
        VerificationError: it is another statement, or says too little.
    """
    if statement.predicate_type != PREDICATE_TYPE:
        raise VerificationError(f"the statement is not a report ({PREDICATE_TYPE})")
    if not {JOURNAL, RESULT} <= set(statement.subjects):
        raise VerificationError("the report does not name its evidence and its result")
    predicate = dict(statement.predicate)
    period = predicate.get("period")
    if not isinstance(period, dict):
        raise VerificationError("the report names no period")
    begin, end = (decimal(text_of(period, key, "the period"), "the period") for key in ("from_ns", "to_ns"))
    entries = decimal(text_of(predicate, "entries", "the report"), "the number of entries")
    if not begin < end or entries < 1:
        raise VerificationError("the report is of an empty period, or of no evidence")
    site, verdict, version = (text_of(predicate, key, "the report") for key in ("site", "verdict", "version"))
    if verdict not in {each.value for each in Verdict}:
        raise VerificationError("the report's verdict is none that there is")
    if not (site.isprintable() and version.isprintable()):
        # They are shown: what moves a cursor could write steps that were never checked.
        raise VerificationError("the report's site or version is not printable text")
    subjects = statement.subjects
    program = predicate.get("program_sha256", "")
    if not isinstance(program, str):
        raise VerificationError("the report does not name its program as text")
    return Report(site, Period(begin, end), verdict, entries, version, subjects[JOURNAL], subjects[RESULT], program)
