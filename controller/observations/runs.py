"""When a controller was collecting: what lies outside is a gap that no device is to blame for."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from controller.crosscheck.model import Period
from controller.journal import Entry, Journal, Kind

COLLECTED = (Kind.FRAME, Kind.CLOCK, Kind.POLL, Kind.SCRAPE, Kind.ATTEMPT)
"""What only a run writes."""

_FIRST_LOOK_BACK_NS = 10_000_000_000


@dataclass(frozen=True, slots=True)
class Run:
    """One run. ``stopped`` is False for one that was killed, or that is still at work."""

    from_ns: int
    to_ns: int
    stopped: bool


def runs(journal: Journal, period: Period) -> list[Run]:
    """Return the runs that overlap ``period``, in order.

    A run ends where it was stopped. One that was killed ends with the last thing it wrote, and the one that is at work
    with the last thing written at all.
    """
    marks = list(journal.entries(kinds=[Kind.RUN_START, Kind.RUN_STOP]))
    found: list[Run] = []
    for index, mark in enumerate(marks):
        if mark.kind is not Kind.RUN_START:
            continue
        following = marks[index + 1] if index + 1 < len(marks) else None
        if following is not None and following.kind is Kind.RUN_STOP and _run_id(following) == _run_id(mark):
            found.append(Run(mark.recorded_ns, following.recorded_ns, stopped=True))
        else:
            end_ns = _last_written_ns(journal, mark, following)
            found.append(Run(mark.recorded_ns, end_ns, stopped=False))
    return [run for run in found if max(run.from_ns, period.from_ns) < min(run.to_ns, period.to_ns)]


def outside(stretch: tuple[int, int], found: Sequence[Run]) -> list[tuple[int, int]]:
    """Return what of ``stretch`` no run covers."""
    left, at = [], stretch[0]
    for run in found:
        if run.from_ns > at:
            left.append((at, min(run.from_ns, stretch[1])))
        at = max(at, run.to_ns)
        if at >= stretch[1]:
            break
    if at < stretch[1]:
        left.append((at, stretch[1]))
    return [(start, end) for start, end in left if start < end]


def inside(stretch: tuple[int, int], found: Sequence[Run]) -> list[tuple[int, int]]:
    """Return what of ``stretch`` some run covers."""
    cut = [(max(run.from_ns, stretch[0]), min(run.to_ns, stretch[1])) for run in found]
    return [(start, end) for start, end in cut if start < end]


def _run_id(entry: Entry) -> str:
    return str(json.loads(entry.body).get("run_id"))


def _last_written_ns(journal: Journal, start: Entry, following: Entry | None) -> int:
    """When the run that began with ``start`` wrote for the last time: look back from what followed, ever further."""
    until_ns = following.recorded_ns if following is not None else journal.last_recorded_ns() or start.recorded_ns
    back_ns = _FIRST_LOOK_BACK_NS
    while True:
        from_ns = max(start.recorded_ns, until_ns - back_ns)
        last = start.recorded_ns
        for entry in journal.entries(kinds=COLLECTED, from_leaf=start.leaf, from_ns=from_ns, to_ns=until_ns):
            last = max(last, entry.recorded_ns)
        if last > start.recorded_ns or from_ns <= start.recorded_ns:
            return last
        back_ns *= 4
