"""The mutations of a bundle: everything that verification checks, each broken in one way (:mod:`hil.bench.matrix`)."""

from __future__ import annotations

import hashlib
import json
import lzma
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from controller.bundle import Extent, Head
from controller.bundle_steps import Step
from controller.evidence import checkpoint as checkpoints
from controller.evidence import note as notes
from controller.evidence.checkpoint import Checkpoint, cosign
from controller.evidence.envelope import open_envelope, seal
from controller.evidence.note import KeyKind, Note, NoteKey, Signature
from controller.evidence.statement import Statement
from controller.journal import Kind, NewEntry
from controller.journal_leaf import PREFIX
from hil.bench.forge import (
    AGENT,
    NOW_S,
    STRANGER,
    WITNESS,
    WITNESS_KEY,
    Forge,
    Parts,
    bodies,
    fields,
    frames,
    without_frame,
)
from hil.bench.forge_agreed import PARTY_KEYS, agreed, signed_text

VERIFIER, PROVER = PARTY_KEYS.values()
Change = Callable[[Forge, Parts], "Parts | Callable[[bytes], bytes]"]
"""Takes a good full bundle; returns what becomes of it, or what becomes of the bytes of one on any path."""


FULL_ONLY = frozenset({Step.ENTRIES, Step.FRAMES, Step.RECOMPUTED})
"""Steps that a summary has not."""


@dataclass(frozen=True, slots=True)
class Mutation:
    """One check and how it is broken. ``step`` is where that must be found.

    ``only`` is what a bundle must carry for that: what a full bundle's entries would show first, say.
    """

    step: Step
    name: str
    change: Change
    only: Extent | None = None

    @property
    def extents(self) -> frozenset[Extent]:
        """The bundles it is a mutation of."""
        if self.only is not None:
            return frozenset({self.only})
        return frozenset({Extent.FULL} if self.step in FULL_ONLY else Extent)


def _predicate(**changes: Any) -> Change:
    return lambda forge, _: forge.make(restate=lambda told: replace(told, predicate={**told.predicate, **changes}))


def _subjects(**changes: bytes) -> Change:
    return lambda forge, _: forge.make(restate=lambda told: replace(told, subjects={**told.subjects, **changes}))


def _payload(change: Callable[[bytes], bytes]) -> Change:
    return lambda forge, _: forge.make(payload=change)


def _raw(change: Callable[[bytes], bytes]) -> Change:
    return lambda _forge, _parts: change


def _head_of(**changes: Callable[[Head], Any]) -> Change:
    return lambda _, parts: parts.with_head(**{name: change(parts.head) for name, change in changes.items()})


def _policy_of(**changes: Any) -> Change:
    return lambda _, parts: parts.with_policy(**changes)


def _note(change: Callable[[Forge, Note], Note]) -> Change:
    return lambda forge, parts: parts.with_head(checkpoint=change(forge, notes.decode(parts.head.checkpoint)).encode())


def _resigned(**changes: Any) -> Change:
    """The log signs another checkpoint under its own key."""

    def change(forge: Forge, note: Note) -> Note:
        found = replace(checkpoints.decode(note.text), **changes)
        name = note.signatures[0].name
        public = NoteKey(name, KeyKind.LOG, forge.log_key().public_key().public_bytes_raw())
        own = Signature(name, public.key_id, forge.log_key().sign(found.encode().encode()))
        return Note(found.encode(), (own, *note.signatures[1:]))

    return _note(change)


def _log_again(_: Forge, parts: Parts) -> Parts:
    """The envelope of another report, as good as this one, with the proofs of this one."""
    payload = open_envelope(parts.head.envelope, parts.policy.report_keys, 1)
    return parts.with_policy(
        report_keys=(*parts.policy.report_keys, STRANGER.public_key().public_bytes_raw())
    ).with_head(envelope=seal(payload, [STRANGER]))


