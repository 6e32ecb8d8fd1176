"""The drawing of the site: pods, nodes, DPUs, cables and switches, with the verdict on every cable.

A verdict is said three ways at once, by colour, by line pattern and by a sign, so that it survives a black and white
printer. Up to :data:`MOST_CABLES` the cables themselves are drawn; a larger site becomes a board with one tile a node.
A port that is not in the site file is drawn as what it is: a cable somebody found.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from controller.crosscheck.model import CrossCheck, FindingKind, PortResult, SiteEvidence
from controller.report import words
from controller.report.board import board
from controller.report.cables import Cable, Verdicts, cables, label, sign
from controller.report.svg import drawing, polyline, tag
from protos.reading import Direction

MOST_CABLES = 12
_MOST_FOUND = 6
# Pixels.
_COLUMN, _NODE_GAP, _POD_GAP, _MARGIN, _POD_RIM = 104, 18, 34, 16, 12
_FOUND_WIDTH, _FOUND_HEIGHT, _RISE = 150, 46, 40
_SWITCH_HEIGHT, _CABLE, _DPU_HEIGHT, _HOST_HEIGHT = 52, 118, 34, 44
_LANE = 11
_LEAST_WIDTH = 520.0
_AGAINST_HOST = frozenset({FindingKind.HOST_UNDER_REPORTS, FindingKind.HOST_OVER_REPORTS})


@dataclass(frozen=True, slots=True)
class _Plan:
    """Where everything stands: ``column`` and ``port`` give the middle of each link's two ends."""

    width: float
    top: float
    column: Mapping[str, float]
    port: Mapping[str, float]
    switch: Mapping[str, tuple[float, float]]

    @property
    def under_switch(self) -> float:
        """Where the cables leave the switch."""
        return self.top + _SWITCH_HEIGHT

    @property
    def foot(self) -> float:
        """Where the nodes begin."""
        return self.under_switch + _CABLE


def site(result: CrossCheck, evidence: SiteEvidence) -> Markup:
    """Return the drawing of the whole site."""
    verdicts = {(link.link, link.direction): link.verdict for link in result.links}
    of_site = cables(evidence.links)
    if len(of_site) > MOST_CABLES:
        return board(of_site, verdicts, result)
    above = _ports_above(of_site, result)
    plan = _plan(of_site, above)
    refuted = {finding.link for finding in result.findings if finding.certain and finding.kind in _AGAINST_HOST}
    parts = [
        *_pods(of_site, plan, refuted),
        *_found(above, plan),
        *_switches(plan),
        *(part for cable in of_site for part in _cable(cable, plan, verdicts)),
    ]
    height = plan.foot + _DPU_HEIGHT + _HOST_HEIGHT + 44 if of_site else plan.under_switch + 8
    spoken = f"Drawing of site {words.shown(result.site)}: {words.counted(len(of_site), 'cable')}"
    return drawing(plan.width, height, spoken, parts, "site")


def _ports_above(of_site: Sequence[Cable], result: CrossCheck) -> list[PortResult]:
    """Return the ports that are not links; declared ones only where it is known which ports are links."""
    linked = {(cable.switch, cable.port) for cable in of_site}
    known = all(cable.port for cable in of_site)
    others = [p for p in result.ports if (p.switch, p.port) not in linked and (known or not p.declared)]
    return sorted(others, key=lambda p: (p.declared, p.switch, words.natural(p.port)))


def _plan(of_site: Sequence[Cable], above: Sequence[PortResult]) -> _Plan:
    column: dict[str, float] = {}
    x = float(_MARGIN + _POD_RIM)
    for before, cable in zip([None, *of_site], of_site, strict=False):
        if before is not None:
            x += _POD_GAP if before.pod != cable.pod else (_NODE_GAP if before.node != cable.node else 0)
        column[cable.link] = x + _COLUMN / 2
        x += _COLUMN
    switches = list(dict.fromkeys([*(cable.switch for cable in of_site), *(port.switch for port in above)]))
    crowd = max((sum(port.switch == name for port in above[:_MOST_FOUND]) for name in switches), default=0)
    width = max(_LEAST_WIDTH, x + _POD_RIM + _MARGIN, crowd * (_FOUND_WIDTH + 12) * len(switches) + 2 * _MARGIN)
    shift = (width - x - _POD_RIM - _MARGIN) / 2
    column = {link: at + shift for link, at in column.items()}
    each = (width - 2 * _MARGIN - 24 * (len(switches) - 1)) / max(1, len(switches))
    spans = {
        name: (_MARGIN + index * (each + 24), _MARGIN + index * (each + 24) + each)
        for index, name in enumerate(switches)
    }
    port = column if len(switches) == 1 else _spread(of_site, spans)
    return _Plan(width, 8.0 + (_FOUND_HEIGHT + _RISE if above else 0), column, port, spans)


def _spread(of_site: Sequence[Cable], spans: Mapping[str, tuple[float, float]]) -> dict[str, float]:
    places: dict[str, float] = {}
    for name, (left, right) in spans.items():
        mine = [cable for cable in of_site if cable.switch == name]
        step = (right - left) / max(1, len(mine))
        places.update({cable.link: left + step * (index + 0.5) for index, cable in enumerate(mine)})
    return places


def _switches(plan: _Plan) -> Iterator[Markup]:
    for name, (left, right) in plan.switch.items():
        yield tag("rect", class_="switch", x=left, y=plan.top, width=right - left, height=_SWITCH_HEIGHT, rx=6)
        yield label(name, (left + right) / 2, plan.top + 22, "device mid", 40)


