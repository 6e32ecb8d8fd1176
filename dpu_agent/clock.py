"""The agent's clocks, behind one seam.

Every time in a frame is CLOCK_MONOTONIC of the DPU plus the configured offset: the kernel's own meters use that
clock, so counters and buckets stay comparable. Time daemons slew it: ntpd by up to 500 ppm, chrony by its
``maxslewrate`` (chrony.conf(5); 83333 ppm unless set). The site's ``clock_drift`` must cover what the DPU's daemon may
do; CLOCK_MONOTONIC_RAW, which nobody slews, is recorded beside it, so the controller can check. The wall clock is a
claim. Bounds on the offset to the controller's time come only from clock exchanges.
"""

from __future__ import annotations

import time
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from dpu_agent.errors import StateError

BOOT_ID_PATH = Path("/proc/sys/kernel/random/boot_id")


@dataclass(frozen=True, slots=True)
class Stamp:
    """The clocks read one after the other, monotonic first. All in nanoseconds."""

    boot_id: str
    monotonic_ns: int
    monotonic_raw_ns: int
    wall_ns: int


class Clock(Protocol):
    """What the agent asks of time."""

    @property
    def boot_id(self) -> str:
        """Names this boot; differs after every reboot."""

    def monotonic_ns(self) -> int:
        """CLOCK_MONOTONIC plus the offset: never goes back within a boot."""

    def wall_ns(self) -> int:
        """The wall clock, nanoseconds since 1970; may step."""

    def stamp(self) -> Stamp:
        """All clocks together."""


class SystemClock:
    """The DPU's own clocks.

    Raises:
        StateError: the kernel does not say which boot this is.
    """

    def __init__(self, offset_ns: int = 0, boot_id_path: Path = BOOT_ID_PATH) -> None:
        self._offset_ns = offset_ns
        try:
            self._boot_id = boot_id_path.read_text(encoding="ascii").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise StateError(
                f"{boot_id_path}: cannot be read ({error}); the agent needs /proc to be mounted"
            ) from error
        if not self._boot_id:
            raise StateError(f"{boot_id_path}: is empty; the agent cannot tell one boot from the next without it")
        if offset_ns:
            self._boot_id = str(uuid.uuid5(uuid.NAMESPACE_OID, f"{self._boot_id} {offset_ns}"))

    @property
    def boot_id(self) -> str:
        """As the kernel names it; with an offset a name of its own, since no clock jumps within a boot."""
        return self._boot_id

    def monotonic_ns(self) -> int:
        """CLOCK_MONOTONIC plus the offset."""
        return time.monotonic_ns() + self._offset_ns

    def wall_ns(self) -> int:
        """CLOCK_REALTIME."""
        return time.time_ns()

    def stamp(self) -> Stamp:
        """All clocks, read one after the other."""
        monotonic = self.monotonic_ns()
        raw = time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW) + self._offset_ns
        return Stamp(self._boot_id, monotonic, raw, self.wall_ns())


class ManualClock:
    """The double: time stands until it is moved."""

    def __init__(self, monotonic_ns: int = 1_000_000_000, wall_ns: int = 1_700_000_000_000_000_000) -> None:
        self.boot_id = "00000000-0000-4000-8000-000000000001"
        self._monotonic_ns = monotonic_ns
        self._wall_ns = wall_ns

    def advance(self, ns: int) -> None:
        """Let ``ns`` pass on every clock."""
        self._monotonic_ns += ns
        self._wall_ns += ns

    def set_wall(self, wall_ns: int) -> None:
        """Step the wall clock."""
        self._wall_ns = wall_ns

    def reboot(self, boot_id: str, monotonic_ns: int = 1_000_000_000) -> None:
        """Begin another boot: its monotonic clock starts anew."""
        self.boot_id, self._monotonic_ns = boot_id, monotonic_ns

    def monotonic_ns(self) -> int:
        """Where it stands."""
        return self._monotonic_ns

    def wall_ns(self) -> int:
        """Where it stands."""
        return self._wall_ns

    def stamp(self) -> Stamp:
        """All of it."""
        return Stamp(self.boot_id, self._monotonic_ns, self._monotonic_ns, self._wall_ns)
