"""The policer on the real kernel: exact at a host's every trick, over the agent's death, and closed after the end."""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from controller.crosscheck.enforcement import WindowScan
from dpu_agent.limits.order import LimitClass, LimiterError, Order, Passed
from dpu_agent.limits.police import MAX_RATE_BYTES_PER_S, Policer
from dpu_agent.meter.meters import Meters
from hil.bench import lease_cases
from hil.bench.metered_path import DPU, FAR, FAR_ADDRESS, HOST, HOST_PORT, UPLINK, MeteredPath
from protos.lease import most_bytes
from protos.wire import MeterReading

pytestmark = pytest.mark.rig

OTHER = LimitClass.OTHER_POD
HEADER = b"\xff" * 6 + b"\x02\x00\x00\x00\x00\x01"
FRAME = HEADER + b"\x88\xb5" + bytes(986)
NS = 10**9
# How a flood is sent: bursts of so many frames, so long a pause after each, so many at least.
BURST, PAUSE_NS, LEAST_BURSTS = 20, 500_000, 30
# linux/if_packet.h, linux/socket.h: such a socket hands its frames to the driver past every queue discipline.
SOL_PACKET, PACKET_QDISC_BYPASS = 263, 20


class Place:
    """A path with its meters and policer; what the far end received is counted by itself."""

    def __init__(self, path: MeteredPath) -> None:
        self.path = path
        self.meters: Meters = path.meters()
        self.policer = self.policer_again()
        self.sequence = self.bursts = 0

    def policer_again(self) -> Policer:
        with self.path.inside(DPU):
            return Policer([HOST_PORT, UPLINK], bpf_file_system=self.path.bpf)

    def received(self) -> int:
        return self.path.counters(FAR, "eth0")["rx_bytes"]

    def passed(self, traffic_class: LimitClass = OTHER, port: str = HOST_PORT) -> Passed:
        return next(each for each in self.policer.prove() if (each.port, each.traffic_class) == (port, traffic_class))

    def order(
        self,
        rate: int,
        depth: int,
        *,
        volume: int | None = None,
        until_ns: int | None = None,
        traffic_class: LimitClass = OTHER,
        floor: tuple[int, int] = (0, 0),
    ) -> None:
        self.policer.apply([Order(HOST_PORT, traffic_class, rate, depth, volume, until_ns, *floor)])

    def flood(self, seconds: float, frames: tuple[bytes, ...] = (FRAME,), *, bypass: bool = False) -> tuple[int, int]:
        """Send as fast as it goes; return the nanoseconds it surely took at most, and what the far end got."""
        before, began_ns, self.bursts = self.received(), time.monotonic_ns(), 0
        with self.path.raw_socket() as sender:
            sender.setsockopt(SOL_PACKET, PACKET_QDISC_BYPASS, int(bypass))
            number = 0
            while time.monotonic_ns() - began_ns < seconds * NS or self.bursts < LEAST_BURSTS:
                for _ in range(BURST):
                    sender.send(frames[number % len(frames)])
                    number += 1
                self.bursts += 1
                time.sleep(PAUSE_NS / NS)
        time.sleep(0.02)
        return time.monotonic_ns() - began_ns, self.received() - before

    def least(self, rate: int, depth: int) -> int:
        """What a bucket surely let through of the last flood, however long the machine paused, and wherever.

        Each burst came a pause or more after the one before and wants more than the bucket got in it: that much
        passes, or is still in the bucket.
        """
        each = rate * PAUSE_NS // NS
        assert each <= BURST * len(FRAME)
        assert depth >= 2 * each + len(FRAME)
        return self.bursts * each - depth

    def read(self) -> MeterReading:
        self.sequence += 1
        return self.path.read(self.meters, self.sequence)[HOST_PORT]


@pytest.fixture
def place() -> Iterator[Place]:
    with MeteredPath() as path:
        found = Place(path)
        yield found
        found.policer.close()
        found.meters.close()


