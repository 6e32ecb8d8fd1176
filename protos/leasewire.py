"""The leases' half of :mod:`protos.wire`: between the messages of ``lease.proto`` and :mod:`protos.lease`.

A message that lacks a quantity, or has a zero where permission is meant, is refused by name: nothing is ever
"unlimited" by not being said.
"""

from __future__ import annotations

import enum
from typing import TypeVar

from google.protobuf.message import DecodeError, Message

from protos.buckets import TrafficClass
from protos.lease import LEASED_CLASSES, Lease, LeaseKind, LoadWindow, Revocation, Slot
from protos.reading import Direction
from protos.v1 import lease_pb2, reading_pb2
from protos.wire import WireError

LEASE_VERSION = 1

MessageT = TypeVar("MessageT", bound=Message)

DIRECTION_TO_WIRE = {
    Direction.EGRESS: reading_pb2.DIRECTION_EGRESS,
    Direction.INGRESS: reading_pb2.DIRECTION_INGRESS,
}
KIND_TO_WIRE = {
    LeaseKind.STANDING: lease_pb2.LEASE_KIND_STANDING,
    LeaseKind.LOAD: lease_pb2.LEASE_KIND_LOAD,
}
DIRECTION = {theirs: ours for ours, theirs in DIRECTION_TO_WIRE.items()}
KIND = {theirs: ours for ours, theirs in KIND_TO_WIRE.items()}

_QUANTITIES = {
    "rate_bytes_per_s": "rate",
    "depth_bytes": "depth",
    "volume_bytes": "volume",
    "lifetime_ns": "lifetime",
}
# Two such numbers still add up within 64 bits.
_MAX_NS = 1 << 62


class Fault(enum.Enum):
    """What is wrong with a message, as a stable name."""

    MALFORMED = "malformed"
    UNKNOWN_VERSION = "unknown-version"
    SEQUENCE_ZERO = "sequence-zero"
    CLASS_ABSENT = "class-absent"
    CLASS_NOT_LEASED = "class-not-leased"
    KIND_UNKNOWN = "kind-unknown"
    DIRECTION_UNKNOWN = "direction-unknown"
    NOT_BEFORE_ABSENT = "not-before-absent"
    RATE_ABSENT = "rate-absent"
    RATE_ZERO = "rate-zero"
    DEPTH_ABSENT = "depth-absent"
    DEPTH_ZERO = "depth-zero"
    VOLUME_ABSENT = "volume-absent"
    VOLUME_ZERO = "volume-zero"
    LIFETIME_ABSENT = "lifetime-absent"
    LIFETIME_ZERO = "lifetime-zero"
    BUDGET_IMPOSSIBLE = "budget-impossible"
    WINDOW_INCOMPLETE = "window-incomplete"


class LeaseFaultError(WireError):
    """A lease or revocation that is none; ``fault`` says why by name."""

    def __init__(self, fault: Fault, text: str) -> None:
        super().__init__(text)
        self.fault = fault


def parse_lease(body: bytes) -> Lease:
    """Return the lease in ``body``; signature, agent and time are not looked at here.

    Raises:
        LeaseFaultError: it is no lease; a quantity is absent or zero, or a number cannot be.
    """
    message = _parsed(lease_pb2.Lease(), body)
    _check_head(message.version, message.sequence)
    if message.kind not in KIND:
        raise LeaseFaultError(Fault.KIND_UNKNOWN, f"a lease of kind {message.kind} is unknown here")
    if not message.HasField("traffic_class"):
        raise LeaseFaultError(Fault.CLASS_ABSENT, "the lease does not say for which traffic class it is")
    slot = _slot(message.port, message.direction, message.traffic_class)
    for field, word in _QUANTITIES.items():
        if not message.HasField(field):
            raise LeaseFaultError(Fault(f"{word}-absent"), f"the lease has no {word}; absent is not unlimited")
        if getattr(message, field) == 0:
            raise LeaseFaultError(Fault(f"{word}-zero"), f"the lease has a {word} of zero; revoke it instead")
    if not message.HasField("not_before_ns"):
        raise LeaseFaultError(Fault.NOT_BEFORE_ABSENT, "the lease does not say from when on it holds")
    if message.not_before_ns > _MAX_NS or message.lifetime_ns > _MAX_NS:
        raise LeaseFaultError(Fault.MALFORMED, "the lease's times are beyond any clock")
    if not 1 <= message.budget <= message.sequence:
        raise LeaseFaultError(
            Fault.BUDGET_IMPOSSIBLE, f"lease {message.sequence} goes on with budget {message.budget}, which cannot be"
        )
    return Lease(
        agent=message.agent,
        sequence=message.sequence,
        boot_id=message.boot_id,
        slot=slot,
        rate_bytes_per_s=message.rate_bytes_per_s,
        depth_bytes=message.depth_bytes,
        volume_bytes=message.volume_bytes,
        not_before_ns=message.not_before_ns,
        lifetime_ns=message.lifetime_ns,
        budget=message.budget,
        kind=KIND[message.kind],
        agreement_sha256=message.agreement_sha256,
        load_window=message.load_window,
    )


