"""Waits, inside the controller's machine, until every daemon of the rig serves: ``python -m hil.ready CHECKS.json``.

The file lists ``exporters`` (URLs), ``ssh`` (addresses) and ``snmp``: the switch's address, the directory with
net-snmp's client configuration and the ports that must be there. snmpd counts as ready when its packet counters do
too: in its first three seconds they read 0, and a poller that took that for a reading would see a jump later.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

_STEP_S = 0.1
_IF_NAME, _IF_HC_IN_UCAST_PKTS = "1.3.6.1.2.1.31.1.1.1.1", "1.3.6.1.2.1.31.1.1.1.7"
_IF_HC_IN_OCTETS = "1.3.6.1.2.1.31.1.1.1.6"


def exporter_problem(url: str) -> str | None:
    """Return why the exporter does not serve counters, or None."""
    try:
        with urllib.request.urlopen(url, timeout=2) as answer:  # noqa: S310 the rig's own http address
            text = answer.read().decode()
    except (urllib.error.URLError, OSError) as error:
        return f"{url}: {error}"
    return None if "node_network_transmit_bytes_total" in text else f"{url}: serves no counters"


def ssh_problem(address: str) -> str | None:
    """Return why no SSH server greets at ``address``, or None."""
    host, _, port = address.rpartition(":")
    try:
        with socket.create_connection((host, int(port)), timeout=2) as connection:
            banner = connection.recv(64)
    except OSError as error:
        return f"{address}: {error}"
    return None if banner.startswith(b"SSH-2.0-") else f"{address}: greets with {banner!r}"


def snmp_problem(address: str, configuration: str, ports: list[str]) -> str | None:
    """Return why the switch's port counters cannot be relied on yet, or None."""
    columns = []
    for column in (_IF_NAME, _IF_HC_IN_OCTETS, _IF_HC_IN_UCAST_PKTS):
        argv = ["snmpbulkwalk", "-t", "1", "-r", "0", "-O", "qvUe", address, column]
        environment = {**os.environ, "SNMPCONFPATH": configuration, "MIBS": ""}
        done = subprocess.run(argv, env=environment, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            return f"{address}: {done.stderr.strip() or done.stdout.strip()}"
        columns.append([line.strip('"') for line in done.stdout.split()])
    names, octets, packets = columns
    if missing := sorted(set(ports) - set(names)):
        return f"{address}: does not show {', '.join(missing)} yet"
    if not len(names) == len(octets) == len(packets):
        return f"{address}: its columns have different lengths"
    behind = [name for name, size, count in zip(names, octets, packets, strict=True) if int(size) and not int(count)]
    if behind or not any(map(int, packets)):
        return f"{address}: counts bytes but no packets yet on {', '.join(behind) or 'any port'}"
    return None


def wait(checks: dict[str, Callable[[], str | None]], timeout_s: float) -> list[str]:
    """Repeat each check until it finds no problem; return the problems that are left at the end of the time."""
    deadline = time.monotonic() + timeout_s
    open_checks = dict(checks)
    problems: dict[str, str] = {}
    while open_checks:
        for name, check in list(open_checks.items()):
            problem = check()
            if problem is None:
                del open_checks[name]
                problems.pop(name, None)
            else:
                problems[name] = problem
        if not open_checks or time.monotonic() > deadline:
            break
        time.sleep(_STEP_S)
    return [f"{name}: {problem}" for name, problem in problems.items()]


def main(path: str) -> int:
    """Wait for all that the file names; print what is not ready and return 1 if something is not."""
    given: dict[str, Any] = json.loads(Path(path).read_text(encoding="utf-8"))
    checks: dict[str, Callable[[], str | None]] = {}
    for name, url in given["exporters"].items():
        checks[name] = lambda url=url: exporter_problem(url)  # type: ignore[misc]
    for name, address in given["ssh"].items():
        checks[name] = lambda address=address: ssh_problem(address)  # type: ignore[misc]
    for name, switch in given["snmp"].items():
        checks[name] = lambda switch=switch: snmp_problem(**switch)  # type: ignore[misc]
    problems = wait(checks, given["timeout_s"])
    for problem in problems:
        print(problem, file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
