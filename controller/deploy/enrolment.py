"""Whose frames are believed: the key an agent showed at its first deployment is pinned in the journal.

The same agent with another key is refused, and the refusal is journaled: its state was wiped, the DPU was exchanged,
or somebody else answers. Only the operator can say which, with ``--replace-key``.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass

from controller.collect.attempts import Look, LookFailed, Reason, attempt_entry
from controller.errors import EvidenceError
from controller.framenumbers import NUMBERS_FROM, next_base
from controller.journal import ConflictingEntryError, Journal, JsonValue, Kind, NewEntry
from protos.signing import SignatureRejected, fingerprint, load_public_key

# Other controllers may enrol the same agent at the same moment; each round one of them comes through.
_ROUNDS = 100


@dataclass(frozen=True, slots=True)
class Enrolment:
    """What is pinned for an agent."""

    agent: str
    public_key: bytes
    bundle_sha256: str
    agent_version: str

    def body(self) -> bytes:
        """The journal's body."""
        content = {
            "agent": self.agent,
            "public_key": self.public_key.hex(),
            "bundle_sha256": self.bundle_sha256,
            "agent_version": self.agent_version,
        }
        return json.dumps(content, separators=(",", ":")).encode()


def enrolled(journal: Journal, agent: str) -> Enrolment | None:
    """Return what is pinned for ``agent``, ``None`` before its first deployment.

    Raises:
        EvidenceError: the journal's record cannot be read.
    """
    entry = journal.last(Kind.ENROLMENT, agent)
    if entry is None:
        return None
    try:
        body = json.loads(entry.body)
        return Enrolment(body["agent"], bytes.fromhex(body["public_key"]), body["bundle_sha256"], body["agent_version"])
    except (ValueError, KeyError, TypeError) as error:
        raise EvidenceError(
            f"{journal.path}: leaf {entry.leaf} is not an enrolment this program can read; "
            "update weighbridge on this machine, or restore the journal from a copy"
        ) from error


def enrol(journal: Journal, now_ns: Callable[[], int], shown: Enrolment, *, replace_key: bool) -> bool:
    """Pin what an agent shows, or check it against what is pinned.

    1. The key must be one that can be believed at all.
    2. Nothing pinned yet: pin it. Pinned and equal: nothing to do. Pinned with the same key, another release: record
       the release.
    3. Pinned with another key: record the attempt and refuse it, unless the operator asked to replace the key.

    Enrolments of an agent are numbered, so of two at the same moment one is first and the other sees it.

    Returns:
        Whether anything was journaled.

    Raises:
        EvidenceError: the key is unfit, or another one is pinned.
    """
    try:
        load_public_key(shown.public_key)
    except SignatureRejected as error:
        raise EvidenceError(
            f"agent {shown.agent} shows a frame key that cannot be used: {error}; it was not enrolled"
        ) from error
    for _ in range(_ROUNDS):
        began_ns = now_ns()
        sequence = journal.last_sequence(Kind.ENROLMENT, shown.agent) + 1
        pinned = enrolled(journal, shown.agent)
        if pinned == shown:
            return False
        other_key = pinned is not None and pinned.public_key != shown.public_key
        if pinned is not None and other_key and not replace_key:
            _refuse(journal, now_ns, began_ns, pinned, shown)
        meta: dict[str, JsonValue] = {}
        if pinned is not None and other_key:
            # Its frames begin at 1 again: they get numbers of their own.
            meta = {"replaces": pinned.public_key.hex(), NUMBERS_FROM: str(next_base(journal, shown.agent))}
        entry = NewEntry(Kind.ENROLMENT, shown.agent, now_ns(), shown.body(), meta, sequence)
        try:
            journal.append(entry)
        except ConflictingEntryError:
            continue
        return True
    raise EvidenceError(
        f"agent {shown.agent}: {_ROUNDS} other enrolments of it came first; find out who deploys it, then deploy again"
    )


def _refuse(journal: Journal, now_ns: Callable[[], int], began_ns: int, pinned: Enrolment, shown: Enrolment) -> None:
    text = (
        f"agent {shown.agent} shows the frame key {fingerprint(shown.public_key)[:16]}, enrolled is "
        f"{fingerprint(pinned.public_key)[:16]}. Its state was wiped, the DPU was exchanged, or somebody else answers; "
        "it was not enrolled. If you know why, deploy with --replace-key"
    )
    failure = LookFailed(Look.CONNECT, Reason.OTHER_KEY, text)
    journal.append(attempt_entry(failure, source=shown.agent, first_sent_ns=began_ns, gave_up_ns=now_ns()))
    raise EvidenceError(text)
