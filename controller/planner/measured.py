"""What inference was measured to need: percentiles over windows of recorded traffic, pod by pod. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from controller.planner.marks import PlanError
from controller.rules.series import Floats, Series

PERCENTILES = (50.0, 95.0, 99.0, 99.9, 100.0)
WINDOW_NS = 300_000_000_000
"""Rates are means over five minutes, as the project's report has them."""
LEAST_WINDOWS = 12
"""An hour of five-minute windows: less is no percentile."""


@dataclass(frozen=True, slots=True)
class MeasuredNeed:
    """What one pod moved in its fuller direction.

    Attributes:
        name: the pod's.
        rates: bytes/s of a five-minute window, by percentile.
        known: the share of the windows that was measured.
        volumes, step_s: bytes of each bin, and its width.
    """

    name: str
    rates: dict[float, float]
    known: float
    volumes: Floats
    step_s: float

    def burst_bytes(self, rate_bytes_per_s: float) -> float:
        """Return the depth of the token bucket of this rate that would have passed everything recorded.

        The greatest sum, over all stretches of time, of what moved less what the rate gives (a maximum-subarray scan);
        what is not known counts as nothing moved.
        """
        beyond = np.nan_to_num(self.volumes) - rate_bytes_per_s * self.step_s
        total = np.concatenate([[0.0], np.cumsum(beyond)])
        return float(np.max(total - np.minimum.accumulate(total)))


def measured_need(name: str, directions: Sequence[Sequence[Series]]) -> MeasuredNeed:
    """Return what a pod needs from the series of its links: each inner sequence is one direction, on one grid.

    A bin in which any link is not known is not known of the pod.

    Raises:
        PlanError: too little is known for percentiles.
    """
    found = [_of(name, [series for series in one if len(series.rate)]) for one in directions if one]
    known = [each for each in found if each is not None]
    if not known:
        raise PlanError(f"{name}: nothing of it was measured. Look further back, or declare its workloads")
    return max(known, key=lambda each: each.rates[99.0])


def _of(name: str, series: Sequence[Series]) -> MeasuredNeed | None:
    if not series:
        return None
    step_ns = series[0].step_ns
    rate = np.sum([each.rate for each in series], axis=0)
    bins = WINDOW_NS // step_ns
    count = len(rate) - bins + 1
    if count < 1:
        raise PlanError(f"{name}: the record is shorter than five minutes. Look further back")
    total = np.concatenate([[0.0], np.cumsum(rate)])  # one that is not known spoils every sum after it
    if np.isnan(total).any():
        windows = np.lib.stride_tricks.sliding_window_view(rate, bins).mean(axis=1)
    else:
        windows = (total[bins:] - total[:-bins]) / bins
    whole = windows[~np.isnan(windows)]
    if len(whole) * step_ns < LEAST_WINDOWS * WINDOW_NS:
        share = len(whole) * step_ns / 60e9
        raise PlanError(
            f"{name}: {share:.0f} min of complete windows are too few for percentiles. Take an hour or more"
        )
    rates = {percent: float(np.percentile(whole, percent)) for percent in PERCENTILES}
    return MeasuredNeed(name, rates, len(whole) / count, rate * (step_ns / 1e9), step_ns / 1e9)
