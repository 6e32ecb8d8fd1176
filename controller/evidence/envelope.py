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

from controller.evidence.grammar import Json, base64_bytes, json_object, public_key, text_of
from controller.evidence.refusal import VerificationError
from protos.signing import fingerprint

IN_TOTO = "application/vnd.in-toto+json"
"""The payload type of in-toto attestations."""

MAX_SIGNATURES = 16
"""Each is tried under each trusted key."""


def pre_authentication(payload_type: str, payload: bytes) -> bytes:
    """Return what is signed: ``DSSEv1 LEN(type) type LEN(payload) payload``, lengths in bytes."""
    # Of a type that is not ASCII, libraries count bytes or characters.
    if not payload_type or not all("!" <= each <= "~" for each in payload_type):
        raise VerificationError("the envelope's payload type is not printable ASCII")
    kind = payload_type.encode("ascii")
    return b"DSSEv1 %d %s %d %s" % (len(kind), kind, len(payload), payload)


def seal(payload: bytes, keys: Sequence[Ed25519PrivateKey], payload_type: str = IN_TOTO) -> bytes:
    """Return the envelope of ``payload``, signed by each of ``keys``."""
    message = pre_authentication(payload_type, payload)
    signatures = [(fingerprint(key.public_key().public_bytes_raw()), key.sign(message)) for key in keys]
    body = {
        "payload": base64.b64encode(payload).decode("ascii"),
        "payloadType": payload_type,
        "signatures": [{"keyid": one, "sig": base64.b64encode(sig).decode("ascii")} for one, sig in signatures],
    }
    return json.dumps(body, separators=(",", ":")).encode("ascii")


def open_envelope(raw: bytes, keys: Sequence[bytes], threshold: int, payload_type: str = IN_TOTO) -> bytes:
    """Return the payload of the envelope ``raw`` if at least ``threshold`` different ``keys`` signed it.

    1. Read the envelope; a field that is not known is passed over, as DSSE demands (nothing unsigned is used).
    2. Rebuild what was signed from the very bytes that are returned.
    3. Try each signature under each key (32 raw bytes each) and count the keys that fit one.
    4. The type must be the one asked for.
    """
    if threshold < 1:
        raise VerificationError("a threshold of no signature at all would accept anything")
    body = json_object(raw, "the envelope")
    payload = _either_base64(body, "payload", "the envelope")
    stated_type = text_of(body, "payloadType", "the envelope")
    message = pre_authentication(stated_type, payload)
    listed = body.get("signatures")
    if not isinstance(listed, list) or not 1 <= len(listed) <= MAX_SIGNATURES:
        raise VerificationError(f"the envelope does not have 1 to {MAX_SIGNATURES} signatures")
    signatures = [_signature(each) for each in listed]
    count = sum(any(_signed(key, message, signature) for signature in signatures) for key in set(keys))
    if count < threshold:
        raise VerificationError(f"{count} of the trusted keys signed the envelope; the policy asks for {threshold}")
    if stated_type != payload_type:
        raise VerificationError(f"the envelope holds something else than {payload_type}")
    return payload


def _signature(item: Json) -> bytes:
    if not isinstance(item, dict) or not isinstance(item.get("keyid", ""), str):
        raise VerificationError("a signature of the envelope is not an object with `sig` and perhaps `keyid`")
    return _either_base64(item, "sig", "a signature of the envelope")


def _either_base64(table: dict[str, Json], key: str, what: str) -> bytes:
    # The specification allows both alphabets; a text that mixes them is in neither.
    text = text_of(table, key, what)
    return base64_bytes(text, what, url_safe="-" in text or "_" in text)


def _signed(key: bytes, message: bytes, signature: bytes) -> bool:
    try:
        public_key(key, "a trusted key").verify(signature, message)
    except InvalidSignature:
        return False
    return True
