"""The shape detectors on what moves, as it comes: two days of minutes a link, looked at every half hour. Pure.

The raster, the memory and the rhythm are those by which the detectors are scored (`weighbridge rules score`), so the
false alarms measured there are those to expect here. When a link is looked at follows from its name and the time alone:
ten thousand links are not looked at in one moment, and whoever looks later looks at the same moments.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from controller.rules.examine import shapes, together
from controller.rules.finding import Finding, Severity
from controller.rules.moved import Moved, Places
from controller.rules.series import Flow, Series
from controller.rules.shape import Shape
from controller.rules.tally import Change
from protos.reading import Direction
from protos.units import NS_PER_S

STEP_NS = 60 * NS_PER_S
MEMORY_BINS = 48 * 60
EVERY_BINS = 30
LAG_BINS = 2
"""What several links show together is looked at so much later: by then every one that answers has said its part."""
_LEAST_KNOWN_NS = STEP_NS // 2
_Key = tuple[str, str, tuple[str, ...]]


class _Side:
    """One direction of one link: a ring of minutes, and the minute that is filling."""

    __slots__ = ("_bytes", "_known_ns", "_rates", "name", "newest")

    def __init__(self, name: str) -> None:
        self.name = name
        self._rates: npt.NDArray[np.float32] = np.full(MEMORY_BINS, np.nan, dtype=np.float32)
        self.newest = -1  # the minute that is filling
        self._bytes = 0.0
        self._known_ns = 0

    def add(self, from_ns: int, to_ns: int, volume: int) -> None:
        """Take what moved; each minute that it fills is put into the ring."""
        first, last = from_ns // STEP_NS, (to_ns - 1) // STEP_NS
        if self.newest < 0 or first - self.newest > MEMORY_BINS:
            self._begin(first)
        if last < self.newest:
            return
        length = to_ns - from_ns
        for minute in range(max(self.newest, first, last - MEMORY_BINS), last + 1):
            self.until(minute)
            part = min(to_ns, (minute + 1) * STEP_NS) - max(from_ns, minute * STEP_NS)
            self._bytes += volume * part / length
            self._known_ns += part

    def until(self, minute: int) -> None:
        """Let ``minute`` be the one that is filling; those passed over are not known."""
        while self.newest < minute:
            known = self._known_ns >= _LEAST_KNOWN_NS
            self._rates[self.newest % MEMORY_BINS] = self._bytes / self._known_ns * NS_PER_S if known else np.nan
            self._bytes, self._known_ns = 0.0, 0
            self.newest += 1

    def _begin(self, minute: int) -> None:
        self._rates[:] = np.nan
        self.newest, self._bytes, self._known_ns = minute, 0.0, 0

    def series(self, end: int) -> Series:
        """Return the minutes before ``end``, without those before anything was known."""
        first = end - MEMORY_BINS
        places = np.arange(first, end)
        rates = self._rates[places % MEMORY_BINS].astype(np.float64)
        # What the ring holds of minutes not reached yet is two days old.
        rates[(places >= self.newest) | (places < self.newest - MEMORY_BINS + 1)] = np.nan
        known = np.flatnonzero(~np.isnan(rates))
        start = int(known[0]) if len(known) else MEMORY_BINS
        return Series(self.name, (first + start) * STEP_NS, STEP_NS, rates[start:])

    def peak(self) -> float:
        """Return the most that any minute held, in bytes a second."""
        rates = self._rates[~np.isnan(self._rates)]
        return float(rates.max()) if len(rates) else 0.0


class ShapeStream:
    """The detectors of single links and of several together, over everything that moves."""

    def __init__(self, shape: Shape, places: Places) -> None:
        self._shape, self._places = shape, places
        self._sides: dict[str, dict[Direction, _Side]] = {}
        self._looked: dict[str, int] = {}
        self._firing: dict[str, dict[_Key, Finding]] = {}
        self._reached = -1

    def feed(self, moved: Moved) -> Iterator[Change]:
        """Take what moved over one link and yield what changed."""
        if moved.link not in self._places.nodes:
            return
        minute = (moved.to_ns - 1) // STEP_NS
        phase = zlib.crc32(moved.link.encode()) % EVERY_BINS
        before = self._looked.setdefault(moved.link, minute)
        # Look before what lies beyond the moment is taken in; once, at the newest of the moments passed over.
        due = (minute - phase) // EVERY_BINS * EVERY_BINS + phase
        if before < due:
            self._looked[moved.link] = due
            yield from self._look(moved.link, due)
        if minute - LAG_BINS > self._reached:
            yield from self._reach(minute - LAG_BINS)
        sides = self._sides.setdefault(moved.link, {})
        side = sides.get(moved.direction)
        if side is None:
            side = sides[moved.direction] = _Side(f"{moved.link} {moved.direction.value}")
        side.add(moved.from_ns, moved.to_ns, moved.bytes)

    def firing(self) -> Iterator[Finding]:
        """Yield the findings that are not over."""
        for found in self._firing.values():
            yield from found.values()

    def flows(self, end: int | None = None) -> list[Flow]:
        """Return what is remembered of each link, up to a minute (since 1970); None: up to the newest full one."""
        found = (self._flow(link, end) for link in self._sides)
        return [flow for flow in found if flow is not None]

    def _flow(self, link: str, end: int | None) -> Flow | None:
        sides = self._sides.get(link, {})
        if not sides:
            return None
        newest = max(side.newest for side in sides.values())
        until = newest if end is None else min(end, newest)
        both = {direction: side.series(until) for direction, side in sides.items()}
        start_ns = max(one.start_ns for one in both.values())
        cut = {direction: one.between(start_ns, one.end_ns) for direction, one in both.items()}
        if any(np.isnan(one.rate).all() for one in cut.values()):
            return None
        return Flow(link, cut.get(Direction.EGRESS), cut.get(Direction.INGRESS))

    def _look(self, link: str, end: int) -> Iterator[Change]:
        flow = self._flow(link, end)
        found = [] if flow is None else shapes(flow, self._shape, spectrum=False)
        yield from self._changed(link, found, end)

    def _reach(self, minute: int) -> Iterator[Change]:
        due = minute // EVERY_BINS * EVERY_BINS
        begun, self._reached = self._reached, minute
        if begun < 0 or begun >= due:
            return
        least = self._shape.least_burst_bytes * NS_PER_S / STEP_NS
        busy = [link for link, sides in self._sides.items() if any(side.peak() >= least for side in sides.values())]
        flows = [flow for flow in (self._flow(link, due) for link in sorted(busy)) if flow is not None]
        yield from self._changed("", together(flows, self._shape), due)

    def _changed(self, where: str, found: list[Finding], end: int) -> Iterator[Change]:
        """Yield findings that are new and those that are not found again; what stays a note is none of them."""
        before = self._firing.get(where, {})
        now: dict[_Key, Finding] = {}
        for each in found:
            if each.severity is not Severity.NOTE:
                known = before.get(each.key)
                now[each.key] = known or each
                if known is None:
                    yield Change(each)
        for key, known in before.items():
            if key not in now:
                yield Change(known, end * STEP_NS)
        if now or before:
            self._firing[where] = now
