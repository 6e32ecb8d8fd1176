"""The journal looked at again: what the streaming evaluation found, and what each link's traffic resembles."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np

from controller.crosscheck.model import LinkEvidence, Period
from controller.journal import Entry, Journal, Kind
from controller.rules.evaluator import Evaluator
from controller.rules.finding import Finding
from controller.rules.rule import Rules
from controller.rules.series import Flow, Series
from controller.rules.shapestream import STEP_NS as MINUTE_NS
from controller.rules.tally import Change
from controller.rules_intake import KINDS, Intake, places_of
from controller.site import Site
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


@dataclass(frozen=True, slots=True)
class Told:
    """A finding of the streaming evaluation, and since when it is over; None while it goes on."""

    finding: Finding
    resolved_ns: int | None


def evaluated(journal: Journal, site: Site, rules: Rules, period: Period) -> list[Told]:
    """Return what ``weighbridge run`` found in a period, or would have found, in the order of time.

    The rules get the past that their windows need before it; the detectors see the period alone, and as much before.

    Raises:
        EvidenceError: a journaled record cannot be read by this program, or is damaged.
    """
    evaluator = Evaluator(rules, places_of(site))
    intake = Intake(site, evaluator)
    changes: list[Change] = []
    before_ns = period.from_ns - rules.longest_window_ns
    # An opened load window may be older than all that is looked at.
    for entry in journal.entries(kinds=[Kind.LOAD_WINDOW], to_ns=before_ns - 1):
        intake.take(entry)
    running = False
    for entry in journal.entries(kinds=KINDS, from_ns=before_ns, to_ns=period.to_ns):
        running = (running or entry.kind in (Kind.RUN_START, Kind.POLL, Kind.FRAME)) and entry.kind is not Kind.RUN_STOP
        changes += intake.take(entry)
    if running:
        changes += evaluator.clock(period.to_ns)
    return _paired(changes, period)


def remembered(journal: Journal, site: Site, rules: Rules, period: Period) -> list[Told]:
    """As :func:`evaluated`, the detectors alone, from one frame a minute: for two days in a few seconds."""
    evaluator = Evaluator(rules, places_of(site))
    intake = Intake(site, evaluator)
    changes: list[Change] = []
    for entry in minutes(journal, period.from_ns, period.to_ns, around_ns(site)):
        changes += intake.take(entry, rules=False)
    return _paired(changes, period)


def around_ns(site: Site) -> int:
    """Return so long around a moment that each agent has a frame and a clock exchange in it."""
    collection = site.collection
    return 2 * max(NS_PER_S, collection.frame_interval_ns, collection.clock_interval_ns)


def minutes(journal: Journal, from_ns: int, to_ns: int, width_ns: int) -> Iterator[Entry]:
    """Yield the entries around the beginning of each minute: a frame of each agent, and clock exchanges.

    The first frame of a minute is then among them, and a clock exchange before it.
    """
    minute_ns = from_ns
    while True:
        # On to the next minute in which anything was recorded.
        next_ns = journal.rows("SELECT min(recorded_ns) FROM entry WHERE recorded_ns >= ?", minute_ns)[0][0]
        if next_ns is None or next_ns >= to_ns:
            return
        minute_ns = max(-(-minute_ns // MINUTE_NS), next_ns // MINUTE_NS) * MINUTE_NS
        beside = (minute_ns - width_ns, min(to_ns, minute_ns + width_ns))
        yield from journal.entries(kinds=[Kind.FRAME, Kind.CLOCK], from_ns=beside[0], to_ns=beside[1])
        minute_ns += MINUTE_NS


def _paired(changes: Iterable[Change], period: Period) -> list[Told]:
    """Return each finding of the period with its end."""
    told: dict[str, Told] = {}
    for change in changes:
        told[change.finding.id] = Told(change.finding, change.resolved_ns)
    return sorted(
        (each for each in told.values() if period.from_ns <= each.finding.to_ns <= period.to_ns),
        key=lambda each: each.finding.to_ns,
    )
