"""Which way a burst went."""

from __future__ import annotations

from controller.rules.bursts import Burst
from controller.rules.series import Flow, Series


def reverse_share(flow: Flow, series: Series, burst: Burst) -> float | None:
    """Return the other direction's bytes during a burst over its own; None where the other is not recorded."""
    both = flow.both
    if both is None:
        return None
    other = both[1] if series is both[0] else both[0]
    own = series.volume(burst.first, burst.end)
    return None if own <= 0 else other.volume(burst.first, burst.end) / own


def one_way(flow: Flow, series: Series, bursts: tuple[Burst, ...], below: float) -> bool | None:
    """Whether most of the bursts went one way; None where the other direction is not recorded."""
    shares = [reverse_share(flow, series, burst) for burst in bursts]
    known = [share for share in shares if share is not None]
    return None if not known else sum(share < below for share in known) * 2 > len(known)
