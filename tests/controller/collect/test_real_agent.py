"""The real agent and the real command line, over real ports, killed again and again while traffic flows.

Everything is in network namespaces of its own: one holds the agent, its ports and the controller (over loopback),
the other the far ends of the ports.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from controller.crosscheck.model import Period
from controller.journal import Journal, Kind, NewEntry
from controller.observations import evidence
from controller.site import Site, load
from protos.reading import Direction, Observer
from protos.signing import SigningDomain, load_public_key, verify
from protos.wire import parse_signed_frame

pytestmark = [pytest.mark.rig, pytest.mark.slow]

SITE = """
version: 1
site: demo
controller: {journal: journal.db, ca: pki/ca.pem, certificate: pki/controller.pem, key: pki/controller.key}
pods: [{name: pod-a, nodes: [node1]}]
nodes:
  - name: node1
    dpus:
      - name: node1-dpu0
        agent: "127.0.0.1:7443"
        uplinks: [{name: p0, host_port: pf0hpf, line_rate: 10Gbit/s, mtu: 1500}]
links: [{name: node1/p0, dpu: node1-dpu0, uplink: p0, switch: sw1, port: eth1}]
switches:
  - name: sw1
    address: "127.0.0.1:16100"
    snmp: {version: 3, user: w, auth: sha256, auth_key_file: s/auth, privacy: aes128, privacy_key_file: s/priv}
    refresh: 3.5s
    framing: l2_without_fcs
