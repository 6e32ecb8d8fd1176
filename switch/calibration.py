"""How many bytes of each frame a switch's octet counters count, from frames of known length. Pure.

K frames of L bytes (Ethernet header and payload, without check sequence) raise the octets by K (L + overhead); the
overhead is 0, 4 or 24 bytes and names the framing. Only frames that were counted alone tell: a frame of somebody else's
among them would shift the slope, so the packet counter must have risen by exactly K.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from protos.reading import Direction, Framing, Missing
from switch.continuity import Plausibility, broken
from switch.ports import PortSample


class CalibrationError(Exception):
    """The frames cannot be told apart from others, or the slope is no framing; ``str()`` says why."""


@dataclass(frozen=True, slots=True)
class Calibration:
    """What a switch counts.

    Attributes:
        direction: in which the frames passed, as the node sees it.
        frames: how many.
        frame_bytes: the length of each, without check sequence.
        octets: by how much the octet counter rose.
        framing: which bytes of a frame that is.
    """

    direction: Direction
    frames: int
    frame_bytes: int
    octets: int
    framing: Framing

    @property
    def octets_per_frame(self) -> Fraction:
        """Octets counted for each frame."""
        return Fraction(self.octets, self.frames)


def arrived(before: PortSample, after: PortSample, direction: Direction) -> int | None:
    """Return how many frames the port counted between two samples; None if it does not count all kinds."""
    old, new = before.toward(direction), after.toward(direction)
    was, now = old.packets(before.framing), new.packets(after.framing)
    if was is None or now is None:
        # Which kinds are folded into which depends on the framing that is sought: take what there is.
        kinds = ("unicast_packets", "multicast_packets", "broadcast_packets")
        pairs = [(getattr(old, kind), getattr(new, kind)) for kind in kinds]
        steps = [b - a for a, b in pairs if not isinstance(a, Missing) and not isinstance(b, Missing)]
        return sum(steps) if steps else None
    return now - was


def calibrate(
    before: PortSample, after: PortSample, direction: Direction, *, frames: int, frame_bytes: int
) -> Calibration:
    """Return the framing that the counters of a port show.

    1. Both samples are of one counter epoch, and count octets and packets.
    2. The packets rose by exactly ``frames``.
    3. The octets a frame are its length and 0, 4 or 24 bytes more; anything else is no framing.

    Raises:
        CalibrationError: one of these is not so.
    """
    why = broken(before, after, Plausibility(largest_frame_bytes=65_550))
    if why is not None:
        raise CalibrationError(f"the counters were not of one epoch: {why.text}")
    old, new = before.toward(direction).octets, after.toward(direction).octets
    counted = arrived(before, after, direction)
    if isinstance(old, Missing) or isinstance(new, Missing) or counted is None:
        raise CalibrationError(f"port {before.port} does not count octets and packets {direction.value}")
    if counted != frames:
        raise CalibrationError(
            f"port {before.port} counted {counted} frames {direction.value} where {frames} were sent; "
            "take a port on which nothing else passes"
        )
    octets = new - old
    for framing in Framing:
        if octets == frames * (frame_bytes + framing.bytes_per_frame_over_l2):
            return Calibration(direction, frames, frame_bytes, octets, framing)
    raise CalibrationError(
        f"port {before.port} counted {float(Fraction(octets, frames)):.3f} octets a frame of {frame_bytes}: neither 0 "
        "nor 4 nor 24 more; were the frames of that length, and without a VLAN tag?"
    )
