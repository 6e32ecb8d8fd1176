"""Ports that are closed before there is an agent, and what it finds when it comes."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from dpu_agent.config import AgentConfig
from dpu_agent.errors import AgentError
from dpu_agent.limits.closed import NotClosedError, close_ports, take_down
from dpu_agent.limits.order import LimitClass, Order
from dpu_agent.limits.police import Policer
from dpu_agent.limits.settings import L2_CONTROL, NONE, POLICE, LimitsConfig
from hil.bench.metered_path import DPU, FAR, HOST_PORT, UPLINK, MeteredPath

pytestmark = pytest.mark.rig

NS = 10**9
FRAME = b"\xff" * 6 + b"\x02\x00\x00\x00\x00\x01\x88\xb5" + bytes(986)
ARP = FRAME[:12] + b"\x08\x06" + bytes(46)


class Boot:
    """A path without an agent; ``down`` are the ports that were taken down."""

    def __init__(self, path: MeteredPath) -> None:
        self.path, self.down = path, list[str]()
        self.config: AgentConfig = replace(path.config(), limits=LimitsConfig(backend=POLICE))

    def close(self, config: AgentConfig | None = None, bpf: Path | None = None) -> str:
        with self.path.inside(DPU):
            return close_ports(config or self.config, bpf_file_system=bpf or self.path.bpf, down=self.down.append)

    def sent(self, frame: bytes, count: int = 50) -> int:
        """Send frames; return how many bytes came."""
        before = self.path.counters(FAR, "eth0")["rx_bytes"]
        with self.path.raw_socket() as sender:
            for _ in range(count):
                sender.send(frame)
        time.sleep(0.05)
        return self.path.counters(FAR, "eth0")["rx_bytes"] - before


@pytest.fixture
def boot() -> Iterator[Boot]:
    with MeteredPath() as path:
        yield Boot(path)


def test_closed_from_the_first_frame_and_the_agent_goes_on_from_there(boot: Boot) -> None:
    assert boot.sent(FRAME) == 50 * len(FRAME)
    classes = len(boot.config.limits.floors)
    assert f"closed, {2 * classes} orders" in boot.close()
    assert boot.sent(FRAME) == 0
    # Control frames have their floor: a bucket that begins to fill with its first frame.
    boot.sent(ARP, 1)
    time.sleep(len(ARP) / L2_CONTROL.rate_bytes_per_s + 0.05)
    assert boot.sent(ARP, 1) == len(ARP)
    meters = boot.path.meters(boot.config)
    try:
        reading = boot.path.read(meters, 1)[HOST_PORT]
        # What was sent while the ports were closed is in the agent's first totals; nothing was missed since.
        assert reading.moved.segments + reading.start.segments == 52
        assert (reading.epoch, reading.gaps, reading.findings) == (1, (), ())
        assert boot.sent(FRAME) == 0
    finally:
        meters.close()


def test_what_is_in_force_stays(boot: Boot) -> None:
    boot.close()
    with boot.path.inside(DPU):
        policer = Policer([HOST_PORT, UPLINK], bpf_file_system=boot.path.bpf)
    order = Order(HOST_PORT, LimitClass.OTHER_POD, 10**9, 10**6, None, time.monotonic_ns() + 60 * NS, 0, 0)
    policer.apply([order])
    assert "closed, 0 orders" in boot.close()
    assert order in policer.read_back()
    policer.close()
    assert boot.sent(FRAME, 20) > 0
    # A port that was made anew while nobody ran is shut; then it has the same orders again.
    boot.path.unplug_host()
    boot.path.plug_host()
    assert boot.sent(FRAME, 5) == 0
    boot.close()
    assert boot.sent(FRAME, 5) > 0


def test_what_cannot_be_closed_is_taken_down(boot: Boot, tmp_path: Path) -> None:
    with pytest.raises(NotClosedError, match="taken down"):
        boot.close(bpf=tmp_path)
    assert boot.down == [HOST_PORT, UPLINK]
    with boot.path.inside(DPU):
        take_down(HOST_PORT)
        take_down("p9")
    assert boot.sent(FRAME) == 0


def test_a_running_agent_and_one_that_limits_nothing_are_left_alone(boot: Boot) -> None:
    assert "limits nothing" in boot.close(replace(boot.config, limits=LimitsConfig(backend=NONE)))
    assert boot.sent(FRAME, 5) == 5 * len(FRAME)
    meters = boot.path.meters(boot.config)
    try:
        with pytest.raises(AgentError, match="another agent"):
            boot.close()
    finally:
        meters.close()
    assert boot.down == []
    with boot.path.inside(DPU):
        assert socket.if_nametoindex(HOST_PORT)
