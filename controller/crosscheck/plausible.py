"""Whether an observer's bytes and packets can belong together.

No frame is shorter than a header, and on a wire port none is longer than the largest: over any stretch
``shortest * packets <= bytes <= largest * packets``. It is the test that catches a counter that jumped by 2^32 while
staying below the line rate, or one that was taken over by another port (bounds.md 2, 3).
"""

from __future__ import annotations

from dataclasses import replace

from controller.crosscheck.account import Account
from controller.crosscheck.breach import Breach, greatest_breach
from controller.crosscheck.framing import HEADER, SHORTEST_PADDED
from controller.crosscheck.laws import Sides
from controller.crosscheck.observed import Observed
from controller.crosscheck.quantity import Combination, Quantity
from controller.crosscheck.wording import at_least
from protos.reading import Framing, Observer


def plausible(one: Observed, largest_frame: int, from_ns: int, to_ns: int) -> Observed:
    """Return the observer, or, if its bytes and packets cannot belong together, one that proves nothing and says so.

    The host's bytes are a claim and stay one: only its packets are left aside.

    Args:
        one: the observer; without packets nothing can be said.
        largest_frame: bytes without FCS, for wire ports whose counter counts frames.
        from_ns: start of the time looked at, from the origin.
        to_ns: its end.
    """
    if one.packets is None or not one.usable or len(one.track.readings) == 0:
        return one
    framing = one.track.readings[0].framing
    over = framing.bytes_per_frame_over_l2
    # A counter without FCS may leave the padding out as well; one with FCS counts what was on the wire.
    shortest = HEADER if framing is Framing.L2_WITHOUT_FCS else SHORTEST_PADDED + over
    too_few = _breach(Combination([(shortest, one.packets)]), one.counted, from_ns, to_ns)
    too_many = None
    if one.track.line_rate_bytes_per_s is not None and one.track.super_packet_header_bytes is None:
        frames = Combination([(largest_frame + over, one.packets)])
        too_many = _breach(one.counted, frames, from_ns, to_ns)
    if too_few is None and too_many is None:
        return one
    if too_few is not None:
        problem = f"its packets need at least {at_least(too_few.gap)} more than its bytes can have risen"
    else:
        problem = (
            f"its bytes rose by at least {at_least(too_many.gap if too_many else 0)} more than its packets can carry"
        )
    if one.observer is Observer.HOST:
        # A claimant is taken at its word (bounds.md 3): its bytes stand as the claim that laws test. Else a host could
        # buy itself out of every law by claiming packets that do not go with its bytes.
        return replace(
            one, packets=None, problems=(*one.problems, f"{problem}: the claim's bytes are tested all the same")
        )
    problem += ": a counter that jumped, or that belongs to another port"
    nothing = Account((), one.counted.line)
    return replace(one, counted=nothing, bytes=nothing, packets=None, problems=(*one.problems, problem))


def _breach(left: Quantity, right: Quantity, from_ns: int, to_ns: int) -> Breach | None:
    return greatest_breach(Sides(left, right, right, 0), from_ns, to_ns)
