"""``weighbridge-agent``: run the agent, check its configuration, say what it is."""

from __future__ import annotations

import argparse
import json
import logging
import sys
from collections.abc import Sequence
from pathlib import Path

from dpu_agent import config as configuration
from dpu_agent import credentials, home, state
from dpu_agent.errors import AgentError
from dpu_agent.release import this_release
from dpu_agent.run import run


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="weighbridge-agent", description=__doc__)
    parser.add_argument("--version", action="version", version=this_release().version)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, text in (
        ("run", "meter the ports and serve the controller until SIGTERM"),
        ("check-config", "check the configuration and the certificate; change nothing"),
        ("describe", "print, as JSON, what this agent is and where its state stands; change nothing"),
    ):
        command = commands.add_parser(name, help=text, description=text)
        command.add_argument("--config", type=Path, required=True, metavar="FILE", help="the agent's configuration")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit code: 0, or 2 with a sentence on stderr."""
    options = _parser().parse_args(arguments)
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    try:
        config = configuration.load(options.config)
        if options.command == "run":
            run(config)
        elif options.command == "check-config":
            credentials.load(config, credentials.utc_now())
            print(f"{options.config}: good", file=sys.stderr)
        else:
            print(json.dumps(describe(config), indent=2))
    except AgentError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    return 0


def describe(config: configuration.AgentConfig) -> dict[str, object]:
    """Return what the agent is and where its state stands, for people and scripts; 64-bit numbers as text."""
    release = this_release()
    found = state.read_only(config.state_directory / home.STATE)
    return {
        "agent": config.agent,
        "version": release.version,
        "bundle_sha256": release.bundle_sha256 or None,
        "listen": config.listen,
        "ports": [{"name": port.name, "role": port.role.value} for port in config.ports],
        "last_sequence": None if found is None else str(found.sequence),
        "acknowledged": None if found is None else str(found.acknowledged),
        "agent_start": None if found is None else str(found.agent_start),
    }


if __name__ == "__main__":
    sys.exit(main())
