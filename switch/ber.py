"""The Basic Encoding Rules as SNMP uses them (RFC 3417, section 8): definite lengths, tags of one octet. Pure.

Every read stays between two places of one ``bytes`` and is a :class:`BerError` where it would not; nothing is copied
before it is known to be whole.
"""

from __future__ import annotations

INTEGER, OCTET_STRING, NULL, OBJECT_ID, SEQUENCE = 0x02, 0x04, 0x05, 0x06, 0x30
MOST_ARCS = 128
"""Of an object identifier (RFC 2578, section 3.5)."""

_LARGEST_ARC = 2**32 - 1
_LONG_FORM = 0x80
_MOST_LENGTH_OCTETS = 4
_OIDS_KEPT, _LONGEST_KEPT = 65_536, 32
known_oids: dict[bytes, tuple[int, ...]] = {}
"""Names as they were read before: every poll brings the same ones. At most :data:`_OIDS_KEPT` of up to 32 octets."""


class BerError(ValueError):
    """Octets that are not what SNMP allows there."""


def element(tag: int, content: bytes) -> bytes:
    """Return ``content`` with its tag and length before it."""
    length = len(content)
    if length < _LONG_FORM:
        return bytes((tag, length)) + content
    octets = length.to_bytes(-(-length.bit_length() // 8), "big")
    return bytes((tag, _LONG_FORM | len(octets))) + octets + content


def integer(number: int) -> bytes:
    """Return a whole INTEGER."""
    bits = (number if number >= 0 else ~number).bit_length()
    return element(INTEGER, number.to_bytes(bits // 8 + 1, "big", signed=True))


def object_id(oid: tuple[int, ...]) -> bytes:
    """Return a whole OBJECT IDENTIFIER.

    Raises:
        BerError: ``oid`` has fewer than two arcs, or its first two are impossible.
    """
    if len(oid) < 2 or oid[0] > 2 or (oid[0] < 2 and oid[1] >= 40) or min(oid) < 0:
        raise BerError(f"{oid} is no object identifier")
    content = bytearray()
    for arc in (oid[0] * 40 + oid[1], *oid[2:]):
        most = max(1, -(-arc.bit_length() // 7))
        content += bytes((arc >> 7 * place & 0x7F) | (0x80 if place else 0) for place in reversed(range(most)))
    return element(OBJECT_ID, bytes(content))


def header(data: bytes, at: int, end: int) -> tuple[int, int]:
    """Return where the content of the element at ``at`` begins and stops; its tag is ``data[at]``.

    Raises:
        BerError: the element does not end before ``end``.
    """
    if at + 2 > end:
        raise BerError(f"an element is cut off at octet {at}")
    length, start = data[at + 1], at + 2
    if length >= _LONG_FORM:
        count = length & 0x7F
        if not 0 < count <= _MOST_LENGTH_OCTETS or start + count > end:
            raise BerError(f"an impossible length at octet {at}")
        length = int.from_bytes(data[start : start + count], "big")
        start += count
    if start + length > end:
        raise BerError(f"an element is longer than what it is in, at octet {at}")
    return start, start + length


def expect(data: bytes, at: int, end: int, tag: int) -> tuple[int, int]:
    """Return the bounds of the content of the element at ``at``, which must be ``tag``.

    Raises:
        BerError: it is another, or does not end before ``end``.
    """
    start, stop = header(data, at, end)
    if data[at] != tag:
        raise BerError(f"tag {data[at]:#04x} where {tag:#04x} belongs, at octet {at}")
    return start, stop


def read_integer(data: bytes, at: int, end: int) -> tuple[int, int]:
    """Return the INTEGER of up to 32 bits at ``at`` and where it stops.

    Raises:
        BerError: there is none.
    """
    start, stop = expect(data, at, end, INTEGER)
    number = int.from_bytes(data[start:stop], "big", signed=True)
    if start == stop or not -(2**31) <= number < 2**31:
        raise BerError(f"an integer of {stop - start} octets that is none of 32 bits, at octet {at}")
    return number, stop


def read_octets(data: bytes, at: int, end: int) -> tuple[bytes, int]:
    """Return the OCTET STRING at ``at`` and where it stops.

    Raises:
        BerError: there is none.
    """
    start, stop = expect(data, at, end, OCTET_STRING)
    return data[start:stop], stop


def oid_of(content: bytes) -> tuple[int, ...]:
    """Return the object identifier that ``content`` encodes.

    Raises:
        BerError: it encodes none, or one that SNMP does not allow.
    """
    known = known_oids.get(content)
    if known is not None:
        return known
    if not content or content[-1] & 0x80:
        raise BerError("an object identifier is cut off")
    arcs: list[int] = []
    arc = 0
    for octet in content:
        if not arc and octet == 0x80:
            raise BerError("an object identifier with padding")
        arc = arc << 7 | octet & 0x7F
        if arc > _LARGEST_ARC + 80:
            raise BerError("an object identifier with a number above 32 bits")
        if octet < 0x80:
            arcs.append(arc)
            arc = 0
    first = min(arcs[0] // 40, 2)
    oid = (first, arcs[0] - 40 * first, *arcs[1:])
    if len(oid) > MOST_ARCS or max(oid) > _LARGEST_ARC:
        raise BerError("an object identifier that is too long or has a number above 32 bits")
    if len(content) <= _LONGEST_KEPT:
        if len(known_oids) >= _OIDS_KEPT:
            known_oids.clear()
        known_oids[content] = oid
    return oid
