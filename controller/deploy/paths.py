"""Where an agent lives on a DPU. Tests and machines with another layout give their own."""

from __future__ import annotations

from dataclasses import dataclass

from controller.deploy.device.launcher import ISOLATED

SERVICE = "weighbridge-agent"


@dataclass(frozen=True, slots=True)
class DeployPaths:
    """Absolute paths on the device.

    Attributes:
        root: releases, settings, and the links ``current`` and ``etc`` to those in force.
        state: the agent's own: frame key, numbers, spool. Deployment never touches it.
        python: the interpreter that runs the agent.
        systemd_running: there if and only if systemd runs the machine (sd_booted(3)).
        systemd_units: where the unit goes.
        supervisor_services: where the service file goes on a machine with a plain supervisor.
        supervisor_logs: where such a supervisor writes a log a service.
    """

    root: str = "/opt/weighbridge"
    state: str = "/var/lib/weighbridge"
    python: str = "/usr/bin/python3"
    systemd_running: str = "/run/systemd/system"
    systemd_units: str = "/etc/systemd/system"
    supervisor_services: str = "/run/supervisor.d"
    supervisor_logs: str = "/var/log"

    @property
    def config(self) -> str:
        """The agent's configuration."""
        return f"{self.root}/etc/agent.json"

    @property
    def start_line(self) -> list[str]:
        """What runs the agent: isolated from the start, with nothing of the machine's own packages."""
        return self._line("run")

    @property
    def close_line(self) -> list[str]:
        """What closes the ports before the network comes up."""
        return self._line("close")

    def _line(self, command: str) -> list[str]:
        return [self.python, *ISOLATED, f"{self.root}/current/weighbridge-agent", command, "--config", self.config]
