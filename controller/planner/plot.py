"""The plot of a sweep: slowdown over a parameter, drawn by hand as the report's are (ADR 60), readable without colour.

Both axes are logarithmic where what they show spans more than a decade. One line a series; its name stands at its
right end, in the order in which the lines end.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from controller.report.svg import drawing, tag

WIDTH, HEIGHT = 860, 460
_LEFT, _RIGHT, _TOP, _BOTTOM = 76, 250, 60, 58
_COLOURS = ("#1f4e79", "#b4451f", "#2f6b3a", "#6b4c9a", "#8a6d1d", "#444444")
_PATTERNS = ("", "7 4", "2 3", "10 3 2 3", "1 4", "12 4")
_LABEL_APART = 15
_DECADE = 10.0
_STYLE = """
text { font: 12px system-ui, sans-serif; fill: #222 } .title { font-size: 15px; font-weight: 600 }
.faint { fill: #666 }
.grid { stroke: #ddd } .axis { stroke: #333 } .line { fill: none; stroke-width: 2 }
.one { stroke: #333; stroke-width: 1.2 }
.end { text-anchor: end } .middle { text-anchor: middle } .paper { fill: #fff }
"""


@dataclass(frozen=True, slots=True)
class Line:
    """One series: its name, and points in the order of x."""

    name: str
    points: tuple[tuple[float, float], ...]


@dataclass(frozen=True, slots=True)
class Axis:
    """One axis: which part of its length a value has, and where ticks stand."""

    low: float
    high: float
    logarithmic: bool

    @classmethod
    def over(cls, values: Sequence[float], *, least: float | None = None) -> Axis:
        """Return the axis that shows all values, and ``least``."""
        every = [*values, *([] if least is None else [least])]
        low, high = min(every), max(every)
        if low > 0 and high / low > _DECADE:
            return cls(10 ** math.floor(math.log10(low) + 1e-9), 10 ** math.ceil(math.log10(high) - 1e-9), True)
        margin = (high - low) * 0.05 or abs(high) * 0.05 or 1.0
        return cls(low - margin, high + margin, False)

    def share(self, value: float) -> float:
        """Return where ``value`` lies, 0 at the low end."""
        if self.logarithmic:
            return math.log(value / self.low) / math.log(self.high / self.low)
        return (value - self.low) / (self.high - self.low)

    def ticks(self) -> list[float]:
        """Return round values within."""
        if self.logarithmic:
            first, last = round(math.log10(self.low)), round(math.log10(self.high))
            every = max(1, (last - first) // 8 + (1 if (last - first) % 8 and last - first > 8 else 0))
            return [10.0**power for power in range(first, last + 1, every)]
        rough = (self.high - self.low) / 6
        power = 10 ** math.floor(math.log10(rough))
        step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= rough)
        return [step * at for at in range(math.ceil(self.low / step), math.floor(self.high / step) + 1)]


def draw(
    lines: Sequence[Line], *, title: str, note: str, x_name: str, y_name: str, x_text: Callable[[float], str]
) -> Markup:
    """Return the drawing, a whole SVG file. ``x_text`` writes a tick of the horizontal axis."""
    x_axis = Axis.over([x for line in lines for x, _ in line.points])
    y_axis = Axis.over([y for line in lines for _, y in line.points], least=1.0)
    right, bottom = WIDTH - _RIGHT, HEIGHT - _BOTTOM

    def place(x: float, y: float) -> tuple[float, float]:
        return _LEFT + (right - _LEFT) * x_axis.share(x), bottom - (bottom - _TOP) * y_axis.share(y)

    parts = [
        tag("style", Markup(_STYLE)),  # noqa: S704  a literal of ours
        tag("rect", class_="paper", width=WIDTH, height=HEIGHT),
        tag("text", title, class_="title", x=_LEFT, y=22),
        tag("text", note, class_="faint", x=_LEFT, y=40),
    ]
    for value in x_axis.ticks():
        x, _ = place(value, y_axis.low)
        parts += [tag("line", class_="grid", x1=x, x2=x, y1=_TOP, y2=bottom)]
        parts += [tag("text", x_text(value), class_="middle", x=x, y=bottom + 18)]
    for value in y_axis.ticks():
        _, y = place(x_axis.low, value)
        parts += [tag("line", class_="grid", x1=_LEFT, x2=right, y1=y, y2=y)]
        parts += [tag("text", f"{value:,.10g}", class_="end", x=_LEFT - 8, y=y + 4)]
    _, one = place(x_axis.low, 1.0)
    parts += [tag("line", class_="one", x1=_LEFT, x2=right, y1=one, y2=one)]
    parts += [tag("line", class_="axis", x1=_LEFT, x2=_LEFT, y1=_TOP, y2=bottom)]
    parts += [tag("line", class_="axis", x1=_LEFT, x2=right, y1=bottom, y2=bottom)]
    parts += [tag("text", x_name, class_="middle", x=(_LEFT + right) / 2, y=HEIGHT - 16)]
    ends = []
    for number, line in enumerate(lines):
        colour, pattern = _COLOURS[number % len(_COLOURS)], _PATTERNS[number % len(_PATTERNS)]
        at = [place(x, y) for x, y in line.points]
        data = "M" + " L".join(f"{x:.1f} {y:.1f}" for x, y in at)
        parts += [tag("path", class_="line", d=data, stroke=colour, stroke_dasharray=pattern or None)]
        ends.append((at[-1][1], line.name, colour, pattern))
    last = math.inf
    for end, name, colour, pattern in sorted(ends, reverse=True):
        last = min(end, last - _LABEL_APART)
        parts += [tag("line", x1=right + 10, x2=right + 40, y1=last, y2=last, stroke=colour, stroke_width="2",
                      stroke_dasharray=pattern or None)]  # fmt: skip
        parts += [tag("text", name, x=right + 46, y=last + 4)]
    whole = str(drawing(WIDTH, HEIGHT, f"{title}: {y_name} over {x_name}", parts, "planner"))
    return Markup(whole.replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ', 1))  # noqa: S704  made above
