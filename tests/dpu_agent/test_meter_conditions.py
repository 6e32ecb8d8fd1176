"""The meter where things are bad: no compiler, a wall clock that is set back, a full disk, a port that goes away."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import pytest

from dpu_agent.clock import Stamp, SystemClock
from dpu_agent.config import SpoolLimits
from dpu_agent.disk import Disk
from dpu_agent.home import open_recorder
from dpu_agent.meter.errors import NoMeter
from dpu_agent.meter.meters import Meters
from dpu_agent.netlink import NetlinkCounters
from dpu_agent.recorder import Recorder
from hil.bench.metered_path import DPU, HOST_PORT, MeteredPath
from protos.buckets import NOTHING, summed
from protos.v1 import frame_pb2
from protos.wire import MeterReading, meter_reading, parse_signed_frame

pytestmark = pytest.mark.rig

FRAME = b"\xff" * 6 + b"\x02\x00\x00\x00\x00\x01" + b"\x88\xb5" + bytes(86)
SETTLE_S = 0.012
HOUR_NS = 3_600 * 10**9


class SteppedClock(SystemClock):
    """The machine's clocks, its wall clock as far off as a test says."""

    step_ns = 0

    def stamp(self) -> Stamp:
        stamp = super().stamp()
        return replace(stamp, wall_ns=stamp.wall_ns + self.step_ns)


