"""Figures of the in-kernel meter: exactness, resolution, cost, frame size. Needs root: it builds a path of its own."""

from __future__ import annotations

import ctypes
import http.client
import json
import os
import platform
import random
import shutil
import socket
import statistics
import struct
import sys
import threading
import time
from collections.abc import Iterator

from dpu_agent.meter import attach
from dpu_agent.meter.layout import Shape
from dpu_agent.meter.libbpf import BpfObject, LibBpf
from dpu_agent.meter.maps import OBJECT, PROGRAM
from hil.bench.figure import Figure, Goal
from hil.bench.meter_agent import agent_figures
from hil.bench.meter_mixes import frames
from hil.bench.metered_path import DPU, FAR, FAR_ADDRESS, HOST, HOST_PORT, UPLINK, MeteredPath
from protos.buckets import summed

MIXES = 10
RUNS, REPEATS = 1_000, 1_000
MS = 1_000_000
_SOURCE, _TARGET = bytes.fromhex("020000000001"), bytes.fromhex("020000000002")


def figures() -> Iterator[Figure]:
    """Measure everything, in order of how long it takes."""
    yield from cost()
    yield from exactness()
    yield from throughput()
    yield from resolution()
    yield from agent_figures()


# ---------------------------------------------------------------- exactness


def exactness() -> Iterator[Figure]:
    """Ten mixes: raw against the ingress port's counter, wire against the far port's, buckets against totals."""
    raw = wire = unplaced = lost = moved = segments = offloaded = 0
    for seed in range(MIXES):
        offloads = seed % 2 == 1
        with MeteredPath(mtu=1500 if seed % 4 == 1 else 9000, offloads=offloads) as path:
            meters = path.meters()
            try:
                path.read(meters, 1)
                near, far = path.counters(DPU, HOST_PORT), path.counters(FAR, "eth0")
                _mix(path, seed, offloads=offloads)
                reading = path.read(meters, 2)[HOST_PORT]
                near_after, far_after = path.counters(DPU, HOST_PORT), path.counters(FAR, "eth0")
            finally:
                meters.close()
        raw += abs(reading.moved.raw_bytes - (near_after["rx_bytes"] - near["rx_bytes"]))
        wire += abs(reading.moved.wire_bytes - (far_after["rx_bytes"] - far["rx_bytes"]))
        unplaced += (reading.moved - summed(reading.buckets)).wire_bytes
        lost += reading.lost_buckets
        moved += reading.moved.wire_bytes
        segments += reading.moved.segments
        offloaded += reading.moved.wire_bytes - reading.moved.raw_bytes
    said = f"{MIXES} random mixes, {moved} B in {segments} frames, {offloaded} B of them headers of offloaded segments"
    yield Figure("meter.exactness.raw_against_ingress_port", raw, "B", 0, Goal.EXACTLY, said)
    yield Figure("meter.exactness.wire_against_far_port", wire, "B", 0, Goal.EXACTLY, said)
    yield Figure("meter.exactness.totals_less_buckets", unplaced, "B", 0, Goal.EXACTLY, said)
    yield Figure("meter.exactness.lost_buckets", lost, "1", 0, Goal.EXACTLY)


def _mix(path: MeteredPath, seed: int, *, offloads: bool) -> None:
    rng = random.Random(seed)
    largest = 1514 if offloads and seed % 4 == 1 else 9000
    with path.raw_socket() as sender:
        for number, frame in enumerate(frames(seed, 1500, largest=largest, source=_SOURCE, target=_TARGET)):
            sender.send(frame)
            if number % 50 == 49:
                time.sleep(0.001)
    with path.inside(FAR):
        server = socket.create_server((FAR_ADDRESS, 5001))
    for _ in range(rng.randint(1, 4)):
        with path.inside(HOST):
            client = socket.create_connection((FAR_ADDRESS, 5001))
        peer, _address = server.accept()
        for _turn in range(rng.randint(1, 30)):
            size = rng.randint(1, 60_000)
            client.sendall(bytes(size))
            while size:
                size -= len(peer.recv(size))
        client.close()
        peer.close()
    server.close()
    time.sleep(0.1)


# ---------------------------------------------------------------- cost


# Two instructions: put TC_ACT_UNSPEC into the result and leave.
_RETURN_UNSPEC = struct.pack("=BBhiBBhi", 0xB7, 0, 0, -1, 0x95, 0, 0, 0)
_BPF_CALL = {"x86_64": 321, "aarch64": 280}


