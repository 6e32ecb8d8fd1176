"""Known weights: a declared transfer that every observer must show."""

from __future__ import annotations

from collections.abc import Mapping

from controller.crosscheck.model import KnownWeight
from controller.crosscheck.observed import Observed
from controller.crosscheck.quantity import bounds
from controller.crosscheck.wording import at_least, at_most, declared, name
from protos.reading import Observer

WIDENING_NS = 250_000_000
"""The transfer's times are the sender's: the last frame can be counted a little after it was handed over."""


def weigh(weight: KnownWeight, seen: Mapping[Observer, Observed]) -> tuple[bool, str]:
    """Return whether every observer showed a known weight, and the sentence that says so.

    1. An observer shows it if the most it can have counted reaches the declared bytes.
    2. One that certainly counted less is off; one whose most is unbounded cannot tell, which is not showing it.
    3. One that certainly counted more shows it, and how much else there was: other traffic, or a framing that is off.
    """
    parts, shown = [], bool(seen)
    for observer, one in seen.items():
        start, end = weight.from_ns - WIDENING_NS - one.origin, weight.to_ns + WIDENING_NS - one.origin
        least, most = bounds(one.bytes, start, end)
        if most is None or not one.usable:
            shown = False
            parts.append(f"{name(observer)} cannot tell")
        elif most < weight.bytes:
            shown = False
            parts.append(f"{name(observer)} shows at most {at_most(most)}, {at_least(weight.bytes - most)} too little")
        elif least > weight.bytes:
            parts.append(f"{name(observer)} shows it and at least {at_least(least - weight.bytes)} besides")
        else:
            parts.append(f"{name(observer)} shows it ({least:,} to {most:,} B)")
    if not seen:
        parts.append("nobody observes this link")
    return shown, f"{declared(weight.bytes)} over {weight.link} {weight.direction.value}: " + "; ".join(parts)
