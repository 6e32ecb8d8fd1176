"""The plot of one link and direction: bytes in any window of the limit over time, by observer, the limit drawn in.

Readable in black and white: each observer has its own line pattern, the lanes under the plot name it in that pattern
and show where it was looking, and labels stand at the peak, at the curve they name.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from controller.crosscheck.model import Limit, LimitResult, Period
from controller.report import words
from controller.report.axes import ByteAxis, time_ticks
from controller.report.series import Column, Seen, most_in_windows
from controller.report.svg import drawing, polyline, steps, tag
from protos.reading import Direction, Observer

WIDTH = 620
_LEFT, _RIGHT, _TOP, _PLOT_HEIGHT = 96, 12, 26, 200
_LANE_HEIGHT, _AXIS_TEXT = 15, 34
_LABEL_APART = 15
_COLUMNS = 180
_WORDS_WIDTH = 90
_HEADROOM = 30
"""An upper bound so many times above everything certain is cut off by the plot's edge, and says so there."""
NAMES = {
    Observer.HOST: "host",
    Observer.DPU_HOST_PORT: "dpu.host_port",
    Observer.DPU_UPLINK: "dpu.uplink",
    Observer.SWITCH: "switch",
}
# Drawn from the widest pattern to the narrowest, so that curves which agree stay visible one inside the other.
_ORDER = (Observer.SWITCH, Observer.DPU_UPLINK, Observer.DPU_HOST_PORT, Observer.HOST)


@dataclass(frozen=True, slots=True)
class Curves:
    """One link and direction, thinned: what :func:`draw` needs, and what fixes the scale it shares."""

    seen: Seen
    limit: Limit
    columns: dict[Observer, list[Column]]

    @property
    def values(self) -> list[int]:
        """Every value (bytes) the axis must show: what can have passed at line rate in a gap need not fit."""
        every = [column for columns in self.columns.values() for column in columns]
        certain = [self.limit.bytes, *(column.lower for column in every)]
        most = _HEADROOM * max(certain)
        return [*certain, *(column.upper for column in every if column.upper is not None and column.upper <= most)]


def curves(seen: Seen, period: Period, limit: Limit) -> Curves:
    """Return every observer's columns for the windows of ``limit``."""
    columns = {
        observer: most_in_windows(one, period, limit.window_ns, _COLUMNS) for observer, one in seen.observed.items()
    }
    return Curves(seen, limit, columns)


def draw(of: Curves, period: Period, axis: ByteAxis, result: LimitResult | None) -> Markup:
    """Return the plot.

    Args:
        of: the curves of one link and direction.
        period: the period of the report; the plot's left and right edge.
        axis: shared with the other direction of the link, so that the two can be compared by eye.
        result: the cross-check's answer for this limit; its worst window is marked.
    """
    frame = _Frame(period, axis)
    parts = [
        *_grid(frame),
        *_limit_line(frame, of.limit),
        *(part for observer in _ORDER for part in _curve(frame, observer, of.columns.get(observer, []))),
        _limit_name(frame, of),
        *_cut_off(frame, of),
        *_worst_window(frame, result),
        *_peak_labels(frame, of.columns),
        *_lanes(frame, of.seen),
    ]
    height = _TOP + _PLOT_HEIGHT + _AXIS_TEXT + _LANE_HEIGHT * len(Observer) + 4
    link, window = of.seen.evidence, words.lasting(of.limit.window_ns)
    label = f"{words.shown(link.link)} {link.direction.value}: bytes in any {window} by observer"
    return drawing(WIDTH, height, label, parts, "plot")


@dataclass(frozen=True, slots=True)
class _Frame:
    period: Period
    axis: ByteAxis

    def x(self, at_ns: int) -> float:
        share = (at_ns - self.period.from_ns) / (self.period.to_ns - self.period.from_ns)
        return _LEFT + share * (WIDTH - _LEFT - _RIGHT)

    def y(self, value: int | None) -> float:
        share = 1.0 if value is None else self.axis.share(value)
        return _TOP + _PLOT_HEIGHT * (1 - share)


