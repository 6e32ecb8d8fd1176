"""Checks a whole journal: is every entry there, as it was recorded, and do the agents' frames form unbroken chains?

Rules:

1. SQLite finds its file in order, and so do we (:mod:`controller.journal_file`): tables and triggers are those of the
   format, and nothing is lost in the write-ahead log.
2. Leaf numbers are consecutive from 0.
3. The digests of every entry check (:mod:`controller.journal_entry`).
4. A frame stands under its own agent's name and number (:mod:`controller.framenumbers`), and its signature is of the
   key that was enrolled for that agent when it was recorded.
5. The tree over the entries has the root of every checkpoint; checkpoints are signed by the site's log, and every tile
   (:mod:`controller.journal_log`) is the root of its leaves.
6. A frame carries the SHA-256 of the one before it. Numbers that are missing are a *hole*: declared, if the agent
   said in a signed frame that it dropped them, else a fault.

7. A body is missing only where a journaled decision dropped it (:mod:`controller.journal_prune`).
8. The keys beside the journal belong together and can be read.
9. Agreements, leases, load windows and class tables are signed as they must be (:mod:`controller.journal_signatures`).

A declared hole is a fact about what was measured, not damage. Everything else is a fault: exit code 1. What there was
no key to check with is said, and is no pass: exit code 3.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from controller.errors import EvidenceError
from controller.evidence.note import NoteKey
from controller.framenumbers import base_of
from controller.journal import Entry, Journal, Kind
from controller.journal_entry import Pruned
from controller.journal_file import file_faults
from controller.journal_prune import Decisions
from controller.journal_signatures import Signatures
from controller.journal_survey import integrity, survey
from controller.journal_treecheck import TreeCheck
from protos.signing import SignatureRejected, SigningDomain, load_public_key, verify
from protos.v1 import frame_pb2
from protos.wire import WireError, parse_signed_frame


@dataclass(frozen=True, slots=True)
class Fault:
    """Something that is not as it must be. ``leaf`` is None where it is about the whole file or an agent's chain."""

    leaf: int | None
    text: str


@dataclass(frozen=True, slots=True)
class Hole:
    """Frames of ``agent`` that the journal does not hold, first to last."""

    agent: str
    first: int
    last: int
    declared: bool


@dataclass(frozen=True, slots=True)
class Fsck:
    """What was checked and what was found."""

    entries: int
    frames: int
    agents: int
    faults: tuple[Fault, ...]
    holes: tuple[Hole, ...]
    checkpoints: int = 0
    pruned: int = 0
    unchecked: tuple[str, ...] = ()


@dataclass(slots=True)
class _Chain:
    """What is known of one agent while the frames of one key go by; ``base`` is what the journal adds to numbers."""

    agent: str
    base: int = 0
    frames: int = 0
    last_sequence: int = 0
    last_sha256: bytes | None = b""
    holes: list[tuple[int, int]] = field(default_factory=list)
    losses: list[tuple[int, int]] = field(default_factory=list)


def fsck(journal: Journal, log: NoteKey | None = None, *, verifier: Sequence[bytes] = ()) -> Fsck:
    """Check ``journal`` by the rules of this module; goes on after damage, so that all of it is found.

    Args:
        journal: what to check.
        log: who must have signed its checkpoints; without it, their signatures are reported as unchecked.
        verifier: raw keys that leases and class tables may be signed with, beside that of the agreement in force.
    """
    signatures = Signatures(journal.path, verifier)
    damage = [Fault(None, text) for text in file_faults(journal)]
    damage += [Fault(None, f"{journal.path}: SQLite says: {text}") for text in integrity(journal)]
    try:
        found = _check_entries(journal, log, signatures)
    except Exception as error:
        # In a file that is damaged as a file, any column of any row can hold anything at all.
        if not damage:
            raise
        text = f"{journal.path}: the entries cannot be gone through to their end ({type(error).__name__}: {error})"
        return Fsck(0, 0, 0, (*damage, Fault(None, text)), ())
    return replace(found, faults=(*damage, *found.faults))


