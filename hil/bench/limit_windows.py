"""Floods through a limiter, and what of them came: windows of every length, and everything that a host may try."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from controller.crosscheck.enforcement import WindowScan
from dpu_agent.limits.order import LimitClass, Limiter, Moments, Order, Passed
from dpu_agent.limits.police import MAX_RATE_BYTES_PER_S
from hil.bench.figure import Figure, Goal
from hil.bench.metered_path import DPU, FAR, FAR_ADDRESS, HOST, HOST_PORT, MeteredPath
from hil.traffic.flood import stamps_of
from protos.lease import most_bytes
from protos.units import NS_PER_S

FLOOD_NS = 2 * NS_PER_S
QUEUE_NS = 100_000
"""A frame waits so long in the kernel's queue to the far end at most, on a machine that is not overloaded."""
BYPASS = 200_000, 64_000
BYPASSES = (
    ("udp", 1_000, False),
    ("tcp", 1_514, False),
    ("raw", 1_000, False),
    ("vlan", 1_000, False),
    ("two-tags", 1_000, False),
    ("ipv6", 1_000, False),
    ("multicast", 1_000, False),
    ("fragments", 1_000, False),
    ("flows", 1_000, False),
    ("udp", 1_000, True),
    ("raw", 1_000, True),
    ("udp", 60, False),
    ("raw", 60, True),
)
_HEADER = b"\x02\x00\x00\x00\x00\x02\x02\x00\x00\x00\x00\x01\x88\xb5"


def order_of(limiter: Limiter, rate: int, depth: int, ports: Sequence[str] = (HOST_PORT,)) -> None:
    """Put another pair in force; nobody's lease."""
    limiter.prove()
    limiter.apply([Order(port, LimitClass.OTHER_POD, rate, depth, None, None, 0, 0) for port in ports])


def windows(path: MeteredPath, limiter: Limiter, rate: int, depth: int) -> Iterator[Figure]:
    """A greedy UDP sender against one pair of rate and depth; longer where a frame more or less would show."""
    slow = depth >= 100 * rate
    length = 1_000 if rate <= 1_000_000 and not slow else 8_900
    for_ns = 3 * FLOOD_NS if slow else FLOOD_NS
    _fill(path, limiter, depth)
    with path.inside(DPU):
        order_of(limiter, rate, depth)
        before = _passed(limiter)
    offered = 2 * rate + depth * NS_PER_S // FLOOD_NS
    with _drained(limiter) as moments:
        flooded = flood(path, length=length, rate=offered, kind="udp", for_ns=for_ns)
    with path.inside(DPU):
        after = _passed(limiter)
    passed = after.passed_bytes - before.passed_bytes
    name = f"limits.{limiter.name}.{rate}Bps.{depth}B"
    scan = WindowScan(rate, moments[0].width_ns)
    buckets = [bucket for each in moments for bucket in each.buckets]
    for index, came, _ in buckets:
        scan.take(index, came)
    placed = sum(came for _, came, _ in buckets)
    note = f"of the depth, by the policer's milliseconds, which hold {placed / passed:.6f} of what passed"
    yield Figure(f"{name}.worst_window.buckets", float(scan.beyond) / depth, "1", 1, note=note)
    times = sorted(flooded.stamps)
    worst = _worst(times, length, rate)
    note = f"of the depth, by the receiver: {len(times)} frames heard of {passed // length} passed"
    yield Figure(f"{name}.worst_window.receiver", worst / depth, "1", note=note)
    yield Figure(f"{name}.beyond", max(0, round((worst - depth) * NS_PER_S / rate)), "ns", QUEUE_NS)
    goodput = (passed - depth) / (rate * flooded.took_ns / NS_PER_S)
    note = f"{flooded.sent_bytes / 1e6:.1f} MB offered; once the full bucket is used up"
    yield Figure(f"{name}.goodput", goodput, "1", 0.95, Goal.AT_LEAST, note)


