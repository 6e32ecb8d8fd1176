"""``weighbridge``: the command line. Finds a command, runs it, and turns errors into sentences and exit codes.

Commands live in modules of their own and are loaded when they are run: a list of commands must not wait for an SSH
client to load. Each is a typer app in a variable named by ``MODULE:VARIABLE``; the first line of the module's
docstring, "``weighbridge NAME``: what it does", is what the list of commands shows. Other distributions and packages
add commands of the same form through the entry-point group ``weighbridge.commands``.

Exit codes: 0 compliant or done, 1 violation or failed verification, 2 usage or configuration, 3 inconclusive;
130 interrupted, 141 when the reader of the output went away.
"""

from __future__ import annotations

import ast
import importlib
import importlib.metadata
import importlib.util
import os
import re
import sys
import traceback
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from controller.errors import InternalError, OperatorError, WeighbridgeError

ENTRY_POINT_GROUP = "weighbridge.commands"

COMMANDS = {
    "init": "controller.cli_init:app",
    "site": "controller.cli_site:app",
    "pki": "controller.pki_cli:app",
    "agents": "controller.deploy.cli:app",
    "attest": "controller.cli_attest:app",
    "switch": "controller.cli_switch:app",
    "agreement": "controller.agreement.cli:app",
    "leases": "controller.leases.cli:app",
    "loads": "controller.loads.cli:app",
    "run": "controller.cli_run:app",
    "crosscheck": "controller.cli_crosscheck:app",
    "explain": "controller.cli_explain:app",
    "rules": "controller.cli_rules:app",
    "plan": "controller.cli_plan:app",
    "topology": "controller.topology_cli:app",
    "report": "controller.cli_report:app",
    "verify": "controller.cli_verify:app",
    "journal": "controller.cli_journal:app",
    "witness": "controller.cli_witness:app",
}
"""In the order in which an operator first meets them."""

INTERRUPTED = 130
OUTPUT_GONE = 141

_TITLE = re.compile(r"``weighbridge [a-z-]+``: (.+)")


class Commands(TyperGroup):
    """A group that loads a command when it is run, and whose errors are sentences."""

    def __init__(self, **attrs: Any) -> None:
        super().__init__(**attrs)
        self._sources = command_sources()
        # For the list alone: each stands for its module, which is not loaded.
        self.commands = {name: _listed(name, source) for name, source in self._sources.items()}

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command that ``args`` begin with, loaded."""
        if args and args[0] in self._sources:
            return args[0], load_command(args[0], self._sources[args[0]]), args[1:]
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        """Run the command that was asked for; an error of ours ends it with its sentence and exit code."""
        debug = bool(ctx.params.get("debug"))
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()
        except WeighbridgeError as error:
            _complain(error, debug=debug)
            raise typer.Exit(error.exit_code) from error
        except BrokenPipeError as error:
            # Whoever read the output has gone (`| head`); 1 would say "violation". Nothing more may be flushed.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(OUTPUT_GONE) from error
        except (typer.Exit, typer.Abort, typer.TyperException, KeyboardInterrupt):
            raise
        except Exception as error:
            fault = InternalError(
                f"a fault of weighbridge itself ({type(error).__name__}: {error}). "
                "Run it again as `weighbridge --debug ...` and report what it prints."
            )
            _complain(fault, debug=debug)
            raise typer.Exit(fault.exit_code) from error
        return result


def _complain(error: WeighbridgeError, *, debug: bool) -> None:
    if debug:
        traceback.print_exc()
    for line in str(error).splitlines() or [type(error).__name__]:
        print(f"error: {line}", file=sys.stderr)


def command_sources() -> dict[str, str]:
    """Return every command's name and where it is, ``MODULE:VARIABLE``; our own names cannot be taken over."""
    found = {point.name: point.value for point in importlib.metadata.entry_points(group=ENTRY_POINT_GROUP)}
    return {**COMMANDS, **{name: found[name] for name in sorted(found) if name not in COMMANDS}}


def load_command(name: str, source: str) -> Any:
    """Return the command ``name`` from ``source``.

    Raises:
        OperatorError: it cannot be loaded; the rest of the program works without it.
    """
    module, _, variable = source.partition(":")
    try:
        app = getattr(importlib.import_module(module), variable)
    except (ImportError, AttributeError) as error:
        raise OperatorError(
            f"the command `{name}` cannot be loaded from {source}: {error}. "
            "Install what it needs (`pip install 'weighbridge[controller]'`), or remove the package that offers it."
        ) from error
    if not isinstance(app, typer.Typer):
        raise OperatorError(f"the command `{name}` cannot be loaded: {source} is not a typer app. Update its package.")
    command = typer.main.get_command(app)
    command.name = name
    # Completion is installed by the whole program; an app of one command brings the options along.
    command.params = [each for each in command.params if each.name not in ("install_completion", "show_completion")]
    _reflow(command)
    return command


def _reflow(command: Any) -> None:
    """Let the help of ``command`` and of those below it wrap at the terminal's edge, not where its source does."""
    paragraphs = re.split(r"\n\s*\n", command.help or "")
    command.help = "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs) or None
    for child in getattr(command, "commands", {}).values():
        _reflow(child)


def _listed(name: str, source: str) -> TyperCommand:
    return TyperCommand(name, help=_title(source.partition(":")[0]))


def _title(module: str) -> str:
    """Return what the list of commands says about the command in ``module``, without running the module."""
    try:
        spec = importlib.util.find_spec(module)
        text = spec.loader.get_source(module) if spec and spec.loader else None  # type: ignore[attr-defined]
    except (ImportError, AttributeError):
        text = None
    if text is None:
        return "(cannot be loaded)"
    first = (ast.get_docstring(ast.parse(text)) or "").partition("\n")[0]
    match = _TITLE.fullmatch(first)
    return match[1][:1].upper() + match[1][1:] if match else first


def _show_version(show: bool) -> None:
    if show:
        print(importlib.metadata.version("weighbridge"))
        raise typer.Exit


app = typer.Typer(
    cls=Commands,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Measures the traffic between AI nodes from hardware the measured party does not control.",
    epilog="Exit codes: 0 compliant or done, 1 violation or failed verification, 2 usage or configuration, "
    "3 inconclusive.",
)


@app.callback()
def root(
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and end.", callback=_show_version, is_eager=True)
    ] = False,
) -> None:
    """Take the options that every command has; :class:`Commands` reads them."""


def main() -> None:
    """Run the command line."""
    app(prog_name="weighbridge")
