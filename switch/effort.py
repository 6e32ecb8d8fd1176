"""What reading switches costs and yields: requests, retries, latency, rows expected and got. Pure.

The figures are about this reader itself: a device that needs retries or answers slowly shows here before it fails.
"""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass, field
from typing import Any

from switch.ports import Poll

_LATENCIES_KEPT = 10_000


@dataclass(slots=True)
class Effort:
    """Counts over polls, from the polls themselves.

    Attributes:
        polls: looks taken.
        exchanges: questions that were answered.
        transmissions: messages sent for them; more than ``exchanges`` are retries.
        varbinds: bindings in the answers.
        octets: bytes of the answers.
        rows_expected: ports asked for.
        rows_got: ports read.
        missing: ports not read, by reason.
        latencies_ns: from first transmission to arrival, of the last questions.
        answering_ns: the sum of all latencies.
    """

    polls: int = 0
    exchanges: int = 0
    transmissions: int = 0
    varbinds: int = 0
    octets: int = 0
    rows_expected: int = 0
    rows_got: int = 0
    missing: Counter[str] = field(default_factory=Counter)
    latencies_ns: deque[int] = field(default_factory=lambda: deque(maxlen=_LATENCIES_KEPT))
    answering_ns: int = 0

    def add(self, poll: Poll) -> None:
        """Count one poll."""
        self.polls += 1
        self.rows_expected += len(poll.ports)
        self.rows_got += len(poll.samples)
        self.missing.update(fault.reason.value for fault in poll.faults)
        for exchange in poll.exchanges:
            self.exchanges += 1
            self.transmissions += exchange.attempts
            self.varbinds += len(exchange.varbinds)
            self.octets += len(exchange.datagram)
            self.latencies_ns.append(exchange.received_ns - exchange.first_sent_ns)
            self.answering_ns += self.latencies_ns[-1]

    @property
    def retries(self) -> int:
        """Transmissions beyond the first of each answered question."""
        return self.transmissions - self.exchanges

    def latency_ns(self, share: float) -> int | None:
        """Return the latency that ``share`` of the questions stayed within; None without an answer."""
        ordered = sorted(self.latencies_ns)
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else None

    def sentence(self) -> str:
        """Return the figures for a person."""
        lost = ", ".join(f"{count} {reason}" for reason, count in sorted(self.missing.items()))
        parts = [
            f"polls {self.polls}",
            f"questions answered {self.exchanges}",
            f"retries {self.retries}",
            f"rows read {self.rows_got} of {self.rows_expected}" + (f" ({lost})" if lost else ""),
        ]
        median, slow = self.latency_ns(0.5), self.latency_ns(0.99)
        if median is not None and slow is not None:
            parts.append(f"answers within {median / 1e6:.1f} ms (median), {slow / 1e6:.1f} ms (99 %)")
        return ", ".join(parts)

    def line(self, switch: str) -> dict[str, Any]:
        """Return the figures for a script: numbers that may pass 2**53 are decimal strings, times are ns."""
        median, slow = self.latency_ns(0.5), self.latency_ns(0.99)
        return {
            "v": 1,
            "switch": switch,
            "effort": {
                "polls": self.polls,
                "questions_answered": self.exchanges,
                "requests_sent": self.transmissions,
                "retries": self.retries,
                "varbinds": self.varbinds,
                "octets": str(self.octets),
                "rows_expected": self.rows_expected,
                "rows_got": self.rows_got,
                "rows_missing": dict(sorted(self.missing.items())),
                "latency_median_ns": None if median is None else str(median),
                "latency_99_percent_ns": None if slow is None else str(slow),
            },
        }
