"""The bytes that a journal entry is in the tree (docs/adr/0090).

``"weighbridge/journal-entry/v1" NUL`` and then a JSON array without spaces, ASCII only: leaf number, kind, source,
sequence or null, time recorded in nanoseconds, meta as JSON text, and the SHA-256 of the body in hexadecimal. So a
leaf binds everything about the entry, and the tree can be recomputed from the leaves when a body is no longer kept.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass

from controller.evidence.grammar import MAX_DECIMAL, sha256_hex, utf8
from controller.evidence.refusal import VerificationError

PREFIX = b"weighbridge/journal-entry/v1\x00"

MAX_LEAF_BYTES = 2**17
"""A source's name and the controller's own meta; bodies are not in it."""


@dataclass(frozen=True, slots=True)
class Leaf:
    """An entry of the journal but its body; see :mod:`controller.journal_entry`."""

    number: int
    kind: str
    source: str
    sequence: int | None
    recorded_ns: int
    meta: str
    body_sha256: bytes

    def encode(self) -> bytes:
        """Return the leaf's bytes."""
        values = [self.number, self.kind, self.source, self.sequence, self.recorded_ns, self.meta]
        return PREFIX + json.dumps([*values, self.body_sha256.hex()], separators=(",", ":")).encode("ascii")

    def check_body(self, body: bytes) -> None:
        """Return if ``body`` is what was recorded."""
        if hashlib.sha256(body).digest() != self.body_sha256:
            raise VerificationError(f"the body of leaf {self.number} ({self.kind}) is not what its leaf names")


def decode(data: bytes) -> Leaf:
    """Return the leaf in ``data``, spelt as :meth:`Leaf.encode` does."""
    if not data.startswith(PREFIX) or len(data) > MAX_LEAF_BYTES:
        raise VerificationError("a leaf is not a journal entry of this version")
    try:
        values = json.loads(utf8(data[len(PREFIX) :], "a leaf"))
        number, kind, source, sequence, recorded_ns, meta, body = values
        leaf = Leaf(number, kind, source, sequence, recorded_ns, meta, sha256_hex(body, "a leaf's body digest"))
        (kind + source + meta).encode("utf-8")  # half a surrogate pair could be stored nowhere
        fits = (
            all(isinstance(each, str) for each in (kind, source, meta))
            and all(type(each) is int for each in (number, recorded_ns))
            and 0 <= number <= MAX_DECIMAL
            and abs(recorded_ns) <= MAX_DECIMAL
            and (sequence is None or (type(sequence) is int and 1 <= sequence <= MAX_DECIMAL))
        )
    except (ValueError, TypeError, RecursionError) as error:
        raise VerificationError("a leaf is not the list of values that a journal entry is") from error
    if not fits or leaf.encode() != data:
        raise VerificationError("a leaf is not spelt as journal entries are")
    return leaf
