"""Issues leases and revocations to one agent: numbered, signed, journaled before they are sent.

A lease begins at the agent's own monotonic time of a moment ago, as the agent has just told it, so nothing on the way
can make it live longer. Its number is higher than any that the journal or the agent knows.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from controller.collect.channel import AgentChannel
from controller.errors import DeviceError
from controller.journal import ConflictingEntryError, Journal, Kind, NewEntry
from controller.leases.grant import Grant
from protos.lease import Lease, LeaseKind, Revocation, Slot
from protos.leasewire import lease_body, revocation_body
from protos.signing import SigningDomain, sign
from protos.v1 import lease_pb2

TIMEOUT_S = 5.0
_TRIES = 5


class LeaseRejectedError(DeviceError):
    """The agent did not take a lease; ``reason`` is its stable name for why."""

    def __init__(self, reason: str, text: str) -> None:
        super().__init__(text)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Load:
    """What a load lease has that a standing one has not."""

    window: bytes
    prover_signature: bytes
    volume_bytes: int


@dataclass(frozen=True, slots=True)
class Issued:
    """A lease that the agent took, and what the agent said then."""

    lease: Lease
    reply: lease_pb2.LeaseReply


class Issuer:
    """Issues to one agent."""

    def __init__(self, agent: str, journal: Journal, key: Ed25519PrivateKey, now_ns: Callable[[], int]) -> None:
        self._agent, self._journal, self._key, self._now_ns = agent, journal, key, now_ns

    async def lease(self, channel: AgentChannel, grant: Grant, load: Load | None = None) -> Issued:
        """Lease what ``grant`` says, as of now.

        Raises:
            LeaseRejectedError: the agent did not take it.
            grpc.aio.AioRpcError: the agent did not answer.
        """
        for _ in range(_TRIES):
            told = await channel.describe_leases(TIMEOUT_S)
            _require_limits(told)
            lease = self._lease(grant, load, told)
            body = lease_body(lease)
            signed = lease_pb2.SignedLease(
                body=body,
                signature=sign(self._key, SigningDomain.LEASE, body),
                prover_signature=load.prover_signature if load else b"",
            )
            if not await self._keep(lease.sequence, signed.SerializeToString(deterministic=True), "lease", grant.id):
                continue
            reply = await channel.apply_lease(signed, TIMEOUT_S)
            # Another of our processes was faster with a later number: the next try has a later one still.
            if reply.refused == "old-sequence":
                continue
            _require_taken(reply)
            return Issued(lease, reply)
        raise LeaseRejectedError("old-sequence", f"agent {self._agent}: others issue to it all the time; try again")

    async def revoke(
        self, channel: AgentChannel, slot: Slot | None, kind: LeaseKind | None = None, grant: str = ""
    ) -> lease_pb2.LeaseReply:
        """End the lease of ``slot`` (None: every lease) now; raises as :meth:`lease`."""
        for _ in range(_TRIES):
            told = await channel.describe_leases(TIMEOUT_S)
            _require_limits(told)
            sequence = self._next(told)
            body = revocation_body(Revocation(self._agent, sequence, slot, kind))
            signed = lease_pb2.SignedLeaseRevocation(
                body=body, signature=sign(self._key, SigningDomain.LEASE_REVOCATION, body)
            )
            if not await self._keep(sequence, signed.SerializeToString(deterministic=True), "revocation", grant):
                continue
            reply = await channel.revoke_lease(signed, TIMEOUT_S)
            if reply.refused == "old-sequence":
                continue
            _require_taken(reply)
            return reply
        raise LeaseRejectedError("old-sequence", f"agent {self._agent}: others issue to it all the time; try again")

    def _lease(self, grant: Grant, load: Load | None, told: lease_pb2.LeaseReply) -> Lease:
        sequence = self._next(told)
        return Lease(
            agent=self._agent,
            sequence=sequence,
            boot_id=told.boot_id,
            slot=grant.slot,
            rate_bytes_per_s=grant.rate_bytes_per_s,
            depth_bytes=grant.depth_bytes,
            volume_bytes=load.volume_bytes if load else grant.volume_bytes,
            not_before_ns=told.monotonic_ns,
            lifetime_ns=grant.lifetime_ns,
            budget=sequence,
            kind=LeaseKind.LOAD if load else LeaseKind.STANDING,
            agreement_sha256=grant.agreement_sha256,
            load_window=load.window if load else b"",
        )

    def _next(self, told: lease_pb2.LeaseReply) -> int:
        return max(self._journal.last_sequence(Kind.LEASE, self._agent), told.limits.highest_sequence) + 1

    async def _keep(self, sequence: int, signed: bytes, what: str, grant: str) -> bool:
        """Put it on the disk; return whether the number was free."""
        meta = {"what": what, "grant": grant}
        entry = NewEntry(Kind.LEASE, self._agent, self._now_ns(), signed, meta, sequence=sequence)
        try:
            await asyncio.to_thread(self._journal.append, entry)
        except ConflictingEntryError:
            return False
        return True


def _require_limits(told: lease_pb2.LeaseReply) -> None:
    if told.limits.backend in {"", "none"}:
        raise LeaseRejectedError(
            "limits-nothing",
            "the agent limits nothing: say `limiter: police` in its agent_settings in the site file, deploy it again",
        )


def _require_taken(reply: lease_pb2.LeaseReply) -> None:
    if reply.refused:
        raise LeaseRejectedError(reply.refused, f"the agent refused it ({reply.refused}): {reply.text}")
