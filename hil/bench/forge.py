"""Makes bundles as the owner of a log can: whatever he likes in them, signed by the right keys."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from controller.bundle import Extent, Head, read_head, write_bundle
from controller.bundle_entries import read_entries
from controller.bundle_make import issue
from controller.crosscheck.model import Period
from controller.evidence import statement as statements
from controller.evidence.checkpoint import cosign
from controller.evidence.envelope import open_envelope, seal
from controller.evidence.note import KeyKind, NoteKey
from controller.evidence.policy import Policy
from controller.evidence.statement import Statement
from controller.journal import Journal, Kind, NewEntry
from controller.journal_entry import COLUMNS, Row
from controller.journal_leaf import PREFIX
from controller.journal_log import keep_cosignature, leaf_data, publish, stored, subtree
from controller.judgement import json_text, judge_period
from controller.logkeys import SiteKeys, make_site_keys
from controller.treeproof import prove_consistency, prove_inclusion
from hil.bench.forge_agreed import PARTY_KEYS, agreed
from protos.signing import SigningDomain, sign
from protos.v1 import frame_pb2

_VECTOR = Path(__file__).resolve().parents[2] / "tests" / "vectors" / "reports" / "full-frames" / "report.bundle"
_SECOND = 10**9
NOW_S = 1_796_072_400
_PERIOD = Period((NOW_S - 60) * _SECOND, NOW_S * _SECOND)
AGENT = "node1-dpu0"
AGENT_KEY, WITNESS_KEY, STRANGER = (Ed25519PrivateKey.from_private_bytes(bytes([n]) * 32) for n in (7, 2, 9))
WITNESS = NoteKey("prover.example/witness", KeyKind.WITNESS, WITNESS_KEY.public_key().public_bytes_raw())


@dataclass(frozen=True, slots=True)
class Parts:
    """A bundle taken apart, with the policy it is held against."""

    head: Head
    entries: tuple[tuple[bytes, bytes | None], ...]
    policy: Policy

    def with_head(self, **changes: Any) -> Parts:
        """Return the same with another head."""
        return replace(self, head=replace(self.head, **changes))

    def with_policy(self, **changes: Any) -> Parts:
        """Return the same under another policy."""
        return replace(self, policy=replace(self.policy, **changes))


class Forge:
    """Makes bundles as the owner of a log can, right ones and wrong ones."""

    def __init__(self, folder: Path) -> None:
        """Work in ``folder``, which is there and empty."""
        self._folder, self._count = folder, 0
        with _VECTOR.open("rb") as file:
            read_head(file)
            recorded = tuple(_entry(leaf, body or b"") for leaf, body in read_entries(file))
        self.entries = (*recorded, *agreed(recorded[0].source, AGENT, recorded[-1].recorded_ns))

    def make(
        self,
        *,
        entries: tuple[NewEntry, ...] | None = None,
        retell: Callable[[str], str] = lambda result: result,
        restate: Callable[[Statement], Statement] = lambda statement: statement,
        payload: Callable[[bytes], bytes] = lambda payload: payload,
        source: str = "demo",
    ) -> Parts:
        """Return a bundle of ``entries``; result, statement, payload or leaf were changed before they were signed."""
        self._count += 1
        path = self._folder / f"journal-{self._count}.db"
        with Journal.create(path, *(self.entries if entries is None else entries)) as journal:
            keys, size = make_site_keys(path, "demo"), len(journal)
            good = judge_period(journal, _PERIOD) if entries is None else judge_period_of(self._folder, self.entries)
            result = retell(json_text(good)).encode()
            # The honest way first, for its statement; then what the owner makes of it.
            first = issue(journal, keys, good, size=size, period=_PERIOD, now_ns=_PERIOD.to_ns, result=result)
            honest = next(journal.entries(kinds=[Kind.REPORT], from_leaf=first)).body
            statement = restate(statements.decode(open_envelope(honest, [keys.report_public], 1)))
            envelope = seal(payload(_encoded(statement)), [keys.report])
            (leaf,) = journal.append(NewEntry(Kind.REPORT, source, _PERIOD.to_ns, envelope))
            assert leaf is not None  # noqa: S101  it has no number that could be taken
            head = replace(_head(journal, keys, leaf, size), envelope=envelope, result=result)
            rows = journal.rows(f"SELECT {COLUMNS} FROM entry WHERE leaf < ? ORDER BY leaf", size)  # noqa: S608
        policy = Policy(
            keys.log.public,
            (keys.report_public,),
            1,
            (WITNESS,),
            1,
            {AGENT: (AGENT_KEY.public_key().public_bytes_raw(),)},
            {party.value: (key.public_key().public_bytes_raw(),) for party, key in PARTY_KEYS.items()},
        )
        return Parts(head, tuple((Row(*row[:-2]).leaf_data(), row[-1]) for row in rows), policy)

    def raw(self, parts: Parts) -> bytes:
        """Return the bundle's bytes."""
        path = self._folder / "bundle"
        write_bundle(path, parts.head, parts.entries)
        return path.read_bytes()

    def log_key(self) -> Ed25519PrivateKey:
        """Return the private key of the log that signed the good bundle."""
        return make_site_keys(self._folder / "journal-1.db", "demo").log.private


