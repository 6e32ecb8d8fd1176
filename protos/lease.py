"""What a lease is, and its arithmetic: permission of so many bytes, for so long, at one port, for one class.

A token bucket of rate ``r`` and depth ``b`` lets no more than ``r*w + b`` through in any window of length ``w``
(RFC 2697 and every text on token buckets; exact for a bucket that starts full). A limit is a set of
``(window, bytes)``; a lease lies within it if ``r*w + b <= bytes`` for every one. All of this is integers: bytes,
bytes per second, nanoseconds.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import dataclass

from protos.buckets import TrafficClass
from protos.reading import Direction
from protos.units import NS_PER_S

LEASED_CLASSES = (TrafficClass.SAME_POD, TrafficClass.OTHER_POD, TrafficClass.FRONT_END, TrafficClass.STORAGE)
"""What a lease can be for. Unknown addresses and frames that are not IP share the budget of other pods; `l2-control`
has a budget of its own in the agent's configuration; management is never limited."""


class LeaseKind(enum.Enum):
    """A standing lease is the normal limit; a load lease is a load window, budgeted and one-directional."""

    STANDING = "standing"
    LOAD = "load"


@dataclass(frozen=True, slots=True, order=True)
class Bound:
    """At most ``bytes`` in any window of ``window_ns``."""

    window_ns: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Slot:
    """What one limiter limits: the host port's ingress is the node's egress, the uplink's ingress its ingress."""

    port: str
    direction: Direction
    traffic_class: TrafficClass

    def __str__(self) -> str:
        return f"{self.traffic_class.title} {self.direction.value} at {self.port}"


@dataclass(frozen=True, slots=True)
class Lease:
    """A permission, as the verifier signed it.

    Attributes:
        agent: whose.
        sequence: rises with every lease and revocation of that agent.
        boot_id: of the agent; ``not_before_ns`` is on that boot's CLOCK_MONOTONIC.
        slot: where and for what.
        rate_bytes_per_s, depth_bytes: of the token bucket.
        volume_bytes: what may pass under ``budget`` in all.
        not_before_ns, lifetime_ns: it lives in ``[not_before_ns, not_before_ns + lifetime_ns)``.
        budget: the sequence of the first lease whose volume this one goes on using up.
        kind: standing, or a load window.
        agreement_sha256: of the agreement it lies within.
        load_window: the exact bytes of the window that a load lease is for; empty for a standing one.
    """

    agent: str
    sequence: int
    boot_id: str
    slot: Slot
    rate_bytes_per_s: int
    depth_bytes: int
    volume_bytes: int
    not_before_ns: int
    lifetime_ns: int
    budget: int
    kind: LeaseKind = LeaseKind.STANDING
    agreement_sha256: bytes = b""
    load_window: bytes = b""

    @property
    def end_ns(self) -> int:
        """When it is over, on the agent's CLOCK_MONOTONIC."""
        return self.not_before_ns + self.lifetime_ns


@dataclass(frozen=True, slots=True)
class LoadWindow:
    """An exception that was budgeted beforehand: ``ingress_bytes`` towards the node, ``egress_bytes`` back.

    ``number`` rises with every window of the agent, so that no window, signed once, is used twice. ``sources`` are for
    people: what comes from them is of ``traffic_class`` by the class table.
    """

    site: str
    agent: str
    number: int
    traffic_class: TrafficClass
    ingress_bytes: int
    egress_bytes: int
    longest_ns: int
    agreement_sha256: bytes = b""
    sources: tuple[str, ...] = ()

    def most_bytes(self, direction: Direction) -> int:
        """Return what may pass in ``direction`` in all."""
        return self.ingress_bytes if direction is Direction.INGRESS else self.egress_bytes


@dataclass(frozen=True, slots=True)
class Revocation:
    """The end of a lease before its time. ``slot`` None: of every lease of the agent; ``kind`` None: of every kind."""

    agent: str
    sequence: int
    slot: Slot | None = None
    kind: LeaseKind | None = None


def most_bytes(rate_bytes_per_s: int, depth_bytes: int, window_ns: int) -> int:
    """Return the most whole bytes that a token bucket lets through in a window: ``floor(r*w) + b``."""
    return rate_bytes_per_s * window_ns // NS_PER_S + depth_bytes


def broken_bounds(rate_bytes_per_s: int, depth_bytes: int, bounds: Iterable[Bound]) -> list[Bound]:
    """Return those of ``bounds`` that a token bucket could break: ``r*w + b > bytes``, without rounding."""
    return [bound for bound in bounds if rate_bytes_per_s * bound.window_ns > (bound.bytes - depth_bytes) * NS_PER_S]


def greatest_rate(depth_bytes: int, bounds: Iterable[Bound]) -> int | None:
    """Return the highest rate (bytes per second) that stays within ``bounds`` at this depth.

    None where there is none: the depth alone breaks one, or leaves no rate of at least one byte a second. Without
    bounds nothing limits the rate, and the answer is None as well: a lease needs an agreement.
    """
    rates = [(bound.bytes - depth_bytes) * NS_PER_S // bound.window_ns for bound in bounds]
    least = min(rates, default=0)
    return least if least >= 1 else None
