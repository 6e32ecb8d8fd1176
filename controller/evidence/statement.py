"""in-toto Statement v1 (in-toto/attestation, spec/v1/statement.md): a predicate about subjects named by SHA-256.

Reading is monotonic, as the specification asks: a field that is not known is passed over, so none may ever turn a
failure into a success.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from controller.evidence.grammar import Json, json_object, sha256_hex, text_of
from controller.evidence.refusal import VerificationError

STATEMENT_TYPE = "https://in-toto.io/Statement/v1"

MAX_SUBJECTS = 1000


@dataclass(frozen=True, slots=True)
class Statement:
    """What was signed.

    Attributes:
        predicate_type: a URI with a major version; what ``predicate`` means.
        subjects: SHA-256 of each subject, by its name.
        predicate: JSON without floats; 64-bit numbers are decimal strings.
    """

    predicate_type: str
    subjects: Mapping[str, bytes]
    predicate: Mapping[str, Json]

    def encode(self) -> bytes:
        """Return the payload to sign."""
        body = {
            "_type": STATEMENT_TYPE,
            "subject": [{"name": name, "digest": {"sha256": sha256.hex()}} for name, sha256 in self.subjects.items()],
            "predicateType": self.predicate_type,
            "predicate": dict(self.predicate),
        }
        payload = json.dumps(body, separators=(",", ":")).encode("ascii")
        decode(payload)  # what nobody could read must not be signed
        return payload


def decode(payload: bytes) -> Statement:
    """Return the statement in ``payload``.

    Raises:
        VerificationError: it is none, or names a subject twice or without a SHA-256.
    """
    body = json_object(payload, "the statement")
    if text_of(body, "_type", "the statement") != STATEMENT_TYPE:
        raise VerificationError(f"the statement is not of type {STATEMENT_TYPE}")
    predicate = body.get("predicate")
    if not isinstance(predicate, dict):
        raise VerificationError("the statement has no predicate")
    listed = body.get("subject")
    if not isinstance(listed, list) or not 1 <= len(listed) <= MAX_SUBJECTS:
        raise VerificationError(f"the statement does not have 1 to {MAX_SUBJECTS} subjects")
    subjects: dict[str, bytes] = {}
    for item in listed:
        name, sha256 = _subject(item)
        if name in subjects:
            raise VerificationError("the statement names the same subject twice")
        subjects[name] = sha256
    return Statement(text_of(body, "predicateType", "the statement"), subjects, predicate)


def _subject(item: Json) -> tuple[str, bytes]:
    digest = item.get("digest") if isinstance(item, dict) else None
    if not isinstance(item, dict) or not isinstance(digest, dict):
        raise VerificationError("a subject of the statement has no digest")
    name = text_of(item, "name", "a subject of the statement")
    if not name:
        raise VerificationError("a subject of the statement has an empty name")
    return name, sha256_hex(text_of(digest, "sha256", "a subject's digest"), "a subject's digest")
