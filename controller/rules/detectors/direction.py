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


def balance(flow: Flow, series: Series, burst: Burst) -> float | None:
    """Return the smaller over the larger direction during a burst; None where the other is not recorded.

    Near 0 for a transfer and for its acknowledgements alike: those are bursts too, as regular and equal as what they
    acknowledge, and go one way as it does.
    """
    share = reverse_share(flow, series, burst)
    return None if share is None else min(share, 1 / max(1.0, share))


def one_way(flow: Flow, series: Series, bursts: tuple[Burst, ...], below: float) -> bool | None:
    """Whether most of the bursts went one way; None where the other direction is not recorded."""
    balances = [balance(flow, series, burst) for burst in bursts]
    known = [each for each in balances if each is not None]
    return None if not known else sum(each < below for each in known) * 2 > len(known)
