"""The lease keeper: which lease is in force at each port and class, or why none is. Pure: no clock, file or socket.

There is a *place* for every slot (port, direction, class) and kind of lease (standing, load). Each place holds a lease
or is at its floor, with the reason::

    floor --offer (taken)-----------------------> leased
    leased --offer (taken, newer)---------------> leased       the older one is over
    leased --tick: now >= end-------------------> floor        lease-expired
    leased --charge: volume used up-------------> floor        volume-used
    leased --revoke-----------------------------> floor        lease-revoked
    leased --tick: another boot id--------------> floor        rebooted
    leased --tick: the clock is behind itself---> floor        clock-set-back
    leased --restore: no longer to be verified--> floor        unverifiable
    any    --offer or revoke (refused)----------> unchanged    the refusal's own reason

What holds at a slot is its load lease, else its standing lease, else the floor.

Time is the agent's CLOCK_MONOTONIC, and every lease names the boot whose clock it means: a lease that was held back
on its way ends when it would have, and after a reboot there is none. The highest sequence ever taken and what was
used of each budget outlive reboots; neither ever goes back.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from dpu_agent.leasechecks import (
    LeaseRefusedError,
    Refused,
    Terms,
    check_addressee,
    check_agreement,
    check_budget,
    check_load,
    check_port,
    check_sequence,
    check_signature,
    check_time,
    envelope_of,
    other_agent,
)
from protos.lease import Lease, LeaseKind, Revocation, Slot
from protos.leasewire import LeaseFaultError, parse_lease, parse_revocation
from protos.signing import SigningDomain
from protos.v1 import lease_pb2


class Floor(enum.Enum):
    """Why a place is at its floor. Stable names."""

    NEVER_LEASED = "never-leased"
    EXPIRED = "lease-expired"
    VOLUME_USED = "volume-used"
    REVOKED = "lease-revoked"
    REBOOTED = "rebooted"
    CLOCK_SET_BACK = "clock-set-back"
    UNVERIFIABLE = "unverifiable"


@dataclass(frozen=True, slots=True)
class Held:
    """A lease in force, and the bytes it came as."""

    lease: Lease
    signed: bytes


@dataclass(frozen=True, slots=True)
class Place:
    """One slot and kind: the lease in force or why there is none; the newest budget and what was used of it.

    ``window`` is the number of the newest load window; a window's budget is used once.
    """

    held: Held | None = None
    floor: Floor = Floor.NEVER_LEASED
    budget: int = 0
    used_bytes: int = 0
    window: int = 0


Places = Mapping[tuple[Slot, LeaseKind], Place]
_EMPTY = Place()


@dataclass(frozen=True, slots=True)
class KeeperState:
    """All there is to remember. ``latest_ns`` is the latest time this boot's clock was seen to show."""

    highest_sequence: int = 0
    boot_id: str = ""
    latest_ns: int = 0
    places: Places = field(default_factory=dict)

    def place(self, slot: Slot, kind: LeaseKind) -> Place:
        """Return the place of ``slot`` and ``kind``."""
        return self.places.get((slot, kind), _EMPTY)

    def in_force(self, slot: Slot) -> tuple[LeaseKind, Place] | None:
        """Return what holds at ``slot``: its load lease, else its standing lease; None: the floor."""
        for kind in (LeaseKind.LOAD, LeaseKind.STANDING):
            place = self.place(slot, kind)
            if place.held is not None:
                return kind, place
        return None


def tick(state: KeeperState, boot_id: str, now_ns: int) -> KeeperState:
    """Return ``state`` at ``now_ns`` of ``boot_id``'s clock.

    1. Another boot: its clock means nothing to the leases of the one before, so all are over.
    2. A clock behind what it showed before cannot be trusted to end anything: all are over, and none is taken until it
       has caught up.
    3. A lease whose end has come is over.
    """
    if boot_id != state.boot_id:
        return replace(_all_over(state, Floor.REBOOTED), boot_id=boot_id, latest_ns=now_ns)
    if now_ns < state.latest_ns:
        return _all_over(state, Floor.CLOCK_SET_BACK)
    ended = [key for key, place in state.places.items() if place.held is not None and place.held.lease.end_ns <= now_ns]
    return replace(_over(state, ended, Floor.EXPIRED), latest_ns=now_ns)


