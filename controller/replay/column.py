"""One series of a file as it is read: on an even grid, in bounded memory, whatever the length of the file."""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass, field
from typing import Union

import numpy as np

from controller.replay.cells import Unit
from controller.rules.series import Floats, Series
from protos.units import NS_PER_S, UnitError, parse_duration_ns

MOST_BINS = 1 << 17
"""More bins than this are put together by twos: 131,072 bins of 15 s are three weeks."""
_LEARN = 64
"""So many times are looked at before the grid is chosen."""
BRIDGED_BINS = 3
"""A rate that is not known for at most so many bins is taken from its neighbours."""
ASSUMED_WINDOW_NS = 300 * NS_PER_S
_WINDOW = re.compile(r"\[(\d+(?:ms|s|m|h|d)(?:\d+(?:ms|s|m))?)\]")


class OutOfOrderError(ValueError):
    """A time that is before the previous one, or the same with another value."""


_Sample = tuple[int, Union[float, None]]  # noqa: UP007  made at run time, on 3.10
"""A time and a value; None where it is not known."""


@dataclass
class Column:
    """Takes samples in the order of time; :meth:`series` gives the series so far."""

    name: str
    unit: Unit | None = None
    resolution: float = 0.0
    samples: int = 0
    repeated: int = 0
    decreases: int = 0
    notes: list[str] = field(default_factory=list)
    _early: list[_Sample] = field(default_factory=list)
    _last: _Sample | None = None
    _start_ns: int = 0
    _step_ns: int = 0
    _sums: Floats = field(default_factory=lambda: np.zeros(0))
    _numbers: Floats = field(default_factory=lambda: np.zeros(0))
    _lasts: Floats = field(default_factory=lambda: np.zeros(0))
    _end: int = 0

    def add(self, time_ns: int, value: float | None) -> None:
        """Take one sample.

        Raises:
            OutOfOrderError: see there.
        """
        last = self._last
        if last is not None:
            if time_ns <= last[0]:
                self._again(time_ns, value, last)
                return
            if value is not None and last[1] is not None and value < last[1]:
                self.decreases += 1
        self._last = (time_ns, value)
        if value is not None:
            self.samples += 1
        if self._step_ns == 0:
            self._early.append(self._last)
            if len(self._early) == _LEARN:
                self._begin()
        else:
            self._put(time_ns, value)

    def _again(self, time_ns: int, value: float | None, last: _Sample) -> None:
        if time_ns < last[0]:
            raise OutOfOrderError("the time goes back")
        if value != last[1] and value is not None and last[1] is not None:
            raise OutOfOrderError("the time stands twice, with two values")
        self.repeated += 1

    def _begin(self) -> None:
        """Choose the grid: the usual distance of two samples."""
        times = np.array([time_ns for time_ns, _ in self._early])
        self._step_ns = max(1, int(np.median(np.diff(times)))) if len(times) > 1 else NS_PER_S
        # Times that jitter must not fall into a neighbour's bin: they lie in the middle of theirs.
        self._start_ns = int(times[0]) - self._step_ns // 2
        self._sums, self._numbers, self._lasts = np.zeros(1024), np.zeros(1024), np.full(1024, np.nan)
        for time_ns, value in self._early:
            self._put(time_ns, value)
        self._early = []

    def _put(self, time_ns: int, value: float | None) -> None:
        place = (time_ns - self._start_ns) // self._step_ns
        while place >= MOST_BINS:
            self._fold()
            place = (time_ns - self._start_ns) // self._step_ns
        if place >= len(self._sums):
            grown = min(MOST_BINS, max(2 * len(self._sums), place + 1))
            more = grown - len(self._sums)
            self._sums = np.concatenate([self._sums, np.zeros(more)])
            self._numbers = np.concatenate([self._numbers, np.zeros(more)])
            self._lasts = np.concatenate([self._lasts, np.full(more, np.nan)])
        self._end = place + 1  # times only grow
        if value is not None:
            self._sums[place] += value
            self._numbers[place] += 1
            self._lasts[place] = value

    def _fold(self) -> None:
        half = -(-len(self._sums) // 2)
        pad = 2 * half - len(self._sums)
        sums = np.concatenate([self._sums, np.zeros(pad)]).reshape(half, 2)
        numbers = np.concatenate([self._numbers, np.zeros(pad)]).reshape(half, 2)
        lasts = np.concatenate([self._lasts, np.full(pad, np.nan)]).reshape(half, 2)
        self._sums, self._numbers = sums.sum(axis=1), numbers.sum(axis=1)
        self._lasts = np.where(np.isnan(lasts[:, 1]), lasts[:, 0], lasts[:, 1])
        self._step_ns *= 2
        self._end = -(-self._end // 2)

    def series(self, window_ns: int | None, *, counter: bool | None) -> Series:
        """Return the series of rates.

        1. A counter, as said or as a volume that only grows, becomes the bytes between two bins that have one; the
           time between is given its mean. Where it decreases it began again: not known.
        2. A rate is the mean of a bin's samples. Short gaps are bridged.
        3. The trailing average: as given, as the name says (``[5m]``), or five minutes for a rate with a unit, which
           is what the report's dashboards show; a finding that does not depend on it stays the same.
        """
        if self._step_ns == 0:
            self._begin()
        step_s = self._step_ns / NS_PER_S
        if self.cumulative if counter is None else counter:
            rate = _increments(self._lasts[: self._end]) / step_s
            return Series(self.name, self._start_ns, self._step_ns, rate, 0, 0.0)
        with np.errstate(invalid="ignore"):
            means = self._sums[: self._end] / np.where(
                self._numbers[: self._end] > 0, self._numbers[: self._end], np.nan
            )
        window = self._window_ns() if window_ns is None else window_ns
        window = 0 if window <= self._step_ns else window
        return Series(self.name, self._start_ns, self._step_ns, _bridged(means), window, self.resolution)

    @property
    def cumulative(self) -> bool:
        """Whether it is taken for a counter: by unit and name, else because it only grows."""
        if self.unit is Unit.RATE or "rate(" in self.name:
            return False
        if self.name.split("{")[0].endswith(("_total", "_bytes")):
            return True
        return self.samples > 2 and self.decreases <= self.samples // 1000 and self._grew()

    def _grew(self) -> bool:
        known = self._lasts[: self._end]
        known = known[~np.isnan(known)]
        return bool(len(known) > 1 and known[-1] > known[0])

    def _window_ns(self) -> int:
        named = _WINDOW.search(self.name)
        if named is not None:
            try:
                return parse_duration_ns(named[1])
            except UnitError:
                return ASSUMED_WINDOW_NS
        return ASSUMED_WINDOW_NS if self.unit is Unit.RATE else 0


def _increments(values: Floats) -> Floats:
    """Return the bytes of each bin: a difference to the last known value, spread over the bins between."""
    result = np.full(len(values), np.nan)
    known = np.flatnonzero(~np.isnan(values))
    for before, after in itertools.pairwise(known):
        grown = values[after] - values[before]
        if grown >= 0:
            result[before + 1 : after + 1] = grown / (after - before)
    return result


def _bridged(rate: Floats) -> Floats:
    unknown = np.isnan(rate)
    edges = np.flatnonzero(np.diff(np.concatenate([[False], unknown, [False]]).astype(np.int8)))
    bridged: Floats = np.array(rate)
    for first, end in zip(edges[::2], edges[1::2], strict=True):
        if first > 0 and end < len(rate) and end - first <= BRIDGED_BINS:
            bridged[first:end] = np.interp(np.arange(first, end), [first - 1, end], [rate[first - 1], rate[end]])
    return bridged
