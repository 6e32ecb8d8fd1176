"""The seam to whatever limits: orders in, what is in force and what passed out. With a double in memory.

An order is about one class at one port's ingress: the host port's is the node's egress, the uplink's its ingress. A
limiter carries out exactly the orders it was given last; everything an order says holds in the limiter itself, without
the agent: its end, its volume and its floor.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from protos.buckets import TrafficClass


class LimitClass(enum.IntEnum):
    """What has a budget of its own; the numbers are those of the traffic class it is named after.

    Unknown addresses and frames that are not IP count as other pods; management is never limited.
    """

    SAME_POD = TrafficClass.SAME_POD
    OTHER_POD = TrafficClass.OTHER_POD
    FRONT_END = TrafficClass.FRONT_END
    STORAGE = TrafficClass.STORAGE
    L2_CONTROL = TrafficClass.L2_CONTROL


class LimiterError(Exception):
    """Orders that cannot be carried out, or a limiter that cannot be read; says what and what to do."""


@dataclass(frozen=True, slots=True)
class Order:
    """A token bucket of one class at one port's ingress.

    Attributes:
        port: the interface.
        traffic_class: of the frames it is for.
        rate_bytes_per_s, depth_bytes: until the order's end.
        volume_bytes: what may pass before the floor holds, counted from the last :meth:`Limiter.prove`; None: no bound.
        until_ns: when the floor begins to hold, on CLOCK_MONOTONIC as the kernel has it; None: never.
        floor_rate_bytes_per_s, floor_depth_bytes: after that; both 0: nothing passes.
    """

    port: str
    traffic_class: LimitClass
    rate_bytes_per_s: int
    depth_bytes: int
    volume_bytes: int | None
    until_ns: int | None
    floor_rate_bytes_per_s: int
    floor_depth_bytes: int


@dataclass(frozen=True, slots=True)
class Passed:
    """What one class offered at one port's ingress, what passed, what was dropped; cumulative, bytes and packets."""

    port: str
    traffic_class: LimitClass
    offered_bytes: int
    passed_bytes: int
    dropped_bytes: int
    offered_packets: int
    passed_packets: int
    dropped_packets: int


@dataclass(frozen=True, slots=True)
class Moments:
    """What one class passed and lost at one port's ingress, bucket by bucket of time.

    Attributes:
        width_ns: of a bucket; bucket ``i`` begins at ``i * width_ns`` of the kernel's CLOCK_MONOTONIC.
        first, count: all buckets from ``first`` on, ``count`` of them, are over, and this is all of them.
        buckets: index, bytes passed and bytes dropped, in order; those that are left out are empty.
        unplaced_bytes: what passed and is in no bucket at all, cumulative.
    """

    port: str
    traffic_class: LimitClass
    width_ns: int
    first: int
    count: int
    buckets: tuple[tuple[int, int, int], ...]
    unplaced_bytes: int


class Limiter(Protocol):
    """A limiter. Every method raises :class:`LimiterError`."""

    @property
    def name(self) -> str:
        """What it is: ``police``, ``shape``."""

    def apply(self, orders: Sequence[Order]) -> None:
        """Return when ``orders`` are in force; classes they do not name keep what they had.

        A bucket keeps its tokens, up to the new depth: an order is no refill.
        """

    def read_back(self) -> tuple[Order, ...]:
        """Return what is in force, read from where it is enforced."""

    def prove(self) -> tuple[Passed, ...]:
        """Return what passed."""

    def drain(self) -> tuple[Moments, ...]:
        """Return what passed in each bucket of time since the last call; classes that moved nothing are left out."""

    def close(self) -> None:
        """Let go; the limits stay in force."""


class MemoryLimiter:
    """The double: orders are kept, and a test says what passes."""

    name = "memory"

    def __init__(self, now_ns: Callable[[], int]) -> None:
        self._now_ns = now_ns
        self.orders: dict[tuple[str, LimitClass], Order] = {}
        self.totals: dict[tuple[str, LimitClass], Passed] = {}
        self.moments: tuple[Moments, ...] = ()
        self.applied = 0
        self.broken = ""

    def apply(self, orders: Sequence[Order]) -> None:
        """Keep them."""
        self._work()
        self.applied += 1
        for order in orders:
            key = (order.port, order.traffic_class)
            self.orders[key] = order
            self.totals.setdefault(key, Passed(*key, 0, 0, 0, 0, 0, 0))

    def read_back(self) -> tuple[Order, ...]:
        """What is kept."""
        self._work()
        return tuple(self.orders.values())

    def prove(self) -> tuple[Passed, ...]:
        """What passed."""
        self._work()
        return tuple(self.totals.values())

    def drain(self) -> tuple[Moments, ...]:
        """What a test put into ``moments``, once."""
        self._work()
        found, self.moments = self.moments, ()
        return found

    def offer(self, port: str, traffic_class: LimitClass, count: int) -> int:
        """Offer ``count`` bytes in one frame; return how many passed: all that the volume allows, no rate is kept."""
        key = (port, traffic_class)
        order, total = self.orders[key], self.totals[key]
        open_now = order.rate_bytes_per_s > 0 and (order.until_ns is None or self._now_ns() < order.until_ns)
        passed = count if open_now and (order.volume_bytes is None or order.volume_bytes >= count) else 0
        if order.volume_bytes is not None:
            self.orders[key] = replace(order, volume_bytes=order.volume_bytes - passed)
        self.totals[key] = replace(
            total,
            offered_bytes=total.offered_bytes + count,
            passed_bytes=total.passed_bytes + passed,
            dropped_bytes=total.dropped_bytes + count - passed,
            offered_packets=total.offered_packets + 1,
            passed_packets=total.passed_packets + (passed == count),
            dropped_packets=total.dropped_packets + (passed != count),
        )
        return passed

    def close(self) -> None:
        """Nothing is held."""

    def _work(self) -> None:
        if self.broken:
            raise LimiterError(self.broken)
