"""Leases at work on doubles of disk, clock and limiter: what is in force after takes, ends, crashes and reboots."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from dpu_agent.clock import ManualClock
from dpu_agent.config import AgentConfig, PortConfig
from dpu_agent.errors import StateError
from dpu_agent.leasechecks import LeaseRefusedError, Refused
from dpu_agent.leasestore import FILE
from dpu_agent.limits.leases import Leases
from dpu_agent.limits.order import LimitClass, MemoryLimiter, Moments
from dpu_agent.limits.settings import L2_CONTROL, POLICE, Floor, LimitsConfig
from dpu_agent.limits.start import limiting_of
from dpu_agent.memory_disk import MemoryDisk, PowerCutError
from protos.buckets import TrafficClass
from protos.lease import Lease, LeaseKind, Revocation, Slot
from protos.leasewire import lease_body, revocation_body
from protos.moments import unpack_moments
from protos.reading import Direction, Observer
from protos.signing import SigningDomain, sign
from protos.v1 import lease_pb2

HOME = Path("/home-of-the-agent")
KEY = Ed25519PrivateKey.generate()
NS = 10**9
SLOT = Slot("pf0hpf", Direction.EGRESS, TrafficClass.OTHER_POD)
PORT, CLASS = "pf0hpf", LimitClass.OTHER_POD
OFFSET = 7 * NS


class Site:
    """An agent's limits, and what survives of them: the disk, the clock, the kernel's limiter."""

    def __init__(self, disk: MemoryDisk | None = None) -> None:
        self.disk, self.clock = disk or MemoryDisk(), ManualClock()
        self.limiter = MemoryLimiter(lambda: self.clock.monotonic_ns() - OFFSET)
        self.clock.advance(100 * NS)
        self.sequence = 0
        self.limits = LimitsConfig(backend=POLICE)

    def start(self) -> Leases:
        config = AgentConfig(
            path=Path("agent.json"),
            agent="node1-dpu0",
            listen="",
            ca=Path(),
            certificate=Path(),
            key=Path(),
            state_directory=HOME,
            ports=(PortConfig("pf0hpf", Observer.DPU_HOST_PORT), PortConfig("p0", Observer.DPU_UPLINK)),
            clock_offset_ns=OFFSET,
            verifier_public_key=KEY.public_key().public_bytes_raw(),
            limits=self.limits,
        )
        started = limiting_of(config, self.disk, self.clock, self.limiter)
        assert isinstance(started, Leases)
        return started

    def lease(
        self, *, volume: int = 10**9, lifetime_s: int = 30, budget: int | None = None, slot: Slot = SLOT
    ) -> Lease:
        self.sequence += 1
        return Lease(
            agent="node1-dpu0",
            sequence=self.sequence,
            boot_id=self.clock.boot_id,
            slot=slot,
            rate_bytes_per_s=1_000_000,
            depth_bytes=64_000,
            volume_bytes=volume,
            not_before_ns=self.clock.monotonic_ns(),
            lifetime_ns=lifetime_s * NS,
            budget=budget or self.sequence,
        )

    def revocation(self, slot: Slot | None = None) -> bytes:
        self.sequence += 1
        body = revocation_body(Revocation("node1-dpu0", self.sequence, slot))
        signature = sign(KEY, SigningDomain.LEASE_REVOCATION, body)
        return lease_pb2.SignedLeaseRevocation(body=body, signature=signature).SerializeToString()


def signed(lease: Lease) -> bytes:
    body = lease_body(lease)
    return lease_pb2.SignedLease(body=body, signature=sign(KEY, SigningDomain.LEASE, body)).SerializeToString()


def told(limits: Leases, traffic_class: LimitClass = CLASS, port: str = PORT) -> lease_pb2.LimiterReading:
    reading = limits.read()
    return next(
        each for each in reading.limiters if (each.state.port, each.state.traffic_class) == (port, traffic_class)
    )


def test_closed_first_then_open_and_closed_again_at_the_end_without_the_agent() -> None:
    site = Site()
    limits = site.start()
    assert {order.rate_bytes_per_s for order in site.limiter.orders.values()} == {0, L2_CONTROL.rate_bytes_per_s}
    assert len(site.limiter.orders) == 2 * 4  # other pods, front end, storage and control frames at both ports
    assert told(limits).state.floor_reason == "never-leased"
    assert site.limiter.offer(PORT, CLASS, 1_000) == 0
    limits.apply(signed(site.lease()))
    assert site.limiter.offer(PORT, CLASS, 1_000) == 1_000
    reading = told(limits)
    assert (reading.state.sequence, reading.state.used_bytes, reading.counters.dropped_bytes) == (1, 1_000, 1_000)
    assert reading.state.until_ns == site.clock.monotonic_ns() + 30 * NS
    # From here on the agent is dead: nobody calls it.
    site.clock.advance(30 * NS)
    assert site.limiter.offer(PORT, CLASS, 1_000) == 0


def test_a_slot_goes_to_its_floor_when_its_lease_ends_and_says_why() -> None:
    site = Site()
    site.limits = replace(site.limits, floors={**site.limits.floors, CLASS: Floor(5_000, 6_000)})
    limits = site.start()
    limits.apply(signed(site.lease()))
    site.clock.advance(30 * NS)
    state = told(limits).state
    assert (state.sequence, state.floor_reason) == (0, "lease-expired")
    assert (state.rate_bytes_per_s, state.depth_bytes) == (5_000, 6_000)
    limits.apply(signed(site.lease()))
    limits.revoke(site.revocation(SLOT))
    assert told(limits).state.floor_reason == "lease-revoked"
    assert not told(limits).trouble


def test_a_restart_goes_on_without_a_dip_and_with_the_volume_that_is_left() -> None:
    site = Site()
    limits = site.start()
    limits.apply(signed(site.lease(volume=10_000)))
    site.limiter.offer(PORT, CLASS, 4_000)
    limits.read()
    # Killed: it says no goodbye. Traffic goes on in the kernel.
    site.limiter.offer(PORT, CLASS, 1_000)
    site.clock.advance(2 * NS)
    again = site.start()
    order = site.limiter.orders[PORT, CLASS]
    assert (order.rate_bytes_per_s, order.volume_bytes) == (1_000_000, 5_000)
    assert told(again).state.used_bytes == 5_000
    with pytest.raises(LeaseRefusedError) as refused:
        again.apply(signed(replace(site.lease(), sequence=1, budget=1)))
    assert refused.value.reason is Refused.OLD_SEQUENCE


def test_a_renewal_changes_the_end_and_keeps_the_budget() -> None:
    site = Site()
    limits = site.start()
    limits.apply(signed(site.lease(volume=10_000)))
    site.limiter.offer(PORT, CLASS, 4_000)
    site.clock.advance(10 * NS)
    limits.apply(signed(site.lease(volume=10_000, budget=1)))
    order = site.limiter.orders[PORT, CLASS]
    assert order.volume_bytes == 6_000
    assert order.until_ns == site.clock.monotonic_ns() - OFFSET + 30 * NS
    site.limiter.offer(PORT, CLASS, 6_000)
    assert told(limits).state.floor_reason == "volume-used"


def test_after_a_reboot_all_is_closed_numbers_are_known_and_the_budget_is_charged_in_full() -> None:
    site = Site()
    limits = site.start()
    limits.apply(signed(site.lease(volume=10**12, lifetime_s=30)))
    site.limiter.offer(PORT, CLASS, 4_000)
    limits.read()
    lease = site.lease(volume=10**12, budget=1)
    site.clock.reboot("00000000-0000-4000-8000-000000000002", OFFSET + NS)
    site.limiter = MemoryLimiter(lambda: site.clock.monotonic_ns() - OFFSET)
    again = site.start()
    assert told(again).state.floor_reason == "rebooted"
    assert site.limiter.offer(PORT, CLASS, 1_000) == 0
    with pytest.raises(LeaseRefusedError) as refused:
        again.apply(signed(lease))
    assert refused.value.reason is Refused.OTHER_BOOT
    again.apply(signed(site.lease(volume=10**12, budget=1)))
    # What passed before the power went is not known: what the lease allowed until its end is what is charged.
    assert told(again).state.used_bytes == 4_000 + 30 * 1_000_000 + 64_000


def test_totals_that_begin_anew_are_charged_as_the_most_the_lease_allowed() -> None:
    site = Site()
    limits = site.start()
    limits.apply(signed(site.lease()))
    site.limiter.offer(PORT, CLASS, 4_000)
    limits.read()
    # The interface was made anew, and its limiter with it.
    site.limiter.totals.clear()
    site.limiter.apply(list(site.limiter.orders.values()))
    site.clock.advance(NS)
    site.limiter.offer(PORT, CLASS, 100)
    assert told(limits).state.used_bytes == 4_000 + 100 + 1_000_000 + 64_000


def test_a_lease_that_cannot_be_stored_is_not_taken() -> None:
    site = Site()
    limits = site.start()
    site.disk.bad_files = {HOME / FILE}
    with pytest.raises(LeaseRefusedError) as refused:
        limits.apply(signed(site.lease()))
    assert refused.value.reason is Refused.NOT_STORED
    assert site.limiter.offer(PORT, CLASS, 1) == 0
    site.disk.bad_files = set()
    reading = limits.read()
    assert [(each.reason, each.count) for each in reading.refusals] == [("not-stored", 1)]
    limits.apply(signed(site.lease()))
    assert told(limits).state.sequence == 2


def test_a_lease_that_cannot_be_put_in_force_is_refused_and_can_come_again() -> None:
    site = Site()
    limits = site.start()
    lease = signed(site.lease())
    site.limiter.broken = "the kernel says no"
    with pytest.raises(LeaseRefusedError) as refused:
        limits.apply(lease)
    assert refused.value.reason is Refused.NOT_ENFORCED
    assert limits.read().unavailable == "the kernel says no"
    site.limiter.broken = ""
    limits.apply(lease)
    assert told(limits).state.sequence == 1
    assert not limits.read().unavailable


def test_a_limiter_that_holds_something_else_is_told() -> None:
    site = Site()
    limits = site.start()
    limits.apply(signed(site.lease()))
    site.limiter.orders[PORT, CLASS] = replace(site.limiter.orders[PORT, CLASS], rate_bytes_per_s=10**9)
    assert "the limiter holds" in told(limits).trouble
    del site.limiter.orders[PORT, CLASS]
    assert "holds no order" in told(limits).trouble


def test_refusals_are_counted_by_reason_and_told_in_every_frame() -> None:
    site = Site()
    limits = site.start()
    newer, older = site.lease(), replace(site.lease(), sequence=1, budget=1)
    limits.apply(signed(replace(newer, sequence=2, budget=2)))
    for _ in range(3):
        with pytest.raises(LeaseRefusedError):
            limits.apply(signed(older))
    with pytest.raises(LeaseRefusedError):
        limits.apply(b"\xff")
    assert {each.reason: each.count for each in limits.read().refusals} == {"old-sequence": 3, "malformed": 1}


def test_a_load_window_ends_where_its_standing_lease_goes_on() -> None:
    site = Site()
    slot = Slot("p0", Direction.INGRESS, TrafficClass.STORAGE)
    limits = site.start()
    limits.apply(signed(site.lease(slot=slot, lifetime_s=60)))
    # Without an agreement in the configuration no load window is agreed.
    with pytest.raises(LeaseRefusedError) as refused:
        limits.apply(signed(replace(site.lease(slot=slot), kind=LeaseKind.LOAD)))
    assert refused.value.reason is Refused.LOAD_NOT_AGREED


def test_a_power_cut_anywhere_leaves_a_number_that_cannot_be_used_again() -> None:
    for cut in range(12):
        disk = MemoryDisk()
        site = Site(disk)
        limits = site.start()
        limits.apply(signed(site.lease()))
        second = site.lease()
        taken = False
        disk.changes_left = cut
        try:
            limits.apply(signed(second))
            taken = True
            limits.apply(signed(site.lease()))
        except PowerCutError:
            pass
        for seed in range(4):
            after = Site(disk.survivor(seed))
            after.clock = site.clock
            again = after.start()
            highest = again.read().highest_sequence
            assert highest >= (2 if taken else 1)
            with pytest.raises(LeaseRefusedError) as refused:
                again.apply(signed(replace(second, sequence=highest, budget=highest, volume_bytes=5)))
            assert refused.value.reason is Refused.OLD_SEQUENCE


def test_a_damaged_memory_of_leases_is_refused_not_replaced() -> None:
    site = Site()
    site.start().close()
    site.disk.replace_content(HOME / FILE, bytes(1 << 20))
    with pytest.raises(StateError, match="is damaged"):
        site.start()


def test_the_disk_may_be_full() -> None:
    site = Site()
    limits = site.start()
    site.disk.capacity = 0
    limits.apply(signed(site.lease()))
    assert told(limits).state.sequence == 1


def test_frames_tell_what_passed_by_the_millisecond_and_nobody_else_takes_it_away() -> None:
    site = Site()
    leases = site.start()
    site.limiter.moments = (Moments(PORT, CLASS, 10**6, 5, 4, ((6, 70, 0), (8, 0, 9)), 3),)
    assert not any(each.HasField("moments") for each in leases.describe().limiters)
    (told,) = [each for each in leases.read().limiters if each.HasField("moments")]
    assert (told.state.port, told.state.traffic_class) == (PORT, CLASS)
    assert told.moments.bucket_zero_ns == OFFSET
    assert (told.moments.width_ns, told.moments.unplaced_bytes) == (10**6, 3)
    assert unpack_moments(told.moments.series, 5, 4) == [(6, 70, 0), (8, 0, 9)]
    assert not any(each.HasField("moments") for each in leases.read().limiters)
