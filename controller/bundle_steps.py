"""Checks a bundle against a policy, in numbered steps. Trust begins with the policy's keys and nowhere else.

1. Bundle: the file has the form of one.
2. Signatures: enough of the policy's keys signed the report's envelope.
3. Statement: what was signed is a report, in its one spelling.
4. Result: the document that is carried is the one that was signed, and has the signed verdict.
5. Checkpoint: the policy's log signed it, under its own name.
6. Witnesses: enough of the policy's witnesses cosigned it.
7. Report in the log: the leaf is this very envelope's, and is in the checkpoint's tree.
8. Evidence in the log: the tree of the evidence is the beginning of the checkpoint's tree.
9. Entries (full): each body is what its leaf names, and the leaves give the root that was signed, none left out; a
   body is missing only where an entry among them decides that, and then the period begins later.
10. Frames (full): each agent's frames are signed by its key and form a chain; if the policy names keys, by those.
11. Recomputed (full): bounds, laws, limits and verdict computed anew from the entries give the same document.
"""

from __future__ import annotations

import contextlib
import enum
import hashlib
import io
import json
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from controller.bundle import Extent, Head, read_entries, read_head
from controller.bundle_statement import Report, report_of
from controller.errors import EvidenceError, WeighbridgeError
from controller.evidence import leaf as leaves
from controller.evidence import statement as statements
from controller.evidence.checkpoint import check_quorum, open_checkpoint
from controller.evidence.envelope import open_envelope
from controller.evidence.grammar import json_object
from controller.evidence.leaf import Leaf
from controller.evidence.policy import Policy
from controller.evidence.refusal import VerificationError
from controller.evidence.tree import CompactRange, check_consistency, check_inclusion, leaf_hash
from controller.journal import Journal, Kind, NewEntry
from controller.journal_fsck import fsck
from controller.journal_prune import append_pruned, carry_out
from controller.judgement import json_text, judge_period

_CHUNK_ENTRIES = 500
_MOST_DIFFERENCES = 5


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


class StepError(EvidenceError):
    """A step failed; nothing after it was looked at."""

    def __init__(self, step: Step, why: str) -> None:
        self.step = step
        super().__init__(f"step {step.value}, {step.name.lower().replace('_', ' ')}: {why}")


Say = Callable[[Step, str], None]
"""Takes each step that passed and what it showed."""


@dataclass(frozen=True, slots=True)
class Verified:
    """What holds now. ``recomputed``: the verdict was computed anew; else it is the signers' word."""

    report: Report
    log_size: int
    witness_times: dict[str, int]
    recomputed: bool


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
    say(Step.BUNDLE, f"a {head.extent.value} bundle of version 1")
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
    say(Step.CHECKPOINT, f"{checkpoint.origin} signed its tree of {checkpoint.size} entries")
    with _step(Step.WITNESSES):
        times = dict(check_quorum(note, policy.witnesses, policy.quorum))
    say(Step.WITNESSES, f"{len(times)} of the policy's witnesses saw that tree; {policy.quorum} are asked for")
    with _step(Step.REPORT_IN_LOG):
        leaf = _check_report_leaf(head, report)
        check_inclusion(leaf.number, checkpoint.size, leaf_hash(head.report), head.inclusion, checkpoint.root)
    say(Step.REPORT_IN_LOG, f"the report is entry {leaf.number} of that tree")
    with _step(Step.EVIDENCE_IN_LOG):
        check_consistency(report.entries, checkpoint.size, head.evidence, report.journal_root, checkpoint.root)
    say(Step.EVIDENCE_IN_LOG, f"the evidence is the first {report.entries} entries of that tree")
    if head.extent is Extent.FULL:
        _check_full(file, policy, head, report, say)
    else:
        with _step(Step.BUNDLE):
            _check_end(file)
    return Verified(report, checkpoint.size, times, head.extent is Extent.FULL)


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
    try:
        found = json.loads(head.result)
        verdict = found["verdict"]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise VerificationError("the result cannot be read") from error
    if verdict != report.verdict:
        raise VerificationError("the report and its result have different verdicts")


