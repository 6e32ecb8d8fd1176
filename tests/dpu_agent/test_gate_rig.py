"""The gate on the real kernel: a port that is made anew lets nothing out before the agent has seen it."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Iterator

import pytest

from dpu_agent.limits.gate import Gate
from dpu_agent.limits.order import LimitClass, LimiterError, Order
from dpu_agent.limits.police import Policer
from dpu_agent.meter.libbpf import LibBpf
from dpu_agent.meter.meters import Meters
from hil.bench.metered_path import DPU, FAR, FAR_ADDRESS, HOST, HOST_PORT, UPLINK, MeteredPath

pytestmark = pytest.mark.rig

FRAME = b"\xff" * 6 + b"\x02\x00\x00\x00\x00\x01\x88\xb5" + bytes(986)
CLOSED = [Order(port, LimitClass.OTHER_POD, 0, 0, None, None, 0, 0) for port in (HOST_PORT, UPLINK)]


class Gated:
    """A path whose policers let nothing through, with gates."""

    def __init__(self, path: MeteredPath) -> None:
        self.path = path
        self.meters: Meters = path.meters()
        self.policer = self.police()
        self.policer.apply(CLOSED)

    def police(self) -> Policer:
        with self.path.inside(DPU):
            return Policer([HOST_PORT, UPLINK], bpf_file_system=self.path.bpf, gated=True)

    def read_back(self) -> int:
        with self.path.inside(DPU):
            return len(self.policer.read_back())

    def stop(self) -> None:
        self.policer.close()
        self.meters.close()

    def received(self, place: str = FAR) -> int:
        return self.path.counters(place, "eth0")["rx_bytes"]

    def sent(self, count: int = 50, place: str = HOST) -> int:
        other = FAR if place == HOST else HOST
        before = self.received(other)
        with self.path.raw_socket(place) as sender:
            for _ in range(count):
                sender.send(FRAME)
        time.sleep(0.05)
        return self.received(other) - before


@pytest.fixture
def gated() -> Iterator[Gated]:
    with MeteredPath() as path:
        found = Gated(path)
        yield found
        with contextlib.suppress(OSError):
            found.stop()


def test_a_port_made_anew_under_traffic_lets_nothing_out_while_the_agent_lives_and_when_it_is_dead(
    gated: Gated,
) -> None:
    stop, failed = threading.Event(), [0]

    def flood() -> None:
        # Again and again a new socket: the old one's interface is gone.
        while not stop.is_set():
            with contextlib.suppress(OSError), gated.path.raw_socket() as sender:
                for _ in range(200):
                    sender.send(FRAME)
            failed[0] += 1

    before = gated.received()
    flooding = threading.Thread(target=flood)
    flooding.start()
    try:
        for _ in range(5):
            gated.path.unplug_host()
            gated.path.plug_host()
            time.sleep(0.1)
        gated.stop()
        gated.path.unplug_host()
        gated.path.plug_host()
        time.sleep(0.3)
    finally:
        stop.set()
        flooding.join()
    assert failed[0] > 0
    assert gated.received() == before
    # And then the agent comes, and lets out what its policer lets in.
    gated.meters = gated.path.meters()
    gated.policer = gated.police()
    gated.policer.prove()
    gated.policer.apply([Order(HOST_PORT, LimitClass.OTHER_POD, 10**9, 10**6, None, None, 0, 0)])
    gated.sent(1)
    time.sleep(0.01)
    assert gated.sent(20) == 20 * len(FRAME)


def test_what_the_dpu_itself_sends_and_other_interfaces_pass(gated: Gated) -> None:
    before = gated.received()
    gated.path.run(DPU, "ip", "addr", "add", "10.78.0.9/24", "dev", "br0")
    with gated.path.inside(DPU), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.sendto(b"x", (FAR_ADDRESS, 9))
    time.sleep(0.1)
    assert gated.received() > before
    with gated.path.inside(DPU):
        gate = Gate([HOST_PORT, UPLINK], LibBpf(), bpf_file_system=gated.path.bpf, watch=False)
        refused = gate.refused()
        gate.close()
    assert set(refused) == {HOST_PORT, UPLINK}
    with gated.path.inside(DPU), pytest.raises(LimiterError, match="cannot be put"):
        Gate(["p9"], LibBpf(), bpf_file_system=gated.path.bpf)


def test_a_gate_that_is_taken_away_is_told_and_put_back(gated: Gated) -> None:
    whole = gated.read_back()
    gated.path.run(DPU, "tc", "filter", "del", "dev", UPLINK, "egress")
    deadline = time.monotonic() + 60
    while "weighbridge" not in gated.path.run(DPU, "tc", "filter", "show", "dev", UPLINK, "egress"):
        # Whoever comes first: the watcher, or the look of each second, which says so.
        assert gated.read_back() in {whole, whole // 2}
        assert time.monotonic() < deadline
    assert gated.read_back() == whole
    # A policer that is taken away: its port is shut until it is back.
    gated.meters.close()
    gated.path.run(DPU, "tc", "filter", "del", "dev", HOST_PORT, "ingress")
    gated.read_back()
    assert gated.sent() == 0
    assert gated.sent(place=FAR) == 0
