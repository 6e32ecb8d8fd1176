"""Collecting from an agent: each frame once, whatever happens to the connection; nothing bad taken for good."""

from __future__ import annotations

import asyncio
import base64
import json
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING

import grpc
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from controller.collect import agents, channel, clocks, pace, session
from controller.collect.agents import AgentCollector
from controller.collect.attempts import Look, Reason
from controller.collect.channel import failure_of
from controller.collect.classtables import ClassTableSender
from controller.credentials import Credential
from controller.deploy.enrolment import Enrolment, enrol
from controller.framenumbers import GAP
from controller.journal import Kind
from controller.journal_fsck import fsck
from controller.pki import Identity, Role
from protos.v1 import frame_pb2

if TYPE_CHECKING:
    from tests.controller.collect.conftest import AgentDouble, Surroundings

pytestmark = pytest.mark.loopback


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pace.Backoff, "next_s", lambda _: 0.02)
    monkeypatch.setattr(clocks, "CLOCK_TIMEOUT_S", 0.3)


async def _collect(
    surroundings: Surroundings,
    agent: AgentDouble,
    until: Callable[[], bool],
    *,
    meanwhile: Callable[[], Awaitable[None]] | None = None,
    starts: bool = True,
) -> None:
    """Run a collector until ``until`` is true; give up after 10 s."""
    if starts:
        await agent.start()
    try:
        await _run_collector(surroundings, agent, until, meanwhile)
    finally:
        await agent.stop()
    assert until(), f"not reached within 10 s; said: {surroundings.said.getvalue()}"


async def _run_collector(
    surroundings: Surroundings,
    agent: AgentDouble,
    until: Callable[[], bool],
    meanwhile: Callable[[], Awaitable[None]] | None,
) -> None:
    async with surroundings.recorder() as recorder:
        collector = AgentCollector(
            agent.dpu,
            journal=surroundings.journal,
            recorder=recorder,
            load_credential=surroundings.credential,
            clock_interval_ns=50_000_000,
            timeline="controller-boot",
            tables=ClassTableSender(agent.dpu, [], journal=surroundings.journal, recorder=recorder),
        )
        running = asyncio.ensure_future(collector.run())
        other = asyncio.ensure_future(meanwhile()) if meanwhile else None
        for _ in range(500):
            await asyncio.sleep(0.02)
            if until() or running.done():
                break
        if other is not None:
            await other
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running


def _reasons(surroundings: Surroundings) -> set[str]:
    return {attempt["reason"] for attempt in surroundings.attempts()}


def test_frames_are_kept_as_received_and_acknowledged(surroundings: Surroundings, agent: AgentDouble) -> None:
    surroundings.enrol(agent)
    agent.make_frames(100)
    asyncio.run(_collect(surroundings, agent, lambda: agent.acknowledged == 100))
    assert surroundings.frames() == agent.frames
    sequences = [e.sequence for e in surroundings.journal.entries(kinds=[Kind.FRAME])]
    assert sequences == list(range(1, 101))
    entry = surroundings.journal.last(Kind.FRAME)
    assert entry is not None
    assert entry.meta == {"received_ns": str(entry.recorded_ns)}
    assert surroundings.attempts() == []
    assert surroundings.said.getvalue().count("frames arrive") == 1


def test_clocks_are_exchanged_and_journaled(surroundings: Surroundings, agent: AgentDouble) -> None:
    surroundings.enrol(agent)

    def count() -> int:
        return len(list(surroundings.journal.entries(kinds=[Kind.CLOCK])))

    asyncio.run(_collect(surroundings, agent, lambda: count() >= 5))
    for entry in surroundings.journal.entries(kinds=[Kind.CLOCK]):
        body = json.loads(entry.body)
        t1, t2, t3, t4 = (int(body[key]) for key in ("t1", "t2", "t3", "t4"))
        assert t1 <= t4 == entry.recorded_ns
        assert t2 <= t3
        assert body["boot_id"]
        assert body["timeline"] == "controller-boot"
        assert int(body["monotonic_raw_ns"]) > agent.offset_ns
        assert int(body["controller_raw_ns"]) > 0


def test_every_frame_once_through_kills_cuts_and_repetitions(surroundings: Surroundings, agent: AgentDouble) -> None:
    surroundings.enrol(agent)
    agent.cut_after, agent.repeat = 17, 5

    async def disturb() -> None:
        for _ in range(10):
            agent.make_frames(20)
            await asyncio.sleep(0.05)
            await agent.stop()
            await asyncio.sleep(0.03)
            await agent.start()
        agent.make_frames(1)

    asyncio.run(_collect(surroundings, agent, lambda: agent.acknowledged == 201, meanwhile=disturb))
    assert agent.sessions > 10
    assert surroundings.frames() == agent.frames
    assert _reasons(surroundings) <= {Reason.UNREACHABLE.value, Reason.CONNECTION_REFUSED.value}, (
        surroundings.attempts()
    )


