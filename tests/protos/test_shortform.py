"""The two forms of a frame: one goes into the other and back, and no frame is read in two ways."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protos.shortform import _REASONS, _SOURCES, FormError, lengthen, shorten
from protos.v1 import frame_pb2, meter_pb2, reading_pb2
from protos.wire import FRAME_VERSION, WireError, parse_signed_frame

BOOT = "12754a66-c8a6-45ba-b671-80b1f926e18e"
_U64 = st.integers(0, 2**64 - 1)
_NAMES = st.sampled_from(["pf0hpf", "p0", "p1", ""])


@st.composite
def _frames(draw: st.DrawFn) -> frame_pb2.Frame:
    boot = draw(st.sampled_from(["", "boot", BOOT.upper(), BOOT]) | st.uuids().map(str))
    ports = [
        reading_pb2.PortReading(
            port=draw(_NAMES),
            source=draw(st.sampled_from([*_SOURCES, "memory", ""])),
            epoch_reason=draw(st.sampled_from([*_REASONS, "a new one", ""])),
            earliest_ns=draw(_U64),
            latest_ns=draw(_U64),
        )
        for _ in range(draw(st.integers(0, 3)))
    ]
    return frame_pb2.Frame(
        version=FRAME_VERSION,
        agent="a",
        sequence=1,
        clock=frame_pb2.ClockStamp(boot_id=boot, monotonic_ns=draw(_U64)),
        ports=ports,
        meters=[meter_pb2.MeterReading(port=draw(_NAMES)) for _ in range(draw(st.integers(0, 3)))],
    )


@given(_frames())
def test_what_is_shortened_comes_back_whole(frame: frame_pb2.Frame) -> None:
    found = frame_pb2.Frame.FromString(shorten(frame).SerializeToString())
    assert found.ByteSize() <= frame.ByteSize() + len(frame.meters) + 2 * len(frame.ports)
    lengthen(found)
    assert found == frame
    lengthen(found)
    assert found == frame, "what is long already stays as it is"


def _short(**changes: Any) -> frame_pb2.Frame:
    port = reading_pb2.PortReading(port="p0", source="mlx5-phy", epoch_reason="boot", earliest_ns=900, latest_ns=1_000)
    frame = shorten(
        frame_pb2.Frame(
            version=changes.pop("version", FRAME_VERSION),
            agent="a",
            sequence=1,
            clock=frame_pb2.ClockStamp(boot_id=BOOT, monotonic_ns=1_000),
            ports=[port],
            meters=[meter_pb2.MeterReading(port="p0")],
        )
    )
    for path, value in changes.items():
        part, name = path.split("__")
        target: Any = frame.clock if part == "clock" else getattr(frame, part)[0]
        setattr(target, name, value)
    return frame


def _parse(frame: frame_pb2.Frame) -> frame_pb2.Frame:
    return parse_signed_frame(frame_pb2.SignedFrame(body=frame.SerializeToString()).SerializeToString())[1]


def test_readers_see_the_long_form() -> None:
    frame = _parse(_short())
    [port] = frame.ports
    assert frame.clock.boot_id == BOOT
    assert (port.source, port.epoch_reason, port.earliest_ns, port.latest_ns) == ("mlx5-phy", "boot", 900, 1_000)
    assert frame.meters[0].port == "p0"


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"version": 1}, "of version 1, and has short forms"),
        ({"clock__boot_id": BOOT}, "said in two ways"),
        ({"clock__boot_uuid": b"short"}, "boot id of 5 bytes"),
        ({"ports__source": "mlx5-phy"}, "said in two ways"),
        ({"ports__counted_by": 99}, "unknown source"),
        ({"ports__epoch_reason": "boot"}, "said in two ways"),
        ({"ports__began": 99}, "unknown reason"),
        ({"ports__earliest_ns": 1}, "said in two ways"),
        ({"ports__latest_ns": 1}, "said in two ways"),
        ({"ports__before_clock_ns": 1_001}, "read 1001 ns before 1000 ns"),
        ({"ports__lasted_ns": 2**64 - 1}, "was read 100 ns before"),
        ({"meters__port": "p0"}, "said in two ways"),
        ({"meters__port_number": 2}, "port 2 of 1"),
    ],
)
def test_no_frame_says_a_thing_in_two_ways_or_in_no_way(changes: dict[str, Any], says: str) -> None:
    with pytest.raises(WireError, match=says):
        _parse(_short(**changes))


def test_a_length_without_a_beginning_is_refused() -> None:
    frame = _short()
    frame.ports[0].ClearField("before_clock_ns")
    with pytest.raises(FormError, match="from nowhere"):
        lengthen(frame)


def test_a_frame_of_version_1_is_read_as_ever() -> None:
    frame = _short()
    lengthen(frame)
    frame.version = 1
    assert _parse(frame) == frame


def test_every_number_on_the_wire_has_a_name() -> None:
    for names, enum in ((_SOURCES, reading_pb2.CounterSource), (_REASONS, reading_pb2.EpochReason)):
        assert sorted(names.values()) == sorted(set(enum.values()) - {0})


def test_a_boot_id_in_another_spelling_keeps_it() -> None:
    for spelling in (BOOT.upper(), f"{{{BOOT}}}", BOOT.replace("-", "")):
        assert uuid.UUID(spelling) == uuid.UUID(BOOT)
        frame = shorten(frame_pb2.Frame(version=FRAME_VERSION, clock=frame_pb2.ClockStamp(boot_id=spelling)))
        assert (frame.clock.boot_id, frame.clock.boot_uuid) == (spelling, b"")
