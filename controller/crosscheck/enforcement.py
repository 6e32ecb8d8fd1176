"""Whether a limiter let no more through than its leases allow, by its own counters. Pure.

A limiter's counter of bytes passed is looked at in every frame, with the order in force then. Between two looks the
order may have changed, each change by a lease or revocation that is known by its number. What can have passed is
bounded by the integral of the greatest rate that was in force, plus a bucket's depth at the start, plus whatever depth
a change added: a deeper bucket may begin full. All looks are tested against each other at once (:func:`excess`), so an
excess cannot hide in the edges of a window.

Times are the agent's CLOCK_MONOTONIC, nanoseconds; within one boot and one life of the counter.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

from protos.units import NS_PER_S


@dataclass(frozen=True, slots=True)
class Allowed:
    """What a limiter is to let through: ``rate`` and ``depth`` in ``[from_ns, until_ns)``, its floor outside of it.

    ``until_ns`` None: for ever.
    """

    rate_bytes_per_s: int
    depth_bytes: int
    from_ns: int = 0
    until_ns: int | None = None
    floor_rate_bytes_per_s: int = 0
    floor_depth_bytes: int = 0

    def rate_at(self, at_ns: int) -> int:
        """Return the rate at ``at_ns``."""
        lives = self.from_ns <= at_ns and (self.until_ns is None or at_ns < self.until_ns)
        return self.rate_bytes_per_s if lives else self.floor_rate_bytes_per_s


@dataclass(frozen=True, slots=True)
class Look:
    """A limiter at one time: what had passed in all, true within ``[earliest_ns, latest_ns]``, and what is in force.

    ``changes`` are the orders, in turn, that were in force between the look before and this one, besides theirs.
    """

    earliest_ns: int
    latest_ns: int
    passed_bytes: int
    order: Allowed
    changes: tuple[Allowed, ...] = ()


@dataclass(frozen=True, slots=True)
class Excess:
    """Between the looks at ``from_ns`` and ``to_ns`` certainly ``bytes`` more passed than could be allowed."""

    from_ns: int
    to_ns: int
    passed_bytes: int
    allowed_bytes: int

    @property
    def bytes(self) -> int:
        """By how much."""
        return self.passed_bytes - self.allowed_bytes


def excess(looks: Sequence[Look]) -> Excess | None:
    """Return the greatest excess over all pairs of looks; None where none is certain.

    1. Step by step, what can have passed between two neighbouring looks at most.
    2. With A the running sum of that, P the counter and d the depth at a look, an excess from i to j is certain where
       (P_j - A_j) > (P_i - A_i) + d_i: one pass with the least right side so far.
    """
    if not looks:
        return None
    allowed, worst = 0, None
    at, least = looks[0], looks[0].passed_bytes + _depth(looks[0])
    at_allowed = 0
    for before, after in pairwise(looks):
        allowed += step(before, after)
        over = after.passed_bytes - allowed - least
        if over > 0 and (worst is None or over > worst.bytes):
            worst = Excess(
                at.earliest_ns,
                after.latest_ns,
                after.passed_bytes - at.passed_bytes,
                allowed - at_allowed + _depth(at),
            )
        if after.passed_bytes - allowed + _depth(after) < least:
            at, at_allowed, least = after, allowed, after.passed_bytes - allowed + _depth(after)
    return worst


def step(before: Look, after: Look) -> int:
    """Return the most bytes that can have passed between two neighbouring looks beyond what the bucket held."""
    chain = [before.order, *after.changes, after.order]
    return _integral(chain, before.earliest_ns, after.latest_ns) + _deepened(chain)


def _depth(look: Look) -> int:
    return max(look.order.depth_bytes, look.order.floor_depth_bytes)


def _integral(chain: Sequence[Allowed], from_ns: int, to_ns: int) -> int:
    """Integrate the greatest rate of any order over the time, rounded up."""
    edges = {from_ns, to_ns}
    for order in chain:
        edges |= {edge for edge in (order.from_ns, order.until_ns) if edge is not None and from_ns < edge < to_ns}
    total = 0
    for begin, end in pairwise(sorted(edges)):
        total += max(order.rate_at(begin) for order in chain) * (end - begin)
    return -(-total // NS_PER_S)


def _deepened(chain: Sequence[Allowed]) -> int:
    """Return by how much the bucket can have been deepened, and so filled, on the way through the orders."""
    added = 0
    for before, after in pairwise(chain):
        if before == after:
            continue
        depth = before.depth_bytes
        if before.until_ns is not None and before.until_ns <= after.from_ns:
            # It had ended before the next began: in between its floor held.
            depth = min(depth, before.floor_depth_bytes)
        added += max(0, after.depth_bytes - depth)
    return added


@dataclass(frozen=True, slots=True)
class Window:
    """The buckets ``[first, last]`` of some width, and the bytes that passed in them."""

    first: int
    last: int
    bytes: int


@dataclass(slots=True)
class WindowScan:
    """Finds the run of buckets, of any length from one on, that held most beyond what a rate gives in its time.

    A token bucket of that rate was kept if and only if the most is at most its depth. One pass: bytes so far less what
    the rate gives so far, and the least of it; all in billionths of a byte.
    """

    rate_bytes_per_s: int
    width_ns: int
    window: Window | None = None
    _worst: int = 0
    _total: int = 0
    _least: tuple[int, int, int] | None = None

    @property
    def beyond(self) -> Fraction:
        """The most bytes beyond the rate."""
        return Fraction(self._worst, NS_PER_S)

    def take(self, index: int, passed_bytes: int) -> None:
        """Take the next bucket that is not empty."""
        a_bucket = self.rate_bytes_per_s * self.width_ns
        before = self._total * NS_PER_S - a_bucket * index
        if self._least is None or before < self._least[0]:
            self._least = before, index, self._total
        least, first, total = self._least
        self._total += passed_bytes
        over = self._total * NS_PER_S - a_bucket * (index + 1) - least
        if over > self._worst:
            self._worst, self.window = over, Window(first, index, self._total - total)
