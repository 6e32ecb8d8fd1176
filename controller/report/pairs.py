"""Which node pair moved how much: what the one's meters counted as sent, the other's as received."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from controller.crosscheck.model import ByteInterval, NodePair
from controller.report import words
from protos.reading import Direction

NOT_TOLD = "no meter told of it"


@dataclass(frozen=True, slots=True)
class PairLine:
    """One pair, from the node that sent: sums over all of its ports, with the exact bytes."""

    sender: str
    receiver: str
    sent: str
    sent_exact: str
    received: str
    received_exact: str


def pair_lines(pairs: Sequence[NodePair]) -> list[PairLine]:
    """Return a line for each pair and direction, in order of names."""
    found: dict[tuple[str, str], dict[Direction, ByteInterval]] = {}
    for pair in pairs:
        key = (pair.node, pair.peer) if pair.direction is Direction.EGRESS else (pair.peer, pair.node)
        side = found.setdefault(key, {})
        side[pair.direction] = _sum(side.get(pair.direction), pair.bytes)
    lines = []
    for (sender, receiver), side in sorted(found.items(), key=lambda item: tuple(map(words.natural, item[0]))):
        sent, received = _told(side.get(Direction.EGRESS)), _told(side.get(Direction.INGRESS))
        lines.append(PairLine(words.shown(sender), words.shown(receiver), *sent, *received))
    return lines


def _sum(before: ByteInterval | None, more: ByteInterval) -> ByteInterval:
    if before is None:
        return more
    upper = None if before.upper is None or more.upper is None else before.upper + more.upper
    return ByteInterval(before.lower + more.lower, upper)


def _told(interval: ByteInterval | None) -> tuple[str, str]:
    if interval is None:
        return NOT_TOLD, ""
    return words.interval(interval.lower, interval.upper), words.exact_interval(interval.lower, interval.upper)
