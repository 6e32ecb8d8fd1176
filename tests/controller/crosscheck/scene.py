"""A small world for the cross-check's tests: true traffic, and observers that read it as real ones do.

True traffic is a list of bursts at one point of the path; a counter is their running sum. An observer polls with its
own phase, answers from a cache up to ``refresh`` old, is known only to a clock interval, loses polls and restarts.
"""

from __future__ import annotations

import random
from bisect import bisect_right
from dataclasses import dataclass, field
from itertools import accumulate

from controller.crosscheck.model import (
    Assumptions,
    EpochStart,
    Limit,
    LinkEvidence,
    Period,
    PortEvidence,
    SiteEvidence,
    Track,
)
from protos.reading import Direction, Framing, Observer, Reading

S = 1_000_000_000
MS = 1_000_000


@dataclass(frozen=True)
class Truth:
    """Frames as ``(time, bytes)`` in order of time."""

    frames: tuple[tuple[int, int], ...]
    times: list[int] = field(init=False)
    sums: list[int] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "times", [at for at, _ in self.frames])
        object.__setattr__(self, "sums", list(accumulate((size for _, size in self.frames), initial=0)))

    def count(self, at: int) -> int:
        """Bytes up to and including ``at``."""
        return self.sums[bisect_right(self.times, at)]

    def packets(self, at: int) -> int:
        return bisect_right(self.times, at)

    def between(self, start: int, end: int) -> int:
        return self.count(end) - self.count(start)

    def scaled(self, share: float) -> Truth:
        return Truth(tuple((at, int(size * share)) for at, size in self.frames))


@dataclass(frozen=True)
class Poller:
    """How one observer is read."""

    interval: int = S
    phase: int = 0
    refresh: int = 0
    refresh_phase: int = 0
    declared_refresh: int | None = None
    width: int = MS
    loss: float = 0.0
    resets: tuple[int, ...] = ()
    framing: Framing = Framing.L2_WITHOUT_FCS
    with_packets: bool = True
    base: int = 12_345
    proven_starts: bool = True

    def read(self, truth: Truth, observer: Observer, start: int, end: int, rng: random.Random, **more: object) -> Track:
        declared = self.refresh if self.declared_refresh is None else self.declared_refresh
        readings = []
        at = start + self.phase
        while at <= end:
            answered = at + rng.randint(0, self.width)
            asked = answered - rng.randint(0, self.width)
            read_at = rng.randint(asked, answered)
            if self.refresh:
                cached = (read_at - self.refresh_phase) // self.refresh * self.refresh + self.refresh_phase
            else:
                cached = read_at
            epoch = sum(reset <= cached for reset in self.resets)
            since = self.resets[epoch - 1] if epoch else None
            over = self.framing.bytes_per_frame_over_l2

            def total(time: int, over: int = over) -> int:
                return truth.count(time) + over * truth.packets(time)

            value = total(cached) - (total(since) if since is not None else -self.base)
            packets = truth.packets(cached) - (truth.packets(since) if since is not None else 0)
            if rng.random() >= self.loss:
                readings.append(
                    Reading(
                        asked - declared,
                        answered,
                        value,
                        packets if self.with_packets else None,
                        epoch,
                        self.framing,
                    )
                )
            at += self.interval
        starts = {}
        if self.proven_starts:
            starts = {
                number: EpochStart(by_ns=reset + rng.randint(0, S), not_before_ns=reset - rng.randint(0, S))
                for number, reset in enumerate(self.resets, start=1)
            }
        return Track(
            observer,
            tuple(readings),
            refresh_ns=declared,
            proven_epochs=frozenset(range(len(self.resets) + 1)),
            epoch_starts=starts,
            epoch_reasons=dict.fromkeys(starts, "boot"),
            **more,  # type: ignore[arg-type]
        )


def steady(start: int, end: int, bytes_per_s: int, frame: int = 1_000) -> Truth:
    """Frames at an even pace."""
    step = frame * S // bytes_per_s
    return Truth(tuple((at, frame) for at in range(start, end, step)))


DPU = Poller(width=MS)
SWITCH = Poller(refresh=3 * S, declared_refresh=3 * S + S // 2, width=20 * MS)
HOST = Poller(width=50 * MS)


def link(
    truths: dict[Observer, Truth],
    *,
    start: int,
    end: int,
    pollers: dict[Observer, Poller] | None = None,
    direction: Direction = Direction.EGRESS,
    limits: tuple[Limit, ...] = (Limit(S, 10**12),),
    seed: int = 1,
    drops: bool = True,
    name: str = "node1/p0",
) -> LinkEvidence:
    """All four observers of one link and direction, read from ``start`` to ``end``."""
    rng = random.Random(seed)
    usual = {Observer.HOST: HOST, Observer.DPU_HOST_PORT: DPU, Observer.DPU_UPLINK: DPU, Observer.SWITCH: SWITCH}
    usual |= pollers or {}
    none = (Reading(start - 10 * S, start - 10 * S, 0), Reading(end + 10 * S, end + 10 * S, 0)) if drops else ()
    tracks = {
        observer: usual[observer].read(truth, observer, start, end, rng, drop_packets=none)
        for observer, truth in truths.items()
    }
    return LinkEvidence(name, name.split("/", maxsplit=1)[0], "pod-a", direction, tracks, limits)


def site(
    *links: LinkEvidence,
    period: Period,
    assumptions: Assumptions | None = None,
    ports: tuple[PortEvidence, ...] = (),
    inventory_checked: bool = True,
    **more: object,
) -> SiteEvidence:
    return SiteEvidence("demo", period, assumptions or Assumptions(), links, ports, inventory_checked, **more)  # type: ignore[arg-type]


def everywhere(truth: Truth) -> dict[Observer, Truth]:
    return dict.fromkeys(Observer, truth)