def test_nothing_is_acknowledged_before_it_is_on_the_disk(
    surroundings: Surroundings, agent: AgentDouble, monkeypatch: pytest.MonkeyPatch
) -> None:
    surroundings.enrol(agent)
    agent.make_frames(50)
    append = type(surroundings.journal).append
    seen: list[tuple[int, int]] = []

    def slow(journal: object, *entries: object) -> object:
        before = agent.acknowledged
        result = append(journal, *entries)  # type: ignore[arg-type]
        seen.append((before, surroundings.journal.last_sequence(Kind.FRAME, agent.name)))
        return result

    monkeypatch.setattr(type(surroundings.journal), "append", slow)
    acknowledge = channel.FrameStream.acknowledge

    async def checked(stream: channel.FrameStream, sequence: int) -> None:
        assert sequence <= surroundings.journal.last_sequence(Kind.FRAME, agent.name)
        await acknowledge(stream, sequence)

    monkeypatch.setattr(channel.FrameStream, "acknowledge", checked)
    asyncio.run(_collect(surroundings, agent, lambda: agent.acknowledged == 50))
    assert all(acknowledged <= on_disk for acknowledged, on_disk in seen)


def test_an_agent_that_is_not_enrolled_gives_nothing(surroundings: Surroundings, agent: AgentDouble) -> None:
    agent.make_frames(3)
    asyncio.run(_collect(surroundings, agent, lambda: len(surroundings.attempts()) >= 2))
    assert surroundings.frames() == []
    assert _reasons(surroundings) == {Reason.NOT_ENROLLED.value}
    assert "weighbridge agents deploy node1-dpu0" in surroundings.attempts()[0]["text"]
    assert surroundings.said.getvalue().count("not enrolled") == 1, "told once, not at every look"


def test_enrolment_while_running_takes_effect(surroundings: Surroundings, agent: AgentDouble) -> None:
    agent.make_frames(3)

    async def enrol() -> None:
        await asyncio.sleep(0.2)
        surroundings.enrol(agent)

    asyncio.run(_collect(surroundings, agent, lambda: agent.acknowledged == 3, meanwhile=enrol))
    assert surroundings.frames() == agent.frames


def test_another_key_than_the_enrolled_one_is_refused(surroundings: Surroundings, agent: AgentDouble) -> None:
    other = Ed25519PrivateKey.generate().public_key().public_bytes_raw()
    surroundings.enrol(agent, public_key=other)
    agent.make_frames(3)
    asyncio.run(_collect(surroundings, agent, lambda: len(surroundings.attempts()) >= 1))
    assert surroundings.frames() == []
    assert _reasons(surroundings) == {Reason.OTHER_KEY.value}


def test_an_agent_whose_key_was_replaced_begins_again(surroundings: Surroundings, agent: AgentDouble) -> None:
    surroundings.enrol(agent)
    agent.make_frames(5)
    asyncio.run(_collect(surroundings, agent, lambda: len(surroundings.frames()) == 5))
    # Another DPU under the old name: a key of its own, and frames from 1.
    agent.key = Ed25519PrivateKey.generate()
    agent.frames, agent.acknowledged, agent._last_sha256 = [], 0, b""
    agent.make_frames(3)
    shown = Enrolment(agent.name, agent.public_key, "", "0")
    assert enrol(surroundings.journal, time.time_ns, shown, replace_key=True)
    asyncio.run(_collect(surroundings, agent, lambda: len(surroundings.frames()) == 8))
    agent.make_frames(2)
    asyncio.run(_collect(surroundings, agent, lambda: len(surroundings.frames()) == 10))
    numbers = [entry.sequence for entry in surroundings.journal.entries(kinds=[Kind.FRAME])]
    assert numbers == [1, 2, 3, 4, 5, *(5 + GAP + own for own in (1, 2, 3, 4, 5))]
    found = fsck(surroundings.journal)
    assert (found.faults, found.frames, found.holes) == ((), 10, ())


