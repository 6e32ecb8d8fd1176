"""Reads the entries of one source around a period, and not the whole journal.

Bounds at a period's edge rest on the readings next to it, outside as well as inside. How far outside they are depends
on how long the source was silent; so the look back doubles until something is there.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from controller.crosscheck.model import Period
from controller.journal import Entry, Journal, Kind

LOOK_BACK_NS = 60_000_000_000
"""At first; a minute of readings costs nothing and keeps a clock's drift small at the edge."""


def entries_from_before(journal: Journal, kind: Kind, source: str, period: Period, *, at_least: int) -> Iterator[Entry]:
    """Yield the entries of ``source``, in order, from at least so many before the period to the journal's end.

    Fewer come before the period only if there are no more. The caller stops taking when it has enough after the
    period: what was spooled while the network was cut is recorded long after it was read.
    """
    first = next(journal.entries(), None)
    if first is None:
        return
    back_ns = LOOK_BACK_NS
    while period.from_ns - back_ns > first.recorded_ns:
        window = journal.entries(
            kinds=[kind], source=source, from_ns=period.from_ns - back_ns, to_ns=period.from_ns - 1
        )
        if len(list(islice(window, at_least))) == at_least:
            break
        back_ns *= 2
    yield from journal.entries(kinds=[kind], source=source, from_ns=period.from_ns - back_ns)
