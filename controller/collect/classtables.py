"""Keeps one agent's class table what the site file says: sends it, numbered and journaled, and watches the frames.

Every frame carries the hash of the table it was counted by. One that is made after the agent had said which table is
in force, and carries another hash, is journaled as a failed look and told; then the table is sent again.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import grpc
from google.protobuf.message import DecodeError

from controller.classtables import body_of, signed_table
from controller.collect.attempts import Look, LookFailed, Reason
from controller.collect.channel import AgentChannel
from controller.collect.framechain import ReceivedFrame
from controller.collect.pace import Backoff
from controller.collect.recorder import Recorder
from controller.errors import EvidenceError, OperatorError
from controller.journal import ConflictingEntryError, Journal, Kind, NewEntry
from controller.site import Dpu
from controller.verifierkey import verifier_key
from protos.signing import SignatureRejected, SigningDomain, verify
from protos.v1 import agent_pb2, meter_pb2

TIMEOUT_S = 10.0
"""An agent fills the kernel's tables before it answers."""
NS_PER_S = 1_000_000_000


@dataclass(frozen=True, slots=True)
class _InForce:
    """What the agent said: this table's hash, in every frame after that number."""

    sha256: bytes
    after_sequence: int


class ClassTableSender:
    """Keeps the class table of one agent. What fails is journaled and tried again, within the session."""

    def __init__(
        self, dpu: Dpu, entries: Sequence[meter_pb2.ClassEntry], *, journal: Journal, recorder: Recorder
    ) -> None:
        """``entries`` is the table that is wanted; ``journal`` takes it before it is sent."""
        self._dpu, self._journal, self._recorder = dpu, journal, recorder
        self._who = f"agent {dpu.name} at {dpu.agent}"
        self._entries = list(entries)
        self._backoff = Backoff(recorder.rng)
        self._in_force: _InForce | None = None
        self._strange: ReceivedFrame | None = None
        self._due_ns: int | None = 0

    def seen(self, frame: ReceivedFrame) -> None:
        """Compare the hash in a frame with the table that is in force."""
        told = self._in_force
        if told is not None and frame.sequence > told.after_sequence and frame.class_table_sha256 != told.sha256:
            self._strange = self._strange or frame

    async def begin(self, channel: AgentChannel) -> None:
        """A session begins: whatever was in force, the agent may have lost it. Else as :meth:`settle`."""
        self._in_force, self._strange = None, None
        self._due_ns = self._due_ns or 0
        await self.settle(channel)

    async def settle(self, channel: AgentChannel) -> None:
        """Do what is due, if anything; called every clock interval."""
        began_ns = self._recorder.now_ns()
        strange, self._strange = self._strange, None
        try:
            self._refuse(strange)
            if self._due_ns is None or began_ns < self._due_ns:
                return
            await self._round(channel)
        except LookFailed as failure:
            await self._recorder.failed(self._dpu.name, failure, first_sent_ns=began_ns)
            self._in_force = None
            self._due_ns = began_ns if strange is not None else began_ns + int(self._backoff.next_s() * NS_PER_S)
        else:
            self._due_ns = None
            self._backoff.reset()

    def _refuse(self, strange: ReceivedFrame | None) -> None:
        if strange is not None:
            told = strange.class_table_sha256.hex()[:16] or "no table"
            text = f"{self._who} says in frame {strange.sequence} that it counts by {told}, not by what it was sent"
            raise LookFailed(Look.CLASS_TABLE, Reason.OTHER_TABLE, text, evidence=strange.raw)

    async def _round(self, channel: AgentChannel) -> None:
        """Put the site file's table in force.

        1. Which table the agent has. A site without addresses leaves an agent without a table alone.
        2. The journal's newest table, if it is the one wanted; else a new one with a higher number than either knows,
           on the disk before it is sent.
        3. Send it unless the agent has it; ask again: from the next frame on, its hash must be in every one.

        Raises:
            LookFailed: it is not in force.
            grpc.aio.AioRpcError: the connection broke.
        """
        try:
            had = await channel.describe(TIMEOUT_S)
            if not self._entries and not had.class_table_sequence:
                return
            wanted = await asyncio.to_thread(self._table, had)
            sha256 = hashlib.sha256(wanted.body).digest()
            if had.class_table_sha256 != sha256:
                await channel.set_class_table(wanted, TIMEOUT_S)
                had = await channel.describe(TIMEOUT_S)
        except grpc.aio.AioRpcError as error:
            if (explained := self._explained(error)) is None:
                raise
            raise explained from error
        if had.class_table_sha256 != sha256:
            text = f"{self._who} took the class table, and says that another is in force"
            raise LookFailed(Look.CLASS_TABLE, Reason.OTHER_TABLE, text)
        self._in_force = _InForce(sha256, had.last_sequence)
        prefixes = f"{len(self._entries)} prefix{'' if len(self._entries) == 1 else 'es'}"
        self._recorder.narrator.well(
            self._dpu.name,
            Look.CLASS_TABLE.value,
            f"counts by class table {had.class_table_sequence} ({prefixes})",
        )

    def _table(self, had: agent_pb2.AgentDescription) -> agent_pb2.SignedClassTable:
        try:
            key = verifier_key(self._journal.path)
        except OperatorError as error:
            raise LookFailed(Look.CLASS_TABLE, Reason.DENIED, f"no class table is sent: {error}") from error
        last = self._journal.last(Kind.CLASS_TABLE, self._dpu.name)
        if last is not None and last.sequence is not None:
            kept = agent_pb2.SignedClassTable()
            try:
                kept.ParseFromString(last.body)
                verify(key.public_key(), SigningDomain.CLASS_TABLE, kept.body, kept.signature)
            except DecodeError as error:
                raise EvidenceError(
                    f"{self._journal.path}: leaf {last.leaf} is not a class table this program can read. "
                    "Update weighbridge on this machine, or restore the journal from a copy."
                ) from error
            except SignatureRejected:
                kept.Clear()  # of a key that was replaced since
            newer = last.sequence > had.class_table_sequence
            same = had.class_table_sha256 == hashlib.sha256(kept.body).digest()
            if kept.body == body_of(self._dpu.name, last.sequence, self._entries) and (newer or same):
                return kept
        known = 0 if last is None else last.sequence or 0
        sequence = max(known, had.class_table_sequence) + 1
        made = signed_table(body_of(self._dpu.name, sequence, self._entries), key)
        signed = made.SerializeToString(deterministic=True)
        entry = NewEntry(Kind.CLASS_TABLE, self._dpu.name, self._recorder.now_ns(), signed, sequence=sequence)
        try:
            self._journal.append(entry)
        except ConflictingEntryError as error:
            raise LookFailed(Look.CLASS_TABLE, Reason.CONFLICT, str(error)) from error
        return made

    def _explained(self, error: grpc.aio.AioRpcError) -> LookFailed | None:
        """What the agent says of the table; None where the connection broke, which is the session's to tell."""
        remedy = ""
        if error.code() is grpc.StatusCode.FAILED_PRECONDITION:
            remedy = f"; run `weighbridge agents deploy {self._dpu.name}`, which tells it the verifier's key"
        elif error.code() is grpc.StatusCode.UNIMPLEMENTED:
            remedy = f"; its release knows no class tables: run `weighbridge agents deploy {self._dpu.name}`"
        elif error.code() is grpc.StatusCode.DEADLINE_EXCEEDED:
            text = f"{self._who} did not answer in {TIMEOUT_S:g} s about its class table"
            return LookFailed(Look.CLASS_TABLE, Reason.TIMEOUT, text)
        elif "class table" not in (error.details() or ""):
            return None
        text = f"{self._who} does not take the class table: {error.details()}{remedy}"
        return LookFailed(Look.CLASS_TABLE, Reason.REFUSED, text)
