"""``weighbridge loads``: load windows, the budgeted exceptions: request, sign, open, close, list."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from controller.cli_options import SITE_FILE, AsJson, SiteFile
from controller.cli_rows import print_rows
from controller.errors import OperatorError
from protos.lease import LEASED_CLASSES
from protos.units import UnitError, parse_bytes, parse_duration_ns, parse_rate_bytes_per_s

if TYPE_CHECKING:
    from controller.loads.commands import Wanted
    from controller.loads.window import Opened

app = typer.Typer(
    no_args_is_help=True, help="Load windows: budgeted exceptions towards one node, from declared sources."
)

Node = Annotated[str, typer.Option("--node", metavar="NODE", help="Where the load goes.")]
Size = Annotated[str, typer.Option("--bytes", metavar="SIZE", help="How much, like 300GB.")]
Longest = Annotated[str, typer.Option("--for", metavar="DURATION", help="How long, like 30m.")]
FromClass = Annotated[
    str, typer.Option("--from-class", metavar="CLASS", help="The class of the declared sources, by the class table.")
]
Source = Annotated[
    list[str] | None,
    typer.Option("--source", metavar="PREFIX", help="One of the agreement's sources; else all of them."),
]
DpuName = Annotated[str | None, typer.Option("--dpu", metavar="DPU", help="Where the node has several.")]
UplinkName = Annotated[str | None, typer.Option("--uplink", metavar="PORT", help="Where the DPU has several.")]
Rate = Annotated[str | None, typer.Option("--rate", metavar="RATE", help="At most, like 1GB/s; else the wire's.")]


@app.callback()
def loads() -> None:
    """Say which loads are budgeted."""


@app.command()
def request(  # noqa: PLR0917  typer reads options from the signature
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="The request to write.")],
    node: Node,
    size: Size,
    longest: Longest,
    from_class: FromClass = "storage",
    source: Source = None,
    dpu: DpuName = None,
    uplink: UplinkName = None,
    site_file: SiteFile = SITE_FILE,
) -> None:
    """Write a request for a load window, for the prover to sign where the agreement asks for it."""
    from controller.loads.commands import requested  # noqa: PLC0415
    from controller.pki import write_new  # noqa: PLC0415
    from controller.site import load  # noqa: PLC0415

    wanted = _wanted(node, size, longest, from_class, source=source, dpu=dpu, uplink=uplink)
    write_new(output, requested(load(site_file), wanted), 0o644)


@app.command()
def sign(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A request.")],
    key_stem: Annotated[Path, typer.Option("--key", metavar="STEM", help="The prover's key: STEM.pem and STEM.pub.")],
) -> None:
    """Sign a request as the prover. The signature is added to the file."""
    from controller.loads.commands import signed_request  # noqa: PLC0415
    from controller.pki import write_new  # noqa: PLC0415
    from controller.verifierkey import read_key_file  # noqa: PLC0415

    if not file.exists():
        raise OperatorError(f"{file}: is not there. Give the verifier's request.")
    content = signed_request(file, read_key_file(key_stem))
    scratch = file.with_name(f"{file.name}.new")
    scratch.unlink(missing_ok=True)
    write_new(scratch, content, 0o644)
    scratch.replace(file)


@app.command(name="open")
def open_window(  # noqa: PLR0917  typer reads options from the signature
    node: Node,
    size: Size,
    longest: Longest,
    from_class: FromClass = "storage",
    source: Source = None,
    dpu: DpuName = None,
    uplink: UplinkName = None,
    rate: Rate = None,
    signed: Annotated[
        Path | None, typer.Option("--signed", metavar="FILE", help="The request that the prover signed.")
    ] = None,
    site_file: SiteFile = SITE_FILE,
) -> None:
    """Open a load window: one direction, a byte budget, a bound on what goes back, an end.

    It is leased as a whole, so it ends by itself whatever happens to the controller. Should the DPU reboot, it is over.
    """
    from controller.loads.commands import opened  # noqa: PLC0415
    from controller.loads.window import read_request  # noqa: PLC0415
    from controller.site import load  # noqa: PLC0415

    wanted = _wanted(node, size, longest, from_class, source=source, dpu=dpu, uplink=uplink, rate=rate)
    made = opened(load(site_file), wanted, None if signed is None else read_request(_read(signed), str(signed)))
    typer.echo(
        f"load window {made.window.number} of {node}: {made.window.ingress_bytes} B in, "
        f"{made.window.egress_bytes} B back, at most {made.rate_bytes_per_s} B/s, for {longest}"
    )


@app.command()
def close(node: Node, site_file: SiteFile = SITE_FILE) -> None:
    """Close the open load window of a node: the normal limit holds again when this returns."""
    from controller.loads.commands import closed  # noqa: PLC0415
    from controller.site import load  # noqa: PLC0415

    found = closed(load(site_file), node)
    typer.echo(f"load window {found.window.number} of {node} is closed", err=True)


@app.command(name="list")
def list_windows(site_file: SiteFile = SITE_FILE, as_json: AsJson = False) -> None:
    """List the load windows there were, the newest last."""
    from controller.loads.commands import all_windows  # noqa: PLC0415
    from controller.site import load  # noqa: PLC0415

    windows, now_ns = all_windows(load(site_file))
    if as_json:
        typer.echo(json.dumps([_json(each, now_ns) for each in windows], indent=2))
        return
    from controller.cli_period import format_utc  # noqa: PLC0415
    from protos.units import format_bytes, format_rate  # noqa: PLC0415

    rows = [
        (
            each.node,
            str(each.window.number),
            format_utc(each.opened_ns),
            format_utc(each.end_ns),
            "open" if each.end_ns > now_ns else "over",
            each.window.traffic_class.title,
            format_bytes(each.window.ingress_bytes),
            format_bytes(each.window.egress_bytes),
            format_rate(each.rate_bytes_per_s),
            "both" if each.prover_signature else "verifier",
        )
        for each in windows
    ]
    headings = ("node", "number", "opened", "ends", "state", "class", "in", "back", "rate", "signed by")
    print_rows(headings, rows, names=2)


def _wanted(node: str, size: str, longest: str, from_class: str, **rest: Any) -> Wanted:
    from controller.loads.commands import Wanted as LoadWanted  # noqa: PLC0415

    known = {each.title: each for each in LEASED_CLASSES}
    if from_class not in known:
        raise OperatorError(f"--from-class {from_class!r} is not a class. Use one of {', '.join(known)}.")
    rate = rest.get("rate")
    return LoadWanted(
        node=node,
        traffic_class=known[from_class],
        size_bytes=_quantity("--bytes", size, parse_bytes),
        longest_ns=_quantity("--for", longest, parse_duration_ns),
        sources=tuple(rest["source"] or ()),
        dpu=rest["dpu"],
        uplink=rest["uplink"],
        rate_bytes_per_s=None if rate is None else _quantity("--rate", rate, parse_rate_bytes_per_s),
    )


def _quantity(option: str, text: str, parse: Any) -> int:
    try:
        value: int = parse(text)
    except UnitError as error:
        raise OperatorError(f"{option}: {error}.") from error
    if value <= 0:
        raise OperatorError(f"{option}: {text!r} is not a permission. Give more than zero.")
    return value


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise OperatorError(f"{path}: cannot be read ({error.strerror}). Give the request that was signed.") from error


def _json(each: Opened, now_ns: int) -> dict[str, Any]:
    return {
        "node": each.node,
        "agent": each.window.agent,
        "uplink": each.uplink,
        "number": str(each.window.number),
        "opened_ns": str(each.opened_ns),
        "end_ns": str(each.end_ns),
        "open": each.end_ns > now_ns,
        "class": each.window.traffic_class.title,
        "ingress_bytes": str(each.window.ingress_bytes),
        "egress_bytes": str(each.window.egress_bytes),
        "rate_bytes_per_s": str(each.rate_bytes_per_s),
        "sources": list(each.window.sources),
        "signed_by_prover": bool(each.prover_signature),
    }