def _grid(frame: _Frame) -> list[Markup]:
    right, bottom = WIDTH - _RIGHT, _TOP + _PLOT_HEIGHT
    parts = []
    for value, text in frame.axis.ticks():
        y = frame.y(value)
        parts.append(tag("line", class_="grid", x1=_LEFT, x2=right, y1=y, y2=y))
        parts.append(tag("text", text, class_="tick end", x=_LEFT - 6, y=y + 4))
    for at_ns, text in time_ticks(frame.period.from_ns, frame.period.to_ns, 6):
        x = frame.x(at_ns)
        parts.append(tag("line", class_="grid", x1=x, x2=x, y1=_TOP, y2=bottom + 4))
        parts.append(tag("text", text, class_="tick mid", x=x, y=bottom + 17))
    parts.append(tag("line", class_="axis", x1=_LEFT, x2=right, y1=bottom, y2=bottom))
    return parts


def _limit_line(frame: _Frame, limit: Limit) -> list[Markup]:
    y, right = frame.y(limit.bytes), WIDTH - _RIGHT
    return [
        tag("rect", class_="over", x=_LEFT, y=_TOP, width=right - _LEFT, height=max(0.0, y - _TOP)),
        tag("line", class_="limit", x1=_LEFT, x2=right, y1=y, y2=y),
    ]


def _limit_name(frame: _Frame, of: Curves) -> Markup:
    """Name the limit line on the side where no curve stands in the way."""
    y = frame.y(of.limit.bytes)
    text = f"limit: {words.declared_bytes(of.limit.bytes)} in {words.lasting(of.limit.window_ns)}"
    long = 6.6 * len(text)
    right = WIDTH - _RIGHT
    places = (("start", _LEFT + 6.0, _LEFT, _LEFT + long), ("end", right - 6.0, right - long, right))
    crowded = {
        anchor: sum(
            frame.x(c.to_ns) > x1 and frame.x(c.from_ns) < x2 and frame.y(c.upper) < y + 4 and frame.y(c.lower) > y - 20
            for columns in of.columns.values()
            for c in columns
        )
        for anchor, _, x1, x2 in places
    }
    anchor, x, _, _ = min(places, key=lambda place: crowded[place[0]])
    return tag("text", text, class_=f"limit-text halo {anchor}", x=x, y=y - 5)


def _curve(frame: _Frame, observer: Observer, columns: Sequence[Column]) -> list[Markup]:
    if not columns:
        return []
    end = frame.x(columns[-1].to_ns)
    low = steps([(frame.x(c.from_ns), frame.y(c.lower)) for c in columns], end)
    high = steps([(frame.x(c.from_ns), frame.y(c.upper)) for c in columns], end)
    return [tag("path", class_=f"curve band {_style(observer)}", d=polyline([*low, *reversed(high)]) + "Z")]


def _cut_off(frame: _Frame, of: Curves) -> list[Markup]:
    """Say how far a band goes that leaves the plot at its top, once for bands that do so together."""
    parts: list[Markup] = []
    taken: list[tuple[float, float]] = []
    for columns in of.columns.values():
        for leaves, run in itertools.groupby(columns, key=lambda c: c.upper is None or c.upper > frame.axis.top):
            stretch = list(run)
            x1, x2 = frame.x(stretch[0].from_ns), frame.x(stretch[-1].to_ns)
            middle = (x1 + x2) / 2
            if not leaves or x2 - x1 < _WORDS_WIDTH or any(a - 20 < middle < b + 20 for a, b in taken):
                continue
            taken.append((x1, x2))
            known = [c.upper for c in stretch if c.upper is not None]
            text = f"up to {words.ceil_bytes(max(known))}" if len(known) == len(stretch) else "no upper bound"
            parts.append(tag("text", text, class_="small halo mid", x=middle, y=_TOP + 12))
    return parts


def _style(observer: Observer) -> str:
    return observer.value.replace(".", "-").replace("_", "-")