def test_no_more_passes_than_rate_and_depth_by_the_counters_and_by_the_receiver(place: Place) -> None:
    for rate, depth in ((100_000, 10_000), (1_000_000, 64_000), (10_000_000, 1_000_000)):
        place.order(rate, depth)
        before = place.passed()
        elapsed_ns, received = place.flood(0.8)
        after = place.passed()
        passed = after.passed_bytes - before.passed_bytes
        assert passed <= most_bytes(rate, depth, elapsed_ns)
        assert received == passed
        assert after.offered_bytes - before.offered_bytes == passed + after.dropped_bytes - before.dropped_bytes
        assert passed >= place.least(rate, depth)


def test_no_window_of_milliseconds_holds_more_and_they_hold_all_that_passed(place: Place) -> None:
    rate, depth = 2_000_000, 100_000
    place.order(rate, depth)
    place.policer.drain()
    began = time.monotonic_ns() // 10**6
    before = place.passed()
    place.flood(0.6)
    after = place.passed()
    time.sleep(0.02)
    (moments,) = place.policer.drain()
    assert (moments.port, moments.traffic_class, moments.width_ns) == (HOST_PORT, OTHER, 1_000_000)
    passed = [(index, size) for index, size, _ in moments.buckets if size]
    told = sum(size for _, size in passed) + moments.unplaced_bytes
    # A machine that stood still for seconds has lost what the ring holds no more, and nothing else.
    assert told == after.passed_bytes - before.passed_bytes or moments.first > began
    assert sum(lost for _, _, lost in moments.buckets) <= after.dropped_bytes - before.dropped_bytes
    scan = WindowScan(rate, moments.width_ns)
    for index, size in passed:
        scan.take(index, size)
    assert len(FRAME) // 2 <= scan.beyond <= depth
    assert place.policer.drain() == ()


def test_every_frame_counts_whatever_it_is_made_of(place: Place) -> None:
    kinds = (
        FRAME,
        HEADER + b"\x08\x00" + bytes.fromhex("45000054000000004011000000000000c0a80001") + bytes(200),  # IPv4, broken
        HEADER + b"\x86\xdd" + bytes.fromhex("6000000000c81140") + bytes(32) + bytes(200),  # IPv6
        HEADER + b"\x81\x00\x00\x05\x08\x00" + bytes(200),  # a VLAN tag
        HEADER + b"\x88\xa8\x00\x05\x81\x00\x00\x06\x88\xb5" + bytes(200),  # two
        b"\x01\x00\x5e\x00\x00\x05" + HEADER[6:] + b"\x88\xb5" + bytes(60),  # multicast
        HEADER + b"\x08\x00" + bytes.fromhex("4500005400002001401100000a4e00010a4e0002") + bytes(64),  # a fragment
        HEADER + b"\x88\xb5" + bytes(46),  # the smallest
    )
    place.order(200_000, 64_000)
    for bypass in (False, True):
        before = place.passed().passed_bytes
        elapsed_ns, received = place.flood(0.6, kinds, bypass=bypass)
        passed = place.passed().passed_bytes - before
        assert passed <= most_bytes(200_000, 64_000, elapsed_ns)
        assert received == passed


def test_many_short_flows_share_one_bucket(place: Place) -> None:
    place.order(200_000, 64_000)
    with place.path.inside(HOST):
        senders = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(200)]
    before, began_ns = place.passed(), time.monotonic_ns()
    try:
        for number in range(2_000):
            with contextlib.suppress(OSError):
                senders[number % 200].sendto(bytes(1_000), (FAR_ADDRESS, 10_000 + number))
            if number % 50 == 0:
                time.sleep(0.001)
    finally:
        for sender in senders:
            sender.close()
    time.sleep(0.02)
    elapsed_ns, after = time.monotonic_ns() - began_ns, place.passed()
    assert after.passed_bytes - before.passed_bytes <= most_bytes(200_000, 64_000, elapsed_ns)
    assert after.dropped_bytes > before.dropped_bytes


