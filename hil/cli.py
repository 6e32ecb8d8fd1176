"""``weighbridge hil``: bring an emulated rig up and down, look at it, and run commands in its machines."""

from __future__ import annotations

import dataclasses
import json
import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from controller.errors import WeighbridgeError
from hil import remains, rigfile, status
from hil.machine import environment
from hil.preflight import ThisComputer
from hil.preflight import check as preflight_check
from hil.rig import Rig, tear_down

app = typer.Typer(help="The rig: real daemons on emulated machines.", no_args_is_help=True)

_State = Annotated[Path | None, typer.Option("--state", help="The rig's state directory; default build/rigs/NAME.")]
_Name = Annotated[str, typer.Argument(metavar="NAME", help="The rig's name.")]


def _fail(error: Exception) -> typer.Exit:
    print(f"error: {error}", file=sys.stderr)
    return typer.Exit(getattr(error, "exit_code", 2))


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


@app.command()
def up(
    rig: Annotated[
        str, typer.Argument(metavar="RIG", help="A rig file, or the name of one that comes with Weighbridge.")
    ],
    state: _State = None,
    name: Annotated[str | None, typer.Option(help="Another name than the file's.")] = None,
) -> None:
    """Bring a rig up; what an earlier crash left behind is cleared away first."""
    try:
        Rig.up(rigfile.load(rigfile.find(rig)), state, name=name, keep=True, progress=_say)
    except (WeighbridgeError, ValueError) as error:
        raise _fail(error) from error


@app.command()
def preflight() -> None:
    """Say what this computer lacks for a rig: every tool with the version it needs, kernel features, rights."""
    missing = preflight_check(ThisComputer())
    for each in missing:
        print(each)
    if missing:
        raise typer.Exit(2)
    _say("nothing is missing")


@app.command()
def down(name: _Name, state: _State = None) -> None:
    """Tear a rig down and make sure that nothing of it is left; its logs stay in the state directory."""
    try:
        existed = tear_down(name, state)
    except (WeighbridgeError, ValueError) as error:
        raise _fail(error) from error
    _say(f"rig {name} is down" if existed else f"nothing of a rig {name} was there")


@app.command("exec")
def execute(
    name: _Name,
    machine: Annotated[str, typer.Argument(metavar="MACHINE", help="The machine's name.")],
    command: Annotated[list[str], typer.Argument(metavar="-- COMMAND...", help="What to run.")],
    state: _State = None,
) -> None:
    """Run a command inside a machine: weighbridge hil exec demo node1 -- ip -s link. Its exit code is passed on."""
    try:
        inside = Rig.open(name, state).machine(machine).command(command)
    except WeighbridgeError as error:
        raise _fail(error) from error
    os.execve(inside[0], inside, environment(None))  # noqa: S606 the command takes this process's place


@app.command()
def reboot(
    name: _Name,
    machine: Annotated[str, typer.Argument(metavar="MACHINE", help="The machine's name.")],
    state: _State = None,
    grace: Annotated[float, typer.Option(help="Seconds for its services to stop in order; 0 is a power cut.")] = 0.0,
) -> None:
    """Reboot a machine: everything in it is killed, its disk stays, its boot id and interfaces are new."""
    try:
        rig = Rig.open(name, state)
        rig.reboot(machine, grace_s=grace)
    except WeighbridgeError as error:
        raise _fail(error) from error
    _say(f"{machine} rebooted, boot id {rig.machine(machine).boot_id}")


@app.command("status")
def show_status(
    name: _Name, state: _State = None, as_json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False
) -> None:
    """Show a rig's machines, services and cables; exit code 0 if all of it works, 1 if not."""
    try:
        found = status.look(Rig.open(name, state))
    except WeighbridgeError as error:
        raise _fail(error) from error
    print(json.dumps(dataclasses.asdict(found), indent=2) if as_json else "\n".join(status.lines(found)))
    raise typer.Exit(0 if found.healthy else 1)


@app.command("list")
def list_rigs(as_json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False) -> None:
    """List the rigs that have anything on this computer."""
    found = {name: None if state is None else str(state) for name, state in sorted(remains.rigs().items())}
    if as_json:
        print(json.dumps([{"name": name, "state": state} for name, state in found.items()]))
        return
    for name, state in found.items():
        print(f"{name:<16} {state or '(remains without a process; the next up or down clears them)'}")


if __name__ == "__main__":
    app()
