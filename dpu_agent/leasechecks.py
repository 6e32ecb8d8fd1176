"""What a lease must be to be taken: each check by itself, each refusal with a name of its own. Pure.

In which order they are made, and what follows, is in :mod:`dpu_agent.keeper`.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from google.protobuf.message import DecodeError

from protos.buckets import TrafficClass
from protos.lease import LEASED_CLASSES, Bound, Lease, LeaseKind, Slot, broken_bounds
from protos.leasewire import Fault, LeaseFaultError, parse_load_window
from protos.reading import Direction
from protos.signing import SignatureRejected, SigningDomain, load_public_key, verify
from protos.units import format_bytes, format_duration, format_rate
from protos.v1 import lease_pb2

EnvelopeT = TypeVar("EnvelopeT", lease_pb2.SignedLease, lease_pb2.SignedLeaseRevocation)

MAX_BYTES = 4_096
"""A signed lease has some 300 bytes."""
PPM = 1_000_000
LONGEST_LIFETIME_NS = 3_600_000_000_000
"""Where no agreement says less."""


class Refused(enum.Enum):
    """Why a lease or revocation was not taken. Stable names; those of a message's own faults are in ``Fault``."""

    NO_VERIFIER_KEY = "no-verifier-key"
    BAD_SIGNATURE = "bad-signature"
    SIGNED_BY_PROVER = "signed-by-prover"
    NOT_SIGNED_BY_PROVER = "not-signed-by-prover"
    OTHER_AGENT = "other-agent"
    OTHER_BOOT = "other-boot"
    OLD_SEQUENCE = "old-sequence"
    UNKNOWN_PORT = "unknown-port"
    CLASS_NOT_LIMITED = "class-not-limited"
    WRONG_DIRECTION = "wrong-direction"
    CLOCK_SET_BACK = "clock-set-back"
    NOT_YET = "not-yet"
    EXPIRED = "expired"
    OTHER_AGREEMENT = "other-agreement"
    LIFETIME_BEYOND_AGREEMENT = "lifetime-beyond-agreement"
    RATE_BEYOND_AGREEMENT = "rate-beyond-agreement"
    LOAD_NOT_AGREED = "load-not-agreed"
    LOAD_BEYOND_AGREEMENT = "load-beyond-agreement"
    BEYOND_LOAD_WINDOW = "beyond-load-window"
    LOAD_WINDOW_USED = "load-window-used"
    UNKNOWN_BUDGET = "unknown-budget"
    BUDGET_USED = "budget-used"
    NOT_STORED = "not-stored"
    NOT_ENFORCED = "not-enforced"


class LeaseRefusedError(Exception):
    """A lease or revocation that was not taken; nothing changed. ``reason`` is the stable name, ``str()`` the words."""

    def __init__(self, reason: Refused | Fault, text: str) -> None:
        super().__init__(text)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class LoadTerms:
    """What load windows may be.

    Attributes:
        classes: for which traffic.
        most_bytes: towards the node.
        longest_ns: how long.
        reverse_ppm: bytes back, of those towards the node.
        both_sign: whether the prover signs as well.
    """

    classes: frozenset[TrafficClass]
    most_bytes: int
    longest_ns: int
    reverse_ppm: int
    both_sign: bool = False


@dataclass(frozen=True, slots=True)
class Terms:
    """What the keeper was told by its own configuration, which no lease can change.

    Attributes:
        agent: its name.
        verifier: the raw key that signs leases; empty: no lease is taken.
        prover: the raw key that signs load windows beside it, where the agreement asks for it; empty: none is known.
        ports: each port, and the direction that its ingress is.
        bounds: what the agreement allows, by class; a class without bounds is bounded by the verifier alone.
        longest_lifetime_ns: of a standing lease.
        loads: terms of load windows; None: there are none.
        agreement_sha256: leases under another agreement are refused; empty: any.
        classes: those that are limited here; there is nothing to lease for another.
    """

    agent: str
    verifier: bytes
    ports: Mapping[str, Direction]
    prover: bytes = b""
    bounds: Mapping[TrafficClass, tuple[Bound, ...]] = field(default_factory=dict)
    longest_lifetime_ns: int = LONGEST_LIFETIME_NS
    loads: LoadTerms | None = None
    agreement_sha256: bytes = b""
    classes: tuple[TrafficClass, ...] = LEASED_CLASSES

    def slots(self) -> list[Slot]:
        """Everything that can be leased."""
        return [Slot(port, direction, each) for port, direction in self.ports.items() for each in self.classes]


