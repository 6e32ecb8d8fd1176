"""Bursts of a byte series: where the rate leaves its lower level, and what each burst carried.

The level between quiet and burst is Otsu's threshold on the logarithm of the rate: no fixed rate, so it works at any
scale. A trailing average keeps a burst's start and its volume (the area under the pulse) and makes it longer by the
window; so volumes and starts remain valid in a ``rate(x[5m])`` series as long as bursts are further apart than that.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from controller.rules.series import Floats, Series
from protos.units import NS_PER_S

LEAST_CONTRAST = 4.0
"""Two levels closer than this are one level that varies."""
JOIN_NS = 15 * NS_PER_S
"""Parts of a burst this close together are one burst."""
_CLASSES = 128
Places = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Burst:
    """One burst. ``whole`` is False if it touches the record's edge or an unknown bin: its volume is then a part.

    ``first`` and ``end`` are bins; ``start_ns`` is when it began, up to one bin. ``peak`` is its highest rate.
    """

    first: int
    end: int
    start_ns: int
    end_ns: int
    bytes: float
    whole: bool
    peak: float


@dataclass(frozen=True, slots=True)
class Bursts:
    """The bursts of a series, in order. ``quiet`` is the typical rate between them, ``level`` what divides the two."""

    found: tuple[Burst, ...]
    quiet: float
    level: float


def find_bursts(series: Series) -> Bursts:
    """Return the bursts of ``series``; none where it has no two levels.

    1. Divide the known rates in two by Otsu's threshold of their logarithms; too little contrast is no burst.
    2. A burst begins above the threshold and ends below half of it; parts close together are one.
    3. Its volume is what it carried above the quiet level.
    """
    known = series.rate[~np.isnan(series.rate)]
    if len(known) < 4:
        return Bursts((), float(np.median(known)) if len(known) else 0.0, np.inf)
    level = _otsu(np.log10(np.maximum(known, 1.0)))
    low, high = known[known <= level], known[known > level]
    if len(low) == 0 or len(high) == 0 or high.mean() < LEAST_CONTRAST * max(1.0, low.mean()):
        return Bursts((), float(np.median(known)), np.inf)
    quiet = float(np.median(low))
    firsts, ends = _runs(series.rate, level, max(quiet, level / 2))
    firsts, ends = _joined(firsts, ends, max(1, JOIN_NS // series.step_ns), series.rate)
    return Bursts(_bursts(series, firsts, ends, quiet), quiet, level)


def _otsu(logs: Floats) -> float:
    """Return 10 to the threshold that divides ``logs`` into the two classes furthest apart.

    Every threshold within an empty stretch divides alike; its middle is taken.
    """
    low, high = float(logs.min()), float(logs.max())
    if high - low < 1e-9:
        return float(10**high)
    counts, edges = np.histogram(logs, bins=_CLASSES, range=(low, high))
    middles = (edges[:-1] + edges[1:]) / 2
    below = np.cumsum(counts)[:-1].astype(float)
    above = counts.sum() - below
    sums = np.cumsum(counts * middles)
    total = sums[-1]
    with np.errstate(divide="ignore", invalid="ignore"):
        between = below * above * (sums[:-1] / below - (total - sums[:-1]) / above) ** 2
    between = np.where((below > 0) & (above > 0), between, -1.0)
    best = np.flatnonzero(between >= between.max() * (1 - 1e-9))
    return float(10 ** edges[1:-1][[best[0], best[-1]]].mean())


def _runs(rate: Floats, start_above: float, end_below: float) -> tuple[Places, Places]:
    """Return first and end of every stretch that begins above one level and lasts until below another."""
    known = np.nan_to_num(rate, nan=-1.0)
    edges = np.flatnonzero(np.diff(np.concatenate([[False], known > end_below, [False]]).astype(np.int8)))
    firsts, ends = edges[::2], edges[1::2]
    hot = np.concatenate([[0], np.cumsum(known > start_above)])
    some = hot[ends] > hot[firsts]
    return firsts[some], ends[some]


def _joined(firsts: Places, ends: Places, gap: int, rate: Floats) -> tuple[Places, Places]:
    """Join neighbours no further apart than ``gap`` with nothing unknown in between."""
    unknown = np.concatenate([[0], np.cumsum(np.isnan(rate))])
    apart = (firsts[1:] - ends[:-1] > gap) | (unknown[firsts[1:]] > unknown[ends[:-1]])
    return firsts[np.concatenate([[True], apart])[: len(firsts)]], ends[np.concatenate([apart, [True]])[-len(ends) :]]


def _bursts(series: Series, firsts: Places, ends: Places, quiet: float) -> tuple[Burst, ...]:
    if len(firsts) == 0:
        return ()
    # One bin more, so that a burst may end with the record; unknown bins carry nothing.
    rate = np.concatenate([[np.nan], series.rate, [np.nan]])
    known, places = np.nan_to_num(rate), np.stack([firsts, ends], axis=1).ravel() + 1
    carried = np.add.reduceat(known, places)[::2] * series.step_s - quiet * (ends - firsts) * series.step_s
    peaks = np.maximum.reduceat(known, places)[::2]
    whole = ~np.isnan(rate[firsts]) & ~np.isnan(rate[ends + 1])
    start_ns, step_ns = series.start_ns, series.step_ns
    return tuple(
        Burst(first, end, start_ns + first * step_ns, start_ns + end * step_ns, max(0.0, volume), complete, peak)
        for first, end, volume, complete, peak in zip(
            firsts.tolist(), ends.tolist(), carried.tolist(), whole.tolist(), peaks.tolist(), strict=True
        )
    )
