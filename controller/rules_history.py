"""Journaled readings as byte series: what the DPUs' uplinks counted, for the detectors of recorded files."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby

import numpy as np

from controller.crosscheck.model import LinkEvidence, Period
from controller.rules.series import Flow, Series
from protos.reading import Direction, Observer, Reading
from protos.units import NS_PER_S

STEP_NS = 15 * NS_PER_S


def flows(links: Iterable[LinkEvidence], period: Period, *, step_ns: int = STEP_NS) -> list[Flow]:
    """Return a flow for each link whose DPU counted in the period, both directions where both are there."""
    sides: dict[str, dict[Direction, Series]] = {}
    for link in links:
        track = link.tracks.get(Observer.DPU_UPLINK)
        if track is not None and track.readings:
            series = binned(f"{link.link} {link.direction.value}", track.readings, period, step_ns)
            if not np.isnan(series.rate).all():
                sides.setdefault(link.link, {})[link.direction] = series
    return [Flow(name, both.get(Direction.EGRESS), both.get(Direction.INGRESS)) for name, both in sides.items()]


def binned(name: str, readings: Sequence[Reading], period: Period, step_ns: int) -> Series:
    """Return the rates on an even grid; not known where no two readings of one epoch surround a bin.

    Between two readings the bytes are spread evenly: a missed look loses resolution, not volume. A reading stands at
    its latest time.
    """
    count = max(0, (period.to_ns - period.from_ns) // step_ns)
    rate = np.full(count, np.nan)
    edges = np.arange(count + 1, dtype=np.int64) * step_ns
    for _, same in groupby(readings, key=lambda reading: reading.epoch):
        epoch = list(same)
        times = np.array([reading.latest_ns - period.from_ns for reading in epoch], dtype=np.int64)
        # Counters have 64 bits, floats 53: what matters is the difference to the epoch's first.
        grown = np.array([reading.bytes - epoch[0].bytes for reading in epoch], dtype=np.float64)
        position = np.interp(edges, times, np.maximum.accumulate(grown))
        inside = (edges[:-1] >= times[0]) & (edges[1:] <= times.max())
        rate[inside] = np.diff(position)[inside] * NS_PER_S / step_ns
    return Series(name, period.from_ns, step_ns, rate)
