"""SNMPv3 by our own hand: keys, digests and encryption as pysnmp makes them, and what must not pass does not."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyasn1.codec.ber import decoder
from pysnmp.proto import rfc1902
from pysnmp.proto.mpmod.rfc3412 import SNMPv3Message
from pysnmp.proto.secmod.rfc3414.service import UsmSecurityParameters
from pysnmp.proto.secmod.rfc3826.priv.aes import Aes
from pysnmp.proto.secmod.rfc7860.auth.hmacsha2 import HmacSha2

from switch.asking import Level
from switch.ber import BerError, element, integer
from switch.exchange import Operation
from switch.message import read_outer, read_protected, write_pdu
from switch.mib import SYS_UPTIME
from switch.security import Authentication, Privacy, UserSecurity
from switch.session import UnusableError, UserSession, discovery
from switch.usm import MOST_BOOTS, EngineClock, _localize, authentic, decrypted, digest, encrypted, localized
from switch.varbinds import encode_names

S = 1_000_000_000
ENGINE = bytes.fromhex("80001f8880b1a2c3d4e5f60718")
USER = UserSecurity(
    "weighbridge", Authentication.SHA256, "correct horse battery", Privacy.AES128, "staple mustard seeds"
)
SERVICES = {
    Authentication.SHA256: HmacSha2.SHA256_SERVICE_ID,
    Authentication.SHA384: HmacSha2.SAH384_SERVICE_ID,
    Authentication.SHA512: HmacSha2.SHA512_SERVICE_ID,
}


@pytest.mark.parametrize("hashed", list(Authentication))
@pytest.mark.parametrize("privacy", list(Privacy))
def test_keys_and_digests_are_those_of_pysnmp(hashed: Authentication, privacy: Privacy) -> None:
    keys = localized(replace(USER, authentication=hashed, privacy=privacy), ENGINE)
    theirs = HmacSha2(SERVICES[hashed])
    master = theirs.hash_passphrase(rfc1902.OctetString(USER.authentication_phrase))
    localizing = theirs.localize_key(master, rfc1902.OctetString(ENGINE))
    assert keys.authentication == bytes(localizing)
    assert len(keys.privacy) == (16 if privacy is Privacy.AES128 else 32)
    message = bytes(100)
    blank = message[:40] + bytes(keys.digest_octets) + message[40:]
    signed = blank[:40] + digest(keys, blank) + blank[40 + keys.digest_octets :]
    parameters = rfc1902.OctetString(signed[40 : 40 + keys.digest_octets])
    theirs.authenticate_incoming_message(localizing, parameters, signed)
    assert authentic(keys, signed, 40, 40 + keys.digest_octets)
    assert not authentic(keys, signed, 40, 39 + keys.digest_octets)
    assert not authentic(keys, signed[:-1] + b"\x01", 40, 40 + keys.digest_octets)


def test_what_we_encrypt_pysnmp_decrypts() -> None:
    keys = localized(USER, ENGINE)
    salt = b"\x00\x01\x02\x03\x04\x05\x06\x07"
    plain = bytes(range(90))
    octets = encrypted(keys, 7, 99, salt, plain)
    theirs = Aes().decrypt_data(
        rfc1902.OctetString(keys.privacy), (7, 99, rfc1902.OctetString(salt)), rfc1902.OctetString(octets)
    )
    assert bytes(theirs) == plain == decrypted(keys, 7, 99, salt, octets)


def test_the_key_of_the_standards_own_example() -> None:
    """RFC 3414, A.3.2, which is of SHA-1."""
    engine_id = bytes.fromhex("000000000000000000000002")
    assert _localize("sha1", "maplesyrup", engine_id).hex() == "6695febc9288e36282235fc7151f128497b38f3f"


@pytest.mark.parametrize("engine_id", [b"", bytes(4), bytes(33)])
def test_an_impossible_engine_id_has_no_keys(engine_id: bytes) -> None:
    with pytest.raises(ValueError, match="octets"):
        localized(USER, engine_id)


def test_our_messages_are_read_by_pysnmps_schema() -> None:
    session = UserSession(USER)
    session.adopt(ENGINE)
    pdu = write_pdu(Operation.GET, 77, encode_names([SYS_UPTIME]), 0)
    for message in (session.protect(77, 1_400, pdu, Level.AUTH_PRIV, 0), discovery(78, 1_400)):
        read, rest = decoder.decode(message, asn1Spec=SNMPv3Message())
        assert rest == b""
        parameters, rest = decoder.decode(bytes(read[2]), asn1Spec=UsmSecurityParameters())
        assert rest == b""
        assert read[1][0] in (77, 78)
        assert bytes(parameters[3]) in (b"weighbridge", b"")


# --- the other side, as an agent answers


def answer(session: UserSession, level: Level = Level.AUTH_PRIV, request_id: int = 77) -> bytes:
    """What an engine with the same keys answers: a response that holds sysUpTime 5."""
    bindings = element(0x30, element(0x30, bytes.fromhex("06082b06010201010300") + element(0x43, b"\x05")))
    response = element(0xA2, integer(request_id) + integer(0) + integer(0) + bindings)
    return session.protect(77, 1_400, response, level, 0)


def pair(boots: int = 3, seconds: int = 1_000) -> tuple[UserSession, UserSession]:
    """A client's session and an engine's, the latter with boots and time."""
    ours, theirs = UserSession(USER), UserSession(USER)
    for each in (ours, theirs):
        each.adopt(ENGINE)
    theirs._clock.accept(boots, seconds, 0)
    return ours, theirs


def test_an_answer_is_opened_with_its_header() -> None:
    ours, theirs = pair()
    message = answer(theirs)
    opened = ours.unprotect(message, read_outer(message), Level.AUTH_PRIV, 0)
    assert opened.header == (ENGINE.hex(), 3, 1_000)
    assert (opened.pdu.request_id, opened.pdu.varbinds[0].oid, opened.pdu.varbinds[0].value) == (77, SYS_UPTIME, 5)


def test_any_octet_that_is_changed_makes_it_unusable() -> None:
    """Everything is under the digest, except that a changed header may not even be readable."""
    ours, theirs = pair()
    message = answer(theirs)
    generator = random.Random(4)
    for place in range(len(message)):
        damaged = bytearray(message)
        damaged[place] ^= 1 << generator.randrange(8)
        with pytest.raises((UnusableError, BerError)):
            ours.unprotect(bytes(damaged), read_outer(bytes(damaged)), Level.AUTH_PRIV, 0)
    assert ours.unprotect(message, read_outer(message), Level.AUTH_PRIV, 0).pdu.request_id == 77


def test_an_answer_less_protected_than_its_question_is_not_believed() -> None:
    ours, theirs = pair()
    message = answer(theirs, Level.AUTH_NO_PRIV)
    with pytest.raises(UnusableError, match="less protected"):
        ours.unprotect(message, read_outer(message), Level.AUTH_PRIV, 0)


def test_another_users_and_another_engines_messages_are_not_believed() -> None:
    for other in (replace(USER, user="somebody"), replace(USER, authentication_phrase="another pass phrase")):
        ours, theirs = UserSession(USER), UserSession(other)
        ours.adopt(ENGINE)
        theirs.adopt(ENGINE)
        message = answer(theirs)
        with pytest.raises(UnusableError):
            ours.unprotect(message, read_outer(message), Level.AUTH_PRIV, 0)
    ours, theirs = UserSession(USER), UserSession(USER)
    ours.adopt(ENGINE)
    theirs.adopt(ENGINE[:-1] + b"\x00")
    message = answer(theirs)
    with pytest.raises(UnusableError, match="another engine"):
        ours.unprotect(message, read_outer(message), Level.AUTH_PRIV, 0)


# --- the time window


def test_the_clock_follows_newer_messages_and_time_passes() -> None:
    clock = EngineClock()
    assert clock.now(5 * S) == (0, 0)
    assert clock.accept(3, 100, 10 * S)
    assert clock.now(70 * S) == (3, 160)
    assert clock.accept(3, 20, 10 * S + S)  # an older answer, within the window
    assert clock.now(70 * S) == (3, 160)
    assert clock.accept(4, 1, 80 * S)
    assert clock.now(80 * S) == (4, 1)


def test_what_is_out_of_the_window_is_refused_and_teaches_nothing() -> None:
    clock = EngineClock()
    assert clock.accept(3, 1_000, 0)
    assert not clock.accept(2, 9_999, 0)
    assert not clock.accept(3, 849, 0)
    assert clock.accept(3, 850, 0)
    assert not clock.accept(MOST_BOOTS, 5, 0)


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 1_000)), min_size=1), st.integers(0, 1_000))
def test_the_clock_never_goes_back(messages: list[tuple[int, int]], later: int) -> None:
    clock = EngineClock()
    last = (0, 0)
    for number, (boots, seconds) in enumerate(messages):
        clock.accept(boots, seconds, number * S)
        now = clock.now(number * S)
        assert now >= last
        last = now
    assert clock.now((len(messages) + later) * S) >= last


def test_no_salt_is_used_twice() -> None:
    """Two messages under one key and one salt would show what differs between them."""
    session = UserSession(USER)
    session.adopt(ENGINE)
    session._salt = 2**64 - 3
    salts = set()
    for _ in range(6):
        message = session.protect(77, 1_400, b"\x05\x00", Level.AUTH_PRIV, 0)
        salts.add(read_protected(message, read_outer(message)).salt)
    assert len(salts) == 6
