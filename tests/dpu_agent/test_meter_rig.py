"""The meter on the real kernel: exact, restartable, and aware of everything that is put in its way."""

from __future__ import annotations

import hashlib
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from dpu_agent.classtable import ClassTableRejectedError, ClassTables
from dpu_agent.disk import Disk
from dpu_agent.errors import AgentError
from dpu_agent.meter.drain import BEHIND_NS, GUARD_NS, SETTLED_NS
from dpu_agent.meter.errors import MeterUnavailableError, NoMeter
from dpu_agent.meter.libbpf import BpfObject, LibBpf
from dpu_agent.meter.maps import OBJECT
from dpu_agent.meter.meters import Meters
from hil.bench.meter_mixes import frames
from hil.bench.metered_path import DPU, FAR, FAR_ADDRESS, HOST, HOST_PORT, UPLINK, MeteredPath
from protos.buckets import NOTHING, Totals, TrafficClass, summed
from protos.signing import SigningDomain, sign
from protos.v1 import agent_pb2, meter_pb2
from protos.wire import MeterReading

pytestmark = pytest.mark.rig

SETTLE_S = 0.012
NS_PER_MS = 1_000_000
HEADER = b"\xff" * 6 + b"\x02\x00\x00\x00\x00\x01"
FRAME = HEADER + b"\x88\xb5" + bytes(86)


@pytest.fixture
def path() -> Iterator[MeteredPath]:
    with MeteredPath() as built:
        yield built


@pytest.fixture
def open_meters(path: MeteredPath) -> Iterator[Callable[..., Meters]]:
    """Opens the path's meters; closes what a test leaves open."""
    opened: list[Meters] = []

    def make(*, last_sequence: int = 0, **options: Any) -> Meters:
        opened.append(path.meters(last_sequence=last_sequence, **options))
        return opened[-1]

    yield make
    for meters in opened:
        close(meters)


def close(meters: Meters) -> None:
    if meters._held:
        meters.close()
        meters._held.clear()


def attached(path: MeteredPath, port: str = HOST_PORT) -> None:
    """Wait until a meter is at the port's hook; whoever puts it there is not this test."""
    deadline = time.monotonic() + 60
    while "weighbridge" not in path.run(DPU, "tc", "filter", "show", "dev", port, "ingress", check=False):
        assert time.monotonic() < deadline, "nobody put the meter at its hook"
        time.sleep(0.02)


def send(path: MeteredPath, count: int, frame: bytes = FRAME, place: str = HOST) -> None:
    with path.raw_socket(place) as sender:
        for number in range(count):
            sender.send(frame)
            if number % 100 == 99:
                time.sleep(0.002)
    time.sleep(SETTLE_S)


def test_mixes_are_exact_to_the_byte(path: MeteredPath, open_meters: Callable[..., Meters]) -> None:
    meters, source, target = open_meters(), bytes.fromhex("020000000001"), bytes.fromhex("020000000002")
    before = path.counters(DPU, HOST_PORT), path.counters(FAR, "eth0")
    path.read(meters, 1)
    total = NOTHING
    for seed in range(4):
        with path.raw_socket() as sender:
            for number, frame in enumerate(frames(seed, 800, largest=9_000, source=source, target=target)):
                sender.send(frame)
                if number % 50 == 49:
                    time.sleep(0.001)
        time.sleep(SETTLE_S)
        reading = path.read(meters, 2 + seed)[HOST_PORT]
        assert summed(reading.buckets) == reading.moved, "every byte has its millisecond"
        assert (reading.lost_buckets, reading.unplaced, reading.findings) == (0, (), ())
        total += reading.moved
    after = path.counters(DPU, HOST_PORT), path.counters(FAR, "eth0")
    assert total.raw_bytes == after[0]["rx_bytes"] - before[0]["rx_bytes"]
    assert total.segments == after[0]["rx_packets"] - before[0]["rx_packets"]
    assert total.wire_bytes == after[1]["rx_bytes"] - before[1]["rx_bytes"]


