"""A poll survives the journal bit by bit, and only RecordError leaves the decoder."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from protos.reading import Framing, Missing
from switch.exchange import EXCEPTIONS, NUMBERS, OCTET_STRINGS, Exchange, Operation, ValueType, VarBind
from switch.ports import Agent, Poll, PortCounters, PortFault, PortIdentity, PortSample
from switch.record import RecordError, decode, encode

relaxed = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow], max_examples=200)

UINT64 = st.integers(0, 2**64 - 1)
TIME = st.integers(-(2**63), 2**63 - 1)
TEXT = st.text(st.characters(codec="utf-8"), max_size=20)
VALUE = UINT64 | st.sampled_from(Missing)
TEXT_OR_MISSING = TEXT | st.sampled_from(Missing)
HEX = st.binary(max_size=12).map(bytes.hex)
OID = st.lists(st.integers(0, 2**32 - 1), min_size=1, max_size=20).map(tuple)


def varbinds() -> st.SearchStrategy[VarBind]:
    def content(kind: ValueType) -> st.SearchStrategy[Any]:
        if kind in NUMBERS:
            return st.integers(-(2**63), 2**64 - 1)
        if kind in OCTET_STRINGS:
            return st.binary(max_size=12)
        return OID if kind is ValueType.OID else st.none()

    return st.sampled_from(ValueType).flatmap(lambda kind: st.builds(VarBind, OID, st.just(kind), content(kind)))


COUNTERS = st.builds(PortCounters, VALUE, VALUE, VALUE, VALUE, VALUE, VALUE)
SAMPLES = st.builds(
    PortSample,
    port=TEXT,
    identity=st.builds(PortIdentity, HEX, TEXT, UINT64),
    first_sent_ns=TIME,
    received_ns=TIME,
    refresh_ns=TIME,
    framing=st.sampled_from(Framing),
    alias=TEXT_OR_MISSING,
    if_type=VALUE,
    physical_address=TEXT_OR_MISSING,
    oper_status=VALUE,
    high_speed_mbit_per_s=VALUE,
    sys_uptime_ticks=VALUE,
    engine_boots=VALUE,
    engine_time_s=VALUE,
    discontinuity_ticks=VALUE,
    last_change_ticks=VALUE,
    switch_in=COUNTERS,
    switch_out=COUNTERS,
)
FAULTS = st.builds(PortFault, TEXT, st.sampled_from(Missing), TEXT, TIME, TIME, st.none() | UINT64)
EXCHANGES = st.builds(
    Exchange,
    st.sampled_from(Operation),
    TIME,
    TIME,
    UINT64,
    HEX,
    st.none() | UINT64,
    st.none() | UINT64,
    UINT64,
    UINT64,
    st.binary(max_size=60),
    st.lists(varbinds(), max_size=4).map(tuple),
)
POLLS = st.builds(
    Poll,
    switch=TEXT,
    first_sent_ns=TIME,
    received_ns=TIME,
    agent=st.builds(Agent, HEX, TEXT_OR_MISSING, TEXT_OR_MISSING, VALUE),
    ports=st.lists(SAMPLES | FAULTS, max_size=3).map(tuple),
    exchanges=st.lists(EXCHANGES, max_size=2).map(tuple),
    notes=st.lists(TEXT, max_size=2).map(tuple),
)
EMPTY = Poll("sw1", 1, 2, Agent(), ())


@relaxed
@given(POLLS)
def test_a_poll_survives_and_has_one_spelling(poll: Poll) -> None:
    body = encode(poll)
    assert decode(body) == poll
    assert encode(decode(body)) == body


def test_a_counter_above_2_to_the_53_is_exact() -> None:
    """Case 21: no float anywhere near a counter."""
    counters = PortCounters(9_007_199_254_740_993, 0, 0, 0, 0, 0)
    values: dict[str, Any] = dict.fromkeys(
        (
            "if_type",
            "oper_status",
            "high_speed_mbit_per_s",
            "sys_uptime_ticks",
            "engine_boots",
            "engine_time_s",
            "discontinuity_ticks",
            "last_change_ticks",
        ),
        0,
    )
    sample = PortSample(
        port="e",
        identity=PortIdentity("80", "e", 1),
        first_sent_ns=0,
        received_ns=1,
        refresh_ns=1,
        framing=Framing.L1,
        alias="",
        physical_address="",
        switch_in=counters,
        switch_out=counters,
        **values,
    )
    body = encode(Poll("s", 0, 1, Agent(), (sample,)))
    assert b'"octets":"9007199254740993"' in body
    assert decode(body).samples[0].switch_in.octets == 9_007_199_254_740_993


@relaxed
@given(POLLS, st.data())
def test_damaged_records_end_in_record_error_or_in_a_poll(poll: Poll, data: st.DataObject) -> None:
    body = bytearray(encode(poll))
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, len(body) - 1))
        if data.draw(st.booleans()):
            body[place] = data.draw(st.integers(0, 255))
        else:
            del body[place]
    try:
        found = decode(bytes(body))
    except RecordError:
        return
    assert isinstance(found, Poll)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@relaxed
@given(st.data())
def test_any_value_in_any_place_ends_in_record_error_or_in_a_poll(data: st.DataObject) -> None:
    body = json.loads(encode(data.draw(POLLS)))
    holder: Any = body
    while True:
        keys = list(holder) if isinstance(holder, dict) else list(range(len(holder)))
        if not keys:
            break
        key = data.draw(st.sampled_from(keys))
        if isinstance(holder[key], (dict, list)) and data.draw(st.booleans()):
            holder = holder[key]
            continue
        holder[key] = data.draw(JSON)
        break
    try:
        decode(json.dumps(body).encode())
    except RecordError:
        return


@relaxed
@given(st.binary(max_size=200))
def test_any_bytes_end_in_record_error(noise: bytes) -> None:
    with pytest.raises(RecordError):
        decode(noise)


@pytest.mark.parametrize(
    ("was", "becomes", "says"),
    [
        (b'"v":1', b'"v":2', "newer"),
        (b'"v":1', b'"v":true', "version 1"),
        (b'"v":1', b'"v":1,"v":1', "repeated"),
        (b'"first_sent_ns":"1"', b'"first_sent_ns":"01"', "plain number"),
        (b'"first_sent_ns":"1"', b'"first_sent_ns":1', "not a text"),
        (b'"first_sent_ns":"1"', b'"first_sent_ns":"9223372036854775808"', "plain number"),
        (b'"first_sent_ns":"1"', b'"first_sent_ns":"1","extra":"1"', "exactly the keys"),
        (b'"notes":[]', b'"notes":["\\ud800"]', "not text"),
        (b'"notes":[]', b'"notes":[1.5]', "whole number"),
        (b'"notes":[]', b'"notes":[NaN]', "whole number"),
        (b'"ports":[]', b'"ports":' + b"[" * 100_000, "JSON"),
        (b'{"missing":"absent"}', b'{"missing":"never"}', "not known"),
        (b'{"missing":"absent"}', b"null", "not a text"),
    ],
)
def test_what_the_decoder_refuses(was: bytes, becomes: bytes, says: str) -> None:
    body = encode(EMPTY)
    assert was in body
    with pytest.raises(RecordError, match=says):
        decode(body.replace(was, becomes, 1))


def test_absent_and_zero_are_written_differently() -> None:
    absent = encode(Poll("s", 0, 0, Agent(management_if_index=Missing.ABSENT), ()))
    zero = encode(Poll("s", 0, 0, Agent(management_if_index=0), ()))
    assert absent != zero
    assert decode(absent).agent.management_if_index is Missing.ABSENT
    assert decode(zero).agent.management_if_index == 0


def test_every_exception_is_recorded_without_a_value() -> None:
    exchange = Exchange(
        Operation.GET, 0, 1, 1, "", None, None, 0, 0, b"", tuple(VarBind((1, 3), kind, None) for kind in EXCEPTIONS)
    )
    poll = Poll("s", 0, 1, Agent(), (), (exchange,))
    assert decode(encode(poll)) == poll


def test_a_record_that_says_denied_is_read_as_auth() -> None:
    """The word of journals before it was one word everywhere."""
    fault = PortFault("eth1", Missing.DENIED, "refused", 1, 2)
    written = encode(Poll("sw1", 1, 2, Agent(), (fault,)))
    assert b'"reason":"auth"' in written
    assert decode(written.replace(b'"reason":"auth"', b'"reason":"denied"')).ports == (fault,)
