"""``weighbridge pki``: make the site's authority, issue and renew certificates, show what is there.

Everything comes from the site file: the site's name, the agents and their addresses, and where the files are.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Annotated

import typer
from cryptography import x509

from controller import site as sites
from controller.cli_options import SITE_FILE, AsJson, SiteFile
from controller.cli_rows import print_rows
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
from controller.revoked import NAME as REVOKED
from controller.revoked import revoke as revoke_certificate
from controller.site import Site

CONTROLLER = "controller"

app = typer.Typer(no_args_is_help=True, add_completion=False, help="The site's certificates: who may speak to whom.")

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
def init(site_file: SiteFile = SITE_FILE, days: Days = LEAF_LIFETIME.days) -> None:
    """Make a new authority, and a certificate for the controller and for each agent of the site file."""
    site = sites.load(site_file, secrets=False)
    directory = directory_of(site)
    agents = {dpu.name: dpu.agent.host for dpu in site.agents()}
    create_site_pki(directory, site=site.name, controller=CONTROLLER, agents=agents, lifetime=timedelta(days=days))
    typer.echo(
        f"{directory}: authority of site {site.name}, its controller, {len(agents)} agents. "
        f"Keep {directory / 'ca.key'} off the network: who has it can be every agent.",
        err=True,
    )


@app.command()
def issue(
    names: Annotated[list[str] | None, typer.Argument(metavar="[AGENT]...", help="Agents of the site file.")] = None,
    controller: Annotated[bool, typer.Option("--controller", help="The controller's own.")] = False,
    site_file: SiteFile = SITE_FILE,
    days: Days = LEAF_LIFETIME.days,
    renew: Annotated[bool, typer.Option("--renew", help="Replace the key and certificate that are there.")] = False,
) -> None:
    """Issue certificates with fresh keys; agents get theirs with the next `weighbridge agents deploy`."""
    site = sites.load(site_file, secrets=False)
    if not names and not controller:
        raise OperatorError("name agents of the site file, or give --controller; nothing was issued")
    directory = directory_of(site)
    dpus = [site.agent(name) for name in names or []]
    ca, lifetime = load_ca(directory), timedelta(days=days)
    issued = [
        (agent_stem(directory, dpu.name), issue_certificate(ca, Role.AGENT, dpu.name, dpu.agent.host, lifetime))
        for dpu in dpus
    ]
    if controller:
        issued.append((directory / "controller", issue_certificate(ca, Role.CONTROLLER, CONTROLLER, None, lifetime)))
    for stem, one in issued:
        write_issued(stem, one, renew=renew)
        typer.echo(f"{with_ending(stem, '.pem')}: {one.identity.uri}, valid until {one.not_after}", err=True)


@app.command()
def revoke(
    certificate: Annotated[
        Path, typer.Argument(metavar="FILE", help="The certificate (PEM) that shall count no more before it expires.")
    ],
    site_file: SiteFile = SITE_FILE,
) -> None:
    """Revoke a controller's certificate; agents refuse it from their next `weighbridge agents deploy` on."""
    directory = directory_of(sites.load(site_file, secrets=False))
    line = revoke_certificate(directory, certificate, now=datetime.now(timezone.utc))
    typer.echo(f"{directory / REVOKED}: {line}. Deploy every agent now.", err=True)


@app.command()
def show(site_file: SiteFile = SITE_FILE, as_json: AsJson = False) -> None:
    """List the certificates, who they are for, how long they last; exit code 2 when one cannot be used."""
    directory = directory_of(sites.load(site_file, secrets=False))
    load_ca_certificate(directory / "ca.pem")
    rows = [_shown(directory, path) for path in [directory / "ca.pem", *certificates(directory)]]
    if as_json:
        typer.echo(json.dumps([asdict(row) for row in rows], indent=2))
    else:
        print_rows(
            ("file", "identity", "addresses", "valid until (UTC)", "days left", "problem"),
            [
                (
                    row.file,
                    row.identity,
                    ", ".join(row.addresses),
                    row.not_after,
                    "-" if row.days_left is None else str(row.days_left),
                    row.problem,
                )
                for row in rows
            ],
        )
    if any(row.problem for row in rows):
        raise typer.Exit(OperatorError.exit_code)


def directory_of(site: Site) -> Path:
    """Return the folder of the site's certificates: that of its authority.

    Raises:
        OperatorError: the site file names the files otherwise than these commands write them.
    """
    files = site.controller
    directory = files.ca.parent
    for key, path, name in (
        ("ca", files.ca, "ca.pem"),
        ("certificate", files.certificate, "controller.pem"),
        ("key", files.key, "controller.key"),
    ):
        if path != directory / name:
            raise OperatorError(
                f"{site.path}: controller.{key} is {path}; these commands keep it at {directory / name}. "
                "Say so in the site file, or make the certificates by other means"
            )
    return directory


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
