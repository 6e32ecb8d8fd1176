"""The agent's gRPC service. Every RPC is authorised before its first line, whichever it is.

The handlers are built from the service's descriptor, each wrapped by :func:`dpu_agent.credentials.authorise`: an RPC
that is added to the ``.proto`` file is guarded, or the agent does not start.
"""

from __future__ import annotations

import logging
import platform
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from typing import Any

import grpc
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from google.protobuf.message_factory import GetMessageClass

from dpu_agent.classtable import MAX_BYTES, ClassTableRejectedError
from dpu_agent.clock import Clock
from dpu_agent.config import AgentConfig
from dpu_agent.counters import PortSample
from dpu_agent.credentials import CallerRejectedError, ServerIdentity, authorise, server_credentials, utc_now
from dpu_agent.errors import AgentError
from dpu_agent.frames import clock_message
from dpu_agent.leasechecks import LeaseRefusedError
from dpu_agent.limiting import Limiting, NoLimiting
from dpu_agent.metering import Metering, NoMetering
from dpu_agent.recorder import AcknowledgementRejectedError, Recorder
from dpu_agent.release import Release
from dpu_agent.revocation import Revocations
from dpu_agent.streams import LOOK_S, Acknowledgements, Stream, Streams
from protos.v1 import agent_pb2, lease_pb2
from protos.wire import FRAMING_TO_WIRE, MISSING_TO_WIRE, ROLE_TO_WIRE

log = logging.getLogger(__name__)

