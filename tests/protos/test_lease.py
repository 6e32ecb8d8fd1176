"""Leases: their arithmetic by another way, and messages that lack something are refused by name."""

from __future__ import annotations

import contextlib
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protos.buckets import TrafficClass
from protos.lease import (
    LEASED_CLASSES,
    Bound,
    Lease,
    LeaseKind,
    Revocation,
    Slot,
    broken_bounds,
    greatest_rate,
    most_bytes,
)
from protos.leasewire import (
    Fault,
    LeaseFaultError,
    lease_body,
    parse_lease,
    parse_revocation,
    revocation_body,
)
from protos.reading import Direction
from protos.v1 import lease_pb2

SLOT = Slot("pf0hpf", Direction.EGRESS, TrafficClass.OTHER_POD)
LEASE = Lease(
    agent="node1-dpu0",
    sequence=7,
    boot_id="b",
    slot=SLOT,
    rate_bytes_per_s=1_000_000,
    depth_bytes=64_000,
    volume_bytes=10**9,
    not_before_ns=5,
    lifetime_ns=30 * 10**9,
    budget=7,
    agreement_sha256=bytes(32),
)
NUMBERS = st.integers(1, 2**64 - 1)
BOUNDS = st.lists(st.builds(Bound, st.integers(1, 10**15), st.integers(1, 10**15)), max_size=5)


def test_the_thresholds_of_a_site() -> None:
    five_minutes, hour = Bound(300 * 10**9, 300_000_000), Bound(3_600 * 10**9, 2_000_000_000)
    # 2 GB in an hour is 0.556 MB/s: the stricter one at every depth.
    assert greatest_rate(0, [five_minutes]) == 1_000_000
    assert greatest_rate(0, [five_minutes, hour]) == 555_555
    assert broken_bounds(555_555, 0, [five_minutes, hour]) == []
    assert broken_bounds(555_556, 0, [five_minutes, hour]) == [hour]
    # At a depth of 300 MB not one byte a second is left of the five minutes.
    assert greatest_rate(300_000_000, [five_minutes, hour]) is None
    assert greatest_rate(0, []) is None
    assert most_bytes(1_000_000, 64_000, 300 * 10**9) == 300_064_000


@given(NUMBERS, st.integers(0, 10**12), BOUNDS)
def test_bounds_are_broken_exactly_where_fractions_say_so(rate: int, depth: int, bounds: list[Bound]) -> None:
    wrong = [each for each in bounds if Fraction(rate * each.window_ns, 10**9) + depth > each.bytes]
    assert broken_bounds(rate, depth, bounds) == wrong


@given(st.integers(0, 10**12), BOUNDS.filter(bool))
def test_the_greatest_rate_is_within_and_one_more_is_not(depth: int, bounds: list[Bound]) -> None:
    rate = greatest_rate(depth, bounds)
    assert broken_bounds((rate or 0) + 1, depth, bounds)
    assert rate is None or not broken_bounds(rate, depth, bounds)


@given(
    st.builds(
        Lease,
        agent=st.text(max_size=20),
        sequence=st.just(2**64 - 1),
        boot_id=st.text(max_size=40),
        slot=st.builds(Slot, st.text(max_size=15), st.sampled_from(Direction), st.sampled_from(LEASED_CLASSES)),
        rate_bytes_per_s=NUMBERS,
        depth_bytes=NUMBERS,
        volume_bytes=NUMBERS,
        not_before_ns=st.integers(0, 2**62),
        lifetime_ns=st.integers(1, 2**62),
        budget=NUMBERS,
        kind=st.sampled_from(LeaseKind),
        agreement_sha256=st.binary(max_size=32),
    )
)
def test_a_lease_comes_back_from_its_bytes(lease: Lease) -> None:
    assert parse_lease(lease_body(lease)) == lease


@given(
    st.builds(
        Revocation,
        agent=st.text(max_size=20),
        sequence=NUMBERS,
        slot=st.none()
        | st.builds(
            Slot, st.text(min_size=1, max_size=15), st.sampled_from(Direction), st.sampled_from(LEASED_CLASSES)
        ),
        kind=st.none() | st.sampled_from(LeaseKind),
    )
)
def test_a_revocation_comes_back_from_its_bytes(revocation: Revocation) -> None:
    assert parse_revocation(revocation_body(revocation)) == revocation


def changed(**fields: object) -> bytes:
    message = lease_pb2.Lease.FromString(lease_body(LEASE))
    for name, value in fields.items():
        if value is None:
            message.ClearField(name)
        else:
            setattr(message, name, value)
    return message.SerializeToString()


@pytest.mark.parametrize(
    ("body", "fault"),
    [
        (b"\xff", Fault.MALFORMED),
        (b"", Fault.UNKNOWN_VERSION),
        (changed(version=2), Fault.UNKNOWN_VERSION),
        (changed(sequence=None), Fault.SEQUENCE_ZERO),
        (changed(kind=None), Fault.KIND_UNKNOWN),
        (changed(direction=None), Fault.DIRECTION_UNKNOWN),
        (changed(traffic_class=None), Fault.CLASS_ABSENT),
        (changed(traffic_class=TrafficClass.MANAGEMENT), Fault.CLASS_NOT_LEASED),
        (changed(traffic_class=TrafficClass.UNKNOWN), Fault.CLASS_NOT_LEASED),
        (changed(traffic_class=99), Fault.CLASS_NOT_LEASED),
        (changed(rate_bytes_per_s=None), Fault.RATE_ABSENT),
        (changed(rate_bytes_per_s=0), Fault.RATE_ZERO),
        (changed(depth_bytes=None), Fault.DEPTH_ABSENT),
        (changed(depth_bytes=0), Fault.DEPTH_ZERO),
        (changed(volume_bytes=None), Fault.VOLUME_ABSENT),
        (changed(volume_bytes=0), Fault.VOLUME_ZERO),
        (changed(lifetime_ns=None), Fault.LIFETIME_ABSENT),
        (changed(lifetime_ns=0), Fault.LIFETIME_ZERO),
        (changed(lifetime_ns=2**63), Fault.MALFORMED),
        (changed(not_before_ns=None), Fault.NOT_BEFORE_ABSENT),
        (changed(budget=None), Fault.BUDGET_IMPOSSIBLE),
        (changed(budget=8), Fault.BUDGET_IMPOSSIBLE),
    ],
)
def test_what_is_absent_or_zero_is_refused_by_its_name(body: bytes, fault: Fault) -> None:
    with pytest.raises(LeaseFaultError) as refused:
        parse_lease(body)
    assert refused.value.fault is fault


@given(st.binary(max_size=300))
def test_any_bytes_are_a_lease_or_a_fault(body: bytes) -> None:
    with contextlib.suppress(LeaseFaultError):
        assert parse_lease(body).rate_bytes_per_s > 0
    with contextlib.suppress(LeaseFaultError):
        assert parse_revocation(body).sequence > 0
