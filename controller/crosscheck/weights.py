"""Known weights: a declared transfer that every observer must show, and what is assumed wrongly where one does not.

A weight that is short at its time and whole a little later was held up: a refresh period, or bytes in flight or late,
are more than declared. One that is off by a fixed number of bytes a frame is counted in another framing than declared.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from controller.crosscheck.framing import without_fcs
from controller.crosscheck.margins import largest_error_standing
from controller.crosscheck.model import Finding, FindingKind, KnownWeight
from controller.crosscheck.observed import Observed
from controller.crosscheck.quantity import bounds
from controller.crosscheck.wording import at_least, at_most, declared, lasting_at_least, name
from protos.reading import Framing, Observer
from protos.units import format_duration

WIDENING_NS = 250_000_000
"""The transfer's times are the sender's: the last frame can be counted a little after it was handed over."""

SETTLED_NS = 3_000_000_000
"""So much later every observer that is read each second or two has been read, besides its refresh period."""


@dataclass(frozen=True, slots=True)
class Weighed:
    """A known weight on the scale: whether every observer showed it, the sentence, and by how much one is off.

    ``short`` is the most by which an observer certainly counted too little; 0: none did. ``reframed``: an observer
    counted as if in another framing than declared.
    """

    shown: bool
    text: str
    short: int = 0
    reframed: bool = False


def weigh(weight: KnownWeight, seen: Mapping[Observer, Observed]) -> Weighed:
    """Return whether every observer showed a known weight, and the sentence that says so.

    1. An observer shows it if the most it can have counted reaches the declared bytes.
    2. One that certainly counted less is off; one whose most is unbounded cannot tell, which is not showing it.
    3. One that certainly counted more shows it, and how much else there was: other traffic, or a framing that is off.
    """
    parts, shown, short, reframed = [], bool(seen), 0, False
    for observer, one in seen.items():
        start, end = weight.from_ns - WIDENING_NS - one.origin, weight.to_ns + WIDENING_NS - one.origin
        least, most = bounds(one.bytes, start, end)
        if most is None or not one.usable:
            shown = False
            parts.append(f"{name(observer)} cannot tell")
        elif most < weight.bytes:
            shown, short = False, max(short, weight.bytes - most)
            text = f"{name(observer)} shows at most {at_most(most)}, {at_least(weight.bytes - most)} too little"
            parts.append(f"{text}{_explained(weight, one, (start, end))}")
        else:
            besides = f" and at least {at_least(least - weight.bytes)} besides" if least > weight.bytes else ""
            text = f"{name(observer)} shows it{besides or f' ({least:,} to {most:,} B)'}"
            counted_as = _as_counted(weight, one, (start, end))
            reframed |= counted_as is not None
            parts.append(text if counted_as is None else f"{text}, as if it counted {counted_as.value}")
    if not seen:
        parts.append("nobody observes this link")
    text = f"{declared(weight.bytes)} over {weight.link} {weight.direction.value}: " + "; ".join(parts)
    return Weighed(shown, text, short, reframed)


def _explained(weight: KnownWeight, one: Observed, window: tuple[int, int]) -> str:
    """Return what is assumed of an observer would have to be wrong for it to show a weight; empty if nothing would do.

    1. Later, up to what it read last: a longer refresh period, or more in flight or late, than declared.
    2. In another framing: frames counted with fewer bytes each than was taken away again.
    """
    start, end = window
    told = []
    last = one.counted.last_earliest or end

    def short(later: int) -> bool:
        most = bounds(one.bytes, start, end + later)[1]
        return most is not None and most < weight.bytes

    if last > end and not short(last - end):
        later = largest_error_standing(short, last - end)
        if later is not None:
            kept = f" than its declared {format_duration(one.track.refresh_ns)}" if one.track.refresh_ns else ""
            told.append(
                f"all of it shows more than {lasting_at_least(later + WIDENING_NS)} later: its refresh period is "
                f"longer{kept}, or more is in flight or late than declared"
            )
    for framing in Framing:
        if one.packets is not None and framing is not one.track.readings[0].framing:
            other = bounds(without_fcs(one.counted, one.packets, framing), start, end)
            if other[0] <= weight.bytes and (other[1] is None or weight.bytes <= other[1]):
                told.append(f"it would show it if it counted {framing.value}")
    return f" ({'; '.join(told)})" if told else ""


def _as_counted(weight: KnownWeight, one: Observed, window: tuple[int, int]) -> Framing | None:
    """Return the framing that explains what an observer shows beyond a weight; None if other traffic is as likely.

    What it showed until it had surely read all of the weight is compared: a tenth of what the framing adds to all
    frames is left for other traffic.
    """
    if weight.packets is None or one.packets is None:
        return None
    before, after = window[0] - SETTLED_NS, window[1] + SETTLED_NS + one.track.refresh_ns
    least, most = bounds(one.bytes, before, after)
    own = one.track.readings[0].framing.bytes_per_frame_over_l2
    for framing in Framing:
        added = (framing.bytes_per_frame_over_l2 - own) * weight.packets
        if most is not None and 9 * added <= 10 * (least - weight.bytes) and 10 * (most - weight.bytes) <= 11 * added:
            return framing if added > 0 else None
    return None


def scale_off(weight: KnownWeight, weighed: Weighed) -> Finding | None:
    """Return the finding about a weight that was certainly not shown, or in another framing; None if all can show it.

    Never certain: that it was sent is the sender's word. Two observers who disagree about it break a law, which is.
    """
    if weighed.short == 0 and not weighed.reframed:
        return None
    what = "was not shown" if weighed.short else "was shown in another framing than declared"
    return Finding(
        FindingKind.SCALE_OFF,
        certain=False,
        text=f"a known weight {what}: {weighed.text}",
        link=weight.link,
        direction=weight.direction,
        bytes_at_least=weighed.short or None,
        from_ns=weight.from_ns,
        to_ns=weight.to_ns,
    )
