"""One training job through the limiter: when its bytes pass, by the policer's own arithmetic. Pure.

The nodes of a job send at the same moments, so their buckets of that class have the same state: one of them is played.
:func:`protos.policer.admit` is what the kernel's program does, and is called here, not copied. A sender that always has
something to send keeps its bucket empty, so nothing it is given overflows, and what passes between two moments does not
depend on how it is cut into frames, but for the last one. That is why a stretch of sending is one call
(:meth:`Way.pass_until`, and the test that holds it against single frames).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction

from controller.planner.marks import PlanError
from controller.planner.volume import NodeBytes
from protos.policer import LONGEST_NS, Bucket, Limit, admit
from protos.units import NS_PER_S

MOST_PIECES = 200_000
"""Of one job; more would take minutes each."""
_CHUNK_NS = LONGEST_NS // 2


class Way:
    """One direction: its bucket, what waits before it, and how much passed until when."""

    def __init__(self, rate_bytes_per_s: int, depth_bytes: int) -> None:
        self._limit = Limit(rate_bytes_per_s, depth_bytes)
        # Full at the start: nothing was sent before.
        self._bucket = Bucket(rate=rate_bytes_per_s, tokens=depth_bytes)
        self._waiting = 0
        self.times_ns: list[int] = [0]
        self.passed_bytes: list[int] = [0]

    def offer(self, size: int, now_ns: int) -> int:
        """Begin to send ``size`` bytes; return when the last of them will have passed."""
        self._waiting += size
        self._mark(now_ns)
        self._take(self._limit, now_ns)
        self._mark(now_ns)
        return self._done_ns()

    def pass_until(self, end_ns: int) -> None:
        """Send what waits, without a pause, until ``end_ns``."""
        while self._waiting and self._bucket.last_ns < end_ns:
            now_ns = min(end_ns, self._done_ns(), self._bucket.last_ns + _CHUNK_NS)
            gained = self._limit.rate * (now_ns - self._bucket.last_ns) // NS_PER_S + 1
            # While something waits the bucket never fills, so its depth does not matter.
            self._take(replace(self._limit, depth=max(self._limit.depth, self._bucket.tokens + gained)), now_ns)
            self._mark(now_ns)
        self._mark(max(end_ns, self.times_ns[-1]))

    def _done_ns(self) -> int:
        """Return when the last byte that waits will have passed."""
        if self._waiting == 0:
            return self._bucket.last_ns
        lacking = (self._waiting - self._bucket.tokens) * NS_PER_S - self._bucket.remainder
        return self._bucket.last_ns - -lacking // self._limit.rate

    def _take(self, limit: Limit, now_ns: int) -> None:
        self._bucket = admit(self._bucket, limit, 0, now_ns)
        size = min(self._waiting, self._bucket.tokens)
        self._bucket = admit(self._bucket, limit, size, now_ns)
        self._waiting -= size

    def _mark(self, now_ns: int) -> None:
        self.times_ns.append(now_ns)
        self.passed_bytes.append(self._bucket.passed_bytes)


@dataclass(frozen=True, slots=True)
class Played:
    """What one node of a job moved: by time, how much had passed; and how long a round took on average."""

    up: Way
    down: Way
    rounds: int
    seconds_a_round: float


@dataclass(frozen=True, slots=True)
class Job:
    """What is played: bytes of a round in ``parts``, each after its share of ``compute_s``."""

    moved: NodeBytes
    compute_s: Fraction
    parts: int
    overlapped: bool
    rate_bytes_per_s: int
    depth_bytes: int


def play(job: Job, *, least_ns: int, least_rounds: int, factor: Callable[[], float]) -> Played:
    """Play a job until it lasted ``least_ns`` and finished ``least_rounds``; the first round is not counted.

    ``factor`` gives how long each stretch of computing takes, relative to its mean. Blocking: computing waits for the
    transfer. Overlapped: the next stretch is computed meanwhile, and the transfer after it waits for the one before.

    Raises:
        PlanError: it would be more than :data:`MOST_PIECES` transfers.
    """
    up, down = Way(job.rate_bytes_per_s, job.depth_bytes), Way(job.rate_bytes_per_s, job.depth_bytes)
    piece = job.moved.times(Fraction(1, job.parts))
    sizes = -int(-piece.up_bytes // 1), -int(-piece.down_bytes // 1)
    stretch_ns = job.compute_s * NS_PER_S / job.parts
    now_ns, busy_ns, pieces, first_ns = 0, 0, 0, 0
    while now_ns < least_ns or pieces < (least_rounds + 1) * job.parts:
        if pieces >= MOST_PIECES:
            raise PlanError(f"more than {MOST_PIECES} transfers in this time. Play a shorter time, or a longer step")
        computed_ns = now_ns + max(1, round(float(stretch_ns) * factor()))
        now_ns = max(computed_ns, busy_ns) if job.overlapped else computed_ns
        for way in (up, down):
            way.pass_until(now_ns)
        busy_ns = max(up.offer(sizes[0], now_ns), down.offer(sizes[1], now_ns))
        if not job.overlapped:
            for way in (up, down):
                way.pass_until(busy_ns)
            now_ns = busy_ns
        pieces += 1
        if pieces == job.parts:
            first_ns = now_ns
    rounds = pieces / job.parts - 1
    return Played(up, down, int(rounds), (now_ns - first_ns) / NS_PER_S / rounds)
