"""Which journal entries a finding rests on."""

from __future__ import annotations

from pathlib import Path

from controller.crosscheck.model import Finding, FindingKind
from controller.finding_entries import entries_of
from controller.journal import Journal, Kind, NewEntry
from controller.site import load
from protos.reading import Direction

S = 1_000_000_000
START = 1_796_000_000 * S
DEMO = Path(__file__).parent / "site_ok" / "demo.yaml"


def test_the_entries_of_a_links_observers_around_its_time_are_named_by_leaf(tmp_path: Path) -> None:
    site = load(DEMO, secrets=False)
    link = site.links[0]
    gap = site.assumptions.crosscheck.largest_gap_ns
    entries = [NewEntry(Kind.SITE, "demo", START, site.content)]
    for second in range(0, 100, 10):
        for kind, source in ((Kind.POLL, link.switch), (Kind.SCRAPE, link.node), (Kind.SCRAPE, "somebody-else")):
            entries.append(NewEntry(kind, source, START + second * S, b"", {}))
    finding = Finding(
        FindingKind.HOST_UNDER_REPORTS,
        certain=True,
        text="",
        link=link.name,
        direction=Direction.EGRESS,
        from_ns=START + 40 * S,
        to_ns=START + 50 * S,
    )
    with Journal.create(tmp_path / "j.db", entries[0]) as journal:
        journal.append(*entries[1:])
        found = list(entries_of(journal, site, finding))
        about_switch = list(entries_of(journal, site, Finding(FindingKind.LINK_FLAP, False, "", switch=link.switch)))
    count = 2 + 2 * (gap // (10 * S))
    assert [(one.kind, one.source, one.count) for one in found] == [
        (Kind.POLL, link.switch, count),
        (Kind.SCRAPE, link.node, count),
    ]
    assert str(found[0]).startswith(f"{count} of kind poll from {link.switch}: leaves ")
    assert [(one.kind, one.count, one.first) for one in about_switch] == [(Kind.POLL, 10, 1)]
