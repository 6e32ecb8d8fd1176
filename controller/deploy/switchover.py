"""What is in force on a device, and how another state comes into force: forwards and, when that fails, back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from controller.deploy.install import Install
from controller.deploy.service import Service
from controller.errors import DeviceError

RESTART_TIMEOUT_S = 60.0


@dataclass(frozen=True, slots=True)
class InForce:
    """A state: where the links point (relative to the root), how the service is described; ``None``: not there."""

    current: str | None
    settings: str | None
    service: bytes | None

    @property
    def release(self) -> str | None:
        """The bundle's name in it."""
        return self.current.rpartition("/")[2] if self.current else None

    @property
    def settings_name(self) -> str | None:
        """The settings' name in it."""
        return self.settings.rpartition("/")[2] if self.settings else None


@final
class Switchover:
    """Brings states into force on one device."""

    def __init__(self, install: Install, service: Service) -> None:
        self._install, self._service = install, service

    def put(self, wanted: InForce, found: InForce) -> None:
        """Bring ``wanted`` into force where ``found`` is, and restart the service.

        1. Point the links, each by one rename.
        2. Replace the service's description where it differs.
        3. Restart; or, where no agent is wanted, stop the service and forget it first.

        Raises:
            DeviceError: it could not; part of it may be in force.
        """
        if wanted.current is None or wanted.service is None:
            self._install.must(self._service.remove, "removing the service", timeout_s=RESTART_TIMEOUT_S)
        self._install.point("etc", wanted.settings)
        self._install.point("current", wanted.current)
        if wanted.current is None or wanted.service is None:
            return
        if wanted.service != found.service:
            self._install.write(self._service.file, wanted.service)
        self._install.must(self._service.load, "reading the service's description")
        self._install.must(self._service.restart, "restarting the service", timeout_s=RESTART_TIMEOUT_S)

    def last_words(self) -> str:
        """Return the end of the service's log on one line, or why there is none; never raises."""
        try:
            text = self._install.must(self._service.last_words, "reading the service's log")
        except DeviceError as error:
            return f"could not be read ({error})"
        return " | ".join(line.strip() for line in text.strip().splitlines()[-8:])[-1500:] or "empty"
