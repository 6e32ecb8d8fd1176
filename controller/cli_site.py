"""``weighbridge site``: check the site file and say what it means."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from controller.cli_options import SITE_FILE, AsJson, SiteFileArgument, counted
from controller.site import Site, load
from controller.site_credential import load_site_credential
from protos.units import format_bytes, format_duration

app = typer.Typer(no_args_is_help=True, help="The site file.")


@app.callback()
def site() -> None:
    """The site file."""


@app.command()
def check(
    site_file: SiteFileArgument = SITE_FILE,
    secrets: Annotated[
        bool, typer.Option(help="Whether to look at secret files and certificates too; they must be on this machine.")
    ] = True,
    as_json: AsJson = False,
) -> None:
    """Check the site file strictly: every error with its line and its remedy. Nothing is changed."""
    checked = load(site_file, secrets=secrets)
    if secrets:
        load_site_credential(checked)
    if as_json:
        typer.echo(json.dumps(_summary(checked), indent=2))
        return
    for line in _sentences(checked):
        typer.echo(line)


def _summary(site: Site) -> dict[str, Any]:
    return {
        "site": site.name,
        "journal": str(site.controller.journal),
        "pods": {pod.name: list(pod.nodes) for pod in site.pods},
        "agents": [dpu.name for dpu in site.agents()],
        "links": [link.name for link in site.links],
        "switches": [switch.name for switch in site.switches],
        "limits": [{"window_ns": str(limit.window_ns), "bytes": str(limit.bytes)} for limit in site.limits],
        "untestable_host_links": _without_claim(site),
    }


def _sentences(site: Site) -> list[str]:
    parts = (
        counted(len(site.pods), "pod"),
        counted(len(site.nodes), "node"),
        counted(len(site.agents()), "DPU"),
        counted(len(site.links), "link"),
        counted(len(site.switches), "switch", "switches"),
    )
    lines = [f"site {site.name}: {', '.join(parts)}"]
    lines += [
        f"limit: {format_bytes(limit.bytes)} in any {format_duration(limit.window_ns)}, per node and direction"
        for limit in site.limits
    ] or ["no limit is agreed: nothing can exceed one"]
    silent = _without_claim(site)
    if silent:
        lines.append(f"laws about the host cannot be tested on {', '.join(silent)}: no full claim is declared there")
    return lines


def _without_claim(site: Site) -> list[str]:
    return [
        link.name for link in site.links if site.node(link.node).exporter is None or link.uplink.host_interfaces is None
    ]
