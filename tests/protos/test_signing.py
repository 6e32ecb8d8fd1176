"""Signatures: a domain each, and no key under which forgeries verify."""

from __future__ import annotations

import hashlib

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from hypothesis import given
from hypothesis import strategies as st

from protos.signing import SignatureRejected, SigningDomain, fingerprint, load_public_key, sign, verify

_P = 2**255 - 19
_D = -121665 * pow(121666, -1, _P) % _P
_KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
# The order of the base point (RFC 8032, section 5.1).
_L = 2**252 + 27742317777372353535851937790883648493


def _sqrt(square: int) -> int | None:
    """A square root modulo p (RFC 8032, section 5.1.3), None where there is none."""
    root = pow(square, (_P + 3) // 8, _P)
    if root * root % _P != square % _P:
        root = root * pow(2, (_P - 1) // 4, _P) % _P
    return root if root * root % _P == square % _P else None


def _add(a: tuple[int, int], b: tuple[int, int]) -> tuple[int, int]:
    """Add two points of edwards25519 in affine coordinates."""
    (x1, y1), (x2, y2) = a, b
    product = _D * x1 * x2 * y1 * y2
    x = (x1 * y2 + x2 * y1) * pow(1 + product, -1, _P) % _P
    y = (y1 * y2 + x1 * x2) * pow(1 - product, -1, _P) % _P
    return x, y


def _small_order_points() -> set[tuple[int, int]]:
    """The eight points of order 1, 2, 4 and 8, found from the curve itself: L times any point has such an order."""
    found: set[tuple[int, int]] = set()
    y = 2
    while len(found) < 8:
        x = _sqrt((y * y - 1) * pow(_D * y * y + 1, -1, _P) % _P)
        if x is not None:
            point, result, scalar = (x, y), (0, 1), _L
            while scalar:
                if scalar & 1:
                    result = _add(result, point)
                point, scalar = _add(point, point), scalar >> 1
            found.add(result)
        y += 1
    return found


def _encodings() -> list[bytes]:
    """Every 32-byte string that decodes to a point of small order, canonical or not."""
    strings = set()
    for _, y in _small_order_points():
        for value in (y, y + _P):
            if value < 2**255:
                strings |= {(value | sign << 255).to_bytes(32, "little") for sign in (0, 1)}
    return sorted(strings)


def test_the_curve_has_eight_points_of_small_order() -> None:
    points = _small_order_points()
    for point in points:
        double = _add(point, point)
        quadruple = _add(double, double)
        assert _add(quadruple, quadruple) == (0, 1)
    assert len(_encodings()) >= 10


@pytest.mark.parametrize("raw", _encodings(), ids=bytes.hex)
def test_keys_of_low_order_are_refused(raw: bytes) -> None:
    with pytest.raises(SignatureRejected, match=r"low order|canonical"):
        load_public_key(raw)


def test_the_library_alone_would_accept_a_forgery_under_the_identity() -> None:
    """Why the check exists: one fixed signature verifies for every message."""
    identity = (1).to_bytes(32, "little")
    forged = identity + bytes(32)
    for message in (b"a", b"b"):
        Ed25519PublicKey.from_public_bytes(identity).verify(forged, message)
    with pytest.raises(SignatureRejected):
        load_public_key(identity)


@pytest.mark.parametrize("excess", range(19))
@pytest.mark.parametrize("sign_bit", [0, 1])
def test_keys_that_are_not_canonical_are_refused(excess: int, sign_bit: int) -> None:
    raw = (_P + excess | sign_bit << 255).to_bytes(32, "little")
    with pytest.raises(SignatureRejected, match="canonical"):
        load_public_key(raw)


@pytest.mark.parametrize("length", [0, 31, 33, 64])
def test_keys_of_another_length_are_refused(length: int) -> None:
    with pytest.raises(SignatureRejected, match="has 32 bytes"):
        load_public_key(bytes(length))


@given(st.binary(min_size=32, max_size=32))
def test_nothing_but_a_key_or_its_refusal_comes_out(raw: bytes) -> None:
    try:
        key = load_public_key(raw)
    except SignatureRejected:
        return
    assert key.public_bytes_raw() == raw


@given(st.binary(max_size=200), st.sampled_from(SigningDomain))
def test_a_signature_holds_for_its_payload_in_its_domain_only(payload: bytes, domain: SigningDomain) -> None:
    public = load_public_key(_KEY.public_key().public_bytes_raw())
    signature = sign(_KEY, domain, payload)
    verify(public, domain, payload, signature)
    for other in set(SigningDomain) - {domain}:
        with pytest.raises(SignatureRejected):
            verify(public, other, payload, signature)
    with pytest.raises(SignatureRejected):
        verify(public, domain, payload + b"x", signature)
    with pytest.raises(SignatureRejected):
        verify(
            load_public_key(Ed25519PrivateKey.generate().public_key().public_bytes_raw()), domain, payload, signature
        )


def test_no_domain_and_payload_is_another_domain_and_payload() -> None:
    """What is signed names the domain and ends it: moving bytes between domain and payload makes another message."""
    names = [domain.value for domain in SigningDomain]
    assert len(set(names)) == len(names)
    assert all("\0" not in name and "/" not in name for name in names)


@given(st.integers(0, 511), st.binary(max_size=50))
def test_a_flipped_bit_is_seen(bit: int, payload: bytes) -> None:
    signature = bytearray(sign(_KEY, SigningDomain.FRAME, payload))
    signature[bit // 8] ^= 1 << bit % 8
    with pytest.raises(SignatureRejected):
        verify(_KEY.public_key(), SigningDomain.FRAME, payload, bytes(signature))


@pytest.mark.parametrize("length", [0, 63, 65])
def test_signatures_of_another_length_are_refused(length: int) -> None:
    with pytest.raises(SignatureRejected, match="has 64 bytes"):
        verify(_KEY.public_key(), SigningDomain.FRAME, b"", bytes(length))


def test_a_signature_has_one_form() -> None:
    """S + L verifies the same equation; it must not verify here, or a frame would have two envelopes."""
    signature = sign(_KEY, SigningDomain.FRAME, b"payload")
    second = signature[:32] + (int.from_bytes(signature[32:], "little") + _L).to_bytes(32, "little")
    with pytest.raises(SignatureRejected):
        verify(_KEY.public_key(), SigningDomain.FRAME, b"payload", second)


def test_what_is_signed_is_written_down() -> None:
    """Other implementations rely on these bytes."""
    message = b"weighbridge/frame/v1\x00payload"
    assert sign(_KEY, SigningDomain.FRAME, b"payload") == _KEY.sign(message)


def test_fingerprint() -> None:
    assert fingerprint(b"k" * 32) == hashlib.sha256(b"k" * 32).hexdigest()