def _check_report_leaf(head: Head, report: Report) -> Leaf:
    leaf = leaves.decode(head.report)
    if leaf.kind != Kind.REPORT.value or leaf.body_sha256 != hashlib.sha256(head.envelope).digest():
        raise VerificationError("the leaf that the bundle shows is another entry's, not this report's")
    if leaf.number < report.entries or leaf.source != report.site:
        raise VerificationError("the leaf that the bundle shows does not fit the report: another place or another site")
    return leaf


def _check_full(file: BinaryIO, policy: Policy, head: Head, report: Report, say: Say) -> None:
    with (
        tempfile.TemporaryDirectory(prefix="weighbridge-verify-") as folder,
        Journal.create(Path(folder) / "evidence.db") as journal,
    ):
        with _step(Step.ENTRIES):
            dropped = _rebuild(file, journal, report)
        without = f"; the bodies of {dropped} were dropped, as one of them decides" if dropped else ""
        say(
            Step.ENTRIES,
            f"all {report.entries} entries are here, each as its leaf names it, under the signed root{without}",
        )
        with _step(Step.FRAMES):
            frames, agents = _check_frames(journal, policy)
        say(Step.FRAMES, f"{frames} frames of {agents} agents are signed and chained")
        with _step(Step.RECOMPUTED):
            _recompute(journal, head, report)
        say(Step.RECOMPUTED, f"computed anew from the entries: the same result, {report.verdict}")


def _rebuild(file: BinaryIO, journal: Journal, report: Report) -> int:
    """Fill ``journal`` with the bundle's entries, under the signed root; return how many bodies were dropped."""
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
    if dropped:
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


def _check_frames(journal: Journal, policy: Policy) -> tuple[int, int]:
    for entry in journal.entries(kinds=[Kind.ENROLMENT]) if policy.agents is not None else ():
        expected = (policy.agents or {}).get(entry.source)
        try:
            enrolled = json.loads(entry.body)["public_key"]
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise VerificationError(f"the enrolment in entry {entry.leaf} cannot be read") from error
        if expected is None or enrolled != expected.hex():
            raise VerificationError(f"entry {entry.leaf} enrols {entry.source} with a key that is not the policy's")
    found = fsck(journal)
    if found.faults:
        raise VerificationError(found.faults[0].text.removeprefix(f"{journal.path}: ").rstrip("."))
    return found.frames, found.agents


def _recompute(journal: Journal, head: Head, report: Report) -> None:
    try:
        again = json_text(judge_period(journal, report.period))
    except Exception as error:
        raise VerificationError(f"the result cannot be computed from the entries ({type(error).__name__})") from error
    if again.encode() != head.result:
        where = "; ".join(differences(json.loads(head.result), json.loads(again)))
        raise VerificationError(
            f"the report (weighbridge {report.version}) and what its own evidence gives here differ: {where}"
        )


def differences(reported: Any, computed: Any, place: str = "") -> list[str]:
    """Return where two documents differ, by path, at most a handful."""
    if isinstance(reported, dict) and isinstance(computed, dict):
        keys = [*reported, *(key for key in computed if key not in reported)]
        pairs = [(f"{place}.{key}".lstrip("."), reported.get(key), computed.get(key)) for key in keys]
    elif isinstance(reported, list) and isinstance(computed, list) and len(reported) == len(computed):
        pairs = [(f"{place}[{n}]", *each) for n, each in enumerate(zip(reported, computed, strict=True))]
    else:
        same = json.dumps(reported) == json.dumps(computed)
        return [] if same else [f"{place}: reported {json.dumps(reported)[:60]}, computed {json.dumps(computed)[:60]}"]
    found = [text for where, left, right in pairs for text in differences(left, right, where)]
    return found[:_MOST_DIFFERENCES]
