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
    """What was signed: ``predicate_type``, a URI with a major version, says what the predicate means.

    The subjects are SHA-256 by name; the predicate is JSON without floats, 64-bit numbers as decimal strings.
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
    """Return the statement in ``payload``, in which no subject is named twice."""
    body = json_object(payload, "the statement")
    if text_of(body, "_type", "the statement") != STATEMENT_TYPE:
        raise VerificationError(f"the statement is not of type {STATEMENT_TYPE}")
    predicate = body.get("predicate")
    if not isinstance(predicate, dict):
        raise VerificationError("the statement has no predicate")
    listed = body.get("subject")
    if not isinstance(listed, list) or not 1 <= len(listed) <= MAX_SUBJECTS:
        raise VerificationError(f"the statement does not have 1 to {MAX_SUBJECTS} subjects")
    subjects = dict(_subject(item) for item in listed)
    if len(subjects) != len(listed):
        raise VerificationError("the statement names the same subject twice")
    return Statement(text_of(body, "predicateType", "the statement"), subjects, predicate)


def _subject(item: Json) -> tuple[str, bytes]:
    digest = item.get("digest") if isinstance(item, dict) else None
    if not isinstance(item, dict) or not isinstance(digest, dict) or item.get("name") == "":
        raise VerificationError("a subject of the statement has no name or no digest")
    sha256 = text_of(digest, "sha256", "a subject's digest")
    return text_of(item, "name", "a subject of the statement"), sha256_hex(sha256, "a subject's digest")
