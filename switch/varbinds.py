"""The variable bindings of SNMP messages, written and read. Pure, and the one place where values get their type.

pysnmp's decoder builds some thirty objects a binding and checks each against its schema; that was over half of what
reading a switch cost (docs/adr/0143-bindings-are-read-directly.md). What it guards is guarded here: a list is whole or
a :class:`switch.ber.BerError`; a value that is not one of its type is ``UNKNOWN``, which voids that value alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from switch.ber import NULL, OBJECT_ID, SEQUENCE, BerError, element, expect, header, known_oids, object_id, oid_of
from switch.exchange import Oid, ValueType, VarBind

_NO_VALUE = bytes((NULL, 0))
_LONG_FORM = 0x80

# Tag octets: RFC 2578, section 7.1 (application class), RFC 3416, section 3 (context class).
_INTEGER, _OCTETS, _OID = 0x02, 0x04, 0x06
_UNSIGNED = {
    0x41: (ValueType.COUNTER32, 2**32 - 1),
    0x42: (ValueType.GAUGE32, 2**32 - 1),
    0x43: (ValueType.TIMETICKS, 2**32 - 1),
    0x46: (ValueType.COUNTER64, 2**64 - 1),
}
_STRINGS = {_OCTETS: ValueType.OCTETS, 0x40: ValueType.IP_ADDRESS, 0x44: ValueType.OPAQUE}
_EMPTY = {
    NULL: ValueType.NULL,
    0x80: ValueType.NO_SUCH_OBJECT,
    0x81: ValueType.NO_SUCH_INSTANCE,
    0x82: ValueType.END_OF_MIB_VIEW,
}


@lru_cache(maxsize=65_536)
def _question(oid: Oid) -> bytes:
    return element(SEQUENCE, object_id(oid) + _NO_VALUE)


def encode_names(oids: Sequence[Oid]) -> bytes:
    """Return the whole list of bindings that asks for ``oids``."""
    return element(SEQUENCE, b"".join([_question(oid) for oid in oids]))


def decode(data: bytes, at: int, end: int) -> tuple[VarBind, ...]:
    """Return the bindings of the list at ``at``, which must stop exactly at ``end``.

    One loop without a call for what nearly all bindings are: short lengths, a known name, an unsigned number.

    Raises:
        BerError: the octets are not such a list.
    """
    at, last = expect(data, at, end, SEQUENCE)
    if last != end:
        raise BerError("the list of bindings is none, or something follows it")
    found: list[VarBind] = []
    while at < last:
        if at + 6 > last or data[at] != SEQUENCE:  # sequence, name, value: two octets each at the least
            raise BerError(f"no binding at octet {at}")
        length = data[at + 1]
        start, stop = (at + 2, at + 2 + length) if length < _LONG_FORM else header(data, at, last)
        if stop > last or start + 4 > stop or data[start] != OBJECT_ID:
            raise BerError(f"no binding at octet {at}")
        length = data[start + 1]
        start, value = (start + 2, start + 2 + length) if length < _LONG_FORM else header(data, start, stop)
        if value + 2 > stop:
            raise BerError(f"a binding without a value at octet {at}")
        length = data[value + 1]
        content, after = (value + 2, value + 2 + length) if length < _LONG_FORM else header(data, value, stop)
        if after != stop:
            raise BerError(f"a binding whose value is not its end, at octet {at}")
        name = data[start:value]
        oid = known_oids.get(name) or oid_of(name)
        unsigned = _UNSIGNED.get(data[value])
        # Two's complement: a first bit that is set says negative, which no counter is. An empty one says nothing.
        if unsigned is None or content == stop or data[content] >= _LONG_FORM:
            found.append(_typed(oid, data[value], data[content:stop]))
        else:
            number = int.from_bytes(data[content:stop], "big")
            kind, most = unsigned
            found.append(VarBind(oid, kind, number) if number <= most else VarBind(oid, ValueType.UNKNOWN, None))
        at = stop
    return tuple(found)


def _typed(oid: Oid, tag: int, content: bytes) -> VarBind:
    """Return the binding of a value that is not an unsigned number, or is none of its type."""
    if tag in _STRINGS:
        return VarBind(oid, _STRINGS[tag], content)
    if tag == _INTEGER:
        number = int.from_bytes(content, "big", signed=True)
        if content and -(2**31) <= number < 2**31:
            return VarBind(oid, ValueType.INTEGER, number)
    elif tag == _OID:
        return VarBind(oid, ValueType.OID, oid_of(content))
    elif tag in _EMPTY and not content:
        return VarBind(oid, _EMPTY[tag], None)
    return VarBind(oid, ValueType.UNKNOWN, None)
