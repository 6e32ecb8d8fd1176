"""From a rate and a burst to what an agreement says: a set of (window, bytes), and the token bucket within it.

A token bucket of rate r and depth b lets at most ``r*w + b`` through in any window w (RFC 2697). So the set that it
just keeps is ``(w, r*w + b)`` for every w, and the greatest rate within that set at that depth is r again.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from controller.planner.marks import PlanError
from protos.lease import Bound, greatest_rate, most_bytes
from protos.units import NS_PER_S

WINDOWS_NS = (300 * NS_PER_S, 3_600 * NS_PER_S, 86_400 * NS_PER_S)
"""Five minutes and an hour as in the project's report; a day, so that a patient sender is bounded too."""
LEAST_DEPTH_BYTES = 64_000
"""Less cannot hold one segmentation-offloaded packet."""


@dataclass(frozen=True, slots=True)
class Bucket:
    """A token bucket, and the windows it keeps. Bytes and bytes per second."""

    rate_bytes_per_s: int
    depth_bytes: int
    bounds: tuple[Bound, ...]


def bucket_for(rate_bytes_per_s: Fraction, burst_s: Fraction, burst_bytes: Fraction = Fraction(0)) -> Bucket:
    """Return the bucket of a rate (rounded up to whole bytes), with ``burst_s`` of it at once, or ``burst_bytes``.

    Raises:
        PlanError: the rate is not positive, or beyond what a lease can say.
    """
    rate = math.ceil(rate_bytes_per_s)
    if rate < 1:
        raise PlanError("a limit of nothing cannot be leased. Declare what inference needs")
    depth = max(LEAST_DEPTH_BYTES, math.ceil(rate * burst_s), math.ceil(burst_bytes))
    bounds = tuple(Bound(window, most_bytes(rate, depth, window)) for window in WINDOWS_NS)
    if greatest_rate(depth, bounds) != rate:
        raise PlanError(f"{rate} B/s with a depth of {depth} B is beyond what windows can say. Ask for less")
    return Bucket(rate, depth, bounds)
