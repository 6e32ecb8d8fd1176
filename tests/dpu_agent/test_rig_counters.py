"""The agent between real interfaces: a DPU of Linux namespaces, a host before it and a switch behind it."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from dpu_agent.disk import Disk
from dpu_agent.frames import losses_in
from dpu_agent.home import SPOOL
from dpu_agent.spool import Spool
from protos.reading import Direction, Missing
from protos.wire import PortReading, parse_signed_frame, port_reading

if TYPE_CHECKING:
    from tests.dpu_agent.conftest import Installation

pytestmark = pytest.mark.rig

_WAIT_S = 60.0
_FRAME_BYTES = 1_042
_MAC = {"eth0": "02:00:00:00:00:01", "port": "02:00:00:00:00:02"}
# Frames of an EtherType for experiments (IEEE 802, clause 9.2.3): nobody answers them, so every byte is ours.
_SENDER = """
import socket, sys, time
to, sender, size, count = bytes.fromhex(sys.argv[2]), bytes.fromhex(sys.argv[3]), int(sys.argv[4]), int(sys.argv[5])
s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
s.bind((sys.argv[1], 0))
frame = to + sender + bytes.fromhex("88b5") + bytes(size - 14)
n = 0
while n != count:
    s.send(frame)
    n += 1
    if n % 50 == 0:
        time.sleep(0.002)
"""


class Rig:
    """host eth0 -- pf0hpf [DPU, bridged] p0 -- port [switch]."""

    def __init__(self, name: str) -> None:
        self.host, self.dpu, self.switch = (f"{name}-{part}" for part in ("host", "dpu", "switch"))
        self.namespaces = (self.host, self.dpu, self.switch)

    def up(self) -> None:
        for namespace in self.namespaces:
            _run("ip", "netns", "add", namespace)
            for key in ("all", "default"):
                self.exec(namespace, "sysctl", "-qw", f"net.ipv6.conf.{key}.disable_ipv6=1")
            _run("ip", "-n", namespace, "link", "set", "lo", "up")
        _run("ip", "-n", self.dpu, "link", "add", "br0", "type", "bridge", "mcast_snooping", "0")
        _run("ip", "-n", self.dpu, "link", "set", "br0", "up")
        self.plug("p0", self.switch, "port")
        self.plug("pf0hpf", self.host, "eth0")

    def plug(self, port: str, far: str, far_port: str) -> None:
        """Make a cable between the DPU's ``port`` and ``far_port`` in ``far``."""
        _run("ip", "-n", self.dpu, "link", "add", port, "type", "veth", "peer", far_port, "netns", far)
        _run("ip", "-n", far, "link", "set", far_port, "address", _MAC[far_port])
        for namespace, interface in ((self.dpu, port), (far, far_port)):
            self.exec(namespace, "ethtool", "-K", interface, "tso", "off", "gso", "off", "gro", "off", "tx", "off")
            _run("ip", "-n", namespace, "link", "set", interface, "up")
        _run("ip", "-n", self.dpu, "link", "set", port, "master", "br0")

    def down(self) -> None:
        for namespace in self.namespaces:
            subprocess.run(["ip", "netns", "del", namespace], check=False, capture_output=True)

    def exec(self, namespace: str, *argv: str) -> None:
        _run("ip", "netns", "exec", namespace, *argv)

    def sender(self, interface: str, count: int) -> list[str]:
        """The command that sends ``count`` frames (-1: without end) from ``interface`` to the other end."""
        namespace, other = (self.host, "port") if interface == "eth0" else (self.switch, "eth0")
        macs = [_MAC[other].replace(":", ""), _MAC[interface].replace(":", "")]
        code = ["ip", "netns", "exec", namespace, sys.executable, "-c", _SENDER]
        return [*code, interface, *macs, str(_FRAME_BYTES), str(count)]

    def send(self, interface: str, count: int) -> None:
        _run(*self.sender(interface, count))

    def counters(self, port: str) -> dict[str, dict[str, int]]:
        """What ``ip -s link`` shows."""
        shown = _run("ip", "-n", self.dpu, "-j", "-s", "-s", "link", "show", port)
        found: dict[str, dict[str, int]] = json.loads(shown)[0]["stats64"]
        return found


def _run(*argv: str) -> str:
    done = subprocess.run(argv, check=False, capture_output=True, text=True, timeout=3 * _WAIT_S)
    assert done.returncode == 0, f"{argv}: {done.stdout}{done.stderr}"
    return done.stdout


@pytest.fixture
def rig() -> Iterator[Rig]:
    made = Rig(f"wbagent{os.getpid()}")
    made.down()
    try:
        made.up()
        yield made
    finally:
        made.down()