def test_a_frame_signed_with_another_key_is_refused_and_those_before_it_kept(
    surroundings: Surroundings, agent: AgentDouble
) -> None:
    surroundings.enrol(agent)
    agent.make_frames(5)
    agent.make_frames(1, key=Ed25519PrivateKey.generate())
    agent.make_frames(5)
    asyncio.run(_collect(surroundings, agent, lambda: len(surroundings.attempts()) >= 2))
    assert surroundings.frames() == agent.frames[:5]
    assert agent.acknowledged == 5
    assert _reasons(surroundings) == {Reason.BAD_SIGNATURE.value}
    assert "evidence_base64" not in surroundings.attempts()[0], "not signed by the agent: proves nothing"


def test_a_fork_of_the_chain_is_refused_and_kept_as_evidence(surroundings: Surroundings, agent: AgentDouble) -> None:
    surroundings.enrol(agent)
    agent.make_frames(5)
    agent._last_sha256 = b"\x00" * 32
    agent.make_frames(1)
    asyncio.run(_collect(surroundings, agent, lambda: len(surroundings.attempts()) >= 1))
    assert surroundings.frames() == agent.frames[:5]
    assert _reasons(surroundings) == {Reason.BROKEN_CHAIN.value}
    assert base64.b64decode(surroundings.attempts()[0]["evidence_base64"]) == agent.frames[5]


def test_two_frames_under_one_number_are_a_conflict(surroundings: Surroundings, agent: AgentDouble) -> None:
    surroundings.enrol(agent)
    agent.make_frames(5)
    asyncio.run(_collect(surroundings, agent, lambda: agent.acknowledged == 5))
    first = list(agent.frames)
    agent.frames, agent._last_sha256, agent.repeat = first[:3], b"", 3
    agent.make_frames(2)
    asyncio.run(_collect(surroundings, agent, lambda: len(surroundings.attempts()) >= 1))
    assert surroundings.frames() == first
    assert _reasons(surroundings) == {Reason.CONFLICT.value}
    assert base64.b64decode(surroundings.attempts()[0]["evidence_base64"]) in agent.frames


@pytest.mark.parametrize(
    ("tamper", "reason"),
    [
        (lambda raw: b"\xff" + raw, Reason.MALFORMED),
        (lambda _: b"", Reason.MALFORMED),
        (lambda raw: raw[:-1], Reason.MALFORMED),
        (lambda raw: _repacked(raw, body=b"\x08\x02"), Reason.MALFORMED),
        (lambda raw: _repacked(raw, signature=b"\x01" * 64), Reason.BAD_SIGNATURE),
        (lambda raw: _repacked(raw, signature=b""), Reason.BAD_SIGNATURE),
        (lambda raw: raw.replace(b"node1", b"node2"), Reason.BAD_SIGNATURE),
        (lambda _: bytes(2**20 + 1), Reason.TOO_LARGE),
    ],
)
def test_bytes_that_are_no_frame_of_this_agent_are_refused(
    surroundings: Surroundings, agent: AgentDouble, tamper: Callable[[bytes], bytes], reason: Reason
) -> None:
    surroundings.enrol(agent)
    agent.make_frames(3)
    agent.tamper = lambda sequence, raw: tamper(raw) if sequence == 3 else raw
    asyncio.run(_collect(surroundings, agent, lambda: len(surroundings.attempts()) >= 2))
    assert surroundings.frames() == agent.frames[:2]
    # Breaking off a stream in the middle can cost its connection: the look after it may find none.
    assert _reasons(surroundings) - {Reason.UNREACHABLE.value} == {reason.value}


def _repacked(raw: bytes, *, body: bytes | None = None, signature: bytes | None = None) -> bytes:
    signed = frame_pb2.SignedFrame.FromString(raw)
    signed.body = signed.body if body is None else body
    signed.signature = signed.signature if signature is None else signature
    return signed.SerializeToString()


def test_the_bytes_in_the_journal_are_those_on_the_wire(surroundings: Surroundings, agent: AgentDouble) -> None:
    """The signature before the body: as good a message, other bytes. Serialising again would swap them."""
    surroundings.enrol(agent)
    agent.make_frames(2)
    signed = frame_pb2.SignedFrame.FromString(agent.frames[1])
    swapped = (
        frame_pb2.SignedFrame(signature=signed.signature).SerializeToString()
        + frame_pb2.SignedFrame(body=signed.body).SerializeToString()
    )
    assert swapped != agent.frames[1]
    agent.tamper = lambda sequence, raw: swapped if sequence == 2 else raw
    asyncio.run(_collect(surroundings, agent, lambda: agent.acknowledged == 2))
    assert surroundings.frames() == [agent.frames[0], swapped]


