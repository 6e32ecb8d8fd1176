"""Judges whether what the meter counts is all that passes the port. Pure.

Two questions, each second:

1. Is the hook as installed? The meter's own program, by number and tag, is the first thing a received frame meets: no
   XDP program, no tcx program, no filter before it. Else ``hook-bypassed``.
2. Did the port count more than the meter saw? The driver counts a frame before the hook does, so, from the moment the
   meter was attached, the port's counter less the meter's can only be frames on their way or frames that never came to
   the hook. Frames on their way a second ago have arrived by now: what is missing then is missing for certain. What is
   missing now may be on its way, up to what the kernel queues. Growth of either is ``offloaded-traffic-unmetered``.

3. Where the card has offload statistics (a representor of its switch): did it receive more than came to the CPU? The
   card's count may be old, so it is less by what came since: had nothing been offloaded, by no more than came to the
   CPU in that time. Whatever it is more is ``offloaded-traffic-unmetered``, too (:class:`Offloads`).

Packets decide, since drivers differ in which bytes of a frame they count.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from dpu_agent.meter.hooks import Chain, Offload
from dpu_agent.meter.libbpf import ProgramId
from protos.buckets import Totals

HOOK_BYPASSED = "hook-bypassed"
OFFLOADED = "offloaded-traffic-unmetered"
HOOK_LOST = "hook-lost"
IN_FLIGHT_PACKETS = 4_096
"""Most frames between driver and hook at once: net.core.netdev_max_backlog is 1000 a CPU unless set; a few CPUs."""
STALE_LOOKS = 3
"""A look a second: mlx5 serves the copy that the read before had fetched, and fetches once a second (en_rep.c)."""
_PPM = 1_000_000


@dataclass(frozen=True, slots=True)
class Look:
    """The port's received packets and bytes, and the meter's totals read just after them."""

    packets: int
    bytes: int
    metered: Totals


@dataclass(frozen=True, slots=True)
class Verdict:
    """What an audit found. ``installed``: whether the meter is at its hook at all."""

    installed: bool
    findings: tuple[str, ...] = ()
    texts: tuple[str, ...] = ()
    unmetered_packets: int = 0
    unmetered_bytes: int = 0
    offloaded_ppm: int = 0


class Offloads:
    """Follows a card's offload statistics."""

    def __init__(self) -> None:
        self._looks: deque[Offload] = deque(maxlen=STALE_LOOKS + 1)
        self._most: int | None = None

    def grown(self, look: Offload) -> int:
        """Return how many packets were certainly offloaded since that was last told; 0 if none for certain.

        ``received`` less ``by_cpu`` is what was offloaded, less what ``received`` does not know of yet. So, while
        nothing is offloaded, no look shows more than any look before it plus what came to the CPU in the
        :data:`STALE_LOOKS` looks up to that one.
        """
        shown = look.received - look.by_cpu
        grown = 0 if self._most is None else max(0, shown - self._most)
        self._looks.append(look)
        if grown:
            self._most = shown
        elif len(self._looks) > STALE_LOOKS:
            most = shown + look.by_cpu - self._looks[0].by_cpu
            self._most = most if self._most is None else min(self._most, most)
        return grown


@dataclass(slots=True)
class Audit:
    """Follows one attachment. ``base`` is read the other way round: the meter first, then the port."""

    base: Look
    before: Look | None = None
    _unmetered: int = field(default=0)
    _offloads: Offloads = field(default_factory=Offloads)

    def judge(self, chain: Chain, installed: ProgramId, look: Look) -> Verdict:
        """Return what ``chain`` and ``look`` say, read together."""
        bypassed = in_front(chain, installed)
        present = any((each.number, each.tag) == (installed.number, installed.tag) for each in chain.filters)
        findings, texts = [], []
        if bypassed:
            findings.append(HOOK_BYPASSED)
            texts.append(bypassed)
        packets, octets = self._missing(look)
        ppm = 0
        if packets > self._unmetered:
            self._unmetered = packets
            findings.append(OFFLOADED)
            texts.append(
                f"the port counted at least {packets} packets since the meter was attached that never came to it"
            )
            ppm = self._share(look)
        offloaded = 0 if chain.offload is None else self._offloads.grown(chain.offload)
        if offloaded and OFFLOADED not in findings:
            findings.append(OFFLOADED)
            texts.append(f"the card forwarded at least {offloaded} packets that never came to the CPU")
            ppm = self._share(look)
        self.before = look
        return Verdict(present, tuple(findings), tuple(texts), self._unmetered, max(0, octets), ppm)

    def _missing(self, look: Look) -> tuple[int, int]:
        """Packets and bytes that the port certainly counted and the meter did not; not below 0 for packets."""
        seen = look.metered.segments - self.base.metered.segments
        octets = look.metered.wire_bytes - self.base.metered.wire_bytes
        packets = look.packets - self.base.packets - seen - IN_FLIGHT_PACKETS
        if self.before is not None:
            packets = max(packets, self.before.packets - self.base.packets - seen)
        return max(0, packets), look.bytes - self.base.bytes - octets

    def _share(self, look: Look) -> int:
        before = self.before or self.base
        counted = look.bytes - before.bytes
        missed = counted - (look.metered.raw_bytes - before.metered.raw_bytes)
        return min(_PPM, max(0, missed * _PPM // counted)) if counted > 0 else _PPM


def in_front(chain: Chain, installed: ProgramId) -> str:
    """Return, as a sentence, what a frame meets before the meter; empty if nothing."""
    found = []
    if chain.xdp:
        found.append("an XDP program" + (f" (number {chain.xdp})" if chain.xdp > 0 else "s of several modes"))
    if chain.tcx:
        found.append(f"tcx programs ({', '.join(str(number) for number in chain.tcx)})")
    for each in chain.filters:
        if (each.number, each.tag) == (installed.number, installed.tag):
            break
        what = f"{each.kind} filter" + (f" (program {each.number}, {each.name or 'no name'})" if each.number else "")
        found.append(f"a {what} of preference {each.preference}")
    else:
        return "the meter is not at its hook"
    return f"in front of the meter: {'; '.join(found)}" if found else ""
