"""A few lines that write SVG: every attribute and text is escaped, coordinates are cut to a tenth of a pixel.

Colours and line patterns are the style sheet's (classes), so that dark mode and print need no second drawing.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence

from markupsafe import Markup, escape

Point = tuple[float, float]


def number(value: float) -> str:
    """Return a coordinate with at most one decimal, the same on every machine."""
    text = f"{value:.1f}".removesuffix(".0")
    return "0" if text == "-0" else text


def tag(name: str, *content: str, **attributes: str | float | None) -> Markup:
    """Return an element; ``class_`` is written ``class``, other underscores become hyphens, None is left out."""
    written = Markup("")
    for key, value in attributes.items():
        if value is None:
            continue
        text = value if isinstance(value, str) else number(value)
        written += Markup(' {}="{}"').format(key.rstrip("_").replace("_", "-"), text)
    inside = Markup("").join(escape(part) for part in content)
    return Markup("<{0}{1}>{2}</{0}>").format(Markup(name), written, inside)  # noqa: S704  # names are literals of ours


def polyline(points: Sequence[Point]) -> str:
    """Return path data through the points; runs along one axis are merged and written with H and V."""
    corners: list[tuple[str, str]] = []
    for x, y in points:
        corner = (number(x), number(y))
        if corners and corner == corners[-1]:
            continue
        if len(corners) > 1 and any(corners[-2][axis] == corners[-1][axis] == corner[axis] for axis in (0, 1)):
            corners.pop()
        corners.append(corner)
    data = [f"M{corners[0][0]} {corners[0][1]}"]
    for (x_before, y_before), (x_text, y_text) in itertools.pairwise(corners):
        if y_text == y_before:
            data.append(f"H{x_text}")
        else:
            data.append(f"V{y_text}" if x_text == x_before else f"L{x_text} {y_text}")
    return "".join(data)


def steps(points: Sequence[Point], end: float) -> list[Point]:
    """Return the corners of a staircase that holds each value from its point to the next, the last to ``end``."""
    corners: list[Point] = []
    for (x, y), next_x in zip(points, [*(x for x, _ in points[1:]), end], strict=True):
        corners.extend(((x, y), (next_x, y)))
    return corners


def drawing(width: float, height: float, label: str, parts: Iterable[str], class_: str) -> Markup:
    """Return the outer element at its natural size; the style sheet may scale it. ``label`` is for screen readers."""
    return tag(
        "svg",
        *parts,
        class_=class_,
        width=width,
        height=height,
        viewBox=f"0 0 {number(width)} {number(height)}",
        role="img",
        aria_label=label,
    )
