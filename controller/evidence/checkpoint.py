"""Checkpoints (c2sp.org/tlog-checkpoint v1.0.0) and their cosignatures (c2sp.org/tlog-cosignature v1.0.1, Ed25519).

A checkpoint is a log's promise about its size and root. A cosignature is a witness's word that, at a time by its own
clock, this was the largest tree it had seen of the log and that each continued the one before.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from controller.evidence import note as notes
from controller.evidence.grammar import MAX_DECIMAL, base64_bytes, decimal
from controller.evidence.note import KeyKind, Note, NoteKey, Signature
from controller.evidence.refusal import VerificationError
from controller.evidence.tree import EMPTY_ROOT, HASH_BYTES

_TIME_BYTES = 8


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A log's size and root. ``origin`` names the log; ``extensions`` are further lines, signed but without meaning."""

    origin: str
    size: int
    root: bytes
    extensions: tuple[str, ...] = ()

    def encode(self) -> str:
        """Return the text to sign."""
        root = base64.b64encode(self.root).decode("ascii")
        return "".join(f"{line}\n" for line in (self.origin, self.size, root, *self.extensions))


def decode(text: str) -> Checkpoint:
    """Return the checkpoint in the text of a note."""
    lines = text.split("\n")
    if lines.pop() or len(lines) < 3 or not all(lines):
        raise VerificationError("the checkpoint does not have origin, size and root, or has an empty line")
    origin, size, root, *extensions = lines
    found = Checkpoint(origin, decimal(size, "the checkpoint's size"), base64_bytes(root, "its root"), (*extensions,))
    if len(found.root) != HASH_BYTES or (found.size == 0 and found.root != EMPTY_ROOT):
        raise VerificationError("the checkpoint's root is not one that a tree of its size can have")
    return found


def sign(checkpoint: Checkpoint, key: Ed25519PrivateKey) -> Note:
    """Return ``checkpoint`` signed by its log's key."""
    decode(checkpoint.encode())
    return notes.sign(checkpoint.encode(), checkpoint.origin, key)


def open_checkpoint(raw: bytes, log: NoteKey) -> tuple[Checkpoint, Note]:
    """Return the checkpoint in ``raw`` and its note if ``log`` signed it under its own name."""
    note = notes.decode(raw)
    notes.check_signed(note, [log])
    checkpoint = decode(note.text)
    if checkpoint.origin != log.name:
        raise VerificationError("the checkpoint is of another log than the one that signed it")
    return checkpoint, note


def cosign(note: Note, name: str, key: Ed25519PrivateKey, time_s: int) -> Signature:
    """Return the witness ``name``'s cosignature at ``time_s`` (seconds since 1970) of the checkpoint in ``note``."""
    public = NoteKey(notes.check_name(name), KeyKind.WITNESS, key.public_key().public_bytes_raw())
    decode(note.text)
    signature = key.sign(_cosigned(note.text, time_s))
    return Signature(name, public.key_id, time_s.to_bytes(_TIME_BYTES, "big") + signature)


def check_cosignature(note: Note, witness: NoteKey) -> int | None:
    """Return when ``witness`` saw the checkpoint in ``note``, in seconds since 1970; None if it did not sign.

    A wrong cosignature under its name and id is refused, not passed over.
    """
    found = note.of(witness)
    if witness.kind is not KeyKind.WITNESS or found is None:
        return None
    time_s = int.from_bytes(found.signature[:_TIME_BYTES], "big")
    notes.check(witness, _cosigned(note.text, time_s), found.signature[_TIME_BYTES:])
    return time_s


def check_quorum(note: Note, witnesses: Sequence[NoteKey], quorum: int) -> Mapping[str, int]:
    """Return when each witness that signed saw the checkpoint in ``note``; at least ``quorum`` different keys did."""
    times = {witness: check_cosignature(note, witness) for witness in witnesses}
    signed = {witness: time_s for witness, time_s in times.items() if time_s is not None}
    count = len({witness.public_key for witness in signed})
    if count < quorum:
        raise VerificationError(f"{count} of the policy's witnesses cosigned the checkpoint; it asks for {quorum}")
    return {witness.name: time_s for witness, time_s in signed.items()}


def _cosigned(text: str, time_s: int) -> bytes:
    if not 0 < time_s <= MAX_DECIMAL:
        raise VerificationError("the cosignature has no time that can be")
    return f"cosignature/v1\ntime {time_s}\n{text}".encode()
