"""A rig with its agreement in force and a greedy sender: what came, sampled at the far node's own interface.

Every time is the kernel's monotonic clock, which all machines of an emulated rig share. No bound rests on how quick
this computer is: each follows from the samples' own times.
"""

from __future__ import annotations

import contextlib
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

from controller.journal import Journal, Kind
from hil import rigfile
from hil.machine import PROJECT, Machine
from hil.operation import Operation, build_bundle
from hil.plan import dpu_of
from hil.rig import Rig
from protos.buckets import TrafficClass
from protos.leasewire import parse_lease
from protos.moments import unpack_moments
from protos.v1 import frame_pb2, lease_pb2

NS = 10**9
RATE, DEPTH = 1_000_000, 64_000
OWN_BYTES_PER_S = 20_000
"""What else reaches the far node: `l2-control` has 10 kB/s of its own with 64 kB, and the switch talks too."""
OWN_DEPTH = 100_000
AGENT = "weighbridge-agent"
HOST_PORT = "pf0hpf"
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
        self.agent: Machine = operation.rig.machine(dpu_of(self.near))

    def samples(self) -> list[Sample]:
        """Return what the far node's counter showed so far."""
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
        if total.earliest_ns <= began_ns:
            raise ValueError("there are too few samples")
        return began_ns

    def worst_window(self, from_ns: int, to_ns: int) -> float:
        """Return, of the depth, the most that came between two samples beyond the rate; above 1 is broken."""
        least, worst = float("inf"), 0.0
        for each in self.samples():
            if each.earliest_ns < from_ns or each.latest_ns > to_ns:
                continue
            # Maximum-subarray over count - rate * time: what came since any earlier sample.
            line = each.count * NS - (RATE + OWN_BYTES_PER_S) * each.latest_ns
            least = min(least, each.count * NS - (RATE + OWN_BYTES_PER_S) * each.earliest_ns)
            worst = max(worst, line - least)
        return worst / ((DEPTH + OWN_DEPTH) * NS)

    def last_lease_end_ns(self) -> int:
        """Return when the newest lease towards the far node ends, at the latest, on the shared clock."""
        agent = self.agent.name
        with Journal.open(self.operation.journal, read_only=True) as journal:
            entries = list(journal.entries(kinds=[Kind.LEASE], source=agent))
            offset_ns = self.operation.now_ns() - time.monotonic_ns()
        leases = [
            (lease.sequence, entry.recorded_ns - offset_ns + lease.lifetime_ns)
            for entry in entries
            if entry.meta.get("what") != "revocation"
            for lease in (parse_lease(lease_pb2.SignedLease.FromString(entry.body).body),)
            if lease.slot.port == HOST_PORT
        ]
        return max(leases)[1]

    def grant(self, lifetime: str) -> None:
        """Give both agents the limit, in leases of that lifetime."""
        for node in (self.near, self.far):
            name = self.operation.rig.machine(dpu_of(node)).name
            self.operation.weighbridge(
                "leases", "grant", name, "--rate", "1MB/s", "--depth", "64kB", "--lifetime", lifetime
            )

    def kill_agent(self) -> None:
        """SIGKILL, and nobody starts it again."""
        self.agent.run(["kill", f"-{signal.SIGKILL:d}", str(self.agent.supervise("status", AGENT)[0]["pid"])])
        self.agent.supervise("stop", AGENT)

    def cut_management(self, *, cut: bool) -> None:
        """Take the agent's machine off the management network, or put it back."""
        self.agent.run(["ip", "link", "set", "oob_net0", "down" if cut else "up"])

    def wait_until_open(self) -> bool:
        """Return when as much as a second of the rate has come, or a minute has passed: whether it has."""
        began_ns = time.monotonic_ns()
        while self.passed(began_ns, time.monotonic_ns())[0] < RATE:
            if time.monotonic_ns() > began_ns + 60 * NS:
                return False
            time.sleep(0.2)
        return True

    def wait_for_end(self, end_ns: int) -> None:
        """Return two seconds after ``end_ns``."""
        time.sleep(max(0, end_ns - time.monotonic_ns()) / NS + 2)

    def longest_refusal_ns(self, from_ns: int, to_ns: int) -> tuple[int, int]:
        """Return the longest stretch in which the limiter only dropped, by its milliseconds, and how many were told.

        From the first to the last millisecond with a drop, and none between them in which anything passed. Times are
        those of the journal's entries.
        """
        buckets: list[tuple[int, int, int]] = []
        with Journal.open(self.operation.journal, read_only=True) as journal:
            for entry in journal.entries(kinds=[Kind.FRAME], source=self.agent.name, from_ns=from_ns, to_ns=to_ns):
                frame = frame_pb2.Frame.FromString(frame_pb2.SignedFrame.FromString(entry.body).body)
                for reading in frame.limits.limiters:
                    moments, state = reading.moments, reading.state
                    if moments.series and state.traffic_class == TrafficClass.OTHER_POD and state.port == HOST_PORT:
                        buckets += unpack_moments(moments.series, moments.first_bucket, moments.bucket_count)
        longest, first = 0, None
        for index, passed, dropped in buckets:
            if passed:
                first = None
            elif dropped:
                first = index if first is None else first
                longest = max(longest, index - first + 1)
        return longest * 1_000_000, len(buckets)


@contextlib.contextmanager
def scene(folder: Path, limiter: str = "police") -> Iterator[Scene]:
    """Build the rig, agree, deploy, and let the near node send five times the limit; all is gone afterwards."""
    with Rig.up(rigfile.load(rigfile.find("pair")), folder / "rig", name="limits") as rig:
        operation = Operation(rig, folder / "logs")
        site_file = operation.site_file.read_text("utf-8")
        told = re.sub(r"(\n *)(clock_offset_ns: \d+)", rf"\1\2\1limiter: {limiter}", site_file)
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


def listed(operation: Operation, agent: str) -> list[dict[str, str]]:
    """Return what is in force at an agent; nothing while it does not answer."""
    done = operation.weighbridge("leases", "list", "--json", expected=(0, 3))
    return [row for row in json.loads(done.stdout)["limits"] if row["agent"] == agent]
