"""SNMPv3 and SNMPv2c messages as octets, and back. Pure: no keys, no clock, no socket.

Sources: RFC 3412, section 6 (SNMPv3Message, ScopedPDU), RFC 3414, section 2.4 (UsmSecurityParameters), RFC 3416,
section 3 (PDUs), RFC 1901 (SNMPv2c). One message fills one datagram (RFC 3417, section 3): what follows it is an error.
"""

from __future__ import annotations

from dataclasses import dataclass

from switch.ber import (
    OCTET_STRING,
    SEQUENCE,
    BerError,
    element,
    expect,
    header,
    integer,
    read_integer,
    read_octets,
)
from switch.exchange import Operation, VarBind
from switch.varbinds import decode, encode_names

RESPONSE, REPORT = 0xA2, 0xA8
AUTH_FLAG, PRIV_FLAG, REPORTABLE_FLAG = 1, 2, 4

_REQUESTS = {Operation.GET: 0xA0, Operation.GET_BULK: 0xA5}
_V2C, _V3 = 1, 3
_USER_BASED = 3


@dataclass(frozen=True, slots=True)
class Pdu:
    """A response or a report."""

    tag: int
    request_id: int
    error_status: int
    error_index: int
    varbinds: tuple[VarBind, ...]


@dataclass(frozen=True, slots=True)
class Outer:
    """What is read of a message before its security is looked at.

    Attributes:
        version: 1 (SNMPv2c) or 3.
        identity: the message's id; of SNMPv2c its request's.
        flags: of SNMPv3; 0 otherwise.
        rest: where what belongs to the version begins.
    """

    version: int
    identity: int
    flags: int
    rest: int


@dataclass(frozen=True, slots=True)
class Protected:
    """An SNMPv3 message's security parameters and where its content is.

    Attributes:
        engine_id: of the authoritative engine.
        boots: of that engine.
        seconds: its time.
        user: whose message it is.
        digest_start: where the digest begins in the datagram.
        digest_stop: where it stops.
        salt: of the encryption.
        content: where the scoped PDU begins, or, encrypted, the octet string that holds it.
    """

    engine_id: bytes
    boots: int
    seconds: int
    user: bytes
    digest_start: int
    digest_stop: int
    salt: bytes
    content: int


def write_pdu(operation: Operation, request_id: int, names: bytes, max_repetitions: int) -> bytes:
    """Return a request for the encoded ``names`` (:func:`switch.varbinds.encode_names`)."""
    return element(_REQUESTS[operation], integer(request_id) + integer(0) + integer(max_repetitions) + names)


def discovery_pdu(request_id: int) -> bytes:
    """Return a request for nothing, which asks an engine for its id (RFC 3414, section 4)."""
    return write_pdu(Operation.GET, request_id, encode_names(()), 0)


def scoped(engine_id: bytes, pdu: bytes) -> bytes:
    """Return ``pdu`` in the default context of an engine."""
    return element(SEQUENCE, element(OCTET_STRING, engine_id) + element(OCTET_STRING, b"") + pdu)


def write_v2c(community: bytes, pdu: bytes) -> bytes:
    """Return an SNMPv2c message."""
    return element(SEQUENCE, integer(_V2C) + element(OCTET_STRING, community) + pdu)


def write_v3(
    identity: int,
    most_octets: int,
    flags: int,
    *,
    engine_id: bytes = b"",
    boots: int = 0,
    seconds: int = 0,
    user: bytes = b"",
    digest_octets: int = 0,
    salt: bytes = b"",
    content: bytes,
) -> tuple[bytes, int]:
    """Return an SNMPv3 message with zeros for its digest, and where they begin.

    ``content`` is a scoped PDU, or the octet string that holds it encrypted; ``most_octets`` is the largest answer.
    """
    about = integer(identity) + integer(most_octets) + element(OCTET_STRING, bytes((flags,))) + integer(_USER_BASED)
    after = element(OCTET_STRING, salt)
    parameters = (
        element(OCTET_STRING, engine_id)
        + integer(boots)
        + integer(seconds)
        + element(OCTET_STRING, user)
        + element(OCTET_STRING, bytes(digest_octets))
        + after
    )
    security = element(OCTET_STRING, element(SEQUENCE, parameters))
    whole = element(SEQUENCE, integer(_V3) + element(SEQUENCE, about) + security + content)
    return whole, len(whole) - len(content) - len(after) - digest_octets


