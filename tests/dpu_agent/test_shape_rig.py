"""The queue behind the policer on the real kernel: what waits is late and not lost; the policer holds without it."""

from __future__ import annotations

import socket
import struct
import sys
import time
from collections.abc import Iterator
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpu_agent.config import PortConfig
from dpu_agent.limits.htb import DEFAULT, DeviceState, Htb
from dpu_agent.limits.order import LimitClass, Order, Passed
from dpu_agent.limits.police import MAX_DEPTH_BYTES, MAX_RATE_BYTES_PER_S, Policer
from dpu_agent.limits.shape import LARGEST_PACKET_BYTES, LONGEST_WAIT_NS, Shaper, queue_for
from dpu_agent.limits.start import ways_out
from hil.bench.metered_path import DPU, FAR, FAR_ADDRESS, HOST, HOST_PORT, UPLINK, MeteredPath
from protos.lease import most_bytes
from protos.reading import Observer

OTHER = LimitClass.OTHER_POD
NS = 10**9
FRAME = b"\xff" * 6 + b"\x02\x00\x00\x00\x00\x01\x88\xb5" + bytes(986)
SO_TIMESTAMPNS = 35


class Shaped:
    """A path with policers and queues."""

    def __init__(self, path: MeteredPath) -> None:
        self.path, self.meters = path, path.meters()
        with path.inside(DPU):
            policer = Policer([HOST_PORT, UPLINK], bpf_file_system=path.bpf)
            self.shaper = Shaper(policer, {HOST_PORT: [UPLINK], UPLINK: [HOST_PORT]})
            self.htb = Htb()

    def order(self, rate: int, depth: int, port: str = HOST_PORT, traffic_class: LimitClass = OTHER) -> Order:
        found = Order(port, traffic_class, rate, depth, None, None, 0, 0)
        with self.path.inside(DPU):
            self.shaper.apply([found])
        return found

    def read_back(self) -> list[Order]:
        with self.path.inside(DPU):
            return [each for each in self.shaper.read_back() if each.port == HOST_PORT]

    def passed(self) -> Passed:
        with self.path.inside(DPU):
            found = self.shaper.prove()
        return next(each for each in found if (each.port, each.traffic_class) == (HOST_PORT, OTHER))

    def look(self, device: str = UPLINK) -> DeviceState | None:
        with self.path.inside(DPU):
            return self.htb.look(device)

    def fill(self) -> None:
        """Leave a full bucket in the policer, and full tokens in the queue's class."""
        self.order(MAX_RATE_BYTES_PER_S, 64_000)
        with self.path.raw_socket() as sender:
            for _ in range(2):
                sender.send(FRAME[:60])
                time.sleep(0.02)


@pytest.fixture
def shaped() -> Iterator[Shaped]:
    with MeteredPath(mtu=1500) as path:
        found = Shaped(path)
        yield found
        found.htb.close()
        found.shaper.close()
        found.meters.close()


@given(st.integers(1, MAX_RATE_BYTES_PER_S), st.integers(1, MAX_DEPTH_BYTES))
def test_what_waits_and_what_leaves_at_once_are_the_depth(rate: int, depth: int) -> None:
    queue = queue_for(rate, depth)
    at_once = most_bytes(rate, 0, queue.burst_ns)
    waiting = queue.limit_bytes - LARGEST_PACKET_BYTES
    assert at_once + waiting <= depth
    assert waiting * NS <= rate * LONGEST_WAIT_NS
    if depth <= 60 * rate:
        assert (at_once + waiting) * NS > depth * NS - rate - NS


def test_frames_leave_by_the_ports_of_the_other_role() -> None:
    ports = [PortConfig(name, Observer.DPU_HOST_PORT) for name in ("pf0hpf", "pf1hpf")]
    ports += [PortConfig(name, Observer.DPU_UPLINK) for name in ("p0", "p1")]
    found = ways_out(ports)
    host, up = ["pf0hpf", "pf1hpf"], ["p0", "p1"]
    assert found == {"pf0hpf": up, "pf1hpf": up, "p0": host, "p1": host}