def test_segmentation_offloaded_packets_count_as_the_frames_they_become() -> None:
    with MeteredPath(mtu=1500, offloads=True) as path:
        meters = path.meters()
        try:
            path.read(meters, 1)
            before = path.counters(DPU, HOST_PORT), path.counters(FAR, "eth0")
            with path.inside(FAR):
                server = socket.create_server((FAR_ADDRESS, 5001))
            with path.inside(HOST):
                client = socket.create_connection((FAR_ADDRESS, 5001))
            peer, _ = server.accept()
            for _ in range(40):
                client.sendall(bytes(60_000))
                left = 60_000
                while left:
                    left -= len(peer.recv(left))
            for each in (client, peer, server):
                each.close()
            # The connection's last frames are on their way for as long as the machine likes.
            deadline, moved, far = time.monotonic() + 60, NOTHING, 0
            while moved == NOTHING or moved.wire_bytes != far:
                assert time.monotonic() < deadline, f"the far end got {far} bytes of {moved}"
                time.sleep(0.1)
                moved += path.read(meters, 2)[HOST_PORT].moved
                after = path.counters(DPU, HOST_PORT), path.counters(FAR, "eth0")
                far = after[1]["rx_bytes"] - before[1]["rx_bytes"]
        finally:
            meters.close()
    assert moved.raw_bytes == after[0]["rx_bytes"] - before[0]["rx_bytes"]
    assert moved.segments == after[1]["rx_packets"] - before[1]["rx_packets"]
    assert moved.wire_bytes > moved.raw_bytes + 40 * 40 * 54, "packets of 40 segments were there"


def table(key: Ed25519PrivateKey, sequence: int, *entries: tuple[bytes, int, TrafficClass, str]) -> bytes:
    body = meter_pb2.ClassTable(
        version=1,
        sequence=sequence,
        agent="dpu0",
        entries=[
            meter_pb2.ClassEntry(network=network, prefix_length=length, traffic_class=kind, peer=peer)
            for network, length, kind, peer in entries
        ],
    ).SerializeToString()
    signature = sign(key, SigningDomain.CLASS_TABLE, body)
    return agent_pb2.SignedClassTable(body=body, signature=signature).SerializeToString()


def ip4(target: str, protocol: int = 17, size: int = 100) -> bytes:
    head = bytes([0x45, 0]) + size.to_bytes(2, "big") + bytes([0, 0, 0, 0, 64, protocol, 0, 0])
    return HEADER + b"\x08\x00" + head + socket.inet_aton("10.9.0.1") + socket.inet_aton(target) + bytes(size - 20)


def ip6(target: str, following: int = 17, first: int = 0, hops: int = 64) -> bytes:
    head = b"\x60\0\0\0\0\x40" + bytes([following, hops]) + socket.inet_pton(socket.AF_INET6, "fd00::1")
    return HEADER + b"\x86\xdd" + head + socket.inet_pton(socket.AF_INET6, target) + bytes([first]) + bytes(63)


def tagged(frame: bytes, *tags: int) -> bytes:
    return frame[:12] + b"".join(tag.to_bytes(2, "big") + b"\0\x07" for tag in tags) + frame[12:]


