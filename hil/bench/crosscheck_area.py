"""Figures of the cross-check: readings through bounds, laws and sliding windows, and a day of millisecond buckets."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from controller.crosscheck.account import Account
from controller.crosscheck.breach import greatest_breach
from controller.crosscheck.buckets import fullest_of_each
from controller.crosscheck.envelope import Columns
from controller.crosscheck.epochs import EpochReadings
from controller.crosscheck.exact import Line, Rate
from controller.crosscheck.laws import Sides
from controller.crosscheck.quantity import bounds
from controller.crosscheck.windows import certain_excess, fullest
from hil.bench import crosscheck_fleet, prometheus_cases
from hil.bench.figure import Figure, Goal
from protos.units import NS_PER_S

READINGS = 2_592_000
"""One observer of one link and direction: 30 days of frames at 1 s."""
BUCKETS = 86_400_000
"""A day of milliseconds."""
WINDOWS_S = (1, 60, 300, 3600)
READINGS_GOAL = 5_000_000
WINDOW_GOAL_S = 1.0
BYTES_PER_S = 1_000_000
LINE = Line(Rate.per_second(1_250_000_000), 9_216)
_ROUNDS = 3


def figures() -> Iterator[Figure]:
    """Yield every figure of this area."""
    yield from _readings()
    yield from _buckets()
    yield from crosscheck_fleet.figures()
    yield from prometheus_cases.figures()


def _seconds(work: Callable[[], object]) -> float:
    # Processor time, the best of some rounds: the figure is per core, whatever else the machine does.
    spent = []
    for _ in range(_ROUNDS):
        begin = time.process_time()
        work()
        spent.append(time.process_time() - begin)
    return min(spent)


def _columns(seed: int) -> Columns:
    """Readings about a second apart, each true within a few milliseconds, of bursty traffic."""
    rng = np.random.default_rng(seed)
    latest = np.arange(READINGS, dtype=np.int64) * NS_PER_S + rng.integers(0, 1_000_000, READINGS)
    counter = np.cumsum(np.random.default_rng(7).integers(0, 2 * BYTES_PER_S, READINGS))
    return Columns(latest - rng.integers(1_000_000, 5_000_000, READINGS), latest, counter, counter)


def _account(columns: Columns, line: Line | None) -> Account:
    return Account([EpochReadings(0, columns, 0, proven=True)], line)


def _bounded(columns: Columns, line: Line | None, end: int) -> None:
    bounds(_account(columns, line), 0, end)


def _readings() -> Iterator[Figure]:
    first, second = _columns(1), _columns(2)
    end = READINGS * NS_PER_S
    for name, line in (("no_line", None), ("10gbit_line", LINE)):
        spent = _seconds(partial(_bounded, first, line, end))
        rate = round(READINGS / spent)
        note = "readings of one epoch: self-consistency, envelopes, a period's bounds"
        yield Figure(f"crosscheck.readings_per_core.{name}", rate, "1/s", READINGS_GOAL, Goal.AT_LEAST, note)
        left, right = _account(first, line), _account(second, line)
        law = Sides(left, right, right, 64_000)
        spent = _seconds(partial(greatest_breach, law, 0, end))
        yield Figure(
            f"crosscheck.law.{name}", round(2 * READINGS / spent), "1/s", note="readings, all start and end times"
        )
        for window in (60, 3600):
            spent = _seconds(partial(fullest, left, window * NS_PER_S, 0, end))
            yield Figure(f"crosscheck.fullest_window_{window}s.{name}", round(READINGS / spent), "1/s", note="readings")
        # A limit above the mean rate, but below what a burst can hold.
        spent = _seconds(partial(certain_excess, left, 60 * NS_PER_S, 75 * BYTES_PER_S, 0, end))
        yield Figure(
            f"crosscheck.certain_excess_60s.{name}", round(READINGS / spent), "1/s", note="readings, no excess"
        )


def _buckets() -> Iterator[Figure]:
    windows = [window * NS_PER_S for window in WINDOWS_S]
    bursty = np.random.default_rng(3).integers(0, 20_000, BUCKETS, dtype=np.uint32)
    for name, buckets in (("bursty", bursty), ("even", np.full(BUCKETS, 10_000, dtype=np.uint32))):
        spent = _seconds(partial(fullest_of_each, buckets, 1_000_000, windows, 100))
        note = f"86.4 million millisecond buckets, every window of {', '.join(map(str, WINDOWS_S))} s, least and most"
        yield Figure(f"crosscheck.day_of_buckets.{name}", round(spent, 3), "s", WINDOW_GOAL_S, note=note)
    # The most that a first look at blocks can be made to cost: bursts that leave each block's neighbours in doubt.
    doubtful = np.tile(np.repeat(np.array([0, 20_000], dtype=np.uint32), [63, 1]), BUCKETS // 64)
    spent = _seconds(partial(fullest_of_each, doubtful, 1_000_000, windows, 100))
    note = "the same, of traffic made to be slow: a burst each 64 ms"
    yield Figure("crosscheck.day_of_buckets.slowest_known", round(spent, 3), "s", note=note)