def read_outer(data: bytes) -> Outer:
    """Return which message ``data`` is.

    Raises:
        BerError: it is none, or of another version or security model.
    """
    at, end = expect(data, 0, len(data), SEQUENCE)
    if end != len(data):
        raise BerError("something follows the message")
    version, at = read_integer(data, at, end)
    if version == _V2C:
        _, after = expect(data, at, end, OCTET_STRING)
        start, stop = header(data, after, end)
        return Outer(_V2C, read_integer(data, start, stop)[0], 0, at)
    if version != _V3:
        raise BerError(f"a message of version {version}")
    start, stop = expect(data, at, end, SEQUENCE)
    identity, start = read_integer(data, start, stop)
    _, start = read_integer(data, start, stop)
    flags, start = read_octets(data, start, stop)
    model, start = read_integer(data, start, stop)
    if start != stop or len(flags) != 1 or model != _USER_BASED:
        raise BerError("a message with another header or security model than was asked with")
    return Outer(_V3, identity, flags[0], stop)


def read_v2c(data: bytes, outer: Outer) -> tuple[bytes, Pdu]:
    """Return the community and the PDU of an SNMPv2c message.

    Raises:
        BerError: it has none.
    """
    community, at = read_octets(data, outer.rest, len(data))
    return community, _read_pdu(data, at, len(data))


def read_protected(data: bytes, outer: Outer) -> Protected:
    """Return the security parameters of an SNMPv3 message.

    Raises:
        BerError: it has none.
    """
    start, content = expect(data, outer.rest, len(data), OCTET_STRING)
    at, end = expect(data, start, content, SEQUENCE)
    if end != content:
        raise BerError("something follows the security parameters")
    engine_id, at = read_octets(data, at, end)
    boots, at = read_integer(data, at, end)
    seconds, at = read_integer(data, at, end)
    user, at = read_octets(data, at, end)
    digest_start, digest_stop = expect(data, at, end, OCTET_STRING)
    salt, at = read_octets(data, digest_stop, end)
    if at != end or boots < 0 or seconds < 0:
        raise BerError("impossible security parameters")
    return Protected(engine_id, boots, seconds, user, digest_start, digest_stop, salt, content)


def read_ciphertext(data: bytes, at: int) -> bytes:
    """Return the octets of an encrypted scoped PDU.

    Raises:
        BerError: there are none.
    """
    octets, end = read_octets(data, at, len(data))
    if end != len(data):
        raise BerError("something follows the encrypted content")
    return octets


def read_scoped(data: bytes, at: int) -> tuple[bytes, bytes, Pdu]:
    """Return context engine id, context name and PDU of the scoped PDU at ``at``.

    Raises:
        BerError: there is none.
    """
    at, end = expect(data, at, len(data), SEQUENCE)
    if end != len(data):
        raise BerError("something follows the content")
    engine_id, at = read_octets(data, at, end)
    name, at = read_octets(data, at, end)
    return engine_id, name, _read_pdu(data, at, end)


def _read_pdu(data: bytes, at: int, end: int) -> Pdu:
    start, stop = header(data, at, end)
    tag = data[at]
    if stop != end or tag not in (RESPONSE, REPORT):
        raise BerError("neither a response nor a report")
    request_id, at = read_integer(data, start, stop)
    status, at = read_integer(data, at, stop)
    index, at = read_integer(data, at, stop)
    if status < 0 or index < 0:
        raise BerError("a negative error status or index")
    return Pdu(tag, request_id, status, index, decode(data, at, stop))
