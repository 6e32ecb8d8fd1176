"""``periodic-equal-bursts``: bursts of one volume in regular intervals, as periodic synchronisation makes them.

Null, either of: transfers by a timer, whose volumes vary; transfers at random times, of whatever volume. Both must be
refuted, so the chance is the larger of the two. The newest n bursts are tested for every n, which multiplies it by the
number of tests.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from controller.rules.bursts import Burst, Bursts
from controller.rules.detectors.direction import one_way
from controller.rules.detectors.periodicity import Periodicity, periodicity
from controller.rules.finding import Finding, Kind, Severity
from controller.rules.modelsizes import nearest_model
from controller.rules.probability import equal_by_chance, regular_by_chance
from controller.rules.series import Floats, Flow, Series
from controller.rules.shape import Shape
from controller.rules.wording import duration, size

LEAST_BURSTS = 4
MOST_BURSTS = 64


@dataclass(frozen=True, slots=True)
class EqualBursts:
    """The best stretch of newest bursts: coefficients of variation, and the chance that it is nothing."""

    bursts: tuple[Burst, ...]
    volume_variation: float
    interval_variation: float
    period_ns: float
    chance: float

    @property
    def mean_bytes(self) -> float:
        """Mean volume of the bursts."""
        return sum(burst.bytes for burst in self.bursts) / len(self.bursts)


def equal_bursts(series: Series, bursts: Bursts, shape: Shape) -> EqualBursts | None:
    """Return the newest bursts that are least likely regular and equal by chance; None with too few."""
    found = [burst for burst in bursts.found if burst.bytes >= shape.least_burst_bytes]
    # A part of a burst says when it was, if its start was seen, but not how much.
    places = [at for at, burst in enumerate(found) if burst.whole][-MOST_BURSTS:]
    usable = [found[at] for at in places]
    if len(usable) < LEAST_BURSTS:
        return None
    all_volumes = _volumes(series, usable)
    between = np.diff(np.array([burst.start_ns for burst in usable], dtype=np.float64))
    hidden = np.diff(places) > 1
    hidden |= _unknown_between(series, usable)
    best: EqualBursts | None = None
    tests = (len(usable) - LEAST_BURSTS + 1) * shape.rasters
    spreads, _ = _newest(all_volumes, 1)
    jitters, periods = _newest(between, 0)
    for count in range(LEAST_BURSTS, len(usable) + 1):
        period, scatter = periods[count - 2], jitters[count - 2]
        if hidden[-count + 1 :].any():
            intervals = _single(between[-count + 1 :], hidden[-count + 1 :])
            period = float(intervals.mean())
            scatter = float(intervals.std() / period)
        if period > shape.longest_period_ns:
            continue
        # Both are known no better than the source prints and the raster divides.
        spread = math.hypot(spreads[count - 1], series.resolution)
        jitter = math.hypot(scatter, series.step_ns / math.sqrt(6) / period)
        chance = tests * regular_by_chance(jitter, count - 1)
        if best is not None and chance >= best.chance:
            continue
        chance = max(chance, tests * equal_by_chance(spread, count, shape.honest_volume_variation))
        if best is None or chance < best.chance:
            best = EqualBursts(tuple(usable[-count:]), spread, jitter, period, min(1.0, chance))
    return best


def _newest(values: Floats, lacking: int) -> tuple[list[float], list[float]]:
    """Return the coefficient of variation of the newest 1, 2, ... values, and their mean.

    ``lacking`` is 1 for the variation of a sample, 0 for that of all there are.
    """
    numbers, about = np.arange(1, len(values) + 1), float(values.mean())
    off = values[::-1] - about
    sums = np.cumsum(off)
    squares = np.maximum(0.0, np.cumsum(off**2) - sums**2 / numbers)
    means = about + sums / numbers
    with np.errstate(divide="ignore", invalid="ignore"):
        variations = np.sqrt(squares / np.maximum(1, numbers - lacking)) / means
    return variations.tolist(), means.tolist()


def _volumes(series: Series, bursts: list[Burst]) -> Floats:
    """Return what is compared: volumes, or what an average over a window that holds a burst shows of them: peaks.

    A coarse raster cuts the area under such a pulse by chance; its plateau is the volume over the window.
    """
    length = float(np.median([burst.end_ns - burst.start_ns for burst in bursts]))
    of_peaks = 0 < length < 2 * series.window_ns
    return np.array([burst.peak if of_peaks else burst.bytes for burst in bursts])


def _unknown_between(series: Series, bursts: list[Burst]) -> npt.NDArray[np.bool_]:
    """Return for each pair of neighbours whether something between them is not known."""
    unknown = np.concatenate([[0], np.cumsum(np.isnan(series.rate))])
    ends = [burst.end for burst in bursts[:-1]]
    firsts = [burst.first for burst in bursts[1:]]
    return unknown[firsts] > unknown[ends]


def _single(intervals: Floats, hidden: npt.NDArray[np.bool_]) -> Floats:
    """Return the intervals; one in which something was not seen may hold several whole periods and is divided."""
    typical = float(np.median(intervals))
    if typical <= 0 or not hidden.any():
        return intervals
    return np.where(hidden, intervals / np.maximum(1, np.round(intervals / typical)), intervals)


def periodic_equal_bursts(
    flow: Flow, series: Series, bursts: Bursts, shape: Shape, *, spectrum: bool = True
) -> Finding | None:
    """Return the finding for one direction of a flow, None where there is nothing to speak of.

    ``spectrum`` adds the periodogram's numbers, which take longer than all the rest.

    Bursts that go one way only, as the other direction's record shows, are a note: backups and shipped logs look so.
    """
    best = equal_bursts(series, bursts, shape)
    if best is None:
        return None
    severity = shape.severity(best.chance, best.period_ns)
    if severity is None:
        return None
    one_sided = one_way(flow, series, best.bursts, shape)
    if one_sided:
        severity = Severity.NOTE
    stretch = series.between(best.bursts[0].start_ns - series.step_ns, series.end_ns)
    model = nearest_model(best.mean_bytes)
    direction = {None: "; the other direction is not recorded", True: ", one way only", False: ", in both directions"}
    text = (
        f"{series.name}: {len(best.bursts)} bursts of {size(best.mean_bytes)} (variation {best.volume_variation:.1%}) "
        f"every {duration(best.period_ns)} (variation {best.interval_variation:.1%}){direction[one_sided]}. "
        f"By chance: {best.chance:.1e}; an alarm needs {shape.allowed_chance(best.period_ns):.1e}"
    )
    if model is not None:
        text += f". The volume is {model.text}"
    return Finding(
        Kind.PERIODIC_EQUAL_BURSTS,
        (series.name,),
        text,
        best.bursts[0].start_ns,
        best.bursts[-1].end_ns,
        severity,
        numbers={
            "bursts": len(best.bursts),
            "volume_mean_bytes": round(best.mean_bytes),
            "volume_variation": best.volume_variation,
            "interval_mean_s": best.period_ns / 1e9,
            "interval_variation": best.interval_variation,
            "chance": best.chance,
            "threshold": shape.allowed_chance(best.period_ns),
            "one_way": "unknown" if one_sided is None else str(one_sided).lower(),
            **(_spectral(periodicity(stretch, best.period_ns)) if spectrum else {}),
            **({} if model is None else {"model": model.name, "model_off": model.off, "model_chance": model.chance}),
        },
    )


def _spectral(spectrum: Periodicity | None) -> dict[str, float | int]:
    if spectrum is None:
        return {}
    return {
        "lomb_scargle_power": spectrum.power,
        "lomb_scargle_frequencies": spectrum.frequencies,
        "lomb_scargle_false_alarm": spectrum.false_alarm,
        "lomb_scargle_period_s": spectrum.period_ns / 1e9,
        "autocorrelation_at_period": spectrum.autocorrelation,
    }
