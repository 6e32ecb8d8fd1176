"""Collects from one agent: its frames, acknowledged once they are on the disk, and clock exchanges beside them.

A *session* is one connection. It ends at the first thing that is not as it should be, which is journaled, and the next
one begins after a wait; so whatever happens to either side, collection goes on from the last frame on the disk.

What keeps every frame exactly once: the agent holds a frame until it is acknowledged; an acknowledgement is sent only
after the journal's transaction is on the disk; the journal refuses a second frame with the same agent and number.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable

import grpc

from controller.collect.attempts import Look, LookFailed, Reason
from controller.collect.channel import AgentChannel, failure_of, load_or_fail
from controller.collect.classtables import ClassTableSender
from controller.collect.clocks import ClockExchanger
from controller.collect.framechain import FrameChain
from controller.collect.pace import Backoff
from controller.collect.recorder import Recorder
from controller.collect.session import Session
from controller.credentials import Credential
from controller.errors import EvidenceError
from controller.framenumbers import numbering
from controller.journal import Journal, Kind
from controller.site import Dpu
from protos.signing import SignatureRejected, fingerprint, load_public_key
from protos.units import format_duration
from protos.v1 import agent_pb2
from protos.wire import WireError

DESCRIBE_TIMEOUT_S = 5.0
SILENT_AFTER_INTERVALS = 10
SILENT_AFTER_LEAST_NS = 10_000_000_000
"""An agent that answers, but has sent no frame for so long, is silent while reachable."""


class AgentCollector:
    """Collects from one agent until cancelled."""

    def __init__(
        self,
        dpu: Dpu,
        *,
        journal: Journal,
        recorder: Recorder,
        load_credential: Callable[[], Credential],
        clock_interval_ns: int,
        timeline: str,
        tables: ClassTableSender,
    ) -> None:
        """``timeline`` is the boot id of the controller's timeline. The journal is only read here."""
        self._tables = tables
        self._dpu = dpu
        self._who = f"agent {dpu.name} at {dpu.agent}"
        self._journal, self._recorder = journal, recorder
        self._load_credential = load_credential
        self._clock_interval_ns, self._timeline = clock_interval_ns, timeline

    async def run(self) -> None:
        """Hold sessions, one after the other; wait longer after each that brought nothing. Never returns."""
        backoff = Backoff(self._recorder.rng)
        while True:
            session = Session(self._dpu.name, self._recorder, self._tables.seen)
            try:
                await self._hold(session)
            except LookFailed as failure:
                await self._recorder.failed(self._dpu.name, failure, first_sent_ns=session.look_since_ns)
            if session.brought_something:
                backoff.reset()
            await asyncio.sleep(backoff.next_s())

    async def _hold(self, session: Session) -> None:
        """Hold one session; return when the agent ended it in good order.

        1. Our own credential can be used, and the agent's key is enrolled.
        2. The agent at the address is the one enrolled: its name and its key.
        3. Frames and clock exchanges run side by side; the first to fail ends both.

        Raises:
            LookFailed: anything else.
        """
        credential = load_or_fail(self._load_credential, self._dpu.name)
        enrolled = await asyncio.to_thread(self._enrolled_key)
        chain = await asyncio.to_thread(self._chain, enrolled)

        def explain(error: grpc.aio.AioRpcError, look: Look = Look.CLOCK) -> LookFailed:
            return failure_of(error, look, self._who, credential=credential)

        async with AgentChannel(str(self._dpu.agent), credential) as channel:
            try:
                description = await channel.describe(DESCRIBE_TIMEOUT_S)
                self._check_identity(description, enrolled)
                self._recorder.narrator.well(
                    self._dpu.name,
                    Look.CONNECT.value,
                    f"agent {description.agent_version} at {self._dpu.agent} answers",
                )
                exchanger = ClockExchanger(
                    self._dpu.name,
                    channel,
                    self._recorder,
                    timeline=self._timeline,
                    interval_ns=self._clock_interval_ns,
                    explain=explain,
                )
                await self._tables.begin(channel)
                silence_ns = max(SILENT_AFTER_LEAST_NS, SILENT_AFTER_INTERVALS * description.frame_interval_ns)

                async def beside() -> None:
                    await self._note_silence(session, silence_ns)
                    await self._tables.settle(channel)

                await session.collect(channel, chain, lambda: exchanger.run(beside))
            except grpc.aio.AioRpcError as error:
                raise explain(error, session.look) from error

    async def _note_silence(self, session: Session, silence_ns: int) -> None:
        """The clock has just answered: if no frame came for long, the agent is silent while reachable."""
        now_ns = self._recorder.now_ns()
        if now_ns - session.look_since_ns < silence_ns:
            return
        text = f"{self._who} answers but has sent no frame for {format_duration(now_ns - session.look_since_ns)}"
        failure = LookFailed(Look.FRAMES, Reason.SILENT, text)
        await self._recorder.failed(self._dpu.name, failure, first_sent_ns=session.look_since_ns)
        session.look_since_ns = now_ns

    def _enrolled_key(self) -> bytes:
        entry = self._journal.last(Kind.ENROLMENT, self._dpu.name)
        if entry is None:
            raise LookFailed(
                Look.CONNECT,
                Reason.NOT_ENROLLED,
                f"agent {self._dpu.name} is not enrolled, so its frames cannot be told from forged ones and none are "
                f"taken; run `weighbridge agents deploy {self._dpu.name}`",
            )
        try:
            return bytes.fromhex(json.loads(entry.body)["public_key"])
        except (ValueError, KeyError, TypeError) as error:
            raise EvidenceError(
                f"{self._journal.path}: leaf {entry.leaf} is not an enrolment this program can read. "
                "Update weighbridge on this machine, or restore the journal from a copy."
            ) from error

    def _chain(self, enrolled: bytes) -> FrameChain:
        numbers = numbering(self._journal, self._dpu.name)
        entry = self._journal.last(Kind.FRAME, self._dpu.name)
        # What came before the key was replaced is another chain.
        last = None if entry is None or (entry.sequence or 0) <= numbers.base else entry.body
        try:
            return FrameChain(self._dpu.name, load_public_key(enrolled), last=last, base=numbers.base)
        except SignatureRejected as error:
            text = f"the key that agent {self._dpu.name} was enrolled with cannot be used: {error}; deploy it again"
            raise LookFailed(Look.CONNECT, Reason.OTHER_KEY, text) from error
        except WireError as error:
            raise EvidenceError(
                f"{self._journal.path}: the last frame of {self._dpu.name} cannot be read: {error}"
            ) from error

    def _check_identity(self, description: agent_pb2.AgentDescription, enrolled: bytes) -> None:
        if description.agent != self._dpu.name:
            text = f"the agent at {self._dpu.agent} says it is {description.agent!r}, not {self._dpu.name!r}"
            raise LookFailed(Look.CONNECT, Reason.OTHER_KEY, f"{text}; correct the address in the site file")
        if description.frame_public_key != enrolled:
            raise LookFailed(
                Look.CONNECT,
                Reason.OTHER_KEY,
                f"{self._who} signs with the key {fingerprint(description.frame_public_key)[:16]}, enrolled is "
                f"{fingerprint(enrolled)[:16]}: its state was lost or it is another machine. Its frames are not taken; "
                "if the DPU was replaced, or its state lost, deploy it with --replace-key",
            )
