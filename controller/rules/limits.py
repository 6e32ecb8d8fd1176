"""Volume in every window of a binned series, against limits. Bins wholly inside a window count: never too much."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from controller.rules.finding import Finding, Kind, Severity
from controller.rules.series import Series
from controller.rules.wording import duration, size


@dataclass(frozen=True, slots=True)
class VolumeLimit:
    """At most ``bytes`` in any ``window_ns``."""

    name: str
    window_ns: int
    bytes: int
    severity: Severity = Severity.PAGE
    text: str = ""


REPORT_LIMITS = (
    VolumeLimit("report-rate", 300_000_000_000, 300_000_000),
    VolumeLimit("report-volume", 3_600_000_000_000, 2_000_000_000),
)
"""1 MB/s over five minutes and 2 GB an hour: the rules of the report that the project starts from."""


def over_limit(series: Series, limit: VolumeLimit) -> Finding | None:
    """Return the finding for the first window that held more than the limit.

    A series that was averaged over ``window_ns`` has its bytes smeared over as much: a stretch of the limit's length
    in it holds bytes of at most ``limit + average``, so the limit is raised in that proportion unless the average is
    the limit's own window, which is what such a rule was written for.
    """
    bins = limit.window_ns // series.step_ns
    if bins < 1 or len(series.rate) == 0:
        return None
    allowed, first_bin = float(limit.bytes), 0
    if series.window_ns == limit.window_ns:
        held = np.nan_to_num(series.rate) * (limit.window_ns / 1e9)
        first_bin = 1
    else:
        if series.window_ns:
            allowed *= -(-(limit.window_ns + series.window_ns) // limit.window_ns)
        total = np.concatenate([[0.0], np.cumsum(np.nan_to_num(series.rate))]) * series.step_s
        starts = np.maximum(0, np.arange(1, len(total)) - bins)
        held = total[1:] - total[starts]
    over = np.flatnonzero(held > allowed)
    if len(over) == 0:
        return None
    at = int(over[0])
    most = float(held.max())
    to_ns = series.start_ns + (at + 1) * series.step_ns
    return Finding(
        Kind.VOLUME_OVER_WINDOW,
        (series.name,),
        f"{series.name}: {size(float(held[at]))} in {duration(limit.window_ns)}, {size(limit.bytes)} are allowed; the "
        f"fullest such window of the record holds {size(most)}",
        to_ns - max(limit.window_ns, first_bin * series.step_ns),
        to_ns,
        limit.severity,
        limit.name,
        {"held_bytes": round(float(held[at])), "limit_bytes": limit.bytes, "fullest_bytes": round(most)},
    )