class Kernel:
    """The few bpf(2) calls that libbpf's two generations do not share."""

    def __init__(self) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)

    def _call(self, command: int, attributes: ctypes.Array[ctypes.c_char]) -> int:
        result: int = self._libc.syscall(_BPF_CALL[platform.machine()], command, attributes, len(attributes))
        if result < 0:
            raise OSError(ctypes.get_errno(), f"bpf({command})")
        return result

    def empty_program(self) -> int:
        """Load ``return TC_ACT_UNSPEC``: what a test run costs without a meter."""
        return self._load(_RETURN_UNSPEC)

    def _load(self, instructions: bytes) -> int:
        code = ctypes.create_string_buffer(instructions, len(instructions))
        licence = ctypes.create_string_buffer(b"GPL")
        attributes = ctypes.create_string_buffer(
            struct.pack("=IIQQ", 3, len(instructions) // 8, ctypes.addressof(code), ctypes.addressof(licence)), 72
        )
        return self._call(5, attributes)

    def clock_program(self) -> int:
        """Load the same behind one call of ``bpf_ktime_get_ns``, which a meter cannot do without."""
        call = struct.pack("=BBhi", 0x85, 0, 0, 5)
        return self._load(call + _RETURN_UNSPEC)

    def test_run(self, program: int, frame: bytes, *, repeats: int = REPEATS) -> int:
        """Return the mean duration of a run, ns, over ``repeats`` runs in the kernel."""
        data = ctypes.create_string_buffer(frame, len(frame))
        attributes = ctypes.create_string_buffer(
            struct.pack("=IIIIQQII", program, 0, len(frame), 0, ctypes.addressof(data), 0, repeats, 0), 80
        )
        self._call(10, attributes)
        return int(struct.unpack_from("=I", attributes, 36)[0])


def cost() -> Iterator[Figure]:
    """Per packet: 1,000 test runs of 1,000 repeats, in turn with an empty program, so that both see the same noise."""
    kernel, library = Kernel(), LibBpf()
    opened = BpfObject(library, OBJECT.read_bytes(), "meter")
    shape = Shape(MS, os.cpu_count() or 1, 8192, at_host_port=True)
    opened.set_constants(shape.constants())
    for name, entries in shape.entries().items():
        opened.resize(name, entries)
    opened.load()
    meter, empty, clock = opened.program(PROGRAM), kernel.empty_program(), kernel.clock_program()
    frame = _TARGET + _SOURCE + bytes.fromhex("0800450005dc00000000400600000a4d00010a4d0002") + bytes(1480)
    try:
        with_meter, without, clocks = [], [], []
        for _ in range(RUNS):
            with_meter.append(kernel.test_run(meter, frame))
            without.append(kernel.test_run(empty, frame))
            clocks.append(kernel.test_run(clock, frame))
    finally:
        os.close(empty)
        os.close(clock)
        opened.close()
    net = sorted(a - b for a, b in zip(with_meter, without, strict=True))
    said = (
        f"{RUNS} test runs of {REPEATS} repeats, IPv4 TCP of 1514 B; an empty program {statistics.median(without)} ns"
    )
    read = statistics.median(a - b for a, b in zip(clocks, without, strict=True))
    yield Figure("meter.ns_per_packet.median", statistics.median(with_meter), "ns", 100, note=said)
    yield Figure("meter.ns_per_packet.p99", _p99(with_meter), "ns", note=f"empty program {_p99(without)} ns")
    yield Figure(
        "meter.ns_per_packet_net_of_empty.median",
        statistics.median(net),
        "ns",
        note=f"in pairs, same run; reading the clock alone is {read} ns of it",
    )


def _p99(values: list[int]) -> int:
    return sorted(values)[len(values) * 99 // 100]


def throughput() -> Iterator[Figure]:
    """TCP through the path, MTU 1500, offloads off: with and without the meter in turn."""
    found: dict[bool, list[float]] = {True: [], False: []}
    with MeteredPath(mtu=1500) as path:
        for turn in range(6):
            for metered in (True, False) if turn % 2 else (False, True):
                meters = path.meters() if metered else None
                if not metered:
                    _detach(path)
                try:
                    found[metered].append(_transfer(path, 300_000_000))
                finally:
                    if meters is not None:
                        meters.close()
    with_meter, without = statistics.median(found[True]), statistics.median(found[False])
    yield Figure("meter.throughput.with", round(with_meter / 1e6), "MB/s", note="median of 6, TCP, MTU 1500")
    yield Figure("meter.throughput.without", round(without / 1e6), "MB/s", note="median of 6, in turn with the above")
    yield Figure("meter.throughput.ratio", round(with_meter / without, 3), "1", note="two meters on the way")


def _detach(path: MeteredPath) -> None:
    with path.inside(DPU):
        for port in (HOST_PORT, UPLINK):
            attach.detach(socket.if_nametoindex(port))


def _transfer(path: MeteredPath, size: int) -> float:
    module = [sys.executable, "-m", "hil.traffic.transfer"]
    receiver = path.start(FAR, [*module, "receive", "--listen", f"{FAR_ADDRESS}:9000"])
    begin = time.monotonic()
    sender = path.start(HOST, [*module, "send", "--target", f"{FAR_ADDRESS}:9000", "--bytes", str(size) + "B"])
    record = json.loads(sender.communicate(timeout=120)[0])
    receiver.communicate(timeout=30)
    spent_ns = (
        int(record["end_ns"]) - int(record["start_ns"]) if "end_ns" in record else (time.monotonic() - begin) * 1e9
    )
    return size / spent_ns * 1e9


# ---------------------------------------------------------------- resolution


def resolution() -> Iterator[Figure]:
    """A 3 ms burst in an idle second: where and how large the meter, a 1 s and a 15 s scrape show it."""
    exporter = shutil.which("prometheus-node-exporter") or shutil.which("node_exporter")
    frame, count = _TARGET + _SOURCE + b"\x88\xb5" + bytes(1500), 300
    with MeteredPath(mtu=1500) as path:
        meters = path.meters()
        scraper = None
        try:
            if exporter is not None:
                scraper = _Scraper(path, exporter)
            time.sleep(7.4)
            path.read(meters, 1)
            begin, end = _burst(path, frame, count)
            time.sleep(0.6)
            reading = path.read(meters, 2)[HOST_PORT]
            shown = scraper.rates() if scraper is not None else None
        finally:
            if scraper is not None:
                scraper.close()
            meters.close()
    first, last = reading.buckets[0].index, reading.buckets[-1].index
    error_ns = max(0, begin - (first + 1) * MS, first * MS - begin, end - (last + 1) * MS, last * MS - end)
    sent = len(frame) * count
    true_rate = sent / ((end - begin) / 1e9)
    said = (
        f"{sent} B in {(end - begin) / MS:.2f} ms ({true_rate / 1e6:.0f} MB/s), seen in {len(reading.buckets)} buckets"
    )
    yield Figure("meter.resolution.place_error", round(error_ns / MS, 3), "ms", 1, note=said)
    yield Figure("meter.resolution.bytes_error", abs(summed(reading.buckets).raw_bytes - sent), "B", 0, Goal.EXACTLY)
    peak = max(bucket.moved.wire_bytes for bucket in reading.buckets) * 1000
    yield Figure("meter.resolution.peak_shown_by_buckets", round(peak / 1e6, 3), "MB/s", note="fullest millisecond")
    for seconds in (1, 15):
        value = None if shown is None else round(shown[seconds] / 1e6, 3)
        note = "node_exporter is not installed" if shown is None else f"of {true_rate / 1e6:.0f} MB/s"
        yield Figure(f"meter.resolution.peak_shown_by_{seconds}s_scrape", value, "MB/s", note=note)


def _burst(path: MeteredPath, frame: bytes, count: int) -> tuple[int, int]:
    """Send ``count`` frames evenly over 3 ms; return when the first was handed over and the last was sent."""
    with path.raw_socket() as sender:
        begin = time.monotonic_ns()
        for number in range(count):
            while time.monotonic_ns() < begin + number * 3 * MS // count:
                pass
            sender.send(frame)
        return begin, time.monotonic_ns()


class _Scraper:
    """Scrapes a node exporter in the host's namespace each second, for 15 seconds."""

    def __init__(self, path: MeteredPath, exporter: str) -> None:
        listen = "127.0.0.1:19100"
        only = ["--collector.disable-defaults", "--collector.netdev", "--web.disable-exporter-metrics"]
        self._process = path.start(HOST, [exporter, *only, f"--web.listen-address={listen}", "--log.level=error"])
        self._path, self._values = path, [0.0] * 16
        time.sleep(0.5)
        self._thread = threading.Thread(target=self._scrape, daemon=True)
        self._thread.start()

    def _scrape(self) -> None:
        with self._path.inside(HOST):
            begin = time.monotonic()
            for number in range(16):
                time.sleep(max(0.0, begin + number - time.monotonic()))
                connection = http.client.HTTPConnection("127.0.0.1", 19100, timeout=5)
                connection.request("GET", "/metrics")
                text = connection.getresponse().read().decode()
                connection.close()
                line = next(
                    x for x in text.splitlines() if x.startswith('node_network_transmit_bytes_total{device="eth0"}')
                )
                self._values[number] = float(line.rpartition(" ")[2])

    def rates(self) -> dict[int, float]:
        """Return the largest rate a 1 s scrape shows, and that of a 15 s scrape, bytes/s."""
        self._thread.join()
        steps = [after - before for before, after in zip(self._values, self._values[1:], strict=False)]
        return {1: max(steps), 15: (self._values[15] - self._values[0]) / 15}

    def close(self) -> None:
        """End the exporter."""
        self._process.terminate()
        self._process.communicate(timeout=10)
