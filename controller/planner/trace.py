"""A recorded run against the formula: how much its synchronisations carried, how often, and what a limit does to it.

Pure: takes a series (:mod:`controller.rules.series`), finds its bursts as the rules do, and gives measured figures.
"""

from __future__ import annotations

import itertools
import statistics
from dataclasses import dataclass
from fractions import Fraction

from controller.planner.marks import PlanError
from controller.planner.timing import Slowdown, slowdown
from controller.rules.bursts import find_bursts
from controller.rules.series import Series
from protos.units import NS_PER_S

LEAST_BURSTS = 3
"""Two intervals at least, else nothing is known of the period."""


@dataclass(frozen=True, slots=True)
class MeasuredSyncs:
    """What a record shows of its synchronisations: bytes of each and seconds between their starts.

    ``median_bytes``, ``mean_interval_s``, ``interval_sd_s`` (of the population) and ``mean_rate_bytes_per_s``, the
    median volume over the mean interval.
    """

    volumes_bytes: tuple[float, ...]
    intervals_s: tuple[float, ...]

    @property
    def median_bytes(self) -> float:
        """The volume of a synchronisation."""
        return statistics.median(self.volumes_bytes)

    @property
    def mean_interval_s(self) -> float:
        """Seconds from start to start."""
        return statistics.fmean(self.intervals_s)

    @property
    def interval_sd_s(self) -> float:
        """Their spread."""
        return statistics.pstdev(self.intervals_s)

    @property
    def mean_rate_bytes_per_s(self) -> float:
        """What it needs not to be slowed, if transfer and computing overlap."""
        return self.median_bytes / self.mean_interval_s

    def under(self, limit_bytes_per_s: Fraction) -> Slowdown:
        """Return how much slower it is under a limit; its interval counts as computing, the transfer was short."""
        taken = Fraction(self.median_bytes) / limit_bytes_per_s
        return slowdown(taken, Fraction(self.mean_interval_s))


def measure(series: Series) -> MeasuredSyncs:
    """Return the synchronisations in ``series``: bursts half as large as the median, or more.

    Raises:
        PlanError: it has fewer than three.
    """
    found = [burst for burst in find_bursts(series).found if burst.whole]
    if found:
        middle = statistics.median(burst.bytes for burst in found)
        found = [burst for burst in found if burst.bytes >= middle / 2]
    if len(found) < LEAST_BURSTS:
        raise PlanError(f"{series.name}: {len(found)} bursts are too few to tell a period. Take a longer record")
    starts = [burst.start_ns for burst in found]
    intervals = tuple((after - before) / NS_PER_S for before, after in itertools.pairwise(starts))
    return MeasuredSyncs(tuple(burst.bytes for burst in found), intervals)
