"""The board of a large site: one tile a node, in rows by pod, and a tile for each port that nobody declared."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

from markupsafe import Markup

from controller.crosscheck.model import CrossCheck, Verdict
from controller.report import words
from controller.report.cables import Cable, Verdicts, label, sign, worst
from controller.report.svg import drawing, tag
from protos.reading import Direction

_TILE_WIDTH, _TILE_HEIGHT, _PER_ROW = 104, 40, 10
MOST_TILES = 300
"""Nodes that all get a tile. Of more, only those that are not compliant do, so that what follows is found."""
_MOST_IN_POD = 4 * _PER_ROW
"""Tiles of one pod on the board of so large a site."""


def board(of_site: Sequence[Cable], verdicts: Verdicts, result: CrossCheck) -> Markup:
    """One tile a node, pods in rows: the upper sign of a tile is its worst egress, the lower its worst ingress.

    A pod of a site of more than :data:`MOST_TILES` nodes shows those that are not compliant and counts the others.
    """
    y, parts = 8.0, []
    every = len({cable.node for cable in of_site}) <= MOST_TILES
    quiet_pods = quiet_nodes = 0
    for pod, of_pod in itertools.groupby(of_site, key=lambda cable: cable.pod):
        own = [(node, list(of_node)) for node, of_node in itertools.groupby(of_pod, key=lambda cable: cable.node)]
        nodes = own if every else [each for each in own if _gravest(each[1], verdicts) is not Verdict.COMPLIANT]
        if not nodes:
            quiet_pods, quiet_nodes = quiet_pods + 1, quiet_nodes + len(own)
            continue
        nodes, left = nodes[:_MOST_IN_POD] if not every else nodes, len(own) - len(nodes)
        more = len(own) - left - len(nodes)
        rows = -(-len(nodes) // _PER_ROW)
        parts.append(label(pod, 84, y + 24, "pod-name end", 10))
        if left or more:
            said = [f"{words.counted(left, 'node')} compliant"] if left else []
            said += [f"{words.counted(more, 'more node')} not"] if more else []
            parts.append(tag("text", ", ".join(said), class_="small", x=96, y=y + rows * (_TILE_HEIGHT + 6) + 10))
        for index, (node, in_node) in enumerate(nodes):
            x = 96 + (index % _PER_ROW) * (_TILE_WIDTH + 6)
            tile_y = y + (index // _PER_ROW) * (_TILE_HEIGHT + 6)
            parts.extend(_tile(node, in_node, x, tile_y, verdicts))
        y += rows * (_TILE_HEIGHT + 6) + (24 if left or more else 8)
    if quiet_pods:
        pods, nodes_in = words.counted(quiet_pods, "other pod"), words.counted(quiet_nodes, "node")
        parts.append(tag("text", f"{pods}, {nodes_in}: all compliant", class_="small", x=96, y=y + 14))
        y += 28
    found = [port for port in result.ports if not port.declared]
    if found:
        parts.append(tag("text", "not in the site file", class_="pod-name end", x=84, y=y + 24, textLength=82))
        for index, port in enumerate(found):
            x, row = 96 + (index % 5) * 220, index // 5
            box = y + row * (_TILE_HEIGHT + 6)
            text = f"{words.shown(port.switch)} {words.shown(port.port)}"
            parts.append(tag("rect", class_="found undeclared", x=x, y=box, width=210, height=_TILE_HEIGHT, rx=4))
            parts.append(label(text, x + 105, box + 17, "found-name mid", 28))
            parts.append(
                tag(
                    "text", f"at least {words.floor_bytes(port.lower_bytes)}", class_="small mid", x=x + 105, y=box + 32
                )
            )
        y += -(-len(found) // 5) * (_TILE_HEIGHT + 6)
    width = 96 + _PER_ROW * (_TILE_WIDTH + 6)
    spoken = f"Board of site {words.shown(result.site)}: {words.counted(len(of_site), 'cable')}"
    return drawing(width, y + 4, spoken, parts, "site")


def _gravest(in_node: Sequence[Cable], verdicts: Verdicts) -> Verdict:
    return worst([verdicts[cable.link, way] for cable in in_node for way in Direction if (cable.link, way) in verdicts])


def _tile(node: str, cables: Sequence[Cable], x: float, y: float, verdicts: Verdicts) -> Iterator[Markup]:
    by_direction = {
        direction: [verdicts[cable.link, direction] for cable in cables if (cable.link, direction) in verdicts]
        for direction in Direction
    }
    gravest = worst([verdict for of_direction in by_direction.values() for verdict in of_direction])
    yield tag("rect", class_=f"tile {gravest.value}", x=x, y=y, width=_TILE_WIDTH, height=_TILE_HEIGHT, rx=4)
    yield label(node, x + 7, y + _TILE_HEIGHT / 2 + 4, "small", 11)
    for direction, sign_y in ((Direction.EGRESS, y + 11), (Direction.INGRESS, y + _TILE_HEIGHT - 11)):
        if by_direction[direction]:
            yield sign(worst(by_direction[direction]), x + _TILE_WIDTH - 13, sign_y, 15)