def judge_period_of(folder: Path, entries: tuple[NewEntry, ...]) -> Any:
    """Return what ``entries`` give; for a log whose own entries cannot be judged any more."""
    path = folder / "honest.db"
    if not path.exists():
        Journal.create(path, *entries).close()
    with Journal.open(path, read_only=True) as journal:
        return judge_period(journal, _PERIOD)


def _head(journal: Journal, keys: SiteKeys, leaf: int, size: int) -> Head:
    under = publish(journal, keys.log)
    line = cosign(under.note, WITNESS.name, WITNESS_KEY, NOW_S).encode()
    keep_cosignature(journal, under.checkpoint.size, line, WITNESS)
    root, size_now = subtree(journal), under.checkpoint.size
    return Head(
        Extent.FULL,
        b"",
        b"",
        stored(journal, size_now).note.encode(),
        next(leaf_data(journal, leaf, leaf + 1)),
        tuple(prove_inclusion(leaf, size_now, root)),
        tuple(prove_consistency(size, size_now, root)),
    )


def _entry(leaf: bytes, body: bytes) -> NewEntry:
    _, kind, source, sequence, recorded_ns, meta, _ = json.loads(leaf[len(PREFIX) :])
    return NewEntry(Kind(kind), source, recorded_ns, body, json.loads(meta), sequence)


def _encoded(statement: Statement) -> bytes:
    # As Statement.encode() does, which refuses to write what nobody could read.
    subjects = [{"name": name, "digest": {"sha256": value.hex()}} for name, value in statement.subjects.items()]
    body = {"_type": statements.STATEMENT_TYPE, "subject": subjects, "predicateType": statement.predicate_type}
    return json.dumps({**body, "predicate": dict(statement.predicate)}).encode()


def _frame(entry: NewEntry, change: Callable[[frame_pb2.Frame], object], key: Ed25519PrivateKey) -> NewEntry:
    signed = frame_pb2.SignedFrame.FromString(entry.body)
    frame = frame_pb2.Frame.FromString(signed.body)
    change(frame)
    body = frame.SerializeToString()
    again = frame_pb2.SignedFrame(body=body, signature=sign(key, SigningDomain.FRAME, body))
    return replace(entry, body=again.SerializeToString())


def frames(
    number: int, change: Callable[[frame_pb2.Frame], object], key: Ed25519PrivateKey = AGENT_KEY
) -> Callable[[list[NewEntry]], list[NewEntry]]:
    """Return what changes frame ``number`` and signs it again."""

    def changed(entries: list[NewEntry]) -> list[NewEntry]:
        return [
            _frame(entry, change, key) if entry.kind is Kind.FRAME and entry.sequence == number else entry
            for entry in entries
        ]

    return changed


def fields(**values: Any) -> Callable[[frame_pb2.Frame], object]:
    """Return what gives a frame these values."""
    return lambda frame: frame.MergeFrom(frame_pb2.Frame(**values))


def without_frame(number: int) -> Callable[[list[NewEntry]], list[NewEntry]]:
    """Return what takes frame ``number`` away."""
    return lambda entries: [one for one in entries if one.kind is not Kind.FRAME or one.sequence != number]


def bodies(kind: Kind, change: Callable[[bytes], bytes]) -> Callable[[list[NewEntry]], list[NewEntry]]:
    """Return what changes every body of ``kind``."""
    return lambda entries: [replace(one, body=change(one.body)) if one.kind is kind else one for one in entries]
