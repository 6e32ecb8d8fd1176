"""Limits on a rig, end to end: agreed by both, leased, enforced, and closed when nobody is there to renew.

What passed is what the far node's own interface received, sampled there; every time is the kernel's monotonic clock,
which all machines of an emulated rig share. No bound rests on how quick this computer is: each follows from the
samples' own times.
"""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from controller.journal import Journal, Kind
from hil import rigfile
from hil.machine import PROJECT
from hil.operation import Operation, build_bundle
from hil.plan import dpu_of
from hil.rig import Rig
from protos.lease import most_bytes
from protos.leasewire import parse_lease
from protos.v1 import lease_pb2

pytestmark = [pytest.mark.rig, pytest.mark.slow]

NS = 10**9
RATE, DEPTH, LIFE_NS = 1_000_000, 64_000, 6 * NS
OWN_BYTES_PER_S = 20_000
"""What else reaches the far node: `l2-control` has 10 kB/s of its own with 64 kB, and the switch talks too."""
OWN_DEPTH = 100_000
AGENT = "weighbridge-agent"
DOCUMENT = """
version = 1
site = "{site}"
number = 1
valid_from = 2020-01-01T00:00:00Z
valid_to = 2120-01-01T00:00:00Z
longest_lease = "60s"

[[limits]]
of = "node"
names = ["*"]
class = "other-pod"
direction = "both"
depth = "64kB"
bounds = [{{window = "10s", bytes = "10.1MB"}}]
"""
_SAMPLER = """
import sys, time
path = "/sys/class/net/eth0/statistics/rx_bytes"
while True:
    before = time.monotonic_ns()
    count = int(open(path).read())
    print(before, time.monotonic_ns(), count, flush=True)
    time.sleep(0.02)
"""


@dataclass(frozen=True)
class Sample:
    """The counter showed ``count`` within ``[earliest_ns, latest_ns]``."""

    earliest_ns: int
    latest_ns: int
    count: int