def envelope_of(message: EnvelopeT, signed: bytes) -> EnvelopeT:
    """Return ``signed`` as the message it claims to be, nothing in it checked."""
    if len(signed) > MAX_BYTES:
        raise LeaseRefusedError(Fault.MALFORMED, f"{len(signed)} bytes are no lease; one has at most {MAX_BYTES}")
    try:
        message.ParseFromString(signed)
    except DecodeError as error:
        raise LeaseRefusedError(Fault.MALFORMED, f"not a lease: {error}") from error
    return message


def check_signature(terms: Terms, domain: SigningDomain, body: bytes, signature: bytes) -> None:
    """The signature is the verifier's over these very bytes, for this purpose."""
    if not terms.verifier:
        raise LeaseRefusedError(
            Refused.NO_VERIFIER_KEY, "this agent was told no verifier_public_key; add it to its configuration"
        )
    try:
        verify(load_public_key(terms.verifier), domain, body, signature)
    except SignatureRejected as error:
        if terms.prover and _is_of(terms.prover, domain, body, signature):
            text = f"the {domain.value} is signed by the prover, not by the verifier"
            raise LeaseRefusedError(Refused.SIGNED_BY_PROVER, text) from error
        raise LeaseRefusedError(Refused.BAD_SIGNATURE, f"the {domain.value} is not the verifier's: {error}") from error


def _is_of(key: bytes, domain: SigningDomain, body: bytes, signature: bytes) -> bool:
    try:
        verify(load_public_key(key), domain, body, signature)
    except SignatureRejected:
        return False
    return True


def check_addressee(terms: Terms, lease: Lease, boot_id: str) -> None:
    """It is for this agent, this boot and a port there is."""
    if lease.agent != terms.agent:
        raise other_agent(lease.agent, terms.agent)
    if lease.boot_id != boot_id:
        raise LeaseRefusedError(Refused.OTHER_BOOT, f"the lease is for boot {lease.boot_id!r}, this is {boot_id!r}")
    check_port(terms, lease.slot)


def other_agent(named: str, own: str) -> LeaseRefusedError:
    """Return the refusal of what is meant for another agent."""
    return LeaseRefusedError(Refused.OTHER_AGENT, f"it is for agent {named!r}, this is {own!r}")


def check_port(terms: Terms, slot: Slot) -> None:
    """There is such a port, and its ingress is that direction."""
    if slot.port not in terms.ports:
        raise LeaseRefusedError(Refused.UNKNOWN_PORT, f"this agent has no port {slot.port!r}")
    if slot.traffic_class not in terms.classes:
        raise LeaseRefusedError(
            Refused.CLASS_NOT_LIMITED, f"{slot.traffic_class.title} is not limited here; there is nothing to lease"
        )
    direction = terms.ports[slot.port]
    if slot.direction is not direction:
        raise LeaseRefusedError(
            Refused.WRONG_DIRECTION,
            f"at {slot.port} the node's {direction.value} is limited, not {slot.direction.value}",
        )


def check_sequence(sequence: int, highest: int) -> None:
    """It is newer than any that was taken."""
    if sequence <= highest:
        raise LeaseRefusedError(Refused.OLD_SEQUENCE, f"number {sequence} is not newer than {highest}, which was taken")


def check_time(lease: Lease, now_ns: int, latest_ns: int) -> None:
    """It lives at ``now_ns``, and the clock that says so is where it was or later."""
    if now_ns < latest_ns:
        behind = format_duration(latest_ns - now_ns)
        raise LeaseRefusedError(Refused.CLOCK_SET_BACK, f"this agent's clock is {behind} behind what it showed before")
    if lease.not_before_ns > now_ns:
        wait = format_duration(lease.not_before_ns - now_ns)
        raise LeaseRefusedError(Refused.NOT_YET, f"the lease holds from {wait} from now on")
    if lease.end_ns <= now_ns:
        raise LeaseRefusedError(Refused.EXPIRED, f"the lease ended {format_duration(now_ns - lease.end_ns)} ago")