@contextlib.contextmanager
def _drained(limiter: Limiter) -> Iterator[list[Moments]]:
    """Drain the limiter's milliseconds twice a second, as an agent does for its frames; what came is in the list."""
    found: list[Moments] = []
    stop = threading.Event()

    def drain() -> None:
        limiter.drain()
        while not stop.wait(0.5):
            found.extend(each for each in limiter.drain() if each.port == HOST_PORT)

    draining = threading.Thread(target=drain)
    draining.start()
    try:
        yield found
    finally:
        time.sleep(0.02)
        stop.set()
        draining.join()
        found.extend(each for each in limiter.drain() if each.port == HOST_PORT)


@dataclass(frozen=True)
class Flooded:
    """What a flood did: bytes offered, for how long, and when the far machine's kernel had each frame."""

    sent_bytes: int
    took_ns: int
    stamps: Sequence[int]


def flood(
    path: MeteredPath,
    *,
    length: int,
    rate: int,
    kind: str = "raw",
    bypass: bool = False,
    for_ns: int = FLOOD_NS,
) -> Flooded:
    """Send frames of a kind from host to far end at ``rate``, by a process of its own; another one listens."""
    stamps = path.folder / "stamps"
    tool = [sys.executable, "-m", "hil.traffic.flood"]
    size = ["--device", "eth0", "--length", str(length)]
    hearing = [*tool, "receive", *size, "--for", f"{for_ns // 1_000_000 + 2_000}ms", "--stamps", str(stamps)]
    sending = [*tool, "send", *size, "--for", f"{for_ns // 1_000_000}ms", "--rate", f"{rate}B/s", "--kind", kind]
    listener = path.start(FAR, hearing, stderr=subprocess.PIPE)
    if listener.stderr is not None:
        listener.stderr.readline()
    sender = path.start(HOST, [*sending, "--realtime", *(["--bypass"] if bypass else [])])
    said = json.loads(sender.communicate(timeout=60)[0])
    listener.communicate(timeout=60)
    took_ns = int(said["end_ns"]) - int(said["start_ns"])
    return Flooded(int(said["bytes_sent"]), took_ns, stamps_of(stamps))


# ---------------------------------------------------------------- what a host may try


def bypasses(path: MeteredPath, limiter: Limiter) -> Iterator[Figure]:
    """Return every kind of traffic against the same limit; what came is what the far machine counted."""
    rate, depth = BYPASS
    for kind, length, bypass in BYPASSES:
        with path.inside(DPU):
            order_of(limiter, rate, depth)
        if kind == "tcp":
            before, began_ns = path.counters(FAR, "eth0")["rx_bytes"], time.monotonic_ns()
            offered = _connections(path, began_ns)
            took_ns = time.monotonic_ns() - began_ns
            came = path.counters(FAR, "eth0")["rx_bytes"] - before
        else:
            flooded = flood(path, length=length, rate=20 * rate, kind=kind, bypass=bypass)
            offered, took_ns, came = flooded.sent_bytes, flooded.took_ns, len(flooded.stamps) * length
        name = f"limits.bypass.{kind}" + (".past_the_queue" if bypass else "") + ("" if length > 60 else ".smallest")
        note = f"{came} B came of {offered} B in frames of {length} B, against {rate} B/s and {depth} B"
        yield Figure(name, came / most_bytes(rate, depth, took_ns), "1", 1, note=note)


def _connections(path: MeteredPath, began_ns: int) -> int:
    """Eight TCP connections at once, until the time is over; return what they sent."""
    tool = [sys.executable, "-m", "hil.traffic.transfer"]
    sent = 0
    while time.monotonic_ns() - began_ns < FLOOD_NS:
        pairs = []
        for number in range(8):
            address = f"{FAR_ADDRESS}:{9_200 + number}"
            pairs.append(path.start(FAR, [*tool, "receive", "--listen", address]))
            pairs.append(path.start(HOST, [*tool, "send", "--target", address, "--bytes", "100kB"]))
        for each in pairs:
            each.communicate(timeout=120)
        sent += 800_000
    return sent


def _fill(path: MeteredPath, limiter: Limiter, depth: int) -> None:
    """Leave a full bucket: a new order takes over its tokens. Two small frames of another kind, which nobody hears."""
    with path.inside(DPU):
        order_of(limiter, MAX_RATE_BYTES_PER_S, depth)
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


def _passed(limiter: Limiter) -> Passed:
    return next(
        each for each in limiter.prove() if (each.port, each.traffic_class) == (HOST_PORT, LimitClass.OTHER_POD)
    )
