"""Makes frames: numbered, chained by hash, signed. Pure but for the key.

A frame carries the SHA-256 of the body of the frame numbered one less, stored or lost, so a stored chain shows every
gap; a gap is explained by a :class:`~dpu_agent.state.Loss` in a later frame. What was signed is kept as bytes and
never serialised again. :func:`state_after` is the other direction: the state is the fold of the frames, so the newest
stored frame makes up for a state that was not written.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from dpu_agent.clock import Stamp, Sync, wall_step_ns
from dpu_agent.epochs import after_readings
from dpu_agent.state import AgentState, Loss
from protos.shortform import shorten
from protos.signing import SigningDomain, sign
from protos.v1 import frame_pb2, lease_pb2, meter_pb2
from protos.wire import FRAME_VERSION, PortReading, encode_port_reading, parse_signed_frame, port_reading


@dataclass(frozen=True, slots=True)
class SpoolFigures:
    """What a frame says of the spool it goes into."""

    oldest_sequence: int = 0
    frames: int = 0
    bytes: int = 0
    lost_frames: int = 0
    trouble: str = ""

    def message(self) -> frame_pb2.SpoolState:
        """The same as a message."""
        return frame_pb2.SpoolState(
            oldest_sequence=self.oldest_sequence,
            frames=self.frames,
            bytes=self.bytes,
            lost_frames=self.lost_frames,
            trouble=self.trouble,
        )


@dataclass(frozen=True, slots=True)
class Identity:
    """Who makes the frames: the agent's name and release, and the key that is its word."""

    agent: str
    version: str
    key: Ed25519PrivateKey


_SYNC = {
    Sync.UNKNOWN: frame_pb2.CLOCK_SYNC_UNSPECIFIED,
    Sync.SYNCHRONISED: frame_pb2.CLOCK_SYNC_SYNCHRONISED,
    Sync.UNSYNCHRONISED: frame_pb2.CLOCK_SYNC_UNSYNCHRONISED,
}


def clock_message(stamp: Stamp, before: Stamp | None = None) -> frame_pb2.ClockStamp:
    """Return ``stamp`` as a message; ``before`` is the last one that was told of."""
    return frame_pb2.ClockStamp(
        boot_id=stamp.boot_id,
        monotonic_ns=stamp.monotonic_ns,
        monotonic_raw_ns=stamp.monotonic_raw_ns,
        wall_ns=stamp.wall_ns,
        sync=_SYNC[stamp.sync],
        max_error_us=stamp.max_error_us,
        wall_step_ns=wall_step_ns(before, stamp),
    )


def next_frame(
    identity: Identity,
    state: AgentState,
    stamp: Stamp,
    readings: Sequence[PortReading],
    spool: SpoolFigures,
    *,
    before: Stamp | None = None,
    meters: Sequence[meter_pb2.MeterReading] = (),
    class_table_sha256: bytes = b"",
    limits: lease_pb2.LimitsReading | None = None,
) -> frame_pb2.Frame:
    """Return the frame that follows ``state``, carrying its losses; ``before`` is the stamp of the one before."""
    return frame_pb2.Frame(
        version=FRAME_VERSION,
        agent=identity.agent,
        sequence=state.sequence + 1,
        previous_sha256=state.previous_sha256,
        clock=clock_message(stamp, before),
        ports=[encode_port_reading(reading) for reading in readings],
        spool=spool.message(),
        losses=[
            frame_pb2.Loss(first_sequence=loss.first, last_sequence=loss.last, reason=loss.reason)
            for loss in state.losses
        ],
        agent_version=identity.version,
        agent_start=state.agent_start,
        meters=meters,
        class_table_sha256=class_table_sha256,
        limits=limits,
    )


def seal(identity: Identity, frame: frame_pb2.Frame) -> tuple[bytes, bytes]:
    """Return the signed frame as bytes, in short form, and the SHA-256 of its body that the next one carries."""
    body = shorten(frame).SerializeToString(deterministic=True)
    signed = frame_pb2.SignedFrame(body=body, signature=sign(identity.key, SigningDomain.FRAME, body))
    return signed.SerializeToString(deterministic=True), hashlib.sha256(body).digest()


def losses_in(signed_frame: bytes) -> list[Loss]:
    """Return what a stored frame records as lost.

    Raises:
        WireError: it is no frame.
    """
    _, frame = parse_signed_frame(signed_frame)
    return [Loss(loss.first_sequence, loss.last_sequence, loss.reason) for loss in frame.losses]


def state_after(state: AgentState, signed_frame: bytes) -> AgentState:
    """Return ``state`` moved on to a stored frame that it had not yet got to.

    Raises:
        WireError: it is no frame.
    """
    signed, frame = parse_signed_frame(signed_frame)
    return replace(
        state,
        sequence=frame.sequence,
        previous_sha256=hashlib.sha256(signed.body).digest(),
        lost_frames=max(state.lost_frames, frame.spool.lost_frames),
        agent_start=max(state.agent_start, frame.agent_start),
        losses=(),
        ports=after_readings(state.ports, frame.clock.boot_id, [port_reading(port) for port in frame.ports]),
    )
