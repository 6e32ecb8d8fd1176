"""C2SP signed-note v1.0.0 (c2sp.org/signed-note): text that ends in a newline, a blank line, signature lines.

Two kinds of keys are known: 0x01, Ed25519 over the text (logs), and 0x04, timestamped cosignatures of checkpoints
(witnesses; :mod:`controller.evidence.checkpoint`). Signatures of keys that nobody asked about are passed over; one
under the name and id of a key that was asked about must verify.
"""

from __future__ import annotations

import base64
import enum
import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from controller.evidence.grammar import base64_bytes, public_key, utf8
from controller.evidence.refusal import VerificationError
from protos.signing import KEY_BYTES

MAX_NOTE_BYTES = 10**6
MAX_SIGNATURES = 100
"""As Go's ``sumdb/note`` has both: what it reads we read."""

_KEY_ID_BYTES = 4
_MARK = "\N{EM DASH} "
_CONTROL = re.compile(r"[\x00-\x09\x0b-\x1f]")


class KeyKind(enum.Enum):
    """The signature types that are known, by their identifier byte."""

    LOG = 0x01
    WITNESS = 0x04


def check_name(name: str) -> str:
    """Return ``name`` if keys may have it: not empty, no space, no plus, no control character."""
    if not name or "+" in name or any(each.isspace() or ord(each) < ord(" ") for each in name):
        raise VerificationError("a key's name is empty or has a space, a plus or a control character in it")
    return name


@dataclass(frozen=True, slots=True)
class NoteKey:
    """A public key with the name and the kind it signs under."""

    name: str
    kind: KeyKind
    public_key: bytes

    @property
    def key_id(self) -> bytes:
        """Four bytes that tell keys of one name apart; no more than a hint."""
        encoded = self.name.encode("utf-8") + b"\n" + bytes([self.kind.value]) + self.public_key
        return hashlib.sha256(encoded).digest()[:_KEY_ID_BYTES]

    def encode(self) -> str:
        """Return the key as a vkey: ``name+id+base64(kind, key)``."""
        encoded = base64.b64encode(bytes([self.kind.value]) + self.public_key).decode("ascii")
        return f"{self.name}+{self.key_id.hex()}+{encoded}"


def decode_key(text: str) -> NoteKey:
    """Return the key in the vkey ``text``: its id is its own, and it is neither of low order nor non-canonical."""
    parts = text.split("+", 2)
    if len(parts) != 3:
        raise VerificationError("a verifier key is not of the form name+id+key")
    encoded = base64_bytes(parts[2], "a verifier key")
    kinds = {kind.value: kind for kind in KeyKind}
    if len(encoded) != 1 + KEY_BYTES or encoded[0] not in kinds:
        raise VerificationError("a verifier key is not an Ed25519 key of a log (1) or a witness (4)")
    raw = public_key(encoded[1:], "a verifier key").public_bytes_raw()
    key = NoteKey(check_name(parts[0]), kinds[encoded[0]], raw)
    if key.key_id.hex() != parts[1]:
        raise VerificationError("a verifier key's id is not the one of its name and key")
    return key


@dataclass(frozen=True, slots=True)
class Signature:
    """One signature line: whose it says it is, and what stands behind the key id."""

    name: str
    key_id: bytes
    signature: bytes

    def encode(self) -> str:
        """Return the line, with its newline."""
        return f"{_MARK}{self.name} {base64.b64encode(self.key_id + self.signature).decode('ascii')}\n"


@dataclass(frozen=True, slots=True)
class Note:
    """A note whose form is right; nothing in it may be believed before a signature was checked."""

    text: str
    signatures: tuple[Signature, ...]

    def encode(self) -> bytes:
        """Return the note's bytes."""
        return (self.text + "\n" + "".join(each.encode() for each in self.signatures)).encode("utf-8")

    def of(self, key: NoteKey) -> Signature | None:
        """Return the first signature under the name and id of ``key``, or None."""
        return next((each for each in self.signatures if (each.name, each.key_id) == (key.name, key.key_id)), None)


def decode(raw: bytes) -> Note:
    """Return the note in ``raw``."""
    if len(raw) > MAX_NOTE_BYTES:
        raise VerificationError(f"the note has {len(raw)} bytes; at most {MAX_NOTE_BYTES} are read")
    whole = utf8(raw, "the note")
    if _CONTROL.search(whole):
        raise VerificationError("the note has a control character in it")
    text, blank, rest = whole.rpartition("\n\n")
    if not blank or not text or not rest.endswith("\n"):
        raise VerificationError("the note has no signatures after a blank line, or does not end with a newline")
    return Note(f"{text}\n", decode_signatures(rest))


def decode_signatures(text: str) -> tuple[Signature, ...]:
    """Return the signatures in ``text``, whole lines of them."""
    lines = text.split("\n")
    if lines.pop() or not 1 <= len(lines) <= MAX_SIGNATURES:
        raise VerificationError(f"the note does not have 1 to {MAX_SIGNATURES} whole signature lines")
    return tuple(_signature(line) for line in lines)


def _signature(line: str) -> Signature:
    mark, (name, _, encoded) = line[: len(_MARK)], line[len(_MARK) :].partition(" ")
    raw = base64_bytes(encoded, "a signature of the note")
    if mark != _MARK or len(raw) <= _KEY_ID_BYTES:
        raise VerificationError("a signature line of the note is not a dash, a name, a key id and a signature")
    return Signature(check_name(name), raw[:_KEY_ID_BYTES], raw[_KEY_ID_BYTES:])


def sign(text: str, name: str, key: Ed25519PrivateKey) -> Note:
    """Return ``text``, which ends with a newline, signed as the log ``name``."""
    public = NoteKey(check_name(name), KeyKind.LOG, key.public_key().public_bytes_raw())
    note = Note(text, (Signature(name, public.key_id, key.sign(text.encode("utf-8"))),))
    decode(note.encode())  # what nobody could read must not be signed
    return note


def check(key: NoteKey, message: bytes, signature: bytes) -> None:
    """Return if ``signature`` is ``key``'s for ``message``."""
    try:
        public_key(key.public_key, f"the key of {key.name}").verify(signature, message)
    except InvalidSignature as error:
        raise VerificationError(f"the signature under the name {key.name} is not this key's") from error


def check_signed(note: Note, keys: Sequence[NoteKey]) -> None:
    """Return if each of the log ``keys`` signed ``note``."""
    for key in keys:
        signature = note.of(key)
        if key.kind is not KeyKind.LOG or signature is None:
            raise VerificationError(f"the note is not signed by {key.name}")
        check(key, note.text.encode("utf-8"), signature.signature)
