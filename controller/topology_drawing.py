"""A picture of a site's wiring as SVG: the cables that are declared, and who was found at each switch port. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

from controller.site import Site
from controller.topology import PortWiring, Wiring

_ROW, _TOP, _WIDTH = 34, 96, 980
_NODES_X, _DPU_X, _PORT_X, _FOUND_X = 40, 150, 560, 690
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


def draw(site: Site, ports: Sequence[PortWiring]) -> str:
    """Return the picture.

    Nodes and their DPUs stand left, switch ports right, in the site file's order. A line is a cable: dashed as it is
    declared, solid as it was found. A cable that was found where it is declared is one solid line.
    """
    rows = {(port.switch, port.port): _TOP + number * _ROW for number, port in enumerate(ports)}
    uplinks = {link.name: _TOP + number * _ROW for number, link in enumerate(site.links)}
    height = _TOP + _ROW * max(len(rows), len(uplinks), 1) + 20
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" width="{_WIDTH}" height="{height}">',
        f'<rect width="{_WIDTH}" height="{height}" fill="#ffffff"/>',
        '<g font-family="system-ui, sans-serif">',
        _text(_NODES_X, 30, f"Wiring of {site.name}", size=18, weight=600),
        *_legend(),
    ]
    parts += _cables(site, ports, rows, uplinks)
    for link in site.links:
        y = uplinks[link.name]
        parts.append(_text(_NODES_X, y + 5, link.node, colour="#4a5560"))
        parts.append(_box(_DPU_X, y - 12, 190, 24, "#24292f"))
        parts.append(_text(_DPU_X + 10, y + 5, f"{link.dpu}/{link.uplink.name}"))
    for port in ports:
        y, colour = rows[port.switch, port.port], _COLOURS[port.state]
        parts.append(_box(_PORT_X, y - 12, 120, 24, colour))
        parts.append(_text(_PORT_X + 10, y + 5, f"{port.switch} {port.port}"))
        parts.append(_text(_FOUND_X, y + 5, _said(port), colour=colour))
    return "\n".join((*parts, "</g>", "</svg>", ""))


def _cables(
    site: Site, ports: Sequence[PortWiring], rows: Mapping[tuple[str, str], int], uplinks: Mapping[str, int]
) -> list[str]:
    seen = {(name, port.switch, port.port) for port in ports for name in port.found_links}
    placed = {name for name, _, _ in seen}
    lines = []
    for link in site.links:
        y = rows.get((link.switch, link.port))
        if y is None or (link.name, link.switch, link.port) in seen:
            continue
        colour = "#c0262d" if link.name in placed else "#8a6d00"
        lines.append(_line(uplinks[link.name], y, colour, dashed=True))
    declared = {(link.name, link.switch, link.port) for link in site.links}
    for name, switch, port in sorted(seen):
        colour = "#1a7f4b" if (name, switch, port) in declared else "#c0262d"
        lines.append(_line(uplinks[name], rows[switch, port], colour, dashed=False))
    return lines


def _said(port: PortWiring) -> str:
    if port.state.wrong or port.state is Wiring.CONFIRMED:
        who = ", ".join(port.found) or "nobody says who he is"
        return f"{port.state.value}: {who}"
    return f"{port.state.value}" + (f": {port.declared}" if port.link is None and port.declared else "")


def _legend() -> list[str]:
    parts = []
    for number, (colour, dash, text) in enumerate(_LEGEND):
        x = _NODES_X + number * 225
        parts.append(
            f'<line x1="{x}" y1="56" x2="{x + 26}" y2="56" stroke="{colour}" stroke-width="2.5"'
            + (f' stroke-dasharray="{dash}"' if dash else "")
            + "/>"
        )
        parts.append(_text(x + 32, 60, text, size=11, colour="#4a5560"))
    return parts


def _line(left: int, right: int, colour: str, *, dashed: bool) -> str:
    x1, x2 = _DPU_X + 190, _PORT_X
    dash = ' stroke-dasharray="6 5"' if dashed else ""
    bend = (x2 - x1) // 2
    return (
        f'<path d="M{x1} {left} C{x1 + bend} {left} {x2 - bend} {right} {x2} {right}" fill="none" '
        f'stroke="{colour}" stroke-width="2.5"{dash}/>'
    )


def _box(x: int, y: int, width: int, height: int, colour: str) -> str:
    return f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="4" fill="#ffffff" stroke="{colour}"/>'


def _text(x: int, y: int, text: str, *, size: int = 13, weight: int = 400, colour: str = "#24292f") -> str:
    shown = escape("".join(character if character.isprintable() else "?" for character in text))
    return f'<text x="{x}" y="{y}" font-size="{size}" font-weight="{weight}" fill="{colour}">{shown}</text>'
