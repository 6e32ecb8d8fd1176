"""DSSE 1.0.2 envelopes (secure-systems-lab/dsse, protocol.md and envelope.md), Ed25519 only.

The payload is kept as signed and handed on as those very bytes; nothing is serialised again between signing and
reading. A threshold counts keys, not key ids: an id is a hint that anybody can write, and is not read at all.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from controller.evidence.grammar import Json, base64_bytes, json_object, text_of
from controller.evidence.refusal import VerificationError
from protos.signing import SIGNATURE_BYTES, SignatureRejected, fingerprint, load_public_key

IN_TOTO = "application/vnd.in-toto+json"
"""The payload type of in-toto attestations."""

MAX_SIGNATURES = 16
"""Each is tried under each trusted key."""


def pre_authentication(payload_type: str, payload: bytes) -> bytes:
    """Return what is signed: ``DSSEv1 LEN(type) type LEN(payload) payload``, lengths in bytes.

    Raises:
        VerificationError: the type is not printable ASCII, where libraries disagree about its length.
    """
    if not payload_type or not all("!" <= each <= "~" for each in payload_type):
        raise VerificationError("the envelope's payload type is not printable ASCII")
    kind = payload_type.encode("ascii")
    return b"DSSEv1 %d %s %d %s" % (len(kind), kind, len(payload), payload)


def seal(payload: bytes, keys: Sequence[Ed25519PrivateKey], payload_type: str = IN_TOTO) -> bytes:
    """Return the envelope of ``payload``, signed by each of ``keys``."""
    message = pre_authentication(payload_type, payload)
    signatures = [
        {
            "keyid": fingerprint(key.public_key().public_bytes_raw()),
            "sig": base64.b64encode(key.sign(message)).decode("ascii"),
        }
        for key in keys
    ]
    body = {
        "payload": base64.b64encode(payload).decode("ascii"),
        "payloadType": payload_type,
        "signatures": signatures,
    }
    return json.dumps(body, separators=(",", ":")).encode("ascii")


def open_envelope(raw: bytes, keys: Sequence[bytes], threshold: int, payload_type: str = IN_TOTO) -> bytes:
    """Return the payload of the envelope ``raw`` if at least ``threshold`` different ``keys`` signed it.

    1. Read the envelope; a field that is not known is passed over, as DSSE demands (nothing unsigned is used).
    2. Rebuild what was signed from the very bytes that are returned.
    3. Try each signature under each key (32 raw bytes each) and count the keys that fit one.
    4. The type must be the one asked for.

    Raises:
        VerificationError: it cannot be read, too few keys signed it, or it is of another type.
    """
    if threshold < 1:
        raise VerificationError("a threshold of no signature at all would accept anything")
    body = json_object(raw, "the envelope")
    payload = _either_base64(text_of(body, "payload", "the envelope"), "the envelope's payload")
    stated_type = text_of(body, "payloadType", "the envelope")
    message = pre_authentication(stated_type, payload)
    signatures = [_signature(each) for each in _signature_list(body)]
    accepted = {key for key in set(keys) if any(_signed(key, message, signature) for signature in signatures)}
    if len(accepted) < threshold:
        raise VerificationError(
            f"{len(accepted)} of the trusted keys signed the envelope; the policy asks for {threshold}"
        )
    if stated_type != payload_type:
        raise VerificationError(f"the envelope holds something else than {payload_type}")
    return payload


def _signature_list(body: dict[str, Json]) -> list[Json]:
    signatures = body.get("signatures")
    if not isinstance(signatures, list) or not 1 <= len(signatures) <= MAX_SIGNATURES:
        raise VerificationError(f"the envelope does not have 1 to {MAX_SIGNATURES} signatures")
    return signatures


def _signature(item: Json) -> bytes:
    if not isinstance(item, dict) or not isinstance(item.get("keyid", ""), str):
        raise VerificationError("a signature of the envelope is not an object with `sig` and perhaps `keyid`")
    return _either_base64(text_of(item, "sig", "a signature of the envelope"), "a signature of the envelope")


def _either_base64(text: str, what: str) -> bytes:
    # The specification allows both alphabets; a text that mixes them is in neither.
    return base64_bytes(text, what, url_safe="-" in text or "_" in text)


def _signed(key: bytes, message: bytes, signature: bytes) -> bool:
    if len(signature) != SIGNATURE_BYTES:
        return False
    try:
        load_public_key(key).verify(signature, message)
    except InvalidSignature:
        return False
    except SignatureRejected as error:
        raise VerificationError(f"a trusted key cannot be used: {error}") from error
    return True
