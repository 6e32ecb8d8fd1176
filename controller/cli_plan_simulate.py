"""``weighbridge plan simulate``: a method's traffic through the limiter's arithmetic and the rules, fleet-wide."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from controller.cli_options import AsJson
from controller.errors import OperatorError

if TYPE_CHECKING:
    from controller.planner.fleet import Fleet, FleetResult, Said
    from controller.planner.training import TrainingPlan

DEPTH = "64kB"
EVERY = "all"
NONE = "none"


def simulate(  # noqa: PLR0917  typer reads options from the signature
    given: dict[str, str],
    fleet: Annotated[int, typer.Option("--fleet", min=2, help="Nodes in all; --nodes of them are one job.")],
    length: Annotated[
        str, typer.Option("--for", metavar="DURATION", help="How long is looked: 10 minutes to 48 hours.")
    ],
    mode: Annotated[
        str, typer.Option("--mode", help="overlapped: computing goes on meanwhile; blocking: it waits.")
    ] = ("overlapped"),
    background: Annotated[
        str, typer.Option("--background", help="Honest traffic of each node: a class of `rules score`, all, or none.")
    ] = "text, little load",
    compute_spread: Annotated[
        str, typer.Option("--compute-spread", help="How much the time between synchronisations varies, relative.")
    ] = "0.0267",
    seed: Annotated[int, typer.Option("--seed", min=0, help="The same seed makes the same traffic.")] = 1,
    rules_file: Annotated[
        Path | None,
        typer.Option("--rules", metavar="RULES.yaml", help="The rules file; the defaults if none is given."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Play a way of training through the real limiter's arithmetic and the real rules, at the scale of a fleet.

    Says how much slower it was, which share of the nodes the rules and the detectors would have told of and when, and
    what they would have told of the same nodes without training.
    """
    from controller.planner.fleet import play_fleet  # noqa: PLC0415  help is printed without it
    from controller.planner.marks import PlanError  # noqa: PLC0415
    from controller.planner.training import plan_training  # noqa: PLC0415
    from controller.rulesfile import load_rules  # noqa: PLC0415
    from protos.units import UnitError, parse_duration_ns  # noqa: PLC0415

    rules = load_rules(rules_file)
    try:
        plan = plan_training({"depth": DEPTH, **given})
        played = _fleet(
            plan,
            nodes=fleet,
            length_ns=parse_duration_ns(length),
            mode=mode,
            background=background,
            spread=compute_spread,
            seed=seed,
        )
        found = play_fleet(played, rules)
    except UnitError as error:
        raise OperatorError(f"--for: {error}.") from error
    except PlanError as error:
        raise OperatorError(f"{error}.") from error
    chosen = {"mode": mode, "background": background, "compute spread": compute_spread}
    if "depth" not in given:
        chosen["depth"] = DEPTH
    said = _json(plan, played, found, chosen)
    if as_json:
        typer.echo(json.dumps(said, ensure_ascii=False, indent=2))
    else:
        for line in _lines(plan, played, found, said):
            typer.echo(line)


def _fleet(
    plan: TrainingPlan, *, nodes: int, length_ns: int, mode: str, background: str, spread: str, seed: int
) -> Fleet:
    from controller.corpus.honest import HONEST  # noqa: PLC0415  see above
    from controller.planner.fleet import Fleet  # noqa: PLC0415
    from controller.planner.marks import PlanError  # noqa: PLC0415
    from controller.planner.player import Job  # noqa: PLC0415
    from controller.planner.quantities import AT_LEAST_ZERO, read  # noqa: PLC0415

    if mode not in ("overlapped", "blocking"):
        raise PlanError(f"--mode: {mode!r} is not known. Use overlapped or blocking")
    if plan.limit_bytes_per_s.denominator != 1:
        raise PlanError("--limit: the limiter counts whole bytes a second. Round it")
    values = {each.name: each.value for each in plan.assumptions}
    for name, only in (("latency", "0s"), ("duplex", "full")):
        if values[name] != only:
            raise PlanError(f"--{name}: is not played. Leave it out")
    classes = {EVERY: tuple(HONEST), NONE: ()}.get(background, (background,))
    job = Job(
        plan.moved,
        plan.compute_s,
        int(plan.parts),
        mode == "overlapped",
        int(plan.limit_bytes_per_s),
        plan.depth_bytes,
    )
    return Fleet(nodes, plan.nodes, length_ns, job, classes, float(read(AT_LEAST_ZERO, "compute-spread", spread)), seed)


