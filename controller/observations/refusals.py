"""Leases that an agent refused, as its frames tell: each reason by its stable name, how often and in its words."""

from __future__ import annotations

from dataclasses import dataclass

from controller.crosscheck.model import Finding, FindingKind, Period
from controller.site import Dpu
from protos.v1 import frame_pb2

MAX_TEXT = 300


@dataclass(frozen=True, slots=True)
class _Refused:
    from_ns: int
    to_ns: int
    count: int
    text: str


class RefusalFindings:
    """Takes in an agent's frames in order. Counts are since the agent's start; a first frame's may be of any time."""

    def __init__(self, dpu: Dpu, period: Period) -> None:
        self._agent, self._node, self._period = dpu.name, dpu.node, period
        self._start: int | None = None
        self._counts: dict[str, int] = {}
        self._found: dict[str, _Refused] = {}

    def take(self, frame: frame_pb2.Frame, from_ns: int, to_ns: int) -> None:
        """Take in what ``frame`` says; it was made after ``from_ns`` and received by ``to_ns``."""
        first = self._start is None
        if self._start != frame.agent_start:
            self._start, self._counts = frame.agent_start, {}
        for each in frame.limits.refusals:
            more = each.count - self._counts.get(each.reason, 0)
            self._counts[each.reason] = each.count
            if first or more <= 0 or to_ns <= self._period.from_ns or from_ns > self._period.to_ns:
                continue
            before = self._found.get(each.reason, _Refused(from_ns, to_ns, 0, ""))
            self._found[each.reason] = _Refused(before.from_ns, to_ns, before.count + more, each.text[:MAX_TEXT])

    def findings(self) -> list[Finding]:
        """Return one for each reason."""
        return [
            Finding(
                FindingKind.LEASE_REFUSED,
                certain=False,
                text=f"{self._agent} refused {seen.count} for the reason {reason}, the last one since {seen.text}",
                node=self._node,
                from_ns=seen.from_ns,
                to_ns=seen.to_ns,
            )
            for reason, seen in self._found.items()
        ]