def test_numbers_passed_over_are_said_and_collection_goes_on(surroundings: Surroundings, agent: AgentDouble) -> None:
    surroundings.enrol(agent)
    agent.make_frames(3)
    agent.make_frames(2, skip=4)
    asyncio.run(_collect(surroundings, agent, lambda: agent.acknowledged == 9))
    assert surroundings.frames() == agent.frames
    [attempt] = surroundings.attempts()
    assert attempt["reason"] == Reason.FRAMES_MISSING.value
    assert "frames 4 to 7 never came" in attempt["text"]


def test_a_number_that_no_agent_reaches_is_refused_and_does_not_end_the_run(
    surroundings: Surroundings, agent: AgentDouble
) -> None:
    """The journal cannot hold it: were it tried, every collector whose entries wait beside it would fail too."""
    surroundings.enrol(agent)
    agent.make_frames(3)
    agent.make_frames(1, skip=2**63)
    asyncio.run(_collect(surroundings, agent, lambda: Reason.MALFORMED.value in _reasons(surroundings)))
    assert surroundings.frames() == agent.frames[:3]
    assert base64.b64decode(surroundings.attempts()[0]["evidence_base64"]) == agent.frames[3]


def test_an_agent_that_is_not_there(surroundings: Surroundings, agent: AgentDouble) -> None:
    surroundings.enrol(agent)
    agent.port = 9  # discard: nothing listens there
    asyncio.run(_collect(surroundings, agent, lambda: len(surroundings.attempts()) >= 3, starts=False))
    assert _reasons(surroundings) == {Reason.CONNECTION_REFUSED.value}
    attempt = surroundings.attempts()[0]
    assert int(attempt["first_sent_ns"]) <= int(attempt["gave_up_ns"])
    assert surroundings.said.getvalue().count("is not running") == 1


@pytest.mark.parametrize(
    ("certificate", "reason"),
    [("late", Reason.CERTIFICATE_EXPIRED), ("elsewhere", Reason.CERTIFICATE_REJECTED)],
)
def test_an_agents_bad_certificate_is_named(
    surroundings: Surroundings, agent: AgentDouble, certificate: str, reason: Reason
) -> None:
    surroundings.enrol(agent)
    agent.certificate = certificate
    asyncio.run(_collect(surroundings, agent, lambda: len(surroundings.attempts()) >= 1))
    assert _reasons(surroundings) == {reason.value}