def _worst_window(frame: _Frame, result: LimitResult | None) -> list[Markup]:
    if result is None or result.worst_from_ns is None or result.worst_at_least_bytes <= result.limit.bytes:
        return []
    x1 = max(float(_LEFT), frame.x(result.worst_from_ns))
    x2 = min(float(WIDTH - _RIGHT), frame.x(result.worst_from_ns + result.limit.window_ns))
    middle, y = (x1 + x2) / 2, _TOP - 6
    text = f"worst window: at least {words.floor_bytes(result.worst_at_least_bytes)}"
    anchor, x = ("end", x2) if middle > WIDTH * 0.7 else (("start", x1) if middle < _LEFT + 110 else ("mid", middle))
    return [
        tag("path", class_="bracket", d=polyline([(x1, y + 5), (x1, y), (x2, y), (x2, y + 5)])),
        tag("text", text, class_=f"note {anchor}", x=x, y=y - 5),
    ]


def _peak_labels(frame: _Frame, columns: dict[Observer, list[Column]]) -> list[Markup]:
    """Name the curves where the largest lower bound stands; curves that lie together share one label."""
    highest = max(columns.values(), key=lambda cs: max((c.lower for c in cs), default=0), default=[])
    at_ns = _middle_of_peak(highest)
    if at_ns is None:
        return []
    here = {o: next((c for c in cs if c.from_ns <= at_ns < c.to_ns), None) for o, cs in columns.items()}
    heights = [(frame.y(column.lower), observer) for observer, column in here.items() if column is not None]
    x = frame.x(at_ns)
    side = "end" if x > WIDTH * 0.75 else ("start" if x < WIDTH * 0.35 else "mid")
    parts: list[Markup] = []
    for y, together in _clusters(heights):
        text = ", ".join(NAMES[o] for o in Observer if o in together)
        beside = y + 16 if y < _TOP + _PLOT_HEIGHT - 30 else y - 8
        parts.append(tag("text", text, class_=f"name halo {side}", x=x, y=beside))
    return parts


def _middle_of_peak(columns: Sequence[Column]) -> int | None:
    """Return the middle of the stretch around the highest column in which at least half its height is kept."""
    top = max((c.lower for c in columns), default=0)
    if top == 0:
        return None
    first = last = next(index for index, c in enumerate(columns) if c.lower == top)
    while first > 0 and columns[first - 1].lower * 2 >= top:
        first -= 1
    while last + 1 < len(columns) and columns[last + 1].lower * 2 >= top:
        last += 1
    middle = columns[(first + last) // 2]
    return (middle.from_ns + middle.to_ns) // 2


def _clusters(heights: Sequence[tuple[float, Observer]]) -> list[tuple[float, set[Observer]]]:
    clusters: list[tuple[float, set[Observer]]] = []
    for y, observer in sorted(heights, key=lambda pair: (pair[0], pair[1].value)):
        if clusters and y - clusters[-1][0] < _LABEL_APART:
            clusters[-1][1].add(observer)
        else:
            clusters.append((y, {observer}))
    return clusters


def _lanes(frame: _Frame, seen: Seen) -> list[Markup]:
    parts: list[Markup] = []
    along = list(Observer) if seen.evidence.direction is Direction.EGRESS else list(reversed(Observer))
    narrowest = (frame.period.to_ns - frame.period.from_ns) // (WIDTH - _LEFT - _RIGHT)  # less than a pixel
    for index, observer in enumerate(along):
        y = _TOP + _PLOT_HEIGHT + _AXIS_TEXT + _LANE_HEIGHT * index
        parts.append(tag("text", NAMES[observer], class_="lane-name end", x=_LEFT - 6, y=y + 4))
        if observer not in seen.looked:
            parts.append(tag("text", "not an observer here", class_="small", x=_LEFT, y=y + 4))
            continue
        for start, end in seen.looked[observer]:
            x1, x2 = frame.x(max(start, frame.period.from_ns)), frame.x(min(end, frame.period.to_ns))
            if x1 < x2:
                parts.append(tag("line", class_=f"curve {_style(observer)}", x1=x1, x2=x2, y1=y, y2=y))
        for start, end in seen.gaps(observer, frame.period):
            if end - start > narrowest:
                x1, x2 = frame.x(start), frame.x(end)
                hole = tag("title", f"no usable reading for {words.lasting(end - start)}")
                parts.append(tag("rect", hole, class_="hole", x=x1, y=y - 5, width=x2 - x1, height=10))
    return parts
