"""The service over real TLS on the loopback: who gets in, who does not, and what a stream does."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import grpc
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from google.protobuf.message_factory import GetMessageClass

from dpu_agent import config as configuration
from dpu_agent import credentials, service, streams
from dpu_agent.classtable import Table
from dpu_agent.disk import Disk
from dpu_agent.metering import NoMetering
from dpu_agent.release import Release
from dpu_agent.revocation import Revocations
from protos.v1 import agent_pb2, agent_pb2_grpc, frame_pb2

if TYPE_CHECKING:
    from tests.dpu_agent.conftest import Agent, Authority, Controller, Installation, Pair

pytestmark = pytest.mark.loopback

_METHODS = list(agent_pb2.DESCRIPTOR.services_by_name["AgentService"].methods)
# Long enough for a busy machine; nothing waits this long when it works.
_WAIT_S = 60.0


class Server:
    """An agent with its server, and channels to it."""

    def __init__(self, agent: Agent, installation: Installation, closing: ExitStack) -> None:
        self.agent, self.installation, self._closing = agent, installation, closing
        config = configuration.load(installation.config)
        identity = credentials.load(config, credentials.utc_now())
        self.service = service.AgentService(
            config=config,
            release=Release("1.2.3", "ab" * 32),
            public_key=agent.recorder.public_key,
            clock=agent.clock,
            recorder=agent.recorder,
            site=identity.site,
            metering=TableTaker(),
            revoked=Revocations(installation.config.with_name("revoked")),
        )
        closing.callback(self.service.close)
        self._server = service.serve(self.service, identity, config.listen)
        closing.callback(lambda: self._server.stop(0).wait())

    def channel(self, pair: Pair | None, window: int | None = None) -> grpc.Channel:
        made = grpc.ssl_channel_credentials(
            root_certificates=self.installation.authority.pem,
            private_key=pair.key if pair else None,
            certificate_chain=pair.certificate if pair else None,
        )
        options = [("grpc.http2.lookahead_bytes", window), ("grpc.http2.bdp_probe", 0)] if window else []
        channel = grpc.secure_channel(f"127.0.0.1:{self.installation.port}", made, options=options)
        self._closing.callback(channel.close)
        return channel

    def stub(self, pair: Pair | None = None) -> agent_pb2_grpc.AgentServiceStub:
        return _stub(self.channel(pair or self.installation.authority.controller()))


def _stub(channel: grpc.Channel) -> agent_pb2_grpc.AgentServiceStub:
    return agent_pb2_grpc.AgentServiceStub(channel)  # type: ignore[no-untyped-call]  # generated


def _details(error: pytest.ExceptionInfo[grpc.RpcError]) -> str:
    return str(error.value.details())


@pytest.fixture
def server(
    tmp_path: Path, installation: Installation, start_agent: Callable[..., Agent], monkeypatch: pytest.MonkeyPatch
) -> Iterator[Server]:
    monkeypatch.setattr(streams, "LOOK_S", 0.05)
    monkeypatch.setattr(service, "LOOK_S", 0.05)
    home = tmp_path / "home"
    home.mkdir()
    with ExitStack() as closing:
        agent = start_agent(Disk(), home=home, segment_bytes=64 * 1024, max_bytes=8 << 20)
        closing.callback(agent.recorder.close)
        agent.tick(3)
        yield Server(agent, installation, closing)


class TableTaker(NoMetering):
    """Takes every table, so that who may bring one is what is tested."""

    def set_table(self, signed: bytes) -> Table:
        return Table(sequence=len(signed))


class Acks:
    """The client's side of a stream: what is put in is sent."""

    def __init__(self, *first: int) -> None:
        self._wanted, self._changed, self._closed = list(first), threading.Condition(), False

    def __iter__(self) -> Acks:
        return self

    def __next__(self) -> agent_pb2.Acknowledgement:
        with self._changed:
            self._changed.wait_for(lambda: self._wanted or self._closed)
            if not self._wanted:
                raise StopIteration
            return agent_pb2.Acknowledgement(acknowledged_sequence=self._wanted.pop(0))

    def send(self, sequence: int) -> None:
        with self._changed:
            self._wanted.append(sequence)
            self._changed.notify_all()

    def close(self) -> None:
        with self._changed:
            self._closed = True
            self._changed.notify_all()


def _sequence(signed: frame_pb2.SignedFrame) -> int:
    return frame_pb2.Frame.FromString(signed.body).sequence


