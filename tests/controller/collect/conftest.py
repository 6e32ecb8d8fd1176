"""A real agent service on loopback, under the test's control, and the surroundings a collector needs.

The double speaks gRPC under mutual TLS and signs and chains frames as an agent does; it can be cut off, can repeat,
tamper and fall silent. It takes no part in deciding what is right: tests compare its frames with the journal.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import random
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from io import StringIO
from pathlib import Path
from typing import Any

import grpc
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from controller.collect.narrator import Narrator
from controller.collect.recorder import Recorder
from controller.collect.writer import GroupWriter
from controller.credentials import Credential, load_credential
from controller.journal import Journal, Kind, NewEntry
from controller.pki import Role, create_ca, issue_certificate, write_issued, write_new
from controller.site import Dpu, Endpoint, Uplink
from dpu_agent.classtable import ClassTableRejectedError, ClassTables, Table
from protos.signing import SigningDomain, sign
from protos.v1 import agent_pb2, frame_pb2, reading_pb2

BOOT_ID = "5f0c0a3e-0000-4000-8000-000000000001"


@dataclass
class AgentDouble:
    """One agent. Attributes may be changed while it serves."""

    name: str
    pki: Path
    key: Ed25519PrivateKey = field(default_factory=Ed25519PrivateKey.generate)
    frames: list[bytes] = field(default_factory=list)
    acknowledged: int = 0
    sessions: int = 0
    offset_ns: int = 3_000_000_000_000
    cut_after: int | None = None
    """Break the connection off after so many frames of a session."""
    repeat: int = 0
    """Send so many frames again that were acknowledged."""
    tamper: Callable[[int, bytes], bytes] = lambda _, raw: raw
    holds_frames: bool = False
    stops_clock: bool = False
    clock_lies_ns: int = 0
    certificate: str = "node1-dpu0"
    port: int = 0
    tables: ClassTables | None = None
    """The real agent's; without it there is no such RPC."""
    table_lies: bytes = b""
    """A hash that the next frames carry in place of the one in force."""
    _server: grpc.aio.Server | None = None
    _last_sha256: bytes = b""
    _more: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def public_key(self) -> bytes:
        return self.key.public_key().public_bytes_raw()

    @property
    def dpu(self) -> Dpu:
        uplink = Uplink("p0", "pf0hpf", "eth0", 1_250_000_000, 1500)
        return Dpu(self.name, "node1", Endpoint("127.0.0.1", self.port), None, (uplink,))

    def monotonic_ns(self) -> int:
        return time.monotonic_ns() + self.offset_ns

    def stamp(self) -> frame_pb2.ClockStamp:
        now, raw = self.monotonic_ns(), time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW) + self.offset_ns
        return frame_pb2.ClockStamp(boot_id=BOOT_ID, monotonic_ns=now, monotonic_raw_ns=raw, wall_ns=time.time_ns())

    def make_frames(self, count: int, *, key: Ed25519PrivateKey | None = None, skip: int = 0) -> None:
        """Append frames to the spool; ``skip`` numbers are passed over first."""
        for _ in range(count):
            sequence = self.last_sequence + 1 + skip
            skip = 0
            now = self.monotonic_ns()
            counted = reading_pb2.Counters(bytes=1000 * sequence % 2**64, packets=sequence)
            port = reading_pb2.PortReading(
                port="p0",
                role=reading_pb2.PORT_ROLE_UPLINK,
                source="double",
                framing=reading_pb2.FRAMING_L2_WITHOUT_FCS,
                earliest_ns=now,
                latest_ns=now,
                egress=counted,
                ingress=counted,
                ifindex=2,
            )
            frame = frame_pb2.Frame(
                version=1,
                agent=self.name,
                sequence=sequence,
                previous_sha256=self._last_sha256,
                clock=self.stamp(),
                ports=[port],
                agent_version="0.0.0",
                agent_start=1,
                class_table_sha256=self.table_lies or (self.tables.table.sha256 if self.tables else b""),
            )
            body = frame.SerializeToString()
            self._last_sha256 = hashlib.sha256(body).digest()
            signature = sign(key or self.key, SigningDomain.FRAME, body)
            self.frames.append(frame_pb2.SignedFrame(body=body, signature=signature).SerializeToString())
        self._more.set()

    @property
    def last_sequence(self) -> int:
        return sequence_of(self.frames[-1]) if self.frames else 0

    async def start(self) -> None:
        self._more = asyncio.Event()
        tls = grpc.ssl_server_credentials(
            [
                (
                    (self.pki / f"{self.certificate}.key").read_bytes(),
                    (self.pki / f"{self.certificate}.pem").read_bytes(),
                )
            ],
            root_certificates=(self.pki / "ca.pem").read_bytes(),
            require_client_auth=True,
        )
        self._server = grpc.aio.server(options=[("grpc.so_reuseport", 0)])
        self._server.add_generic_rpc_handlers((self._handlers(),))
        self.port = self._server.add_secure_port(f"127.0.0.1:{self.port}", tls)
        await self._server.start()

    def _handlers(self) -> grpc.GenericRpcHandler:
        """The service, with frames as raw bytes: a double must be able to send what is no frame."""
        tables = {}
        if self.tables is not None:
            tables["SetClassTable"] = grpc.unary_unary_rpc_method_handler(
                self._set_class_table,
                agent_pb2.SignedClassTable.FromString,
                agent_pb2.ClassTableReply.SerializeToString,
            )
        return grpc.method_handlers_generic_handler(
            "weighbridge.v1.AgentService",
            {
                **tables,
                "Describe": grpc.unary_unary_rpc_method_handler(
                    self._describe, agent_pb2.DescribeRequest.FromString, agent_pb2.AgentDescription.SerializeToString
                ),
                "ExchangeClock": grpc.unary_unary_rpc_method_handler(
                    self._exchange_clock, agent_pb2.ClockRequest.FromString, agent_pb2.ClockReply.SerializeToString
                ),
                "StreamFrames": grpc.stream_stream_rpc_method_handler(
                    self._stream_frames, agent_pb2.Acknowledgement.FromString
                ),
            },
        )

    async def stop(self) -> None:
        """At once, as a kill does: calls in flight are broken off."""
        if self._server is not None:
            await self._server.stop(None)
            self._server = None

    async def _describe(self, _request: object, _context: object) -> agent_pb2.AgentDescription:
        table = self.tables.table if self.tables else Table()
        return agent_pb2.AgentDescription(
            agent=self.name,
            agent_version="0.0.0",
            frame_public_key=self.public_key,
            frame_interval_ns=50_000_000,
            last_sequence=self.last_sequence,
            class_table_sequence=table.sequence,
            class_table_sha256=table.sha256,
        )

    async def _set_class_table(self, request: agent_pb2.SignedClassTable, context: Any) -> agent_pb2.ClassTableReply:
        assert self.tables is not None
        try:
            table = self.tables.accept(request.SerializeToString(deterministic=True))
        except ClassTableRejectedError as error:
            await context.abort(grpc.StatusCode.FAILED_PRECONDITION, str(error))
        return agent_pb2.ClassTableReply(sequence=table.sequence, sha256=table.sha256)

    async def _exchange_clock(self, _request: object, _context: object) -> agent_pb2.ClockReply:
        received = self.monotonic_ns()
        if self.stops_clock:
            await asyncio.sleep(60)
        sent = self.monotonic_ns() - self.clock_lies_ns
        return agent_pb2.ClockReply(received_monotonic_ns=received, sent_monotonic_ns=sent, clock=self.stamp())

    async def _stream_frames(
        self, requests: AsyncIterator[agent_pb2.Acknowledgement], context: Any
    ) -> AsyncIterator[bytes]:
        self.sessions += 1
        first = await requests.__anext__()
        self._take(first)
        hearing = asyncio.ensure_future(self._hear(requests))
        try:
            next_sequence, sent = max(1, first.acknowledged_sequence + 1 - self.repeat), 0
            while True:
                self._more.clear()
                for raw in [] if self.holds_frames else list(self.frames):
                    sequence = sequence_of(raw)
                    if sequence < next_sequence:
                        continue
                    if self.cut_after is not None and sent >= self.cut_after:
                        await context.abort(grpc.StatusCode.UNAVAILABLE, "cut")
                    yield self.tamper(sequence, raw)
                    next_sequence, sent = sequence + 1, sent + 1
                with suppress(asyncio.TimeoutError):
                    await asyncio.wait_for(self._more.wait(), 0.05)
        finally:
            hearing.cancel()

    async def _hear(self, requests: AsyncIterator[agent_pb2.Acknowledgement]) -> None:
        async for message in requests:
            self._take(message)

    def _take(self, message: agent_pb2.Acknowledgement) -> None:
        assert message.acknowledged_sequence <= self.last_sequence
        self.acknowledged = max(self.acknowledged, message.acknowledged_sequence)


