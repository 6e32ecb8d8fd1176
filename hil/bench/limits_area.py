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
import socket
import statistics
import struct
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from dpu_agent.limits.order import LimitClass, Order
from dpu_agent.limits.police import MAX_DEPTH_BYTES, MAX_RATE_BYTES_PER_S, NONE, Policer
from dpu_agent.meter.layout import ORDER, Shape
from dpu_agent.meter.libbpf import BpfObject, LibBpf
from dpu_agent.meter.maps import OBJECT, ORDERS, PROGRAM
from hil.bench import lease_cases
from hil.bench.figure import Figure, Goal
from hil.bench.meter_area import Kernel
from hil.bench.metered_path import DPU, FAR, FAR_ADDRESS, HOST, HOST_ADDRESS, HOST_PORT, UPLINK, MeteredPath
from protos.units import NS_PER_S

COST_RUNS = 500
LEASES = 10_000
PAIRS = (
    (100_000, 64_000),
    (100_000, 1_000_000),
    (1_000_000, 64_000),
    (10_000_000, 150_000_000),
    (10_000_000, 1_000_000),
    (100_000_000, 64_000),
    (100_000_000, 150_000_000),
)
FLOOD_S = 2.0
QUEUE_NS = 100_000
"""A frame waits so long in the kernel's queue to the far end at most, on a machine that is not overloaded."""
PAUSE_NS = 2_000_000
SMOOTH_BYTES_PER_S = 100_000_000
"""From here on the sender does not pause between bursts: its pauses would be longer than the bucket is deep."""
TCP_PAIRS = ((1_000_000, 64_000), (1_000_000, 250_000), (10_000_000, 2_500_000))
TCP_S = 3
STEP_BYTES = 2_000_000
STEP_RATE = 1_000_000
STEP_DEPTH = 250_000
"""A quarter of a second of the rate: TCP alone over a policer finds its rate from there on."""
_HEADER = b"\x02\x00\x00\x00\x00\x02\x02\x00\x00\x00\x00\x01\x88\xb5"
_SO_TIMESTAMPNS = 35
_STAMP = struct.Struct("=qq")
_RECEIVE_BUFFER = 64 << 20
_SO_RCVBUFFORCE = 33


def figures() -> Iterator[Figure]:
    """Measure everything."""
    yield from _cost()
    with MeteredPath() as path, _policed(path) as policer:
        for rate, depth in PAIRS:
            yield from _windows(path, policer, rate, depth)
    with MeteredPath() as path, _policed(path):
        yield from _leases(path)
    with MeteredPath(mtu=1500) as path, _policed(path) as policer:
        yield from _tcp(path, policer)
        yield from _all_reduce(path, policer)


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


def _order(policer: Policer, rate: int, depth: int, ports: Sequence[str] = (HOST_PORT,)) -> None:
    policer.prove()
    policer.apply([Order(port, LimitClass.OTHER_POD, rate, depth, None, None, 0, 0) for port in ports])


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


# ---------------------------------------------------------------- windows


@dataclass
class _Listener:
    """Takes in when the far machine had each frame, and how many bytes it had."""

    frames: list[tuple[int, int]]
    lost: int = 0

    def take(self, receiver: socket.socket, stop: threading.Event) -> None:
        receiver.settimeout(0.1)
        while not stop.is_set():
            with contextlib.suppress(TimeoutError):
                data, extra, _, _ = receiver.recvmsg(64, 64, socket.MSG_TRUNC)
                size = len(data)
                for level, kind, content in extra:
                    if level == socket.SOL_SOCKET and kind == _SO_TIMESTAMPNS:
                        seconds, nanoseconds = _STAMP.unpack(content[:16])
                        self.frames.append((seconds * NS_PER_S + nanoseconds, size))