def _call(channel: grpc.Channel, method: Any) -> Any:
    """Call ``method`` whatever its kind, and return its first answer. A stream acknowledges frame 1 at once."""
    path = f"/{method.containing_service.full_name}/{method.name}"
    request_type = GetMessageClass(method.input_type)
    answer_type = GetMessageClass(method.output_type)
    kind = f"{'stream' if method.client_streaming else 'unary'}_{'stream' if method.server_streaming else 'unary'}"
    call = getattr(channel, kind)(path, request_type.SerializeToString, answer_type.FromString)
    acks = Acks(1)
    answer = call(acks if method.client_streaming else request_type(), timeout=_WAIT_S)
    try:
        return next(answer) if method.server_streaming else answer
    finally:
        acks.close()
        if method.server_streaming:
            answer.cancel()


def _intruders(
    authority: Authority, new_authority: Callable[..., Authority]
) -> dict[str, tuple[Pair | None, set[str]]]:
    tls = {"UNAVAILABLE"}
    told = {"UNAUTHENTICATED"}
    return {
        "no certificate": (None, tls),
        "another authority of the same name": (new_authority().controller(), tls),
        "expired": (authority.controller(start_s=-100, end_s=-10), tls),
        "not valid yet": (authority.controller(start_s=1_000), tls),
        "an agent": (authority.agent(), told),
        "another site": (authority.issue("weighbridge://site2/controller/main"), told),
        "no identity": (authority.issue(), told),
        "two identities": (
            authority.issue("weighbridge://site1/controller/main", "weighbridge://site1/controller/other"),
            told,
        ),
        "another scheme": (authority.issue("https://site1/controller/main"), told),
        "role in another place": (authority.issue("weighbridge://site1/x/controller/main"), told),
        "more before": (authority.issue("https://x?weighbridge://site1/controller/main"), told),
        "more behind": (authority.issue("weighbridge://site1/controller/main/more"), told),
    }


@pytest.mark.parametrize("method", _METHODS, ids=lambda method: method.name)
def test_every_rpc_refuses_everyone_but_a_controller(
    method: Any, server: Server, authority: Authority, new_authority: Callable[..., Authority]
) -> None:
    for who, (pair, statuses) in _intruders(authority, new_authority).items():
        with pytest.raises(grpc.RpcError) as refused:
            _call(server.channel(pair), method)
        assert refused.value.code().name in statuses, f"{who}: {refused.value}"
    plain = grpc.insecure_channel(f"127.0.0.1:{server.installation.port}")
    with pytest.raises(grpc.RpcError):
        _call(plain, method)
    plain.close()
    assert server.agent.recorder.snapshot()[0].acknowledged == 0, "nobody's acknowledgement was taken"
    assert _call(server.channel(authority.controller()), method) is not None, "the right caller gets in"


@pytest.mark.parametrize("method", _METHODS, ids=lambda method: method.name)
def test_every_rpc_refuses_a_certificate_that_expired_on_an_open_connection(
    method: Any, server: Server, authority: Authority
) -> None:
    channel = server.channel(authority.controller())
    assert _call(channel, method) is not None
    server.service.now = lambda: credentials.utc_now() + timedelta(hours=2)
    with pytest.raises(grpc.RpcError) as refused:
        _call(channel, method)
    assert refused.value.code() is grpc.StatusCode.UNAUTHENTICATED
    assert "valid from" in _details(refused)


def _revoke(server: Server, pair: Pair) -> None:
    digest = x509.load_pem_x509_certificate(pair.certificate).fingerprint(hashes.SHA256()).hex()
    server.installation.config.with_name("revoked").write_text(f"{'ab' * 32} another's\n{digest} whose it was\n")


@pytest.mark.parametrize("method", _METHODS, ids=lambda method: method.name)
def test_every_rpc_refuses_a_certificate_that_was_revoked_on_an_open_connection(
    method: Any, server: Server, authority: Authority
) -> None:
    evicted, other = authority.controller(), authority.controller()
    channel = server.channel(evicted)
    assert _call(channel, method) is not None
    _revoke(server, evicted)
    with pytest.raises(grpc.RpcError) as refused:
        _call(channel, method)
    assert refused.value.code() is grpc.StatusCode.UNAUTHENTICATED
    assert "was revoked" in _details(refused)
    assert _call(server.channel(other), method) is not None, "whoever was not revoked gets in"


