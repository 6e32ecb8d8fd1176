"""``make bench AREA=limits``: what the policer lets through, what it costs a training step, leases by the thousand.

Windows are those of the receiver: when the far machine's kernel had each frame, not the limiter's own word. All
windows between any two frames are looked at, of any length: the share of the depth that the worst of them used beyond
rate times time. Between limiter and receiver lies a queue of the kernel's, so frames can come closer together than they
passed: ``beyond`` is by how much time that would have to be for the limit to have been kept. Every series begins with a
full bucket, so that the depth itself is tried; goodput is of the rate alone, without it.
"""

from __future__ import annotations

import contextlib
import json
import os
import statistics
import sys
from collections.abc import Iterator

from dpu_agent.limits.order import LimitClass, Limiter
from dpu_agent.limits.police import MAX_DEPTH_BYTES, MAX_RATE_BYTES_PER_S, NONE, Policer
from dpu_agent.limits.shape import Shaper, queue_for
from dpu_agent.meter.layout import ORDER, Shape
from dpu_agent.meter.libbpf import BpfObject, LibBpf
from dpu_agent.meter.maps import OBJECT, ORDERS, PROGRAM
from hil.bench import lease_cases
from hil.bench.figure import Figure, Goal
from hil.bench.limit_closed import closed
from hil.bench.limit_windows import bypasses, order_of, windows
from hil.bench.meter_area import Kernel
from hil.bench.metered_path import DPU, FAR, FAR_ADDRESS, HOST, HOST_ADDRESS, HOST_PORT, UPLINK, MeteredPath
from protos.lease import most_bytes
from protos.units import NS_PER_S

COST_RUNS = 500
LEASES = 10_000
PAIRS = (
    (100_000, 64_000),
    (100_000, 1_000_000),
    (100_000, 150_000_000),
    (1_000_000, 64_000),
    (10_000_000, 150_000_000),
    (10_000_000, 1_000_000),
    (100_000_000, 64_000),
    (100_000_000, 150_000_000),
)
SHAPED_PAIRS = ((1_000_000, 64_000), (10_000_000, 1_000_000))
TCP_PAIRS = ((1_000_000, 64_000), (1_000_000, 250_000), (10_000_000, 64_000), (10_000_000, 1_000_000))
TCP_S = 10
STEP_BYTES = 2_000_000
STEP_RATE = 1_000_000
STEP_DEPTH = 250_000
"""A quarter of a second of the rate: TCP alone over a policer finds its rate from there on."""
_HEADER = b"\x02\x00\x00\x00\x00\x02\x02\x00\x00\x00\x00\x01\x88\xb5"


def figures() -> Iterator[Figure]:
    """Measure everything."""
    yield from _cost()
    with MeteredPath() as path, _policed(path) as policer:
        for rate, depth in PAIRS:
            yield from windows(path, policer, rate, depth)
    with MeteredPath(mtu=1500) as path, _policed(path) as policer:
        yield from bypasses(path, policer)
    with MeteredPath() as path, _shaped(path) as shaper:
        for rate, depth in SHAPED_PAIRS:
            yield from windows(path, shaper, rate, depth)
    with MeteredPath(mtu=1500) as path, _shaped(path) as shaper:
        yield from _tcp(path, shaper, goals=True)
        yield from _all_reduce(path, shaper)
    with MeteredPath() as path, _policed(path):
        yield from _leases(path)
    with MeteredPath(mtu=1500) as path, _policed(path) as policer:
        yield from _tcp(path, policer, goals=False)
        yield from _all_reduce(path, policer)
    yield from closed()


@contextlib.contextmanager
def _policed(path: MeteredPath) -> Iterator[Policer]:
    meters = path.meters()
    with path.inside(DPU):
        policer = Policer([HOST_PORT, UPLINK], bpf_file_system=path.bpf)
    try:
        yield policer
    finally:
        policer.close()
        meters.close()


@contextlib.contextmanager
def _shaped(path: MeteredPath) -> Iterator[Shaper]:
    with _policed(path) as policer:
        with path.inside(DPU):
            shaper = Shaper(policer, {HOST_PORT: [UPLINK], UPLINK: [HOST_PORT]})
        try:
            yield shaper
        finally:
            shaper.close()


# ---------------------------------------------------------------- cost


def _cost() -> Iterator[Figure]:
    """A frame of a class without an order, and of one under an order that passes it and one that drops it, in turn."""
    library, kernel = LibBpf(), Kernel()
    opened = BpfObject(library, OBJECT.read_bytes(), "meter")
    shape = Shape(1_000_000, os.cpu_count() or 1, 8192, at_host_port=True)
    opened.set_constants(shape.constants())
    for name, entries in shape.entries().items():
        opened.resize(name, entries)
    opened.load()
    key = int(LimitClass.OTHER_POD).to_bytes(4, "little")
    cases = {
        "idle": ORDER.pack(0, 0, 0, NONE, NONE, 0, 0),
        "passing": ORDER.pack(1, MAX_RATE_BYTES_PER_S, MAX_DEPTH_BYTES, NONE, NONE, 0, 0),
        "dropping": ORDER.pack(1, 0, 0, NONE, NONE, 0, 0),
    }
    found: dict[str, list[int]] = {name: [] for name in cases}
    frame = _HEADER + bytes(1_500)
    try:
        for _ in range(COST_RUNS):
            for name, order in cases.items():
                library.update_locked(opened.map(ORDERS), key, order)
                found[name].append(kernel.test_run(opened.program(PROGRAM), frame))
    finally:
        opened.close()
    idle = statistics.median(found["idle"])
    for name, taken in found.items():
        goal = 100 if name == "idle" else None
        note = f"meter and policer, {COST_RUNS} test runs of 1000 repeats; {statistics.median(taken) - idle:+} to idle"
        yield Figure(f"limits.police.ns_per_packet.{name}", statistics.median(taken), "ns", goal, note=note)


