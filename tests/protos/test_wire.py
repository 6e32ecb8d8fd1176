from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protos.reading import Direction, Framing, Missing, Observer, Reading
from protos.v1 import frame_pb2, reading_pb2
from protos.wire import (
    FRAMING_TO_WIRE,
    MISSING_TO_WIRE,
    ROLE_TO_WIRE,
    PortReading,
    WireError,
    encode_port_reading,
    parse_signed_frame,
    port_reading,
)

_U64 = st.integers(0, 2**64 - 1)


@st.composite
def _readings(draw: st.DrawFn) -> PortReading:
    earliest, latest = sorted((draw(_U64), draw(_U64)))
    epoch = draw(st.integers(0, 2**32 - 1))
    framing = draw(st.sampled_from(Framing))
    missing = draw(st.none() | st.sampled_from(Missing))
    directions = draw(st.sets(st.sampled_from(Direction), min_size=1)) if missing is None else set()
    packets = st.none() | _U64
    counts = st.dictionaries(st.sampled_from(sorted(directions, key=str)), _U64) if directions else st.just({})
    return PortReading(
        port=draw(st.text(max_size=15)),
        observer=draw(st.sampled_from([Observer.DPU_HOST_PORT, Observer.DPU_UPLINK])),
        epoch=epoch,
        epoch_reason=draw(st.text(max_size=10)),
        readings={d: Reading(earliest, latest, draw(_U64), draw(packets), epoch, framing) for d in directions},
        dropped_packets=draw(counts),
        missing=missing,
        error_packets=draw(counts),
        source=draw(st.text(max_size=10)),
        ifindex=draw(st.integers(0, 2**32 - 1)),
        looked_ns=(earliest, latest),
    )


@given(_readings())
def test_what_is_encoded_comes_back_through_the_wire(reading: PortReading) -> None:
    message = reading_pb2.PortReading.FromString(encode_port_reading(reading).SerializeToString())
    assert port_reading(message) == reading


def _message(**changes: Any) -> reading_pb2.PortReading:
    message = reading_pb2.PortReading(
        port="p0",
        role=reading_pb2.PORT_ROLE_UPLINK,
        source="x",
        framing=reading_pb2.FRAMING_L2_WITHOUT_FCS,
        epoch=1,
        earliest_ns=5,
        latest_ns=6,
        egress=reading_pb2.Counters(bytes=10, packets=1),
        ingress=reading_pb2.Counters(bytes=0),
    )
    for name, value in changes.items():
        if isinstance(value, reading_pb2.Counters):
            getattr(message, name).CopyFrom(value)
        else:
            setattr(message, name, value)
    return message


def test_zero_is_read_and_absent_is_not() -> None:
    found = port_reading(_message())
    assert found.readings[Direction.INGRESS].bytes == 0
    assert found.readings[Direction.INGRESS].packets is None
    assert found.dropped_packets == {}
    found = port_reading(_message(ingress=reading_pb2.Counters(bytes=0, packets=0, dropped_packets=0, error_packets=0)))
    assert found.readings[Direction.INGRESS].packets == 0
    assert (found.dropped_packets, found.error_packets) == ({Direction.INGRESS: 0}, {Direction.INGRESS: 0})


def test_one_direction_alone_is_a_reading() -> None:
    assert set(port_reading(_message(ingress=reading_pb2.Counters())).readings) == {Direction.EGRESS}


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"role": 0}, "no known role"),
        ({"role": 99}, "no known role"),
        ({"framing": 0}, "no known framing"),
        ({"framing": 99}, "no known framing"),
        ({"earliest_ns": 7}, "is after"),
        ({"missing": 99}, "unknown reason"),
        ({"missing": reading_pb2.MISSING_REASON_ABSENT}, "has counters and a reason why there are none"),
        ({"egress": reading_pb2.Counters(packets=3)}, "counts packets but no bytes"),
        ({"egress": reading_pb2.Counters(), "ingress": reading_pb2.Counters()}, "neither counters nor a reason"),
        (
            {"egress": reading_pb2.Counters(dropped_packets=1), "ingress": reading_pb2.Counters()},
            "neither counters nor a reason",
        ),
    ],
)
def test_what_cannot_be_is_refused(changes: dict[str, Any], says: str) -> None:
    message = _message(**changes)
    for name in ("egress", "ingress"):
        if name in changes and not changes[name].ByteSize():
            message.ClearField(name)
    with pytest.raises(WireError, match=says):
        port_reading(message)


