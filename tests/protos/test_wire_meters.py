"""A meter's part of a frame says what adds up, or is refused."""

from __future__ import annotations

import pytest

from protos.buckets import Bucket, Totals, TrafficClass, pack, summed
from protos.v1 import meter_pb2
from protos.wire import Gap, Unplaced, WireError, meter_reading, totals_message

BUCKETS = (Bucket(101, Totals(60, 60, 1)), Bucket(109, Totals(3_000, 3_108, 3)))
LOST = Totals(500, 500, 2)


def message(**changes: object) -> meter_pb2.MeterReading:
    fields: dict[str, object] = {
        "port": "pf0hpf",
        "since_ns": 5,
        "epoch": 2,
        "width_ns": 1_000_000,
        "first_bucket": 100,
        "bucket_count": 10,
        "start": totals_message(Totals(7, 8, 9)),
        "moved": totals_message(summed(BUCKETS) + LOST),
        "series": pack(100, BUCKETS),
        "unplaced": [meter_pb2.Unplaced(first_bucket=90, count=12, moved=totals_message(LOST))],
        "classes": [meter_pb2.ClassTotals(traffic_class=1, total=totals_message(Totals(1, 2, 3)))],
        "peers": [meter_pb2.PeerTotals(peer="node2", wire_bytes=4, segments=5)],
        "audit": meter_pb2.MeterAudit(),
        "gaps": [meter_pb2.MeterGap(from_ns=1, to_ns=2, reason="hook-lost")],
    }
    return meter_pb2.MeterReading(**{**fields, **changes})  # type: ignore[arg-type]


def test_a_reading_says_all_of_it() -> None:
    reading = meter_reading(message())
    assert (reading.first, reading.end, reading.buckets) == (100, 110, BUCKETS)
    assert reading.unplaced == (Unplaced(90, 102, LOST),)
    assert reading.classes == {TrafficClass.SAME_POD: Totals(1, 2, 3)}
    assert reading.peers == {"node2": (4, 5)}
    assert reading.gaps == (Gap(1, 2, "hook-lost"),)
    assert reading.valid


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"moved": totals_message(summed(BUCKETS))}, "add up"),
        ({"series": b""}, "add up"),
        ({"series": b"\x05"}, "format"),
        ({"bucket_count": 9}, "cannot be"),
        ({"width_ns": 0}, "no width"),
        ({"port": ""}, "name its port"),
        ({"unavailable": "no-libbpf"}, "a reason why there is none"),
        ({"classes": [meter_pb2.ClassTotals(traffic_class=99)]}, "99"),
    ],
)
def test_what_does_not_add_up_is_refused(changes: dict[str, object], why: str) -> None:
    with pytest.raises(WireError, match=why):
        meter_reading(message(**changes))


def test_only_an_audited_meter_with_nothing_found_is_valid() -> None:
    assert not meter_reading(message(audit=None)).valid
    assert not meter_reading(message(audit=meter_pb2.MeterAudit(findings=["hook-bypassed"], texts=["x"]))).valid
    lacking = meter_reading(meter_pb2.MeterReading(port="p0", unavailable="no-bpffs", unavailable_text="mount one"))
    assert (lacking.unavailable, lacking.text, lacking.valid) == ("no-bpffs", "mount one", False)
