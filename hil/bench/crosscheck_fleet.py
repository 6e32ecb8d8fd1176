"""A fleet's month by a share of it: links of four observers, a reading a second, judged one after another."""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Iterator

import numpy as np

from controller.crosscheck.check import crosscheck
from controller.crosscheck.columns import columns
from controller.crosscheck.model import (
    Assumptions,
    CrossCheck,
    Limit,
    LinkEvidence,
    Period,
    SiteEvidence,
    Track,
    Verdict,
)
from hil.bench.figure import Figure, Goal
from protos.reading import Direction, Observer, Reading
from protos.units import NS_PER_S

LINKS, DAYS = 5_000, 30
SHARE_S = 7_200
"""Of each link so long is measured; more would only take longer."""
SHARE_LINKS = 3
_LIMITS = (Limit(300 * NS_PER_S, 600_000_000), Limit(3_600 * NS_PER_S, 6_000_000_000))


def link(seed: int) -> LinkEvidence:
    """One link and direction of two hours, honest, of bursty traffic."""
    rng = np.random.default_rng(seed)
    counts = np.cumsum(rng.integers(0, 1_000_000, SHARE_S))
    tracks = {}
    for observer in Observer:
        refresh = 3 * NS_PER_S if observer is Observer.SWITCH else 0
        readings = []
        for second in range(SHARE_S):
            at = (second + 1) * NS_PER_S + int(rng.integers(0, 1_000_000))
            value = int(counts[second])
            readings.append(Reading(at - refresh - 2_000_000, at + 2_000_000, value, value // 1_000))
        drops = (Reading(0, 0, 0), Reading((SHARE_S + 9) * NS_PER_S, (SHARE_S + 9) * NS_PER_S, 0))
        wire = observer in (Observer.DPU_UPLINK, Observer.SWITCH)
        tracks[observer] = Track(
            observer,
            columns(readings),
            line_rate_bytes_per_s=12_500_000_000 if wire else None,
            step_bytes=9_216 if wire else 0,
            refresh_ns=refresh,
            drop_packets=drops,
        )
    return LinkEvidence(f"node{seed}/p0", f"node{seed}", "pod-a", Direction.EGRESS, tracks, _LIMITS)


def judged(evidence: LinkEvidence) -> CrossCheck:
    """Every law, limit, gap and bound of one link and direction."""
    period = Period(10 * NS_PER_S, (SHARE_S - 10) * NS_PER_S)
    assumed = Assumptions(in_flight_bytes=2_000_000, late_completion_bytes=2_000_000)
    return crosscheck(SiteEvidence("fleet", period, assumed, (evidence,), (), inventory_checked=True))


def figures() -> Iterator[Figure]:
    """Yield the time of the share and of the fleet by it, and whether memory grows with the links."""
    spent = 0.0
    for seed in range(SHARE_LINKS):
        evidence = link(seed)
        begin = time.process_time()
        result = judged(evidence)
        spent += time.process_time() - begin
        if result.verdict is not Verdict.COMPLIANT:
            raise RuntimeError(f"an honest link is {result.verdict.value}: {result.links[0].undecided}")
    readings = SHARE_LINKS * SHARE_S * len(Observer)
    note = f"{SHARE_LINKS} links of {SHARE_S} s at a reading a second: all laws, two limits, bounds, gaps"
    yield Figure("crosscheck.fleet.readings_per_core", round(readings / spent), "1/s", note=note)
    hours = spent / SHARE_LINKS * LINKS * 2 * DAYS * 86_400 / SHARE_S / 3_600
    note = f"{LINKS} links, both directions, {DAYS} days, by that share; links are independent, so N cores take 1/N"
    yield Figure("crosscheck.fleet.month_core_hours", round(hours, 1), "h", note=note)
    peaks = [_peak_bytes(links) for links in (1, SHARE_LINKS)]
    note = f"most memory of {SHARE_LINKS} links judged one after another, to that of one"
    yield Figure("crosscheck.fleet.memory_ratio", round(peaks[1] / peaks[0], 2), "1", 1.1, Goal.AT_MOST, note)


def _peak_bytes(links: int) -> int:
    tracemalloc.start()
    try:
        for seed in range(links):
            judged(link(seed))
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
