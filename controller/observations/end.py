"""Where a period that ends "now" ends: where every observer that is looking has looked."""

from __future__ import annotations

from collections.abc import Iterator

from controller.journal import Journal, Kind
from controller.observations.agents import newest_reading_ns
from controller.site import Site


def end_of_evidence_ns(journal: Journal, site: Site) -> int | None:
    """Return the smallest, over the observers, of the newest reading's earliest time; None without any reading.

    An observer whose newest reading is older than another's by more than the largest gap the site allows has fallen
    silent: it does not hold the end back, or one dead switch would hide the present for ever. Its silence then lies in
    the period and is told there.
    """
    newest = list(_newest(journal, site))
    if not newest:
        return None
    looking_since = max(latest for _, latest in newest) - site.assumptions.crosscheck.largest_gap_ns
    return min(earliest for earliest, latest in newest if latest >= looking_since)


def _newest(journal: Journal, site: Site) -> Iterator[tuple[int, int]]:
    """Earliest and latest time of each observer's newest reading."""
    for dpu in site.agents():
        window = newest_reading_ns(journal, dpu.name, drift_ppm=site.assumptions.clock_drift_ppm)
        if window is not None:
            yield window
    for switch in site.switches:
        poll = journal.last(Kind.POLL, switch.name)
        if poll is not None:
            yield int(str(poll.meta["first_sent_ns"])) - switch.refresh_ns, poll.recorded_ns
    for node in site.nodes:
        scrape = journal.last(Kind.SCRAPE, node.name)
        if scrape is not None:
            yield int(str(scrape.meta["first_sent_ns"])), scrape.recorded_ns