class Scene:
    """The rig with its agreement in force, traffic that asks for five times the limit, and the far node's counter."""

    def __init__(self, operation: Operation, samples: Path) -> None:
        self.operation, self._samples = operation, samples
        self.near, self.far = operation.rig.file.nodes()[:2]

    def samples(self) -> list[Sample]:
        lines = self._samples.read_text("ascii").splitlines()
        return [Sample(*map(int, line.split())) for line in lines if line.count(" ") == 2]

    def passed(self, from_ns: int, to_ns: int) -> tuple[int, int]:
        """Return the bytes between the samples next inside of these times, and how long that is at most."""
        within = [each for each in self.samples() if each.earliest_ns >= from_ns and each.latest_ns <= to_ns]
        if not within:
            return 0, 0
        return within[-1].count - within[0].count, within[-1].latest_ns - within[0].earliest_ns

    def last_traffic_ns(self, after_ns: int) -> int:
        """Return the earliest time by which everything but the network's own frames had come."""
        samples = [each for each in self.samples() if each.earliest_ns > after_ns]
        total, began_ns = samples[-1], samples[0].earliest_ns
        times = [each.latest_ns for each in samples]
        # From the end back: the first stretch in which more came than the network's own frames.
        for each in reversed(samples):
            window = samples[bisect_left(times, each.latest_ns - NS // 2)]
            if each.count - window.count > OWN_BYTES_PER_S:
                return window.latest_ns
        assert total.earliest_ns > began_ns
        return began_ns

    def check_no_window_holds_more(self, from_ns: int, to_ns: int) -> None:
        """Every pair of samples: no more came than rate, depth and the network's own frames allow."""
        least: float = float("inf")
        for each in self.samples():
            if each.earliest_ns < from_ns or each.latest_ns > to_ns:
                continue
            # Maximum-subarray over count - rate * time: what came since any earlier sample.
            line = each.count * NS - (RATE + OWN_BYTES_PER_S) * each.latest_ns
            least = min(least, each.count * NS - (RATE + OWN_BYTES_PER_S) * each.earliest_ns)
            assert line - least <= (DEPTH + OWN_DEPTH) * NS

    def last_lease_end_ns(self) -> int:
        """Return when the last lease towards the far node ends, at the latest, on the shared clock."""
        agent = self.operation.rig.machine(dpu_of(self.near)).name
        with Journal.open(self.operation.journal, read_only=True) as journal:
            entries = list(journal.entries(kinds=[Kind.LEASE], source=agent))
            offset_ns = self.operation.now_ns() - time.monotonic_ns()
        leases = [
            (entry.recorded_ns - offset_ns, parse_lease(lease_pb2.SignedLease.FromString(entry.body).body))
            for entry in entries
        ]
        return max(recorded_ns + lease.lifetime_ns for recorded_ns, lease in leases)


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    folder: Path = tmp_path_factory.mktemp("limits")
    with Rig.up(rigfile.load(rigfile.find("pair")), folder / "rig", name="limits") as rig:
        operation = Operation(rig, folder / "logs")
        site_file = operation.site_file.read_text("utf-8")
        told = re.sub(r"(\n *)(clock_offset_ns: \d+)", r"\1\2\1limiter: police", site_file)
        assert told.count("limiter: police") == 2
        operation.site_file.write_text(told, "utf-8")
        _agree(operation, folder)
        operation.deploy()
        near, far = (rig.machine(node) for node in rig.file.nodes()[:2])
        target = f"{far.plan.data_address}:9001"
        samples = (folder / "samples").open("w", encoding="ascii")
        receive = ("-m", "hil.traffic.blast", "receive", "--listen", target, "--for", "1h")
        send = ("-m", "hil.traffic.blast", "send", "--target", target, "--rate", "5MB/s", "--for", "1h")
        with samples, (folder / "traffic.log").open("w", encoding="utf-8") as log:
            running: list[subprocess.Popen[str]] = [
                far.popen([sys.executable, "-c", _SAMPLER], stdout=samples, stderr=log),
                far.popen([sys.executable, *receive], cwd=PROJECT, stdout=log, stderr=log),
                near.popen([sys.executable, *send], cwd=PROJECT, stdout=log, stderr=log),
            ]
            try:
                yield Scene(operation, folder / "samples")
            finally:
                operation.kill()
                for process in running:
                    process.kill()
                    process.wait(20)


def _agree(operation: Operation, folder: Path) -> None:
    """Both sides sign, the verifier accepts: by the commands that they type."""
    operation.weighbridge("init", str(operation.site_file))
    document, agreed = folder / "limits.toml", folder / "limits.agreement"
    site = operation.rig.file.site.name or operation.rig.name
    document.write_text(DOCUMENT.format(site=site), "utf-8")
    operation.weighbridge("agreement", "key", str(folder / "prover"))
    operation.weighbridge("agreement", "propose", str(document), "-o", str(agreed))
    operation.weighbridge("agreement", "sign", str(agreed), "--key", str(folder / "prover"))
    operation.weighbridge("agreement", "accept", str(agreed), "--prover-key", str(folder / "prover.pub"))
    build_bundle()


def test_limits_hold_and_fail_closed(scene: Scene) -> None:
    operation, rig = scene.operation, scene.operation.rig
    agent = rig.machine(dpu_of(scene.near))
    # 1. Without a lease nothing passes but the network's own frames.
    closed_ns = time.monotonic_ns()
    operation.start()
    assert scene.passed(closed_ns, time.monotonic_ns())[0] < OWN_DEPTH
    # 2. Leased: the rate comes through, and no window holds more, through a restart of the controller.
    leased_ns = time.monotonic_ns()
    for node in (scene.near, scene.far):
        name = rig.machine(dpu_of(node)).name
        operation.weighbridge("leases", "grant", name, "--rate", "1MB/s", "--depth", "64kB", "--lifetime", "6s")
    opened_ns = time.monotonic_ns()
    time.sleep(2)
    operation.stop()
    operation.start()
    time.sleep(5)
    renewed_ns = time.monotonic_ns()
    came, took_ns = scene.passed(opened_ns, renewed_ns)
    assert took_ns > LIFE_NS  # longer than one lease lives: they were renewed
    assert came > most_bytes(RATE, 0, took_ns) * 8 // 10
    scene.check_no_window_holds_more(leased_ns, renewed_ns)
    # 3. Controller and agent are killed: the limit stays in the kernel, and ends with the lease.
    operation.kill()
    agent.run(["kill", f"-{signal.SIGKILL:d}", str(agent.supervise("status", AGENT)[0]["pid"])])
    agent.supervise("stop", AGENT)
    killed_ns = time.monotonic_ns()
    end_ns = scene.last_lease_end_ns()
    time.sleep(max(0, end_ns - time.monotonic_ns()) / NS + 2)
    over_ns = time.monotonic_ns()
    assert scene.passed(killed_ns, max(killed_ns + NS, end_ns - 2 * NS))[0] > 0
    assert scene.last_traffic_ns(killed_ns) <= end_ns + NS
    scene.check_no_window_holds_more(leased_ns, over_ns)
    # 4. The agent comes back: closed. The controller comes back: open.
    agent.supervise("start", AGENT)
    time.sleep(3)
    assert scene.passed(over_ns, time.monotonic_ns())[0] < OWN_DEPTH
    operation.start()
    deadline = time.monotonic() + 60
    began_ns = time.monotonic_ns()
    while scene.passed(began_ns, time.monotonic_ns() + NS)[0] < RATE and time.monotonic() < deadline:
        time.sleep(0.5)
    assert scene.passed(began_ns, time.monotonic_ns())[0] >= RATE
    # 5. Revoked: closed at once.
    operation.weighbridge("leases", "revoke", agent.name)
    revoked_ns = time.monotonic_ns()
    time.sleep(2)
    assert scene.passed(revoked_ns + NS // 2, time.monotonic_ns())[0] < OWN_DEPTH
    # 6. What the limiters did is what the leases allowed: nobody is accused, and no law broke on what was dropped.
    to_ns = operation.now_ns()
    time.sleep(2)
    operation.stop()
    result = operation.crosscheck(to_ns - (time.monotonic_ns() - closed_ns), to_ns)
    kinds = {finding["kind"] for finding in result["findings"] if finding["certain"]}
    assert not kinds & {"limit-not-enforced", "observers-disagree", "host-under-reports", "host-over-reports"}, result[
        "findings"
    ]
    # 7. A reboot ends a lease that would have lived on, as soon as the agent is at its hook again.
    # Nobody renews while the controller is stopped, so the far end's lease may be over as well.
    for name in (rig.machine(dpu_of(scene.far)).name, agent.name):
        operation.weighbridge("leases", "grant", name, "--rate", "1MB/s", "--depth", "64kB", "--lifetime", "60s")
    granted_ns = time.monotonic_ns()
    time.sleep(1)
    assert scene.passed(granted_ns, time.monotonic_ns())[0] > OWN_DEPTH
    rig.reboot(agent.name)
    deadline = time.monotonic() + 60
    while not (listed := _listed(operation, agent.name)) and time.monotonic() < deadline:
        time.sleep(0.3)
    assert {row["floor_reason"] for row in listed if row["state"] == "floor"} >= {"rebooted"}
    back_ns = time.monotonic_ns()
    time.sleep(2)
    assert scene.passed(back_ns, time.monotonic_ns())[0] < OWN_DEPTH
    assert time.monotonic_ns() < granted_ns + 60 * NS


def _listed(operation: Operation, agent: str) -> list[dict[str, str]]:
    """Return what is in force at an agent; nothing while it does not answer."""
    done = operation.weighbridge("leases", "list", "--json", expected=(0, 3))
    return [row for row in json.loads(done.stdout)["limits"] if row["agent"] == agent]
