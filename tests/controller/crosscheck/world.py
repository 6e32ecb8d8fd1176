"""A random honest site for property tests: everything that can go wrong without anybody lying.

Frames travel host, host port, uplink, switch (or back) with delays; some are dropped in the DPU and counted there;
the DPU adds frames of its own; the host counts late. Each observer is read at random times, from a cache, with a
window of any width that is true, loses readings, restarts noticed or unnoticed, and counts in some framing. The
assumptions are exactly what the world needed, not one byte more.
"""

from __future__ import annotations

import random
from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import accumulate, pairwise

from controller.crosscheck.model import Assumptions, EpochStart, Limit, LinkEvidence, Period, SiteEvidence, Track
from protos.reading import Direction, Framing, Observer, Reading

HOST, HOST_PORT, UPLINK, SWITCH = Observer
MS = 1_000_000


class Count:
    """A running sum of events ``(time, size)``."""

    def __init__(self, events: list[tuple[int, int]]) -> None:
        ordered = sorted(events)
        self.times = [at for at, _ in ordered]
        self.sums = list(accumulate((size for _, size in ordered), initial=0))

    def at(self, time: int) -> int:
        return self.sums[bisect_right(self.times, time)]

    def between(self, start: int, end: int) -> int:
        return self.at(end) - self.at(start)

    def fullest(self, window: int, start: int, end: int) -> int:
        """The most in any window that lies in ``(start, end]``, or in all of it if it is shorter."""
        starts = [start, *(at - 1 for at in self.times), *(at - window for at in self.times)]
        return max(self.between(at, min(at + window, end)) for at in starts if start <= at <= max(start, end - window))

    @property
    def packets(self) -> Count:
        return Count([(at, 1) for at in self.times])


@dataclass
class World:
    """What truly happened, what was said about it, and what is assumed."""

    evidence: SiteEvidence
    truth: Mapping[Observer, Count]

    @property
    def link(self) -> LinkEvidence:
        return self.evidence.links[0]

    @property
    def start(self) -> int:
        return self.evidence.period.from_ns

    @property
    def end(self) -> int:
        return self.evidence.period.to_ns


def most_ahead(first: Count, second: Count) -> int:
    """The most by which ``first(s, t]`` exceeds ``second(s, t]`` over all s < t."""
    times = sorted({*first.times, *second.times})
    worst, lowest = 0, 0
    for at in times:
        ahead = first.at(at) - second.at(at)
        before = first.at(at - 1) - second.at(at - 1)
        lowest = min(lowest, before)
        worst = max(worst, ahead - lowest)
        lowest = min(lowest, ahead)
    return worst


