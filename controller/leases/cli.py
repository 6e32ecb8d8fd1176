"""``weighbridge leases``: what the agents let through: list, grant, revoke."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

from controller.cli_options import SITE_FILE, AsJson, SiteFile, counted
from controller.errors import OperatorError
from protos.lease import LEASED_CLASSES
from protos.units import UnitError, parse_bytes, parse_duration_ns, parse_rate_bytes_per_s

if TYPE_CHECKING:
    from controller.leases.grant import Grant
    from protos.reading import Direction

app = typer.Typer(no_args_is_help=True, help="Leases: what the agents let through, for how long, and by whose word.")

DIRECTIONS = ("both", "egress", "ingress")
Agent = Annotated[str, typer.Argument(metavar="AGENT", help="The agent, by its DPU's name.")]


@app.callback()
def leases() -> None:
    """Say what the agents let through."""


@app.command(name="list")
def list_leases(site_file: SiteFile = SITE_FILE, as_json: AsJson = False) -> None:
    """List what is in force at every agent: port, class, lease or floor, and what passed.

    Exit code 3: an agent did not answer, so what is in force there is not known.
    """
    from controller.leases.commands import listed  # noqa: PLC0415
    from controller.leases.table import table  # noqa: PLC0415
    from controller.site import load  # noqa: PLC0415

    found = listed(load(site_file))
    if as_json:
        body = {"limits": found.rows, "unlimited": found.unlimited, "silent": found.silent}
        typer.echo(json.dumps(body, indent=2))
    else:
        table(found.rows)
        for agent, problem in {**found.unlimited, **found.silent}.items():
            typer.echo(f"{agent}: {problem}", err=True)
    if found.silent:
        raise typer.Exit(3)


@app.command()
def grant(  # noqa: PLR0917  typer reads options from the signature
    agent: Agent,
    traffic_class: Annotated[
        str, typer.Option("--class", metavar="CLASS", help="other-pod, front-end, storage or same-pod.")
    ] = "other-pod",
    direction: Annotated[
        str, typer.Option("--direction", metavar="DIRECTION", help="egress, ingress or both.")
    ] = "both",
    rate: Annotated[
        str | None, typer.Option("--rate", metavar="RATE", help="1MB/s; else the most that is agreed.")
    ] = None,
    depth: Annotated[
        str | None, typer.Option("--depth", metavar="SIZE", help="64kB; else what is agreed. Of the token bucket.")
    ] = None,
    lifetime: Annotated[
        str, typer.Option("--lifetime", metavar="DURATION", help="Of each lease; renewed at a third of it.")
    ] = "30s",
    site_file: SiteFile = SITE_FILE,
    as_json: AsJson = False,
) -> None:
    """Grant a rate within the agreement, and lease it at once; `weighbridge run` keeps it leased until it is revoked.

    Where a direction has several ports, they share the rate in equal parts.
    """
    from controller.leases.commands import Wanted, granted  # noqa: PLC0415
    from controller.site import load  # noqa: PLC0415

    known = {each.title: each for each in LEASED_CLASSES}
    if traffic_class not in known:
        raise OperatorError(f"--class {traffic_class!r} is not a class that is leased. Use one of {', '.join(known)}.")
    wanted = Wanted(
        traffic_class=known[traffic_class],
        directions=_directions(direction),
        rate_bytes_per_s=None if rate is None else _quantity("--rate", rate, parse_rate_bytes_per_s),
        depth_bytes=None if depth is None else _quantity("--depth", depth, parse_bytes),
        lifetime_ns=_quantity("--lifetime", lifetime, parse_duration_ns),
    )
    made = granted(load(site_file), agent, wanted)
    if as_json:
        typer.echo(json.dumps([_json(each) for each in made], indent=2))
    else:
        for each in made:
            typer.echo(f"{each.id}: {each.slot}, {each.rate_bytes_per_s} B/s, depth {each.depth_bytes} B, leased")


@app.command()
def revoke(
    agent: Agent,
    grant_id: Annotated[
        str | None,
        typer.Option("--grant", metavar="ID", help="Only this grant; else all of the agent, and every lease."),
    ] = None,
    site_file: SiteFile = SITE_FILE,
) -> None:
    """End grants of an agent, and their leases at once: what they opened is at its floor when this returns.

    An agent that does not answer keeps its leases until they end by themselves; they are not renewed any more. Exit
    code 2 then.
    """
    from controller.leases.commands import revoked  # noqa: PLC0415
    from controller.site import load  # noqa: PLC0415

    ended = revoked(load(site_file), agent, grant_id)
    typer.echo(f"{agent}: {counted(ended, 'grant')} ended; what was open is at its floor", err=True)


def _directions(text: str) -> tuple[Direction, ...]:
    from protos.reading import Direction as Directions  # noqa: PLC0415

    if text not in DIRECTIONS:
        raise OperatorError(f"--direction {text!r} is none. Use one of {', '.join(DIRECTIONS)}.")
    return tuple(each for each in Directions if text in {"both", each.value})


def _quantity(option: str, text: str, parse: Any) -> int:
    try:
        value: int = parse(text)
    except UnitError as error:
        raise OperatorError(f"{option}: {error}.") from error
    if value <= 0:
        raise OperatorError(f"{option}: {text!r} is not a permission. Give more than zero, or revoke.")
    return value


def _json(made: Grant) -> dict[str, str]:
    return {
        "grant": made.id,
        "agent": made.agent,
        "port": made.slot.port,
        "direction": made.slot.direction.value,
        "class": made.slot.traffic_class.title,
        "rate_bytes_per_s": str(made.rate_bytes_per_s),
        "depth_bytes": str(made.depth_bytes),
        "lifetime_ns": str(made.lifetime_ns),
    }
