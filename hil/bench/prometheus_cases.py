"""Cases with a known truth, read each 15 s: what Prometheus says of them, and what is proven here."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from controller.crosscheck.model import EpochStart, Track
from controller.crosscheck.observed import observe
from controller.crosscheck.quantity import bounds
from controller.crosscheck.windows import fullest
from hil.bench import prometheus
from hil.bench.figure import Figure, Goal
from protos.reading import Observer, Reading
from protos.units import NS_PER_S

SCRAPE_S = 15
WINDOW_S = 300
T0 = 1_790_000_000
DAY_S = 86_400
LINE_BYTES_PER_S = 12_500_000_000
BASE = 5_000_000_000_000
"""The counter has run for long: one that starts at 0 is extrapolated less."""


@dataclass(frozen=True, slots=True)
class Case:
    """Readings, and what truly passed in the window that ends at ``at``.

    ``starts`` has when each counter epoch after the first is known to have begun: a boot time.
    """

    name: str
    readings: tuple[Reading, ...]
    at: int
    true_bytes: int
    starts: dict[int, EpochStart]


def _read(at: int, value: int, epoch: int = 0) -> Reading:
    return Reading(at * NS_PER_S, at * NS_PER_S, value, None, epoch)


def cases() -> Iterator[Case]:
    """Yield a burst inside a window, one across its edge, and a counter that restarts."""
    burst = 48_200_000_000

    def bursting(since: int) -> list[Reading]:
        return [_read(at, BASE + burst * (at >= since)) for at in range(T0, T0 + 1_200, SCRAPE_S)]

    # Scrapes and the question are not in step, as they never are.
    yield Case("burst", tuple(bursting(T0 + 450)), T0 + 607, burst, {})
    # The window begins between the two scrapes around the burst, before the bytes moved: all of them are in it.
    yield Case("burst_at_the_edge", tuple(bursting(T0 + 315)), T0 + 607, burst, {})
    # 100 MB/s; at 400 s the machine boots, 10 s after a scrape: a second of bytes is lost with the old counter's end.
    rate, boot = 100_000_000, T0 + 400
    before = [_read(at, (at - T0) * rate) for at in range(T0, boot, SCRAPE_S)]
    after = [_read(at, (at - boot) * rate, 1) for at in range(T0 + 405, T0 + 1_200, SCRAPE_S)]
    start = EpochStart(by_ns=boot * NS_PER_S, not_before_ns=(boot - 1) * NS_PER_S)
    yield Case("reset", tuple(before + after), T0 + 600, WINDOW_S * rate, {1: start})


def proven(case: Case) -> tuple[int, int | None]:
    """Return the certain interval of the bytes in the window that ends at the case's time."""
    track = Track(
        Observer.SWITCH,
        case.readings,
        line_rate_bytes_per_s=LINE_BYTES_PER_S,
        step_bytes=9_216,
        proven_epochs=frozenset({0, 1}),
        epoch_starts=case.starts,
    )
    end = case.at * NS_PER_S
    return bounds(observe(track, end - WINDOW_S * NS_PER_S).bytes, 0, WINDOW_S * NS_PER_S)


def day() -> prometheus.Samples:
    """A day of readings a second apart, of bursty traffic."""
    counter = np.cumsum(np.random.default_rng(5).integers(0, 2_000_000, DAY_S))
    return [(T0 + second, int(counter[second])) for second in range(DAY_S)]


def figures() -> Iterator[Figure]:
    """Yield the errors of each case, and the time that the fullest window of a day takes, both in one run."""
    absent = prometheus.missing()
    if absent is not None:
        yield Figure("crosscheck.prometheus", None, "1", note=absent)
        return
    long = day()
    series: dict[str, prometheus.Samples] = {
        case.name: [(reading.latest_ns // NS_PER_S, reading.bytes) for reading in case.readings] for case in cases()
    }
    with prometheus.Prometheus({**series, "day": long}) as server:
        for case in cases():
            yield from _errors(server, case)
        yield from _times(server, long)


def _errors(server: prometheus.Prometheus, case: Case) -> Iterator[Figure]:
    selector = f'{prometheus.METRIC}{{case="{case.name}"}}[{WINDOW_S}s]'
    asked = {"increase": (f"increase({selector})", 1), "rate": (f"rate({selector})", WINDOW_S)}
    for function, (query, factor) in asked.items():
        off = server.ask(query, case.at) * factor / case.true_bytes - 1
        note = f"{function}() of {case.true_bytes:,} B in {WINDOW_S} s, scrapes each {SCRAPE_S} s, less the truth"
        yield Figure(f"crosscheck.prometheus.{case.name}.{function}_error", round(off, 4), "1", note=note)
    least, most = proven(case)
    holds = least <= case.true_bytes and (most is None or case.true_bytes <= most)
    width = None if most is None else round((most - least) / case.true_bytes, 4)
    note = f"the proven interval, {least:,} to {most if most is None else f'{most:,}'} B, holds the truth"
    yield Figure(f"crosscheck.bounds.{case.name}.holds_truth", int(holds), "1", 1, Goal.EXACTLY, note)
    yield Figure(
        f"crosscheck.bounds.{case.name}.width", width, "1", note="of the proven interval, as a share of the truth"
    )


def _times(server: prometheus.Prometheus, samples: prometheus.Samples) -> Iterator[Figure]:
    query = f'max_over_time(increase({prometheus.METRIC}{{case="day"}}[{WINDOW_S}s])[{DAY_S - 1}s:1s])'
    begin = time.perf_counter()
    said = server.ask(query, samples[-1][0])
    theirs = time.perf_counter() - begin
    readings = tuple(_read(at, value) for at, value in samples)
    begin = time.perf_counter()
    length = (samples[-1][0] - samples[0][0]) * NS_PER_S
    seen = observe(Track(Observer.SWITCH, readings), samples[0][0] * NS_PER_S)
    found = fullest(seen.bytes, WINDOW_S * NS_PER_S, 0, length)
    ours = time.perf_counter() - begin
    true = max(last[1] - first[1] for first, last in pairs_apart(samples, WINDOW_S))
    note = f"the fullest {WINDOW_S} s of a day of readings a second apart, wall time"
    yield Figure("crosscheck.prometheus.fullest_window", round(theirs, 3), "s", note=f"{note}; at whole seconds only")
    yield Figure("crosscheck.bounds.fullest_window", round(ours, 3), "s", note=f"{note}; over every start")
    yield Figure("crosscheck.prometheus.fullest_window_ratio", round(theirs / ours, 1), "1", note="theirs to ours")
    yield Figure("crosscheck.prometheus.fullest_window_error", round(said / true - 1, 5), "1", note="less the truth")
    holds = found.least <= true and found.most is not None and true <= found.most
    yield Figure("crosscheck.bounds.fullest_window.holds_truth", int(holds), "1", 1, Goal.EXACTLY)


def pairs_apart(samples: prometheus.Samples, apart: int) -> Iterator[tuple[tuple[int, int], tuple[int, int]]]:
    """Yield every two samples that are ``apart`` places from each other."""
    yield from zip(samples, samples[apart:], strict=False)