def test_an_open_stream_ends_when_the_certificate_is_revoked(server: Server, authority: Authority) -> None:
    evicted = authority.controller()
    acks = Acks(0)
    stream = server.stub(evicted).StreamFrames(acks, timeout=_WAIT_S)
    assert [_sequence(next(stream)) for _ in range(3)] == [1, 2, 3]
    _revoke(server, evicted)
    with pytest.raises(grpc.RpcError) as ended:
        next(stream)
    acks.close()
    assert ended.value.code() is grpc.StatusCode.UNAUTHENTICATED


def test_a_list_of_revoked_certificates_that_cannot_be_read_lets_nobody_in(
    server: Server, installation: Installation
) -> None:
    path = installation.config.with_name("revoked")
    for text in ("no digest\n", "AB" * 32 + "\n", "ab" * 31 + "\n", "\n", "\xff" * 3):
        path.write_text(text, encoding="latin-1")
        with pytest.raises(grpc.RpcError) as refused:
            server.stub().Describe(agent_pb2.DescribeRequest(), timeout=_WAIT_S)
        assert refused.value.code() is grpc.StatusCode.UNAUTHENTICATED
        assert "cannot be read" in _details(refused)
    path.unlink()
    assert server.stub().Describe(agent_pb2.DescribeRequest(), timeout=_WAIT_S).agent


def test_an_open_stream_ends_when_the_certificate_expires(server: Server, authority: Authority) -> None:
    """Nothing else happens: no frame comes that would wake the stream."""
    acks = Acks(0)
    stream = server.stub(authority.controller()).StreamFrames(acks, timeout=_WAIT_S)
    assert [_sequence(next(stream)) for _ in range(3)] == [1, 2, 3]
    server.service.now = lambda: credentials.utc_now() + timedelta(hours=2)
    with pytest.raises(grpc.RpcError) as ended:
        next(stream)
    acks.close()
    assert ended.value.code() is grpc.StatusCode.UNAUTHENTICATED


def test_a_stream_sends_what_is_stored_and_then_what_comes(server: Server, controller: Controller) -> None:
    acks = Acks(1)
    stream = server.stub().StreamFrames(acks, timeout=_WAIT_S)
    assert [_sequence(next(stream)) for _ in range(2)] == [2, 3]
    for sequence in range(4, 40):
        server.agent.tick()
        signed = next(stream)
        assert _sequence(signed) == sequence
        acks.send(sequence)
    _until(lambda: server.agent.recorder.snapshot()[0].acknowledged == 39)
    assert server.agent.recorder.snapshot()[1].frames == 0
    acks.close()
    assert list(stream) == [], "a caller that will acknowledge no more gets what is stored, then the end"


def test_frames_arrive_as_they_were_signed(server: Server, authority: Authority) -> None:
    raw = server.channel(authority.controller()).stream_stream(
        "/weighbridge.v1.AgentService/StreamFrames", agent_pb2.Acknowledgement.SerializeToString, bytes
    )
    received = list(raw(iter([agent_pb2.Acknowledgement(acknowledged_sequence=0)]), timeout=_WAIT_S))
    assert received == [signed for _, signed in server.agent.recorder.frames_after(0, 10)]


def test_the_newest_stream_wins(server: Server) -> None:
    old_acks, new_acks = Acks(0), Acks(3)
    old = server.stub().StreamFrames(old_acks, timeout=_WAIT_S)
    assert [_sequence(next(old)) for _ in range(3)] == [1, 2, 3]
    new = server.stub().StreamFrames(new_acks, timeout=_WAIT_S)
    with pytest.raises(grpc.RpcError) as ended:
        next(old)
    assert ended.value.code() is grpc.StatusCode.ABORTED
    assert "newer stream" in _details(ended)
    server.agent.tick()
    assert _sequence(next(new)) == 4
    old_acks.close()
    new_acks.close()


def test_streams_that_are_not_read_do_not_keep_a_new_one_out(server: Server, authority: Authority) -> None:
    """Each of these is stuck in a frame that its client does not take; they are cancelled, all workers come free."""
    server.agent.tick(600)
    before = threading.active_count()
    stuck = []
    for _ in range(service._WORKERS + 2):
        acks = Acks(0)
        # A small window, so that some frames fill it.
        channel = server.channel(authority.controller(), window=1_024)
        # Longer than the test: that its time ran out is not how a worker comes free.
        call = _stub(channel).StreamFrames(acks, timeout=100 * _WAIT_S)
        started = time.monotonic()
        _sequence(next(call))
        assert time.monotonic() - started < 50 * _WAIT_S, "no worker came free"
        stuck.append((call, acks))
    reader_acks = Acks(0)
    reader = server.stub().StreamFrames(reader_acks, timeout=_WAIT_S)
    assert [_sequence(next(reader)) for _ in range(603)] == list(range(1, 604))
    for call, acks in stuck:
        acks.close()
        call.cancel()
    reader_acks.close()
    _until(lambda: not server.service._streams._open)
    _until(lambda: threading.active_count() <= before + service._WORKERS)


