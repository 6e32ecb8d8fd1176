"""Stretches in which an observer gave no reading, and who was not looking.

Between two readings further apart than the site allows, and at the edges of the period, there is a reason to be found
in the journal. In this order:

- ``controller-stopped``: no run was collecting;
- ``device-silent``: the device could be reached and gave nothing (it answered something else, refused, or was not
  running), or did not answer while others did;
- ``network-cut``: the controller looked, and no device at all answered;
- ``not-polled``: the controller was at work, and nothing says that it looked here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from itertools import pairwise

from controller.collect.attempts import NOT_REACHED, Attempt
from controller.crosscheck.model import Period, Silence
from controller.journal import Journal, Kind
from controller.observations.runs import Run, inside, outside
from controller.observations.series import Note

CONTROLLER_STOPPED = "controller-stopped"
NETWORK_CUT = "network-cut"
DEVICE_SILENT = "device-silent"
NOT_POLLED = "not-polled"

_ANSWERS = (Kind.CLOCK, Kind.POLL, Kind.SCRAPE, Kind.FRAME)
_MOST_ANSWERS_LOOKED_AT = 2_000
_LATE_ATTEMPT_NS = 60_000_000_000
"""A look that began in the period may be given up, and so journaled, this much after it."""
_NOT_REACHED = {reason.value for reason in NOT_REACHED}


class Silences:
    """Explains gaps; made once for a journal and period, asked for each observer."""

    def __init__(self, journal: Journal, period: Period, found: Sequence[Run], *, longest_gap_ns: int) -> None:
        """``found`` are the runs; ``longest_gap_ns`` is how far apart readings may be without being a gap."""
        self._journal, self._period, self._runs = journal, period, found
        self._longest_gap_ns = longest_gap_ns
        self._attempts: dict[str, list[Attempt]] = {}

    def of(self, source: str, moments: Sequence[int], notes: Collection[Note] = ()) -> tuple[Silence, ...]:
        """Return the silences of an observer whose readings were made at ``moments`` (ns, in order).

        ``source`` is the journal's name of the device that it is read from.
        """
        return tuple(silence for gap in self._gaps(moments) for silence in self._explain(source, gap, notes))

    def _gaps(self, moments: Sequence[int]) -> list[tuple[int, int]]:
        """Stretches without a reading: longer than allowed between two, of any length at the period's edges."""
        period = self._period
        before = max((at for at in moments if at <= period.from_ns), default=None)
        after = min((at for at in moments if at >= period.to_ns), default=None)
        marks = [at for at in moments if period.from_ns < at < period.to_ns]
        gaps = [
            (a, b)
            for a, b in pairwise(
                [period.from_ns if before is None else before, *marks, period.to_ns if after is None else after]
            )
            if b - a > self._longest_gap_ns
        ]
        if before is None and marks and marks[0] - period.from_ns <= self._longest_gap_ns:
            gaps.insert(0, (period.from_ns, marks[0]))
        if after is None and marks and period.to_ns - marks[-1] <= self._longest_gap_ns:
            gaps.append((marks[-1], period.to_ns))
        return [(max(a, period.from_ns), min(b, period.to_ns)) for a, b in gaps]

    def _explain(self, source: str, gap: tuple[int, int], notes: Collection[Note]) -> list[Silence]:
        found = [
            Silence(start, end, CONTROLLER_STOPPED, "no controller was collecting")
            for start, end in outside(gap, self._runs)
        ]
        found += [self._who(source, start, end, notes) for start, end in inside(gap, self._runs)]
        return sorted(found, key=lambda silence: silence.from_ns)

    def _who(self, source: str, start: int, end: int, notes: Collection[Note]) -> Silence:
        """Who was not looking while a run was at work."""
        noted = dict.fromkeys(note.text for note in notes if note.from_ns < end and note.to_ns > start)
        failed = [each for each in self._of(source) if each.first_sent_ns < end and each.gave_up_ns > start]
        own, others = self._answered(source, start, end)
        if noted:
            return Silence(start, end, DEVICE_SILENT, "; ".join(noted))
        if not failed and own and end - start > self._longest_gap_ns:
            return Silence(start, end, DEVICE_SILENT, f"{source} answered, but not with this counter")
        if not failed:
            due = end - start > self._longest_gap_ns
            text = f"nothing says that {source} was looked at" if due else "no look was due in so short a time"
            return Silence(start, end, NOT_POLLED, text)
        reason, count = Counter(each.reason for each in failed).most_common(1)[0]
        text = next(each.text for each in failed if each.reason == reason)
        said = f"{count} of {len(failed)} failed looks were {reason}: {text}"
        if reason not in _NOT_REACHED or own:
            return Silence(start, end, DEVICE_SILENT, said)
        if others:
            also = f"meanwhile {others[0]} answered: {source} or its own way was down"
            return Silence(start, end, DEVICE_SILENT, f"{said}; {also}")
        return Silence(start, end, NETWORK_CUT, f"{said}; nothing else answered either")

    def _of(self, source: str) -> list[Attempt]:
        if source not in self._attempts:
            entries = self._journal.entries(
                kinds=[Kind.ATTEMPT],
                source=source,
                from_ns=self._period.from_ns,
                to_ns=self._period.to_ns + _LATE_ATTEMPT_NS,
            )
            self._attempts[source] = [Attempt.of(entry) for entry in entries]
        return self._attempts[source]

    def _answered(self, source: str, start: int, end: int) -> tuple[bool, list[str]]:
        """Whether ``source`` itself, and which other device, gave the controller anything in the stretch."""
        own = False
        others: list[str] = []
        entries = self._journal.entries(kinds=_ANSWERS, from_ns=start + 1, to_ns=end - 1)
        for looked_at, entry in enumerate(entries):
            if entry.source == source:
                # Not the reading that begins the stretch, which is recorded a moment after it was read.
                own = own or int(str(entry.meta.get("first_sent_ns", entry.recorded_ns))) > start
            elif not others:
                others.append(entry.source)
            if (own and others) or looked_at >= _MOST_ANSWERS_LOOKED_AT:
                break
        return own, others
