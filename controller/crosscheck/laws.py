"""The conservation laws along a link: who cannot have seen more than whom, and what is allowed between them.

A law says ``X(s, t] <= Y(s, t] + allowance(s, t]`` for all ``s < t``. The allowance is what was declared: bytes in
flight, late completion, the DPU's own and control traffic; and drop counters in packets times the largest frame.
Source: design section 5; bounds.md 9, 10.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from controller.crosscheck.exact import Rate
from controller.crosscheck.framing import (
    padded_as_seen,
    padded_at_most,
    segmented_at_most,
    short_at_most,
)
from controller.crosscheck.model import Assumptions
from controller.crosscheck.observed import Observed
from controller.crosscheck.quantity import Combination, Quantity, Steady
from protos.reading import Direction, Observer, TrustDomain

HOST, HOST_PORT, UPLINK, SWITCH = Observer


@dataclass(frozen=True, slots=True)
class Law:
    """``left <= right + allowance`` in one direction.

    Attributes:
        name: as reports print it.
        left: X, who cannot have seen more.
        right: Y, who must have seen it.
        drops_at: the drop counters that must be there, since what is dropped there X saw and Y did not.
        hops: places between the two where bytes can be in flight.
        late: the host's late completion applies.
        own: the DPU's own traffic may lie between.
        control: control frames may lie between.
    """

    name: str
    left: Observer
    right: Observer
    hops: int = 1
    drops_at: tuple[Observer, ...] = ()
    late: bool = False
    own: bool = False
    control: bool = False

    @property
    def domains(self) -> frozenset[TrustDomain]:
        """The trust domains that cannot all be right if the law is broken."""
        return frozenset({self.left.trust_domain, self.right.trust_domain})


LAWS: Mapping[Direction, tuple[Law, ...]] = {
    # The DPU's own traffic is made or consumed in the DPU, control frames at either end of the cable: both are
    # allowed either way. A host is only tested one way in each direction: what it sent and nobody received, or
    # received and did not count, looks like what it dropped itself (design section 5).
    Direction.EGRESS: (
        Law("dpu.host_port <= host", HOST_PORT, HOST, late=True),
        Law("dpu.host_port <= dpu.uplink + drops", HOST_PORT, UPLINK, drops_at=(HOST_PORT, UPLINK), own=True),
        Law("dpu.uplink <= dpu.host_port", UPLINK, HOST_PORT, own=True),
        Law("switch <= dpu.uplink", SWITCH, UPLINK, control=True),
        Law("dpu.uplink <= switch + errors", UPLINK, SWITCH, drops_at=(SWITCH,), control=True),
        Law("switch <= host", SWITCH, HOST, hops=3, late=True, own=True, control=True),
    ),
    Direction.INGRESS: (
        Law("dpu.uplink <= switch", UPLINK, SWITCH, control=True),
        Law("switch <= dpu.uplink + errors", SWITCH, UPLINK, drops_at=(UPLINK,), control=True),
        Law("dpu.uplink <= dpu.host_port + drops", UPLINK, HOST_PORT, drops_at=(UPLINK, HOST_PORT), own=True),
        Law("dpu.host_port <= dpu.uplink", HOST_PORT, UPLINK, own=True),
        Law("host <= dpu.host_port", HOST, HOST_PORT, late=True),
        Law("host <= switch", HOST, SWITCH, hops=3, late=True, own=True, control=True),
    ),
}


@dataclass(frozen=True, slots=True)
class Sides:
    """A law made concrete: ``left <= right + constant``, with all that grows with time inside ``right``.

    ``counted`` is Y's own count, without allowances. ``carried`` is what Y's line can carry at all, with its own
    constant: X above that breaks the law as well.
    """

    left: Quantity
    right: Quantity
    counted: Quantity
    constant: int
    carried: tuple[Quantity, int] | None = None
    also: tuple[Quantity, ...] = ()

    @property
    def tests(self) -> tuple[tuple[Quantity, int], ...]:
        """Each quantity and constant that X may not exceed together."""
        told = tuple((right, self.constant) for right in (self.right, *self.also))
        return told if self.carried is None else (*told, self.carried)


def sides(law: Law, seen: Mapping[Observer, Observed], assumptions: Assumptions) -> Sides:
    """Return the two sides of a law for one link and direction."""
    left, right = seen[law.left], seen[law.right]
    told, *others = _told(left, right, assumptions.largest_frame_bytes)
    allowances: list[tuple[int, Quantity]] = []
    for place in law.drops_at:
        for drops, in_bytes in seen[place].drops:
            allowances.append((1 if in_bytes else assumptions.largest_frame_bytes, drops))
    rate = assumptions.dpu_own_bytes_per_s * law.own + assumptions.control_bytes_per_s * law.control
    if rate:
        allowances.append((1, Steady(Rate.per_second(rate))))
    constant = assumptions.in_flight_bytes * law.hops + assumptions.late_completion_bytes * law.late
    line = right.bytes.line if told is right.bytes else None
    carried = None
    own = left.bytes.line
    if line is not None and (own is None or own.rate.fraction > line.rate.fraction or own.step > line.step + constant):
        carried = Combination([(1, Steady(line.rate)), *allowances]), constant + line.step
    also = tuple(Combination([(1, other), *allowances]) for other in others)
    return Sides(left.bytes, Combination([(1, told), *allowances], line), right.bytes, constant, carried, also)


def frames_needed(left: Observed, right: Observed) -> bool:
    """Return whether a law needs the frames that X counted, and X counts none.

    What Y's counter leaves out of each frame is then not known: headers that segmentation repeats, and padding where
    Y counts no packets either.
    """
    padding = right.track.unpadded and not left.track.unpadded and right.packets is None
    return left.packets is None and (right.track.super_packet_header_bytes is not None or padding)


def _told(left: Observed, right: Observed, largest_frame: int) -> tuple[Quantity, ...]:
    """Return Y's count with all that its counter can have left out of frames that X counted in full.

    Of a counter of super-packets the padding is bounded twice: one short frame a packet, and what X's frames leave room
    for. Each holds, so X may exceed neither.
    """
    told: Quantity = right.bytes
    headers, packets = right.track.super_packet_header_bytes, right.packets or left.packets
    if headers is not None and left.packets is not None:
        told = segmented_at_most(told, right.packets, left.packets, headers[1])
    if not right.track.unpadded or left.track.unpadded or packets is None:
        return (told,)
    if headers is None and right.packets is not None:
        return (padded_at_most(told, right.packets, largest_frame),)
    if left.packets is None:
        return (short_at_most(told, packets),)
    return short_at_most(told, packets), padded_as_seen(told, left.bytes, left.packets, largest_frame)