def test_not_one_frame_more_once_the_certificate_has_expired(server: Server, authority: Authority) -> None:
    """Also in the middle of what was read together."""

    class Context:
        def auth_context(self) -> dict[str, list[bytes]]:
            return {"x509_pem_cert": [authority.controller().certificate]}

        def is_active(self) -> bool:
            return True

        def abort(self, status: grpc.StatusCode, text: str) -> None:
            raise PermissionError(status, text)

    acks = Acks(0)
    frames = server.service.StreamFrames(acks, Context())
    next(frames)
    server.service.now = lambda: credentials.utc_now() + timedelta(hours=2)
    with pytest.raises(PermissionError, match="UNAUTHENTICATED"):
        next(frames)
    acks.close()


def test_an_acknowledgement_of_a_frame_never_made_is_refused(server: Server) -> None:
    for acks in (Acks(4), Acks(0, 4)):
        stream = server.stub().StreamFrames(acks, timeout=_WAIT_S)
        with pytest.raises(grpc.RpcError) as ended:
            list(stream)
        assert ended.value.code() is grpc.StatusCode.FAILED_PRECONDITION
        assert "newest is 3" in _details(ended)
        acks.close()
    assert server.agent.recorder.snapshot()[0].acknowledged == 0


def test_a_stream_must_say_from_where(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "_FIRST_MESSAGE_S", 0.1)
    acks = Acks()
    with pytest.raises(grpc.RpcError) as ended:
        next(server.stub().StreamFrames(acks, timeout=_WAIT_S))
    assert ended.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
    assert "from where" in _details(ended)
    acks.close()


def test_a_connection_ends_at_its_age(
    installation: Installation,
    start_agent: Callable[..., Agent],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert dict(service._OPTIONS)["grpc.max_connection_age_ms"] == 3_600_000
    options = dict(service._OPTIONS) | {"grpc.max_connection_age_ms": 300, "grpc.max_connection_age_grace_ms": 100}
    monkeypatch.setattr(service, "_OPTIONS", tuple(options.items()))
    (tmp_path / "home").mkdir()
    with ExitStack() as closing:
        agent = start_agent(Disk(), home=tmp_path / "home")
        closing.callback(agent.recorder.close)
        server = Server(agent, installation, closing)
        acks = Acks(0)
        stream = server.stub().StreamFrames(acks, timeout=_WAIT_S)
        with pytest.raises(grpc.RpcError) as ended:
            next(stream)
        acks.close()
        assert ended.value.code() is grpc.StatusCode.UNAVAILABLE


def test_clock_exchange_brackets(server: Server) -> None:
    reply = server.stub().ExchangeClock(agent_pb2.ClockRequest(), timeout=_WAIT_S)
    now = server.agent.clock.monotonic_ns()
    assert reply.received_monotonic_ns == reply.sent_monotonic_ns == reply.clock.monotonic_ns == now
    assert reply.clock.boot_id == server.agent.clock.boot_id


def test_describe_says_who_and_what(server: Server) -> None:
    told = server.stub().Describe(agent_pb2.DescribeRequest(), timeout=_WAIT_S)
    assert (told.agent, told.agent_version, told.bundle_sha256) == ("node1-dpu0", "1.2.3", "ab" * 32)
    assert told.frame_public_key == server.agent.recorder.public_key.public_bytes_raw()
    assert (told.last_sequence, told.spool.frames, told.agent_start) == (3, 3, 1)
    assert [(port.port, port.source) for port in told.ports] == [("pf0hpf", "memory"), ("p0", "memory")]
    assert list(told.ports[0].sees) == ["what was set"]


def test_a_port_that_is_gone_is_described_as_missing(server: Server) -> None:
    del server.agent.counters.ports["p0"]
    server.agent.recorder.record(server.agent.counters.read(server.service._config.ports))
    told = server.stub().Describe(agent_pb2.DescribeRequest(), timeout=_WAIT_S)
    assert [port.missing for port in told.ports] == [0, 1]


def _until(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _WAIT_S
    while not true():
        assert time.monotonic() < deadline, "it did not come to be in time"
        time.sleep(0.01)
