"""Makes ``tests/vectors/evidence``; run once for a format version, never again for one that was published.

python tests/vectors/make_evidence.py
"""

from __future__ import annotations

import base64
import json
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from controller.evidence import checkpoint as checkpoints
from controller.evidence.checkpoint import Checkpoint, cosign
from controller.evidence.envelope import seal
from controller.evidence.note import KeyKind, Note, NoteKey
from controller.evidence.statement import Statement
from controller.evidence.tree import CompactRange, leaf_hash
from controller.journal_leaf import Leaf

FOLDER = Path(__file__).with_name("evidence")


def main() -> None:
    """Write the files and their index."""
    log, witness, report = (Ed25519PrivateKey.from_private_bytes(bytes([number]) * 32) for number in (1, 2, 3))
    origin, witness_name = "weighbridge/vectors", "prover.example/witness"
    leaf = Leaf(0, "frame", "node1-dpu0", 1, 1_700_000_000_000_000_000, '{"received_ns":"5"}', bytes(range(32)))
    tree = CompactRange()
    tree.append(leaf_hash(leaf.encode()))
    tree.append(leaf_hash(b"a second leaf"))
    note = checkpoints.sign(Checkpoint(origin, tree.size, tree.root()), log)
    cosigned = Note(note.text, (*note.signatures, cosign(note, witness_name, witness, 1_700_000_000)))
    text = cosigned.encode().decode()
    statement = Statement("urn:weighbridge:vector:v1", {"journal": tree.root()}, {"bytes": "18446744073709551615"})
    payload = statement.encode()
    envelope = seal(payload, [report])
    body = json.loads(envelope)
    keys = {
        "log": NoteKey(origin, KeyKind.LOG, log.public_key().public_bytes_raw()).encode(),
        "witness": NoteKey(witness_name, KeyKind.WITNESS, witness.public_key().public_bytes_raw()).encode(),
        "report": report.public_key().public_bytes_raw().hex(),
    }

    def flipped(raw: bytes, at: int) -> bytes:
        return raw[:at] + bytes([raw[at] ^ 1]) + raw[at + 1 :]

    files: dict[str, tuple[bytes, str, str | None]] = {
        "envelope.json": (envelope, "envelope", None),
        "envelope-other-key_fail.json": (seal(payload, [log]), "envelope", "signed by a key that is not trusted"),
        "envelope-payload_fail.json": (
            json.dumps({**body, "payload": base64.b64encode(payload + b" ").decode()}).encode(),
            "envelope",
            "the payload has a space more than what was signed",
        ),
        "envelope-duplicate_fail.json": (
            envelope[:-1] + b',"payload":"e30="}',
            "envelope",
            "the payload stands there twice",
        ),
        "envelope-padding_fail.json": (
            envelope.replace(
                body["signatures"][0]["sig"].encode(), body["signatures"][0]["sig"][:-3].encode() + b"B=="
            ),
            "envelope",
            "the signature's unused base64 bits are not zero",
        ),
        "statement.json": (payload, "statement", None),
        "statement-number_fail.json": (
            payload.replace(b'"18446744073709551615"', b"18446744073709551615"),
            "statement",
            "a counter as a number: readers round it",
        ),
        "statement-subjects_fail.json": (
            payload.replace(b'"subject":[{', b'"subject":[{"name":"journal","digest":{"sha256":"%s"}},{' % (b"0" * 64)),
            "statement",
            "one subject is named twice",
        ),
        "leaf.bin": (leaf.encode(), "leaf", None),
        "leaf-spelling_fail.bin": (leaf.encode().replace(b",", b", ", 1), "leaf", "a space: another spelling"),
        "checkpoint.txt": (cosigned.encode(), "checkpoint", None),
        "checkpoint-root_fail.txt": (flipped(cosigned.encode(), 24), "checkpoint", "the root is not the signed one"),
        "checkpoint-witness_fail.txt": (
            Note(
                note.text,
                (*note.signatures, cosign(note, witness_name, log, 1_700_000_000)),
            ).encode(),
            "checkpoint",
            "the policy's witness did not sign: another key stands under its name",
        ),
        "checkpoint-size_fail.txt": (text.replace("\n2\n", "\n02\n").encode(), "checkpoint", "a leading zero"),
        "checkpoint-crlf_fail.txt": (text.replace("\n", "\r\n").encode(), "checkpoint", "a control character"),
    }
    FOLDER.mkdir(exist_ok=True)
    listed: dict[str, object] = {}
    for name, (raw, kind, why) in files.items():
        (FOLDER / name).write_bytes(raw)
        listed[name] = {"kind": kind, "good": why is None, **({"why": why} if why else {})}
    (FOLDER / "index.json").write_text(json.dumps({"keys": keys, "files": listed}, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
