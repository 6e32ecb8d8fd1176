"""When, on the controller's timeline, an agent's clock read a given time: always an interval.

An exchange is four stamps: the controller sends (T1), the agent receives (T2) and sends (T3), the controller
receives (T4). T1 and T4 are on the controller's timeline, T2 and T3 on the agent's CLOCK_MONOTONIC. Whatever the
network did, the agent's clock read T2 no earlier than T1 and read T3 no later than T4. Between exchanges the two
clocks run apart by no more than the declared drift, so each exchange bounds every other time too; all of them hold
at once (``bounds.md`` 8).

The drift is an assumption of the site file: how much faster or slower one clock may run than the other. Linux lets
NTP slew CLOCK_MONOTONIC by 500 ppm (``MAXFREQ``, kernel/time/ntp.c), so 1000 ppm covers both ends. A daemon that
slews harder (chrony may, up to 83,333 ppm) breaks the assumption; CLOCK_MONOTONIC_RAW, recorded beside each stamp,
is never slewed and shows it. Where the assumption is seen to be broken (an empty intersection, too much slew, a
controller that booted again) the *clock epoch* ends: drift is never carried across, only the order of events is.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

_SCALE = 1_000_000
"""Slopes are integers per million, so that every bound is exact."""

SLEW_READ_JITTER_NS = 5_000_000
"""CLOCK_MONOTONIC and its raw sister are read one after the other; a thread may lose the CPU in between."""


@dataclass(frozen=True, slots=True)
class Exchange:
    """One clock exchange, in ns.

    Attributes:
        sent_ns: T1, when the controller sent, on its timeline.
        agent_received_ns: T2, on the agent's CLOCK_MONOTONIC.
        agent_sent_ns: T3, on the agent's CLOCK_MONOTONIC.
        received_ns: T4, when the controller received, on its timeline.
        agent_raw_ns: the agent's CLOCK_MONOTONIC_RAW, read with T3; None where it is not known.
        controller_raw_ns: the controller's CLOCK_MONOTONIC_RAW, read with T4; None where it is not known.
        timeline: names the boot of the controller whose timeline T1 and T4 are on.

    Raises:
        ValueError: a stamp lies before the one it follows.
    """

    sent_ns: int
    agent_received_ns: int
    agent_sent_ns: int
    received_ns: int
    agent_raw_ns: int | None = None
    controller_raw_ns: int | None = None
    timeline: str = ""

    def __post_init__(self) -> None:
        if self.agent_sent_ns < self.agent_received_ns or self.received_ns < self.sent_ns:
            raise ValueError(f"a clock exchange whose stamps go backwards: {self}")


@dataclass(frozen=True, slots=True)
class ClockStep:
    """The end of one clock epoch and the start of the next, between two exchanges.

    ``after_ns`` and ``before_ns`` enclose it on the controller's timeline; ``reason`` is a phrase for a person.
    """

    after_ns: int
    before_ns: int
    reason: str


@dataclass(slots=True)
class _Slew:
    """Whether a clock kept within ``ppm`` of its raw sister, between every two of the stamps seen so far."""

    ppm: int
    _fast: int | None = None
    _slow: int | None = None

    def exceeded_by(self, clock_ns: int, raw_ns: int | None) -> bool:
        """Take one more stamp; True if the clock ran away from the raw clock since some earlier stamp."""
        if raw_ns is None:
            return False
        ahead = (clock_ns - raw_ns) * _SCALE
        fast, slow = ahead - self.ppm * raw_ns, ahead + self.ppm * raw_ns
        slack = SLEW_READ_JITTER_NS * _SCALE
        broken = (self._fast is not None and fast > self._fast + slack) or (
            self._slow is not None and slow < self._slow - slack
        )
        self._fast = fast if self._fast is None else min(self._fast, fast)
        self._slow = slow if self._slow is None else max(self._slow, slow)
        return broken


@dataclass(slots=True)
class _Epoch:
    """Exchanges in agent order that one bounded drift explains."""

    drift_ppm: int
    exchanges: list[Exchange] = field(default_factory=list)
    _low: int | None = None
    _high: int | None = None
    _agent_slew: _Slew = field(init=False)
    _controller_slew: _Slew = field(init=False)
    _received: list[int] = field(default_factory=list)
    _sent: list[int] = field(default_factory=list)
    _low_before: list[int] = field(default_factory=list)
    _low_after: list[int] = field(default_factory=list)
    _high_before: list[int] = field(default_factory=list)
    _high_after: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        # Half of the drift is each side's share; the sum of both is what the bounds use.
        self._agent_slew, self._controller_slew = _Slew(self.drift_ppm // 2), _Slew(self.drift_ppm // 2)

    def take(self, exchange: Exchange) -> str | None:
        """Add ``exchange`` and return None, or return why it cannot belong to this epoch."""
        slow, fast = _SCALE - self.drift_ppm, _SCALE + self.drift_ppm
        if self.exchanges and self.exchanges[-1].timeline != exchange.timeline:
            return "the controller booted again"
        low = _SCALE * exchange.sent_ns - slow * exchange.agent_received_ns
        low = low if self._low is None else max(low, self._low)
        if low + slow * exchange.agent_sent_ns > _SCALE * exchange.received_ns:
            return "the agent's clock jumped back, or the controller's forward"
        if self._high is not None and self._high + fast * exchange.agent_received_ns < _SCALE * exchange.sent_ns:
            return "the agent's clock fell behind: it stood still or was suspended"
        if self._agent_slew.exceeded_by(exchange.agent_sent_ns, exchange.agent_raw_ns):
            return "the agent's clock was slewed by more than the declared drift"
        if self._controller_slew.exceeded_by(exchange.received_ns, exchange.controller_raw_ns):
            return "the controller's clock was slewed by more than the declared drift"
        high = _SCALE * exchange.received_ns - fast * exchange.agent_sent_ns
        self._low, self._high = low, high if self._high is None else min(high, self._high)
        self.exchanges.append(exchange)
        return None

    def close(self) -> None:
        """Prepare the prefix and suffix extremes that :meth:`bounds` searches."""
        slow, fast = _SCALE - self.drift_ppm, _SCALE + self.drift_ppm
        received = [e.agent_received_ns for e in self.exchanges]
        sent = [e.agent_sent_ns for e in self.exchanges]
        self._received, self._sent = received, sent
        self._low_before = _running_max(_SCALE * e.sent_ns - slow * e.agent_received_ns for e in self.exchanges)
        self._high_before = _running_min(_SCALE * e.received_ns - fast * e.agent_sent_ns for e in self.exchanges)
        backwards = self.exchanges[::-1]
        self._low_after = _running_max(_SCALE * e.sent_ns - fast * e.agent_received_ns for e in backwards)[::-1]
        self._high_after = _running_min(_SCALE * e.received_ns - slow * e.agent_sent_ns for e in backwards)[::-1]

    def bounds(self, agent_ns: int) -> tuple[int, int]:
        slow, fast = _SCALE - self.drift_ppm, _SCALE + self.drift_ppm
        at = bisect_right(self._received, agent_ns)
        lows = []
        if at > 0:
            lows.append(self._low_before[at - 1] + slow * agent_ns)
        if at < len(self._received):
            lows.append(self._low_after[at] + fast * agent_ns)
        at = bisect_right(self._sent, agent_ns)
        highs = []
        if at > 0:
            highs.append(self._high_before[at - 1] + fast * agent_ns)
        if at < len(self._sent):
            highs.append(self._high_after[at] + slow * agent_ns)
        return max(lows) // _SCALE, -(-min(highs) // _SCALE)


class AgentClock:
    """One boot of one agent's CLOCK_MONOTONIC, as its exchanges bound it.

    Example: ``AgentClock(exchanges, drift_ppm=1000).interval(agent_ns)`` is ``(earliest_ns, latest_ns)``.

    Attributes:
        steps: where a clock epoch ended.
        went_backwards: the clock read less than it had before, in one boot. CLOCK_MONOTONIC cannot, so nothing
            this clock says can be placed, and :meth:`interval` returns None.
    """

    def __init__(self, exchanges: Iterable[Exchange], *, drift_ppm: int) -> None:
        """Split the exchanges into clock epochs and prepare each.

        1. Put the exchanges in the controller's order.
        2. Each one joins the epoch if the bounds so far and the slew seen so far allow it.
        3. Otherwise the epoch ends there: a step; the exchange begins the next.
        4. A clock that reads less than before ends all: there is no order left to rely on.

        Raises:
            ValueError: no exchange, or a drift outside [0, 1,000,000) ppm.
        """
        if not 0 <= drift_ppm < _SCALE:
            raise ValueError(f"a clock drift of {drift_ppm} ppm is not between 0 and {_SCALE} ppm")
        ordered = sorted(exchanges, key=lambda e: (e.sent_ns, e.received_ns))
        if not ordered:
            raise ValueError("a clock without an exchange has no bounds")
        self.went_backwards = any(after.agent_received_ns < before.agent_sent_ns for before, after in pairwise(ordered))
        self._epochs = [_Epoch(drift_ppm)]
        steps = []
        for exchange in ordered:
            reason = self._epochs[-1].take(exchange)
            if reason is None:
                continue
            if self._epochs[-1].exchanges:
                steps.append(ClockStep(self._epochs[-1].exchanges[-1].sent_ns, exchange.received_ns, reason))
                self._epochs.append(_Epoch(drift_ppm))
                self._epochs[-1].take(exchange)
            # An exchange that contradicts itself (the agent held it longer than it was away) says nothing.
        self._epochs = [epoch for epoch in self._epochs if epoch.exchanges]
        for epoch in self._epochs:
            epoch.close()
        self._starts = [epoch.exchanges[0].agent_received_ns for epoch in self._epochs]
        self.steps: Sequence[ClockStep] = tuple(steps)

    def interval(self, agent_ns: int) -> tuple[int, int] | None:
        """Return the earliest and latest time on the timeline at which the clock read ``agent_ns``.

        Inside an epoch, and before the first and after the last, the drift bound holds. Between two epochs only the
        order of events is used: after the last stamp of the one, before the first of the other. None if the clock
        cannot be placed at all.
        """
        if self.went_backwards or not self._epochs:
            return None
        at = bisect_right(self._starts, agent_ns)
        if at == 0:
            return self._epochs[0].bounds(agent_ns)
        before = self._epochs[at - 1]
        if at == len(self._epochs) or agent_ns <= before.exchanges[-1].agent_sent_ns:
            return before.bounds(agent_ns)
        return before.exchanges[-1].sent_ns, self._epochs[at].exchanges[0].received_ns

    def epoch_of(self, agent_ns: int) -> int | None:
        """Return the number of the clock epoch whose drift bound holds at ``agent_ns``; None between two of them."""
        if self.went_backwards or not self._epochs:
            return None
        at = max(0, bisect_right(self._starts, agent_ns) - 1)
        last = at == len(self._epochs) - 1
        return at if last or agent_ns <= self._epochs[at].exchanges[-1].agent_sent_ns else None

    def covers(self, agent_ns: int) -> bool:
        """Return whether ``agent_ns`` lies between the first and the last exchange: nothing is extrapolated."""
        if not self._epochs:
            return False
        return self._starts[0] <= agent_ns <= self._epochs[-1].exchanges[-1].agent_sent_ns


def _running_max(values: Iterable[int]) -> list[int]:
    out: list[int] = []
    for value in values:
        out.append(value if not out or value > out[-1] else out[-1])
    return out


def _running_min(values: Iterable[int]) -> list[int]:
    out: list[int] = []
    for value in values:
        out.append(value if not out or value < out[-1] else out[-1])
    return out
