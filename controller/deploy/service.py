"""The agent as a service of its machine: systemd on a DPU, a plain supervisor where there is none."""

from __future__ import annotations

import json
import shlex
from typing import Protocol

from controller.deploy.look import Looked
from controller.deploy.paths import SERVICE, DeployPaths
from controller.deploy.ssh import Connection
from controller.errors import DeviceError

# The ports are closed before anything sets up the network, and the agent opens them by leases; it waits by itself for
# its address to come up. A failure to close takes the ports down and does not keep the agent from starting.
# The agent reads counters and attaches filters: network administration and BPF, nothing else.
_UNIT = """\
[Unit]
Description=Weighbridge agent: meters and limits this DPU's ports
Wants=network-pre.target
Before=network-pre.target openvswitch-switch.service ovs-vswitchd.service
After=local-fs.target sys-fs-bpf.mount
StartLimitIntervalSec=0

[Service]
Type=exec
ExecStartPre=-{close}
ExecStart={start}
Restart=always
RestartSec=1
UMask=0077
CapabilityBoundingSet=CAP_NET_ADMIN CAP_BPF CAP_PERFMON
NoNewPrivileges=yes
ProtectSystem=strict
ReadWritePaths=-{state}
ProtectHome=yes
PrivateTmp=yes
ProtectHostname=yes
ProtectKernelModules=yes
RestrictAddressFamilies=AF_INET AF_INET6 AF_NETLINK AF_UNIX
RestrictRealtime=yes
LockPersonality=yes

[Install]
WantedBy=multi-user.target
"""


class Service(Protocol):
    """What deployment asks of a service manager."""

    @property
    def file(self) -> str:
        """Where the service is described on the device."""

    @property
    def content(self) -> bytes:
        """The description."""

    @property
    def load(self) -> str:
        """The shell command that makes the manager read a new description."""

    @property
    def restart(self) -> str:
        """The shell command that starts the service, stopping it first where it runs."""

    @property
    def remove(self) -> str:
        """The shell command that stops the service and forgets it."""

    @property
    def running(self) -> str:
        """The shell command that succeeds if and only if the service runs."""

    @property
    def last_words(self) -> str:
        """The shell command that prints the end of the service's log."""


class Systemd:
    """systemd."""

    load = f"systemctl daemon-reload && systemctl enable --quiet {SERVICE}.service"
    restart = f"systemctl restart {SERVICE}.service"
    running = f"systemctl is-active --quiet {SERVICE}.service"
    last_words = f"journalctl --unit {SERVICE}.service --lines 8 --no-pager --output cat"

    def __init__(self, paths: DeployPaths) -> None:
        self.file = f"{paths.systemd_units}/{SERVICE}.service"
        start, close = (" ".join(map(_unit_word, line)) for line in (paths.start_line, paths.close_line))
        self.content = _UNIT.format(start=start, close=close, state=_unit_word(paths.state)).encode()
        self.remove = (
            f"systemctl disable --now --quiet {SERVICE}.service; rm -f {shlex.quote(self.file)}; "
            "systemctl daemon-reload"
        )


class Supervisor:
    """A plain supervisor with one JSON file a service, such as the emulated rig's."""

    load = ":"  # it reads the file whenever the service starts
    restart = f"supervisorctl restart {SERVICE}"
    running = f"supervisorctl status {SERVICE}"

    def __init__(self, paths: DeployPaths) -> None:
        self.file = f"{paths.supervisor_services}/{SERVICE}.json"
        self.last_words = f"tail -n 8 {shlex.quote(f'{paths.supervisor_logs}/{SERVICE}.log')}"
        service = {"argv": paths.start_line, "before_network": paths.close_line, "env": {}, "restart": "always"}
        self.content = json.dumps(service).encode() + b"\n"
        self.remove = f"supervisorctl stop {SERVICE}; rm -f {shlex.quote(self.file)}; supervisorctl reload {SERVICE}"


def service_for(looked: Looked, paths: DeployPaths, connection: Connection) -> Service:
    """Return the device's service manager.

    Raises:
        DeviceError: it has none that we know.
    """
    if looked.systemd:
        return Systemd(paths)
    if looked.supervisor is not None:
        return Supervisor(paths)
    raise DeviceError(
        f"{connection.place}: neither systemd runs it ({paths.systemd_running} is not there) nor is there a "
        "supervisorctl; deploy to a machine with one of them"
    )


def _unit_word(word: str) -> str:
    """Quote for a unit file (systemd.syntax(7), systemd.service(5)): % and $ would be expanded."""
    escaped = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("$", "$$")
    return f'"{escaped}"' if escaped != word or " " in word else word