class AgentInside:
    """A real agent in the DPU's namespace; its frames are read from its spool."""

    def __init__(self, rig: Rig, installation: Installation) -> None:
        self._folder = installation.folder
        argv = ["ip", "netns", "exec", rig.dpu, sys.executable, "-m", "dpu_agent.cli", "run"]
        # `ip netns exec` becomes the agent, so a signal reaches it.
        with (self._folder / "log").open("wb") as log:
            self.process = subprocess.Popen([*argv, "--config", str(installation.config)], stderr=log)

    def frames(self) -> list[tuple[int, list[PortReading]]]:
        """Every frame so far: boot-monotonic time and readings."""
        directory = self._folder / "state" / SPOOL
        if not directory.exists():
            return []
        spool, _ = Spool.open(
            ReadOnlyDisk(), directory, max_bytes=1 << 30, acknowledged=0, losses_in=losses_in, segment_bytes=1
        )
        found = []
        for _, signed in spool.read_after(0, 100_000):
            frame = parse_signed_frame(signed)[1]
            found.append((frame.clock.monotonic_ns, [port_reading(port) for port in frame.ports]))
        spool.close()
        return found

    def until(self, true: Callable[[list[tuple[int, list[PortReading]]]], bool]) -> list[tuple[int, list[PortReading]]]:
        deadline = time.monotonic() + _WAIT_S
        while not true(frames := self.frames()):
            assert self.process.poll() is None, (self._folder / "log").read_text()
            assert time.monotonic() < deadline
            time.sleep(0.1)
        return frames

    def fresh(self) -> list[PortReading]:
        """The readings of a frame whose look began after this call."""
        now = time.monotonic_ns()
        return self.until(lambda frames: bool(frames) and frames[-1][1][0].looked_ns[0] > now)[-1][1]

    def stop(self) -> str:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        self.process.wait(_WAIT_S)
        return (self._folder / "log").read_text()


class ReadOnlyDisk(Disk):
    """Looks at another process's spool without touching it."""

    def write_at(self, descriptor: int, data: bytes, offset: int) -> None:
        pass

    def allocate(self, descriptor: int, size: int) -> None:
        pass

    def flush(self, descriptor: int) -> None:
        pass


@pytest.fixture
def agent(rig: Rig, installation: Installation) -> Iterator[AgentInside]:
    installation.rewrite(frame_interval_ms=100)
    inside = AgentInside(rig, installation)
    inside.until(lambda frames: len(frames) > 1)
    yield inside
    inside.stop()


@contextmanager
def traffic_without_end(rig: Rig) -> Iterator[None]:
    """The host sends all the time; when its interface is taken away it begins again with the next one."""
    keep_sending = f"until {' '.join(map(shlex.quote, rig.sender('eth0', -1)))}; do sleep 0.02; done"
    traffic = subprocess.Popen(["sh", "-c", keep_sending], stderr=subprocess.DEVNULL, start_new_session=True)
    try:
        yield
    finally:
        os.killpg(traffic.pid, signal.SIGKILL)
        traffic.wait()


def _by_port(readings: list[PortReading]) -> dict[str, PortReading]:
    return {reading.port: reading for reading in readings}


def test_counters_are_exact_to_the_byte_and_the_right_way_round(rig: Rig, agent: AgentInside) -> None:
    before = _by_port(agent.fresh())
    rig.send("eth0", 3_000)
    rig.send("port", 500)
    after = _by_port(agent.fresh())
    for port in ("pf0hpf", "p0"):
        moved = {
            direction: (
                after[port].readings[direction].bytes - before[port].readings[direction].bytes,
                (after[port].readings[direction].packets or 0) - (before[port].readings[direction].packets or 0),
            )
            for direction in Direction
        }
        assert moved == {
            Direction.EGRESS: (3_000 * _FRAME_BYTES, 3_000),
            Direction.INGRESS: (500 * _FRAME_BYTES, 500),
        }, port
        shown = rig.counters(port)
        into_port, out_of_port = ("egress", "ingress") if port == "pf0hpf" else ("ingress", "egress")
        for direction, kernel in ((into_port, "rx"), (out_of_port, "tx")):
            reading = after[port].readings[Direction(direction)]
            assert (reading.bytes, reading.packets) == (shown[kernel]["bytes"], shown[kernel]["packets"])
            assert after[port].dropped_packets[Direction(direction)] == shown[kernel]["dropped"]
            assert after[port].error_packets[Direction(direction)] == shown[kernel]["errors"]
        assert after[port].epoch == 1
    assert "Traceback" not in agent.stop()


def test_drops_are_in_their_direction(rig: Rig, agent: AgentInside) -> None:
    """A veth drops what its peer may not receive: a far end with a small MTU makes the near port drop what it sends."""
    before = _by_port(agent.fresh())
    _run("ip", "-n", rig.switch, "link", "set", "port", "mtu", "500")
    rig.send("eth0", 70)
    _run("ip", "-n", rig.switch, "link", "set", "port", "mtu", "1500")
    _run("ip", "-n", rig.host, "link", "set", "eth0", "mtu", "500")
    rig.send("port", 30)
    after = _by_port(agent.fresh())

    def moved(port: str, direction: Direction) -> tuple[int, int]:
        packets = [found[port].readings[direction].packets or 0 for found in (before, after)]
        dropped = [found[port].dropped_packets[direction] for found in (before, after)]
        return packets[1] - packets[0], dropped[1] - dropped[0]

    assert moved("pf0hpf", Direction.EGRESS) == (70, 0)
    assert moved("p0", Direction.EGRESS) == (0, 70)
    assert moved("p0", Direction.INGRESS) == (30, 0)
    assert moved("pf0hpf", Direction.INGRESS) == (0, 30)


