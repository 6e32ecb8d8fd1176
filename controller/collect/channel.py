"""The gRPC channel to one agent, and what its failures mean.

Every session opens a channel of its own and reads the credential's files anew, so that a renewed certificate takes
effect without a restart, and a failure is told in the words of :class:`controller.collect.attempts.Reason`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from datetime import datetime, timezone
from typing import Any, final

import grpc

from controller.collect.attempts import Look, LookFailed, Reason
from controller.credentials import Credential
from controller.errors import OperatorError
from protos.v1 import agent_pb2, lease_pb2

SERVICE = "weighbridge.v1.AgentService"

MAX_MESSAGE_BYTES = 2**20
"""A frame of 64 ports is about 10 kB."""

_OPTIONS = (
    ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
    # Sessions do their own waiting, journaled; the library must not wait behind their back.
    ("grpc.initial_reconnect_backoff_ms", 500),
    ("grpc.max_reconnect_backoff_ms", 1_000),
    # Each session's connection is its own: a shared one would outlive the session and its credential.
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.enable_http_proxy", 0),
)


class FrameStream:
    """An open stream: the exact bytes of each SignedFrame come in, acknowledgements go out."""

    def __init__(self, call: Any) -> None:
        self._call = call

    async def frames(self) -> AsyncIterator[bytes]:
        """Yield what the agent sends until it ends the stream in good order. Raises grpc.aio.AioRpcError."""
        while (raw := await self._call.read()) is not grpc.aio.EOF:
            yield raw

    async def acknowledge(self, sequence: int) -> None:
        """Tell the agent what is on the disk.

        A stream that has ended takes no acknowledgement, and its end is what :meth:`frames` tells; the agent then
        sends these frames again.
        """
        with suppress(asyncio.InvalidStateError):
            await self._call.write(agent_pb2.Acknowledgement(acknowledged_sequence=sequence))


@final
class AgentChannel:
    """A channel to one agent; use as an asynchronous context manager."""

    def __init__(self, target: str, credential: Credential) -> None:
        """``target`` is the agent's address as gRPC takes it; its certificate must carry that address."""
        tls = grpc.ssl_channel_credentials(credential.ca_pem, credential.key_pem, credential.certificate_pem)
        self._channel = grpc.aio.secure_channel(target, tls, options=_OPTIONS)
        self._describe = self._channel.unary_unary(
            f"/{SERVICE}/Describe",
            request_serializer=agent_pb2.DescribeRequest.SerializeToString,
            response_deserializer=agent_pb2.AgentDescription.FromString,
        )
        self._exchange_clock = self._channel.unary_unary(
            f"/{SERVICE}/ExchangeClock",
            request_serializer=agent_pb2.ClockRequest.SerializeToString,
            response_deserializer=agent_pb2.ClockReply.FromString,
        )
        self._set_class_table = self._channel.unary_unary(
            f"/{SERVICE}/SetClassTable",
            request_serializer=agent_pb2.SignedClassTable.SerializeToString,
            response_deserializer=agent_pb2.ClassTableReply.FromString,
        )
        self._apply_lease = self._channel.unary_unary(
            f"/{SERVICE}/ApplyLease",
            request_serializer=lease_pb2.SignedLease.SerializeToString,
            response_deserializer=lease_pb2.LeaseReply.FromString,
        )
        self._revoke_lease = self._channel.unary_unary(
            f"/{SERVICE}/RevokeLease",
            request_serializer=lease_pb2.SignedLeaseRevocation.SerializeToString,
            response_deserializer=lease_pb2.LeaseReply.FromString,
        )
        self._describe_leases = self._channel.unary_unary(
            f"/{SERVICE}/DescribeLeases",
            request_serializer=lease_pb2.DescribeLeasesRequest.SerializeToString,
            response_deserializer=lease_pb2.LeaseReply.FromString,
        )
        # No deserialiser: a frame is kept as the bytes that came.
        self._stream_frames: Any = self._channel.stream_stream(
            f"/{SERVICE}/StreamFrames", request_serializer=agent_pb2.Acknowledgement.SerializeToString
        )

    async def __aenter__(self) -> AgentChannel:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._channel.close()

    async def describe(self, timeout_s: float) -> agent_pb2.AgentDescription:
        """Return what the agent says of itself. Raises grpc.aio.AioRpcError."""
        reply: agent_pb2.AgentDescription = await self._describe(agent_pb2.DescribeRequest(), timeout=timeout_s)
        return reply

    async def exchange_clock(self, timeout_s: float) -> agent_pb2.ClockReply:
        """Return the agent's stamps. Raises grpc.aio.AioRpcError."""
        reply: agent_pb2.ClockReply = await self._exchange_clock(agent_pb2.ClockRequest(), timeout=timeout_s)
        return reply

    async def set_class_table(self, signed: agent_pb2.SignedClassTable, timeout_s: float) -> agent_pb2.ClassTableReply:
        """Give the agent a class table; return which is in force then. Raises grpc.aio.AioRpcError."""
        reply: agent_pb2.ClassTableReply = await self._set_class_table(signed, timeout=timeout_s)
        return reply

    async def apply_lease(self, signed: lease_pb2.SignedLease, timeout_s: float) -> lease_pb2.LeaseReply:
        """Give the agent a lease; return whether it took it. Raises grpc.aio.AioRpcError."""
        reply: lease_pb2.LeaseReply = await self._apply_lease(signed, timeout=timeout_s)
        return reply

    async def revoke_lease(self, signed: lease_pb2.SignedLeaseRevocation, timeout_s: float) -> lease_pb2.LeaseReply:
        """Give the agent a revocation; return whether it took it. Raises grpc.aio.AioRpcError."""
        reply: lease_pb2.LeaseReply = await self._revoke_lease(signed, timeout=timeout_s)
        return reply

    async def describe_leases(self, timeout_s: float) -> lease_pb2.LeaseReply:
        """Return what is in force at the agent. Raises grpc.aio.AioRpcError."""
        reply: lease_pb2.LeaseReply = await self._describe_leases(lease_pb2.DescribeLeasesRequest(), timeout=timeout_s)
        return reply

    def stream_frames(self) -> FrameStream:
        """Open the stream of frames."""
        return FrameStream(self._stream_frames())


