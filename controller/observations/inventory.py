"""Which site file was in force when. A report splits where it changed: links and limits are not what they were."""

from __future__ import annotations

from dataclasses import dataclass

from controller.crosscheck.model import Period
from controller.journal import Journal, Kind


@dataclass(frozen=True, slots=True)
class Inventory:
    """One site file and the part of the period in which it was in force. ``leaf`` is its entry's number."""

    from_ns: int
    to_ns: int
    content: bytes
    leaf: int


def inventories(journal: Journal, period: Period) -> list[Inventory]:
    """Return the site files in force over ``period``, in order.

    The first one is in force from the beginning: what was collected before a site file was journaled cannot be told
    apart. Empty if none is journaled.
    """
    entries = [entry for entry in journal.entries(kinds=[Kind.SITE]) if entry.recorded_ns < period.to_ns]
    found = []
    for index, entry in enumerate(entries):
        start = period.from_ns if index == 0 else max(period.from_ns, entry.recorded_ns)
        end = entries[index + 1].recorded_ns if index + 1 < len(entries) else period.to_ns
        if start < min(end, period.to_ns):
            found.append(Inventory(start, min(end, period.to_ns), entry.body, entry.leaf))
    return found