def test_classes_and_peers_by_longest_prefix(path: MeteredPath, open_meters: Callable[..., Meters]) -> None:
    key = Ed25519PrivateKey.generate()
    meters = open_meters(config=path.config(verifier=key.public_key().public_bytes_raw()))
    send(path, 3, ip4("10.1.2.3"))
    first = path.read(meters, 1)[HOST_PORT]
    assert set(first.classes) == {TrafficClass.UNKNOWN}, "without a table all is unknown"
    signed = table(
        key,
        5,
        (bytes([10, 1, 0, 0]), 16, TrafficClass.OTHER_POD, ""),
        (bytes([10, 1, 2, 0]), 24, TrafficClass.SAME_POD, "node2"),
        (bytes([10, 1, 2, 9]), 32, TrafficClass.STORAGE, "nas"),
        (socket.inet_pton(socket.AF_INET6, "fd77::"), 16, TrafficClass.FRONT_END, "fe"),
    )
    with path.inside(DPU):
        assert meters.set_table(signed).sequence == 5
    cases = [
        (ip4("10.1.2.3"), TrafficClass.SAME_POD, "node2"),
        (tagged(ip4("10.1.2.4"), 0x8100), TrafficClass.SAME_POD, "node2"),
        (tagged(ip4("10.1.2.5"), 0x88A8, 0x8100), TrafficClass.SAME_POD, "node2"),
        (ip4("10.1.2.9"), TrafficClass.STORAGE, "nas"),
        (ip4("10.1.9.9"), TrafficClass.OTHER_POD, ""),
        (ip4("10.2.0.1"), TrafficClass.UNKNOWN, ""),
        (ip6("fd77::5"), TrafficClass.FRONT_END, "fe"),
        (ip6("fd78::5"), TrafficClass.UNKNOWN, ""),
        (ip6("fd77::5", 58, 135, 255), TrafficClass.L2_CONTROL, ""),
        (ip6("fd77::5", 58, 135, 64), TrafficClass.FRONT_END, "fe"),
        (HEADER + b"\x08\x06" + bytes(46), TrafficClass.L2_CONTROL, ""),
        (HEADER + b"\x88\xcc" + bytes(46), TrafficClass.L2_CONTROL, ""),
        (FRAME, TrafficClass.NON_IP, ""),
    ]
    known, nodes, sequence = dict(first.classes), dict(first.peers), 3
    for frame, kind, peer in cases:
        send(path, 2, frame)
        reading = path.read(meters, sequence)[HOST_PORT]
        sequence += 1
        assert set(reading.classes) == {kind}, f"{frame[12:40].hex()} is {kind.title}"
        moved = reading.classes[kind] - known.get(kind, NOTHING)
        assert moved == Totals(2 * len(frame), 2 * len(frame), 2)
        known.update(reading.classes)
        assert set(reading.peers) == ({peer} - {""})
        for name, (wire, segments) in reading.peers.items():
            assert (wire - nodes.get(name, (0, 0))[0], segments - nodes.get(name, (0, 0))[1]) == (2 * len(frame), 2)
        nodes.update(reading.peers)
    [told] = [each for each in meters.describe() if each.port == HOST_PORT]
    assert {each.traffic_class: each.total.segments for each in told.classes} == {
        number: counted.segments for number, counted in known.items()
    }
    assert {each.peer: (each.wire_bytes, each.segments) for each in told.peers} == nodes
    assert (told.epoch, told.lost_buckets, told.offloaded_ppm, list(told.findings)) == (1, 0, 0, [])
    close(meters)
    again = open_meters(config=path.config(verifier=key.public_key().public_bytes_raw()), last_sequence=sequence - 1)
    assert again.table.sequence == 5
    reading = path.read(again, sequence)[HOST_PORT]
    assert (reading.classes, reading.peers) == (known, nodes), "a restart forgets no count"


