"""Ports that went down and came up between two looks: ifLastChange moved while both found the port up. Pure.

ifLastChange is the device's uptime when the port's state last changed, so it is compared only while that went on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from protos.reading import Missing
from switch.continuity import EpochReason, Plausibility, broken
from switch.ports import PortSample

_RESTARTS = frozenset({EpochReason.REBOOT, EpochReason.ENGINE_RESTARTED, EpochReason.UPTIME_INCONSISTENT})


@dataclass(frozen=True, slots=True)
class Flap:
    """A port that was up at both ends of a stretch and not all through it."""

    from_ns: int
    to_ns: int


def flaps(samples: Sequence[PortSample]) -> list[Flap]:
    """Return the flaps of one port, whose samples are in order of time.

    1. Both samples say that the port is up, and when its state last changed.
    2. That moment moved, on a device that did not restart between them: it was something else than up meanwhile.
    """
    found = []
    for before, after in pairwise(samples):
        old, new = before.last_change_ticks, after.last_change_ticks
        if isinstance(old, Missing) or isinstance(new, Missing) or old == new:
            continue
        if not before.operational or not after.operational:
            continue
        why = broken(before, after, Plausibility())
        if why is not None and why.reason in _RESTARTS:
            continue
        found.append(Flap(before.first_sent_ns, after.received_ns))
    return found
