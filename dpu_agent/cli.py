"""``weighbridge-agent``: run the agent, check its configuration, say what it is."""

from __future__ import annotations

import argparse
import json
import logging
import platform
import sys
from collections.abc import Sequence
from pathlib import Path

from cryptography.hazmat.primitives import serialization

from dpu_agent import config as configuration
from dpu_agent import credentials, home, state
from dpu_agent.clock import SystemClock
from dpu_agent.counters import PortSample
from dpu_agent.disk import Disk
from dpu_agent.errors import AgentError
from dpu_agent.limits.closed import close_ports, take_down
from dpu_agent.netlink import NetlinkCounters
from dpu_agent.release import this_release
from dpu_agent.run import run
from dpu_agent.sources.hardware import Sources
from protos.signing import fingerprint


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="weighbridge-agent", description=__doc__)
    parser.add_argument("--version", action="version", version=this_release().version)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, text in (
        ("run", "meter the ports and serve the controller until SIGTERM"),
        ("close", "before the network comes up: let nothing through the ports that no lease allows, and end"),
        ("check-config", "check the configuration and the certificate; change nothing"),
        ("describe", "print, as JSON, what this agent is and where its state stands; change nothing"),
    ):
        command = commands.add_parser(name, help=text, description=text)
        command.add_argument("--config", type=Path, required=True, metavar="FILE", help="the agent's configuration")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit code: 0, or 1 or 2 with a sentence on stderr."""
    options = _parser().parse_args(arguments)
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    try:
        config = configuration.load(options.config)
        if options.command == "run":
            run(config)
        elif options.command == "close":
            print(close_ports(config, down=take_down), file=sys.stderr)
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
    """Return what the agent is and where its state stands, for people and scripts; 64-bit numbers as text.

    Reads only, also while the agent runs. What is not there yet is null.

    Raises:
        StateError: the state directory is there and cannot be read.
    """
    release = this_release()
    directory = config.state_directory
    try:
        found = state.read_only(directory / home.STATE)
        key = home.load_key(Disk(), directory / home.KEY).public_key() if found is not None else None
    except OSError as error:
        raise home.cannot_read(directory, error) from error
    public = key.public_bytes(serialization.Encoding.Raw, serialization.PublicFormat.Raw) if key else None
    clock = SystemClock(config.clock_offset_ns)
    source = Sources(NetlinkCounters(clock.monotonic_ns), clock.monotonic_ns)
    try:
        samples = source.read(config.ports)
    finally:
        source.close()
    return {
        "agent": config.agent,
        "version": release.version,
        "bundle_sha256": release.bundle_sha256 or None,
        "python_version": platform.python_version(),
        "kernel": platform.release(),
        "machine": platform.machine(),
        "listen": config.listen,
        "frame_interval_ns": str(config.frame_interval_ns),
        "frame_public_key": public.hex() if public else None,
        "frame_public_key_sha256": fingerprint(public) if public else None,
        "ports": [_port(sample) for sample in samples],
        "last_sequence": None if found is None else str(found.sequence),
        "acknowledged": None if found is None else str(found.acknowledged),
        "lost_frames": None if found is None else str(found.lost_frames),
        "agent_start": None if found is None else str(found.agent_start),
    }


def _port(sample: PortSample) -> dict[str, object]:
    return {
        "name": sample.port.name,
        "role": sample.port.role.value,
        "missing": sample.missing.value if sample.missing else None,
        "source": sample.source.name,
        "framing": sample.source.framing.value,
        "refresh_ns": str(sample.port.refresh_ns),
        "sees": list(sample.source.sees),
        "cannot_see": list(sample.source.cannot_see),
        "mtu_bytes": sample.mtu_bytes,
        "speed_bytes_per_s": None if sample.speed_bytes_per_s is None else str(sample.speed_bytes_per_s),
    }


if __name__ == "__main__":
    sys.exit(main())