# ---------------------------------------------------------------- TCP, and a training step


def _tcp(path: MeteredPath, limiter: Limiter, goals: bool) -> Iterator[Figure]:
    """One connection, long enough that the depth it begins with does not count."""
    for rate, depth in TCP_PAIRS:
        with path.inside(DPU):
            order_of(limiter, rate, depth)
        # A policer alone may take half a minute for what it lets through in a second.
        size, listen = (TCP_S if goals else 1) * rate, f"{FAR_ADDRESS}:9000"
        generator = [sys.executable, "-m", "hil.traffic.transfer"]
        receiver = path.start(FAR, [*generator, "receive", "--listen", listen])
        sender = path.start(HOST, [*generator, "send", "--target", listen, "--bytes", f"{size}B", "--within", "3m"])
        said = json.loads(sender.communicate(timeout=240)[0])
        receiver.communicate(timeout=60)
        took_s = (int(said["end_ns"]) - int(said["start_ns"])) / NS_PER_S
        goodput = (size - depth if goals else size) / took_s / rate
        first = " without the first depth" if goals else ""
        note = f"payload of one connection{first}; frames of 1514 B carry 1448, so 0.956 at most for ever"
        goal = 0.8 if goals else None
        yield Figure(f"limits.{limiter.name}.tcp_goodput.{rate}Bps.{depth}B", goodput, "1", goal, Goal.AT_LEAST, note)


def _all_reduce(path: MeteredPath, limiter: Limiter) -> Iterator[Figure]:
    """A step of a fixed size between two nodes, without a limit and under it; and what arithmetic says of the latter.

    Each rank sends and receives 2 (N-1)/N of the vector, here all of it once, 1448 bytes in a frame of 1514.
    """
    ports = (HOST_PORT, UPLINK)
    with path.inside(DPU):
        order_of(limiter, MAX_RATE_BYTES_PER_S, 1 << 30, ports)
    free_s = _step_s(path)
    with path.inside(DPU):
        order_of(limiter, STEP_RATE, STEP_DEPTH, ports)
    limited_s = _step_s(path)
    on_wire = STEP_BYTES * 1514 / 1448
    at_once = STEP_DEPTH
    if limiter.name == Shaper.name:
        # What waits in the queue leaves at the rate.
        at_once = most_bytes(STEP_RATE, 0, queue_for(STEP_RATE, STEP_DEPTH).burst_ns)
    predicted_s = (on_wire - at_once) / STEP_RATE
    name = f"limits.{limiter.name}.all_reduce"
    yield Figure(f"{name}.step.free", free_s, "s", note=f"{STEP_BYTES} B between two nodes")
    yield Figure(f"{name}.step.limited", limited_s, "s", note="at 1 MB/s each way")
    note = f"times slower under 1 MB/s; arithmetic predicts {predicted_s / free_s:.0f}"
    yield Figure(f"{name}.slowdown", limited_s / free_s, "1", note=note)
    note = "of the time that arithmetic predicts: no less, or the limit did not hold"
    yield Figure(f"{name}.against_arithmetic", limited_s / predicted_s, "1", 0.95, Goal.AT_LEAST, note)


def _step_s(path: MeteredPath) -> float:
    ring = f"{HOST_ADDRESS}:9100,{FAR_ADDRESS}:9100"
    command = [sys.executable, "-m", "hil.traffic.allreduce", "--ring", ring, "--bytes", f"{STEP_BYTES}B"]
    command += ["--for", "10m", "--iterations", "1"]
    ranks = [path.start(place, [*command, "--rank", str(rank)]) for rank, place in enumerate((HOST, FAR))]
    said = [json.loads(rank.communicate(timeout=600)[0]) for rank in ranks]
    return float(max(each["detail"]["median_iteration_ns"] for each in said)) / NS_PER_S


# ---------------------------------------------------------------- leases


def _leases(path: MeteredPath) -> Iterator[Figure]:
    found = lease_cases.run(path, LEASES)
    yield Figure("limits.lease.apply.median", found.median_ns, "ns", note=f"{LEASES} leases, on the disk and in force")
    yield Figure("limits.lease.apply.p99", found.p99_ns, "ns")
    yield Figure("limits.lease.not_read_back", found.not_read_back, "1", 0)
    yield Figure("limits.lease.memory_grown", found.grown_bytes, "B", 1 << 20, note="over the last nine tenths")
    yield Figure("limits.lease.files_grown", found.grown_files, "1", 0)
    for reason, told in lease_cases.forgeries(path).items():
        note = "told in the next frame's refusals, under that name, and nothing in force"
        yield Figure(f"limits.refused.{reason}", told, "1", 1, Goal.EXACTLY, note)
