"""Checks a bundle against a policy, in numbered steps. Trust begins with the policy's keys and nowhere else.

1. Bundle: the file has the form of one.
2. Signatures: enough of the policy's keys signed the report's envelope.
3. Statement: what was signed is a report, in its one spelling.
4. Result: the document that is carried is the one that was signed, and has the signed verdict.
5. Checkpoint: the policy's log signed it, under its own name, which is that of the report's site.
6. Witnesses: enough of the policy's witnesses cosigned it, and none before the report's period was over.
7. Report in the log: the leaf is this very envelope's, and is in the checkpoint's tree.
8. Evidence in the log: the tree of the evidence is the beginning of the checkpoint's tree.
9. Entries (full): each body is what its leaf names, and the leaves give the root that was signed, none left out; no
   body is missing on which anything about the period rests (:mod:`controller.bundle_omission`).
10. Frames (full): each agent's frames are signed by its key and form a chain; if the policy names keys, by those.
    Leases, load windows and class tables are signed as they must be (:mod:`controller.journal_signatures`).
11. Recomputed (full): bounds, laws, limits and verdict computed anew from the entries give the same document; or, if
    the report was made by another program, a document that says the same in substance
    (:mod:`controller.bundle_substance`).
12. Agreement: each agreement that the result was held against is signed by both parties; if the policy names their
    keys, by those (:mod:`controller.bundle_agreement`).
"""

from __future__ import annotations

import contextlib
import enum
import hashlib
import io
import json
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from controller import journal_leaf as leaves
from controller.bundle import Extent, Head, read_head
from controller.bundle_agreement import check_agreements
from controller.bundle_rebuild import rebuild
from controller.bundle_statement import Report, report_of
from controller.bundle_substance import contradictions, differences, read_result
from controller.errors import EvidenceError
from controller.evidence import statement as statements
from controller.evidence.checkpoint import check_quorum, open_checkpoint
from controller.evidence.envelope import open_envelope
from controller.evidence.policy import Policy
from controller.evidence.refusal import VerificationError
from controller.evidence.tree import check_consistency, check_inclusion, leaf_hash
from controller.journal import Journal, Kind
from controller.journal_fsck import fsck
from controller.journal_leaf import Leaf
from controller.judgement import json_text, judge_period
from controller.logkeys import log_name
from controller.program import program_sha256

MOST_CLOCK_ERROR_NS = 600 * 10**9
"""How far the clocks of a site and a witness may be apart, before the times of one are no times of the other's."""


class Step(enum.Enum):
    """The steps, by their numbers."""

    BUNDLE = 1
    SIGNATURES = 2
    STATEMENT = 3
    RESULT = 4
    CHECKPOINT = 5
    WITNESSES = 6
    REPORT_IN_LOG = 7
    EVIDENCE_IN_LOG = 8
    ENTRIES = 9
    FRAMES = 10
    RECOMPUTED = 11
    AGREEMENT = 12


class StepError(EvidenceError):
    """A step failed; nothing after it was looked at."""

    def __init__(self, step: Step, why: str) -> None:
        self.step = step
        # What is told of a bundle goes to a terminal: nothing in it may move the cursor.
        why = "".join(each if each.isprintable() else "?" for each in why)
        super().__init__(f"step {step.value}, {step.name.lower().replace('_', ' ')}: {why}")


Say = Callable[[Step, str], None]
"""Takes each step that passed and what it showed."""


@dataclass(frozen=True, slots=True)
class Verified:
    """What holds now.

    Attributes:
        report: as it was signed.
        log_size: how many entries the log had under the bundle's checkpoint.
        witness_times: when each witness saw it, in seconds since 1970.
        computed: the result as computed here, a JSON document; None if the bundle has no entries and the result is
            the signers' word.
        same_program: whether the report says that it was made with this very program.
    """

    report: Report
    log_size: int
    witness_times: dict[str, int]
    computed: str | None = None
    same_program: bool = True

    @property
    def recomputed(self) -> bool:
        """Whether the verdict was computed anew."""
        return self.computed is not None


def verify(file: BinaryIO, policy: Policy, say: Say) -> Verified:
    """Check the bundle in ``file`` against ``policy`` by the steps of this module.

    Args:
        file: opened for reading bytes, buffered.
        policy: whom the reader trusts.
        say: hears of each step as it passes.

    Raises:
        StepError: a step failed; its text says which and why.
    """
    with _step(Step.BUNDLE):
        head = read_head(file)
    say(Step.BUNDLE, f"a {head.extent.value} bundle of version {head.version}")
    with _step(Step.SIGNATURES):
        payload = open_envelope(head.envelope, policy.report_keys, policy.threshold)
    say(
        Step.SIGNATURES, f"at least {policy.threshold} of the policy's {len(policy.report_keys)} keys signed the report"
    )
    with _step(Step.STATEMENT):
        report = report_of(statements.decode(payload))
    say(Step.STATEMENT, f"a report on site {report.site}: {report.verdict}, from {report.entries} entries")
    with _step(Step.RESULT):
        _check_result(head, report)
    say(Step.RESULT, f"the result of {len(head.result)} bytes is the signed one, and says {report.verdict} too")
    with _step(Step.CHECKPOINT):
        checkpoint, note = open_checkpoint(head.checkpoint, policy.log)
        if checkpoint.origin != log_name(report.site):
            raise VerificationError("the log is another site's than the report's")
    say(Step.CHECKPOINT, f"{checkpoint.origin} signed its tree of {checkpoint.size} entries")
    with _step(Step.WITNESSES):
        times = dict(check_quorum(note, policy.witnesses, policy.quorum))
        _check_times(times, report)
    alone = "" if times else ": its owner alone vouches for its history, and could keep two"
    say(Step.WITNESSES, f"{len(times)} of the policy's witnesses saw that tree; {policy.quorum} are asked for{alone}")
    with _step(Step.REPORT_IN_LOG):
        leaf = _check_report_leaf(head, report)
        check_inclusion(leaf.number, checkpoint.size, leaf_hash(head.report), head.inclusion, checkpoint.root)
    say(Step.REPORT_IN_LOG, f"the report is entry {leaf.number} of that tree")
    with _step(Step.EVIDENCE_IN_LOG):
        check_consistency(report.entries, checkpoint.size, head.evidence, report.journal_root, checkpoint.root)
    say(Step.EVIDENCE_IN_LOG, f"the evidence is the first {report.entries} entries of that tree")
    computed = None
    if head.extent is Extent.FULL:
        computed = _check_full(file, policy, head, report, say)
    else:
        with _step(Step.BUNDLE):
            _check_end(file)
    with _step(Step.AGREEMENT):
        result = read_result(head.result) if computed is None else json.loads(computed)
        agreed = check_agreements(result, policy.parties)
    say(Step.AGREEMENT, agreed)
    return Verified(report, checkpoint.size, times, computed, report.program_sha256 == program_sha256())


