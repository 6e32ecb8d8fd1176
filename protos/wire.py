"""The one place that converts between protobuf messages and the types of :mod:`protos.reading`.

A message that says something impossible is refused with :class:`WireError`; unknown fields are left alone
(a newer agent may say more), unknown enum values are refused (their meaning would be a guess).
"""

from __future__ import annotations

from dataclasses import dataclass, field

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
    """One port of a frame: its readings by direction, on the agent's CLOCK_MONOTONIC, or why there are none.

    Attributes:
        epoch: of the port under this source; of its last epoch while it is missing, 0 if there was none.
        readings: both directions, or one; empty exactly when ``missing`` says why.
        dropped_packets, error_packets: by direction, where the source counts them.
        source: the counter source's name.
        ifindex: the kernel's, 0 while the port is missing.
        looked_ns: when the agent looked, earliest and latest, also where it found nothing.
    """

    port: str
    observer: Observer
    epoch: int
    epoch_reason: str
    readings: dict[Direction, Reading]
    dropped_packets: dict[Direction, int]
    missing: Missing | None
    error_packets: dict[Direction, int] = field(default_factory=dict)
    source: str = ""
    ifindex: int = 0
    looked_ns: tuple[int, int] = (0, 0)


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
        WireError: an unknown role, framing or reason; a reading that cannot be; counters beside a reason why there
            are none, or neither.
    """
    if message.role not in _ROLE:
        raise WireError(f"port {message.port!r} has no known role ({message.role})")
    if message.missing and message.missing not in _MISSING:
        raise WireError(f"port {message.port!r} is missing for an unknown reason ({message.missing})")
    if message.earliest_ns > message.latest_ns:
        raise WireError(f"port {message.port!r}: earliest {message.earliest_ns} ns is after {message.latest_ns} ns")
    readings, dropped, errors = _counters(message)
    missing = _MISSING[message.missing] if message.missing else None
    if missing is None and not readings:
        raise WireError(f"port {message.port!r} has neither counters nor a reason why there are none")
    if missing is not None and (readings or dropped or errors):
        raise WireError(f"port {message.port!r} has counters and a reason why there are none ({missing.value})")
    return PortReading(
        port=message.port,
        observer=_ROLE[message.role],
        epoch=message.epoch,
        epoch_reason=message.epoch_reason,
        readings=readings,
        dropped_packets=dropped,
        missing=missing,
        error_packets=errors,
        source=message.source,
        ifindex=message.ifindex,
        looked_ns=(message.earliest_ns, message.latest_ns),
    )


def _counters(
    message: reading_pb2.PortReading,
) -> tuple[dict[Direction, Reading], dict[Direction, int], dict[Direction, int]]:
    readings: dict[Direction, Reading] = {}
    dropped: dict[Direction, int] = {}
    errors: dict[Direction, int] = {}
    for direction, counters in ((Direction.EGRESS, message.egress), (Direction.INGRESS, message.ingress)):
        if counters.HasField("dropped_packets"):
            dropped[direction] = counters.dropped_packets
        if counters.HasField("error_packets"):
            errors[direction] = counters.error_packets
        if counters.HasField("bytes"):
            readings[direction] = _reading(message, counters)
        elif counters.HasField("packets"):
            raise WireError(f"port {message.port!r} counts packets but no bytes")
    return readings, dropped, errors


def _reading(message: reading_pb2.PortReading, counters: reading_pb2.Counters) -> Reading:
    if message.framing not in _FRAMING:
        raise WireError(f"port {message.port!r} has no known framing ({message.framing})")
    return Reading(
        earliest_ns=message.earliest_ns,
        latest_ns=message.latest_ns,
        bytes=counters.bytes,
        packets=counters.packets if counters.HasField("packets") else None,
        epoch=message.epoch,
        framing=_FRAMING[message.framing],
    )


def encode_port_reading(reading: PortReading) -> reading_pb2.PortReading:
    """Return ``reading`` as a message; :func:`port_reading` gives it back.

    Raises:
        WireError: it says what a message cannot: directions of different time, epoch or framing, a value known
            only to a range, a number above 64 bits.
    """
    earliest_ns, latest_ns = reading.looked_ns
    shared = {(r.earliest_ns, r.latest_ns, r.epoch, r.framing) for r in reading.readings.values()}
    if any(found[:3] != (earliest_ns, latest_ns, reading.epoch) for found in shared) or len(shared) > 1:
        raise WireError(f"port {reading.port!r}: its directions differ in time, epoch or framing")
    if any(r.bytes_slack for r in reading.readings.values()):
        raise WireError(f"port {reading.port!r}: a counter known only to a range does not go into a frame")
    try:
        message = reading_pb2.PortReading(
            port=reading.port,
            role=ROLE_TO_WIRE[reading.observer],
            source=reading.source,
            framing=next((FRAMING_TO_WIRE[found[3]] for found in shared), None),
            epoch=reading.epoch,
            epoch_reason=reading.epoch_reason,
            earliest_ns=earliest_ns,
            latest_ns=latest_ns,
            missing=MISSING_TO_WIRE[reading.missing] if reading.missing else None,
            ifindex=reading.ifindex,
        )
        for direction, counters in ((Direction.EGRESS, message.egress), (Direction.INGRESS, message.ingress)):
            if direction in reading.readings:
                counters.bytes = reading.readings[direction].bytes
                packets = reading.readings[direction].packets
                if packets is not None:
                    counters.packets = packets
            if direction in reading.dropped_packets:
                counters.dropped_packets = reading.dropped_packets[direction]
            if direction in reading.error_packets:
                counters.error_packets = reading.error_packets[direction]
    except (KeyError, ValueError) as error:
        raise WireError(f"port {reading.port!r} cannot be put into a message: {error}") from error
    return message
