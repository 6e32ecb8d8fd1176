"""Which journal entries a finding rests on: by source, from which leaf to which, and how many."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from controller.crosscheck.model import Finding
from controller.journal import Journal, Kind
from controller.site import Site


@dataclass(frozen=True, slots=True)
class Entries:
    """Entries of one kind and source within the finding's time: leaves ``first`` to ``last``, ``count`` of them."""

    kind: Kind
    source: str
    first: int
    last: int
    count: int

    def __str__(self) -> str:
        return f"{self.count} of kind {self.kind.value} from {self.source}: leaves {self.first} to {self.last}"


def entries_of(journal: Journal, site: Site, finding: Finding) -> Iterator[Entries]:
    """Yield what the journal holds of the finding's observers, from a gap before its time to a gap after it.

    A reading bounds what is before and after it, so neighbours outside of the time count too; how far outside is what
    the site lets pass between readings.
    """
    around = site.assumptions.crosscheck.largest_gap_ns
    from_ns = None if finding.from_ns is None else finding.from_ns - around
    to_ns = None if finding.to_ns is None else finding.to_ns + around
    for kind, source in _sources(site, finding):
        first = last = None
        count = 0
        for entry in journal.entries(kinds=[kind], source=source, from_ns=from_ns, to_ns=to_ns):
            first, last, count = entry.leaf if first is None else first, entry.leaf, count + 1
        if first is not None and last is not None:
            yield Entries(kind, source, first, last, count)


def _sources(site: Site, finding: Finding) -> list[tuple[Kind, str]]:
    """Return who was read about the finding's link, node or port."""
    found: dict[tuple[Kind, str], None] = {}
    for link in site.links:
        named = finding.link in (link.name, f"{link.dpu}/bond") or (finding.link or "").startswith(f"{link.dpu}/")
        if named or (finding.link is None and finding.node == link.node):
            found |= dict.fromkeys(
                [
                    (Kind.FRAME, link.dpu),
                    (Kind.CLOCK, link.dpu),
                    (Kind.POLL, link.switch),
                    (Kind.SCRAPE, link.node),
                    (Kind.WEIGHT, link.name),
                ]
            )
    if finding.switch is not None:
        found[Kind.POLL, finding.switch] = None
    return list(found)