def check_agreement(terms: Terms, lease: Lease) -> None:
    """It lies within the agreement, as far as the configuration knows it; what a load lease may be is asked later."""
    if terms.agreement_sha256 and lease.agreement_sha256 != terms.agreement_sha256:
        raise LeaseRefusedError(Refused.OTHER_AGREEMENT, "the lease is under another agreement than this agent's")
    if lease.kind is LeaseKind.LOAD:
        return
    if lease.lifetime_ns > terms.longest_lifetime_ns:
        raise LeaseRefusedError(
            Refused.LIFETIME_BEYOND_AGREEMENT,
            f"the lease lives {format_duration(lease.lifetime_ns)}, "
            f"at most {format_duration(terms.longest_lifetime_ns)} are agreed",
        )
    bounds = terms.bounds.get(lease.slot.traffic_class, ())
    for bound in broken_bounds(lease.rate_bytes_per_s, lease.depth_bytes, bounds):
        raise LeaseRefusedError(
            Refused.RATE_BEYOND_AGREEMENT,
            f"{format_rate(lease.rate_bytes_per_s)} with a depth of {format_bytes(lease.depth_bytes)} can be more than "
            f"the {format_bytes(bound.bytes)} agreed for any {format_duration(bound.window_ns)}",
        )


def check_load(terms: Terms, lease: Lease, prover_signature: bytes, *, newest: int) -> int:
    """Return the number of the load window that ``lease`` is for, where ``newest`` is the newest one of its place.

    1. Load windows are agreed for this class, and the window lies within their terms.
    2. The prover signed the window, where the agreement asks for it.
    3. The lease lies within the window: agent, class, bytes in its direction, time.
    4. The window is newer than the newest, or it is that one and the lease goes on with its budget.

    Raises:
        LeaseRefusedError: one of these is not so.
    """
    loads = terms.loads
    if loads is None or lease.slot.traffic_class not in loads.classes:
        raise LeaseRefusedError(
            Refused.LOAD_NOT_AGREED, f"no load window is agreed for {lease.slot.traffic_class.title}"
        )
    try:
        window = parse_load_window(lease.load_window)
    except LeaseFaultError as error:
        raise LeaseRefusedError(error.fault, str(error)) from error
    if window.ingress_bytes > loads.most_bytes or window.longest_ns > loads.longest_ns:
        raise LeaseRefusedError(
            Refused.LOAD_BEYOND_AGREEMENT,
            f"a load window of {format_bytes(window.ingress_bytes)} in {format_duration(window.longest_ns)}; at most "
            f"{format_bytes(loads.most_bytes)} in {format_duration(loads.longest_ns)} are agreed",
        )
    if window.egress_bytes * PPM > window.ingress_bytes * loads.reverse_ppm:
        raise LeaseRefusedError(
            Refused.LOAD_BEYOND_AGREEMENT,
            f"{format_bytes(window.egress_bytes)} back are more than {loads.reverse_ppm} ppm of what is loaded",
        )
    if loads.both_sign and not _is_of(terms.prover, SigningDomain.LOAD_WINDOW, lease.load_window, prover_signature):
        raise LeaseRefusedError(
            Refused.NOT_SIGNED_BY_PROVER, "the agreement asks for the prover's signature under a load window"
        )
    if window.agent != terms.agent:
        raise other_agent(window.agent, terms.agent)
    most_bytes = window.most_bytes(lease.slot.direction)
    if (
        lease.slot.traffic_class is not window.traffic_class
        or lease.volume_bytes > most_bytes
        or lease.lifetime_ns > window.longest_ns
        or window.agreement_sha256 != lease.agreement_sha256
    ):
        raise LeaseRefusedError(
            Refused.BEYOND_LOAD_WINDOW,
            f"the lease is not within load window {window.number}: {format_bytes(most_bytes)} "
            f"{lease.slot.direction.value} of {window.traffic_class.title} in {format_duration(window.longest_ns)}",
        )
    goes_on = window.number == newest and lease.budget != lease.sequence
    if window.number <= newest and not goes_on:
        raise LeaseRefusedError(
            Refused.LOAD_WINDOW_USED, f"load window {window.number} was used; the newest here is {newest}"
        )
    return window.number


def check_budget(lease: Lease, newest: int, used_bytes: int) -> int:
    """Return what is used of the lease's budget, where ``newest`` is the newest budget of its place.

    Raises:
        LeaseRefusedError: its budget is neither new nor the newest, or is used up.
    """
    if lease.budget == lease.sequence:
        return 0
    if lease.budget != newest:
        raise LeaseRefusedError(
            Refused.UNKNOWN_BUDGET, f"the lease goes on with budget {lease.budget}, the newest here is {newest}"
        )
    if used_bytes >= lease.volume_bytes:
        raise LeaseRefusedError(
            Refused.BUDGET_USED,
            f"of budget {lease.budget} {format_bytes(used_bytes)} are used, "
            f"the lease allows {format_bytes(lease.volume_bytes)} in all",
        )
    return used_bytes