def test_what_listens_there_but_speaks_no_tls_is_told(surroundings: Surroundings, agent: AgentDouble) -> None:
    surroundings.enrol(agent)

    async def go() -> None:
        async def greet(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(b"SSH-2.0-OpenSSH_9.2\r\n")
            await writer.drain()
            writer.close()

        server = await asyncio.start_server(greet, "127.0.0.1", 0)
        agent.port = server.sockets[0].getsockname()[1]
        async with server:
            await _collect(surroundings, agent, lambda: len(surroundings.attempts()) >= 1, starts=False)

    asyncio.run(go())
    assert surroundings.attempts()[0]["reason"] == Reason.MALFORMED.value


@pytest.mark.parametrize(
    ("certificate", "reason"),
    [("short", Reason.CERTIFICATE_EXPIRED), ("stranger", Reason.CERTIFICATE_REJECTED)],
)
def test_the_controllers_own_bad_certificate_is_named(
    surroundings: Surroundings, agent: AgentDouble, certificate: str, reason: Reason
) -> None:
    surroundings.enrol(agent)
    surroundings.certificate = certificate
    asyncio.run(_collect(surroundings, agent, lambda: len(surroundings.attempts()) >= 1))
    assert _reasons(surroundings) == {reason.value}
    assert f"{certificate}.pem" in surroundings.attempts()[0]["text"]


def test_a_clock_that_does_not_answer_ends_the_session_after_three(
    surroundings: Surroundings, agent: AgentDouble
) -> None:
    surroundings.enrol(agent)
    agent.stops_clock = True
    asyncio.run(_collect(surroundings, agent, lambda: agent.sessions >= 2))
    looks = [(attempt["what"], attempt["reason"]) for attempt in surroundings.attempts()]
    assert looks[:3] == [(Look.CLOCK.value, Reason.TIMEOUT.value)] * 3


def test_a_clock_that_goes_backwards_is_malformed(surroundings: Surroundings, agent: AgentDouble) -> None:
    surroundings.enrol(agent)
    agent.clock_lies_ns = 10**12
    asyncio.run(_collect(surroundings, agent, lambda: len(surroundings.attempts()) >= 1))
    assert _reasons(surroundings) == {Reason.MALFORMED.value}
    assert list(surroundings.journal.entries(kinds=[Kind.CLOCK])) == []


def test_a_long_session_is_renewed_without_a_failed_look(
    surroundings: Surroundings, agent: AgentDouble, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "LONGEST_SESSION_S", 0.3)
    surroundings.enrol(agent)

    async def flow() -> None:
        for _ in range(60):
            agent.make_frames(1)
            await asyncio.sleep(0.02)

    done = lambda: agent.sessions >= 4 and agent.acknowledged == 60  # noqa: E731
    asyncio.run(_collect(surroundings, agent, done, meanwhile=flow))
    assert surroundings.frames() == agent.frames
    assert surroundings.attempts() == []
    assert surroundings.said.getvalue().count("answers") == 2, "agent and clock, once each"


def test_silence_while_reachable_is_said(
    surroundings: Surroundings, agent: AgentDouble, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(agents, "SILENT_AFTER_LEAST_NS", 300_000_000)
    surroundings.enrol(agent)
    agent.make_frames(3)
    agent.holds_frames = True
    asyncio.run(_collect(surroundings, agent, lambda: len(surroundings.attempts()) >= 1))
    [attempt, *_] = surroundings.attempts()
    assert (attempt["what"], attempt["reason"]) == (Look.FRAMES.value, Reason.SILENT.value)
    assert int(attempt["gave_up_ns"]) - int(attempt["first_sent_ns"]) >= 300_000_000


def _credential(left: timedelta) -> Credential:
    now = datetime.now(tz=timezone.utc)
    return Credential(Identity("demo", Role.CONTROLLER, "main"), b"", b"", b"", now, now + left)


@pytest.mark.parametrize(
    ("code", "details", "left", "reason"),
    [
        (grpc.StatusCode.UNAVAILABLE, "failed to connect to all addresses", 60, Reason.UNREACHABLE),
        (
            grpc.StatusCode.UNAVAILABLE,
            "CERTIFICATE_VERIFY_FAILED: certificate has expired",
            60,
            Reason.CERTIFICATE_EXPIRED,
        ),
        (grpc.StatusCode.UNAVAILABLE, "Hostname Verification Check failed.", 60, Reason.CERTIFICATE_REJECTED),
        (grpc.StatusCode.UNAVAILABLE, "SSL_ERROR_SSL: TLSV1_ALERT_UNKNOWN_CA", 60, Reason.CERTIFICATE_REJECTED),
        (grpc.StatusCode.UNAVAILABLE, "Handshake read failed (Socket closed)", 60, Reason.UNREACHABLE),
        (grpc.StatusCode.UNAVAILABLE, "Connection refused", 60, Reason.CONNECTION_REFUSED),
        (grpc.StatusCode.UNAVAILABLE, "Stream removed (Socket closed)", 60, Reason.UNREACHABLE),
        (grpc.StatusCode.UNAVAILABLE, "Socket closed", -1, Reason.CERTIFICATE_EXPIRED),
        (grpc.StatusCode.UNAUTHENTICATED, "expired", 60, Reason.DENIED),
        (grpc.StatusCode.PERMISSION_DENIED, "role", 60, Reason.DENIED),
        (grpc.StatusCode.DEADLINE_EXCEEDED, "", 60, Reason.TIMEOUT),
        (grpc.StatusCode.RESOURCE_EXHAUSTED, "", 60, Reason.TOO_LARGE),
        (grpc.StatusCode.UNIMPLEMENTED, "", 60, Reason.REFUSED),
    ],
)
def test_what_an_rpcs_failure_means(code: grpc.StatusCode, details: str, left: int, reason: Reason) -> None:
    error = grpc.aio.AioRpcError(code, grpc.aio.Metadata(), grpc.aio.Metadata(), details=details)
    failure = failure_of(error, Look.FRAMES, "agent x", credential=_credential(timedelta(seconds=left)))
    assert failure.reason is reason
    assert "agent x" in failure.text


def test_a_catch_up_is_written_in_groups(surroundings: Surroundings, agent: AgentDouble) -> None:
    """2,000 spooled frames cost far fewer transactions than frames."""
    surroundings.enrol(agent)
    agent.make_frames(2000)
    commits = 0
    append = type(surroundings.journal).append

    def counted(journal: object, *entries: object) -> object:
        nonlocal commits
        commits += 1
        return append(journal, *entries)  # type: ignore[arg-type]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(surroundings.journal), "append", counted)
        asyncio.run(_collect(surroundings, agent, lambda: agent.acknowledged == 2000))
    assert surroundings.frames() == agent.frames
    assert commits < 400
