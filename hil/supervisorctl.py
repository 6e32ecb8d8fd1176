#!/usr/bin/python3 -I
"""Talk to the machine's supervisor: ``supervisorctl start|stop|restart|status|reload [NAME] [--json]``.

Exit codes follow systemctl: 0 done or running, 1 failed, 2 usage, 3 not running, 4 no such service.
Standard library only: it is copied onto each machine of the rig and run by that machine's own Python.
"""

from __future__ import annotations

import json
import socket
import sys
from typing import Any

_SOCKET = "/run/supervisor.sock"
_COMMANDS = ("start", "stop", "restart", "status", "reload")
_USAGE = "usage: supervisorctl start|stop|restart|reload NAME, or supervisorctl status [NAME] [--json]"
_LONGEST_WAIT_S = 60.0  # stopping may take as long as the service's own stop_timeout_s


def ask(command: str, name: str | None, path: str = _SOCKET) -> dict[str, Any]:
    """Send one request to the supervisor behind ``path`` and return its answer.

    Raises:
        OSError: no supervisor answers there.
        ValueError: the answer is not JSON.
    """
    with socket.socket(socket.AF_UNIX) as peer:
        peer.settimeout(_LONGEST_WAIT_S)
        peer.connect(path)
        peer.sendall(json.dumps({"command": command, "name": name}).encode() + b"\n")
        received = b""
        while not received.endswith(b"\n"):
            data = peer.recv(65536)
            if not data:
                break
            received += data
    answer: dict[str, Any] = json.loads(received)
    return answer


def main(arguments: list[str]) -> int:
    """Run the command line; return the exit code."""
    as_json = "--json" in arguments
    words = [word for word in arguments if word != "--json"]
    if not words or words[0] not in _COMMANDS or len(words) > 2 or (len(words) == 1 and words[0] != "status"):
        print(_USAGE, file=sys.stderr)
        return 2
    command, name = words[0], words[1] if len(words) == 2 else None
    try:
        answer = ask(command, name)
    except (OSError, ValueError) as error:
        print(f"supervisorctl: the supervisor behind {_SOCKET} does not answer: {error}", file=sys.stderr)
        return 1
    if not answer["ok"]:
        print(f"supervisorctl: {answer['text']}", file=sys.stderr)
        return 4 if command == "status" else 1
    services = answer["services"]
    if as_json:
        print(json.dumps(services))
    elif command != "status":
        print(answer["text"])
    else:
        for service in services:
            detail = (
                f"pid {service['pid']}, {service['running_s']:.1f} s" if service["pid"] else service["last_exit"] or ""
            )
            print(f"{service['name']:<24} {service['state']:<9} {detail}")
    if command == "status" and name is not None and services[0]["state"] != "running":
        return 3
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