@pytest.mark.rig
def test_what_the_policer_passes_waits_and_all_of_it_arrives(shaped: Shaped) -> None:
    with shaped.path.inside(FAR):
        receiver = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x88B5))
        receiver.bind(("eth0", 0x88B5))
    receiver.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
    receiver.settimeout(60)
    shaped.fill()
    rate, depth = 200_000, 64_000
    shaped.order(rate, depth)
    before, count = shaped.passed(), 50
    with receiver, shaped.path.raw_socket() as sender:
        for _ in range(count):
            sender.send(FRAME)
        times: list[int] = []
        while len(times) < count:
            data, extra, _, _ = receiver.recvmsg(2_000, 64)
            if len(data) == len(FRAME):
                seconds, nanoseconds = struct.unpack("=qq", extra[0][2][:16])
                times.append(seconds * NS + nanoseconds)
    after = shaped.passed()
    assert after.dropped_packets == before.dropped_packets
    assert after.passed_bytes - before.passed_bytes == count * len(FRAME)
    # One frame of debt and the burst leave at once; the rest at the rate. A policer alone would let all of it through.
    queue = queue_for(rate, depth)
    late = count * len(FRAME) - most_bytes(rate, 0, queue.burst_ns) - 2 * len(FRAME)
    assert late > 0
    assert max(times) - min(times) >= late * NS // rate - NS // 1_000


@pytest.mark.rig
def test_tcp_in_both_directions_arrives_whole_within_the_limit(shaped: Shaped) -> None:
    rate, depth, size = 2_000_000, 64_000, 1_500_000
    for port, place, other, address in (
        (HOST_PORT, HOST, FAR, FAR_ADDRESS),
        (UPLINK, FAR, HOST, "10.78.0.1"),
    ):
        shaped.order(rate, depth, port)
        began_ns, before = time.monotonic_ns(), shaped.path.counters(other, "eth0")["rx_bytes"]
        generator = [sys.executable, "-m", "hil.traffic.transfer"]
        receiver = shaped.path.start(other, [*generator, "receive", "--listen", f"{address}:9000"])
        sender = shaped.path.start(place, [*generator, "send", "--target", f"{address}:9000", "--bytes", f"{size}B"])
        sender.communicate(timeout=120)
        receiver.communicate(timeout=60)
        assert (sender.returncode, receiver.returncode) == (0, 0)
        came = shaped.path.counters(other, "eth0")["rx_bytes"] - before
        # Control frames have their own budget; here nothing limits them.
        assert size < came <= most_bytes(rate, depth, time.monotonic_ns() - began_ns) + 10_000
        queues = shaped.look(UPLINK if port == HOST_PORT else HOST_PORT)
        assert queues is not None
        assert (queues.direct_packets, set(queues.classes) > {DEFAULT}) == (0, True)


@pytest.mark.rig
def test_rates_of_64_bits_are_in_the_kernel_as_ordered(shaped: Shaped) -> None:
    for rate in (1, 1_000, 4_294_967_295, 4_294_967_296, 50_000_000_000, MAX_RATE_BYTES_PER_S):
        for depth in (64_000, 150_000_000):
            order = shaped.order(rate, depth)
            queues = shaped.look()
            assert queues is not None
            (there,) = [queue for minor, queue in queues.classes.items() if minor != DEFAULT]
            assert there.rate_bytes_per_s == rate
            assert 0 <= queue_for(rate, depth).burst_ns - there.burst_ns < 64
            assert shaped.read_back() == [order]


@pytest.mark.rig
def test_a_queue_that_went_is_told_and_made_again_and_the_policer_holds_without_it(shaped: Shaped) -> None:
    order = shaped.order(100_000, 20_000)
    assert shaped.read_back() == [order]
    shaped.path.run(DPU, "tc", "qdisc", "del", "dev", UPLINK, "root")
    before, began_ns = shaped.passed().passed_bytes, time.monotonic_ns()
    with shaped.path.raw_socket() as sender:
        for _ in range(300):
            sender.send(FRAME)
    time.sleep(0.05)
    assert shaped.passed().passed_bytes - before <= most_bytes(100_000, 20_000, time.monotonic_ns() - began_ns)
    assert shaped.read_back() == []
    assert shaped.read_back() == [order]
    # A hand that opens the class.
    (minor,) = {f"{minor:x}" for minor in (shaped.look() or DeviceState(0, {}, 0)).classes if minor != DEFAULT}
    shaped.path.run(DPU, "tc", "class", "change", "dev", UPLINK, "classid", f"5742:{minor}", "htb", "rate", "9gbit")
    assert shaped.read_back() == []
    assert shaped.read_back() == [order]
    # A device that is made anew.
    ingress = replace(shaped.order(100_000, 20_000, UPLINK))
    shaped.path.unplug_host()
    shaped.path.plug_host()
    with shaped.path.inside(DPU):
        first, again = shaped.shaper.read_back(), shaped.shaper.read_back()
    assert ingress not in first
    assert ingress in again