def test_a_table_that_is_not_taken_leaves_the_one_in_force(
    path: MeteredPath, open_meters: Callable[..., Meters]
) -> None:
    key = Ed25519PrivateKey.generate()
    meters = open_meters(config=path.config(verifier=key.public_key().public_bytes_raw()))
    entry = (bytes([10, 1, 2, 0]), 24, TrafficClass.SAME_POD, "node2")
    with path.inside(DPU):
        meters.set_table(table(key, 7, entry))
        for signed, why in (
            (table(Ed25519PrivateKey.generate(), 8, entry), "not the verifier's"),
            (table(key, 7), "not newer"),
            (table(key, 6, entry), "not newer"),
            (table(key, 8, entry, entry), "stands twice"),
            (table(key, 8, (bytes([10, 1, 2, 3]), 24, TrafficClass.SAME_POD, "")), "cannot be"),
            (table(key, 8, (bytes([10, 1, 2, 3, 4]), 24, TrafficClass.SAME_POD, "")), "neither 4 nor 16"),
            (table(key, 8, (bytes(4), 0, TrafficClass.L2_CONTROL, "")), "by being in a table"),
            (b"\xff\xff", "not a class table"),
        ):
            with pytest.raises(ClassTableRejectedError, match=why):
                meters.set_table(signed)
        assert meters.set_table(table(key, 7, entry)).sequence == 7, "the very same table is no offence"
    assert meters.table.sequence == 7


def test_a_restart_loses_no_millisecond_and_tells_none_twice(
    path: MeteredPath, open_meters: Callable[..., Meters]
) -> None:
    meters = open_meters()
    send(path, 10)
    first = path.read(meters, 1)[HOST_PORT]
    close(meters)
    send(path, 10)
    # Killed between the mark and the frame: frame 2 was drained, but never numbered.
    meters = open_meters(last_sequence=1)
    killed = path.read(meters, 2)[HOST_PORT]
    close(meters)
    send(path, 10)
    meters = open_meters(last_sequence=1)
    second = path.read(meters, 2)[HOST_PORT]
    assert (second.first, second.start) == (first.end, first.start + first.moved)
    assert second.first == killed.first
    assert summed(second.buckets).segments == 20
    assert (second.lost_buckets, second.unplaced, second.gaps, second.epoch) == (0, (), (), 1)
    assert second.since_ns == first.since_ns
    # Killed after the frame: the next one goes on behind it.
    close(meters)
    meters = open_meters(last_sequence=2)
    third = path.read(meters, 3)[HOST_PORT]
    assert (third.first, third.start) == (second.end, second.start + second.moved)
    assert third.moved == NOTHING


def test_an_agent_that_lost_its_memory_starts_at_zero(path: MeteredPath, open_meters: Callable[..., Meters]) -> None:
    meters = open_meters(last_sequence=40)
    send(path, 10)
    first = path.read(meters, 41)[HOST_PORT]
    close(meters)
    meters = open_meters()
    second = path.read(meters, 1)[HOST_PORT]
    assert second.since_ns > first.since_ns
    assert second.start == NOTHING


def test_buckets_of_another_width_start_at_zero(path: MeteredPath, open_meters: Callable[..., Meters]) -> None:
    for sequence, width_ns in enumerate((1_000_000, 100_000, 10_000_000), 1):
        meters = open_meters(config=path.config(bucket_ns=width_ns), last_sequence=sequence - 1)
        send(path, 5)
        time.sleep(0.03)
        reading = path.read(meters, sequence)[HOST_PORT]
        assert (reading.width_ns, reading.start, summed(reading.buckets).segments) == (width_ns, NOTHING, 5)
        close(meters)


def test_two_agents_on_one_port_the_second_refuses(path: MeteredPath, open_meters: Callable[..., Meters]) -> None:
    open_meters()
    with pytest.raises(AgentError, match=rf"another agent already \(process {os.getpid()}\)"):
        open_meters()


def test_clsact_that_is_there_already_stays(path: MeteredPath, open_meters: Callable[..., Meters]) -> None:
    path.run(DPU, "tc", "qdisc", "add", "dev", HOST_PORT, "clsact")
    path.run(DPU, "tc", "qdisc", "add", "dev", UPLINK, "ingress")
    meters = open_meters()
    send(path, 3)
    found = path.read(meters, 1)
    assert found[HOST_PORT].moved.segments == 3
    assert found[HOST_PORT].findings == found[UPLINK].findings == ()


