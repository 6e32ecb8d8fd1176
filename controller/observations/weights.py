"""Known weights as the journal has them: declared transfers that every observer must show."""

from __future__ import annotations

import json
from collections.abc import Iterator

from controller.crosscheck.model import KnownWeight, Period
from controller.errors import EvidenceError
from controller.journal import Entry, Journal, Kind
from protos.reading import Direction
from protos.units import MAX_BYTES


def known_weights(journal: Journal, period: Period) -> Iterator[KnownWeight]:
    """Yield the known weights that were sent wholly within the period.

    Raises:
        EvidenceError: an entry is no transfer: unreadable, of no bytes or fewer, or over before it began.
    """
    for entry in journal.entries(kinds=[Kind.WEIGHT], from_ns=period.from_ns):
        weight = _weight(entry)
        if weight is None:
            raise EvidenceError(
                f"{journal.path}: leaf {entry.leaf} is not a known weight this program can read. "
                "Update weighbridge on this machine, or find out who wrote it."
            )
        if period.from_ns <= weight.from_ns and weight.to_ns <= period.to_ns:
            yield weight


def _weight(entry: Entry) -> KnownWeight | None:
    try:
        body = json.loads(entry.body)
        packets = body["packets"]
        weight = KnownWeight(
            link=str(body["link"]),
            direction=Direction(body["direction"]),
            from_ns=int(body["from_ns"]),
            to_ns=int(body["to_ns"]),
            bytes=int(body["bytes"]),
            packets=None if packets is None else int(packets),
        )
    except (ValueError, KeyError, TypeError):
        return None
    possible = 0 < weight.bytes <= MAX_BYTES and 0 <= weight.from_ns < weight.to_ns
    return weight if possible and (weight.packets is None or weight.packets > 0) else None