def _entries(change: Callable[[list[tuple[bytes, bytes | None]]], list[tuple[bytes, bytes | None]]]) -> Change:
    return lambda _, parts: replace(parts, entries=tuple(change(list(parts.entries))))


def _journal(change: Callable[[list[NewEntry]], list[NewEntry]]) -> Change:
    """The log itself holds something else than it may: its owner wrote it down, signed it, and reports as if not."""
    return lambda forge, _: forge.make(entries=tuple(change(list(forge.entries))))


def given(**keys: Any) -> Callable[[list[NewEntry]], list[NewEntry]]:
    """Return what has the agreement, and what was given under it, signed with other keys, or not at all."""
    kinds = {each.kind for each in agreed("demo", AGENT, 0)}

    def change(entries: list[NewEntry]) -> list[NewEntry]:
        rest = [each for each in entries if each.kind not in kinds]
        return [*rest, *agreed("demo", AGENT, rest[-1].recorded_ns, **keys)]

    return change


def _result(**changes: Any) -> Change:
    return lambda forge, _: forge.make(retell=lambda text: json.dumps({**json.loads(text), **changes}, indent=2) + "\n")


def _by_another_program(**changes: Any) -> Change:
    return lambda forge, _: forge.make(
        retell=lambda text: json.dumps({**json.loads(text), **changes}),
        restate=lambda told: replace(told, predicate={**told.predicate, "program_sha256": "0" * 64}),
    )


def _agreement(**changes: Any) -> Change:
    """The agreement in the result, told otherwise."""

    def retell(text: str) -> str:
        result = json.loads(text)
        result["agreements"][0].update(changes)
        return json.dumps(result, indent=2) + "\n"

    return lambda forge, _: forge.make(retell=retell)


def _no_agreement(forge: Forge, _: Parts) -> Parts:
    """Nothing was agreed: neither the log nor the result knows of an agreement, or of anything under it."""
    under = {Kind.AGREEMENT, Kind.LEASE, Kind.LOAD_WINDOW}
    return forge.make(
        entries=tuple(each for each in forge.entries if each.kind not in under),
        retell=lambda text: json.dumps({**json.loads(text), "agreements": []}, indent=2) + "\n",
    )


def _parties(**keys: Ed25519PrivateKey) -> Change:
    changed = {party: (key.public_key().public_bytes_raw(),) for party, key in keys.items()}
    return lambda _, parts: parts.with_policy(parties={**(parts.policy.parties or {}), **changed})


def _flipped(raw: bytes, at: int = -10) -> bytes:
    changed = bytearray(raw)
    changed[at] ^= 1
    return bytes(changed)


def _twice(raw: bytes) -> bytes:
    return raw.replace(b'{"_type"', b'{"predicateType": "urn:weighbridge:verdict:v1", "_type"', 1)


def _link(change: Callable[[dict[str, Any]], dict[str, Any]]) -> Change:
    """The first link of the result, told otherwise."""

    def retell(text: str) -> str:
        result = json.loads(text)
        result["links"][0].update(change(result["links"][0]))
        return json.dumps(result, indent=2) + "\n"

    return lambda forge, _: forge.make(retell=retell)


def _findings(change: Callable[[list[dict[str, Any]]], list[dict[str, Any]]]) -> Change:
    def retell(text: str) -> str:
        result = json.loads(text)
        return json.dumps({**result, "findings": change(result["findings"])}, indent=2) + "\n"

    return lambda forge, _: forge.make(retell=retell)


def _told(answers: list[dict[str, Any]], key: str) -> list[dict[str, Any]]:
    return [{**answers[0], key: "yes"}, *answers[1:]]