def pass_everything(path: MeteredPath, folder: Path) -> tuple[str, str]:
    """Compile a program that sits at XDP or tc and passes everything on, or redirects it to the uplink."""
    uplink = int(path.run(DPU, "cat", f"/sys/class/net/{UPLINK}/ifindex", check=False) or 0)
    with path.inside(DPU):
        uplink = socket.if_nametoindex(UPLINK)
    source = folder / "other.c"
    source.write_text(
        "#include <linux/bpf.h>\n#include <bpf/bpf_helpers.h>\n"
        f'SEC("xdp") int past(struct xdp_md *frame) {{ return bpf_redirect({uplink}, 0); }}\n'
        'SEC("tc") int other(struct __sk_buff *frame) { return -1; }\n'
        'char LICENSE[] SEC("license") = "GPL";\n'
    )
    target = folder / "other.o"
    include = next(Path("/usr/include").glob("*-linux-gnu"))
    subprocess.run(["clang", "-O2", "-g", "-target", "bpf", "-I", include, "-c", source, "-o", target], check=True)
    return str(target), str(uplink)


def test_another_filter_in_front_is_seen(path: MeteredPath, open_meters: Callable[..., Meters], tmp_path: Path) -> None:
    other, _ = pass_everything(path, tmp_path)
    path.run(DPU, "tc", "qdisc", "add", "dev", HOST_PORT, "clsact")
    add = ["tc", "filter", "add", "dev", HOST_PORT, "ingress", "protocol", "all", "pref", "1"]
    path.run(DPU, *add, "bpf", "da", "obj", other, "sec", "tc")
    meters = open_meters()
    # It had handle 1 of preference 1; the meter took its place, as its own predecessor's. Put it in front again.
    path.run(DPU, *add, "handle", "2", "bpf", "da", "obj", other, "sec", "tc")
    send(path, 3)
    reading = path.read(meters, 1)[HOST_PORT]
    assert reading.findings == ("hook-bypassed",)
    assert not reading.valid
    assert "preference 1" in reading.texts[0]
    path.run(
        DPU, "tc", "filter", "del", "dev", HOST_PORT, "ingress", "protocol", "all", "pref", "1", "handle", "2", "bpf"
    )
    assert path.read(meters, 2)[HOST_PORT].findings == ()
    # Behind the meter it is nobody's business.
    path.run(
        DPU,
        "tc",
        "filter",
        "add",
        "dev",
        HOST_PORT,
        "ingress",
        "protocol",
        "all",
        "pref",
        "2",
        "bpf",
        "da",
        "obj",
        other,
        "sec",
        "tc",
    )
    assert path.read(meters, 3)[HOST_PORT].findings == ()


def test_a_redirect_that_stands_in_for_hardware_offload_is_caught(
    path: MeteredPath, open_meters: Callable[..., Meters], tmp_path: Path
) -> None:
    other, _ = pass_everything(path, tmp_path)
    meters = open_meters()
    send(path, 10)
    assert path.read(meters, 1)[HOST_PORT].valid
    path.run(DPU, "ip", "link", "set", "dev", HOST_PORT, "xdpgeneric", "obj", other, "sec", "xdp")
    before = path.counters(FAR, "eth0")["rx_packets"]
    send(path, 6_000)
    reading = path.read(meters, 2)[HOST_PORT]
    assert path.counters(FAR, "eth0")["rx_packets"] - before > 5_900, "they went past the meter"
    assert reading.moved.segments < 100
    assert "hook-bypassed" in (reading.findings or ())
    assert "XDP" in reading.texts[0]
    assert "offloaded-traffic-unmetered" in (reading.findings or ()), "seen by the counters alone, too"
    assert reading.offloaded_ppm > 900_000
    # Fewer than can be on their way: certain a second later.
    send(path, 500)
    path.read(meters, 3)
    assert "offloaded-traffic-unmetered" in (path.read(meters, 4)[HOST_PORT].findings or ())
    path.run(DPU, "ip", "link", "set", "dev", HOST_PORT, "xdpgeneric", "off")
    send(path, 5)
    path.read(meters, 5)
    assert path.read(meters, 6)[HOST_PORT].valid


