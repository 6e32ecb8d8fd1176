"""A service file: what the supervisor of a machine is to run.

::

    {"argv": ["/usr/sbin/sshd", "-D"], "env": {"KEY": "value"}, "restart": "always"}

Optional keys: ``restart`` (``always``, ``on-failure`` or ``never``; default ``always``), ``env``, ``cwd`` (default
``/``), ``enabled`` (start at boot; default true), ``stop_timeout_s`` (SIGKILL after; default 10), ``before_network`` (a
command that is run at each boot before the machine's network is set up). Unknown keys are refused.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_RESTARTS = ("always", "on-failure", "never")


class ServiceError(Exception):
    """A request cannot be carried out; the text says why."""


@dataclass(frozen=True)
class Definition:
    """One service file, checked."""

    argv: tuple[str, ...]
    env: Mapping[str, str]
    restart: str
    cwd: str
    enabled: bool
    stop_timeout_s: float
    before_network: tuple[str, ...] = ()


def parse_definition(text: str, where: str) -> Definition:
    """Return the service that ``text`` defines.

    Raises:
        ServiceError: not JSON, an unknown key, or a value of the wrong kind; the text names ``where``.
    """
    try:
        raw: Any = json.loads(text)
    except ValueError as error:
        raise ServiceError(f"{where}: not JSON: {error}") from error
    if not isinstance(raw, dict):
        raise ServiceError(f"{where}: a service is a JSON object")
    known = {"argv", "env", "restart", "cwd", "enabled", "stop_timeout_s", "before_network"}
    if unknown := sorted(set(raw) - known):
        raise ServiceError(f"{where}: unknown key {unknown[0]!r}; known are {', '.join(sorted(known))}")
    argv, env, before = raw.get("argv"), raw.get("env", {}), raw.get("before_network", [])
    restart, cwd = raw.get("restart", "always"), raw.get("cwd", "/")
    enabled, timeout = raw.get("enabled", True), raw.get("stop_timeout_s", 10)
    if not isinstance(argv, list) or not argv or not all(isinstance(part, str) for part in argv):
        raise ServiceError(f"{where}: 'argv' must be a list of strings with at least the program")
    if not isinstance(before, list) or not all(isinstance(part, str) for part in before):
        raise ServiceError(f"{where}: 'before_network' must be a list of strings")
    if not isinstance(env, dict) or not all(isinstance(value, str) for value in env.values()):
        raise ServiceError(f"{where}: 'env' must map names to strings")
    if restart not in _RESTARTS:
        raise ServiceError(f"{where}: 'restart' must be one of {', '.join(_RESTARTS)}, not {restart!r}")
    if not isinstance(cwd, str) or not isinstance(enabled, bool):
        raise ServiceError(f"{where}: 'cwd' must be a path and 'enabled' true or false")
    if isinstance(timeout, bool) or not isinstance(timeout, int | float) or timeout < 0:
        raise ServiceError(f"{where}: 'stop_timeout_s' must be a number of seconds")
    return Definition(tuple(argv), dict(env), restart, cwd, enabled, float(timeout), tuple(before))
