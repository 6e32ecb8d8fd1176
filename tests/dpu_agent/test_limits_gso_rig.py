"""Packets that are cut into frames behind the policer: charged as the frames they become, whole or not at all."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator

import pytest

from dpu_agent.limits.order import LimitClass, Order, Passed
from dpu_agent.limits.police import Policer
from hil.bench.metered_path import DPU, FAR, FAR_ADDRESS, HOST, HOST_PORT, MeteredPath
from protos.lease import most_bytes

pytestmark = pytest.mark.rig

SEGMENTS, PAYLOAD = 30, 1_400
HEADERS = 14 + 20 + 8
PACKET = SEGMENTS * (PAYLOAD + HEADERS)
RATE = 2_000_000
UDP_SEGMENT = 103  # linux/udp.h


class Place:
    def __init__(self, path: MeteredPath) -> None:
        self.path, self.meters = path, path.meters()
        with path.inside(DPU):
            self.policer = Policer([HOST_PORT], bpf_file_system=path.bpf)
        with path.inside(FAR):
            self.receiver = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            self.receiver.bind((FAR_ADDRESS, 9_000))
        with path.inside(HOST):
            self.sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.sender.setsockopt(socket.SOL_UDP, UDP_SEGMENT, PAYLOAD)
        self.sender.connect((FAR_ADDRESS, 9_000))
        self.send()  # finds the neighbour; nothing is limited yet
        self.arrives(SEGMENTS * (PAYLOAD + HEADERS))

    def order(self, depth: int) -> None:
        """Put a bucket of ``depth`` in force and see to it that it is full."""
        self.policer.apply([Order(HOST_PORT, LimitClass.OTHER_POD, RATE, depth, None, None, 0, 0)])
        self.send()  # from this packet on the bucket fills at the new rate
        time.sleep(2 * depth / RATE)

    def send(self) -> None:
        self.sender.send(bytes(SEGMENTS * PAYLOAD))
        time.sleep(0.02)

    def received(self) -> int:
        return self.path.counters(FAR, "eth0")["rx_bytes"]

    def arrives(self, least: int) -> int:
        """Wait until the far end has ``least`` bytes, for it gets them when the machine has the time; return them."""
        deadline = time.monotonic() + 60
        while self.received() < least and time.monotonic() < deadline:
            time.sleep(0.01)
        return self.received()

    def passed(self) -> Passed:
        return next(each for each in self.policer.prove() if each.traffic_class == LimitClass.OTHER_POD)

    def close(self) -> None:
        for each in (self.sender, self.receiver, self.policer, self.meters):
            each.close()


@pytest.fixture
def place() -> Iterator[Place]:
    with MeteredPath(mtu=1500, offloads=True) as path:
        found = Place(path)
        yield found
        found.close()


def test_a_packet_passes_when_the_bucket_holds_all_its_frames_and_not_a_byte_less(place: Place) -> None:
    for depth, passes in ((PACKET - 1, 0), (PACKET, 1)):
        place.order(depth)
        before, received = place.passed(), place.received()
        place.send()
        after = place.passed()
        assert after.offered_packets - before.offered_packets == SEGMENTS
        assert after.passed_packets - before.passed_packets == SEGMENTS * passes
        assert after.passed_bytes - before.passed_bytes == PACKET * passes
        assert place.arrives(received + PACKET * passes) == received + PACKET * passes


def test_a_burst_of_such_packets_gets_the_frames_that_rate_and_depth_allow(place: Place) -> None:
    place.order(3 * PACKET)
    before, received, began_ns = place.passed(), place.received(), time.monotonic_ns()
    for number in range(400):
        place.sender.send(bytes(SEGMENTS * PAYLOAD))
        if number % 10 == 9:
            time.sleep(0.01)
    time.sleep(0.05)
    took_ns = time.monotonic_ns() - began_ns
    passed = place.passed().passed_bytes - before.passed_bytes
    assert place.arrives(received + passed) == received + passed
    assert passed % PACKET == 0
    assert 3 * PACKET <= passed <= most_bytes(RATE, 3 * PACKET, took_ns)
    assert place.passed().dropped_bytes > before.dropped_bytes
