"""What the agent's tests share: an agent's memory on the disk double, and a controller that keeps what it gets."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

import pytest

from dpu_agent.clock import ManualClock
from dpu_agent.config import PortConfig, SpoolLimits
from dpu_agent.counters import CounterValues, MemoryCounters
from dpu_agent.disk import Disk
from dpu_agent.home import open_recorder
from dpu_agent.recorder import Recorder
from protos.reading import Observer
from protos.v1 import frame_pb2
from protos.wire import parse_signed_frame

HOME = Path("/home-of-the-agent")
PORTS = (PortConfig("pf0hpf", Observer.DPU_HOST_PORT), PortConfig("p0", Observer.DPU_UPLINK))
NS_PER_S = 1_000_000_000
SEGMENT_BYTES = 4096


class Agent:
    """An agent without its server: counters, clock and memory that the test moves."""

    def __init__(
        self,
        disk: Disk,
        *,
        home: Path = HOME,
        clock: ManualClock | None = None,
        max_bytes: int = 1 << 20,
        max_age_s: int = 10_000_000,
        segment_bytes: int = SEGMENT_BYTES,
    ) -> None:
        self.disk, self.home = disk, home
        self.clock = clock or ManualClock()
        self.counters = MemoryCounters(self.clock.monotonic_ns)
        self.recorder: Recorder = open_recorder(
            disk,
            home,
            agent="node1-dpu0",
            version="1",
            clock=self.clock,
            limits=SpoolLimits(max_bytes, max_age_s * NS_PER_S),
            segment_bytes=segment_bytes,
        )

    def tick(self, count: int = 1) -> int:
        """Record ``count`` frames, one a second, with traffic in each."""
        sequence = 0
        for _ in range(count):
            self.clock.advance(NS_PER_S)
            moved = self.clock.monotonic_ns() // 1000
            for port in PORTS:
                values = CounterValues(moved, moved // 100, 0, 0)
                self.counters.set(port.name, 7, values, values)
            sequence = self.recorder.record(self.counters.read(PORTS))
        return sequence

    def frames(self, after: int = 0) -> list[int]:
        """The sequences a controller would be sent."""
        found: list[int] = []
        while more := self.recorder.frames_after(found[-1] if found else after, 7):
            found += [sequence for sequence, _ in more]
        return found


class Controller:
    """Keeps every frame it is given, and judges the whole at the end."""

    def __init__(self) -> None:
        self.journal: dict[int, bytes] = {}

    @property
    def newest(self) -> int:
        return max(self.journal, default=0)

    def take(self, agent: Agent, most: int = 1 << 30) -> None:
        """Take up to ``most`` frames beyond the newest one, as a stream would bring them."""
        while most > 0 and (frames := agent.recorder.frames_after(self.newest, min(most, 5))):
            for sequence, signed in frames:
                assert sequence > self.newest
                self.journal[sequence] = signed
            most -= len(frames)

    def frame(self, sequence: int) -> frame_pb2.Frame:
        return parse_signed_frame(self.journal[sequence])[1]

    def said_lost(self) -> set[int]:
        """What the frames say was lost."""
        said: set[int] = set()
        for sequence in self.journal:
            for loss in self.frame(sequence).losses:
                assert loss.first_sequence <= loss.last_sequence < sequence
                said |= set(range(loss.first_sequence, loss.last_sequence + 1))
        return said

    def lost(self) -> set[int]:
        """The same without what arrived before it was lost."""
        return self.said_lost() - set(self.journal)

    def check(self) -> None:
        """Every number from 1 to the newest is here or said to be lost, and the chain holds wherever it can."""
        for sequence in range(1, self.newest + 1):
            if sequence not in self.journal:
                continue
            frame = self.frame(sequence)
            assert frame.sequence == sequence
            if sequence == 1:
                assert frame.previous_sha256 == b""
            elif sequence - 1 in self.journal:
                signed, _ = parse_signed_frame(self.journal[sequence - 1])
                assert frame.previous_sha256 == hashlib.sha256(signed.body).digest()
        assert set(range(1, self.newest + 1)) - set(self.journal) == self.lost()


@pytest.fixture(scope="session")
def start_agent() -> Callable[..., Agent]:
    """Starts an agent on a disk: ``start_agent(disk, **options)``."""
    return Agent


@pytest.fixture
def controller() -> Controller:
    return Controller()


@pytest.fixture(scope="session")
def new_controller() -> Callable[[], Controller]:
    return Controller
