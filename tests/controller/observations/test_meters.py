"""What agents found in the way of their meters becomes findings; neighbouring seconds are one."""

from __future__ import annotations

from collections.abc import Sequence

from controller.crosscheck.model import FindingKind, Period
from controller.observations.meters import MeterFindings
from protos.v1 import frame_pb2, meter_pb2

S = 1_000_000_000
PERIOD = Period(10 * S, 30 * S)


def frame(*findings: str, port: str = "pf0hpf", unmetered: int = 0) -> frame_pb2.Frame:
    audit = meter_pb2.MeterAudit(
        findings=findings, texts=[f"because of {each}" for each in findings], unmetered_bytes=unmetered
    )
    return frame_pb2.Frame(meters=[meter_pb2.MeterReading(port=port, audit=audit)])


def heard(frames: Sequence[frame_pb2.Frame], first_s: int = 12) -> MeterFindings:
    found = MeterFindings("node1-dpu0", "node1", PERIOD)
    for second, each in enumerate(frames, first_s):
        found.take(each, second * S, second * S + S // 2)
    return found


def test_a_clean_meter_is_no_finding() -> None:
    assert heard([frame(), frame_pb2.Frame(), frame()]).findings() == []


def test_neighbouring_seconds_are_one_finding_with_a_break_two() -> None:
    by = frame("hook-bypassed")
    first, second = heard([by, by, by, frame(), by]).findings()
    assert (first.kind, first.certain, first.node) == (FindingKind.HOOK_BYPASSED, False, "node1")
    assert (first.from_ns, first.to_ns) == (12 * S, 14 * S + S // 2)
    assert (second.from_ns, second.to_ns) == (16 * S, 16 * S + S // 2)
    assert "because of hook-bypassed; in 3 frames" in first.text


def test_both_kinds_and_what_was_missed_at_least() -> None:
    found = heard(
        [
            frame("hook-bypassed", "offloaded-traffic-unmetered", unmetered=500),
            frame("offloaded-traffic-unmetered", unmetered=900),
        ]
    ).findings()
    assert {each.kind: each.bytes_at_least for each in found} == {
        FindingKind.HOOK_BYPASSED: None,
        FindingKind.OFFLOADED_TRAFFIC_UNMETERED: 900,
    }


def test_a_wall_clock_that_was_set_is_told_and_accuses_nobody() -> None:
    stepped = frame_pb2.Frame(clock=frame_pb2.ClockStamp(wall_step_ns=-3_600 * S))
    [one] = heard([frame(), stepped, frame()]).findings()
    assert (one.kind, one.certain, one.from_ns) == (FindingKind.AGENT_CLOCK_SET, False, 13 * S)
    assert "set back by at least 1 h" in one.text


def test_frames_outside_the_period_and_names_of_newer_agents_are_left_alone() -> None:
    assert heard([frame("hook-bypassed")], first_s=2).findings() == []
    assert heard([frame("hook-bypassed")], first_s=31).findings() == []
    assert heard([frame("something-new")]).findings() == []
