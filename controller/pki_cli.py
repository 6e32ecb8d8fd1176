"""``weighbridge pki``: make the site's authority, issue and renew certificates, show what is there."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Annotated

import typer
from cryptography import x509
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from controller.credentials import load_ca, load_ca_certificate, load_credential
from controller.errors import OperatorError
from controller.pki import (
    LEAF_LIFETIME,
    Role,
    agent_stem,
    create_site_pki,
    issue_certificate,
    with_ending,
    write_issued,
)

app = typer.Typer(no_args_is_help=True, help="The site's certificates: who may speak to whom.")

Directory = Annotated[Path, typer.Argument(help="The directory of the site's certificates, for example pki.")]
Days = Annotated[int, typer.Option(min=1, help="How many days the certificates are valid.")]


@dataclass(frozen=True, slots=True)
class Shown:
    """One certificate as ``pki show`` prints it; ``problem`` is empty when it can be used."""

    file: str
    identity: str
    addresses: tuple[str, ...]
    not_after: str
    days_left: int | None
    problem: str


@app.command()
def init(
    directory: Directory,
    site: Annotated[str, typer.Option(help="The site's name, as in the site file.")],
    controller: Annotated[str, typer.Option(help="The controller's name.")] = "controller",
    agent: Annotated[
        list[str] | None, typer.Option(metavar="NAME=IP", help="An agent and its management address; may be repeated.")
    ] = None,
    days: Days = LEAF_LIFETIME.days,
) -> None:
    """Make a new authority, and a certificate for the controller and each agent."""
    agents: dict[str, str] = {}
    for text in agent or []:
        name, separator, ip = text.partition("=")
        if not separator or name in agents:
            raise OperatorError(f"--agent {text!r}: write NAME=IP, each name once, for example node1-dpu0=10.250.0.11")
        agents[name] = ip
    create_site_pki(directory, site=site, controller=controller, agents=agents, lifetime=timedelta(days=days))
    typer.echo(
        f"{directory}: authority of site {site}, controller {controller}, {len(agents)} agents. "
        f"Keep {directory / 'ca.key'} off the network: who has it can be every agent.",
        err=True,
    )


@app.command()
def issue(  # noqa: PLR0917  typer reads arguments and options from the signature
    directory: Directory,
    role: Annotated[Role, typer.Argument(help="What the holder is.")],
    name: Annotated[str, typer.Argument(help="The agent's or controller's name.")],
    ip: Annotated[str | None, typer.Option(help="The management address; an agent needs one.")] = None,
    days: Days = LEAF_LIFETIME.days,
    renew: Annotated[bool, typer.Option("--renew", help="Replace the key and certificate that are there.")] = False,
) -> None:
    """Issue one certificate with a fresh key."""
    issued = issue_certificate(load_ca(directory), role, name, ip, timedelta(days=days))
    stem = agent_stem(directory, name) if role is Role.AGENT else directory / "controller"
    write_issued(stem, issued, renew=renew)
    typer.echo(f"{with_ending(stem, '.pem')}: {issued.identity.uri}, valid until {issued.not_after}", err=True)


@app.command()
def show(
    directory: Directory,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """List the certificates, who they are for, how long they last; exit code 2 when one cannot be used."""
    load_ca_certificate(directory / "ca.pem")
    rows = [_shown(directory, path) for path in [directory / "ca.pem", *certificates(directory)]]
    if as_json:
        typer.echo(json.dumps([asdict(row) for row in rows], indent=2))
    else:
        table = Table("file", "identity", "addresses", "valid until (UTC)", "days left", "problem")
        for row in rows:
            days = "-" if row.days_left is None else str(row.days_left)
            table.add_row(
                *map(escape, (row.file, row.identity, ", ".join(row.addresses), row.not_after, days, row.problem))
            )
        Console().print(table)
    if any(row.problem for row in rows):
        raise typer.Exit(OperatorError.exit_code)


def certificates(directory: Path) -> list[Path]:
    """Return the certificates under ``directory`` but the authority's, the controller's first."""
    found = [directory / "controller.pem"] if (directory / "controller.pem").exists() else []
    return found + sorted((directory / "agents").glob("*.pem"))


def _shown(directory: Path, path: Path) -> Shown:
    authority = directory / "ca.pem"
    file = str(path.relative_to(directory))
    try:
        if path != authority:
            load_credential(path, path.with_suffix(".key"), authority)
        problem = ""
    except OperatorError as error:
        problem = str(error)
    try:
        certificate = x509.load_pem_x509_certificate(path.read_bytes())
    except (OSError, ValueError):
        return Shown(file, "", (), "", None, problem)
    uris, addresses = _names(certificate)
    end = certificate.not_valid_after_utc
    left = (end - datetime.now(timezone.utc)).days
    return Shown(file, ", ".join(uris), tuple(addresses), end.strftime("%Y-%m-%d %H:%M:%S"), left, problem)


def _names(certificate: x509.Certificate) -> tuple[list[str], list[str]]:
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return [certificate.subject.rfc4514_string()], []
    addresses = [str(address) for address in names.get_values_for_type(x509.IPAddress)]
    return names.get_values_for_type(x509.UniformResourceIdentifier), addresses
