"""TPM 2.0 quotes: a device's word, signed in hardware, of which software it booted. Pure: values in, values out.

A quote is a TPMS_ATTEST (TCG TPM 2.0 Library, part 2, 10.12.12) and a TPMT_SIGNATURE over its bytes, as ``tpm2_quote``
writes both. Everything that is used comes out of the signed bytes, after the signature was checked:

1. The signature is of the key that the reader brought, ECDSA P-256 or RSA PKCS #1 v1.5, with SHA-256.
2. The bytes are a quote and nothing else: TPM_GENERATED_VALUE, TPM_ST_ATTEST_QUOTE, no byte left over. A TPM signs
   other things, too, and data that an attacker chose, but never with that beginning.
3. Its nonce is the challenge's.
4. It is about the registers that were asked for, no more and no fewer, in their SHA-256 bank.
5. Their digest is the one expected.

What does not hold raises :class:`~controller.evidence.refusal.VerificationError`; no text says what was expected.
"""

from __future__ import annotations

import hmac
import struct
from collections.abc import Collection
from dataclasses import dataclass

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import padding
from cryptography.hazmat.primitives.asymmetric.ec import ECDSA, SECP256R1, EllipticCurvePublicKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import load_pem_public_key

from controller.evidence.refusal import VerificationError

NONCE_BYTES = 32
MAX_QUOTE_BYTES = 4096
REGISTERS = range(24)
MIN_RSA_BITS = 2048

_GENERATED, _QUOTE = 0xFF544347, 0x8018
_SHA256, _RSASSA, _ECDSA = 0x000B, 0x0014, 0x0018


@dataclass(frozen=True, slots=True)
class Quote:
    """What the signed bytes say.

    Attributes:
        nonce: what the quote answers.
        registers: which platform configuration registers it is about.
        digest: SHA-256 over their values, in order.
        resets: how often the TPM was reset, by its own count; ``restarts`` since then.
        clock_ms: the TPM's clock; never set back without ``safe`` being false for a while.
        firmware: the TPM's own firmware version.
    """

    nonce: bytes
    registers: frozenset[int]
    digest: bytes
    resets: int
    restarts: int
    clock_ms: int
    safe: bool
    firmware: int


class _Reader:
    """Takes big-endian fields from the front of ``raw``."""

    def __init__(self, raw: bytes, what: str) -> None:
        if len(raw) > MAX_QUOTE_BYTES:
            raise VerificationError(f"{what} has {len(raw)} bytes; at most {MAX_QUOTE_BYTES} are read")
        self._raw, self._at, self._what = raw, 0, what

    def take(self, count: int) -> bytes:
        found = self._raw[self._at : self._at + count]
        if len(found) != count:
            raise VerificationError(f"{self._what} ends too early")
        self._at += count
        return found

    def number(self, count: int) -> int:
        return int.from_bytes(self.take(count), "big")

    def sized(self) -> bytes:
        return self.take(self.number(2))

    def end(self) -> None:
        if self._at != len(self._raw):
            raise VerificationError(f"{self._what} goes on after its end")


def open_quote(message: bytes, signature: bytes, key_pem: bytes) -> Quote:
    """Return the quote in ``message`` if the key in ``key_pem``, which the reader trusts, signed it."""
    _check_signature(message, signature, key_pem)
    return _decode(message)


def check_quote(quote: Quote, nonce: bytes, registers: Collection[int], digest: bytes) -> None:
    """Return if ``quote`` answers the challenge ``nonce`` about ``registers``, which have ``digest``."""
    if len(nonce) != NONCE_BYTES or not hmac.compare_digest(quote.nonce, nonce):
        raise VerificationError("the quote answers another challenge than this one")
    if quote.registers != frozenset(registers):
        raise VerificationError("the quote is about other registers than were asked for")
    if not hmac.compare_digest(quote.digest, digest):
        raise VerificationError("the registers do not have the values that are expected: other software was booted")


def _decode(message: bytes) -> Quote:
    read = _Reader(message, "the quote")
    if (read.number(4), read.number(2)) != (_GENERATED, _QUOTE):
        raise VerificationError("what was signed is not a quote that a TPM made")
    read.sized()  # the signer's qualified name; whose key it is, the reader knows
    nonce = read.sized()
    clock_ms, resets, restarts, safe, firmware = struct.unpack(">QIIBQ", read.take(25))
    if read.number(4) != 1 or read.number(2) != _SHA256:
        raise VerificationError("the quote is not about registers of the SHA-256 bank alone")
    bits = int.from_bytes(read.take(read.number(1)), "little")
    digest = read.sized()
    read.end()
    if bits >> len(REGISTERS) or safe > 1 or len(digest) != NONCE_BYTES:
        raise VerificationError("the quote is about registers that there are not, or is not spelt as TPMs do")
    registers = frozenset(number for number in REGISTERS if bits >> number & 1)
    return Quote(nonce, registers, digest, resets, restarts, clock_ms, bool(safe), firmware)


def _check_signature(message: bytes, signature: bytes, key_pem: bytes) -> None:
    read = _Reader(signature, "the signature")
    scheme, hashed = read.number(2), read.number(2)
    try:
        key = load_pem_public_key(key_pem)
    except (ValueError, UnsupportedAlgorithm) as error:
        raise VerificationError("the attestation key is not a public key in PEM") from error
    try:
        if hashed != _SHA256:
            raise VerificationError("the quote is not signed over SHA-256")
        if isinstance(key, EllipticCurvePublicKey) and isinstance(key.curve, SECP256R1) and scheme == _ECDSA:
            r, s = (int.from_bytes(read.sized(), "big") for _ in range(2))
            read.end()
            key.verify(encode_dss_signature(r, s), message, ECDSA(SHA256()))
        elif isinstance(key, RSAPublicKey) and key.key_size >= MIN_RSA_BITS and scheme == _RSASSA:
            raw = read.sized()
            read.end()
            key.verify(raw, message, padding.PKCS1v15(), SHA256())
        else:
            raise VerificationError(
                "the quote is not signed by ECDSA P-256, or RSA of 2048 bits and more, as its key is"
            )
    except InvalidSignature as error:
        raise VerificationError("the quote is not signed by the attestation key") from error