def sequence_of(raw: bytes) -> int:
    return frame_pb2.Frame.FromString(frame_pb2.SignedFrame.FromString(raw).body).sequence


@dataclass
class Surroundings:
    """A journal and what stands around it in a run."""

    journal: Journal
    pki: Path
    certificate: str = "controller"
    said: StringIO = field(default_factory=StringIO)

    @asynccontextmanager
    async def recorder(self, now_ns: Callable[[], int] = time.time_ns) -> AsyncIterator[Recorder]:
        narrator = Narrator(time.monotonic_ns, self.said)
        async with GroupWriter(self.journal) as writer:
            yield Recorder(writer, narrator, now_ns, random.Random(1))

    def credential(self) -> Credential:
        stem = self.pki / self.certificate
        return load_credential(stem.with_suffix(".pem"), stem.with_suffix(".key"), self.pki / "ca.pem")

    def enrol(self, agent: AgentDouble, *, public_key: bytes | None = None) -> None:
        key = (public_key or agent.public_key).hex()
        body = {"agent": agent.name, "public_key": key, "bundle_sha256": "", "agent_version": "0.0.0"}
        self.journal.append(NewEntry(Kind.ENROLMENT, agent.name, 1, json.dumps(body).encode()))

    def attempts(self) -> list[dict[str, str]]:
        return [json.loads(entry.body) for entry in self.journal.entries(kinds=[Kind.ATTEMPT])]

    def frames(self, agent: str = "node1-dpu0") -> list[bytes]:
        return [entry.body for entry in self.journal.entries(kinds=[Kind.FRAME], source=agent)]


