"""A port that is down has been idle since it went down: what its first sample proves of the time before it.

A port's samples begin where the switch's list of ports was read for the first time, and in the time before nothing
bounds it. But an agent says when a port's state last changed (ifLastChange), on the clock on which it says how long it
is up (sysUpTime): between that moment and the sample no byte passed, so the counter had its value already then.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from protos.reading import Missing, Reading
from switch.epochs import PortHistory
from switch.ports import PortSample

TICK_NS = 10_000_000
TICK_MODULUS = 2**32
SLACK_NS = 2_000_000_000
"""Agents stamp sysUpTime when they start on a request or when they finish, and round it."""
DRIFT_DIVISOR = 100
"""1 %: the agent's clock against ours; no oscillator is near it."""


def down_since_ns(sample: PortSample) -> int | None:
    """Return by when, at the latest, a port that is down had gone down; None if it is not, or nobody says when.

    Uptimes begin again after 497 days, so the time that is told can be too short by a multiple of that, never too long.
    """
    uptime, changed = sample.sys_uptime_ticks, sample.last_change_ticks
    if sample.operational is not False or isinstance(uptime, Missing) or isinstance(changed, Missing):
        return None
    down_ns = (uptime - changed) % TICK_MODULUS * TICK_NS
    return sample.received_ns - down_ns + down_ns // DRIFT_DIVISOR + SLACK_NS


def idle_readings(history: PortHistory) -> tuple[Reading, ...]:
    """Return readings of both directions together that say so: the value of a port's sample, true when it went down.

    One an epoch, of the first sample in it that is down; nothing that the sample's own reading does not say is added
    to what bounds the counter from above.
    """
    return tuple(_idle(history))


def _idle(history: PortHistory) -> Iterator[Reading]:
    by_latest = {reading.latest_ns: reading for reading in history.readings(None)}
    told: set[int] = set()
    for entry in history.judged:
        reading, since = by_latest.get(entry.sample.latest_ns), down_since_ns(entry.sample)
        if entry.epoch is None or reading is None or since is None or entry.epoch in told:
            continue
        told.add(entry.epoch)
        if since < reading.latest_ns:
            yield replace(reading, earliest_ns=min(reading.earliest_ns, since), latest_ns=since)
