"""Why there is no meter: the agent runs on without it, on port totals, and says which of these it was."""

from __future__ import annotations

import enum


class NoMeter(enum.Enum):
    """Stable names; they stand in frames and in the agent's description."""

    SWITCHED_OFF = "switched-off"
    NO_LIBRARY = "no-libbpf"
    NO_OBJECT = "no-object"
    NO_PERMISSION = "no-permission"
    NO_BPF_FILE_SYSTEM = "no-bpffs"
    REFUSED = "kernel-refused"
    NO_PORT = "no-port"
    NOT_ATTACHED = "not-attached"


class MeterUnavailableError(Exception):
    """The meter of a port cannot run; ``str()`` says why and what to do."""

    def __init__(self, why: NoMeter, text: str) -> None:
        self.why = why
        super().__init__(text)


class PortInUseError(Exception):
    """Another agent meters this port."""
