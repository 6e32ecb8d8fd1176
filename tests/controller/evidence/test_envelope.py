"""Envelopes: DSSE's own vector, two other implementations, and what was counted or believed that must not be."""

from __future__ import annotations

import base64
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
import securesystemslib.dsse
import securesystemslib.signer
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from hypothesis import given
from hypothesis import strategies as st

from controller.evidence.envelope import IN_TOTO, open_envelope, pre_authentication, seal
from controller.evidence.refusal import VerificationError

KEYS = [Ed25519PrivateKey.from_private_bytes(bytes([number]) * 32) for number in (1, 2, 3)]
PUBLIC = [key.public_key().public_bytes_raw() for key in KEYS]
PAYLOAD = b'{"hello": "world"}'


def changed(raw: bytes, **fields: Any) -> bytes:
    return json.dumps({**json.loads(raw), **fields}).encode()


def test_the_vector_of_the_protocol_text() -> None:
    message = pre_authentication("http://example.com/HelloWorld", b"hello world")
    assert message == b"DSSEv1 29 http://example.com/HelloWorld 11 hello world"


@given(payload=st.binary(max_size=200), count=st.integers(1, 3))
def test_round_trip(payload: bytes, count: int) -> None:
    assert open_envelope(seal(payload, KEYS[:count]), PUBLIC, count) == payload


def test_the_type_had_more_characters_than_bytes() -> None:
    with pytest.raises(VerificationError, match="ASCII"):
        seal(PAYLOAD, KEYS, "application/é")
    with pytest.raises(VerificationError, match="ASCII"):
        open_envelope(changed(seal(PAYLOAD, KEYS), payloadType="application/é"), PUBLIC, 1)


def test_one_key_was_counted_twice() -> None:
    sealed = json.loads(seal(PAYLOAD, KEYS[:1]))
    twice = [
        sealed["signatures"][0],
        {**sealed["signatures"][0], "keyid": "another"},
        {"sig": sealed["signatures"][0]["sig"]},
    ]
    raw = json.dumps({**sealed, "signatures": twice}).encode()
    assert open_envelope(raw, PUBLIC, 1) == PAYLOAD
    with pytest.raises(VerificationError, match="1 of the trusted keys"):
        open_envelope(raw, PUBLIC, 2)
    with pytest.raises(VerificationError, match="1 of the trusted keys"):
        open_envelope(raw, [PUBLIC[0], PUBLIC[0]], 2)


def test_a_key_id_decided_which_key_is_used() -> None:
    sealed = json.loads(seal(PAYLOAD, KEYS[:1]))
    for keyid in ("", "0" * 64, "another's"):
        raw = json.dumps({**sealed, "signatures": [{**sealed["signatures"][0], "keyid": keyid}]}).encode()
        assert open_envelope(raw, PUBLIC, 1) == PAYLOAD
        with pytest.raises(VerificationError):
            open_envelope(raw, PUBLIC[1:], 1)


def test_a_threshold_of_nothing() -> None:
    for threshold in (0, -1):
        with pytest.raises(VerificationError, match="anything"):
            open_envelope(seal(PAYLOAD, KEYS), PUBLIC, threshold)


def test_another_type_was_read_as_ours() -> None:
    with pytest.raises(VerificationError, match="something else"):
        open_envelope(seal(PAYLOAD, KEYS, "text/plain"), PUBLIC, 1)
    with pytest.raises(VerificationError, match="0 of the trusted keys"):
        open_envelope(changed(seal(PAYLOAD, KEYS, "text/plain"), payloadType=IN_TOTO), PUBLIC, 1)


def test_the_payload_was_changed() -> None:
    with pytest.raises(VerificationError, match="0 of the trusted keys"):
        open_envelope(changed(seal(PAYLOAD, KEYS), payload=base64.b64encode(b"{}").decode()), PUBLIC, 1)