def send(path: MeteredPath, count: int) -> None:
    with path.raw_socket() as sender:
        for _ in range(count):
            sender.send(FRAME)
    time.sleep(SETTLE_S)


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """Return a folder that every user can reach; those of pytest are their owner's alone."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)


@contextmanager
def recording(
    path: MeteredPath, directory: Path, clock: SystemClock, segment_bytes: int | None = None
) -> Iterator[tuple[Recorder, Meters, NetlinkCounters]]:
    config = path.config()
    recorder = open_recorder(
        Disk(),
        directory,
        agent="dpu0",
        version="0",
        clock=clock,
        limits=SpoolLimits(max_bytes=4 << 20),
        segment_bytes=segment_bytes,
    )
    meters = path.meters(config, last_sequence=recorder.last_sequence)
    source = NetlinkCounters(clock.monotonic_ns)
    try:
        yield recorder, meters, source
    finally:
        source.close()
        meters.close()
        recorder.close()


def record(path: MeteredPath, parts: tuple[Recorder, Meters, NetlinkCounters]) -> int:
    recorder, meters, source = parts
    with path.inside(DPU):
        return recorder.record(source.read(path.config().ports), meters)


def frames(recorder: Recorder) -> list[frame_pb2.Frame]:
    return [parse_signed_frame(signed)[1] for _, signed in recorder.frames_after(0, 10_000)]


def host_port(frame: frame_pb2.Frame) -> MeterReading:
    [found] = [meter_reading(each) for each in frame.meters if each.port == HOST_PORT]
    return found


def test_without_a_compiler_the_prebuilt_object_is_used(tmp_path: Path) -> None:
    program = (
        "import shutil, sys\n"
        "from pathlib import Path\n"
        "from hil.bench.metered_path import HOST_PORT, UPLINK\n"
        "from dpu_agent.classtable import ClassTables\n"
        "from dpu_agent.config import AgentConfig, PortConfig\n"
        "from dpu_agent.disk import Disk\n"
        "from dpu_agent.meter.meters import Meters\n"
        "from protos.reading import Observer\n"
        "assert shutil.which('clang') is None and shutil.which('sh') is None\n"
        "here = Path(sys.argv[1])\n"
        "config = AgentConfig(path=here, agent='dpu0', listen='127.0.0.1:1', ca=here, certificate=here, key=here,\n"
        "    state_directory=here, ports=(PortConfig(HOST_PORT, Observer.DPU_HOST_PORT),))\n"
        "meters = Meters(config, ClassTables(Disk(), here, agent='dpu0', verifier=b''), last_sequence=0)\n"
        "[reading] = meters.read(1, [])\n"
        "print(reading.port, reading.unavailable or 'metered', list(reading.audit.findings))\n"
        "meters.close()\n"
    )
    empty = tmp_path / "empty"
    empty.mkdir()
    with MeteredPath() as path:
        process = path.start(DPU, ["/usr/bin/env", "-i", f"PATH={empty}", sys.executable, "-c", program, str(tmp_path)])
        said, _ = process.communicate(timeout=60)
    assert (process.returncode, said) == (0, f"{HOST_PORT} metered []\n")


def test_without_permission_the_agent_goes_on_by_port_totals_and_says_so(open_folder: Path) -> None:
    program = (
        "import encodings.ascii, encodings.idna, os, sys\n"  # what is imported on first use, root must import
        "from pathlib import Path\n"
        "from hil.bench.metered_path import HOST_PORT, UPLINK\n"
        "from dpu_agent.classtable import ClassTables\n"
        "from dpu_agent.clock import SystemClock\n"
        "from dpu_agent.config import AgentConfig, PortConfig, SpoolLimits\n"
        "from dpu_agent.disk import Disk\n"
        "from dpu_agent.home import open_recorder\n"
        "from dpu_agent.meter.meters import Meters\n"
        "from dpu_agent.netlink import NetlinkCounters\n"
        "from protos.reading import Direction, Observer\n"
        "from protos.wire import parse_signed_frame, port_reading\n"
        "os.setgroups([]); os.setgid(65534); os.setuid(65534)\n"
        "here, clock = Path(sys.argv[1]), SystemClock()\n"
        "config = AgentConfig(path=here, agent='dpu0', listen='127.0.0.1:1', ca=here, certificate=here, key=here,\n"
        "    state_directory=here, ports=(PortConfig(HOST_PORT, Observer.DPU_HOST_PORT),))\n"
        "meters = Meters(config, ClassTables(Disk(), here, agent='dpu0', verifier=b''), last_sequence=0)\n"
        "recorder = open_recorder(Disk(), here, agent='dpu0', version='0', clock=clock, limits=SpoolLimits())\n"
        "source = NetlinkCounters(clock.monotonic_ns)\n"
        "recorder.record(source.read(config.ports), meters)\n"
        "[(_, signed)] = recorder.frames_after(0, 9)\n"
        "frame = parse_signed_frame(signed)[1]\n"
        "[meter], [port] = frame.meters, frame.ports\n"
        "reading = port_reading(port)\n"
        "print(meter.unavailable, len(meter.unavailable_text) > 20, meters.describe()[0].unavailable,\n"
        "    reading.missing, reading.readings[Direction.EGRESS].bytes)\n"
    )
    (open_folder / "state").mkdir()
    os.chown(open_folder / "state", 65_534, 65_534)
    with MeteredPath() as path:
        send(path, 3)
        process = path.start(DPU, [sys.executable, "-c", program, str(open_folder / "state")])
        said, _ = process.communicate(timeout=60)
    why = NoMeter.NO_PERMISSION.value
    assert (process.returncode, said) == (0, f"{why} True {why} None {3 * len(FRAME)}\n")


def test_a_wall_clock_set_back_an_hour_moves_no_bucket_and_is_told(tmp_path: Path) -> None:
    clock = SteppedClock()
    with MeteredPath() as path, recording(path, tmp_path, clock) as parts:
        record(path, parts)
        send(path, 10)
        before_ns = time.monotonic_ns()
        record(path, parts)
        clock.step_ns = -HOUR_NS
        send(path, 20)
        record(path, parts)
        passed_ns = time.monotonic_ns() - before_ns
        told = frames(parts[0])
    first, second, third = (host_port(frame) for frame in told)
    assert told[2].clock.monotonic_ns > told[1].clock.monotonic_ns
    stepped = told[2].clock.wall_ns - told[1].clock.wall_ns
    # The wall clock itself is slewed by its daemon; what passed is measured around both frames.
    assert 0 < stepped + HOUR_NS < 2 * passed_ns, "told as it is, beside a clock that went on"
    assert [frame.clock.wall_step_ns for frame in told[:2]] == [0, 0]
    assert -HOUR_NS <= told[2].clock.wall_step_ns < -HOUR_NS // 2, "and named, less how far the clocks were read apart"
    assert (second.first, third.first) == (first.end, second.end), "no millisecond twice, none left out"
    assert (second.moved.segments, third.moved.segments) == (10, 20)
    assert (third.epoch, third.gaps, third.lost_buckets, third.findings) == (first.epoch, (), 0, ())
    assert [port.epoch for port in told[2].ports] == [port.epoch for port in told[0].ports]


def test_a_full_disk_loses_frames_aloud_and_no_byte(tmp_path: Path) -> None:
    disk = tmp_path / "small"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "small", str(disk)], check=True)
    try:
        with MeteredPath() as path, recording(path, disk, SystemClock(), 16 << 10) as parts:
            send(path, 7)
            record(path, parts)
            fill(disk / "filler")
            sent, recorded = 7, 1
            while not parts[0].snapshot()[0].lost_frames and recorded < 400:
                send(path, 1)
                sent, recorded = sent + 1, recorded + 1
                record(path, parts)
            trouble = parts[0].snapshot()[1].trouble
            (disk / "filler").unlink()
            send(path, 5)
            last = record(path, parts)
            told = frames(parts[0])
    finally:
        subprocess.run(["umount", str(disk)], check=True)
    assert "frames cannot be stored" in trouble
    assert os.strerror(errno.ENOSPC) in trouble
    assert told[-1].sequence == last, "with room again, frames are stored again"
    [loss] = told[-1].losses
    assert (loss.reason, loss.last_sequence) == ("disk-full", last - 1)
    stored = {frame.sequence for frame in told}
    assert stored == set(range(1, last + 1)) - set(range(loss.first_sequence, loss.last_sequence + 1))
    reading = host_port(told[-1])
    assert reading.start.segments + reading.moved.segments == sent + 5, "what was lost is resolution, not volume"


def fill(path: Path) -> None:
    """Take all the room there is."""
    with path.open("wb", buffering=0) as filler, pytest.raises(OSError, match=os.strerror(errno.ENOSPC)):  # noqa: PT012
        while True:
            filler.write(bytes(4096))


def test_a_port_that_is_made_anew_under_running_traffic(tmp_path: Path) -> None:
    stop, sent, opened = threading.Event(), [0], [0]

    def more(path: MeteredPath) -> None:
        """Wait until the meter is at its hook and ten frames more were sent."""
        deadline, before = time.monotonic() + 60, -1
        while before < 0 or sent[0] < before + 10:
            assert time.monotonic() < deadline
            if before < 0 and "weighbridge" in path.run(DPU, "tc", "filter", "show", "dev", HOST_PORT, "ingress"):
                before = sent[0]
            time.sleep(0.02)
        time.sleep(SETTLE_S)

    def pour(path: MeteredPath) -> None:
        """Send without end; where the interface is gone, look for the next."""
        while not stop.is_set():
            # The interface goes away under the socket, and is not there yet for the next one.
            with suppress(OSError), path.raw_socket() as sender:
                opened[0] += 1
                while not stop.is_set():
                    sender.send(FRAME)
                    sent[0] += 1
                    time.sleep(0.0005)
            time.sleep(0.001)

    with MeteredPath() as path:
        meters = path.meters()
        pouring = threading.Thread(target=pour, args=(path,))
        pouring.start()
        try:
            more(path)
            first = path.read(meters, 1)[HOST_PORT]
            path.unplug_host()
            path.plug_host()
            more(path)
            second = path.read(meters, 2)[HOST_PORT]
        finally:
            stop.set()
            pouring.join()
        time.sleep(SETTLE_S)
        third = path.read(meters, 3)[HOST_PORT]
        before = path.counters(DPU, HOST_PORT)["rx_bytes"]
        send(path, 50)
        fourth = path.read(meters, 4)[HOST_PORT]
        after = path.counters(DPU, HOST_PORT)["rx_bytes"]
        path.read(meters, 5)
        meters.close()
    assert opened[0] >= 2, "traffic ran on both interfaces"
    assert first.moved.segments > 0
    assert (second.epoch, second.epoch_reason, second.since_ns) == (2, "interface-recreated", first.since_ns)
    [gap] = second.gaps
    assert (gap.reason, gap.from_ns < gap.to_ns) == ("interface-recreated", True)
    assert second.moved.segments > 0, "without waiting for the next reading"
    assert second.start == first.start + first.moved, "totals go on"
    total = first.moved + second.moved + third.moved
    assert total.segments <= sent[0], "never more than there was"
    for reading in (second, third):
        assert summed(reading.buckets) + sum((part.moved for part in reading.unplaced), NOTHING) == reading.moved
    assert (fourth.moved.raw_bytes, fourth.moved.segments) == (after - before, 50)
    assert (fourth.epoch, fourth.findings) == (2, ())