def lease_body(lease: Lease) -> bytes:
    """Return ``lease`` as the bytes that are signed; :func:`parse_lease` gives it back."""
    return lease_pb2.Lease(
        version=LEASE_VERSION,
        agent=lease.agent,
        sequence=lease.sequence,
        boot_id=lease.boot_id,
        port=lease.slot.port,
        direction=DIRECTION_TO_WIRE[lease.slot.direction],
        traffic_class=lease.slot.traffic_class,
        rate_bytes_per_s=lease.rate_bytes_per_s,
        depth_bytes=lease.depth_bytes,
        volume_bytes=lease.volume_bytes,
        not_before_ns=lease.not_before_ns,
        lifetime_ns=lease.lifetime_ns,
        budget=lease.budget,
        kind=KIND_TO_WIRE[lease.kind],
        agreement_sha256=lease.agreement_sha256,
        load_window=lease.load_window,
    ).SerializeToString(deterministic=True)


def parse_load_window(body: bytes) -> LoadWindow:
    """Return the load window in ``body``.

    Raises:
        LeaseFaultError: it is none; a quantity is absent or zero.
    """
    message = _parsed(lease_pb2.LoadWindow(), body)
    _check_head(message.version, message.number)
    if not message.HasField("traffic_class"):
        raise LeaseFaultError(Fault.CLASS_ABSENT, "the load window does not say for which traffic class it is")
    for field in ("ingress_bytes", "egress_bytes", "longest_ns"):
        if not message.HasField(field) or getattr(message, field) == 0:
            raise LeaseFaultError(Fault.WINDOW_INCOMPLETE, f"the load window has no {field}; absent is not unlimited")
    return LoadWindow(
        site=message.site,
        agent=message.agent,
        number=message.number,
        traffic_class=_leased_class(message.traffic_class),
        ingress_bytes=message.ingress_bytes,
        egress_bytes=message.egress_bytes,
        longest_ns=message.longest_ns,
        agreement_sha256=message.agreement_sha256,
        sources=tuple(message.sources),
    )


def load_window_body(window: LoadWindow) -> bytes:
    """Return ``window`` as the bytes that are signed."""
    return lease_pb2.LoadWindow(
        version=LEASE_VERSION,
        site=window.site,
        agent=window.agent,
        number=window.number,
        traffic_class=window.traffic_class,
        ingress_bytes=window.ingress_bytes,
        egress_bytes=window.egress_bytes,
        longest_ns=window.longest_ns,
        agreement_sha256=window.agreement_sha256,
        sources=window.sources,
    ).SerializeToString(deterministic=True)


def parse_revocation(body: bytes) -> Revocation:
    """Return the revocation in ``body``.

    Raises:
        LeaseFaultError: it is none.
    """
    message = _parsed(lease_pb2.LeaseRevocation(), body)
    _check_head(message.version, message.sequence)
    if message.kind and message.kind not in KIND:
        raise LeaseFaultError(Fault.KIND_UNKNOWN, f"leases of kind {message.kind} are unknown here")
    slot = None
    if message.port:
        if not message.HasField("traffic_class"):
            raise LeaseFaultError(Fault.CLASS_ABSENT, "the revocation does not say of which traffic class")
        slot = _slot(message.port, message.direction, message.traffic_class)
    return Revocation(message.agent, message.sequence, slot, KIND[message.kind] if message.kind else None)


def revocation_body(revocation: Revocation) -> bytes:
    """Return ``revocation`` as the bytes that are signed."""
    message = lease_pb2.LeaseRevocation(version=LEASE_VERSION, agent=revocation.agent, sequence=revocation.sequence)
    if revocation.slot is not None:
        message.port = revocation.slot.port
        message.direction = DIRECTION_TO_WIRE[revocation.slot.direction]
        message.traffic_class = revocation.slot.traffic_class
    if revocation.kind is not None:
        message.kind = KIND_TO_WIRE[revocation.kind]
    return message.SerializeToString(deterministic=True)


def slot_of(message: lease_pb2.LeaseState) -> Slot:
    """Return what ``message`` is about.

    Raises:
        LeaseFaultError: its direction or class is unknown.
    """
    if message.direction not in DIRECTION:
        raise LeaseFaultError(Fault.DIRECTION_UNKNOWN, f"direction {message.direction} is unknown")
    try:
        return Slot(message.port, DIRECTION[message.direction], TrafficClass(message.traffic_class))
    except ValueError as error:
        raise LeaseFaultError(Fault.MALFORMED, str(error)) from error


def _parsed(message: MessageT, body: bytes) -> MessageT:
    try:
        message.ParseFromString(body)
    except DecodeError as error:
        raise LeaseFaultError(Fault.MALFORMED, f"not a lease: {error}") from error
    return message


def _check_head(version: int, sequence: int) -> None:
    if version != LEASE_VERSION:
        raise LeaseFaultError(Fault.UNKNOWN_VERSION, f"a lease of version {version}; this agent knows {LEASE_VERSION}")
    if sequence == 0:
        raise LeaseFaultError(Fault.SEQUENCE_ZERO, "a lease's sequence starts at 1")


def _slot(port: str, direction: reading_pb2.Direction, traffic_class: int) -> Slot:
    if direction not in DIRECTION:
        raise LeaseFaultError(Fault.DIRECTION_UNKNOWN, f"the lease's direction ({direction}) is unknown")
    return Slot(port, DIRECTION[direction], _leased_class(traffic_class))


def _leased_class(traffic_class: int) -> TrafficClass:
    if traffic_class not in {each.value for each in LEASED_CLASSES}:
        names = ", ".join(each.title for each in LEASED_CLASSES)
        raise LeaseFaultError(Fault.CLASS_NOT_LEASED, f"class {traffic_class} is not leased; leases are for {names}")
    return TrafficClass(traffic_class)
