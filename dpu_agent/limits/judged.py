"""What the policer passed and dropped in each bucket of time, drained from the ring of the meter's program.

The ring is never cleared: a slot says which bucket it holds. A bucket is read once it has been over for a while, so
that a frame whose clock was read in it has been judged; what is judged later still is in the totals only.
"""

from __future__ import annotations

import mmap
import os
from pathlib import Path

from dpu_agent.limits.order import LimitClass
from dpu_agent.meter.layout import JUDGED_WORDS, WORD
from dpu_agent.meter.libbpf import LibBpf
from protos.buckets import CLASSES

SETTLE_NS = 2_000_000
"""A frame is judged within this time of its clock being read, unless its processor is taken away meanwhile."""


class JudgedRing:
    """One port's ring, mapped read-only."""

    def __init__(self, library: LibBpf, pin: Path, width_ns: int, now_ns: int) -> None:
        """Map what is pinned at ``pin``; buckets are told from ``now_ns`` on.

        Raises:
            OSError: it is not there.
        """
        self.width_ns = width_ns
        descriptor = library.pinned(str(pin))
        try:
            entries = library.map_info(descriptor).entries
            self._mapping = mmap.mmap(descriptor, entries * JUDGED_WORDS * WORD, mmap.MAP_SHARED, mmap.PROT_READ)
        finally:
            os.close(descriptor)
        self._words = memoryview(self._mapping).cast("Q")
        self._slots = entries // len(CLASSES)
        self._next = now_ns // width_ns

    def drain(self, now_ns: int) -> tuple[int, int, dict[LimitClass, tuple[tuple[int, int, int], ...]]]:
        """Return the first bucket told, how many, and those that are not empty, by class.

        Of a ring that was not drained for longer than it is deep, only what it still holds is told.
        """
        end = (now_ns - SETTLE_NS) // self.width_ns
        # Half of the ring: what is being written now must not lie in what is read.
        first = max(self._next, end - self._slots // 2)
        if end <= first:
            return first, 0, {}
        self._next = end
        found = {}
        for each in LimitClass:
            buckets = tuple(self._read(each, first, end))
            if buckets:
                found[each] = buckets
        return first, end - first, found

    def close(self) -> None:
        """Unmap."""
        self._words.release()
        self._mapping.close()

    def _read(self, traffic_class: LimitClass, first: int, end: int) -> list[tuple[int, int, int]]:
        base, found = traffic_class * self._slots, []
        at = first
        while at < end:
            slot = at % self._slots
            run = min(end - at, self._slots - slot)
            words = self._words[(base + slot) * JUDGED_WORDS : (base + slot + run) * JUDGED_WORDS].tolist()
            for number in range(run):
                index, passed, dropped = words[number * JUDGED_WORDS : number * JUDGED_WORDS + 3]
                if index == at + number:
                    found.append((index, passed, dropped))
            at += run
        return found
