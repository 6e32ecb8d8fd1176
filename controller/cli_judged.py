"""A period judged for a command: which one was asked for, the journal's evidence, the result in parts."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from controller.cli_period import parse_period
from controller.cli_results import Writing
from controller.errors import OperatorError

if TYPE_CHECKING:  # a command is parsed, and refused where it is wrong, before what it needs is loaded
    from controller.crosscheck.model import Period
    from controller.journal import Journal
    from controller.judgement import Part


@dataclass(frozen=True, slots=True)
class Asked:
    """The options that name a period."""

    last: str | None = None
    start: str | None = None
    end: str | None = None
    start_ns: int | None = None
    end_ns: int | None = None

    @property
    def exact(self) -> Period | None:
        """The period in nanoseconds, None if it is not named so."""
        from controller.crosscheck.model import Period  # noqa: PLC0415

        if self.start_ns is None and self.end_ns is None:
            return None
        if self.start_ns is None or self.end_ns is None:
            raise OperatorError("--from-ns and --to-ns go together: give both")
        if (self.last, self.start, self.end) != (None, None, None):
            raise OperatorError("--from-ns/--to-ns and --last/--from/--to say two different periods: give one of them")
        if not 0 <= self.start_ns < self.end_ns:
            raise OperatorError(
                f"the period is empty: it would begin at {self.start_ns} ns and end at {self.end_ns} ns"
            )
        return Period(self.start_ns, self.end_ns)


def from_journal(site_file: Path, asked: Asked) -> tuple[list[Part], Writing]:
    """Return the parts of the period asked for, judged from the journal of a site.

    Raises:
        OperatorError: the period is none, or there is no journal.
        EvidenceError: an entry is damaged.
    """
    from controller.journal import Journal  # noqa: PLC0415  see above
    from controller.judgement import differs, judge_period  # noqa: PLC0415
    from controller.site import load  # noqa: PLC0415
    from controller.timeline import Timeline, clock_error  # noqa: PLC0415

    site = load(site_file, secrets=False)
    with Journal.open(site.controller.journal, read_only=True) as journal:
        timeline = Timeline.view(journal)
        period = settled(journal, asked, timeline.now_ns())
        warning = differs(site, journal)
        if warning is not None:
            typer.echo(f"note: {warning}", err=True)
        parts = list(judge_period(journal, period))
        error = clock_error(journal, from_ns=period.from_ns, to_ns=period.to_ns)
        generated_ns = timeline.now_ns() + timeline.clock_error_ns()
    return parts, Writing(generated_ns, error)


def settled(journal: Journal, asked: Asked, now_ns: int) -> Period:
    """Return the period asked for; one that ends now ends where every observer has looked, and keeps its length.

    Raises:
        OperatorError: it is none, or lies in the future.
    """
    from controller.crosscheck.model import Period  # noqa: PLC0415  see above
    from controller.judgement import end_of_now_ns, in_force, too_late  # noqa: PLC0415

    period = asked.exact or parse_period(last=asked.last, start=asked.start, end=asked.end, now_ns=now_ns)
    late = too_late(period, now_ns)
    if late is not None:
        raise late
    if period.to_ns != now_ns:
        return period
    end_ns = end_of_now_ns(journal, in_force(journal), now_ns)
    length_kept = period.from_ns - (now_ns - end_ns) if asked.start is None else period.from_ns
    return Period(min(length_kept, end_ns - 1), end_ns)


def now_ns() -> int:
    """Return this computer's UTC, nanoseconds."""
    return time.time_ns()