def _json(plan: TrainingPlan, played: Fleet, found: FleetResult, chosen: Mapping[str, str]) -> dict[str, Any]:
    from controller.planner.marks import Assumption, Mark  # noqa: PLC0415  see above
    from controller.planner.training import OUTSIDE  # noqa: PLC0415

    reasons = {
        "mode": "overlapped is the adversary's best",
        "background": "made traffic of the detectors' corpus, in a class of its own",
        "compute spread": "0.0267 in the recorded run; more hides a period",
        "depth": "default: one segmentation-offloaded packet",
    }
    own = (
        *(Assumption(name, text, Mark.ASSUMED, reasons[name]) for name, text in chosen.items()),
        Assumption(
            "nodes of a job", "in step", Mark.ASSUMED, "they send at the same moments, so one bucket stands for all"
        ),
        Assumption(
            "rules and detectors",
            "of this program",
            Mark.DERIVED,
            "on minutes; shapes at the end; sums of pods, pairs, classes and site for the watched nodes alone",
        ),
        Assumption("limiter", "of this program", Mark.DERIVED, "protos.policer, which the kernel's is checked against"),
    )
    planned = [each for each in plan.assumptions if each.name not in chosen]
    return {
        "fleet": played.nodes // played.job_nodes * played.job_nodes,
        "looked_at_s": played.length_ns / 10**9,
        "planned_slowdown": float(getattr(plan.slowdown, chosen["mode"])),
        **found.json(),
        "assumptions": [each.json() for each in (*planned, *own)],
        "outside_model": [
            *OUTSIDE,
            "jitter, padding and cover traffic made to escape the detectors: `rules score` has them",
        ],
    }


def _lines(plan: TrainingPlan, played: Fleet, found: FleetResult, said: dict[str, Any]) -> Iterator[str]:
    from controller.planner.methods import METHODS  # noqa: PLC0415  see above
    from protos.units import format_duration, format_rate  # noqa: PLC0415

    yield (
        f"{METHODS[plan.method].title}: {found.seen.nodes} nodes in jobs of {played.job_nodes}, for "
        f"{format_duration(played.length_ns)}, under {format_rate(plan.limit_bytes_per_s)} each way"
    )
    yield (
        f"  slower: {found.slowdown_mean:.3g}x (from {found.slowdown_least:.3g} to {found.slowdown_most:.3g} by job); "
        f"planned {said['planned_slowdown']:.3g}x"
    )
    yield f"  nodes told of: {_share(found.seen)}"
    yield f"  the same {found.control.nodes} nodes without training: {_share(found.control)}"
    for name, count in found.seen.by.most_common():
        yield f"    {name}: {count / found.seen.nodes:.1%} of the nodes"
    yield f"  {found.watched_nodes} nodes of one job, watched as it went on:"
    for name, at_s in sorted(found.first_alarm_s.items(), key=lambda each: each[1]):
        anyway = found.anyway_s.get(name)
        known = "" if anyway is None else f" (without training after {format_duration(round(anyway * 10**9))})"
        yield f"    {name} after {format_duration(round(at_s * 10**9))}{known}"
    if not found.first_alarm_s:
        yield "    nothing"
    yield "rests on:"
    for each in said["assumptions"]:
        yield f"  {each['name']} = {each['value']} ({each['mark']}: {each['source']})"
    yield "says nothing about:"
    for text in said["outside_model"]:
        yield f"  {text}"


def _share(said: Said) -> str:
    if not said.nodes:
        return "none"
    alarmed, limits, shapes = (each / said.nodes for each in (said.alarmed, said.limits, said.shapes))
    return f"{alarmed:.1%} (by volume rules {limits:.1%}, by shape {shapes:.1%})"
