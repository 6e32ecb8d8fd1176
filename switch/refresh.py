"""Learn a device's refresh period from the instants at which its counters change. Pure.

A device that copies its counters every R seconds shows the same values until the next copy. Polled faster than
R, the samples show *holds*: stretches between two changes. A hold bounded by changes on both sides lasted at
least from its first sample's arrival to its last sample's request, and at most from the request before its
first change to the arrival after its last.

An idle port holds too. So a long hold proves nothing by itself, while a short one does: the device refreshes at
least that often. :attr:`RefreshEstimate.typical_ns` is for comparison with the declared period; a proof that a
device is staler than declared needs a second observer who saw bytes pass.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from switch.ports import PortCounters, PortSample


@dataclass(frozen=True, slots=True)
class Hold:
    """One stretch between two changes: it lasted from ``at_least_ns`` to ``at_most_ns``."""

    at_least_ns: int
    at_most_ns: int


@dataclass(frozen=True, slots=True)
class RefreshEstimate:
    """What the holds say.

    Attributes:
        holds: every hold with a change on both sides, in order.
        longest_at_least_ns: no refresh happened for this long; 0 without holds. Under traffic that never
            pauses, the refresh period is at least this.
        typical_ns: the middle of the median hold, None without holds.
        shortest_at_most_ns: the device refreshed at least once this quickly, None without holds.
    """

    holds: tuple[Hold, ...]
    longest_at_least_ns: int
    typical_ns: int | None
    shortest_at_most_ns: int | None


def learn_refresh(samples: Sequence[PortSample]) -> RefreshEstimate:
    """Return what the samples of one port, in one counter epoch and in order of time, say about refreshing."""
    changes = [
        number for number in range(1, len(samples)) if _counters(samples[number - 1]) != _counters(samples[number])
    ]
    holds: list[Hold] = []
    for change, following in itertools.pairwise(changes):
        first, last = samples[change], samples[following - 1]
        at_most = samples[following].received_ns - samples[change - 1].first_sent_ns
        holds.append(Hold(max(0, last.first_sent_ns - first.received_ns), at_most))
    middles = sorted((hold.at_least_ns + hold.at_most_ns) // 2 for hold in holds)
    return RefreshEstimate(
        holds=tuple(holds),
        longest_at_least_ns=max((hold.at_least_ns for hold in holds), default=0),
        typical_ns=middles[len(middles) // 2] if middles else None,
        shortest_at_most_ns=min((hold.at_most_ns for hold in holds), default=None),
    )


def _counters(sample: PortSample) -> tuple[PortCounters, PortCounters]:
    return sample.switch_in, sample.switch_out