def _counts(frames: list[tuple[int, list[PortReading]]], epoch: int, least_bytes: int) -> bool:
    """Whether the newest reading of the host port is of this epoch, and traffic has come."""
    newest = _by_port(frames[-1][1])["pf0hpf"]
    return newest.epoch == epoch and not newest.missing and newest.readings[Direction.EGRESS].bytes > least_bytes


@pytest.mark.parametrize("looked", [False, True])
def test_an_interface_made_again_under_traffic_is_a_new_epoch(rig: Rig, agent: AgentInside, *, looked: bool) -> None:
    """Whether the agent looked while there was none, or not."""
    with traffic_without_end(rig):
        agent.until(lambda frames: _counts(frames, 1, 100_000))
        for epoch in (2, 3):
            _run("ip", "-n", rig.dpu, "link", "del", "pf0hpf")
            if looked:
                agent.until(lambda frames: bool(_by_port(frames[-1][1])["pf0hpf"].missing))
            rig.plug("pf0hpf", rig.host, "eth0")
            agent.until(partial(_counts, epoch=epoch, least_bytes=0))
    agent.fresh()
    frames = agent.frames()
    said = agent.stop()
    assert "Traceback" not in said
    seen: list[tuple[int, str]] = []
    last: PortReading | None = None
    absent = 0
    for _, readings in frames:
        reading, uplink = _by_port(readings)["pf0hpf"], _by_port(readings)["p0"]
        assert (uplink.epoch, uplink.missing) == (1, None), "the other port's counters went on"
        if reading.missing:
            assert reading.missing is Missing.ABSENT
            absent += 1
            continue
        if not seen or seen[-1][0] != reading.epoch:
            seen.append((reading.epoch, reading.epoch_reason))
        elif last is not None:
            for direction in Direction:
                assert reading.readings[direction].bytes >= last.readings[direction].bytes
            assert reading.ifindex == last.ifindex
        last = reading
    assert seen == [(1, "first-reading"), (2, "interface-recreated"), (3, "interface-recreated")]
    assert absent >= 2 or not looked
    assert last is not None
    assert last.readings[Direction.EGRESS].bytes > 0


@pytest.mark.slow
def test_five_kills_under_traffic_lose_and_repeat_nothing(rig: Rig) -> None:
    """The test of restarts, run inside the DPU's namespace on its real ports."""
    test = f"{Path(__file__).parent / 'test_restarts.py'}::test_five_kills_lose_and_repeat_nothing[1]"
    with traffic_without_end(rig):
        told = _run(
            *("ip", "netns", "exec", rig.dpu, "env", "WEIGHBRIDGE_TEST_PORTS=pf0hpf,p0"),
            *(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", test),
        )
    assert "1 passed" in told


_ON_A_SMALL_DISK = """
import subprocess, sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
import conftest
from dpu_agent.disk import Disk

mount = Path(sys.argv[2])
subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", mount], check=True)
options = {"home": mount, "segment_bytes": 32 * 1024, "max_bytes": 16 << 20}
agent, controller = conftest.Agent(Disk(), **options), conftest.Controller()
agent.tick(5)
filler = (mount / "filler").open("wb", buffering=0)
try:
    while True:
        filler.write(bytes(4096))
except OSError:
    filler.close()
agent.tick(400)
figures = agent.recorder.snapshot()[1]
assert "No space left" in figures.trouble, figures
assert 200 < figures.lost_frames < 400, figures
agent.recorder.close()
again = conftest.Agent(Disk(), clock=agent.clock, **options)
assert again.recorder.snapshot()[0].sequence == 405
(mount / "filler").unlink()
again.tick(2)
controller.take(again)
controller.check()
assert controller.newest == 407
assert len(controller.lost()) == figures.lost_frames, (controller.lost(), figures)
assert again.recorder.snapshot()[1].trouble == ""
again.recorder.close()
print("good")
"""


def test_a_disk_that_is_really_full(tmp_path: Path) -> None:
    (tmp_path / "mount").mkdir()
    argv = ["unshare", "--mount", sys.executable, "-c", _ON_A_SMALL_DISK, str(Path(__file__).parent)]
    done = subprocess.run(
        [*argv, str(tmp_path / "mount")], check=False, capture_output=True, text=True, timeout=2 * _WAIT_S
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "good\n"


def test_describe_in_the_namespace(rig: Rig, installation: Installation) -> None:
    told: dict[str, Any] = json.loads(
        _run(
            *("ip", "netns", "exec", rig.dpu, sys.executable, "-m", "dpu_agent.cli", "describe"),
            *("--config", str(installation.config)),
        )
    )
    assert [(port["name"], port["missing"], port["mtu_bytes"]) for port in told["ports"]] == [
        ("pf0hpf", None, 1500),
        ("p0", None, 1500),
    ]
    assert told["ports"][0]["speed_bytes_per_s"] == "1250000000"
