"""What a verifier reads of others: whatever bytes come in, only the verification error goes out."""

from __future__ import annotations

import contextlib
import io
import lzma
from collections.abc import Callable, Mapping
from pathlib import Path

import tomli
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from controller import journal_leaf as leaf
from controller import witness
from controller.bundle import read_head
from controller.bundle_entries import read_entries
from controller.bundle_steps import StepError, verify
from controller.bundle_substance import contradictions, read_result
from controller.evidence import checkpoint, envelope, note, policy, statement
from controller.evidence.note import KeyKind, NoteKey
from controller.evidence.refusal import VerificationError
from controller.evidence.tree import check_consistency, check_inclusion
from controller.policyfile import load_policy

_VECTORS = Path(__file__).resolve().parents[2] / "tests" / "vectors"
# The keys of the vectors, so that what begins as one of them gets far.
_LOG, _WITNESS, _REPORT = (Ed25519PrivateKey.from_private_bytes(bytes([n]) * 32).public_key() for n in (1, 2, 3))
_LOG_KEY = NoteKey("weighbridge/vectors", KeyKind.LOG, _LOG.public_bytes_raw())
_WITNESS_KEY = NoteKey("prover.example/witness", KeyKind.WITNESS, _WITNESS.public_bytes_raw())
_POLICY = policy.Policy(_LOG_KEY, (_REPORT.public_bytes_raw(),), 1, (_WITNESS_KEY,), 1, None)
_SUMMARY_POLICY = load_policy(_VECTORS / "reports" / "summary" / "policy.toml")


def _checkpoint(raw: bytes) -> None:
    _, found = checkpoint.open_checkpoint(raw, _LOG_KEY)
    checkpoint.check_quorum(found, [_WITNESS_KEY], 1)


def _proofs(raw: bytes) -> None:
    first, second = int.from_bytes(raw[:8], "big") >> 1, int.from_bytes(raw[8:16], "big") >> 1
    hashes = [raw[at : at + 32] for at in range(16, min(len(raw), 16 + 70 * 32), 32)] or [b""]
    with contextlib.suppress(VerificationError):
        check_inclusion(first, second, hashes[0], hashes[1:], hashes[-1])
    check_consistency(first, second, hashes[1:], hashes[0], hashes[-1])


def _policy(raw: bytes) -> None:
    try:
        values = tomli.loads(raw.decode("utf-8"))
    except (ValueError, RecursionError):
        return
    policy.policy_of(values)


def _result(raw: bytes) -> None:
    contradictions(read_result(raw), {"verdict": "compliant", "links": []})


def _bundle(raw: bytes) -> None:
    with contextlib.suppress(StepError):
        verify(io.BytesIO(raw), _SUMMARY_POLICY, lambda _step, _text: None)


def _entries(raw: bytes) -> None:
    for data, body in read_entries(io.BytesIO(raw)):
        found = leaf.decode(data)
        if body is not None:
            found.check_body(body)


def _chunk(raw: bytes) -> None:
    _entries(b"chunk %d\n%s\n" % (len(raw), raw))


def _request(raw: bytes) -> None:
    witness.judge(witness.decode(raw), [_LOG_KEY], None)


TARGETS: Mapping[str, Callable[[bytes], object]] = {
    "envelope": lambda raw: envelope.open_envelope(raw, _POLICY.report_keys, 1),
    "statement": statement.decode,
    "leaf": leaf.decode,
    "note": note.decode,
    "key": lambda raw: note.decode_key(raw.decode("utf-8", "replace")),
    "checkpoint": _checkpoint,
    "proofs": _proofs,
    "policy": _policy,
    "result": _result,
    "bundle": _bundle,
    "entries": _entries,
    "chunk": _chunk,
    "request": _request,
}
"""Each takes any bytes; :class:`VerificationError` is its only answer but silence."""

EXPECTED = (VerificationError,)


def seeds(target: str) -> list[bytes]:
    """Return what to begin with."""
    # The good ones first.
    paths = sorted((_VECTORS / "evidence").iterdir(), key=lambda path: ("_fail" in path.name, path.name))
    evidence = {path.name: path.read_bytes() for path in paths}
    reports = [path.read_bytes() for path in (_VECTORS / "reports").glob("summary/*.bundle")]
    policies = [path.read_bytes() for path in (_VECTORS / "reports").glob("full/policy.toml")]
    good = evidence["checkpoint.txt"]
    with (_VECTORS / "reports" / "full-frames" / "report.bundle").open("rb") as full:
        read_head(full)
        entries = full.read()
    found = {
        "bundle": reports,
        "entries": [entries],
        "chunk": [lzma.compress(entries), lzma.compress(entries[:400])],
        "policy": policies,
        "request": [b"old 0\n\n" + good, b"old 1\n" + b"A" * 43 + b"=\n\n" + good],
        "key": [_LOG_KEY.encode().encode(), _WITNESS_KEY.encode().encode()],
        "result": [b'{"verdict": "compliant", "links": [], "findings": [], "assumptions": {}}'],
        "proofs": [bytes(range(256))],
    }
    return found.get(target) or [
        raw for name, raw in evidence.items() if name.startswith("checkpoint" if target == "note" else target)
    ]
