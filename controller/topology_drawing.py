"""A picture of a site's wiring as SVG: the cables that are declared, and who was found at each switch port. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape

from controller.site import Site
from controller.topology import PortWiring, Wiring

_ROW, _TOP, _MARGIN, _GAP = 34, 96, 40, 20
_CABLES = 220
"""Room for the cables between the DPUs' boxes and the ports'."""
_SIZE, _SMALL = 13, 11
_MOST_SAID = 140
"""Characters of what stands beside a port: neighbours choose their names themselves."""
_WIDEST_CHARACTER = 0.62
"""Of a font's size: about the widest that letters of a sans-serif font are on average in such names."""
_COLOURS: Mapping[Wiring, str] = {
    Wiring.CONFIRMED: "#1a7f4b",
    Wiring.UNCONFIRMED: "#8a6d00",
    Wiring.DECLARED: "#4a5560",
    Wiring.DOWN: "#8b949e",
    Wiring.UNREAD: "#8b949e",
    Wiring.MISCABLED: "#c0262d",
    Wiring.UNDECLARED_NEIGHBOUR: "#c0262d",
    Wiring.UNDECLARED_PORT: "#c0262d",
}
_LEGEND = (
    ("#1a7f4b", "", "found where declared"),
    ("#8a6d00", "6 5", "declared, nobody heard there"),
    ("#c0262d", "", "found where not declared"),
    ("#c0262d", "6 5", "declared, not found there"),
)


@dataclass(frozen=True, slots=True)
class _Columns:
    """Where the columns begin, and how wide the boxes are: as what stands in them needs."""

    dpus: int
    dpu_width: int
    ports: int
    port_width: int
    found: int
    width: int

    @classmethod
    def of(cls, site: Site, ports: Sequence[PortWiring]) -> _Columns:
        dpus = _MARGIN + _widest(link.node for link in site.links) + _GAP
        dpu_width = _widest(f"{link.dpu}/{link.uplink.name}" for link in site.links) + _GAP
        port_x = dpus + dpu_width + _CABLES
        port_width = _widest(f"{port.switch} {port.port}" for port in ports) + _GAP
        found = port_x + port_width + _GAP // 2
        width = max(found + _widest(map(_said, ports)), _legend()[1]) + _MARGIN
        return cls(dpus, dpu_width, port_x, port_width, found, width)


def draw(site: Site, ports: Sequence[PortWiring]) -> str:
    """Return the picture.

    Nodes and their DPUs stand left, switch ports right, in the site file's order. A line is a cable: dashed as it is
    declared, solid as it was found. A cable that was found where it is declared is one solid line.
    """
    rows = {(port.switch, port.port): _TOP + number * _ROW for number, port in enumerate(ports)}
    uplinks = {link.name: _TOP + number * _ROW for number, link in enumerate(site.links)}
    height, at = _TOP + _ROW * max(len(rows), len(uplinks), 1) + 20, _Columns.of(site, ports)
    size = f'width="{at.width}" height="{height}"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {at.width} {height}" {size}>',
        f'<rect {size} fill="#ffffff"/>',
        '<g font-family="system-ui, sans-serif">',
        _text(_MARGIN, 30, f"Wiring of {site.name}", size=18, weight=600),
        *_legend()[0],
    ]
    parts += _cables(site, ports, rows, uplinks, (at.dpus + at.dpu_width, at.ports))
    for link in site.links:
        y = uplinks[link.name]
        parts.append(_text(_MARGIN, y + 5, link.node, colour="#4a5560"))
        parts.append(_box(at.dpus, y - 12, at.dpu_width, 24, "#24292f"))
        parts.append(_text(at.dpus + _GAP // 2, y + 5, f"{link.dpu}/{link.uplink.name}"))
    for port in ports:
        y, colour = rows[port.switch, port.port], _COLOURS[port.state]
        parts.append(_box(at.ports, y - 12, at.port_width, 24, colour))
        parts.append(_text(at.ports + _GAP // 2, y + 5, f"{port.switch} {port.port}"))
        parts.append(_text(at.found, y + 5, _said(port), colour=colour))
    return "\n".join((*parts, "</g>", "</svg>", ""))


def _cables(
    site: Site,
    ports: Sequence[PortWiring],
    rows: Mapping[tuple[str, str], int],
    uplinks: Mapping[str, int],
    ends: tuple[int, int],
) -> list[str]:
    seen = {(name, port.switch, port.port) for port in ports for name in port.found_links}
    placed = {name for name, _, _ in seen}
    lines = []
    for link in site.links:
        y = rows.get((link.switch, link.port))
        if y is None or (link.name, link.switch, link.port) in seen:
            continue
        colour = "#c0262d" if link.name in placed else "#8a6d00"
        lines.append(_line(ends, uplinks[link.name], y, colour, dashed=True))
    declared = {(link.name, link.switch, link.port) for link in site.links}
    for name, switch, port in sorted(seen):
        colour = "#1a7f4b" if (name, switch, port) in declared else "#c0262d"
        lines.append(_line(ends, uplinks[name], rows[switch, port], colour, dashed=False))
    return lines


def _said(port: PortWiring) -> str:
    if port.state.wrong or port.state is Wiring.CONFIRMED:
        nobody = "nobody says who he is" + (f", {len(port.addresses)} addresses" if port.addresses else "")
        said = f"{port.state.value}: {', '.join(port.found) or nobody}"
    else:
        said = f"{port.state.value}" + (f": {port.declared}" if port.link is None and port.declared else "")
    return said if len(said) <= _MOST_SAID else f"{said[: _MOST_SAID - 3]}..."


def _legend() -> tuple[list[str], int]:
    """Return the legend, and where it ends."""
    parts, x = [], _MARGIN
    for colour, dash, text in _LEGEND:
        parts.append(
            f'<line x1="{x}" y1="56" x2="{x + 26}" y2="56" stroke="{colour}" stroke-width="2.5"'
            + (f' stroke-dasharray="{dash}"' if dash else "")
            + "/>"
        )
        parts.append(_text(x + 32, 60, text, size=_SMALL, colour="#4a5560"))
        x += 32 + _widest([text], _SMALL) + _GAP
    return parts, x - _GAP


def _widest(texts: Iterable[str], size: int = _SIZE) -> int:
    return round(max(map(len, texts), default=0) * size * _WIDEST_CHARACTER)


def _line(ends: tuple[int, int], left: int, right: int, colour: str, *, dashed: bool) -> str:
    x1, x2 = ends
    dash = ' stroke-dasharray="6 5"' if dashed else ""
    bend = (x2 - x1) // 2
    return (
        f'<path d="M{x1} {left} C{x1 + bend} {left} {x2 - bend} {right} {x2} {right}" fill="none" '
        f'stroke="{colour}" stroke-width="2.5"{dash}/>'
    )


def _box(x: int, y: int, width: int, height: int, colour: str) -> str:
    return f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="4" fill="#ffffff" stroke="{colour}"/>'


def _text(x: int, y: int, text: str, *, size: int = _SIZE, weight: int = 400, colour: str = "#24292f") -> str:
    shown = escape("".join(character if character.isprintable() else "?" for character in text))
    return f'<text x="{x}" y="{y}" font-size="{size}" font-weight="{weight}" fill="{colour}">{shown}</text>'
