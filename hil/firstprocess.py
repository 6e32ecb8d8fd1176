"""A process that must not be taken for a later one with the same number: a machine's first, a rig's owner."""

from __future__ import annotations

import contextlib
import os
import select
import signal
from dataclasses import dataclass
from pathlib import Path

from hil import enter
from hil.errors import RigError

_LONGEST_DEATH_S = 10.0


@dataclass(frozen=True)
class FirstProcess:
    """A machine's first process, told from a later one with the same number by its start time."""

    pid: int
    start_time: str

    def open(self) -> int | None:
        """Return a pidfd of it, or None if it is gone."""
        try:
            handle = os.pidfd_open(self.pid)
        except ProcessLookupError:
            return None
        try:
            if enter.start_time(self.pid) == self.start_time and not _is_zombie(self.pid):
                return handle
        except (FileNotFoundError, ProcessLookupError):
            pass  # it ended between the two calls
        os.close(handle)
        return None

    def is_alive(self) -> bool:
        """Return whether it still runs."""
        handle = self.open()
        if handle is not None:
            os.close(handle)
        return handle is not None

    def end(self, *, grace_s: float = 0.0) -> None:
        """End it, and with it everything in its PID namespace: SIGTERM and ``grace_s`` first, then SIGKILL.

        Raises:
            RigError: it is still there ten seconds after SIGKILL.
        """
        handle = self.open()
        if handle is None:
            return
        try:
            for number, wait_s in ((signal.SIGTERM, grace_s), (signal.SIGKILL, _LONGEST_DEATH_S)):
                if wait_s <= 0:
                    continue
                with contextlib.suppress(ProcessLookupError):
                    signal.pidfd_send_signal(handle, number)
                if select.select([handle], [], [], wait_s)[0]:
                    return
        finally:
            os.close(handle)
        raise RigError(f"process {self.pid} does not end {_LONGEST_DEATH_S:g} s after SIGKILL; is its disk stuck?")


def _is_zombie(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()[0] == "Z"
