"""``weighbridge plan propose``: from what a site declares or was measured to, to a draft agreement with its reasons."""

from __future__ import annotations

import datetime as dt
import json
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from controller.cli_options import AsJson, SiteFileArgument
from controller.errors import OperatorError

if TYPE_CHECKING:
    from controller.planner.propose import Need, Proposal
    from controller.planner.workloads import Workloads
    from controller.site import Site

INCONCLUSIVE = 3
LONGEST_LEASE = "60s"
VALID_DAYS = 365
DRAFT, REASONING = "agreement.toml", "reasoning.md"


def propose(  # noqa: PLR0917  typer reads options from the signature
    site_file: SiteFileArgument,
    workloads_file: Annotated[
        Path, typer.Option("--workloads", metavar="WORKLOADS.toml", help="Declared inference, computing, loads.")
    ],
    slow_by: Annotated[str, typer.Option("--slow-by", help="Each adversary becomes at least so many times slower.")],
    folder: Annotated[Path, typer.Option("--out", "-o", metavar="FOLDER", help="Where the documents go.")],
    headroom: Annotated[str, typer.Option("--headroom", help="Times what inference needs.")] = "2",
    burst: Annotated[str, typer.Option("--burst", help="So long of the rate may pass at once.")] = "250ms",
    adversary: Annotated[
        list[str] | None, typer.Option("--adversary", help="Only this one; may be repeated. Else all.")
    ] = None,
    accept: Annotated[
        list[str] | None, typer.Option("--accept", help="Accept that this one is not slowed as asked; may be repeated.")
    ] = None,
    measured: Annotated[
        str | None,
        typer.Option("--from-measurement", metavar="DURATION", help="Needs from so much of the journal instead."),
    ] = None,
    percentile: Annotated[
        str, typer.Option("--percentile", help="Of measured five-minute rates: 50, 95, 99, 99.9 or 100.")
    ] = "99",
    traffic_class: Annotated[
        str, typer.Option("--class", help="The class that measured traffic is agreed for.")
    ] = "front-end",
    number: Annotated[int, typer.Option("--number", min=1, help="Of the agreement.")] = 1,
    as_json: AsJson = False,
) -> None:
    """Propose a limit: inference runs, each adversary is slowed; a draft agreement and the reasoning.

    Exit code 3: no limit does both. The reasoning is written all the same, and says which adversary and why.
    """
    from controller.planner.adversaries import BUILT_IN, chosen  # noqa: PLC0415  help is printed without it
    from controller.planner.document import agreement_text, reasoning  # noqa: PLC0415
    from controller.planner.marks import PlanError  # noqa: PLC0415
    from controller.planner.propose import Ask, declared_needs  # noqa: PLC0415
    from controller.planner.propose import propose as work_out  # noqa: PLC0415
    from controller.planner.quantities import FACTOR, SECONDS, read  # noqa: PLC0415
    from controller.site import load  # noqa: PLC0415

    for name in (DRAFT, REASONING):
        if (folder / name).exists():
            raise OperatorError(f"{folder / name} is there already. Name another folder, or move it away.")
    site = load(site_file, secrets=False)
    try:
        workloads = _workloads(workloads_file)
        ask = Ask(
            slow_by=read(FACTOR, "slow-by", slow_by),
            headroom=read(FACTOR, "headroom", headroom),
            accepted=tuple(accept or ()),
            burst_s=read(SECONDS, "burst", burst),
        )
        if measured is None:
            needs = declared_needs(workloads, [pod.name for pod in site.pods])
        else:
            needs = _measured(site, measured, percentile, traffic_class, ask.headroom)
        listed = chosen(adversary or (), {**BUILT_IN, **workloads.adversaries})
        found = work_out(site.name, needs, workloads, listed, ask)
    except PlanError as error:
        raise OperatorError(f"{error}.") from error
    documents = {REASONING: reasoning(found)}
    if not found.is_empty:
        today = dt.datetime.now(dt.timezone.utc).replace(hour=0, minute=0, second=0, microsecond=0)
        draft = agreement_text(
            found,
            number=number,
            valid_from=_moment(today),
            valid_to=_moment(today + dt.timedelta(days=VALID_DAYS)),
            longest_lease=LONGEST_LEASE,
        )
        _check(draft)
        documents[DRAFT] = draft
    _write(folder, documents)
    _say(found, folder, as_json=as_json)


