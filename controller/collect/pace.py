"""When to look next: a steady interval from a random phase, and a growing, scattered wait after failures.

A random phase keeps many devices from being asked in the same millisecond, and the asked from knowing when.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

NS_PER_S = 1_000_000_000

FIRST_WAIT_S = 0.5
LONGEST_WAIT_S = 15.0
"""A device that comes back is noticed within a quarter of a minute; one that is gone costs four looks a minute."""


@dataclass(slots=True)
class Backoff:
    """Waits after failures: doubling, each drawn from the upper half of its range so that many do not meet."""

    rng: Random
    first_s: float = FIRST_WAIT_S
    longest_s: float = LONGEST_WAIT_S
    _failures: int = 0

    def reset(self) -> None:
        """Something worked."""
        self._failures = 0

    def next_s(self) -> float:
        """Something failed: seconds to wait."""
        longest = min(self.longest_s, self.first_s * 2.0 ** min(self._failures, 16))
        self._failures += 1
        return self.rng.uniform(longest / 2, longest)


@dataclass(slots=True)
class Steady:
    """Start times ``interval_ns`` apart. One that cannot be kept, because the look before lasted, is left out."""

    interval_ns: int
    rng: Random
    _next_ns: int | None = field(default=None)

    def wait_s(self, now_ns: int) -> float:
        """Return the seconds to wait until the next start. The first is anywhere within one interval."""
        if self._next_ns is None:
            self._next_ns = now_ns + self.rng.randrange(self.interval_ns)
        else:
            behind = max(0, now_ns - self._next_ns)
            self._next_ns += self.interval_ns * (1 + behind // self.interval_ns)
        return max(0, self._next_ns - now_ns) / NS_PER_S
