"""Figures of the whole agent with its meters: frame sizes, share of a core and memory, idle and under load."""

from __future__ import annotations

import ipaddress
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from controller.pki import Role, create_ca, issue_certificate
from dpu_agent.classtable import VERSION, ClassTables
from dpu_agent.config import SpoolLimits
from dpu_agent.disk import Disk
from dpu_agent.frames import losses_in
from dpu_agent.home import SPOOL
from dpu_agent.spool import Spool
from hil.bench.figure import Figure
from hil.bench.metered_path import DPU, FAR, FAR_ADDRESS, HOST, HOST_ADDRESS, HOST_PORT, UPLINK, MeteredPath
from protos.buckets import TrafficClass
from protos.signing import SigningDomain, sign
from protos.v1 import agent_pb2, frame_pb2, meter_pb2
from protos.wire import meter_reading, parse_signed_frame

_ENTRIES = [
    meter_pb2.ClassEntry(network=ipaddress.ip_address(address).packed, prefix_length=32, traffic_class=kind, peer=peer)
    for address, kind, peer in (
        (HOST_ADDRESS, TrafficClass.SAME_POD, "node1"),
        (FAR_ADDRESS, TrafficClass.OTHER_POD, "node2"),
    )
]
_MEASURED_S = 8
_INFERENCE_BYTES_PER_S = 30_000
"""What a node serving one model sends, as the report beside the project measures it."""


def agent_figures() -> Iterator[Figure]:
    """Run the real agent on a path: idle, then a trickle as of inference, then saturated."""
    with MeteredPath(mtu=1500) as path:
        process = _start(path)
        try:
            time.sleep(3)
            idle = _measure(process.pid, [])
            inference = _measure(process.pid, _sender(path, ["--rate", f"{_INFERENCE_BYTES_PER_S}B/s"]))
            loaded = _measure(process.pid, _sender(path, []))
            rested = _measure(process.pid, [])
            resident = _resident(process.pid)
        finally:
            process.terminate()
            process.communicate(timeout=20)
        sizes = _sizes(path, [idle[1], inference[1], loaded[1], rested[1]])
    # No goal is stated for the last: large counters are long numbers.
    names = (("idle", 400), ("inference", 1_000), ("saturated", 6_000), ("idle_after_load", None))
    for (name, goal), (whole, meters, rate) in zip(names, sizes, strict=True):
        said = (
            "median signed frame, one port pair, one second, a class table in force; "
            f"{rate / 1e6:.3f} MB/s; meters' part {meters} B"
        )
        yield Figure(f"meter.frame_size.{name}", whole, "B", goal, note=said)
    cores = os.cpu_count() or 1
    yield Figure(
        "meter.agent_cpu.idle", round(idle[0] * 100, 2), "% of a core", 2, note=f"{_MEASURED_S} s, {cores} cores"
    )
    yield Figure(
        "meter.agent_cpu.saturated",
        round(loaded[0] * 100, 2),
        "% of a core",
        2,
        note="while the path carries all it can",
    )
    yield Figure("meter.agent_resident", round(resident / 1e6, 1), "MB", 80, note="VmRSS after the load, ring mapped")


def _start(path: MeteredPath) -> subprocess.Popen[str]:
    folder = path.folder / "agent"
    folder.mkdir()
    authority = create_ca("bench")
    own = issue_certificate(authority, Role.AGENT, "dpu0", "127.0.0.1")
    (folder / "ca.pem").write_bytes(authority.certificate.public_bytes(serialization.Encoding.PEM))
    (folder / "agent.pem").write_bytes(own.certificate_pem)
    (folder / "agent.key").write_bytes(own.key_pem)
    (folder / "agent.key").chmod(0o600)
    verifier = Ed25519PrivateKey.generate()
    (folder / "state").mkdir(mode=0o700)
    tables = ClassTables(
        Disk(), folder / "state", agent="dpu0", verifier=(public := verifier.public_key().public_bytes_raw())
    )
    body = meter_pb2.ClassTable(version=VERSION, sequence=1, agent="dpu0", entries=_ENTRIES).SerializeToString()
    signature = sign(verifier, SigningDomain.CLASS_TABLE, body)
    tables.accept(agent_pb2.SignedClassTable(body=body, signature=signature).SerializeToString())
    config = {
        "agent": "dpu0",
        "listen": "127.0.0.1:7443",
        "ca": "ca.pem",
        "certificate": "agent.pem",
        "key": "agent.key",
        "state_directory": "state",
        "verifier_public_key": public.hex(),
        "ports": [{"name": HOST_PORT, "role": "host_port"}, {"name": UPLINK, "role": "uplink"}],
    }
    (folder / "agent.json").write_text(json.dumps(config), encoding="utf-8")
    return path.start(DPU, [sys.executable, "-m", "dpu_agent.cli", "run", "--config", str(folder / "agent.json")])


def _sender(path: MeteredPath, options: list[str]) -> list[subprocess.Popen[str]]:
    module = [sys.executable, "-m", "hil.traffic.transfer"]
    size = "100GB" if not options else "100MB"
    receiver = path.start(FAR, [*module, "receive", "--listen", f"{FAR_ADDRESS}:9000", "--within", "100s"])
    return [receiver, path.start(HOST, [*module, "send", "--target", f"{FAR_ADDRESS}:9000", "--bytes", size, *options])]


def _measure(pid: int, traffic: list[subprocess.Popen[str]]) -> tuple[float, tuple[int, int]]:
    """Return the agent's share of a core while ``traffic`` runs, and the span of monotonic time."""
    time.sleep(1)
    begin, before = time.monotonic_ns(), _cpu_s(pid)
    time.sleep(_MEASURED_S)
    end, after = time.monotonic_ns(), _cpu_s(pid)
    for process in traffic:
        process.kill()
        process.communicate()
    return (after - before) / ((end - begin) / 1e9), (begin, end)


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _resident(pid: int) -> int:
    line = next(
        x for x in Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines() if x.startswith("VmRSS")
    )
    return int(line.split()[1]) * 1024


def _sizes(path: MeteredPath, spans: list[tuple[int, int]]) -> list[tuple[int, int, float]]:
    """Return, for each span, the median frame, its meters' part, and the mean rate of the host port."""
    spool, _ = Spool.open(
        Disk(),
        path.folder / "agent" / "state" / SPOOL,
        max_bytes=SpoolLimits().max_bytes,
        acknowledged=0,
        losses_in=losses_in,
    )
    stored = [signed for _, signed in spool.read_after(0, 1_000)]
    spool.close()
    found = []
    for begin, end in spans:
        sizes, parts, moved = [], [], 0
        for signed in stored:
            frame = parse_signed_frame(signed)[1]
            if begin + 10**9 < frame.clock.monotonic_ns <= end:
                sizes.append(len(signed))
                parts.append(_meters_part(signed))
                moved += next(meter_reading(m).moved.wire_bytes for m in frame.meters if m.port == HOST_PORT)
        found.append((sorted(sizes)[len(sizes) // 2], sorted(parts)[len(parts) // 2], moved / len(sizes)))
    return found


def _meters_part(signed: bytes) -> int:
    """What of a frame's bytes as they were signed the meters are."""
    frame = frame_pb2.Frame.FromString(frame_pb2.SignedFrame.FromString(signed).body)
    whole = frame.ByteSize()
    frame.ClearField("meters")
    return whole - frame.ByteSize()