def _pods(of_site: Sequence[Cable], plan: _Plan, refuted: set[str | None]) -> Iterator[Markup]:
    half, foot = _COLUMN / 2, plan.foot
    for pod, of_pod in itertools.groupby(of_site, key=lambda cable: cable.pod):
        in_pod = list(of_pod)
        left, right = plan.column[in_pod[0].link] - half - _POD_RIM, plan.column[in_pod[-1].link] + half + _POD_RIM
        height = _DPU_HEIGHT + _HOST_HEIGHT + 44
        yield tag("rect", class_="pod", x=left, y=foot - 12, width=right - left, height=height, rx=8)
        yield label(pod, (left + right) / 2, foot + height - 20, "pod-name mid", 30)
        for node, of_node in itertools.groupby(in_pod, key=lambda cable: cable.node):
            yield from _node(
                node,
                list(of_node),
                plan,
                contradicted=any(cable.link in refuted for cable in in_pod if cable.node == node),
            )


def _node(node: str, in_node: Sequence[Cable], plan: _Plan, *, contradicted: bool) -> Iterator[Markup]:
    half, foot = _COLUMN / 2, plan.foot
    x1, x2 = plan.column[in_node[0].link] - half, plan.column[in_node[-1].link] + half
    middle = (x1 + x2) / 2
    kind = "node refuted" if contradicted else "node"
    yield tag("rect", class_=kind, x=x1, y=foot, width=x2 - x1, height=_DPU_HEIGHT + _HOST_HEIGHT, rx=5)
    yield label(node, middle, foot + _DPU_HEIGHT + (20 if contradicted else 26), "device mid", int((x2 - x1) / 8))
    if contradicted:
        yield tag("text", "claim refuted", class_="refuted-text mid", x=middle, y=foot + _DPU_HEIGHT + 36)
    for dpu, of_dpu in itertools.groupby(in_node, key=lambda cable: cable.dpu):
        in_dpu = list(of_dpu)
        d1, d2 = plan.column[in_dpu[0].link] - half + 8, plan.column[in_dpu[-1].link] + half - 8
        yield tag("rect", class_="dpu", x=d1, y=foot - 5, width=d2 - d1, height=_DPU_HEIGHT, rx=4)
        yield label(dpu, (d1 + d2) / 2, foot + 16, "small mid", int((d2 - d1) / 6.2))


def _cable(cable: Cable, plan: _Plan, verdicts: Verdicts) -> Iterator[Markup]:
    port_x, column_x = plan.port[cable.link], plan.column[cable.link]
    top, foot = plan.under_switch, plan.foot - 5
    yield tag("rect", class_="port", x=port_x - 22, y=top - 9, width=44, height=14, rx=2)
    if cable.port:
        yield label(cable.port, port_x, top - 13, "small mid", 12)
    for direction, shift in ((Direction.EGRESS, -_LANE), (Direction.INGRESS, _LANE)):
        verdict = verdicts.get((cable.link, direction))
        if verdict is None:
            continue
        up = direction is Direction.EGRESS
        start, end = (column_x + shift, foot), (port_x + shift, top + 6)
        yield tag("path", class_=f"cable {verdict.value}", d=polyline([start, end]))
        (tip_x, tip_y), away = (end, 9) if up else (start, -9)
        arrow = polyline([(tip_x - 5.5, tip_y + away), (tip_x, tip_y), (tip_x + 5.5, tip_y + away)])
        yield tag("path", class_=f"arrow {verdict.value}", d=f"{arrow}Z")
        along = 0.58 if up else 0.42
        yield sign(verdict, start[0] + (end[0] - start[0]) * along, start[1] + (end[1] - start[1]) * along)
    yield label(cable.link.removeprefix(f"{cable.node}/"), column_x + _LANE + 12, foot - 10, "small", 6)


def _found(ports: Sequence[PortResult], plan: _Plan) -> Iterator[Markup]:
    for name, (left, right) in plan.switch.items():
        mine = [port for port in ports if port.switch == name]
        step = (right - left) / max(1, min(len(mine), _MOST_FOUND))
        for index, port in enumerate(mine[:_MOST_FOUND]):
            yield from _found_port(port, left + step * (index + 0.5), plan.top)
        if len(mine) > _MOST_FOUND:
            text = f"and {len(mine) - _MOST_FOUND} more ports, listed below"
            yield tag("text", text, class_="small end", x=right, y=plan.top - 10)


def _found_port(port: PortResult, x: float, top: float) -> Iterator[Markup]:
    kind = "declared" if port.declared else "undeclared"
    box = top - _RISE - _FOUND_HEIGHT
    yield tag("path", class_=f"found-cable {kind}", d=polyline([(x, top - 5), (x, top - _RISE)]))
    yield tag(
        "rect", class_=f"found {kind}", x=x - _FOUND_WIDTH / 2, y=box, width=_FOUND_WIDTH, height=_FOUND_HEIGHT, rx=4
    )
    yield tag("rect", class_=f"port {kind}", x=x - 22, y=top - 5, width=44, height=14, rx=2)
    yield label(f"{'port' if port.declared else 'undeclared:'} {port.port}", x, box + 19, "found-name mid", 21)
    moved = f"at least {words.floor_bytes(port.lower_bytes)}" if port.lower_bytes else "no bytes proven"
    yield tag("text", "declared, not a link" if port.declared else moved, class_="small mid", x=x, y=box + 36)
