"""The lease keeper: what is taken, what is refused under which name, and what ends a lease."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from dpu_agent.keeper import Floor, KeeperState, charge, offer, restore, revoke, tick
from dpu_agent.leasechecks import LeaseRefusedError, LoadTerms, Refused, Terms
from protos.buckets import TrafficClass
from protos.lease import LEASED_CLASSES, Bound, Lease, LeaseKind, LoadWindow, Revocation, Slot
from protos.leasewire import Fault, lease_body, load_window_body, revocation_body
from protos.reading import Direction
from protos.signing import SigningDomain, sign
from protos.v1 import lease_pb2

VERIFIER, PROVER = Ed25519PrivateKey.generate(), Ed25519PrivateKey.generate()
NS = 10**9
BOOT, NEXT_BOOT = "boot-1", "boot-2"
AGREEMENT = bytes([7] * 32)
SLOT = Slot("pf0hpf", Direction.EGRESS, TrafficClass.OTHER_POD)
STORAGE_IN = Slot("p0", Direction.INGRESS, TrafficClass.STORAGE)
TERMS = Terms(
    agent="node1-dpu0",
    verifier=VERIFIER.public_key().public_bytes_raw(),
    prover=PROVER.public_key().public_bytes_raw(),
    ports={"pf0hpf": Direction.EGRESS, "p0": Direction.INGRESS},
    bounds={TrafficClass.OTHER_POD: (Bound(300 * NS, 300_000_000), Bound(3_600 * NS, 2_000_000_000))},
    longest_lifetime_ns=60 * NS,
    loads=LoadTerms(frozenset({TrafficClass.STORAGE}), 300 * 10**9, 1_800 * NS, 10_000, both_sign=True),
    agreement_sha256=AGREEMENT,
)
NOW = 1_000 * NS
START = KeeperState(highest_sequence=10, boot_id=BOOT, latest_ns=NOW)
LEASE = Lease(
    agent="node1-dpu0",
    sequence=11,
    boot_id=BOOT,
    slot=SLOT,
    rate_bytes_per_s=500_000,
    depth_bytes=64_000,
    volume_bytes=20_000_000,
    not_before_ns=NOW,
    lifetime_ns=30 * NS,
    budget=11,
    agreement_sha256=AGREEMENT,
)
WINDOW = LoadWindow(
    site="demo",
    agent=TERMS.agent,
    number=5,
    traffic_class=TrafficClass.STORAGE,
    ingress_bytes=10**11,
    egress_bytes=10**9,
    longest_ns=1_800 * NS,
    agreement_sha256=AGREEMENT,
)


def load_lease(window: LoadWindow = WINDOW, **changes: Any) -> Lease:
    lease = replace(
        LEASE,
        slot=STORAGE_IN,
        kind=LeaseKind.LOAD,
        rate_bytes_per_s=10**9,
        volume_bytes=10**11,
        lifetime_ns=1_800 * NS,
        load_window=load_window_body(window),
    )
    return replace(lease, **changes)


def signed(
    lease: Lease,
    key: Ed25519PrivateKey = VERIFIER,
    *,
    domain: SigningDomain = SigningDomain.LEASE,
    prover: Ed25519PrivateKey | None = None,
) -> bytes:
    body = lease_body(lease)
    return lease_pb2.SignedLease(
        body=body,
        signature=sign(key, domain, body),
        prover_signature=sign(prover, SigningDomain.LOAD_WINDOW, lease.load_window) if prover else b"",
    ).SerializeToString()


def revocation(sequence: int, *, slot: Slot | None = SLOT, kind: LeaseKind | None = None, agent: str = "") -> bytes:
    body = revocation_body(Revocation(agent or TERMS.agent, sequence, slot, kind))
    return lease_pb2.SignedLeaseRevocation(
        body=body, signature=sign(VERIFIER, SigningDomain.LEASE_REVOCATION, body)
    ).SerializeToString()


def reason_of(state: KeeperState, data: bytes, now_ns: int = NOW, terms: Terms = TERMS) -> Refused | Fault:
    with pytest.raises(LeaseRefusedError) as refused:
        offer(state, terms, data, now_ns)
    assert str(refused.value)
    return refused.value.reason


def held(state: KeeperState, slot: Slot = SLOT) -> Lease | None:
    found = state.in_force(slot)
    return found[1].held.lease if found and found[1].held else None


def test_a_lease_is_in_force_until_its_end_and_not_a_nanosecond_longer() -> None:
    state = offer(START, TERMS, signed(LEASE), NOW)
    assert held(state) == LEASE
    assert state.highest_sequence == 11
    assert held(tick(state, BOOT, LEASE.end_ns - 1)) == LEASE
    ended = tick(state, BOOT, LEASE.end_ns)
    assert held(ended) is None
    assert ended.place(SLOT, LeaseKind.STANDING).floor is Floor.EXPIRED


def test_the_same_bytes_again_change_nothing_and_after_the_end_they_are_old() -> None:
    state = offer(START, TERMS, signed(LEASE), NOW)
    assert offer(state, TERMS, signed(LEASE), NOW) is state
    ended = tick(state, BOOT, LEASE.end_ns)
    assert reason_of(ended, signed(LEASE), LEASE.end_ns) is Refused.OLD_SEQUENCE


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"\xff", Fault.MALFORMED),
        (bytes(5_000), Fault.MALFORMED),
        (signed(LEASE, PROVER), Refused.SIGNED_BY_PROVER),
        (signed(LEASE, Ed25519PrivateKey.generate()), Refused.BAD_SIGNATURE),
        (signed(LEASE, domain=SigningDomain.CLASS_TABLE), Refused.BAD_SIGNATURE),
        (signed(replace(LEASE, agent="node2-dpu0")), Refused.OTHER_AGENT),
        (signed(replace(LEASE, boot_id=NEXT_BOOT)), Refused.OTHER_BOOT),
        (signed(replace(LEASE, sequence=10, budget=10)), Refused.OLD_SEQUENCE),
        (signed(replace(LEASE, slot=replace(SLOT, port="p9"))), Refused.UNKNOWN_PORT),
        (signed(replace(LEASE, slot=replace(SLOT, direction=Direction.INGRESS))), Refused.WRONG_DIRECTION),
        (signed(replace(LEASE, not_before_ns=NOW + 1)), Refused.NOT_YET),
        (signed(replace(LEASE, not_before_ns=NOW - 30 * NS)), Refused.EXPIRED),
        (signed(replace(LEASE, agreement_sha256=bytes(32))), Refused.OTHER_AGREEMENT),
        (signed(replace(LEASE, lifetime_ns=60 * NS + 1)), Refused.LIFETIME_BEYOND_AGREEMENT),
        (signed(replace(LEASE, rate_bytes_per_s=555_556)), Refused.RATE_BEYOND_AGREEMENT),
        (signed(replace(LEASE, depth_bytes=200_000_000)), Refused.RATE_BEYOND_AGREEMENT),
        (signed(replace(LEASE, budget=9)), Refused.UNKNOWN_BUDGET),
        (signed(replace(LEASE, kind=LeaseKind.LOAD)), Refused.LOAD_NOT_AGREED),
        (signed(load_lease(load_window=b"")), Fault.UNKNOWN_VERSION),
        (signed(load_lease(replace(WINDOW, egress_bytes=0)), prover=PROVER), Fault.WINDOW_INCOMPLETE),
        (
            signed(load_lease(replace(WINDOW, ingress_bytes=3 * 10**11 + 1)), prover=PROVER),
            Refused.LOAD_BEYOND_AGREEMENT,
        ),
        (signed(load_lease(replace(WINDOW, egress_bytes=10**9 + 1)), prover=PROVER), Refused.LOAD_BEYOND_AGREEMENT),
        (signed(load_lease(replace(WINDOW, longest_ns=1_800 * NS + 1)), prover=PROVER), Refused.LOAD_BEYOND_AGREEMENT),
        (signed(load_lease()), Refused.NOT_SIGNED_BY_PROVER),
        (signed(load_lease(), prover=VERIFIER), Refused.NOT_SIGNED_BY_PROVER),
        (signed(load_lease(replace(WINDOW, agent="node2-dpu0")), prover=PROVER), Refused.OTHER_AGENT),
        (signed(load_lease(volume_bytes=10**11 + 1), prover=PROVER), Refused.BEYOND_LOAD_WINDOW),
        (signed(load_lease(lifetime_ns=1_800 * NS + 1), prover=PROVER), Refused.BEYOND_LOAD_WINDOW),
        (
            signed(load_lease(slot=replace(STORAGE_IN, port="pf0hpf", direction=Direction.EGRESS)), prover=PROVER),
            Refused.BEYOND_LOAD_WINDOW,
        ),
    ],
    ids=lambda value: "offered" if isinstance(value, bytes) else value.name,  # keys differ from run to run
)
def test_forgeries_and_replays_are_refused_each_with_its_own_reason(data: bytes, reason: Refused | Fault) -> None:
    assert reason_of(START, data) is reason


def test_without_a_key_no_lease_is_taken() -> None:
    assert reason_of(START, signed(LEASE), terms=replace(TERMS, verifier=b"")) is Refused.NO_VERIFIER_KEY


def test_an_old_lease_after_a_newer_one_is_refused_whatever_its_port() -> None:
    newer = replace(LEASE, sequence=13, budget=13)
    state = offer(START, TERMS, signed(newer), NOW)
    assert reason_of(state, signed(LEASE)) is Refused.OLD_SEQUENCE
    other_slot = replace(LEASE, sequence=12, budget=12, slot=replace(SLOT, traffic_class=TrafficClass.FRONT_END))
    assert reason_of(state, signed(other_slot)) is Refused.OLD_SEQUENCE
    assert held(state) == newer


@given(st.data())
def test_a_changed_byte_is_never_taken(data: st.DataObject) -> None:
    good = bytearray(signed(LEASE))
    place = data.draw(st.integers(0, len(good) - 1))
    good[place] ^= data.draw(st.integers(1, 255))
    try:
        state = offer(START, TERMS, bytes(good), NOW)
    except LeaseRefusedError:
        return
    # What was changed is no part of what was signed: a field that nobody reads.
    assert held(state) == LEASE


def test_a_clock_set_back_ends_every_lease_until_it_has_caught_up() -> None:
    state = tick(offer(START, TERMS, signed(LEASE), NOW), BOOT, NOW + 5 * NS)
    back = tick(state, BOOT, NOW + 4 * NS)
    assert held(back) is None
    assert back.place(SLOT, LeaseKind.STANDING).floor is Floor.CLOCK_SET_BACK
    again = replace(LEASE, sequence=12, budget=12)
    assert reason_of(back, signed(again), NOW + 4 * NS) is Refused.CLOCK_SET_BACK
    caught_up = tick(back, BOOT, NOW + 6 * NS)
    assert held(offer(caught_up, TERMS, signed(again), NOW + 6 * NS)) == again


def test_a_reboot_ends_every_lease_and_forgets_no_number() -> None:
    state = charge(offer(START, TERMS, signed(LEASE), NOW), SLOT, 5_000)
    after = tick(state, NEXT_BOOT, 3 * NS)
    assert held(after) is None
    assert after.place(SLOT, LeaseKind.STANDING).floor is Floor.REBOOTED
    assert after.highest_sequence == 11
    assert reason_of(after, signed(LEASE), 3 * NS) is Refused.OTHER_BOOT
    # The budget goes on where it stood: a reboot is no way to get a fresh one.
    renewed = replace(LEASE, sequence=12, boot_id=NEXT_BOOT, not_before_ns=2 * NS)
    went_on = offer(after, TERMS, signed(renewed), 3 * NS)
    assert went_on.place(SLOT, LeaseKind.STANDING).used_bytes == 5_000


def test_a_volume_is_used_up_over_renewals() -> None:
    state = charge(offer(START, TERMS, signed(LEASE), NOW), SLOT, 19_999_999)
    renewed = offer(state, TERMS, signed(replace(LEASE, sequence=12)), NOW)
    used = charge(renewed, SLOT, 1)
    assert held(used) is None
    assert used.place(SLOT, LeaseKind.STANDING).floor is Floor.VOLUME_USED
    assert reason_of(used, signed(replace(LEASE, sequence=13))) is Refused.BUDGET_USED
    assert held(offer(used, TERMS, signed(replace(LEASE, sequence=13, budget=13)), NOW)) is not None


def test_a_load_window_stands_before_the_standing_lease_and_leaves_it_when_it_ends() -> None:
    standing = replace(LEASE, slot=STORAGE_IN, lifetime_ns=60 * NS)
    load = load_lease(sequence=12, budget=12, lifetime_ns=20 * NS)
    state = offer(START, TERMS, signed(standing), NOW)
    state = offer(state, TERMS, signed(load, prover=PROVER), NOW)
    assert held(state, STORAGE_IN) == load
    charged = charge(state, STORAGE_IN, 1_000)
    assert charged.place(STORAGE_IN, LeaseKind.LOAD).used_bytes == 1_000
    assert charged.place(STORAGE_IN, LeaseKind.STANDING).used_bytes == 0
    assert held(tick(charged, BOOT, load.end_ns), STORAGE_IN) == standing


def test_a_load_window_that_was_signed_once_is_used_once() -> None:
    state = offer(START, TERMS, signed(load_lease(), prover=PROVER), NOW)
    gone = revoke(state, TERMS, revocation(12, slot=None))
    again = signed(load_lease(sequence=13, budget=13), prover=PROVER)
    assert reason_of(gone, again) is Refused.LOAD_WINDOW_USED
    # Renewed under its own budget it goes on, and so does the other direction, which has a budget of its own.
    went_on = offer(gone, TERMS, signed(load_lease(sequence=13), prover=PROVER), NOW)
    assert held(went_on, STORAGE_IN) is not None
    back = load_lease(
        sequence=14, budget=14, slot=replace(STORAGE_IN, port="pf0hpf", direction=Direction.EGRESS), volume_bytes=10**9
    )
    assert held(offer(went_on, TERMS, signed(back, prover=PROVER), NOW), back.slot) == back
    newer = load_lease(replace(WINDOW, number=6), sequence=15, budget=15)
    assert held(offer(went_on, TERMS, signed(newer, prover=PROVER), NOW), STORAGE_IN) == newer


def test_revocations() -> None:
    state = offer(START, TERMS, signed(LEASE), NOW)
    gone = revoke(state, TERMS, revocation(12))
    assert held(gone) is None
    assert gone.place(SLOT, LeaseKind.STANDING).floor is Floor.REVOKED
    assert held(revoke(state, TERMS, revocation(12, slot=None))) is None
    assert held(revoke(state, TERMS, revocation(12, kind=LeaseKind.LOAD))) == LEASE
    # What was revoked stays so: the revocation's own number is used.
    assert reason_of(gone, signed(replace(LEASE, sequence=12))) is Refused.OLD_SEQUENCE
    for data, reason in (
        (revocation(11), Refused.OLD_SEQUENCE),
        (revocation(12, agent="node2-dpu0"), Refused.OTHER_AGENT),
        (revocation(12, slot=replace(SLOT, port="p9")), Refused.UNKNOWN_PORT),
        # A lease's signature is worth nothing under a revocation, and the other way round.
        (signed(LEASE), Refused.BAD_SIGNATURE),
    ):
        with pytest.raises(LeaseRefusedError) as refused:
            revoke(state, TERMS, data)
        assert refused.value.reason is reason
    assert reason_of(state, revocation(12)) is Refused.BAD_SIGNATURE


def test_what_the_configuration_no_longer_bears_out_is_not_restored() -> None:
    state = offer(START, TERMS, signed(LEASE), NOW)
    renewed = offer(state, TERMS, signed(replace(LEASE, sequence=12)), NOW)
    assert restore(renewed, TERMS) == renewed
    other_key = replace(TERMS, verifier=PROVER.public_key().public_bytes_raw(), prover=b"")
    stricter = replace(TERMS, bounds={TrafficClass.OTHER_POD: (Bound(NS, 1_000),)})
    fewer_ports = replace(TERMS, ports={"p0": Direction.INGRESS})
    for terms in (other_key, stricter, fewer_ports):
        gone = restore(state, terms)
        assert held(gone) is None
        assert gone.place(SLOT, LeaseKind.STANDING).floor is Floor.UNVERIFIABLE
        assert gone.highest_sequence == state.highest_sequence


class AnyOrder(RuleBasedStateMachine):
    """Whatever comes in whatever order: what is in force was signed, lives, and numbers and use never go back."""

    def __init__(self) -> None:
        super().__init__()
        self.state = tick(KeeperState(), BOOT, NOW)
        self.now = NOW
        self.boot = BOOT
        self.issued: list[tuple[Lease, bytes]] = []
        self.revoked_up_to: dict[Slot, int] = {}
        self.used: dict[tuple[Slot, LeaseKind, int], int] = {}

    def take(self, new: KeeperState) -> None:
        assert new.highest_sequence >= self.state.highest_sequence
        for (slot, kind), place in self.state.places.items():
            after = new.place(slot, kind)
            assert after.budget > place.budget or after.used_bytes >= place.used_bytes
        self.state = new

    @rule(
        slot=st.sampled_from([SLOT, STORAGE_IN]),
        lifetime_s=st.integers(1, 60),
        ahead=st.integers(-2, 3),
        volume=st.integers(1, 3_000),
        goes_on=st.booleans(),
        rate=st.sampled_from([1, 500_000, 600_000]),
    )
    def issue(self, *, slot: Slot, lifetime_s: int, ahead: int, volume: int, goes_on: bool, rate: int) -> None:
        sequence = max(1, self.state.highest_sequence + ahead)
        budget = self.state.place(slot, LeaseKind.STANDING).budget if goes_on else sequence
        lease = Lease(
            agent=TERMS.agent,
            sequence=sequence,
            boot_id=self.boot,
            slot=slot,
            rate_bytes_per_s=rate,
            depth_bytes=1,
            volume_bytes=volume,
            not_before_ns=self.now,
            lifetime_ns=lifetime_s * NS,
            budget=min(budget, sequence) or sequence,
            agreement_sha256=AGREEMENT,
        )
        self.issued.append((lease, signed(lease)))
        self.present(len(self.issued) - 1)

    @precondition(lambda self: self.issued)
    @rule(which=st.integers(0, 10**6))
    def present(self, which: int) -> None:
        lease, data = self.issued[which % len(self.issued)]
        before = self.state
        try:
            after = offer(before, TERMS, data, self.now)
        except LeaseRefusedError:
            return
        if after is not before:
            assert lease.sequence > before.highest_sequence
            assert lease.rate_bytes_per_s <= 555_555 or lease.slot is not SLOT
        self.take(after)

    @rule(ns=st.integers(-2 * NS, 20 * NS))
    def pass_time(self, ns: int) -> None:
        self.now = max(0, self.now + ns)
        self.take(tick(self.state, self.boot, self.now))

    @rule()
    def reboot(self) -> None:
        self.boot, self.now = f"{self.boot}+", NS
        self.take(tick(self.state, self.boot, self.now))

    @rule(slot=st.sampled_from([SLOT, STORAGE_IN]), count=st.integers(0, 2_000))
    def traffic(self, slot: Slot, count: int) -> None:
        self.take(charge(self.state, slot, count))

    @rule(slot=st.sampled_from([SLOT, None]))
    def withdraw(self, slot: Slot | None) -> None:
        self.take(revoke(self.state, TERMS, revocation(self.state.highest_sequence + 1, slot=slot)))
        for each in (slot,) if slot else (SLOT, STORAGE_IN):
            self.revoked_up_to[each] = self.state.highest_sequence

    @invariant()
    def what_is_in_force_may_be(self) -> None:
        for slot in (SLOT, STORAGE_IN):
            lease = held(self.state, slot)
            if lease is None:
                continue
            assert any(lease == known for known, _ in self.issued)
            assert lease.boot_id == self.boot
            assert lease.not_before_ns <= self.now < lease.end_ns
            assert lease.sequence > self.revoked_up_to.get(slot, 0)
            assert self.state.place(slot, LeaseKind.STANDING).used_bytes < lease.volume_bytes


AnyOrder.TestCase.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
TestAnyOrder = AnyOrder.TestCase


def test_every_class_that_is_leased_can_be() -> None:
    for place, traffic_class in enumerate(LEASED_CLASSES, 11):
        lease = replace(LEASE, sequence=place, budget=place, slot=replace(SLOT, traffic_class=traffic_class))
        assert held(offer(START, TERMS, signed(lease), NOW), lease.slot) == lease
