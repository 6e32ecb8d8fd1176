"""A switch that samples and holds: random traffic, refresh periods and polls, and whether the stated bytes are true."""

from __future__ import annotations

import random
import statistics
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate, pairwise

from controller.crosscheck.account import Account
from controller.crosscheck.epochs import epochs_of
from controller.crosscheck.quantity import bounds
from hil.bench.figure import Figure, Goal
from protos.reading import Direction, Framing
from switch.epochs import judge
from switch.ports import PortCounters, PortIdentity, PortSample

S, MS = 1_000_000_000, 1_000_000
CASES = 10_000
_FRAME = 1_000


@dataclass(frozen=True, slots=True)
class Outcome:
    """One case: the truth, what was stated, and what could be stated at the best with such a refresh period."""

    truth: int
    lower: int
    upper: int | None
    least_lower: int
    most_upper: int | None

    @property
    def holds(self) -> bool:
        """Whether the truth is inside the stated interval."""
        return self.lower <= self.truth and (self.upper is None or self.truth <= self.upper)

    @property
    def tight(self) -> bool:
        """Whether the interval is no wider than refresh period and polls at both ends explain."""
        if self.lower < self.least_lower:
            return False
        return self.most_upper is None or (self.upper is not None and self.upper <= self.most_upper)

    @property
    def width_share(self) -> float | None:
        """The interval's width, as a share of what refresh period and polls at both ends explain; None if unbounded."""
        if self.upper is None or self.most_upper is None or self.most_upper == self.least_lower:
            return None
        return (self.upper - self.lower) / (self.most_upper - self.least_lower)


def figures() -> Iterator[Figure]:
    """Yield what :data:`CASES` random cases show."""
    outcomes = [case(seed) for seed in range(CASES)]
    shares = [share for share in (outcome.width_share for outcome in outcomes) if share is not None]
    name = "switch.sample_and_hold"
    bounded = sum(outcome.upper is not None for outcome in outcomes)
    note = f"{CASES} random cases, {bounded} with an upper bound; refresh 1 to 60 s, copies up to 40 % sooner"
    outside = sum(not outcome.holds for outcome in outcomes)
    yield Figure(f"{name}.truth_outside", outside, "1", 0, Goal.EXACTLY, note)
    wide = sum(not outcome.tight for outcome in outcomes)
    yield Figure(f"{name}.wider_than_refresh_and_polls_explain", wide, "1", 0, Goal.EXACTLY)
    note = f"{len(shares)} cases in which traffic crosses the edges; 1 is what refresh and polls explain"
    for what, share in (("median", statistics.median(shares)), ("widest", max(shares))):
        yield Figure(f"{name}.width_over_explained.{what}", round(share, 3), "1", 1, Goal.AT_MOST, note)


def case(seed: int) -> Outcome:
    """Return one random case.

    1. Frames come in bursts and pauses. The device copies its counter every R seconds, 1 to 60, or up to 40 % sooner.
    2. Polls come at any phase and with any delay, and show the last copy.
    3. The bytes in a random period are stated from the polls alone, and held against the truth.
    4. Tight means: no lower than the bytes from a refresh and a gap between polls after the start to as much before the
       end, no higher than those from as much before the start to as much after the end.
    """
    rng = random.Random(seed)
    refresh = int(rng.uniform(1, 60) * S)
    gap = int(rng.uniform(0.2, 1.5) * refresh)
    length = 12 * (refresh + gap)
    times: list[int] = []
    at = 0
    while at < length:
        burst = at + rng.randrange(1, 1 + length // 6)
        step = max(1, (burst - at) // rng.randint(1, 40))
        if rng.random() < 0.7:
            times += range(at, min(burst, length), step)
        at = burst
    waits = (int(refresh * rng.uniform(0.6, 1)) for _ in range(2 * length // refresh + 4))
    copies = list(accumulate(waits, initial=-refresh))
    samples, last_arrival = [], 0
    at = rng.randrange(gap)
    while at < length:
        served = at + rng.randrange(1, 50 * MS)
        received = served + rng.randrange(1, 50 * MS)
        if at >= last_arrival:
            shown = bisect_right(times, copies[bisect_right(copies, served) - 1])
            samples.append(_sample(at, served, received, refresh, shown))
            last_arrival = received
        at += int(gap * rng.uniform(0.3, 1))
    start = rng.randrange(length // 3)
    end = rng.randrange(2 * length // 3, length)
    readings = judge(samples).readings(Direction.EGRESS)
    account = Account(epochs_of(readings, origin=start, proven=frozenset({0}), starts={}), None)
    lower, upper = bounds(account, 0, end - start)
    reach = refresh + max(b.received_ns - a.first_sent_ns for a, b in pairwise(samples))

    def passed(a: int, b: int) -> int:
        return _FRAME * max(0, bisect_right(times, b) - bisect_right(times, a))

    inside = start - reach >= samples[0].first_sent_ns and end + reach <= samples[-1].received_ns
    most = passed(start - reach, end + reach) if inside else None
    return Outcome(passed(start, end), lower, upper, passed(start + reach, end - reach) if inside else 0, most)


def _sample(sent: int, served: int, received: int, refresh: int, frames: int) -> PortSample:
    counters = PortCounters(frames * _FRAME, frames, 0, 0, 0, 0)
    ticks = 1_000 + served // 10_000_000
    return PortSample(
        port="eth1",
        identity=PortIdentity("80", "eth1", 1),
        first_sent_ns=sent,
        received_ns=received,
        refresh_ns=refresh,
        framing=Framing.L2_WITHOUT_FCS,
        alias="",
        if_type=6,
        physical_address="020000000001",
        oper_status=1,
        high_speed_mbit_per_s=10_000,
        sys_uptime_ticks=ticks,
        engine_boots=1,
        engine_time_s=ticks // 100,
        discontinuity_ticks=0,
        last_change_ticks=0,
        switch_in=counters,
        switch_out=counters,
    )
