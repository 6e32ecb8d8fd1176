"""The one place that converts between protobuf messages and the types of :mod:`protos.reading`.

A message that says something impossible is refused with :class:`WireError`; unknown fields are left alone
(a newer agent may say more), unknown enum values are refused (their meaning would be a guess).
"""

from __future__ import annotations

from dataclasses import dataclass

from google.protobuf.message import DecodeError

from protos.reading import Direction, Framing, Missing, Observer, Reading
from protos.v1 import frame_pb2, reading_pb2

FRAME_VERSION = 1

_FRAMING = {
    reading_pb2.FRAMING_L2_WITHOUT_FCS: Framing.L2_WITHOUT_FCS,
    reading_pb2.FRAMING_L2_WITH_FCS: Framing.L2_WITH_FCS,
    reading_pb2.FRAMING_L1: Framing.L1,
}
_MISSING = {
    reading_pb2.MISSING_REASON_ABSENT: Missing.ABSENT,
    reading_pb2.MISSING_REASON_UNSUPPORTED: Missing.UNSUPPORTED,
    reading_pb2.MISSING_REASON_MALFORMED: Missing.MALFORMED,
    reading_pb2.MISSING_REASON_TRUNCATED: Missing.TRUNCATED,
    reading_pb2.MISSING_REASON_TIMEOUT: Missing.TIMEOUT,
    reading_pb2.MISSING_REASON_DENIED: Missing.DENIED,
}
_ROLE = {
    reading_pb2.PORT_ROLE_HOST_PORT: Observer.DPU_HOST_PORT,
    reading_pb2.PORT_ROLE_UPLINK: Observer.DPU_UPLINK,
}
FRAMING_TO_WIRE = {ours: theirs for theirs, ours in _FRAMING.items()}
MISSING_TO_WIRE = {ours: theirs for theirs, ours in _MISSING.items()}
ROLE_TO_WIRE = {ours: theirs for theirs, ours in _ROLE.items()}


class WireError(ValueError):
    """Bytes that are not the message they claim to be, or a message that says something impossible."""


@dataclass(frozen=True, slots=True)
class PortReading:
    """One port of a frame: its readings by direction, on the agent's CLOCK_MONOTONIC, or why there are none."""

    port: str
    observer: Observer
    epoch: int
    epoch_reason: str
    readings: dict[Direction, Reading]
    dropped_packets: dict[Direction, int]
    missing: Missing | None


def parse_signed_frame(data: bytes) -> tuple[frame_pb2.SignedFrame, frame_pb2.Frame]:
    """Return the envelope in ``data`` and the frame in its body; the signature is not checked here.

    Raises:
        WireError: not a signed frame, or of a version this reader does not know.
    """
    signed, frame = frame_pb2.SignedFrame(), frame_pb2.Frame()
    try:
        signed.ParseFromString(data)
        frame.ParseFromString(signed.body)
    except DecodeError as error:
        raise WireError(f"not a signed frame: {error}") from error
    if frame.version != FRAME_VERSION:
        raise WireError(
            f"frame version {frame.version} is unknown; this reader knows {FRAME_VERSION}: update the controller"
        )
    if not frame.agent or frame.sequence == 0:
        raise WireError("a frame must name its agent and carry a sequence number from 1 up")
    return signed, frame


def port_reading(message: reading_pb2.PortReading) -> PortReading:
    """Return what ``message`` says about one port.

    Raises:
        WireError: an unknown role, framing or reason, or a reading that cannot be.
    """
    if message.role not in _ROLE:
        raise WireError(f"port {message.port!r} has no known role ({message.role})")
    missing: Missing | None = None
    readings: dict[Direction, Reading] = {}
    dropped: dict[Direction, int] = {}
    if message.missing:
        if message.missing not in _MISSING:
            raise WireError(f"port {message.port!r} is missing for an unknown reason ({message.missing})")
        missing = _MISSING[message.missing]
    else:
        if message.framing not in _FRAMING:
            raise WireError(f"port {message.port!r} has no known framing ({message.framing})")
        for direction, counters in (
            (Direction.EGRESS, message.egress),
            (Direction.INGRESS, message.ingress),
        ):
            if not counters.HasField("bytes"):
                continue
            try:
                readings[direction] = Reading(
                    earliest_ns=message.earliest_ns,
                    latest_ns=message.latest_ns,
                    bytes=counters.bytes,
                    packets=counters.packets if counters.HasField("packets") else None,
                    epoch=message.epoch,
                    framing=_FRAMING[message.framing],
                )
            except ValueError as error:
                raise WireError(f"port {message.port!r}: {error}") from error
            if counters.HasField("dropped_packets"):
                dropped[direction] = counters.dropped_packets
    return PortReading(
        port=message.port,
        observer=_ROLE[message.role],
        epoch=message.epoch,
        epoch_reason=message.epoch_reason,
        readings=readings,
        dropped_packets=dropped,
        missing=missing,
    )
