"""What passed and what was dropped in load windows, held against their budgets.

While a window is open its slots are under its load lease until the budget is used up. What the limiter drops after
that, with the window's time still running, was sent beyond the budget: towards the node an overrun, the other way
reverse traffic. What passed beyond it is certain, what was only dropped is not: it never arrived.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from controller.crosscheck.model import Finding, FindingKind, Period
from controller.journal import Journal, Kind
from controller.loads.window import Opened, grants_of, windows_in
from controller.site import Dpu
from protos.lease import Slot
from protos.reading import Direction
from protos.units import format_bytes
from protos.v1 import lease_pb2

_KINDS = {
    Direction.INGRESS: FindingKind.LOAD_WINDOW_OVERRUN,
    Direction.EGRESS: FindingKind.LOAD_WINDOW_REVERSE_TRAFFIC,
}


def load_budgets(journal: Journal, period: Period) -> dict[tuple[str, Direction], int]:
    """Return what load windows that touch ``period`` let each node move in each direction, in bytes.

    Raises:
        EvidenceError: a journaled load window cannot be read.
    """
    found: dict[tuple[str, Direction], int] = {}
    for opened in windows_in(journal.entries(kinds=[Kind.LOAD_WINDOW], to_ns=period.to_ns)):
        if opened.end_ns > period.from_ns and opened.opened_ns <= period.to_ns:
            for direction in Direction:
                key = (opened.node, direction)
                found[key] = found.get(key, 0) + opened.window.most_bytes(direction)
    return found


@dataclass(slots=True)
class _Seen:
    """One slot in one window: the newest counters, and what was beyond the budget."""

    window: Opened
    volume_bytes: int
    was_loading: bool = False
    dropped_bytes: int | None = None
    beyond_bytes: int = 0
    passed_beyond_bytes: int = 0
    from_ns: int = 0
    to_ns: int = 0


class LoadFindings:
    """Takes in looks at limiters in order."""

    def __init__(self, dpu: Dpu, period: Period, windows: Sequence[Opened]) -> None:
        self._agent, self._node = dpu.name, dpu.node
        self._seen: dict[Slot, list[_Seen]] = {}
        for window in windows:
            if window.end_ns <= period.from_ns or window.opened_ns > period.to_ns:
                continue
            for grant, volume_bytes in grants_of(window, dpu.uplink(window.uplink)):
                self._seen.setdefault(grant.slot, []).append(_Seen(window, volume_bytes))

    def take(self, slot: Slot, reading: lease_pb2.LimiterReading, from_ns: int, to_ns: int) -> None:
        """Take in one look, made after ``from_ns`` and received by ``to_ns`` (timeline)."""
        for seen in self._seen.get(slot, ()):
            if from_ns < seen.window.opened_ns or to_ns > seen.window.end_ns:
                continue
            loading = reading.state.kind == lease_pb2.LEASE_KIND_LOAD
            seen.was_loading = seen.was_loading or loading
            dropped = reading.counters.dropped_bytes
            before = seen.dropped_bytes
            seen.dropped_bytes = dropped
            beyond = dropped - before if before is not None and seen.was_loading and not loading else 0
            over = reading.state.used_bytes - seen.volume_bytes if loading else 0
            if beyond > 0 or over > 0:
                seen.from_ns, seen.to_ns = seen.from_ns or from_ns, to_ns
                seen.beyond_bytes += max(0, beyond)
                seen.passed_beyond_bytes = max(seen.passed_beyond_bytes, over)

    def findings(self) -> list[Finding]:
        """Return one for each window and direction that was not kept."""
        return [
            self._finding(slot, seen)
            for slot, several in self._seen.items()
            for seen in several
            if seen.beyond_bytes or seen.passed_beyond_bytes
        ]

    def _finding(self, slot: Slot, seen: _Seen) -> Finding:
        what = "back" if slot.direction is Direction.EGRESS else "in"
        parts = []
        if seen.passed_beyond_bytes:
            parts.append(f"{format_bytes(seen.passed_beyond_bytes)} more passed")
        if seen.beyond_bytes:
            parts.append(f"{format_bytes(seen.beyond_bytes)} more were sent and dropped")
        return Finding(
            _KINDS[slot.direction],
            certain=seen.passed_beyond_bytes > 0,
            text=(
                f"{self._agent}, {slot}: load window {seen.window.window.number} allowed "
                f"{format_bytes(seen.volume_bytes)} {what}; {' and '.join(parts)}"
            ),
            node=self._node,
            direction=slot.direction,
            bytes_at_least=seen.passed_beyond_bytes or seen.beyond_bytes,
            from_ns=seen.from_ns,
            to_ns=seen.to_ns,
        )
