"""Which way a burst went."""

from __future__ import annotations

from controller.rules.bursts import Burst
from controller.rules.series import Flow, Series
from controller.rules.shape import Shape


def reverse_share(flow: Flow, series: Series, burst: Burst) -> float | None:
    """Return the other direction's bytes during a burst over its own; None where the other is not recorded."""
    both = flow.both
    if both is None:
        return None
    other = both[1] if series is both[0] else both[0]
    own = series.volume(burst.first, burst.end)
    return None if own <= 0 else other.volume(burst.first, burst.end) / own


def goes_one_way(flow: Flow, series: Series, burst: Burst, shape: Shape) -> bool | None:
    """Whether a burst is a transfer that is only acknowledged, or such acknowledgements; None where that is not known.

    Acknowledgements are as regular and equal as what they acknowledge, and never more than a certain share of it.
    """
    share = reverse_share(flow, series, burst)
    return None if share is None else share < shape.one_way_below or share * shape.acknowledged_below > 1


def one_way(flow: Flow, series: Series, bursts: tuple[Burst, ...], shape: Shape) -> bool | None:
    """Whether most of the bursts went one way; None where the other direction is not recorded."""
    known = [each for burst in bursts if (each := goes_one_way(flow, series, burst, shape)) is not None]
    return None if not known else sum(known) * 2 > len(known)
