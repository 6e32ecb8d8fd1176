"""The cross-check as a table on a terminal: compact on 80 columns, fuller on wider ones.

Names come from the prover's site and from devices: they are written as text, never as markup, and control characters
in them are written out, so that a name can neither colour the terminal nor move its cursor.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from rich import box
from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from controller.crosscheck.model import CrossCheck, Finding, FindingKind, Holds, LinkResult, PortResult, Verdict
from controller.report import blind, sentences, stories, words
from controller.report.rows import link_order
from protos.reading import Direction, Observer

WIDE_COLUMNS = 112
"""From this width on the table has every observer's own column; below, the DPU's ports share one."""
_STYLES: Mapping[Verdict, str] = {
    Verdict.COMPLIANT: "green",
    Verdict.VIOLATION: "bold red",
    Verdict.INCONCLUSIVE: "yellow",
}
_EXPLAINING = frozenset({FindingKind.COVERAGE_GAP, FindingKind.COUNTER_RESET})
_MOST_OPEN_POINTS = 5


def render_table(result: CrossCheck, console: Console) -> None:
    """Print the verdict, every link and direction, the findings and what could have been hidden.

    Colour is the console's decision: a :class:`rich.console.Console` writes none where it is not a terminal.
    """
    for part in _parts(result, wide=console.width >= WIDE_COLUMNS):
        console.print(part, highlight=False)


def _parts(result: CrossCheck, *, wide: bool) -> Iterator[RenderableType]:
    yield Text.assemble(
        (f"{result.verdict.value}: ", _STYLES[result.verdict]), (sentences.headline(result), "bold"), no_wrap=False
    )
    for sentence in sentences.violations(result)[1:]:
        yield Text(sentence)
    yield Text(f"site {words.shown(result.site)}, {words.period(result.period.from_ns, result.period.to_ns)}")
    if result.links:
        yield _links(result.links, wide=wide)
    undeclared = [port for port in result.ports if not port.declared]
    if undeclared:
        yield _ports(undeclared)
    yield from _findings(result)
    open_points = list(dict.fromkeys(text for link in result.links for text in link.undecided))
    for text in open_points[:_MOST_OPEN_POINTS]:
        yield Text(f"open: {words.shown(text)}", style="yellow")
    if len(open_points) > _MOST_OPEN_POINTS:
        yield Text(f"and {len(open_points) - _MOST_OPEN_POINTS} more open points", style="yellow")
    for weight, shown, text in result.known_weights:
        mark = "shown" if shown else "not shown"
        yield Text(f"known weight of {words.exact(weight.bytes)} {mark}: {words.shown(text)}")
    if result.links:
        yield Text(f"could have been hidden: {blind.hidden_fact(result)}")
    if result.scope:
        yield Text(f"the verdict is about {words.shown(result.scope)}")


def _links(links: Sequence[LinkResult], *, wide: bool) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, padding=(0, 1, 0, 0), expand=False)
    table.add_column("link", overflow="fold")
    table.add_column("dir", no_wrap=True)
    table.add_column("verdict", no_wrap=True)
    for heading in ("host", "dpu.host_port", "dpu.uplink", "switch") if wide else ("host", "dpu", "switch"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("worst window", justify="right", overflow="fold")
    if wide:
        table.add_column("laws", overflow="fold")
        table.add_column("cover", justify="right", no_wrap=True)
    order = {name: index for index, name in enumerate(link_order(links))}
    for link in sorted(links, key=lambda one: (order[one.link], one.direction.value)):
        table.add_row(*_row(link, wide=wide))
    return table


def _row(link: LinkResult, *, wide: bool) -> Iterator[RenderableType]:
    yield Text(words.shown(link.link))
    yield Text(link.direction.value)
    yield Text(link.verdict.value, style=_STYLES[link.verdict])
    observers = list(Observer) if wide else [Observer.HOST, Observer.DPU_UPLINK, Observer.SWITCH]
    for observer in observers:
        interval = link.observers.get(observer)
        yield Text("-" if interval is None else words.brief(interval.lower, interval.upper))
    yield Text(
        "\n".join(words.brief(limit.worst_at_least_bytes, limit.worst_at_most_bytes) for limit in link.limits) or "-"
    )
    if wide:
        broken = [law.law for law in link.laws if law.holds is Holds.NO]
        held = sum(law.holds is Holds.YES for law in link.laws)
        said = f"{len(broken)} broken" if broken else f"{held} hold"
        yield Text(said, style="bold red" if broken else "")
        yield Text(words.floor_percent(link.coverage))


def _ports(ports: Sequence[PortResult]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, padding=(0, 1, 0, 0))
    table.add_column("undeclared port", overflow="fold")
    table.add_column("state")
    table.add_column("moved", justify="right")
    state = {True: "up", False: "down", None: "not known"}
    for port in ports:
        moved = words.interval(port.lower_bytes, port.upper_bytes)
        table.add_row(Text(f"{words.shown(port.switch)} {words.shown(port.port)}"), state[port.operational], moved)
    return table


def _findings(result: CrossCheck) -> Iterator[Text]:
    """One line a finding that convicts or could, the gravest first; gaps and restarted counters as one line a kind."""
    link_of: dict[tuple[str | None, Direction | None], LinkResult] = {}
    link_of.update({(link.link, link.direction): link for link in result.links})
    explaining: dict[FindingKind, list[Finding]] = {}
    for finding in sentences.ordered(result.findings):
        if finding.kind in _EXPLAINING:
            explaining.setdefault(finding.kind, []).append(finding)
            continue
        link = (
            None
            if finding.link is None or finding.direction is None
            else link_of.get((finding.link, finding.direction))
        )
        grave = finding.certain and finding.kind in sentences.VIOLATING
        doubt = "" if finding.certain else " (not certain)"
        said = stories.story(finding, link) or words.shown(finding.text)
        place = f"{stories.where(finding)}: " if finding.link is not None else ""
        yield Text.assemble((f"{finding.kind.value}{doubt}: ", "bold red" if grave else "yellow"), place, said)
    for kind, findings in explaining.items():
        lengths = [f.to_ns - f.from_ns for f in findings if f.from_ns is not None and f.to_ns is not None]
        longest = f", the longest {words.lasting(max(lengths))}" if lengths and kind is FindingKind.COVERAGE_GAP else ""
        yield Text(f"{kind.value}: {len(findings)}{longest}")
