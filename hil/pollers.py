"""Pollers of recorded counters: each with its own phase, cache, clock and losses; and observers who lie.

Pure: the counters were read on a rig as often as can be (:mod:`hil.watch`); a poller sees what it would have been
answered. So one run is watched by as many pollers as wanted, and every lie is told about the same truth.
"""

from __future__ import annotations

import random
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from controller.clockoffset import AgentClock, Exchange
from controller.crosscheck.model import Assumptions, DropCounter, Limit, LinkEvidence, Period, SiteEvidence, Track
from protos.reading import Direction, Observer, Reading, TrustDomain

S = 1_000_000_000
MS = 1_000_000
DRIFT_PPM = 1_000
LONGEST_OFFSET_NS = 3_600 * S
LOST = 0.2
LONGEST_INTERVAL_NS = 1_200 * MS
SLOWEST_TRIP_NS = 20 * MS
SLOWEST_REFRESH_NS = 3 * S
IN_FLIGHT_BYTES = 256_000
"""A rig's queues are a few frames deep; what waits in a socket's is not yet counted by its host."""


@dataclass(frozen=True, slots=True)
class Sample:
    """A counter read between two times: bytes, packets, dropped packets."""

    before_ns: int
    after_ns: int
    bytes: int
    packets: int
    dropped: int


@dataclass(frozen=True, slots=True)
class Recording:
    """One run: what the four observers of a link counted, egress, read densely; and when the traffic was."""

    samples: Mapping[Observer, Sequence[Sample]]
    from_ns: int
    to_ns: int

    def total(self, observer: Observer) -> int:
        """Bytes that passed in all."""
        return self.samples[observer][-1].bytes - self.samples[observer][0].bytes


@dataclass(frozen=True, slots=True)
class Poller:
    """Who asks once in a while.

    Attributes:
        seed: of everything random in what it is answered.
        interval_ns: between polls.
        refresh_ns: how long the switch keeps a copy; the others keep none.
        declared_ns: what is believed of that; None: what it was at most.
        offset_ns: how far its clock is off; and the DPU's off the other way.
    """

    seed: int
    interval_ns: int
    refresh_ns: int
    offset_ns: int
    declared_ns: int | None = None

    @classmethod
    def some(cls, seed: int) -> Poller:
        """Return a poller of its own habits."""
        rng = random.Random(seed)
        refresh = rng.choice([0, rng.randint(100 * MS, SLOWEST_REFRESH_NS)])
        offset = rng.randint(-LONGEST_OFFSET_NS, LONGEST_OFFSET_NS)
        return cls(seed, rng.randint(S // 2, LONGEST_INTERVAL_NS), refresh, offset)


def evidence(recording: Recording, poller: Poller, limits: Sequence[Limit] = ()) -> SiteEvidence:
    """Return what a poller saw of a run, on its own clock."""
    rng = random.Random(poller.seed)
    tracks = {observer: _track(observer, recording.samples[observer], poller, rng) for observer in Observer}
    period = Period(recording.from_ns + poller.offset_ns, recording.to_ns + poller.offset_ns)
    link = LinkEvidence("node1/p0", "node1", "pod-a", Direction.EGRESS, tracks, tuple(limits))
    assumed = Assumptions(in_flight_bytes=IN_FLIGHT_BYTES, late_completion_bytes=IN_FLIGHT_BYTES)
    return SiteEvidence("rig", period, assumed, (link,), (), inventory_checked=True)


def lying(told: SiteEvidence, liar: TrustDomain, share: float) -> SiteEvidence:
    """Return the same evidence with a domain that leaves out ``share`` of all bytes and packets it counted."""
    (link,) = told.links
    tracks = {
        observer: _less(track, share) if observer.trust_domain is liar else track
        for observer, track in link.tracks.items()
    }
    return replace(told, links=(replace(link, tracks=tracks),))


def _less(track: Track, share: float) -> Track:
    first = min(track.readings, key=lambda reading: reading.bytes)
    kept = 1 - share

    def told(value: int, base: int) -> int:
        return base + int((value - base) * kept)

    readings = tuple(
        replace(one, bytes=told(one.bytes, first.bytes), packets=told(one.packets or 0, first.packets or 0))
        for one in track.readings
    )
    return replace(track, readings=readings)


def _track(observer: Observer, samples: Sequence[Sample], poller: Poller, rng: random.Random) -> Track:
    ends = [sample.after_ns for sample in samples]
    refresh = poller.refresh_ns if observer is Observer.SWITCH else 0
    phase, kept_since = rng.randint(0, poller.interval_ns), rng.randint(0, max(1, refresh))
    place = _placing(samples, poller, rng)
    answers, oldest = [], 0
    at = samples[0].after_ns + phase
    while at < samples[-1].after_ns:
        copied = (at - kept_since) // refresh * refresh + kept_since if refresh else at
        index = bisect_right(ends, copied) - 1
        if index >= 0 and rng.random() >= LOST:
            sample = samples[index]
            asked = at - rng.randint(0, SLOWEST_TRIP_NS)
            answered = at + rng.randint(0, SLOWEST_TRIP_NS)
            if observer.trust_domain is TrustDomain.DPU:
                # Stamped by the agent when it read, however long the answer took.
                asked, answered = place(sample.before_ns, sample.after_ns)
            else:
                oldest = max(oldest, asked - sample.before_ns)
                asked, answered = asked + poller.offset_ns, answered + poller.offset_ns
            answers.append((asked, answered, sample))
        at += poller.interval_ns
    # A device is declared by how old its answers were at most: the rig's own pauses are no lie of the device's.
    declared = oldest if poller.declared_ns is None or observer is not Observer.SWITCH else poller.declared_ns
    readings = tuple(
        Reading(asked - declared, answered, sample.bytes, sample.packets) for asked, answered, sample in answers
    )
    drops = tuple(Reading(asked - declared, answered, sample.dropped) for asked, answered, sample in answers)
    width = max((answered - asked for asked, answered, _ in answers), default=0)
    return Track(
        observer,
        readings,
        refresh_ns=declared,
        clock_width_ns=width if observer.trust_domain is TrustDomain.DPU else 0,
        drop_counters=() if observer is Observer.HOST else (DropCounter(drops),),
        super_packet_header_bytes=(0, 90) if observer is Observer.HOST else None,
    )


def _placing(samples: Sequence[Sample], poller: Poller, rng: random.Random) -> Callable[[int, int], tuple[int, int]]:
    """Return how a DPU's stamps lie on the poller's clock, by exchanges a second apart over a network of any delay."""
    ahead = -poller.offset_ns // 2
    exchanges = []
    for at in range(samples[0].before_ns, samples[-1].after_ns, S):
        back, there = rng.randint(0, SLOWEST_TRIP_NS), rng.randint(0, SLOWEST_TRIP_NS)
        exchanges.append(Exchange(at - there + poller.offset_ns, at + ahead, at + ahead, at + back + poller.offset_ns))
    clock = AgentClock(exchanges, drift_ppm=DRIFT_PPM)

    def place(before: int, after: int) -> tuple[int, int]:
        first, last = clock.interval(before + ahead), clock.interval(after + ahead)
        if first is None or last is None:
            raise ValueError("a stamp that no exchange places")
        return first[0], last[1]

    return place