def _windows(path: MeteredPath, policer: Policer, rate: int, depth: int) -> Iterator[Figure]:
    payload = 1_000 if rate <= 1_000_000 else 8_900
    frame = _HEADER + bytes(payload - len(_HEADER))
    with path.inside(FAR):
        receiver = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x88B5))
        receiver.bind(("eth0", 0x88B5))
    receiver.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
    receiver.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, _RECEIVE_BUFFER)
    heard, stop = _Listener([]), threading.Event()
    listening = threading.Thread(target=heard.take, args=(receiver, stop), daemon=True)
    listening.start()
    _fill(path, policer, depth)
    _order(policer, rate, depth)
    before = _passed(policer)
    began_ns = time.monotonic_ns()
    with path.raw_socket() as sender:
        while time.monotonic_ns() - began_ns < FLOOD_S * NS_PER_S:
            for _ in range(20):
                sender.send(frame)
            if rate < SMOOTH_BYTES_PER_S:
                time.sleep(0.0005)
    took_ns = time.monotonic_ns() - began_ns
    time.sleep(0.3)
    stop.set()
    listening.join()
    receiver.close()
    passed = _passed(policer) - before
    name = f"limits.police.{rate}Bps.{depth}B"
    times = sorted(at for at, _ in heard.frames)
    note = f"{len(times)} frames heard of {passed // payload} passed"
    worst = _worst(times, payload, rate)
    yield Figure(f"{name}.worst_window", worst / depth, "1", note=note)
    yield Figure(f"{name}.beyond", max(0, round((worst - depth) * NS_PER_S / rate)), "ns", QUEUE_NS)
    goodput = (passed - depth) / (rate * took_ns / NS_PER_S)
    if depth * NS_PER_S < PAUSE_NS * rate:
        yield Figure(f"{name}.goodput", goodput, "1", note="the sender's own pauses are longer than the bucket is deep")
    else:
        yield Figure(f"{name}.goodput", goodput, "1", 0.95, Goal.AT_LEAST, "greedy, once the full bucket is used up")


def _fill(path: MeteredPath, policer: Policer, depth: int) -> None:
    """Leave a full bucket: a new order takes over its tokens. Two small frames of another kind, which nobody hears."""
    _order(policer, MAX_RATE_BYTES_PER_S, depth)
    with path.raw_socket() as sender:
        for _ in range(2):
            sender.send(_HEADER[:-1] + b"\xb6" + bytes(46))
            time.sleep(0.01)


def _worst(times: Sequence[int], size: int, rate: int) -> float:
    """Return the most bytes of any window beyond what its length gives: a maximum-subarray scan."""
    least, worst = float("inf"), 0.0
    for number, at in enumerate(times):
        least = min(least, number * size - rate * at / NS_PER_S)
        worst = max(worst, (number + 1) * size - rate * at / NS_PER_S - least)
    return worst


def _passed(policer: Policer) -> int:
    return next(
        each.passed_bytes
        for each in policer.prove()
        if (each.port, each.traffic_class) == (HOST_PORT, LimitClass.OTHER_POD)
    )


# ---------------------------------------------------------------- TCP, and a training step


def _tcp(path: MeteredPath, policer: Policer) -> Iterator[Figure]:
    for rate, depth in TCP_PAIRS:
        _order(policer, rate, depth)
        size, listen = TCP_S * rate, f"{FAR_ADDRESS}:9000"
        generator = [sys.executable, "-m", "hil.traffic.transfer"]
        receiver = path.start(FAR, [*generator, "receive", "--listen", listen])
        sender = path.start(HOST, [*generator, "send", "--target", listen, "--bytes", f"{size}B"])
        said = json.loads(sender.communicate(timeout=120)[0])
        receiver.communicate(timeout=60)
        took_s = (int(said["end_ns"]) - int(said["start_ns"])) / NS_PER_S
        note = "one TCP connection, dropped and not delayed: a bucket of a quarter second serves it best"
        goal = 0.8 if depth * 4 >= rate else None
        yield Figure(
            f"limits.police.tcp_goodput.{rate}Bps.{depth}B", size / took_s / rate, "1", goal, Goal.AT_LEAST, note
        )


def _all_reduce(path: MeteredPath, policer: Policer) -> Iterator[Figure]:
    """A step of a fixed size between two nodes, without a limit and under it; and what arithmetic says of the latter.

    Each rank sends and receives 2 (N-1)/N of the vector, here all of it once, 1448 bytes in a frame of 1514.
    """
    ports = (HOST_PORT, UPLINK)
    _order(policer, MAX_RATE_BYTES_PER_S, 1 << 30, ports)
    free_s = _step_s(path)
    _order(policer, STEP_RATE, STEP_DEPTH, ports)
    limited_s = _step_s(path)
    policer.prove()
    on_wire = STEP_BYTES * 1514 / 1448
    predicted_s = (on_wire - STEP_DEPTH) / STEP_RATE
    yield Figure("limits.all_reduce.step.free", free_s, "s", note=f"{STEP_BYTES} B between two nodes")
    yield Figure("limits.all_reduce.step.limited", limited_s, "s", note="at 1 MB/s each way")
    note = f"times slower under 1 MB/s; arithmetic predicts {predicted_s / free_s:.0f}"
    yield Figure("limits.all_reduce.slowdown", limited_s / free_s, "1", note=note)
    yield Figure("limits.all_reduce.against_arithmetic", limited_s / predicted_s, "1", 0.95, Goal.AT_LEAST)


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