collection: {poll_interval: 1s, clock_interval: 200ms}
limits: []
assumptions: {largest_frame: 1514B}
"""


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True, text=True)


@dataclass
class Bench:
    """The namespaces, the agent and the controller in them."""

    folder: Path
    near: str
    far: str
    site: Site
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def start(self, name: str, *argv: str) -> None:
        with (self.folder / f"{name}.log").open("ab") as log:
            self.processes[name] = subprocess.Popen(
                ["ip", "netns", "exec", self.near, *argv], stdout=log, stderr=log, cwd=self.folder
            )

    def start_agent(self) -> None:
        self.start("agent", sys.executable, "-m", "dpu_agent.cli", "run", "--config", str(self.folder / "agent.json"))

    def start_controller(self) -> None:
        self.start(
            "controller", str(Path(sys.executable).with_name("weighbridge")), "run", "--site", str(self.site.path)
        )

    def kill(self, name: str) -> None:
        process = self.processes.pop(name)
        process.kill()
        process.wait()

    def stop(self, name: str) -> int:
        process = self.processes.pop(name)
        process.send_signal(signal.SIGTERM)
        return process.wait(timeout=20)

    def describe(self) -> dict[str, object]:
        argv = [sys.executable, "-m", "dpu_agent.cli", "describe", "--config", str(self.folder / "agent.json")]
        found = subprocess.run(["ip", "netns", "exec", self.near, *argv], check=True, capture_output=True)
        answer: dict[str, object] = json.loads(found.stdout)
        return answer

    def counters(self, port: str) -> tuple[int, int]:
        """Bytes received and sent by a port, as the kernel says now."""
        argv = ["ip", "netns", "exec", self.near, "ip", "-j", "-s", "link", "show", port]
        [found] = json.loads(subprocess.run(argv, check=True, capture_output=True).stdout)
        return found["stats64"]["rx"]["bytes"], found["stats64"]["tx"]["bytes"]

    def logs(self) -> str:
        return "\n".join(path.read_text()[-3000:] for path in self.folder.glob("*.log"))


@pytest.fixture
def bench(tmp_path: Path, pki: Path) -> Iterator[Bench]:
    near, far = f"wbn{os.getpid()}", f"wbf{os.getpid()}"
    shutil.copytree(pki, tmp_path / "pki")
    (tmp_path / "s").mkdir()
    for name in ("auth", "priv"):
        (tmp_path / "s" / name).write_text("a pass phrase of the test\n")
        (tmp_path / "s" / name).chmod(0o600)
    (tmp_path / "site.yaml").write_text(SITE)
    config = {
        "agent": "node1-dpu0",
        "listen": "127.0.0.1:7443",
        "ca": "pki/ca.pem",
        "certificate": "pki/node1-dpu0.pem",
        "key": "pki/node1-dpu0.key",
        "state_directory": "state",
        "ports": [{"name": "pf0hpf", "role": "host_port"}, {"name": "p0", "role": "uplink"}],
        "frame_interval_ms": 100,
        "clock_offset_ns": 123_456_789_000_000,
    }
    (tmp_path / "agent.json").write_text(json.dumps(config))
    made = Bench(tmp_path, near, far, load(tmp_path / "site.yaml"))
    with contextlib.ExitStack() as closing:
        for name in (near, far):
            _ip("netns", "add", name)
            closing.callback(_ip, "netns", "del", name)
            _ip("-n", name, "link", "set", "lo", "up")
        for index, port in enumerate(("pf0hpf", "p0")):
            _ip("-n", near, "link", "add", port, "type", "veth", "peer", "name", f"far{index}", "netns", far)
            _ip("-n", near, "address", "add", f"10.9.{index}.1/24", "dev", port)
            _ip("-n", far, "address", "add", f"10.9.{index}.2/24", "dev", f"far{index}")
            _ip("-n", near, "link", "set", port, "up")
            _ip("-n", far, "link", "set", f"far{index}", "up")
        yield made
        for name in list(made.processes):
            made.kill(name)


@contextlib.contextmanager
def traffic(bench: Bench) -> Iterator[None]:
    """Send UDP out of both ports, some 2 MB/s each, until left."""
    program = (
        "import socket, time\n"
        "s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n"
        "while True:\n"
        "    for index in (0, 1):\n"
        "        for _ in range(20): s.sendto(bytes(1000), (f'10.9.{index}.2', 9))\n"
        "    time.sleep(0.01)\n"
    )
    argv = ["ip", "netns", "exec", bench.near, sys.executable, "-c", program]
    sender = subprocess.Popen(argv, stderr=subprocess.DEVNULL)
    try:
        yield
    finally:
        sender.kill()
        sender.wait()


def _until(condition: Callable[[], bool], bench: Bench, seconds: float = 40) -> None:
    ends = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < ends, f"not reached within {seconds} s\n{bench.logs()}"
        time.sleep(0.05)


def test_kills_of_either_side_lose_and_double_nothing(bench: Bench) -> None:
    bench.start_agent()
    _until((bench.folder / "state").is_dir, bench)
    time.sleep(1)
    key = str(bench.describe()["frame_public_key"])
    enrolment = {"agent": "node1-dpu0", "public_key": key, "bundle_sha256": "", "agent_version": "0"}
    site_entry = NewEntry(Kind.SITE, "demo", 1, bench.site.content)
    path = bench.site.controller.journal
    Journal.create(path, site_entry, NewEntry(Kind.ENROLMENT, "node1-dpu0", 1, json.dumps(enrolment).encode())).close()
    with Journal.open(path, read_only=True) as journal:

        def last() -> int:
            return journal.last_sequence(Kind.FRAME, "node1-dpu0")

        def given_up() -> int:
            return sum(1 for _ in journal.entries(kinds=[Kind.ATTEMPT], source="sw1"))

        with traffic(bench):
            for number in range(10):
                bench.start_controller()
                before = last()
                _until(lambda before=before: last() > before + 5, bench)  # type: ignore[misc]
                if number in (2, 7):  # the dead switch is to have been looked for on both sides of some kills
                    before = given_up()
                    _until(lambda before=before: given_up() > before, bench)  # type: ignore[misc]
                if number % 2:
                    bench.kill("agent")
                    bench.start_agent()
                    time.sleep(0.1 * number)
                bench.kill("controller")
        bench.start_controller()
        # Asked for each time anew: neighbours and routers are asked for now and then, sent or not.
        _until(lambda: _counted(journal) == bench.counters("p0"), bench)
        _, sent = _counted(journal)
        ended_at = last()
        _until(lambda: last() > ended_at + 10, bench)
        assert bench.stop("controller") == 0, bench.logs()
        assert bench.stop("agent") == 0, bench.logs()

        frames = [entry.body for entry in journal.entries(kinds=[Kind.FRAME])]
        _check_chain(frames, bytes.fromhex(key))
        reasons = {json.loads(e.body)["reason"] for e in journal.entries(kinds=[Kind.ATTEMPT], source="node1-dpu0")}
        assert reasons <= {"unreachable", "connection-refused"}
        _check_bounds(journal, bench.site, (sent, bench.counters("p0")[1]))


def _counted(journal: Journal) -> tuple[int, int]:
    entry = journal.last(Kind.FRAME, "node1-dpu0")
    assert entry is not None
    _, frame = parse_signed_frame(entry.body)
    [port] = [port for port in frame.ports if port.port == "p0"]
    return port.ingress.bytes, port.egress.bytes


def _check_chain(frames: list[bytes], key: bytes) -> None:
    """Every frame from the first to the last exactly once, each signed and following from the one before."""
    public_key = load_public_key(key)
    parsed = [parse_signed_frame(raw) for raw in frames]
    assert [frame.sequence for _, frame in parsed] == list(range(1, len(frames) + 1))
    assert len(frames) > 100
    for signed, _ in parsed:
        verify(public_key, SigningDomain.FRAME, signed.body, signed.signature)
    for (before, _), (_, after) in itertools.pairwise(parsed):
        assert after.previous_sha256 == hashlib.sha256(before.body).digest()
    assert max(frame.agent_start for _, frame in parsed) >= 6, "the agent was started anew five times"


def _check_bounds(journal: Journal, site: Site, sent: tuple[int, int]) -> None:
    """The readings lie on the controller's timeline, go up, and end at what the kernel counted."""
    entries = list(journal.entries(kinds=[Kind.FRAME]))
    period = Period(entries[0].recorded_ns, entries[-1].recorded_ns)
    found = evidence(journal, site, period)
    [link] = [link for link in found.links if link.direction is Direction.EGRESS]
    track = link.tracks[Observer.DPU_UPLINK]
    assert len(track.readings) == len(entries)
    assert {reading.epoch for reading in track.readings} == {0}, "the agent's restarts did not end the epoch"
    # What the kernel said just before the last frames and after them; neighbours ask for each other now and then.
    assert sent[0] <= track.readings[-1].bytes <= sent[1]
    assert sent[1] - sent[0] < 1_000
    assert sent[0] > 5_000_000
    for reading, entry in zip(track.readings, entries, strict=True):
        assert reading.earliest_ns <= reading.latest_ns <= entry.recorded_ns
    widths = sorted(reading.latest_ns - reading.earliest_ns for reading in track.readings)
    assert widths[len(widths) // 2] < 20_000_000
    # Of the runs that were killed before their first poll of the dead switch was given up nothing is known.
    who = {silence.who for silence in link.tracks[Observer.SWITCH].looked}
    assert "controller-stopped" in who
    assert who <= {"controller-stopped", "device-silent", "not-polled"}
    for silence in track.looked:
        assert silence.who == "device-silent" or "no look was due" in silence.text


def test_nothing_listens_where_no_agent_is(bench: Bench) -> None:
    """The namespaces alone: the controller's own look at an empty machine is a refused connection."""
    Journal.create(bench.site.controller.journal, NewEntry(Kind.SITE, "demo", 1, bench.site.content)).close()
    bench.start_controller()
    with Journal.open(bench.site.controller.journal, read_only=True) as journal:
        _until(lambda: journal.last(Kind.ATTEMPT, "sw1") is not None, bench)
        assert bench.stop("controller") == 0
        attempts = {e.source: json.loads(e.body) for e in journal.entries(kinds=[Kind.ATTEMPT])}
    assert attempts["node1-dpu0"]["reason"] == "not-enrolled"
    assert attempts["sw1"]["what"] == "poll"
    assert socket.gethostname()  # the test's own namespace was left alone