def _check_entries(journal: Journal, log: NoteKey | None, signatures: Signatures) -> Fsck:
    faults: list[Fault] = []
    keys: dict[str, bytes] = {}
    chains: dict[str, _Chain] = {}
    ended: list[_Chain] = []
    entries, expected, pruned = 0, 0, 0
    decisions = Decisions(journal)
    tree = TreeCheck(journal, log)
    for leaf, entry, data in survey(journal):
        if leaf != expected:
            faults.append(Fault(leaf, f"leaves {expected} to {leaf - 1} are missing"))
        expected = leaf + 1
        entries += 1
        tree.add(leaf, entry, data)
        if isinstance(entry, EvidenceError):
            faults.append(Fault(leaf, str(entry)))
        elif isinstance(entry, Pruned):
            pruned += 1
            if entry.kind is Kind.FRAME:
                _pass_pruned(entry, chains.setdefault(entry.source, _Chain(entry.source)))
        elif entry.kind is Kind.PRUNE:
            decisions.add(entry)
        elif entry.kind is Kind.ENROLMENT:
            faults += _enrol(entry, keys)
            faults += _begin_anew(entry, chains, ended)
        elif entry.kind is Kind.FRAME:
            chain = chains.setdefault(entry.source, _Chain(entry.source))
            faults += _check_frame(entry, keys.get(entry.source), chain)
        else:
            faults += [Fault(leaf, text) for text in signatures.add(entry)]
    agents = len(chains)
    ended += chains.values()
    holes = [hole for chain in ended for hole in _holes(chain)]
    faults += [
        Fault(None, f"frames {hole.first} to {hole.last} of {hole.agent} are missing and were not declared lost")
        for hole in holes
        if not hole.declared
    ]
    faults += [Fault(None, text) for text in (*tree.faults(), *decisions.faults())]
    frames = sum(chain.frames for chain in ended)
    without = {
        "checkpoints: there is no key of the log": tree.checkpoints if log is None else 0,
        "leases and class tables: there is no key of the verifier": signatures.unchecked,
    }
    unchecked = tuple(f"the signatures of {count} {what} to check them by" for what, count in without.items() if count)
    return Fsck(entries, frames, agents, tuple(faults), tuple(holes), tree.checkpoints, pruned, unchecked)


def _pass_pruned(entry: Pruned, chain: _Chain) -> None:
    """Go on after a frame of which only the number is left; what the next one must carry is not known any more."""
    number = (entry.sequence or 0) - chain.base
    if number > chain.last_sequence:
        chain.last_sequence, chain.last_sha256 = number, None


def _enrol(entry: Entry, keys: dict[str, bytes]) -> Iterator[Fault]:
    try:
        body = json.loads(entry.body)
        agent, key = str(body["agent"]), bytes.fromhex(body["public_key"])
        load_public_key(key)
    except (ValueError, KeyError, TypeError) as error:
        yield Fault(entry.leaf, f"the enrolment in leaf {entry.leaf} cannot be read: {error}")
        return
    if agent != entry.source:
        yield Fault(entry.leaf, f"leaf {entry.leaf} enrols {agent} under the name {entry.source}")
    keys[entry.source] = key


def _begin_anew(entry: Entry, chains: dict[str, _Chain], ended: list[_Chain]) -> Iterator[Fault]:
    """A key that was replaced: its chain has ended, and the new key's begins."""
    try:
        base = base_of(entry)
    except EvidenceError as error:
        yield Fault(entry.leaf, str(error))
        return
    if base is None:
        return
    old = chains.pop(entry.source, None)
    if old is not None:
        ended.append(old)
        if base < old.base + old.last_sequence:
            yield Fault(entry.leaf, f"leaf {entry.leaf} gives {entry.source} numbers that its frames have already")
    chains[entry.source] = _Chain(entry.source, base)


def _check_frame(entry: Entry, key: bytes | None, chain: _Chain) -> Iterator[Fault]:
    where = f"frame {entry.sequence} of {entry.source} in leaf {entry.leaf}"
    chain.frames += 1
    try:
        signed, frame = parse_signed_frame(entry.body)
    except WireError as error:
        yield Fault(entry.leaf, f"{where} cannot be read: {error}")
        return
    if (frame.agent, chain.base + frame.sequence) != (entry.source, entry.sequence):
        yield Fault(entry.leaf, f"{where} is frame {frame.sequence} of {frame.agent}")
        return
    if key is None:
        yield Fault(entry.leaf, f"{where} comes before any enrolment of {entry.source}: no key to check it with")
    else:
        try:
            verify(load_public_key(key), SigningDomain.FRAME, signed.body, signed.signature)
        except SignatureRejected as error:
            yield Fault(entry.leaf, f"{where} is not signed by the enrolled key: {error}")
    yield from _follow(where, entry, signed, frame, chain)


def _follow(
    where: str, entry: Entry, signed: frame_pb2.SignedFrame, frame: frame_pb2.Frame, chain: _Chain
) -> Iterator[Fault]:
    chain.losses += [(loss.first_sequence, loss.last_sequence) for loss in frame.losses]
    expected = chain.last_sequence + 1
    if frame.sequence < expected:
        yield Fault(entry.leaf, f"{where} was recorded after frame {chain.last_sequence}")
        return
    if frame.sequence > expected:
        chain.holes.append((expected, frame.sequence - 1))
    elif chain.last_sha256 is not None and frame.previous_sha256 != chain.last_sha256:
        yield Fault(entry.leaf, f"{where} does not follow from frame {chain.last_sequence}: the chain is broken there")
    chain.last_sequence, chain.last_sha256 = frame.sequence, hashlib.sha256(signed.body).digest()


def _holes(chain: _Chain) -> Iterator[Hole]:
    """Yield the chain's holes, cut where the agent's declarations begin and end."""
    for first, last in chain.holes:
        position = first
        for lost_first, lost_last in sorted(chain.losses):
            if lost_last < position or lost_first > last or position > last:
                continue
            if lost_first > position:
                yield Hole(chain.agent, position, lost_first - 1, declared=False)
                position = lost_first
            yield Hole(chain.agent, position, min(lost_last, last), declared=True)
            position = lost_last + 1
        if position <= last:
            yield Hole(chain.agent, position, last, declared=False)
