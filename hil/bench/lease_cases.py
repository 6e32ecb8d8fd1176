"""Leases by the ten thousand on one agent: signed, checked, on the disk, in the kernel, read back."""

from __future__ import annotations

import contextlib
import gc
import resource
import time
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median, quantiles

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from dpu_agent.clock import SystemClock
from dpu_agent.disk import Disk
from dpu_agent.leasechecks import LeaseRefusedError, Refused, Terms
from dpu_agent.leasestore import LeaseStore
from dpu_agent.limits.leases import Leases
from dpu_agent.limits.police import Policer
from dpu_agent.limits.settings import LimitsConfig
from hil.bench.metered_path import DPU, HOST_PORT, UPLINK, MeteredPath
from protos.buckets import TrafficClass
from protos.lease import Lease, Slot
from protos.leasewire import lease_body
from protos.reading import Direction
from protos.signing import SigningDomain, sign
from protos.v1 import lease_pb2

AGENT = "dpu0"
_CLASSES = (TrafficClass.OTHER_POD, TrafficClass.FRONT_END, TrafficClass.STORAGE)
_PORTS = {HOST_PORT: Direction.EGRESS, UPLINK: Direction.INGRESS}


@dataclass(frozen=True, slots=True)
class LeaseRun:
    """What so many leases did.

    Attributes:
        latencies_ns: from the call to the order in force, of each.
        not_read_back: leases whose order the kernel did not hold afterwards.
        grown_bytes: what the agent's memory grew by from the first tenth to the end.
        grown_files: open files more than before.
    """

    latencies_ns: list[int]
    not_read_back: int
    grown_bytes: int
    grown_files: int

    @property
    def median_ns(self) -> int:
        """Median of the latencies."""
        return round(median(self.latencies_ns))

    @property
    def p99_ns(self) -> int:
        """Their 99th percentile."""
        return round(quantiles(self.latencies_ns, n=100)[98])


def run(path: MeteredPath, count: int) -> LeaseRun:
    """Give ``count`` leases, in turn to each class at both ports, to an agent's leases over the real policer.

    1. Signed beforehand; the time of each is from the call until its order is in the kernel.
    2. Each is read back from the kernel, and must be what it says.
    """
    key, clock = Ed25519PrivateKey.generate(), SystemClock()
    state = path.folder / "leases"
    state.mkdir(exist_ok=True)
    store, remembered = LeaseStore.open(Disk(), state)
    with path.inside(DPU):
        policer = Policer(list(_PORTS), bpf_file_system=path.bpf)
    leases = Leases(
        terms=Terms(agent=AGENT, verifier=key.public_key().public_bytes_raw(), ports=_PORTS, classes=_CLASSES),
        floors=LimitsConfig().floors,
        limiter=policer,
        store=store,
        remembered=remembered,
        clock=clock,
    )
    slots = [Slot(port, direction, each) for port, direction in _PORTS.items() for each in _CLASSES]
    latencies, wrong, early = [], 0, 0
    files = _files()
    for number in range(1, count + 1):
        lease = Lease(
            agent=AGENT,
            sequence=number,
            boot_id=clock.boot_id,
            slot=slots[number % len(slots)],
            rate_bytes_per_s=100_000 + number,
            depth_bytes=64_000 + number,
            volume_bytes=10**12,
            not_before_ns=clock.monotonic_ns(),
            lifetime_ns=60_000_000_000,
            budget=number,
        )
        signed = _signed(key, lease)
        began_ns = time.perf_counter_ns()
        leases.apply(signed)
        latencies.append(time.perf_counter_ns() - began_ns)
        wrong += not _is_read_back(policer, lease)
        if number == count // 10:
            gc.collect()
            early = _memory()
    gc.collect()
    found = LeaseRun(latencies, wrong, _memory() - early, _files() - files)
    leases.close()
    return found


def forgeries(path: MeteredPath) -> dict[str, int]:
    """Offer an agent what it must refuse, each with its own reason; return how often each reason was told in a frame.

    An old lease after a newer one, another agent's, a changed byte, one that the prover signed, one beyond the agreed
    lifetime, and any at all once the clock was set back.
    """
    key, prover, clock = Ed25519PrivateKey.generate(), Ed25519PrivateKey.generate(), _SetBack()
    state = path.folder / "forgeries"
    state.mkdir()
    store, remembered = LeaseStore.open(Disk(), state)
    with path.inside(DPU):
        policer = Policer(list(_PORTS), bpf_file_system=path.bpf)
    raw = (key.public_key().public_bytes_raw(), prover.public_key().public_bytes_raw())
    terms = Terms(AGENT, raw[0], _PORTS, prover=raw[1], longest_lifetime_ns=60_000_000_000, classes=_CLASSES)
    leases = Leases(
        terms=terms,
        floors=LimitsConfig().floors,
        limiter=policer,
        store=store,
        remembered=remembered,
        clock=clock,
    )
    slot = Slot(HOST_PORT, Direction.EGRESS, TrafficClass.OTHER_POD)
    lease = Lease(AGENT, 2, clock.boot_id, slot, 1, 1, 1, clock.monotonic_ns(), 60_000_000_000, 2)
    good = _signed(key, lease)
    leases.apply(good)
    newer = replace(lease, sequence=3)
    offered = {
        Refused.OLD_SEQUENCE: _signed(key, replace(lease, sequence=1, budget=1)),
        Refused.OTHER_AGENT: _signed(key, replace(newer, agent="dpu1")),
        Refused.BAD_SIGNATURE: _signed(key, newer)[:-1] + bytes([_signed(key, newer)[-1] ^ 1]),
        Refused.SIGNED_BY_PROVER: _signed(prover, newer),
        Refused.LIFETIME_BEYOND_AGREEMENT: _signed(key, replace(newer, lifetime_ns=60_000_000_001)),
        Refused.CLOCK_SET_BACK: _signed(key, newer),
    }
    for reason, signed in offered.items():
        clock.back = reason is Refused.CLOCK_SET_BACK
        with contextlib.suppress(LeaseRefusedError):
            leases.apply(signed)
    told = {each.reason: each.count for each in leases.read().refusals}
    leases.close()
    return {reason.value: told.get(reason.value, 0) for reason in offered}


class _SetBack(SystemClock):
    """The kernel's clock, an hour earlier once ``back`` is set."""

    back = False

    def monotonic_ns(self) -> int:
        """Return what it shows."""
        return super().monotonic_ns() - (3_600_000_000_000 if self.back else 0)


def _signed(key: Ed25519PrivateKey, lease: Lease) -> bytes:
    body = lease_body(lease)
    return lease_pb2.SignedLease(body=body, signature=sign(key, SigningDomain.LEASE, body)).SerializeToString()


def _is_read_back(policer: Policer, lease: Lease) -> bool:
    return any(
        (each.rate_bytes_per_s, each.depth_bytes, each.until_ns)
        == (lease.rate_bytes_per_s, lease.depth_bytes, lease.end_ns)
        for each in policer.read_back()
        if (each.port, int(each.traffic_class)) == (lease.slot.port, int(lease.slot.traffic_class))
    )


def _memory() -> int:
    return int(Path("/proc/self/statm").read_text("ascii").split()[1]) * resource.getpagesize()


def _files() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())