def test_every_flipped_bit_of_a_signature() -> None:
    sealed = json.loads(seal(PAYLOAD, KEYS[:1]))
    signature = base64.b64decode(sealed["signatures"][0]["sig"])
    for bit in range(0, 512, 7):
        flipped = bytearray(signature)
        flipped[bit // 8] ^= 1 << bit % 8
        raw = changed(json.dumps(sealed).encode(), signatures=[{"sig": base64.b64encode(flipped).decode()}])
        with pytest.raises(VerificationError):
            open_envelope(raw, PUBLIC, 1)


@pytest.mark.parametrize(
    "fields",
    [
        {"signatures": []},
        {"signatures": {}},
        {"signatures": [None]},
        {"signatures": [{"keyid": "x"}]},
        {"signatures": [{"sig": 1}]},
        {"signatures": [{"sig": "QR==", "keyid": ""}]},
        {"signatures": [{"sig": "", "keyid": 3}]},
        {"signatures": [{"sig": "AA=="}] * 17},
        {"payload": None},
        {"payload": "e30"},
        {"payload": "+_=="},
        {"payloadType": ""},
        {"payloadType": 7},
    ],
)
def test_forms_that_are_none(fields: dict[str, Any]) -> None:
    with pytest.raises(VerificationError):
        open_envelope(changed(seal(PAYLOAD, KEYS), **fields), PUBLIC, 1)


def test_url_safe_base64_and_unknown_fields_are_read_as_the_specification_asks() -> None:
    payload = b"\xfb\xff\xfe"
    raw = changed(seal(payload, KEYS), payload=base64.urlsafe_b64encode(payload).decode(), more={"x": 1})
    assert b"-__-" in raw
    assert open_envelope(raw, PUBLIC, 3) == payload


def test_a_trusted_key_of_low_order() -> None:
    # Under the identity point this signature fits every message (facts of the field: cryptography lets it pass).
    identity = (1).to_bytes(32, "little")
    forged = changed(seal(PAYLOAD, KEYS), signatures=[{"sig": base64.b64encode(identity + bytes(32)).decode()}])
    with pytest.raises(VerificationError, match="low order"):
        open_envelope(forged, [identity], 1)


def test_an_error_does_not_hold_what_would_be_right() -> None:
    raw = seal(PAYLOAD, KEYS[:1])
    with pytest.raises(VerificationError) as caught:
        open_envelope(raw, PUBLIC[1:], 1)
    for secret in (json.loads(raw)["signatures"][0]["sig"], PUBLIC[0].hex(), PUBLIC[1].hex()):
        assert secret not in str(caught.value)


def second_opinion_key(public: bytes) -> securesystemslib.signer.SSlibKey:
    value = {"keyval": {"public": public.hex()}, "keytype": "ed25519", "scheme": "ed25519"}
    return securesystemslib.signer.SSlibKey.from_dict(_key_id(public), value)


def _key_id(public: bytes) -> str:
    from protos.signing import fingerprint  # noqa: PLC0415

    return fingerprint(public)


def test_securesystemslib_accepts_ours() -> None:
    envelope = securesystemslib.dsse.Envelope.from_dict(json.loads(seal(PAYLOAD, KEYS[:2])))
    keys: list[securesystemslib.signer.Key] = [second_opinion_key(public) for public in PUBLIC]
    assert len(envelope.verify(keys, 2)) == 2
    assert envelope.payload == PAYLOAD
    with pytest.raises(securesystemslib.exceptions.VerificationError):
        envelope.verify(keys, 3)


def test_we_accept_securesystemslibs() -> None:
    envelope = securesystemslib.dsse.Envelope(PAYLOAD, IN_TOTO, {})
    for key, public in zip(KEYS[:2], PUBLIC, strict=False):
        envelope.sign(securesystemslib.signer.CryptoSigner(key, second_opinion_key(public)))
    raw = json.dumps(envelope.to_dict()).encode()
    assert open_envelope(raw, PUBLIC, 2) == PAYLOAD
    with pytest.raises(VerificationError):
        open_envelope(raw, PUBLIC, 3)


def test_openssl_checks_a_raw_signature(tmp_path: Path) -> None:
    sealed = json.loads(seal(PAYLOAD, KEYS[:1]))
    (tmp_path / "key.pem").write_bytes(
        KEYS[0].public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    )
    (tmp_path / "message").write_bytes(pre_authentication(IN_TOTO, PAYLOAD))
    (tmp_path / "signature").write_bytes(base64.b64decode(sealed["signatures"][0]["sig"]))
    command = ["openssl", "pkeyutl", "-verify", "-pubin", "-inkey", "key.pem", "-rawin", "-in", "message"]
    done = subprocess.run(
        [*command, "-sigfile", "signature"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert (done.returncode, "Verified Successfully" in done.stdout) == (0, True), done.stderr
    (tmp_path / "message").write_bytes(pre_authentication(IN_TOTO, PAYLOAD + b" "))
    done = subprocess.run(
        [*command, "-sigfile", "signature"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode != 0