def _verdict(program: str | None) -> Change:
    """Compliant, in the statement as in the result; by this program, or by one that is named."""

    def restate(told: Statement) -> Statement:
        told = replace(told, predicate={**told.predicate, "verdict": "compliant"})
        return told if program is None else replace(told, predicate={**told.predicate, "program_sha256": program})

    def retell(text: str) -> str:
        result = json.loads(text)
        for link in result["links"]:
            link["verdict"] = "compliant"
        return json.dumps({**result, "verdict": "compliant"}, indent=2) + "\n"

    return lambda forge, _: forge.make(retell=retell, restate=restate)


def _spoilt_proof(raw: bytes) -> bytes:
    before, mark, proof = raw.partition(b"\ninclusion ")
    return before + mark + proof.replace(b"=\n", b"?\n", 1)


def _later(signature: Signature) -> Signature:
    return replace(signature, signature=(NOW_S + 1).to_bytes(8, "big") + signature.signature[8:])


def _cosignature_of_another(_: Forge, parts: Parts) -> Parts:
    note = notes.decode(parts.head.checkpoint)
    found = checkpoints.decode(note.text)
    before = Checkpoint(found.origin, found.size - 1, hashlib.sha256(b"before").digest())
    line = cosign(Note(before.encode(), note.signatures), WITNESS.name, WITNESS_KEY, NOW_S - 60)
    return parts.with_head(checkpoint=replace(note, signatures=(note.signatures[0], line)).encode())


def _renumbered(leaf: bytes, number: int) -> bytes:
    values = json.loads(leaf[len(PREFIX) :])
    return PREFIX + json.dumps([number, *values[1:]], separators=(",", ":")).encode()


def _retimed(leaf: bytes) -> bytes:
    values = json.loads(leaf[len(PREFIX) :])
    return PREFIX + json.dumps([*values[:4], values[4] - 1, *values[5:]], separators=(",", ":")).encode()


def _bomb() -> bytes:
    packed = lzma.compress(b"leaf 1\nx\nbody 60000000\n" + bytes(60_000_000) + b"\n")
    return b"chunk %d\n%s\n" % (len(packed), packed)


