"""The one place that converts between protobuf messages and the types of :mod:`protos.reading`.

A message that says something impossible is refused with :class:`WireError`; unknown fields are left alone
(a newer agent may say more), unknown enum values are refused (their meaning would be a guess).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from google.protobuf.message import DecodeError

from protos.buckets import NOTHING, Bucket, BucketError, Totals, TrafficClass, summed, unpack
from protos.reading import Direction, Framing, Missing, Observer, Reading
from protos.shortform import FormError, lengthen
from protos.v1 import frame_pb2, meter_pb2, reading_pb2

FRAME_VERSION = 2
"""What agents write. Readers also know version 1, which has no short forms (:mod:`protos.shortform`)."""
_KNOWN_VERSIONS = (1, FRAME_VERSION)

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
    """Return the envelope in ``data`` and the frame in its body, in long form; the signature is not checked here.

    Raises:
        WireError: not a signed frame, of a version this reader does not know, or one that says a thing in two ways.
    """
    signed, frame = frame_pb2.SignedFrame(), frame_pb2.Frame()
    try:
        signed.ParseFromString(data)
        frame.ParseFromString(signed.body)
    except DecodeError as error:
        raise WireError(f"not a signed frame: {error}") from error
    if frame.version not in _KNOWN_VERSIONS:
        raise WireError(
            f"frame version {frame.version} is unknown; this reader knows up to {FRAME_VERSION}: update the controller"
        )
    if not frame.agent or frame.sequence == 0:
        raise WireError("a frame must name its agent and carry a sequence number from 1 up")
    try:
        lengthen(frame)
    except FormError as error:
        raise WireError(f"frame {frame.sequence} of {frame.agent}: {error}") from error
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


# ---------------------------------------------------------------- meters


@dataclass(frozen=True, slots=True)
class Unplaced:
    """What moved in one or several of the buckets ``[first, end)``, nobody can say in which."""

    first: int
    end: int
    moved: Totals


@dataclass(frozen=True, slots=True)
class Gap:
    """The meter was not at its hook from ``from_ns`` to ``to_ns`` (agent's clock)."""

    from_ns: int
    to_ns: int
    reason: str


@dataclass(frozen=True, slots=True)
class MeterReading:
    """One port's meter in one frame: bucket by bucket, in frame bytes without FCS, VLAN tags included.

    Attributes:
        unavailable: why there is no meter (a stable name), empty where there is one; ``text`` says it in words.
        since_ns: when the totals were zero, on the agent's clock; other totals have another.
        epoch: rises whenever the meter was away from its hook; why, in ``epoch_reason``.
        bucket_zero_ns: bucket ``i`` is the time from ``bucket_zero_ns + i * width_ns`` for ``width_ns``.
        first, end: these buckets, ``[first, end)``, are told of here.
        start: totals before bucket ``first``; ``moved``: what ``buckets`` and ``unplaced`` add up to.
        lost_buckets: buckets of which not all is known, because the agent came too late.
        classes, peers: cumulative, where they changed since the frame before; all of them if ``full``.
        findings: of the audit; empty: the hook is as installed. None: there was no audit.
    """

    port: str
    unavailable: str = ""
    text: str = ""
    since_ns: int = 0
    epoch: int = 0
    epoch_reason: str = ""
    width_ns: int = 0
    bucket_zero_ns: int = 0
    first: int = 0
    end: int = 0
    start: Totals = NOTHING
    moved: Totals = NOTHING
    buckets: tuple[Bucket, ...] = ()
    unplaced: tuple[Unplaced, ...] = ()
    lost_buckets: int = 0
    classes: Mapping[TrafficClass, Totals] = field(default_factory=dict)
    peers: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    full: bool = False
    findings: tuple[str, ...] | None = None
    texts: tuple[str, ...] = ()
    offloaded_ppm: int = 0
    gaps: tuple[Gap, ...] = ()

    @property
    def valid(self) -> bool:
        """Whether the buckets are all that passed the port: a meter that was audited, with nothing found."""
        return not self.unavailable and self.findings == ()


def totals_message(totals: Totals) -> meter_pb2.MeterTotals:
    """Return ``totals`` as a message."""
    return meter_pb2.MeterTotals(raw_bytes=totals.raw_bytes, wire_bytes=totals.wire_bytes, segments=totals.segments)


def _totals(message: meter_pb2.MeterTotals) -> Totals:
    return Totals(message.raw_bytes, message.wire_bytes, message.segments)


def meter_reading(message: meter_pb2.MeterReading) -> MeterReading:
    """Return what ``message`` says of one meter.

    Raises:
        WireError: the series cannot be read, or does not add up to what is said to have moved; a class or width that
            cannot be; a meter that is unavailable and counts all the same.
    """
    if not message.port:
        raise WireError("a meter reading must name its port")
    if message.unavailable:
        if message.series or message.width_ns or message.HasField("moved"):
            raise WireError(f"port {message.port!r} has a meter and a reason why there is none ({message.unavailable})")
        return MeterReading(message.port, message.unavailable, message.unavailable_text)
    if message.width_ns == 0:
        raise WireError(f"port {message.port!r}: its buckets have no width")
    try:
        buckets = tuple(unpack(message.series, message.first_bucket, message.bucket_count))
        classes = {TrafficClass(each.traffic_class): _totals(each.total) for each in message.classes}
    except (BucketError, ValueError) as error:
        raise WireError(f"port {message.port!r}: {error}") from error
    unplaced = tuple(
        Unplaced(each.first_bucket, each.first_bucket + each.count, _totals(each.moved)) for each in message.unplaced
    )
    moved = summed(buckets)
    for part in unplaced:
        moved += part.moved
    if moved != _totals(message.moved):
        raise WireError(f"port {message.port!r}: its buckets add up to {moved}, it says {_totals(message.moved)}")
    return MeterReading(
        port=message.port,
        since_ns=message.since_ns,
        epoch=message.epoch,
        epoch_reason=message.epoch_reason,
        width_ns=message.width_ns,
        bucket_zero_ns=message.bucket_zero_ns,
        first=message.first_bucket,
        end=message.first_bucket + message.bucket_count,
        start=_totals(message.start),
        moved=moved,
        buckets=buckets,
        unplaced=unplaced,
        lost_buckets=message.lost_buckets,
        classes=classes,
        peers={each.peer: (each.wire_bytes, each.segments) for each in message.peers},
        full=message.full,
        findings=tuple(message.audit.findings) if message.HasField("audit") else None,
        texts=tuple(message.audit.texts),
        offloaded_ppm=message.audit.offloaded_ppm,
        gaps=tuple(Gap(each.from_ns, each.to_ns, each.reason) for each in message.gaps),
    )