def build(
    rng: random.Random, *, resets: bool = True, lies: Mapping[Observer, Count] | None = None, idle_ends: bool = False
) -> World:
    """Make a world; with ``lies`` an observer's counter shows that much less than the truth."""
    origin = rng.choice([0, 10**12, 1_790_000_000 * 10**9])
    length = rng.randint(200, 5_000) * MS
    direction = rng.choice(list(Direction))
    frames = []
    largest = rng.choice([200, 1_500, 9_000])
    margin = length // 4 if idle_ends else 0
    for _ in range(rng.choice([1, 5, 40])):
        at, count = rng.randint(margin, length - margin), rng.choice([1, 1, 5])
        frames += [(at + index * rng.randint(0, MS), rng.randint(60, largest)) for index in range(count)]
    path = list(Observer) if direction is Direction.EGRESS else list(Observer)[::-1]
    delay, own_rate = rng.choice([0, 0, 3 * MS, 50 * MS]), rng.choice([0, 0, 2_000])
    passed: dict[Observer, list[tuple[int, int]]] = {path[0]: frames}
    drops: list[tuple[int, int]] = []
    for before, after in pairwise(path):
        moved = [(at + rng.randint(0, delay), size) for at, size in passed[before]]
        inside = {before, after} == {HOST_PORT, UPLINK}
        if inside and rng.random() < 0.5:
            lost = [one for one in moved if rng.random() < 0.2]
            moved = [one for one in moved if one not in lost]
            drops += [(at, 1) for at, _ in lost]
        if inside and after is UPLINK and own_rate:
            step = max(1, 100 * 10**9 // own_rate)
            moved += [(at, 100) for at in range(rng.randint(0, step), length, step)]
        passed[after] = moved
    if rng.random() < 0.3 and direction is Direction.EGRESS:
        # A host that counts a frame when its completion is handled, after the DPU has it.
        passed[HOST] = [(at + rng.randint(0, 40 * MS), size) for at, size in passed[HOST]]
    truth = {observer: Count([(at + origin, size) for at, size in events]) for observer, events in passed.items()}
    lost_count = Count([(at + origin, size) for at, size in drops])
    pairs = list(pairwise(path))
    own = 100 if own_rate else 0
    in_flight = max(most_ahead(truth[later], truth[earlier]) for earlier, later in pairs)
    if own_rate:
        in_flight = max(in_flight, own)
    # Behind: what was sent and not yet seen further on, beyond what was dropped.
    for earlier, later in pairs:
        if {earlier, later} == {HOST, HOST_PORT}:
            continue
        arrived = Count([(at, size) for at, size in _events(truth[later])] + [(at, largest) for at in lost_count.times])
        in_flight = max(in_flight, most_ahead(truth[earlier], arrived))
    late = most_ahead(truth[HOST_PORT], truth[HOST]) if direction is Direction.EGRESS else 0
    period_start = origin + rng.randint(0, length // 4)
    period = Period(period_start, rng.randint(period_start + 1, origin + length))
    if idle_ends:
        period = Period(origin, origin + length)
    tracks = {}
    for observer in Observer:
        tracks[observer] = _read(
            rng,
            observer,
            truth[observer],
            lost_count,
            origin=origin,
            length=length,
            resets=resets,
            hidden=(lies or {}).get(observer),
        )
    window = rng.randint(1, 2 * length)
    full = truth[UPLINK].fullest(window, period.from_ns, period.to_ns)
    limits = tuple(
        Limit(window, max(0, full + shift)) for shift in (-1, 0, rng.randint(-largest, largest), full, -full // 2)
    )
    link = LinkEvidence("node1/p0", "node1", "pod-a", direction, tracks, limits)
    assumptions = Assumptions(
        in_flight_bytes=in_flight,
        late_completion_bytes=late,
        dpu_own_bytes_per_s=own_rate,
        largest_frame_bytes=largest,
        largest_gap_ns=rng.choice([100 * MS, 10**10]),
        liars=rng.choice([0, 1, 1, 1]),
    )
    return World(SiteEvidence("world", period, assumptions, (link,), (), inventory_checked=True), truth)


def _events(count: Count) -> list[tuple[int, int]]:
    return [(at, count.sums[index + 1] - count.sums[index]) for index, at in enumerate(count.times)]


def _read(
    rng: random.Random,
    observer: Observer,
    truth: Count,
    drops: Count,
    *,
    origin: int,
    length: int,
    resets: bool,
    hidden: Count | None,
) -> Track:
    interval = max(1, length // rng.choice([3, 10, 60]))
    cache = rng.choice([0, 0, interval // 3, 2 * interval]) if observer in (HOST, SWITCH) else 0
    width = rng.choice([0, MS, interval // 2])
    lost = rng.choice([0, 0, 0.2])
    # A liar's bytes are compared with the truth in the common framing: no frame's overhead may stay behind.
    framing = rng.choice(list(Framing)) if observer is SWITCH and hidden is None else Framing.L2_WITHOUT_FCS
    with_packets = rng.random() < 0.7
    restarts = sorted(rng.randint(origin, origin + length) for _ in range(rng.choice([0, 0, 1, 3]) if resets else 0))
    unnoticed = bool(restarts) and rng.random() < 0.2
    proven_starts = rng.random() < 0.5
    base = rng.choice([0, 5_000, 2**40, 2**63])
    over = framing.bytes_per_frame_over_l2
    packets = truth.packets

    def total(time: int) -> int:
        return truth.at(time) + over * packets.at(time) - (hidden.at(time) if hidden is not None else 0)

    readings = []
    drop_readings = []
    at = origin - interval + rng.randint(0, interval)
    while at <= origin + length + interval:
        true_at = at - rng.randint(0, cache)
        first, last = at - cache - rng.randint(0, width), at + rng.randint(0, width)
        epoch = bisect_right(restarts, true_at)
        since = restarts[epoch - 1] if epoch else None
        value = total(true_at) - total(since) if since is not None else base + total(true_at)
        # Bytes, packets and drops of one reading need not be of one instant: only of its window and epoch.
        until = restarts[epoch] - 1 if epoch < len(restarts) else last
        asked, dropped_at = (max(min(rng.randint(first, last), until), first if since is None else since) for _ in "pd")
        count = packets.at(asked) - (packets.at(since) if since is not None else 0)
        if rng.random() >= lost:
            number = 0 if unnoticed else epoch
            readings.append(Reading(first, last, value, count if with_packets else None, number, framing))
            dropped = drops.at(dropped_at) - (drops.at(since) if since is not None else 0)
            drop_readings.append(Reading(first, last, dropped, None, number))
        at += interval
    if rng.random() < 0.2:
        rng.shuffle(readings)
    starts = {}
    if proven_starts and not unnoticed:
        starts = {
            number: EpochStart(
                by_ns=rng.choice([None, restart + rng.randint(0, width)]),
                not_before_ns=rng.choice([None, restart - rng.randint(0, width)]),
            )
            for number, restart in enumerate(restarts, start=1)
        }
    rate, step = None, 0
    if observer in (UPLINK, SWITCH) and rng.random() < 0.5 and hidden is None:
        rate, step = _line(truth, over, rng)
    counts_drops = observer in (HOST_PORT, UPLINK)
    no_errors = tuple(Reading(one.earliest_ns, one.latest_ns, 0, None, one.epoch) for one in drop_readings)
    return Track(
        observer,
        tuple(readings),
        line_rate_bytes_per_s=rate,
        step_bytes=step,
        refresh_ns=cache,
        clock_width_ns=width,
        # The DPU's drops are counted at the host port; the other places drop nothing and say so.
        drop_packets=tuple(drop_readings)
        if observer is HOST_PORT
        else no_errors
        if counts_drops or rng.random() < 0.5
        else (),
        proven_epochs=frozenset() if unnoticed else frozenset(range(len(restarts) + 1)),
        epoch_starts=starts,
    )


def _line(truth: Count, over: int, rng: random.Random) -> tuple[int, int]:
    """A rate and step that the truth keeps: ``C(s, t] <= rate*(t-s) + step`` for all s < t."""
    events = [(at, size + over) for at, size in _events(truth)]
    rate = rng.choice([10_000, 125_000, 1_250_001, 10**9])
    credit, worst, last = 0.0, 0, 0
    for index, (at, size) in enumerate(events):
        if index:
            credit = max(0.0, credit - rate * (at - last) / 10**9)
        credit, last = credit + size, at
        worst = max(worst, int(credit) + 1)
    return rate, worst