def test_an_interface_made_anew_under_traffic_is_metered_at_once(
    path: MeteredPath, open_meters: Callable[..., Meters]
) -> None:
    meters = open_meters()
    send(path, 10)
    before_ns = time.monotonic_ns()
    first = path.read(meters, 1)[HOST_PORT]
    path.unplug_host()
    path.plug_host()
    attached(path)
    send(path, 20)
    second = path.read(meters, 2)[HOST_PORT]
    assert second.moved.segments == 20, "without waiting for the next reading"
    assert (second.epoch, second.epoch_reason, second.since_ns) == (2, "interface-recreated", first.since_ns)
    (gap,) = second.gaps
    assert gap.reason == "interface-recreated"
    assert before_ns < gap.from_ns < gap.to_ns < time.monotonic_ns()
    assert path.read(meters, 3)[HOST_PORT].gaps == ()


def test_a_filter_that_is_taken_away_is_put_back_and_the_gap_is_said(
    path: MeteredPath, open_meters: Callable[..., Meters]
) -> None:
    meters = open_meters()
    path.read(meters, 1)
    path.run(DPU, "tc", "qdisc", "del", "dev", HOST_PORT, "clsact")
    attached(path)
    send(path, 7)
    reading = path.read(meters, 2)[HOST_PORT]
    assert reading.moved.segments == 7
    assert [gap.reason for gap in reading.gaps] == ["hook-lost"]


def test_a_port_that_is_not_there_is_metered_when_it_comes(
    path: MeteredPath, open_meters: Callable[..., Meters]
) -> None:
    path.unplug_host()
    meters = open_meters()
    reading = path.read(meters, 1)[HOST_PORT]
    assert reading.findings is None, "nothing was audited"
    assert not reading.valid
    path.plug_host()
    attached(path)
    send(path, 4)
    assert path.read(meters, 2)[HOST_PORT].moved.segments == 4


def lacking(reading: MeterReading, why: NoMeter) -> None:
    assert (reading.unavailable, reading.valid) == (why.value, False)
    assert len(reading.text) > 20


def test_without_the_library_the_agent_says_so(path: MeteredPath, open_meters: Callable[..., Meters]) -> None:
    meters = open_meters(load_library=lambda: LibBpf(("libbpf.so.77",)))
    lacking(path.read(meters, 1)[HOST_PORT], NoMeter.NO_LIBRARY)
    assert meters.describe()[0].unavailable == NoMeter.NO_LIBRARY.value


def test_without_a_bpf_file_system_the_agent_says_so(
    path: MeteredPath, open_meters: Callable[..., Meters], tmp_path: Path
) -> None:
    config = path.config()
    with path.inside(DPU):
        tables = ClassTables(Disk(), config.state_directory, agent="dpu0", verifier=b"")
        meters = Meters(config, tables, last_sequence=0, bpf_file_system=tmp_path)
    try:
        lacking(path.read(meters, 1)[HOST_PORT], NoMeter.NO_BPF_FILE_SYSTEM)
    finally:
        meters.close()


def test_switched_off_the_agent_says_so(path: MeteredPath, open_meters: Callable[..., Meters]) -> None:
    meters = open_meters(config=replace(path.config(), bucket_ns=0))
    lacking(path.read(meters, 1)[HOST_PORT], NoMeter.SWITCHED_OFF)


def test_the_verifiers_reasons_are_told() -> None:
    code = OBJECT.read_bytes()
    with pytest.raises(MeterUnavailableError) as refused:
        BpfObject(LibBpf(), b"not an object", "meter")
    assert refused.value.why is NoMeter.REFUSED
    opened = BpfObject(LibBpf(), code, "meter")
    opened.resize("ring", 1 << 31)
    with pytest.raises(MeterUnavailableError, match="refuses the meter"):
        opened.load()
    opened.close()