@pytest.fixture(scope="session")
def pki(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A site's certificates, some of them bad: ``expired`` and ``stranger`` beside the good ones."""
    folder = tmp_path_factory.mktemp("pki")
    ca, other = create_ca("demo"), create_ca("demo")
    write_new(folder / "ca.pem", ca.certificate_pem, 0o644)
    write_issued(folder / "controller", issue_certificate(ca, Role.CONTROLLER, "main", None))
    write_issued(folder / "stranger", issue_certificate(other, Role.CONTROLLER, "main", None))
    write_issued(folder / "short", issue_certificate(ca, Role.CONTROLLER, "main", None, timedelta(seconds=-1)))
    write_issued(folder / "node1-dpu0", issue_certificate(ca, Role.AGENT, "node1-dpu0", "127.0.0.1"))
    write_issued(folder / "elsewhere", issue_certificate(ca, Role.AGENT, "elsewhere", "127.0.0.9"))
    write_issued(folder / "late", issue_certificate(ca, Role.AGENT, "late", "127.0.0.1", timedelta(seconds=-1)))
    return folder


@pytest.fixture
def surroundings(tmp_path: Path, pki: Path) -> Iterator[Surroundings]:
    with Journal.create(tmp_path / "journal.db") as journal:
        yield Surroundings(journal, pki)


@pytest.fixture
def agent(pki: Path) -> AgentDouble:
    return AgentDouble("node1-dpu0", pki)
