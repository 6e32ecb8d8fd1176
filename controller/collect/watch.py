"""Evaluates rules and detectors while a run collects: as entries reach the disk, in a thread of its own.

1. First the past that still counts is taken from the journal: the rules' longest window frame by frame, the detectors'
   two days a minute at a time. What comes meanwhile waits.
2. Then whatever was just written, and every second the clock: who has fallen silent, which load windows were opened.
3. What changed is said, and told to every receiver.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from controller.alerts.alert import Explaining, alert_of
from controller.alerts.alertsfile import Receiver
from controller.alerts.send import Teller, tellers
from controller.collect.narrator import Narrator
from controller.errors import EvidenceError
from controller.journal import Journal, Kind, NewEntry
from controller.rules.evaluator import Evaluator
from controller.rules.rule import Rules
from controller.rules.shapestream import MEMORY_BINS, STEP_NS
from controller.rules.tally import Change
from controller.rules_history import around_ns, minutes
from controller.rules_intake import KINDS, Intake, places_of
from controller.rulesfile import load_rules
from controller.site import Site
from controller.timeline import Timeline

TICK_S = 1.0
MOST_WAITING = 200_000
"""Entries that wait to be evaluated; beyond that the oldest are left out, and it is said."""
MOST_RETOLD = 200_000
"""Entries taken from the journal one by one when a run begins: a minute's work at the most."""
_LIVE = frozenset({Kind.FRAME, Kind.CLOCK, Kind.POLL})


@dataclass(frozen=True, slots=True)
class Watching:
    """What a run watches by, and whom it tells. ``rules`` are the defaults when absent."""

    rules: Rules | None = None
    rules_file: Path | None = None
    receivers: tuple[Receiver, ...] = ()


@asynccontextmanager
async def watched(  # noqa: PLR0917  what a run has
    site: Site, watching: Watching, journal: Journal, narrator: Narrator, timeline: Timeline, rng: Random
) -> AsyncIterator[Watch]:
    """Yield the watch of a run, with its receivers; at the end they are told what is left to tell."""
    rules = load_rules(None) if watching.rules is None else watching.rules

    def wall_ns() -> int:
        return timeline.now_ns() + timeline.clock_error_ns()

    async with tellers(watching.receivers, narrator=narrator, now_ns=wall_ns, rng=rng) as told:
        explaining = Explaining(
            site.path.resolve(), watching.rules_file, rules.longest_window_ns, wall_ahead_ns=timeline.clock_error_ns()
        )
        watch = Watch(site, rules, journal, narrator, timeline.now_ns, tellers=told, explaining=explaining)
        try:
            yield watch
        finally:
            for teller in told:
                await teller.finish()


