"""The framing of a device, from frames of known length."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protos.reading import Direction, Framing, Missing
from switch.calibration import CalibrationError, calibrate
from switch.interpret import Device
from switch.ports import PortSample
from switch.recorded import RecordedAgent, RecordedPort, device_rows
from switch.snmp import SnmpSwitch

S = 1_000_000_000


def sample(at_s: int, octets: int, packets: int, **more: Any) -> PortSample:
    now = iter(range(at_s * S, (at_s + 1) * S, 1_000_000))
    rows = [
        *device_rows(1_000 + 100 * at_s),
        *RecordedPort(1, b"e", in_octets=octets, in_packets=packets, **more).rows(),
    ]
    agent = RecordedAgent(rows, lambda: next(now))
    device = Device(3 * S, Framing.L2_WITH_FCS)
    poll = asyncio.run(SnmpSwitch("sw", agent, device, lambda: next(now)).read_ports(["e"]))
    return poll.samples[0]


@pytest.mark.parametrize(
    ("overhead", "framing"), [(0, Framing.L2_WITHOUT_FCS), (4, Framing.L2_WITH_FCS), (24, Framing.L1)]
)
def test_the_slope_tells_the_framing(overhead: int, framing: Framing) -> None:
    before, after = sample(10, 5_000, 7), sample(20, 5_000 + 1_000 * (1_000 + overhead), 1_007)
    found = calibrate(before, after, Direction.EGRESS, frames=1_000, frame_bytes=1_000)
    assert found.framing is framing
    assert float(found.octets_per_frame) == 1_000 + overhead


@pytest.mark.parametrize(
    ("octets", "packets", "says"),
    [
        (1_000_000, 1_001, "1001 frames"),
        (1_000_001, 1_000, "octets a frame"),
        (1_018_000, 1_000, "octets a frame"),
        (0, 0, "0 frames"),
    ],
)
def test_anything_else_is_refused(octets: int, packets: int, says: str) -> None:
    with pytest.raises(CalibrationError, match=says):
        calibrate(sample(1, 0, 0), sample(9, octets, packets), Direction.EGRESS, frames=1_000, frame_bytes=1_000)


def test_a_reset_or_a_missing_counter_is_no_calibration() -> None:
    before, after = sample(1, 9_000, 9), sample(9, 1_000, 1)
    with pytest.raises(CalibrationError, match="one epoch"):
        calibrate(before, after, Direction.EGRESS, frames=1, frame_bytes=1_000)
    blind = replace(after, switch_in=replace(after.switch_in, octets=Missing.UNSUPPORTED))
    with pytest.raises(CalibrationError, match="does not count"):
        calibrate(sample(1, 0, 0), blind, Direction.EGRESS, frames=1, frame_bytes=1_000)


@given(st.integers(100, 20_000), st.integers(60, 1_514), st.integers(-30, 60))
def test_only_true_framings_are_ever_found(frames: int, length: int, overhead: int) -> None:
    before, after = sample(1, 0, 0), sample(9, frames * (length + overhead), frames)
    try:
        found = calibrate(before, after, Direction.EGRESS, frames=frames, frame_bytes=length)
    except CalibrationError:
        assert overhead not in (0, 4, 24) or frames * length > 10_000_000
    else:
        assert found.framing.bytes_per_frame_over_l2 == overhead
