"""What the agent's tests share: an agent's memory on the disk double, and a controller that keeps what it gets."""

from __future__ import annotations

import hashlib
import ipaddress
import json
import socket
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

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


@dataclass(frozen=True)
class Pair:
    """A certificate and its key, PEM."""

    certificate: bytes
    key: bytes


class Authority:
    """A site's certificate authority, for tests only."""

    def __init__(self, site: str = "site1") -> None:
        self.site = site
        self._key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"{site} authority")])
        now = datetime.now(timezone.utc)
        self._certificate = (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(name)
            .public_key(self._key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(days=1))
            .not_valid_after(now + timedelta(days=1))
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .sign(self._key, hashes.SHA256())
        )
        self.pem = self._certificate.public_bytes(serialization.Encoding.PEM)

    def issue(self, *uris: str, start_s: float = -60, end_s: float = 3_600) -> Pair:
        """Return a certificate for 127.0.0.1 that names ``uris``, valid from now + start to now + end."""
        key = ec.generate_private_key(ec.SECP256R1())
        now = datetime.now(timezone.utc)
        names: list[x509.GeneralName] = [x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
        names += [x509.UniformResourceIdentifier(uri) for uri in uris]
        certificate = (
            x509.CertificateBuilder()
            .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "tested")]))
            .issuer_name(self._certificate.subject)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now + timedelta(seconds=start_s))
            .not_valid_after(now + timedelta(seconds=end_s))
            .add_extension(x509.SubjectAlternativeName(names), critical=False)
            .sign(self._key, hashes.SHA256())
        )
        pem = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        return Pair(certificate.public_bytes(serialization.Encoding.PEM), pem)

    def controller(self, **dates: float) -> Pair:
        return self.issue(f"weighbridge://{self.site}/controller/main", **dates)

    def agent(self, name: str = "node1-dpu0", **dates: float) -> Pair:
        return self.issue(f"weighbridge://{self.site}/agent/{name}", **dates)


@dataclass(frozen=True)
class Installation:
    """An agent's files in a folder, as a deployment leaves them."""

    folder: Path
    authority: Authority
    port: int

    @property
    def config(self) -> Path:
        return self.folder / "agent.json"

    def rewrite(self, **changes: Any) -> None:
        """Change keys of the configuration; None takes one out."""
        content = json.loads(self.config.read_text())
        for key, value in changes.items():
            content[key] = value
            if value is None:
                del content[key]
        self.config.write_text(json.dumps(content))

    def write_pair(self, pair: Pair) -> None:
        (self.folder / "agent.pem").write_bytes(pair.certificate)
        (self.folder / "agent.key").write_bytes(pair.key)
        (self.folder / "agent.key").chmod(0o600)


@pytest.fixture(scope="session")
def authority() -> Authority:
    return Authority()


@pytest.fixture(scope="session")
def new_authority() -> Callable[..., Authority]:
    return Authority


@pytest.fixture
def installation(tmp_path: Path, authority: Authority) -> Installation:
    """An agent's configuration, certificate and key; the listen port was free a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    found = Installation(tmp_path, authority, port)
    (tmp_path / "ca.pem").write_bytes(authority.pem)
    found.write_pair(authority.agent())
    config = {
        "agent": "node1-dpu0",
        "listen": f"127.0.0.1:{port}",
        "ca": "ca.pem",
        "certificate": "agent.pem",
        "key": "agent.key",
        "state_directory": "state",
        "ports": [{"name": "pf0hpf", "role": "host_port"}, {"name": "p0", "role": "uplink"}],
        # A test may run in the machine's own network namespace: nothing is attached to its interfaces.
        "meter": {"bucket_us": 0},
    }
    found.config.write_text(json.dumps(config))
    return found


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