class Watch:
    """The rules of one run. ``explaining`` makes the command that each alert carries."""

    def __init__(
        self,
        site: Site,
        rules: Rules,
        journal: Journal,
        narrator: Narrator,
        now_ns: Callable[[], int],
        *,
        tellers: Sequence[Teller] = (),
        explaining: Explaining,
    ) -> None:
        """The journal is only read here. ``now_ns`` is the timeline."""
        self._site, self._rules, self._journal = site, rules, journal
        self._narrator, self._now_ns = narrator, now_ns
        self._tellers, self._explaining = tellers, explaining
        self.evaluator = Evaluator(rules, places_of(site))
        self._intake = Intake(site, self.evaluator)
        self._waiting: deque[NewEntry] = deque()
        self._come = asyncio.Event()
        self._stopping = False
        self._left_out = 0
        self._loads_read = -1
        self._unmeasured: set[tuple[str, str]] = set()

    def kept(self, entries: Sequence[NewEntry]) -> None:
        """Take entries that are on the disk; called by whoever wrote them, so it only puts them aside."""
        for entry in entries:
            if entry.kind in _LIVE:
                if len(self._waiting) >= MOST_WAITING:
                    self._waiting.popleft()
                    self._left_out += 1
                self._waiting.append(entry)
        self._come.set()

    def works(self) -> Iterator[Coroutine[Any, Any, None]]:
        """Yield what is to run beside the collectors."""
        yield self.run()
        for teller in self._tellers:
            yield teller.run()

    async def run(self) -> None:
        """Evaluate until cancelled. Never returns."""
        loop = asyncio.get_running_loop()
        thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="rules")
        try:
            self._tell(await loop.run_in_executor(thread, self._retell))
            while True:
                with suppress(asyncio.TimeoutError):
                    await asyncio.wait_for(self._come.wait(), TICK_S)
                self._come.clear()
                batch = list(self._waiting)
                self._waiting.clear()
                self._tell(await loop.run_in_executor(thread, self._evaluate, batch))
        finally:
            # The journal is closed next: nobody may be reading it then.
            self._stopping = True
            thread.shutdown()

    def _tell(self, changes: Sequence[Change]) -> None:
        narrator = self._narrator
        if self._left_out:
            text = f"{self._left_out} entries came faster than rules can be evaluated and were not looked at"
            narrator.trouble("rules", "pace", "behind", f"{text}; `weighbridge rules history` looks at all of them")
            self._left_out = 0
        for rule, node in self.evaluator.unmeasured():
            if (rule, node) not in self._unmeasured:
                self._unmeasured.add((rule, node))
                narrator.say(f"rules: {rule} says nothing of {node}: no meter counts its classes or peers")
        for change in changes:
            finding = change.finding
            state = finding.severity.value if change.resolved_ns is None else "over"
            narrator.say(f"{state}: {finding.kind.value} ({finding.rule or 'shape'}): {finding.text}")
        for teller in self._tellers:
            teller.take(alert_of(change, self._site.name, self._explaining) for change in changes)

    # ------------------------------------------------------------ in the thread

    def _evaluate(self, batch: Sequence[NewEntry]) -> list[Change]:
        self._read_loads()
        changes: list[Change] = []
        for entry in batch:
            if self._stopping:
                return []
            changes += self._take(entry)
        return changes + self.evaluator.clock(self._now_ns())

    def _take(self, entry: NewEntry) -> list[Change]:
        try:
            return self._intake.take(entry)
        except EvidenceError as error:
            self._narrator.trouble(entry.source, "rules", "unreadable", str(error))
            return []

    def _read_loads(self) -> None:
        last = self._journal.last(Kind.LOAD_WINDOW)
        if last is None or last.leaf == self._loads_read:
            return
        for entry in self._journal.entries(kinds=[Kind.LOAD_WINDOW], from_leaf=self._loads_read + 1):
            self._intake.take(entry)
        self._loads_read = last.leaf

    def _retell(self) -> list[Change]:
        """Take the past that still counts, and return what it left going on."""
        now_ns, began = self._now_ns(), self._journal.last(Kind.RUN_START)
        fine_ns = min(now_ns - self._rules.longest_window_ns, now_ns if began is None else began.recorded_ns)
        # On a large site only the newest of it is taken entry by entry, what is before that a minute at a time.
        least = max(0, len(self._journal) - MOST_RETOLD)
        found = self._journal.rows("SELECT recorded_ns FROM entry WHERE leaf = ?", least)
        whole_ns = max(fine_ns, int(found[0][0])) if least and found else fine_ns
        width_ns = around_ns(self._site)
        coarse = minutes(self._journal, now_ns - MEMORY_BINS * STEP_NS, fine_ns, width_ns)
        thinned = minutes(self._journal, fine_ns, whole_ns, width_ns)
        whole = self._journal.entries(kinds=KINDS, from_ns=whole_ns, from_leaf=least)
        try:
            self._read_loads()
            for entries, rules in ((coarse, False), (thinned, True), (whole, True)):
                for entry in entries:
                    if self._stopping:
                        return []
                    self._intake.take(entry, rules=rules)
        except EvidenceError as error:
            self._narrator.say(f"rules: the past is not looked at: {error}")
        return [Change(finding) for finding in self.evaluator.firing()]