def load_or_fail(load: Callable[[], Credential], agent: str) -> Credential:
    """Return the controller's credential.

    Raises:
        LookFailed: it can no longer be used; the text names the file and the remedy.
    """
    try:
        return load()
    except OperatorError as error:
        expired = " expired at " in str(error)
        reason = Reason.CERTIFICATE_EXPIRED if expired else Reason.CERTIFICATE_REJECTED
        raise LookFailed(Look.CONNECT, reason, f"agent {agent} cannot be asked: {error}") from error


_ANSWERS = {
    grpc.StatusCode.UNAUTHENTICATED: (Reason.DENIED, "refuses the controller"),
    grpc.StatusCode.PERMISSION_DENIED: (Reason.DENIED, "refuses the controller"),
    grpc.StatusCode.DEADLINE_EXCEEDED: (Reason.TIMEOUT, "did not answer in time"),
    # What gRPC makes of a stream that is reset, or that breaks while an acknowledgement is written.
    grpc.StatusCode.CANCELLED: (Reason.UNREACHABLE, "broke the connection off"),
    grpc.StatusCode.INTERNAL: (Reason.UNREACHABLE, "broke the connection off"),
    grpc.StatusCode.RESOURCE_EXHAUSTED: (Reason.TOO_LARGE, "sent more than a message may hold"),
}


def failure_of(error: grpc.aio.AioRpcError, look: Look, who: str, *, credential: Credential) -> LookFailed:
    """Return ``error`` of an RPC to ``who`` as a failed look.

    1. Our own certificate may have expired since it was read: nothing else needs to be looked for then.
    2. What TLS refused here comes as UNAVAILABLE with OpenSSL's words in it.
    3. What the agent refused comes as UNAUTHENTICATED or PERMISSION_DENIED.
    4. All else is silence, lateness or an answer that is an error.
    """
    if datetime.now(tz=timezone.utc) >= credential.not_after:
        text = f"{who} cannot be asked: the controller's own certificate expired at {credential.not_after}"
        return LookFailed(look, Reason.CERTIFICATE_EXPIRED, f"{text}; issue a new one with `weighbridge pki issue`")
    details, code = error.details() or "", error.code()
    if code is grpc.StatusCode.UNAVAILABLE:
        reason, text = _unavailable(details.lower())
    else:
        reason, text = _ANSWERS.get(code, (Reason.REFUSED, f"answered with the error {code.name}"))
    return LookFailed(look, reason, f"{who} {text}{f' ({details})' if details else ''}")


def _unavailable(details: str) -> tuple[Reason, str]:
    """What gRPC's lower-case details of UNAVAILABLE say; the words are BoringSSL's and gRPC's own."""
    if "wrong_version_number" in details:
        return Reason.MALFORMED, "does not speak TLS as an agent does; check what listens at its address"
    if "certificate has expired" in details or "certificate_expired" in details:
        remedy = "issue a new one and deploy it with `weighbridge agents deploy`"
        return Reason.CERTIFICATE_EXPIRED, f"shows a certificate that has expired; {remedy}"
    if any(word in details for word in ("certificate", "hostname verification", "peer name", "tlsv1_alert")):
        remedy = "check the site's authority, and the address in the agent's certificate"
        return Reason.CERTIFICATE_REJECTED, f"and the controller do not accept each other's certificate; {remedy}"
    # Also in the middle of a handshake: an agent that is just being stopped.
    if any(word in details for word in ("socket closed", "connection reset", "goaway", "stream removed", "handshake")):
        return Reason.UNREACHABLE, "broke the connection off"
    if "connection refused" in details:
        return Reason.CONNECTION_REFUSED, "is not running, though its machine is there"
    return Reason.UNREACHABLE, "cannot be reached"