def test_without_permission_the_agent_says_so() -> None:
    program = (
        "import os, sys\n"
        "from dpu_agent.meter.libbpf import *\nfrom dpu_agent.meter.errors import *\n"
        "library = LibBpf(); os.setgid(65534); os.setuid(65534)\n"
        "try:\n    BpfObject(library, sys.stdin.buffer.read(), 'meter').load()\n"
        "except MeterUnavailableError as error:\n    print(error.why.value)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], input=OBJECT.read_bytes(), capture_output=True, check=False)
    assert done.stdout.decode().strip() == NoMeter.NO_PERMISSION.value, done.stderr.decode()


def test_the_object_is_the_one_the_record_names() -> None:
    record = json.loads(OBJECT.with_suffix(".json").read_text())
    assert hashlib.sha256(OBJECT.read_bytes()).hexdigest() == record["object_sha256"]
    source = OBJECT.with_name("meter.bpf.c")
    assert hashlib.sha256(source.read_bytes()).hexdigest() == record["source_sha256"]


@contextmanager
def on_one_cpu() -> Iterator[None]:
    """Have this thread, and so the counting of every frame it sends, on one CPU."""
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(allowed)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, allowed)


@pytest.mark.slow
def test_a_drain_that_stalls_longer_than_the_ring_loses_places_not_bytes(
    path: MeteredPath, open_meters: Callable[..., Meters]
) -> None:
    """The sender stays on one CPU: there is one lane, and what must come out follows from the times of its sends.

    A lane lets go of a bucket only by counting in the one a ring's length later, and a drain at ``now`` leaves out the
    slots whose turn comes within the guard. So what loses its place lies before ``now - ring + guard``, and the first
    frame after that has its own: however long the machine pauses, and wherever.
    """
    ring, guard, behind = 8_192, GUARD_NS // NS_PER_MS, BEHIND_NS // NS_PER_MS
    meters = open_meters()
    first = path.read(meters, 1)[HOST_PORT]
    before = path.counters(DPU, HOST_PORT)["rx_bytes"]
    hit, longest_ns = set[int](), 0
    began_ns = before_ns = time.monotonic_ns()
    with on_one_cpu(), path.raw_socket() as sender:
        # Until a ring's length is over, and the sender has surely written over a hundred of its own buckets.
        while before_ns < began_ns + 9_500 * NS_PER_MS or len(hit & {one + ring for one in hit}) < 100:
            ago_ns, before_ns = before_ns, time.monotonic_ns()
            sender.send(FRAME)
            after_ns = time.monotonic_ns()
            # The kernel counts within the call; two frames in turn are no further apart than this.
            longest_ns = max(longest_ns, after_ns - ago_ns)
            if before_ns // NS_PER_MS == after_ns // NS_PER_MS:
                hit.add(before_ns // NS_PER_MS)
            time.sleep(0.0008)
    time.sleep(SETTLE_S)
    reading = path.read(meters, 2)[HOST_PORT]
    longest_ns = max(longest_ns, time.monotonic_ns() - before_ns)
    sent = path.counters(DPU, HOST_PORT)["rx_bytes"] - before
    assert reading.moved.raw_bytes == sent, "not a byte is missing"
    parts = sum((part.moved for part in reading.unplaced), NOTHING)
    assert summed(reading.buckets) + parts == reading.moved
    safe = reading.end + SETTLED_NS // NS_PER_MS - ring + guard
    known = min((bucket.index for bucket in reading.buckets if bucket.index >= safe), default=reading.end)
    assert known <= safe + longest_ns // NS_PER_MS + 1
    assert all(first.end - behind <= part.first < part.end <= known for part in reading.unplaced)
    assert len(hit & {one + ring for one in hit}) <= reading.lost_buckets <= known - first.end
