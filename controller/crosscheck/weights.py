"""Known weights: a declared transfer that every observer must show."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from controller.crosscheck.model import Finding, FindingKind, KnownWeight
from controller.crosscheck.observed import Observed
from controller.crosscheck.quantity import bounds
from controller.crosscheck.wording import at_least, at_most, declared, name
from protos.reading import Observer

WIDENING_NS = 250_000_000
"""The transfer's times are the sender's: the last frame can be counted a little after it was handed over."""


@dataclass(frozen=True, slots=True)
class Weighed:
    """A known weight on the scale: whether every observer showed it, the sentence, and by how much one is off.

    ``short`` is the most by which an observer certainly counted too little; 0: none did.
    """

    shown: bool
    text: str
    short: int = 0


def weigh(weight: KnownWeight, seen: Mapping[Observer, Observed]) -> Weighed:
    """Return whether every observer showed a known weight, and the sentence that says so.

    1. An observer shows it if the most it can have counted reaches the declared bytes.
    2. One that certainly counted less is off; one whose most is unbounded cannot tell, which is not showing it.
    3. One that certainly counted more shows it, and how much else there was: other traffic, or a framing that is off.
    """
    parts, shown, short = [], bool(seen), 0
    for observer, one in seen.items():
        start, end = weight.from_ns - WIDENING_NS - one.origin, weight.to_ns + WIDENING_NS - one.origin
        least, most = bounds(one.bytes, start, end)
        if most is None or not one.usable:
            shown = False
            parts.append(f"{name(observer)} cannot tell")
        elif most < weight.bytes:
            shown, short = False, max(short, weight.bytes - most)
            parts.append(f"{name(observer)} shows at most {at_most(most)}, {at_least(weight.bytes - most)} too little")
        elif least > weight.bytes:
            parts.append(f"{name(observer)} shows it and at least {at_least(least - weight.bytes)} besides")
        else:
            parts.append(f"{name(observer)} shows it ({least:,} to {most:,} B)")
    if not seen:
        parts.append("nobody observes this link")
    text = f"{declared(weight.bytes)} over {weight.link} {weight.direction.value}: " + "; ".join(parts)
    return Weighed(shown, text, short)


def scale_off(weight: KnownWeight, weighed: Weighed) -> Finding | None:
    """Return the finding about a weight that some observer certainly did not show; None if all can have.

    Never certain: that it was sent is the sender's word. Two observers who disagree about it break a law, which is.
    """
    if weighed.short == 0:
        return None
    return Finding(
        FindingKind.SCALE_OFF,
        certain=False,
        text=f"a known weight was not shown: {weighed.text}",
        link=weight.link,
        direction=weight.direction,
        bytes_at_least=weighed.short,
        from_ns=weight.from_ns,
        to_ns=weight.to_ns,
    )