def test_an_order_ends_in_the_kernel_and_its_volume_too(place: Place) -> None:
    place.policer.prove()
    place.order(10_000_000, 64_000, until_ns=time.monotonic_ns() + NS // 2)
    place.policer.close()  # nobody is there any more
    ends = time.monotonic()
    place.flood(0.6)
    assert time.monotonic() - ends > 0.5
    assert place.flood(0.3)[1] == 0
    place.policer = place.policer_again()
    place.policer.prove()
    place.order(10_000_000, 64_000, volume=50_000)
    assert place.flood(0.4)[1] == 50_000
    (left,) = [each for each in place.policer.read_back() if each.port == HOST_PORT]
    assert left.volume_bytes == 0
    # A renewal counts from what was proven: it gives nothing twice.
    place.policer.prove()
    place.order(10_000_000, 64_000, volume=7_000)
    assert place.flood(0.2)[1] == 7_000


def test_new_orders_are_no_refill_and_the_floor_is_a_bucket_of_its_own(place: Place) -> None:
    began_ns = time.monotonic_ns()
    place.order(50_000, 64_000)
    received = 0
    for _ in range(20):
        place.order(50_000, 64_000)
        received += place.flood(0.02)[1]
    assert received <= most_bytes(50_000, 64_000, time.monotonic_ns() - began_ns)
    place.order(50_000_000, 64_000, until_ns=1, floor=(20_000, 5_000))
    elapsed_ns, passed = place.flood(1.0)
    assert place.least(20_000, 5_000) <= passed <= most_bytes(20_000, 5_000, elapsed_ns)


def test_a_restart_of_the_agent_and_a_new_interface_leave_orders_in_force(place: Place, tmp_path: Path) -> None:
    place.order(0, 0)
    place.policer.close()
    place.meters.close()
    assert place.flood(0.2)[1] == 0
    place.meters = place.path.meters()
    assert place.flood(0.2)[1] == 0
    place.policer = place.policer_again()
    assert place.policer.read_back()[0].rate_bytes_per_s == 0
    place.path.unplug_host()
    place.path.plug_host()
    deadline = time.monotonic() + 60
    while place.read().epoch_reason != "interface-recreated" and time.monotonic() < deadline:
        time.sleep(0.05)
    assert place.flood(0.2)[1] == 0


def test_the_meter_counts_what_is_dropped_and_other_classes_are_not_touched(place: Place) -> None:
    place.order(0, 0)
    before = place.read()
    place.flood(0.2)
    after = place.read()
    assert after.moved.raw_bytes == place.passed().dropped_bytes > 0
    assert before.findings == after.findings == ()
    arp = HEADER + b"\x08\x06" + bytes(46)
    assert place.flood(0.1, (arp,))[1] > 0
    place.order(0, 0, traffic_class=LimitClass.L2_CONTROL)
    assert place.flood(0.1, (arp,))[1] == 0


def test_what_cannot_be_is_refused_and_changes_nothing(place: Place) -> None:
    place.order(1, 2)
    good = Order(HOST_PORT, OTHER, 9, 9, None, None, 0, 0)
    for wrong in (
        Order("p9", OTHER, 1, 1, None, None, 0, 0),
        Order(HOST_PORT, OTHER, MAX_RATE_BYTES_PER_S + 1, 1, None, None, 0, 0),
        Order(HOST_PORT, OTHER, 1, 1 << 51, None, None, 0, 0),
    ):
        with pytest.raises(LimiterError):
            place.policer.apply([good, wrong])
    assert [each.rate_bytes_per_s for each in place.policer.read_back()] == [1]
    with place.path.inside(DPU), pytest.raises(LimiterError, match="meter of a port must run"):
        Policer(["p7"], bpf_file_system=place.path.bpf)


def test_leases_one_after_the_other_are_all_in_force_and_leave_nothing_behind() -> None:
    """Sixty here; ten thousand in `make bench AREA=limits`."""
    with MeteredPath() as path:
        meters = path.meters()
        try:
            found = lease_cases.run(path, 60)
            told = lease_cases.forgeries(path)
        finally:
            meters.close()
    assert (len(found.latencies_ns), found.not_read_back, found.grown_files) == (60, 0, 0)
    assert set(told.values()) == {1}
    assert set(told) >= {"old-sequence", "other-agent", "bad-signature", "signed-by-prover", "clock-set-back"}
