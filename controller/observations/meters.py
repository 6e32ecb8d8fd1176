"""What agents found in the way of their in-kernel meters and of their clocks, as findings: which port, what, when.

An agent audits each second that its meter is the first thing a frame meets, and that the port counted no more than the
meter saw. Where it did not hold, the millisecond series of that time is not all that passed; the port's own totals are
what bounds and laws rest on, and they stand.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from controller.crosscheck.model import Finding, FindingKind, Period
from protos.units import format_duration
from protos.v1 import frame_pb2

_KINDS = {
    "hook-bypassed": FindingKind.HOOK_BYPASSED,
    "offloaded-traffic-unmetered": FindingKind.OFFLOADED_TRAFFIC_UNMETERED,
}


@dataclass(frozen=True, slots=True)
class _Seen:
    from_ns: int
    to_ns: int
    frames: int
    text: str
    bytes: int


class MeterFindings:
    """Takes in frames in order; neighbouring seconds of one port and kind are one finding."""

    def __init__(self, agent: str, node: str, period: Period) -> None:
        self._agent, self._node, self._period = agent, node, period
        self._open: dict[tuple[str, FindingKind], _Seen] = {}
        self._closed: list[tuple[tuple[str, FindingKind], _Seen]] = []
        self._set: list[Finding] = []

    def take(self, frame: frame_pb2.Frame, from_ns: int, to_ns: int) -> None:
        """Take in what ``frame`` says; it was made after ``from_ns`` and received by ``to_ns``."""
        if to_ns <= self._period.from_ns or from_ns > self._period.to_ns:
            return
        if frame.clock.wall_step_ns:
            self._set.append(self._clock_set(frame.clock.wall_step_ns, from_ns, to_ns))
        for meter in frame.meters:
            said = dict(zip(meter.audit.findings, meter.audit.texts, strict=False))
            for name, kind in _KINDS.items():
                key = (meter.port, kind)
                before = self._open.get(key)
                if name not in said:
                    if before is not None:
                        self._closed.append((key, self._open.pop(key)))
                    continue
                unmetered = meter.audit.unmetered_bytes if kind is FindingKind.OFFLOADED_TRAFFIC_UNMETERED else 0
                if before is None:
                    self._open[key] = _Seen(from_ns, to_ns, 1, said[name], unmetered)
                else:
                    self._open[key] = replace(
                        before, to_ns=to_ns, frames=before.frames + 1, text=said[name], bytes=unmetered
                    )

    def findings(self) -> list[Finding]:
        """Return them in order of time. None is certain: a meter in doubt proves nothing against anybody."""
        found = [*self._closed, *self._open.items()]
        return [
            *self._set,
            *self._in_the_way(found),
        ]

    def _clock_set(self, step_ns: int, from_ns: int, to_ns: int) -> Finding:
        way = "forward" if step_ns > 0 else "back"
        return Finding(
            FindingKind.AGENT_CLOCK_SET,
            certain=False,
            text=(
                f"{self._agent}: its wall clock was set {way} by at least {format_duration(abs(step_ns))}; "
                "readings and verdicts are on clocks that nobody sets, and stand"
            ),
            node=self._node,
            from_ns=from_ns,
            to_ns=to_ns,
        )

    def _in_the_way(self, found: list[tuple[tuple[str, FindingKind], _Seen]]) -> list[Finding]:
        return [
            Finding(
                kind,
                certain=False,
                text=(
                    f"{self._agent}, port {port}: {seen.text}; in {seen.frames} frames. "
                    "The millisecond series of that time is not all that passed; the port's totals stand"
                ),
                node=self._node,
                bytes_at_least=seen.bytes or None,
                from_ns=seen.from_ns,
                to_ns=seen.to_ns,
            )
            for (port, kind), seen in sorted(found, key=lambda item: (item[1].from_ns, item[0][0]))
        ]
