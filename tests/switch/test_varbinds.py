"""Bindings are read as pyasn1 reads them, and what it would refuse is refused or void."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyasn1.codec.ber import decoder, encoder
from pysnmp.proto import rfc1902, rfc1905

from switch.ber import BerError, element, header, integer, object_id, oid_of, read_integer
from switch.exchange import Oid, ValueType, VarBind
from switch.varbinds import decode, encode_names

OID: Oid = (1, 3, 6, 1, 2, 1, 31, 1, 1, 1, 6, 4_294_967_295)

oids = st.builds(
    lambda first, second, rest: (first, second if first == 2 else second % 40, *rest),
    st.integers(0, 2),
    st.integers(0, 2**32 - 1),
    st.lists(st.integers(0, 2**32 - 1), max_size=20),
)
unsigned = st.integers(0, 2**32 - 1)
values = st.one_of(
    st.tuples(st.just(ValueType.INTEGER), st.integers(-(2**31), 2**31 - 1)),
    st.tuples(st.just(ValueType.COUNTER32), unsigned),
    st.tuples(st.just(ValueType.GAUGE32), unsigned),
    st.tuples(st.just(ValueType.TIMETICKS), unsigned),
    st.tuples(st.just(ValueType.COUNTER64), st.integers(0, 2**64 - 1)),
    st.tuples(st.just(ValueType.OCTETS), st.binary(max_size=400)),
    st.tuples(st.just(ValueType.OPAQUE), st.binary(max_size=40)),
    st.tuples(st.just(ValueType.IP_ADDRESS), st.binary(min_size=4, max_size=4)),
    st.tuples(st.just(ValueType.OID), oids),
    st.tuples(st.just(ValueType.NO_SUCH_OBJECT), st.none()),
    st.tuples(st.just(ValueType.NO_SUCH_INSTANCE), st.none()),
    st.tuples(st.just(ValueType.END_OF_MIB_VIEW), st.none()),
)

_MAKE: dict[ValueType, Any] = {
    ValueType.INTEGER: rfc1902.Integer32,
    ValueType.COUNTER32: rfc1902.Counter32,
    ValueType.GAUGE32: rfc1902.Gauge32,
    ValueType.TIMETICKS: rfc1902.TimeTicks,
    ValueType.COUNTER64: rfc1902.Counter64,
    ValueType.OCTETS: rfc1902.OctetString,
    ValueType.OPAQUE: rfc1902.Opaque,
    ValueType.IP_ADDRESS: rfc1902.IpAddress,
    ValueType.OID: rfc1902.ObjectIdentifier,
    ValueType.NO_SUCH_OBJECT: lambda _: rfc1905.NoSuchObject(""),
    ValueType.NO_SUCH_INSTANCE: lambda _: rfc1905.NoSuchInstance(""),
    ValueType.END_OF_MIB_VIEW: lambda _: rfc1905.EndOfMibView(""),
}


def written(bindings: list[VarBind]) -> bytes:
    """The bindings as pysnmp writes them."""
    listed = rfc1905.VarBindList()
    for number, binding in enumerate(bindings):
        each = listed.setComponentByPosition(number).getComponentByPosition(number)
        each.setComponentByPosition(0, binding.oid)
        value = _MAKE[binding.type](binding.value)
        choice = each.setComponentByPosition(1).getComponentByPosition(1)
        if binding.type in (ValueType.NO_SUCH_OBJECT, ValueType.NO_SUCH_INSTANCE, ValueType.END_OF_MIB_VIEW):
            choice.setComponentByType(value.tagSet, value)
        else:
            choice.setComponentByType(value.tagSet, value, innerFlag=True)
    return bytes(encoder.encode(listed))


@given(st.lists(st.builds(lambda oid, pair: VarBind(oid, *pair), oids, values), min_size=1, max_size=8))
def test_what_pysnmp_writes_is_read_as_it_was(bindings: list[VarBind]) -> None:
    octets = written(bindings)
    assert decode(octets, 0, len(octets)) == tuple(bindings)
    assert decode(b"\x01" + octets + b"\x02", 1, 1 + len(octets)) == tuple(bindings)


@given(st.lists(oids, max_size=30))
def test_what_is_asked_is_what_pysnmp_would_ask(names: list[Oid]) -> None:
    listed, rest = decoder.decode(encode_names(names), asn1Spec=rfc1905.VarBindList())
    assert rest == b""
    assert [tuple(each[0]) for each in listed] == names
    assert all(each[1].getName() == "unSpecified" for each in listed)


@given(st.integers(1 - 2**31, 2**31 - 1))  # of the smallest, pyasn1 writes five octets
def test_integers_are_written_the_shortest_way(number: int) -> None:
    assert integer(number) == encoder.encode(rfc1902.Integer32(number))
    assert read_integer(integer(number), 0, len(integer(number))) == (number, len(integer(number)))


def binding(tag: int, content: bytes) -> bytes:
    return element(0x30, element(0x30, object_id(OID) + element(tag, content)))


@pytest.mark.parametrize(
    ("tag", "content"),
    [
        (0x46, b"\xff" * 8),  # a Counter64 without its leading zero octet: negative
        (0x46, b"\x01" + bytes(8)),  # 65 bits
        (0x46, b""),  # pyasn1 would say 0
        (0x41, b"\x01\x00\x00\x00\x00"),  # 33 bits
        (0x41, b"\xff\xff\xff\xff"),
        (0x02, b""),
        (0x02, b"\x00\x80\x00\x00\x00"),  # 2**31
        (0x05, b"\x00"),
        (0x80, b"\x00"),
        (0x47, b"\x00"),  # no such type
        (0x24, b""),  # a constructed string
    ],
)
def test_a_value_that_is_none_of_its_type_is_void_and_no_number(tag: int, content: bytes) -> None:
    octets = binding(tag, content)
    assert decode(octets, 0, len(octets)) == (VarBind(OID, ValueType.UNKNOWN, None),)


@pytest.mark.parametrize("content", [b"\x00" + b"\xff" * 8, b"\x00" * 8 + b"\x01", b"\x01"])
def test_leading_zeros_are_read(content: bytes) -> None:
    octets = binding(0x46, content)
    assert decode(octets, 0, len(octets))[0].value == int.from_bytes(content, "big")


@pytest.mark.parametrize(
    "octets",
    [
        b"",
        b"\x30",
        b"\x30\x80\x00\x00",  # indefinite length
        b"\x30\x85\x01\x00\x00\x00\x00",  # a length of five octets
        b"\x31\x00",
        b"\x30\x02\x30\x00",  # an empty binding
        b"\x30\x00\x00",  # something after the list
        binding(0x46, b"\x01")[:-1],
        element(0x30, element(0x30, b"\x06\x00" + b"\x05\x00")),  # an empty name
        element(0x30, element(0x30, b"\x06\x01\x80" + b"\x05\x00")),  # a name that is cut off
        element(0x30, element(0x30, b"\x06\x02\x80\x01" + b"\x05\x00")),  # padding
        element(0x30, element(0x30, b"\x06\x06\x2b\x90\x80\x80\x80\x00" + b"\x05\x00")),  # 2**32
        element(0x30, element(0x30, object_id(OID) + b"\x05\x00\x00")),  # something after the value
        element(0x30, element(0x30, object_id(OID))),
        element(0x30, element(0x30, element(0x06, b"\x2b" * 129) + b"\x05\x00")),
    ],
)
def test_a_list_that_is_not_whole_is_refused(octets: bytes) -> None:
    with pytest.raises(BerError):
        decode(octets, 0, len(octets))


def test_mutations_end_in_a_list_or_a_refusal_and_what_pyasn1_reads_too_is_the_same() -> None:
    generator = random.Random(5)
    genuine = written(
        [
            VarBind((1, 3, 6, 1, 2, 1, 1, 3, 0), ValueType.TIMETICKS, 4_000_000_000),
            VarBind(OID, ValueType.COUNTER64, 2**63 + 5),
            VarBind((1, 3, 6, 1, 2, 1, 31, 1, 1, 1, 1, 7), ValueType.OCTETS, b"eth7"),
        ]
    )
    read = agreed = 0
    for _ in range(3_000):
        damaged = bytearray(genuine)
        for _ in range(generator.randint(1, 3)):
            damaged[generator.randrange(len(damaged))] = generator.randrange(256)
        octets = bytes(damaged)
        try:
            ours = decode(octets, 0, len(octets))
        except BerError:
            continue
        read += 1
        try:
            theirs, rest = decoder.decode(octets, asn1Spec=rfc1905.VarBindList())
        except Exception:  # noqa: BLE001, S112  what pyasn1 raises on damage is not of one kind
            continue
        assert not rest
        for mine, other in zip(ours, theirs, strict=True):
            if mine.type is ValueType.UNKNOWN:
                continue
            assert mine.oid == tuple(other[0])
            if isinstance(mine.value, int):
                assert mine.value == int(_innermost(other[1]))
        agreed += 1
    assert read > 300
    assert agreed > 100


def _innermost(value: Any) -> Any:
    while hasattr(value, "getComponent"):
        value = value.getComponent()
    return value


def test_names_that_are_kept_are_bounded() -> None:
    assert oid_of(b"\x2b\x06\x01") is oid_of(b"\x2b\x06\x01")
    long = bytes([0x2B]) + b"\x01" * 40
    assert oid_of(long) is not oid_of(long)


def test_lengths_of_every_size_are_read_back() -> None:
    for size in (0, 1, 127, 128, 255, 256, 65_535, 65_536):
        whole = element(0x04, bytes(size))
        start, stop = header(whole, 0, len(whole))
        assert (stop - start, stop) == (size, len(whole))