def _say(found: Proposal, folder: Path, *, as_json: bool) -> None:
    from controller.planner.document import reasoning  # noqa: PLC0415  see above

    if as_json:
        typer.echo(json.dumps(found.json(), ensure_ascii=False, indent=2))
    else:
        typer.echo(reasoning(found), nl=False)
    if found.is_empty:
        typer.echo(f"no limit does what was asked; why is in {folder / REASONING}", err=True)
        raise typer.Exit(INCONCLUSIVE)
    typer.echo(f"{folder / DRAFT}: for `weighbridge agreement propose`; why is in {folder / REASONING}", err=True)


def _moment(value: dt.datetime) -> str:
    return value.strftime("%Y-%m-%dT%H:%M:%SZ")


def _workloads(path: Path) -> Workloads:
    import tomli  # noqa: PLC0415  for those who read a document

    from controller.planner.workloads import parse_workloads  # noqa: PLC0415

    try:
        values = tomli.loads(path.read_bytes().decode("utf-8"))
    except OSError as error:
        raise OperatorError(f"{path}: cannot be read ({error.strerror}). Name the workloads file.") from error
    except (ValueError, RecursionError) as error:
        raise OperatorError(f"{path}: is not TOML: {error}. Correct it there.") from error
    return parse_workloads(values, str(path))


def _check(draft: str) -> None:
    """Refuse to write what `weighbridge agreement` would refuse: the parser and the arithmetic are its own.

    Raises:
        OperatorError: the draft is no agreement.
    """
    from controller.agreement.arithmetic import contradictions  # noqa: PLC0415  see above
    from controller.agreement.document import parse  # noqa: PLC0415

    wrong = contradictions(parse(draft.encode(), "the draft"))
    if wrong:
        raise OperatorError(f"the draft contradicts itself: {'; '.join(wrong)}. Ask for another burst or headroom.")


def _write(folder: Path, documents: dict[str, str]) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in documents.items():
            with (folder / name).open("x", encoding="utf-8") as file:
                file.write(text)
    except OSError as error:
        raise OperatorError(f"{folder}: cannot be written ({error.strerror}). Name a writable folder.") from error


def _measured(site: Site, last: str, percentile: str, traffic_class: str, headroom: Fraction) -> tuple[Need, ...]:
    """Return what each pod was measured to need: a percentile of five-minute rates, and the burst beyond it."""
    from controller.cli_period import parse_period  # noqa: PLC0415  see above
    from controller.journal import Journal  # noqa: PLC0415
    from controller.judgement import in_force  # noqa: PLC0415
    from controller.observations.gather import links  # noqa: PLC0415
    from controller.planner.marks import Mark, PlanError  # noqa: PLC0415
    from controller.planner.measured import PERCENTILES, measured_need  # noqa: PLC0415
    from controller.planner.propose import Need  # noqa: PLC0415
    from controller.planner.workloads import CLASSES  # noqa: PLC0415
    from controller.rules_history import flows  # noqa: PLC0415
    from controller.timeline import Timeline  # noqa: PLC0415

    if traffic_class not in CLASSES:
        raise PlanError(f"--class: {traffic_class!r} is not known. Use one of {', '.join(CLASSES)}")
    known = {f"{each:g}": each for each in PERCENTILES}
    if percentile not in known:
        raise PlanError(f"--percentile: {percentile!r} is not kept. Use one of {', '.join(known)}")
    with Journal.open(site.controller.journal, read_only=True) as journal:
        period = parse_period(last=last, start=None, end=None, now_ns=Timeline.view(journal).now_ns())
        found = {flow.name: flow for flow in flows(links(journal, in_force(journal), period), period)}
    own: dict[str, list[str]] = {pod.name: [] for pod in site.pods}
    for link in site.links:
        own[link.pod].append(link.name)
    needs = []
    for pod, names in own.items():
        missing = [name for name in names if name not in found]
        if missing:
            raise PlanError(f"the pod {pod}: {missing[0]} was not measured in the last {last}. Look further back")
        out = [found[name].outward for name in names]
        inward = [found[name].inward for name in names]
        need = measured_need(pod, [[one for one in side if one is not None] for side in (out, inward)])
        rate = need.rates[known[percentile]]
        at_once = need.burst_bytes(rate * float(headroom))
        text = f"{percentile}th percentile of five-minute rates over {last}, {need.known:.0%} of them known"
        needs.append(Need(pod, traffic_class, Fraction(rate), Mark.MEASURED, text, Fraction(at_once) / headroom))
    return tuple(needs)