def offer(state: KeeperState, terms: Terms, signed: bytes, now_ns: int) -> KeeperState:
    """Return ``state`` with the lease in ``signed`` (a SignedLease) in force; ``state`` is as of ``now_ns``.

    1. The signature over the exact bytes is the verifier's.
    2. It is a lease, with every quantity said.
    3. It is for this agent, this boot, a port there is, in the direction of that port.
    4. Its very bytes are in force already: nothing changes. Else its sequence is higher than any taken before.
    5. It lives now.
    6. It lies within the agreement, as far as the configuration knows it; a load lease also within its load window,
       which the prover signed where the agreement asks for it and which was not used before.
    7. Its budget is new, or that of the place and not used up.

    Raises:
        LeaseRefusedError: one of these is not so.
    """
    envelope = envelope_of(lease_pb2.SignedLease(), signed)
    check_signature(terms, SigningDomain.LEASE, envelope.body, envelope.signature)
    try:
        lease = parse_lease(envelope.body)
    except LeaseFaultError as error:
        raise LeaseRefusedError(error.fault, str(error)) from error
    check_addressee(terms, lease, state.boot_id)
    place = state.place(lease.slot, lease.kind)
    if place.held is not None and place.held.signed == signed:
        return state
    check_sequence(lease.sequence, state.highest_sequence)
    check_time(lease, now_ns, state.latest_ns)
    check_agreement(terms, lease)
    window = place.window
    if lease.kind is LeaseKind.LOAD:
        window = check_load(terms, lease, envelope.prover_signature, newest=place.window)
    used_bytes = check_budget(lease, place.budget, place.used_bytes)
    taken = Place(Held(lease, signed), place.floor, lease.budget, used_bytes, window)
    return replace(state, highest_sequence=lease.sequence, places={**state.places, (lease.slot, lease.kind): taken})


def revoke(state: KeeperState, terms: Terms, signed: bytes) -> KeeperState:
    """Return ``state`` without the leases that ``signed`` (a SignedLeaseRevocation) ends.

    Raises:
        LeaseRefusedError: it is not the verifier's, not for this agent, or not newer than what was taken.
    """
    envelope = envelope_of(lease_pb2.SignedLeaseRevocation(), signed)
    check_signature(terms, SigningDomain.LEASE_REVOCATION, envelope.body, envelope.signature)
    try:
        revocation = parse_revocation(envelope.body)
    except LeaseFaultError as error:
        raise LeaseRefusedError(error.fault, str(error)) from error
    if revocation.agent != terms.agent:
        raise other_agent(revocation.agent, terms.agent)
    if revocation.slot is not None:
        check_port(terms, revocation.slot)
    check_sequence(revocation.sequence, state.highest_sequence)
    ended = [key for key, place in state.places.items() if place.held is not None and _meant(revocation, *key)]
    return replace(_over(state, ended, Floor.REVOKED), highest_sequence=revocation.sequence)


def charge(state: KeeperState, slot: Slot, passed_bytes: int) -> KeeperState:
    """Return ``state`` after ``passed_bytes`` passed at ``slot``: on the budget of the lease in force there."""
    found = state.in_force(slot)
    if found is None or passed_bytes <= 0:
        return state
    kind, place = found
    charged = replace(place, used_bytes=place.used_bytes + passed_bytes)
    if charged.held is not None and charged.used_bytes >= charged.held.lease.volume_bytes:
        charged = replace(charged, held=None, floor=Floor.VOLUME_USED)
    return replace(state, places={**state.places, (slot, kind): charged})


def restore(state: KeeperState, terms: Terms) -> KeeperState:
    """Return what was stored, without the leases that the configuration of this start does not bear out.

    A key that was changed, a port that is gone, an agreement that became stricter: a lease is in force only if it
    would be taken today.
    """
    fresh = replace(state, highest_sequence=0, places={})
    ended = []
    for key, place in state.places.items():
        if place.held is None:
            continue
        try:
            offer(fresh, terms, place.held.signed, max(state.latest_ns, place.held.lease.not_before_ns))
        except LeaseRefusedError as error:
            if error.reason is not Refused.UNKNOWN_BUDGET:
                ended.append(key)
    return _over(state, ended, Floor.UNVERIFIABLE)


def _meant(revocation: Revocation, slot: Slot, kind: LeaseKind) -> bool:
    return revocation.slot in (None, slot) and revocation.kind in (None, kind)


def _all_over(state: KeeperState, floor: Floor) -> KeeperState:
    return _over(state, [key for key, place in state.places.items() if place.held is not None], floor)


def _over(state: KeeperState, keys: list[tuple[Slot, LeaseKind]], floor: Floor) -> KeeperState:
    ended = {key: replace(state.places[key], held=None, floor=floor) for key in keys}
    return replace(state, places={**state.places, **ended}) if ended else state
