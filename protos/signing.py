"""Ed25519 signatures with a domain each, so that a signature for one purpose is worthless for another.

What is signed is ``"weighbridge/" domain "/v1" NUL payload``; the payload is kept as received and never
serialised again. Verification raises :class:`SignatureRejected`; nothing here returns a bool.

Keys of low order and keys that are not in canonical form are refused when they are loaded:
``cryptography`` accepts them, and under the identity point one signature verifies for every message.
"""

from __future__ import annotations

import enum
import hashlib

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

KEY_BYTES = 32
SIGNATURE_BYTES = 64

# The field prime of edwards25519 (RFC 8032, section 5.1).
_P = 2**255 - 19
# The y coordinates of the eight points of small order on edwards25519: the identity (1), order two (-1),
# order four (0), order eight (two roots that differ in sign).
_ORDER_8_Y = 2707385501144840649318225287225658788936804267575313519463743609750303402022
_LOW_ORDER_Y = frozenset({0, 1, _P - 1, _ORDER_8_Y, _P - _ORDER_8_Y})


class SigningDomain(enum.Enum):
    """What a signature is for."""

    FRAME = "frame"
    LEASE = "lease"
    CLASS_TABLE = "class-table"
    LEASE_REVOCATION = "lease-revocation"
    AGREEMENT = "agreement"
    LOAD_WINDOW = "load-window"


class SignatureRejected(ValueError):  # noqa: N818  a verdict on the input, named for what happened
    """The key is unfit or the signature does not verify."""


def load_public_key(raw: bytes) -> Ed25519PublicKey:
    """Return the key in ``raw`` (32 bytes, RFC 8032 encoding).

    Raises:
        SignatureRejected: wrong length, not canonical, not on the curve, or of low order.
    """
    if len(raw) != KEY_BYTES:
        raise SignatureRejected(f"an Ed25519 public key has {KEY_BYTES} bytes, this one has {len(raw)}")
    y = int.from_bytes(raw, "little") & ((1 << 255) - 1)
    if y >= _P:
        raise SignatureRejected("the Ed25519 public key is not in canonical form")
    if y in _LOW_ORDER_Y:
        raise SignatureRejected("the Ed25519 public key is of low order: it would verify forged signatures")
    try:
        return Ed25519PublicKey.from_public_bytes(raw)
    except ValueError as error:
        raise SignatureRejected("the Ed25519 public key is not a point of the curve") from error


def _message(domain: SigningDomain, payload: bytes) -> bytes:
    return b"weighbridge/" + domain.value.encode() + b"/v1\x00" + payload


def sign(key: Ed25519PrivateKey, domain: SigningDomain, payload: bytes) -> bytes:
    """Return the 64-byte signature of ``payload`` for ``domain``."""
    return key.sign(_message(domain, payload))


def verify(key: Ed25519PublicKey, domain: SigningDomain, payload: bytes, signature: bytes) -> None:
    """Return if ``signature`` is ``key``'s for ``payload`` in ``domain``.

    Raises:
        SignatureRejected: it is not.
    """
    if len(signature) != SIGNATURE_BYTES:
        raise SignatureRejected(f"an Ed25519 signature has {SIGNATURE_BYTES} bytes, this one has {len(signature)}")
    try:
        key.verify(signature, _message(domain, payload))
    except InvalidSignature as error:
        raise SignatureRejected(f"the signature is not this key's for a {domain.value}") from error


def fingerprint(raw_public_key: bytes) -> str:
    """Return the SHA-256 of a raw public key in hex, for people to compare; never a trust decision."""
    return hashlib.sha256(raw_public_key).hexdigest()
