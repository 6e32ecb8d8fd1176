"""Byte series on an even grid: what every detector takes.

A bin i of a series is the mean rate in ``(start + i*step, start + (i+1)*step]``, bytes per second, or NaN where it is
not known. ``window_ns`` is the length of the trailing average the source applied before (Prometheus ``rate(x[5m])``:
5 minutes), 0 where there was none.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from protos.units import NS_PER_S

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Series:
    """One direction of one place.

    Attributes:
        name: as the source names it.
        start_ns: begin of the first bin.
        step_ns: width of a bin.
        rate: bytes per second, NaN where unknown.
        window_ns: trailing average applied by the source; 0 none.
        resolution: relative rounding of the source (0.005 for three digits).
    """

    name: str
    start_ns: int
    step_ns: int
    rate: Floats
    window_ns: int = 0
    resolution: float = 0.0

    @property
    def step_s(self) -> float:
        """Width of a bin in seconds."""
        return self.step_ns / NS_PER_S

    @property
    def end_ns(self) -> int:
        """End of the last bin."""
        return self.start_ns + len(self.rate) * self.step_ns

    def volume(self, first: int, end: int) -> float:
        """Return the bytes of bins ``[first, end)``, unknown ones as none."""
        return float(np.nansum(self.rate[first:end])) * self.step_s

    def until(self, end_ns: int) -> Series:
        """Return the series as it was known at ``end_ns``."""
        return self.between(self.start_ns, end_ns)

    def between(self, from_ns: int, end_ns: int) -> Series:
        """Return the bins that lie wholly within ``(from_ns, end_ns]``."""
        first = max(0, -(-(from_ns - self.start_ns) // self.step_ns))
        end = max(first, min(len(self.rate), (end_ns - self.start_ns) // self.step_ns))
        start_ns = self.start_ns + first * self.step_ns
        return Series(self.name, start_ns, self.step_ns, self.rate[first:end], self.window_ns, self.resolution)

    def coarser(self, factor: int) -> Series:
        """Return the series with ``factor`` bins in one, the mean of those known; a rest at the end is left out."""
        if factor <= 1:
            return self
        count = len(self.rate) // factor
        rows = self.rate[: count * factor].reshape(count, factor)
        known = ~np.isnan(rows)
        numbers = known.sum(axis=1)
        sums = np.where(known, rows, 0.0).sum(axis=1)
        means = np.where(numbers * 2 >= factor, sums / np.maximum(numbers, 1), np.nan)
        return Series(self.name, self.start_ns, self.step_ns * factor, means, self.window_ns, self.resolution)


@dataclass(frozen=True, slots=True, eq=False)
class Flow:
    """A place with one or both of its directions, on one grid. ``inward`` is what the node receives.

    Attributes:
        name: of the node, link or column.
        outward: what it sends, None where not recorded.
        inward: what it receives, None where not recorded.
    """

    name: str
    outward: Series | None
    inward: Series | None
    notes: tuple[str, ...] = field(default=())

    def __post_init__(self) -> None:
        if self.outward is None and self.inward is None:
            raise ValueError(f"{self.name}: a flow without a direction")

    @property
    def both(self) -> tuple[Series, Series] | None:
        """Both directions, None unless both are recorded."""
        return None if self.outward is None or self.inward is None else (self.outward, self.inward)

    @property
    def main(self) -> Series:
        """The direction with more bytes."""
        if self.outward is None or self.inward is None:
            return self.outward or self.inward  # type: ignore[return-value]
        out, inward = np.nansum(self.outward.rate), np.nansum(self.inward.rate)
        return self.outward if out > inward else self.inward

    @property
    def reverse(self) -> Series | None:
        """The other direction, None where it is not recorded."""
        both = self.both
        if both is None:
            return None
        return both[1] if self.main is both[0] else both[0]

    def between(self, from_ns: int, end_ns: int) -> Flow:
        """Return both directions within ``(from_ns, end_ns]``."""
        return Flow(
            self.name,
            None if self.outward is None else self.outward.between(from_ns, end_ns),
            None if self.inward is None else self.inward.between(from_ns, end_ns),
            self.notes,
        )

    def coarser(self, factor: int) -> Flow:
        """Return both directions with ``factor`` bins in one."""
        return Flow(
            self.name,
            None if self.outward is None else self.outward.coarser(factor),
            None if self.inward is None else self.inward.coarser(factor),
            self.notes,
        )
