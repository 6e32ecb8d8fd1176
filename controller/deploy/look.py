"""What a device says of itself before anything is sent to it, and what follows from that."""

from __future__ import annotations

import enum
import json
import re
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from controller.deploy.lock import package_folder
from controller.deploy.paths import DeployPaths
from controller.deploy.ssh import Connection
from controller.errors import DeviceError

# What mlx5 serves for a representor is the copy of the read before, refreshed in the background (en_rep.c), and the
# background refresh itself runs once a second.
MLX5_REFRESH_BEYOND_INTERVAL_MS = 1_000


class Mode(enum.Enum):
    """Who owns a BlueField, as its own tools tell (NVIDIA MFT, mlxprivhost and mlxconfig)."""

    ZERO_TRUST = "zero-trust: the host is restricted"
    HOST_TRUSTED = "DPU mode, but the host is privileged: it can flash and reconfigure the DPU"
    NIC = "NIC mode: the host owns the ports"
    UNKNOWN = "a BlueField or ConnectX whose mode its tools did not tell"
    NOT_A_BLUEFIELD = "not a BlueField: no port with an mlx5 driver"

    @property
    def trustworthy(self) -> bool:
        """Whether the host cannot take the DPU over by its own means."""
        return self is Mode.ZERO_TRUST


@dataclass(frozen=True, slots=True)
class Looked:
    """A device before deployment.

    Attributes:
        uid: of the login.
        python: version of the interpreter the agent will run on, such as ``3.10``.
        machine: processor, such as ``aarch64``.
        kernel: release of the kernel.
        glibc: such as ``glibc 2.35``; empty for another C library.
        systemd: whether systemd runs it.
        supervisor: path of ``supervisorctl``, where there is one.
        current: where the link ``current`` points, ``None`` without one.
        settings: where the link ``etc`` points, ``None`` without one.
        settings_is_folder: ``etc`` is there and no link of ours.
        drivers: by port; ``None`` for a virtual port without a driver.
        absent_ports: ports that are not there now.
        mode: of a BlueField.
    """

    uid: int
    python: str
    machine: str
    kernel: str
    glibc: str
    systemd: bool
    supervisor: str | None
    current: str | None
    settings: str | None
    settings_is_folder: bool
    drivers: Mapping[str, str | None]
    absent_ports: tuple[str, ...]
    mode: Mode

    def refresh_ms(self, port: str, frame_interval_ms: int) -> int:
        """How old a value of ``port`` can be when its driver serves it, in ms."""
        served_late = (self.drivers.get(port) or "").startswith("mlx5")
        return frame_interval_ms + MLX5_REFRESH_BEYOND_INTERVAL_MS if served_late else 0


def look(connection: Connection, paths: DeployPaths, ports: Iterable[str]) -> Looked:
    """Return what the device says of itself.

    Raises:
        DeviceError: it has no Python at the agent's path, or the answer cannot be read.
    """
    script = (package_folder("controller") / "deploy" / "device" / "look.py").read_text("utf-8")
    argv = [paths.python, "-I", "-S", "-c", script, paths.root, paths.systemd_running, *ports]
    told = connection.run(shlex.join(argv))
    if told.exit_code == 127:
        raise DeviceError(f"{connection.place}: there is no {paths.python}; install python3 (3.10 or later) on the DPU")
    try:
        answer = json.loads(told.stdout.strip().splitlines()[-1])
        return _looked(answer)
    except (ValueError, IndexError, KeyError, TypeError, AttributeError) as error:
        said = (told.stderr or told.stdout).strip()[-200:]
        raise DeviceError(
            f"{connection.place}: {paths.python} did not describe the device (exit code {told.exit_code}: {said!r}); "
            f"run `{paths.python} -I -S -c 'print(1)'` there and repair what it says"
        ) from error


def mode_of(*, mlx5: bool, mlxprivhost: Mapping[str, Any] | None, mlxconfig: Mapping[str, Any] | None) -> Mode:
    """Return the mode from what the two tools printed.

    ``mlxprivhost q`` prints ``level : RESTRICTED`` or ``PRIVILEGED``; ``mlxconfig q INTERNAL_CPU_OFFLOAD_ENGINE``
    prints ``ENABLED(0)`` in DPU mode and ``DISABLED(1)`` in NIC mode. A tool that is absent or failed tells nothing.
    """
    if not mlx5:
        return Mode.NOT_A_BLUEFIELD
    engine = _said(mlxconfig, r"INTERNAL_CPU_OFFLOAD_ENGINE\s+(\w+)")
    level = _said(mlxprivhost, r"(?im)^\s*level\s*:\s*(\w+)")
    if engine == "DISABLED":
        return Mode.NIC
    if level == "PRIVILEGED":
        return Mode.HOST_TRUSTED
    if level == "RESTRICTED" and engine == "ENABLED":
        return Mode.ZERO_TRUST
    return Mode.UNKNOWN


def _said(tool: Mapping[str, Any] | None, pattern: str) -> str | None:
    if tool is None or tool["exit_code"] != 0:
        return None
    match = re.search(pattern, tool["output"])
    return match[1].upper() if match else None


def _looked(answer: Mapping[str, Any]) -> Looked:
    ports: Mapping[str, Mapping[str, Any]] = answer["ports"]
    return Looked(
        uid=answer["uid"],
        python=answer["python"],
        machine=answer["machine"],
        kernel=answer["kernel"],
        glibc=answer["glibc"],
        systemd=answer["systemd"],
        supervisor=answer["supervisor"],
        current=answer["current"],
        settings=answer["settings"],
        settings_is_folder=answer["settings_is_folder"],
        drivers={name: port["driver"] for name, port in ports.items()},
        absent_ports=tuple(name for name, port in ports.items() if not port["there"]),
        mode=mode_of(
            mlx5=answer["device"] is not None, mlxprivhost=answer["mlxprivhost"], mlxconfig=answer["mlxconfig"]
        ),
    )