_SERVICE = agent_pb2.DESCRIPTOR.services_by_name["AgentService"]
# Frames handed to the transport at once; it holds back when the controller is slow.
_BATCH_FRAMES = 64
# A stream says within this time from where it wants frames.
_FIRST_MESSAGE_S = 10.0
# One long stream, and room for the short calls beside it and beside streams that are just being superseded.
_WORKERS = 6
# A connection ends after an hour, so that no certificate is trusted for longer without being shown again.
MAX_CONNECTION_AGE_MS = 3_600_000
_OPTIONS = (
    ("grpc.max_connection_age_ms", MAX_CONNECTION_AGE_MS),
    ("grpc.max_connection_age_grace_ms", 5_000),
    ("grpc.keepalive_time_ms", 20_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.http2.min_ping_interval_without_data_ms", 5_000),
    # The largest message that is taken is a class table.
    ("grpc.max_receive_message_length", MAX_BYTES + 1_024),
    # Without this two agents could share the port, and callers would meet either.
    ("grpc.so_reuseport", 0),
)


class AgentService:
    """What the RPCs do."""

    def __init__(
        self,
        *,
        config: AgentConfig,
        release: Release,
        public_key: Ed25519PublicKey,
        clock: Clock,
        recorder: Recorder,
        site: str,
        metering: Metering | None = None,
        limiting: Limiting | None = None,
        now: Callable[[], datetime] = utc_now,
        revoked: Revocations | None = None,
    ) -> None:
        self._metering: Metering = metering or NoMetering()
        self._limiting: Limiting = limiting or NoLimiting()
        self._config, self._release, self._clock, self._recorder = config, release, clock, recorder
        self._public_key = public_key.public_bytes(serialization.Encoding.Raw, serialization.PublicFormat.Raw)
        self.site, self.now = site, now
        self.revoked = revoked or Revocations(None)
        self._streams = Streams()

    def close(self) -> None:
        """Stop looking after streams; the server has ended them."""
        self._streams.close()

    def Describe(self, _request: agent_pb2.DescribeRequest, _context: Any) -> agent_pb2.AgentDescription:  # noqa: N802
        """Say who this agent is and what it meters."""
        state, spool, samples = self._recorder.snapshot()
        return agent_pb2.AgentDescription(
            agent=self._config.agent,
            agent_version=self._release.version,
            bundle_sha256=self._release.bundle_sha256,
            frame_public_key=self._public_key,
            python_version=platform.python_version(),
            kernel=platform.release(),
            machine=platform.machine(),
            clock=clock_message(self._clock.stamp()),
            frame_interval_ns=self._config.frame_interval_ns,
            ports=[_port_description(sample) for sample in samples],
            spool=spool.message(),
            last_sequence=state.sequence,
            agent_start=state.agent_start,
            meters=self._metering.describe(),
            class_table_sequence=self._metering.table.sequence,
            class_table_sha256=self._metering.table.sha256,
        )

    def SetClassTable(self, request: agent_pb2.SignedClassTable, context: Any) -> agent_pb2.ClassTableReply:  # noqa: N802
        """Take a class table that the verifier signed; answer with the one in force then."""
        try:
            table = self._metering.set_table(request.SerializeToString(deterministic=True))
        except ClassTableRejectedError as error:
            log.warning("refused a class table from %s: %s", context.peer(), error)
            context.abort(grpc.StatusCode.FAILED_PRECONDITION, str(error))
        except OSError as error:
            log.exception("a class table cannot be put in force")
            context.abort(grpc.StatusCode.UNAVAILABLE, f"the class table cannot be put in force: {error}")
        return agent_pb2.ClassTableReply(sequence=table.sequence, sha256=table.sha256)

    def ApplyLease(self, request: lease_pb2.SignedLease, context: Any) -> lease_pb2.LeaseReply:  # noqa: N802
        """Take a lease that the verifier signed, and answer with what is in force then."""
        return self._answer(lambda: self._limiting.apply(request.SerializeToString(deterministic=True)), context)

    def RevokeLease(self, request: lease_pb2.SignedLeaseRevocation, context: Any) -> lease_pb2.LeaseReply:  # noqa: N802
        """End leases that the verifier wants ended, and answer with what is in force then."""
        return self._answer(lambda: self._limiting.revoke(request.SerializeToString(deterministic=True)), context)

    def DescribeLeases(self, _request: lease_pb2.DescribeLeasesRequest, context: Any) -> lease_pb2.LeaseReply:  # noqa: N802
        """Answer with what is in force."""
        return self._answer(lambda: None, context)

    def _answer(self, do: Callable[[], None], context: Any) -> lease_pb2.LeaseReply:
        refused, text = "", ""
        try:
            do()
        except LeaseRefusedError as error:
            refused, text = error.reason.value, str(error)
            log.warning("refused a lease from %s: %s", context.peer(), text)
        return lease_pb2.LeaseReply(
            refused=refused,
            text=text,
            limits=self._limiting.describe(),
            boot_id=self._clock.boot_id,
            monotonic_ns=self._clock.monotonic_ns(),
        )

    def ExchangeClock(self, _request: agent_pb2.ClockRequest, _context: Any) -> agent_pb2.ClockReply:  # noqa: N802
        """Answer with the times of receipt and of sending; what lies between is in nobody's interval."""
        received_ns = self._clock.monotonic_ns()
        stamp = clock_message(self._clock.stamp())
        return agent_pb2.ClockReply(
            received_monotonic_ns=received_ns, sent_monotonic_ns=self._clock.monotonic_ns(), clock=stamp
        )

    def StreamFrames(self, requests: Iterator[agent_pb2.Acknowledgement], context: Any) -> Iterator[bytes]:  # noqa: N802
        """Send stored frames in order, then new ones as they come.

        1. The first message says what the controller has; everything above it is sent.
        2. Acknowledgements are taken in beside the sending; a frame that is acknowledged is let go of.
        3. The stream ends when a newer one begins, when the caller's certificate runs out, or when the caller
           acknowledges what was never sent. A caller that says it will acknowledge no more gets what is stored.
        """
        acknowledgements = Acknowledgements(requests, self._acknowledge, self._recorder.wake)
        first = acknowledgements.wait_for_first(_FIRST_MESSAGE_S)
        if first is None:
            if not acknowledgements.ended:
                context.abort(grpc.StatusCode.DEADLINE_EXCEEDED, "no first acknowledgement said from where to send")
            return
        certificates = context.auth_context().get("x509_pem_cert", [])
        stream = Stream(context, lambda: self._must_end(certificates, acknowledgements))
        self._streams.begin(stream)
        self._recorder.wake()
        try:
            yield from self._frames(first, stream, acknowledgements)
        finally:
            self._streams.end(stream)

    def _frames(self, sent: int, stream: Stream, acknowledgements: Acknowledgements) -> Iterator[bytes]:
        while stream.context.is_active():
            why = stream.must_end()
            if why is not None:
                stream.context.abort(*why)
            ended = acknowledgements.ended
            batch = self._recorder.frames_after(sent, _BATCH_FRAMES)
            for sequence, frame in batch:
                if stream.must_end() is not None:
                    break
                yield frame
                sent = sequence
            if not batch:
                if ended:
                    return
                self._recorder.wait_beyond(sent, LOOK_S)

    def _must_end(
        self, certificates: list[bytes], acknowledgements: Acknowledgements
    ) -> tuple[grpc.StatusCode, str] | None:
        if acknowledgements.refused:
            return grpc.StatusCode.FAILED_PRECONDITION, acknowledgements.refused
        try:
            authorise(certificates, self.site, self.now(), self.revoked)
        except CallerRejectedError as error:
            return grpc.StatusCode.UNAUTHENTICATED, str(error)
        return None

    def _acknowledge(self, message: agent_pb2.Acknowledgement) -> str:
        """Take in an acknowledgement; return why it is refused, or nothing."""
        try:
            self._recorder.acknowledge(message.acknowledged_sequence)
        except AcknowledgementRejectedError as error:
            return str(error)
        return ""


def guard(context: Any, service: AgentService) -> None:
    """Return if the caller behind ``context`` may call; else end the call.

    Raises:
        Exception: what ``context.abort`` raises; the call is answered with UNAUTHENTICATED.
    """
    try:
        authorise(context.auth_context().get("x509_pem_cert", []), service.site, service.now(), service.revoked)
    except CallerRejectedError as error:
        log.warning("refused a call from %s: %s", context.peer(), error)
        context.abort(grpc.StatusCode.UNAUTHENTICATED, str(error))


def handlers(service: AgentService) -> grpc.GenericRpcHandler:
    """Return the handlers of every RPC in the descriptor, each behind :func:`guard`."""
    methods: dict[str, grpc.RpcMethodHandler[Any, Any]] = {}
    for method in _SERVICE.methods:
        unguarded = getattr(service, method.name)
        request = GetMessageClass(method.input_type).FromString
        if method.client_streaming and method.server_streaming:
            # Frames are bytes already: signed bytes are never serialised again.
            methods[method.name] = grpc.stream_stream_rpc_method_handler(_guarded_stream(service, unguarded), request)
        elif not method.client_streaming and not method.server_streaming:
            answer = GetMessageClass(method.output_type).SerializeToString
            methods[method.name] = grpc.unary_unary_rpc_method_handler(_guarded(service, unguarded), request, answer)
        else:
            raise AssertionError(f"{method.full_name} is of a form that has no guard")
    return grpc.method_handlers_generic_handler(_SERVICE.full_name, methods)


def _guarded(service: AgentService, method: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    def call(request: Any, context: Any) -> Any:
        guard(context, service)
        return method(request, context)

    return call


def _guarded_stream(
    service: AgentService, method: Callable[[Any, Any], Iterator[bytes]]
) -> Callable[[Any, Any], Iterator[bytes]]:
    def call(requests: Any, context: Any) -> Iterator[bytes]:
        guard(context, service)
        yield from method(requests, context)

    return call


def serve(service: AgentService, identity: ServerIdentity, listen: str) -> grpc.Server:
    """Return the server, started.

    Raises:
        AgentError: the address cannot be listened on.
    """
    server = grpc.server(
        ThreadPoolExecutor(_WORKERS, thread_name_prefix="rpc"), handlers=[handlers(service)], options=_OPTIONS
    )
    try:
        server.add_secure_port(listen, server_credentials(identity))
    except RuntimeError as error:
        raise AgentError(
            f"{listen}: cannot be listened on; is another agent running, and is this an address of this machine?"
        ) from error
    server.start()
    log.info("serving at %s", listen)
    return server


def _port_description(sample: PortSample) -> agent_pb2.PortDescription:
    return agent_pb2.PortDescription(
        port=sample.port.name,
        role=ROLE_TO_WIRE[sample.port.role],
        speed_bytes_per_s=sample.speed_bytes_per_s,
        mtu_bytes=sample.mtu_bytes,
        source=sample.source.name,
        framing=FRAMING_TO_WIRE[sample.source.framing],
        refresh_ns=sample.port.refresh_ns,
        sees=sample.source.sees,
        cannot_see=sample.source.cannot_see,
        missing=MISSING_TO_WIRE[sample.missing] if sample.missing else None,
    )