def verify_bytes(raw: bytes, policy: Policy, say: Say) -> Verified:
    """As :func:`verify`, of a bundle in memory."""
    return verify(io.BytesIO(raw), policy, say)


@contextlib.contextmanager
def _step(step: Step) -> Iterator[None]:
    try:
        yield
    except VerificationError as error:
        raise StepError(step, f"{error}.") from error


def _check_end(file: BinaryIO) -> None:
    if file.read(1):
        raise VerificationError("the bundle goes on after its end")


def _check_result(head: Head, report: Report) -> None:
    if hashlib.sha256(head.result).digest() != report.result_sha256:
        raise VerificationError("the result that the bundle carries is not the one that was signed")
    verdict = read_result(head.result).get("verdict")
    if verdict != report.verdict:
        raise VerificationError("the report and its result have different verdicts")


def _check_times(times: Mapping[str, int], report: Report) -> None:
    for name, time_s in times.items():
        if time_s * 10**9 < report.period.to_ns - MOST_CLOCK_ERROR_NS:
            raise VerificationError(f"{name} saw the report before the end of the period that it tells of")


def _check_report_leaf(head: Head, report: Report) -> Leaf:
    leaf = leaves.decode(head.report)
    if leaf.kind != Kind.REPORT.value or leaf.body_sha256 != hashlib.sha256(head.envelope).digest():
        raise VerificationError("the leaf that the bundle shows is another entry's, not this report's")
    if leaf.number < report.entries or leaf.source != report.site:
        raise VerificationError("the leaf that the bundle shows does not fit the report: another place or another site")
    return leaf


def _check_full(file: BinaryIO, policy: Policy, head: Head, report: Report, say: Say) -> str:
    """Check what only a full bundle has; return the result as computed here."""
    with (
        tempfile.TemporaryDirectory(prefix="weighbridge-verify-") as folder,
        Journal.create(Path(folder) / "evidence.db") as journal,
    ):
        with _step(Step.ENTRIES):
            dropped = rebuild(file, journal, report, head.version)
        without = f"; of {dropped} only the leaf, as nothing about the period rests on them" if dropped else ""
        say(
            Step.ENTRIES,
            f"all {report.entries} entries are here, each as its leaf names it, under the signed root{without}",
        )
        with _step(Step.FRAMES):
            frames, agents = _check_frames(journal, policy)
        say(Step.FRAMES, f"{frames} frames of {agents} agents are signed and chained")
        with _step(Step.RECOMPUTED):
            computed, how = _recompute(journal, head, report)
        say(Step.RECOMPUTED, f"computed anew from the entries: {how}: {report.verdict}")
        return computed


def _check_frames(journal: Journal, policy: Policy) -> tuple[int, int]:
    for entry in journal.entries(kinds=[Kind.ENROLMENT]) if policy.agents is not None else ():
        expected = [key.hex() for key in (policy.agents or {}).get(entry.source, ())]
        try:
            enrolled = json.loads(entry.body)["public_key"]
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise VerificationError(f"the enrolment in entry {entry.leaf} cannot be read") from error
        if enrolled not in expected:
            raise VerificationError(f"entry {entry.leaf} enrols {entry.source} with a key that is not the policy's")
    try:
        found = fsck(journal, verifier=(policy.parties or {}).get("verifier", ()))
    except Exception as error:
        raise VerificationError(f"the entries cannot be gone through ({type(error).__name__})") from error
    if found.faults:
        raise VerificationError(found.faults[0].text.removeprefix(f"{journal.path}: ").rstrip("."))
    return found.frames, found.agents


def _recompute(journal: Journal, head: Head, report: Report) -> tuple[str, str]:
    """Return the result computed here, and in which way the reported one is the same."""
    try:
        again = json_text(judge_period(journal, report.period))
    except Exception as error:
        raise VerificationError(f"the result cannot be computed from the entries ({type(error).__name__})") from error
    if again.encode() == head.result:
        return again, "the same result"
    reported, computed = read_result(head.result), json.loads(again)
    if report.program_sha256 == program_sha256():
        where = "; ".join(differences(reported, computed))
        raise VerificationError(f"the report and what its own evidence gives with the same program differ: {where}")
    where = "; ".join(contradictions(reported, computed))
    if where:
        raise VerificationError(
            f"the report (weighbridge {report.version}) and what its own evidence gives here contradict: {where}"
        )
    return again, "by another program than made the report; the same in substance, while words and details differ"
