"""``weighbridge topology``: the wiring as it is declared against who is found at each switch port."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from controller.cli_options import SITE_FILE, AsJson, SiteFile
from controller.errors import OperatorError

if TYPE_CHECKING:  # the SNMP engine is loaded when a command that is right needs it
    from controller.site import Site
    from controller.topology import PortWiring

app = typer.Typer(no_args_is_help=True, help="The wiring: declared against found.")

CONTRADICTED, NOT_CONFIRMED = 1, 3


@app.callback()
def topology() -> None:
    """The wiring: declared against found."""


@app.command()
def check(site_file: SiteFile = SITE_FILE, as_json: AsJson = False) -> None:
    """Ask every switch now which ports it has and who is at the other end of each cable (LLDP, forwarding table).

    Exit code 0: every link is where it is declared and nothing else is there; 1: something contradicts the site file;
    3: something could not be confirmed.
    """
    _, ports, faults = _look(site_file)
    if as_json:
        shown = [
            {
                "switch": port.switch,
                "port": port.port,
                "state": port.state.value,
                "declared": port.declared,
                "link": port.link,
                "found": list(port.found),
                "addresses": list(port.addresses),
                "up": port.up,
                "octets": None if port.octets is None else str(port.octets),
                "text": port.text,
            }
            for port in ports
        ]
        typer.echo(json.dumps({"ports": shown, "faults": faults}, indent=2))
    else:
        for port in ports:
            typer.echo(f"{port.state.value:<22} {port.switch} {port.text}")
    for fault in faults:
        typer.echo(fault, err=True)
    raise typer.Exit(_exit_code(ports, faults))


@app.command()
def draw(
    site_file: SiteFile = SITE_FILE,
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FILE.svg", help="Write the picture here.")] = Path(
        "topology.svg"
    ),
) -> None:
    """Ask as `check` does, and draw the site: every declared cable, and every one that was found elsewhere."""
    from controller.topology_drawing import draw as picture  # noqa: PLC0415  see above

    site, ports, faults = _look(site_file)
    try:
        output.write_text(picture(site, ports), encoding="utf-8")
    except OSError as error:
        raise OperatorError(f"--output {output}: cannot be written ({error.strerror})") from error
    for fault in faults:
        typer.echo(fault, err=True)
    typer.echo(f"{output} is written", err=True)
    raise typer.Exit(_exit_code(ports, faults))


def _exit_code(ports: list[PortWiring], faults: list[str]) -> int:
    from controller.topology import confirmed  # noqa: PLC0415  see above

    if any(port.state.wrong for port in ports):
        return CONTRADICTED
    return 0 if confirmed(ports) and not faults else NOT_CONFIRMED


def _look(site_file: Path) -> tuple[Site, list[PortWiring], list[str]]:
    """Read every switch of the site once; return its wiring, and sentences about what could not be read."""
    from controller.collect.switches import snmp_readers  # noqa: PLC0415  see above
    from controller.site import load  # noqa: PLC0415
    from controller.topology import wiring  # noqa: PLC0415

    site = load(site_file)
    ports: list[PortWiring] = []
    faults: list[str] = []

    async def go() -> None:
        async with snmp_readers(time.monotonic_ns) as readers:
            for switch in site.switches:
                reader = readers(switch)
                discovery = await reader.discover()
                await reader.close()
                if not discovery.complete:
                    faults.append(f"{switch.name}: its list of ports may not be whole: {discovery.text}")
                ports.extend(wiring(site, switch.name, discovery.poll))

    asyncio.run(go())
    return site, ports, faults
