"""The agent's clocks, behind one seam.

Every time in a frame is CLOCK_MONOTONIC of the DPU plus the configured offset: the kernel's own meters use that
clock, so counters and buckets stay comparable. Time daemons slew it: ntpd by up to 500 ppm, chrony by its
``maxslewrate`` (chrony.conf(5); 83333 ppm unless set). The site's ``clock_drift`` must cover what the DPU's daemon may
do; CLOCK_MONOTONIC_RAW, which nobody slews, is recorded beside it, so the controller can check. The wall clock is a
claim. Bounds on the offset to the controller's time come only from clock exchanges.
"""

from __future__ import annotations

import ctypes
import enum
import time
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from dpu_agent.errors import StateError

_TIMEX_BYTES, _MAX_ERROR_AT, _TIME_ERROR = 208, 24, 5
BOOT_ID_PATH = Path("/proc/sys/kernel/random/boot_id")


class Sync(enum.Enum):
    """Whether a time daemon keeps the wall clock, as the kernel says."""

    UNKNOWN = "unknown"
    SYNCHRONISED = "synchronised"
    UNSYNCHRONISED = "unsynchronised"


@dataclass(frozen=True, slots=True)
class Stamp:
    """The clocks read one after the other, monotonic first. All in nanoseconds.

    Attributes:
        within_ns: all of it was read within this time of the monotonic clock, from ``monotonic_ns`` on.
        max_error_us: of the wall clock, as the kernel takes it; None where it is not synchronised.
    """

    boot_id: str
    monotonic_ns: int
    monotonic_raw_ns: int
    wall_ns: int
    within_ns: int = 0
    sync: Sync = Sync.UNKNOWN
    max_error_us: int | None = None


def wall_step_ns(before: Stamp | None, now: Stamp) -> int:
    """Return by how much the wall clock was certainly set between two stamps, at least; 0: it was not, for certain.

    A daemon that slews moves both clocks alike, so the wall clock less the monotonic one changes only by being set; how
    far the two can have been read apart is taken off.
    """
    if before is None or before.boot_id != now.boot_id:
        return 0
    moved = (now.wall_ns - now.monotonic_ns) - (before.wall_ns - before.monotonic_ns)
    if moved > now.within_ns:
        return moved - now.within_ns
    return min(0, moved + before.within_ns)


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
        self._offset_ns, self._kernel = offset_ns, _Timex()
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
        wall = self.wall_ns()
        within = self.monotonic_ns() - monotonic
        return Stamp(self._boot_id, monotonic, raw, wall, within, *self._kernel.sync())


class _Timex:
    """adjtimex(2), asked and never told anything."""

    def __init__(self) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)

    def sync(self) -> tuple[Sync, int | None]:
        """Return whether the wall clock is synchronised, and by how much it may be off, in microseconds."""
        # struct timex, linux/timex.h, of 64-bit machines: modes 0, so nothing is set.
        timex = ctypes.create_string_buffer(_TIMEX_BYTES)
        try:
            state = self._libc.adjtimex(timex)
        except AttributeError:  # a C library without it
            return Sync.UNKNOWN, None
        if state < 0 or ctypes.sizeof(ctypes.c_long) != 8:
            return Sync.UNKNOWN, None
        if state == _TIME_ERROR:
            return Sync.UNSYNCHRONISED, None
        return Sync.SYNCHRONISED, ctypes.c_long.from_buffer(timex, _MAX_ERROR_AT).value


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