MUTATIONS: tuple[Mutation, ...] = (
    Mutation(Step.BUNDLE, "another version", _raw(lambda raw: raw.replace(b" v", b" v9", 1))),
    Mutation(Step.BUNDLE, "sections in another order", _raw(lambda raw: raw.replace(b"envelope ", b"result ", 1))),
    Mutation(Step.BUNDLE, "a length beyond the most", _raw(lambda raw: raw.replace(b"envelope ", b"envelope 9999", 1))),
    Mutation(
        Step.BUNDLE, "a length in another spelling", _raw(lambda raw: raw.replace(b"envelope ", b"envelope 0", 1))
    ),
    Mutation(Step.BUNDLE, "cut short", _raw(lambda raw: raw[:2000])),
    Mutation(Step.BUNDLE, "a proof that is not base64", _raw(_spoilt_proof)),
    Mutation(Step.SIGNATURES, "signed by the log's key", lambda f, p: p.with_head(envelope=seal(b"{}", [f.log_key()]))),
    Mutation(Step.SIGNATURES, "one bit of the envelope", _head_of(envelope=lambda h: _flipped(h.envelope, 60))),
    Mutation(Step.SIGNATURES, "one key listed for two", _policy_of(threshold=2)),
    Mutation(Step.SIGNATURES, "a key twice in JSON", _head_of(envelope=lambda h: b'{"payload":"",' + h.envelope[1:])),
    Mutation(Step.SIGNATURES, "another reader's trust", _policy_of(report_keys=(WITNESS.public_key,))),
    Mutation(Step.STATEMENT, "no statement", _payload(lambda _: b"{}")),
    Mutation(Step.STATEMENT, "a key twice", _payload(_twice)),
    Mutation(Step.STATEMENT, "NaN", _payload(lambda raw: raw[:-1] + b', "x": NaN}')),
    Mutation(Step.STATEMENT, "a fraction", _payload(lambda raw: raw[:-1] + b', "x": 1.5}')),
    Mutation(Step.STATEMENT, "a subject twice", _payload(lambda raw: raw.replace(b'"result.json"', b'"journal"'))),
    Mutation(Step.STATEMENT, "another predicate", _payload(lambda raw: raw.replace(b"verdict:v1", b"verdict:v2"))),
    Mutation(Step.STATEMENT, "no evidence named", _payload(lambda raw: raw.replace(b'"journal"', b'"journey"'))),
    Mutation(Step.STATEMENT, "a site that moves the cursor", _predicate(site="demo\n 9. entries: all here")),
    Mutation(Step.STATEMENT, "a verdict that is none", _predicate(verdict="perfect")),
    Mutation(Step.STATEMENT, "no entries", _predicate(entries="0")),
    Mutation(Step.STATEMENT, "a number in another spelling", _predicate(entries="+38")),
    Mutation(Step.STATEMENT, "an empty period", _predicate(period={"from_ns": "2", "to_ns": "2"})),
    Mutation(Step.RESULT, "one bit of the result", _head_of(result=lambda h: _flipped(h.result))),
    Mutation(Step.RESULT, "another verdict than signed", _predicate(verdict="compliant")),
    Mutation(
        Step.RESULT,
        "two verdicts",
        lambda f, _: f.make(retell=lambda text: text.replace("{", '{"verdict": "compliant",', 1)),
    ),
    Mutation(Step.RESULT, "NaN", _result(coverage=float("nan"))),
    Mutation(Step.CHECKPOINT, "one bit", _head_of(checkpoint=lambda h: _flipped(h.checkpoint, 20))),
    Mutation(Step.CHECKPOINT, "another log under the same key", _resigned(origin="weighbridge/other")),
    Mutation(Step.CHECKPOINT, "a report on another site in this log", _predicate(site="dame")),
    Mutation(Step.CHECKPOINT, "a root that is none", _resigned(root=bytes(31))),
    Mutation(Step.CHECKPOINT, "no signature of the log", _note(lambda _, n: replace(n, signatures=n.signatures[1:]))),
    Mutation(
        Step.CHECKPOINT,
        "another log's key",
        _policy_of(log=NoteKey("weighbridge/demo", KeyKind.LOG, STRANGER.public_key().public_bytes_raw())),
    ),
    Mutation(Step.WITNESSES, "no cosignature", _note(lambda _, n: replace(n, signatures=n.signatures[:1]))),
    Mutation(
        Step.WITNESSES,
        "another time than was signed",
        _note(lambda _, n: replace(n, signatures=(n.signatures[0], _later(n.signatures[1])))),
    ),
    Mutation(
        Step.WITNESSES,
        "a stranger under the witness's name",
        _note(lambda _, n: replace(n, signatures=(n.signatures[0], cosign(n, WITNESS.name, STRANGER, NOW_S)))),
    ),
    Mutation(
        Step.WITNESSES,
        "one witness for a quorum of two",
        _policy_of(quorum=2, witnesses=(WITNESS, NoteKey("other", KeyKind.WITNESS, bytes(range(32))))),
    ),
    Mutation(Step.WITNESSES, "a cosignature of another checkpoint", _cosignature_of_another),
    Mutation(
        Step.WITNESSES,
        "seen before the period was over",
        _note(lambda _, n: replace(n, signatures=(n.signatures[0], cosign(n, WITNESS.name, WITNESS_KEY, NOW_S - 900)))),
    ),
    Mutation(Step.REPORT_IN_LOG, "another report's envelope", _log_again),
    Mutation(Step.REPORT_IN_LOG, "another entry's leaf", _head_of(report=lambda h: _renumbered(h.report, 0))),
    Mutation(Step.REPORT_IN_LOG, "another place", _head_of(report=lambda h: _renumbered(h.report, 38))),
    Mutation(Step.REPORT_IN_LOG, "another time than was logged", _head_of(report=lambda h: _retimed(h.report))),
    Mutation(Step.REPORT_IN_LOG, "another site's leaf", lambda f, _: f.make(source="dame")),
    Mutation(Step.REPORT_IN_LOG, "a hash changed", _head_of(inclusion=lambda h: (bytes(32), *h.inclusion[1:]))),
    Mutation(Step.REPORT_IN_LOG, "a hash too many", _head_of(inclusion=lambda h: (*h.inclusion, bytes(32)))),
    Mutation(Step.REPORT_IN_LOG, "a hash too few", _head_of(inclusion=lambda h: h.inclusion[:-1])),
    Mutation(Step.EVIDENCE_IN_LOG, "another tree's root", _subjects(journal=bytes(32))),
    Mutation(Step.EVIDENCE_IN_LOG, "an entry fewer than its root has", _predicate(entries="36")),
    Mutation(Step.EVIDENCE_IN_LOG, "a hash changed", _head_of(evidence=lambda h: (*h.evidence[:-1], bytes(32)))),
    Mutation(Step.EVIDENCE_IN_LOG, "a hash too many", _head_of(evidence=lambda h: (*h.evidence, bytes(32)))),
    Mutation(Step.EVIDENCE_IN_LOG, "a hash too few", _head_of(evidence=lambda h: h.evidence[:-1])),
    Mutation(Step.ENTRIES, "the last entry left out", _entries(lambda entries: entries[:-1])),
    Mutation(Step.ENTRIES, "the first entry left out", _entries(lambda entries: entries[1:])),
    Mutation(Step.ENTRIES, "none at all", _entries(lambda _: [])),
    Mutation(Step.ENTRIES, "two in another order", _entries(lambda entries: [entries[1], entries[0], *entries[2:]])),
    Mutation(Step.ENTRIES, "one twice", _entries(lambda entries: [*entries, entries[-1]])),
    Mutation(Step.ENTRIES, "another body", _entries(lambda e: [(e[0][0], (e[0][1] or b"") + b" "), *e[1:]])),
    Mutation(Step.ENTRIES, "another leaf", _entries(lambda e: [(e[0][0].replace(b"demo", b"dame"), e[0][1]), *e[1:]])),
    Mutation(Step.ENTRIES, "a body that is needed, missing", _entries(lambda e: [*e[:-1], (e[-1][0], None)])),
    Mutation(Step.ENTRIES, "a decision's body missing", _entries(lambda e: [(e[0][0], None), *e[1:]])),
    Mutation(Step.ENTRIES, "more behind the end", _raw(lambda raw: raw + b"x")),
    Mutation(Step.ENTRIES, "a bomb", _raw(lambda raw: raw + _bomb())),
    Mutation(Step.FRAMES, "another agent's key", _policy_of(agents={AGENT: (WITNESS.public_key,)})),
    Mutation(Step.FRAMES, "an agent that the policy does not know", _policy_of(agents={})),
    Mutation(Step.FRAMES, "an enrolment that cannot be read", _journal(bodies(Kind.ENROLMENT, lambda _: b"{"))),
    Mutation(Step.FRAMES, "a frame of another key", _journal(frames(18, fields(), STRANGER))),
    Mutation(Step.FRAMES, "a frame of another agent", _journal(frames(18, fields(agent="node2-dpu0")))),
    Mutation(Step.FRAMES, "a frame of another number", _journal(frames(18, fields(sequence=17)))),
    Mutation(Step.FRAMES, "a broken chain", _journal(frames(18, fields(previous_sha256=bytes(32))))),
    Mutation(Step.FRAMES, "a frame that nobody said was lost", _journal(without_frame(9))),
    Mutation(Step.FRAMES, "an enrolment of nothing", _journal(bodies(Kind.ENROLMENT, lambda _: b'{"public_key": []}'))),
    Mutation(Step.FRAMES, "no frame at all", _journal(bodies(Kind.FRAME, lambda _: b"?"))),
    Mutation(Step.FRAMES, "an agreement that one party signed", _journal(given(prover=None))),
    Mutation(Step.FRAMES, "an agreement that another prover signed", _journal(given(prover=STRANGER))),
    Mutation(Step.FRAMES, "a lease that another signed", _journal(given(lease=STRANGER))),
    Mutation(Step.FRAMES, "a revocation that another signed", _journal(given(revocation=STRANGER))),
    Mutation(Step.FRAMES, "a class table that another signed", _journal(given(table=STRANGER))),
    Mutation(Step.FRAMES, "a load window that the prover did not sign", _journal(given(window=STRANGER))),
    Mutation(Step.FRAMES, "a lease that cannot be read", _journal(bodies(Kind.LEASE, lambda _: b"\xff"))),
    Mutation(Step.FRAMES, "a load window that cannot be read", _journal(bodies(Kind.LOAD_WINDOW, lambda _: b"[]"))),
    Mutation(Step.RECOMPUTED, "a word changed", _result(site_words="all is well")),
    Mutation(Step.RECOMPUTED, "a bound that flatters", _link(lambda _: {"hidden_bytes_bound": "0"})),
    Mutation(Step.RECOMPUTED, "more coverage", _link(lambda _: {"coverage": 1.0})),
    Mutation(Step.RECOMPUTED, "a limit said to be kept", _link(lambda old: {"limits": _told(old["limits"], "kept")})),
    Mutation(Step.RECOMPUTED, "a law said to hold", _link(lambda old: {"laws": _told(old["laws"], "holds")})),
    Mutation(Step.RECOMPUTED, "a finding left out", _findings(lambda old: old[1:])),
    Mutation(Step.RECOMPUTED, "a finding made up", _findings(lambda old: [*old, {**old[0], "certain": True}])),
    Mutation(Step.RECOMPUTED, "another verdict", _verdict(None)),
    Mutation(Step.RECOMPUTED, "another verdict, by another program", _verdict("0" * 64)),
    Mutation(Step.RECOMPUTED, "findings left out, by another program", _by_another_program(findings=None)),
    Mutation(Step.RECOMPUTED, "no links, by another program", _by_another_program(links=[])),
    Mutation(Step.RECOMPUTED, "a site file that cannot be read", _journal(bodies(Kind.SITE, lambda _: b"?"))),
    Mutation(Step.RECOMPUTED, "an agreement left out", _result(agreements=[])),
    Mutation(Step.RECOMPUTED, "an agreement left out, by another program", _by_another_program(agreements=[])),
    Mutation(Step.AGREEMENT, "another verifier than the policy's", _parties(verifier=STRANGER)),
    Mutation(Step.AGREEMENT, "another prover than the policy's", _parties(prover=STRANGER)),
    Mutation(Step.AGREEMENT, "the parties in each other's place", _parties(verifier=PROVER, prover=VERIFIER)),
    Mutation(Step.AGREEMENT, "none, though the policy names parties", _no_agreement),
    Mutation(Step.AGREEMENT, "another number", _agreement(number="2"), Extent.SUMMARY),
    Mutation(Step.AGREEMENT, "another digest", _agreement(sha256="0" * 64), Extent.SUMMARY),
    Mutation(Step.AGREEMENT, "an agreement that is none", _agreement(signed="{}"), Extent.SUMMARY),
    Mutation(Step.AGREEMENT, "an agreement that is no text", _agreement(signed=None), Extent.SUMMARY),
    Mutation(Step.AGREEMENT, "signed by one party", _agreement(signed=signed_text(prover=None)), Extent.SUMMARY),
    Mutation(
        Step.AGREEMENT,
        "a signature of the other party's",
        _agreement(signed=signed_text(prover=VERIFIER)),
        Extent.SUMMARY,
    ),
    Mutation(Step.AGREEMENT, "agreements that are no list", _result(agreements=7), Extent.SUMMARY),
)