def test_a_missing_port_needs_neither_framing_nor_counters() -> None:
    message = reading_pb2.PortReading(
        port="p0", role=reading_pb2.PORT_ROLE_UPLINK, missing=reading_pb2.MISSING_REASON_ABSENT, epoch=3
    )
    found = port_reading(message)
    assert (found.missing, found.readings, found.epoch) == (Missing.ABSENT, {}, 3)


def _good() -> PortReading:
    return port_reading(_message())


@pytest.mark.parametrize(
    "change",
    [
        {"looked_ns": (1, 2)},
        {"epoch": 9},
        {"observer": Observer.SWITCH},
        {"ifindex": 2**32},
        {"ifindex": -1},
        {"dropped_packets": {Direction.EGRESS: 2**64}},
    ],
)
def test_what_a_message_cannot_say_is_not_encoded(change: dict[str, Any]) -> None:
    with pytest.raises(WireError):
        encode_port_reading(replace(_good(), **change))


@pytest.mark.parametrize(
    "change", [{"earliest_ns": 4}, {"epoch": 2}, {"framing": Framing.L1}, {"bytes_slack": 1}, {"bytes": 2**64}]
)
def test_directions_of_one_look_are_encoded_together_or_not(change: dict[str, Any]) -> None:
    good = _good()
    readings = good.readings | {Direction.EGRESS: replace(good.readings[Direction.EGRESS], **change)}
    with pytest.raises(WireError):
        encode_port_reading(replace(good, readings=readings))


def test_every_value_of_ours_has_one_on_the_wire() -> None:
    assert set(FRAMING_TO_WIRE) == set(Framing)
    assert set(MISSING_TO_WIRE) == set(Missing)
    assert set(ROLE_TO_WIRE) == {Observer.DPU_HOST_PORT, Observer.DPU_UPLINK}
    for mapping, enum in (
        (FRAMING_TO_WIRE, reading_pb2.Framing),
        (MISSING_TO_WIRE, reading_pb2.MissingReason),
        (ROLE_TO_WIRE, reading_pb2.PortRole),
    ):
        assert sorted(mapping.values()) == sorted(set(enum.values()) - {0}), "a value on the wire that we do not know"


def _signed(**changes: Any) -> bytes:
    frame = frame_pb2.Frame(version=1, agent="a", sequence=1)
    for name, value in changes.items():
        setattr(frame, name, value)
    return frame_pb2.SignedFrame(body=frame.SerializeToString(), signature=b"s" * 64).SerializeToString()


def test_a_signed_frame_is_parsed_and_its_body_kept() -> None:
    signed, frame = parse_signed_frame(_signed(sequence=7))
    assert frame.sequence == 7
    assert frame_pb2.Frame.FromString(signed.body) == frame


def test_fields_a_newer_agent_added_are_left_alone() -> None:
    body = frame_pb2.Frame(version=1, agent="a", sequence=1).SerializeToString() + b"\xfa\x3e\x03new"
    signed, frame = parse_signed_frame(frame_pb2.SignedFrame(body=body).SerializeToString())
    assert (signed.body, frame.sequence) == (body, 1)


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (_signed(version=3), "frame version 3 is unknown; this reader knows up to 2: update the controller"),
        (_signed(version=0), "frame version 0 is unknown"),
        (_signed(agent=""), "must name its agent"),
        (_signed(sequence=0), "sequence number from 1 up"),
        (b"", "frame version 0"),
        (b"\xff", "not a signed frame"),
        (frame_pb2.SignedFrame(body=b"\xff").SerializeToString(), "not a signed frame"),
    ],
)
def test_what_is_no_frame_is_refused(data: bytes, says: str) -> None:
    with pytest.raises(WireError, match=says):
        parse_signed_frame(data)


@given(st.binary(max_size=300) | st.builds(lambda b: frame_pb2.SignedFrame(body=b).SerializeToString(), st.binary()))
def test_nothing_but_a_frame_or_a_wire_error_comes_out(data: bytes) -> None:
    try:
        _, frame = parse_signed_frame(data)
        for port in frame.ports:
            port_reading(port)
    except WireError:
        return
    assert frame.agent


@given(st.data())
def test_a_changed_frame_is_a_frame_or_a_wire_error(data: st.DataObject) -> None:
    """One byte changed anywhere in the messages of a port: still nothing else comes out."""
    content = bytearray(_message().SerializeToString())
    content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    body = frame_pb2.Frame(version=1, agent="a", sequence=1).SerializeToString()
    body += b"\x32" + bytes([len(content)]) + content
    try:
        _, frame = parse_signed_frame(frame_pb2.SignedFrame(body=body).SerializeToString())
        found = [port_reading(port) for port in frame.ports]
    except WireError:
        return
    for port in found:
        assert bool(port.readings) != bool(port.missing)
