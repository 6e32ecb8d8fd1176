"""A node's scrapes as readings: the host's claim, on the controller's clock, at the host's word.

A scrape was true at some moment between its first byte sent and its last byte received; the host's own timestamps
are not looked at (``bounds.md`` 1).
"""

from __future__ import annotations

from collections.abc import Collection

from controller.crosscheck.model import Period
from controller.errors import ClaimError
from controller.hostclaims import ClaimedEpochs, parse_claim
from controller.journal import Journal, Kind
from controller.observations.around import entries_from_before
from controller.observations.series import Series, summed
from protos.reading import Direction, Reading

SCRAPES_AT_EDGES = 2


def read_host(
    journal: Journal, node: str, groups: Collection[tuple[str, ...]], period: Period
) -> dict[tuple[str, ...], Series]:
    """Return what ``node`` claimed around ``period``: a series for each group of interfaces, added up."""
    names = sorted({name for group in groups for name in group})
    epochs = {name: ClaimedEpochs() for name in names}
    found = {group: Series() for group in groups}
    after = 0
    for entry in entries_from_before(journal, Kind.SCRAPE, node, period, at_least=SCRAPES_AT_EDGES):
        sent_ns, received_ns = int(str(entry.meta["first_sent_ns"])), int(str(entry.meta["received_ns"]))
        try:
            claim = parse_claim(entry.body, names)
        except ClaimError as error:
            for series in found.values():
                series.note(sent_ns, received_ns, str(error))
            continue
        read = {name: epochs[name].readings(claim, name, earliest_ns=sent_ns, latest_ns=received_ns) for name in names}
        for group, series in found.items():
            _add(series, group, read, epochs, (sent_ns, received_ns))
        after += sent_ns > period.to_ns
        if after >= SCRAPES_AT_EDGES:
            break
    return found


def _add(
    series: Series,
    group: tuple[str, ...],
    read: dict[str, dict[Direction, Reading]],
    epochs: dict[str, ClaimedEpochs],
    asked: tuple[int, int],
) -> None:
    silent = [name for name in group if not read[name]]
    if silent:
        return series.note(*asked, f"the host tells no byte counters of {', '.join(silent)}")
    numbers = tuple(epochs[name].epoch for name in group)
    reason = "; ".join(dict.fromkeys(epochs[name].reasons.get(epochs[name].epoch, "first claim") for name in group))
    proven = all(epochs[name].epoch in epochs[name].proven for name in group)
    epoch = series.number_of(numbers, reason, proven=proven)
    for direction in Direction:
        parts = [read[name][direction] for name in group if direction in read[name]]
        total = summed(parts, epoch=epoch) if len(parts) == len(group) else None
        if total is None:
            series.note(*asked, f"the host tells no {direction.value} bytes")
        else:
            series.readings[direction].append(total)
    return None
