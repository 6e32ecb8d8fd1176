"""What went in and nobody says came out: findings from laws over several links, and the sum over all hosts' claims.

A host that reports too little of what it received looks, on its own link, like one that dropped it. But every byte that
a node receives from a peer left another node. So the bytes that entered the switches must have left them, and what left
them towards the nodes must have been received. What certainly cannot be found again is told, and accuses nobody: a host
may drop uncounted, and a bridge filters a frame whose receiver is where it came from. Floods and copies only make more
come out than went in, which no sum of this kind takes for anything.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from controller.crosscheck.framing import SMALLEST_SEGMENT
from controller.crosscheck.model import (
    Finding,
    FindingKind,
    Holds,
    LinkEvidence,
    LinkResult,
    SiteEvidence,
    SumOf,
    SumResult,
    Track,
)
from controller.crosscheck.observed import drops_of
from controller.crosscheck.quantity import bounds
from controller.crosscheck.wording import at_least, at_most
from protos.reading import Direction, Observer
from protos.units import NS_PER_S


@dataclass(frozen=True, slots=True)
class _Cable:
    """One cable: both directions as they were judged, and as they were seen."""

    leaving: LinkResult
    entering: LinkResult
    tracks: tuple[LinkEvidence, LinkEvidence]


def unaccounted(evidence: SiteEvidence, links: Sequence[LinkResult], sums: Sequence[SumResult]) -> list[Finding]:
    """Return a finding for each law over several links that is broken, and one if the hosts lack bytes.

    For the site: the least that left the switches towards the nodes, less the most that the hosts claim, each cable
    once: a bond is the sum of its cables, and is left out. Where a part is not bounded nothing is told.
    """
    found = [_of_sum(one) for one in sums if one.result.holds is Holds.NO]
    at_hosts = _at_hosts(evidence, _cables(evidence, links))
    return [*found, *([at_hosts] if at_hosts is not None else [])]


def _of_sum(one: SumResult) -> Finding:
    return Finding(
        FindingKind.BYTES_UNACCOUNTED,
        certain=False,
        text=f"{_SAID[one.of].format(switch=one.switch, name=one.name)}: {one.result.text}",
        node=one.nodes[0] if one.of is SumOf.NODE_PAIR else None,
        switch=one.switch if one.of is SumOf.SWITCH else None,
        bytes_at_least=one.result.gap_at_least_bytes,
        from_ns=one.result.from_ns,
        to_ns=one.result.to_ns,
        margin=one.result.margin,
    )


_SAID = {
    SumOf.SWITCH: (
        "{name} does not hold: frames were filtered (one whose receiver is where it came from), "
        "or left by a port that {switch} does not list"
    ),
    SumOf.POD: (
        "{name} does not hold: the senders' DPUs count too much, a receiver's too little or not all that reaches its "
        "node, or {switch} filtered frames uncounted"
    ),
    SumOf.NODE_PAIR: (
        "{name} does not hold: the sender's DPU counts too much, the receiver's too little or not all that reaches its "
        "node, or {switch} filtered frames uncounted"
    ),
}


def _cables(evidence: SiteEvidence, links: Sequence[LinkResult]) -> list[_Cable]:
    results = {(link.link, link.direction): link for link in links}
    tracks = {(link.link, link.direction): link for link in evidence.links}
    names = dict.fromkeys(link.link for link in evidence.links if link.switch is not None)
    both = [(name, Direction.EGRESS, Direction.INGRESS) for name in names]
    return [
        _Cable(results[name, out], results[name, into], (tracks[name, out], tracks[name, into]))
        for name, out, into in both
        if (name, out) in results and (name, into) in results
    ]


def _at_hosts(evidence: SiteEvidence, cables: Sequence[_Cable]) -> Finding | None:
    if not cables:
        return None
    sent = sum(_least(cable.entering, Observer.SWITCH) for cable in cables)
    claimed = _sum([_claimed(cable) for cable in cables])
    dropped = _sum(
        [
            _dropped(cable.tracks[1].tracks.get(place), evidence)
            for cable in cables
            for place in (Observer.DPU_UPLINK, Observer.DPU_HOST_PORT)
        ]
    )
    if claimed is None or dropped is None:
        return None
    lacking = sent - claimed - dropped - 3 * _allowed(evidence, len(cables))
    if lacking <= 0:
        return None
    text = (
        f"{at_least(sent)} left the switches towards the nodes, and all hosts together claim to have received "
        f"{at_most(claimed)} at the most: {at_least(lacking)} are claimed by nobody. Hosts dropped them uncounted, or "
        "left them out of their claims"
    )
    return _finding(evidence, text, lacking)


def _claimed(cable: _Cable) -> int | None:
    """Return the most that a host claims to have received, as frames: it may count several that were joined as one."""
    most = _most(cable.entering, Observer.HOST)
    track = cable.tracks[1].tracks.get(Observer.HOST)
    if most is None or track is None or track.super_packet_header_bytes is None:
        return most
    return most + most * track.super_packet_header_bytes[1] // SMALLEST_SEGMENT + 1


def _least(link: LinkResult, observer: Observer) -> int:
    interval = link.observers.get(observer)
    return 0 if interval is None else interval.lower


def _most(link: LinkResult, observer: Observer) -> int | None:
    interval = link.observers.get(observer)
    return None if interval is None else interval.upper


def _dropped(track: Track | None, evidence: SiteEvidence) -> int | None:
    """Return the most bytes that were dropped at a place in the period; None if it does not count them."""
    if track is None:
        return None
    period = evidence.period
    counters, _ = drops_of(track, period.from_ns)
    mosts = [bounds(account, 0, period.to_ns - period.from_ns)[1] for account, _ in counters]
    frame = evidence.assumptions.largest_frame_bytes
    parts = [
        None if most is None else most * (1 if in_bytes else frame)
        for most, (_, in_bytes) in zip(mosts, counters, strict=True)
    ]
    return _sum(parts) if parts else None


def _allowed(evidence: SiteEvidence, cables: int) -> int:
    """Return what declared assumptions explain: bytes in flight, and frames that ports make or take themselves."""
    assumed, period = evidence.assumptions, evidence.period
    rate = assumed.control_bytes_per_s + assumed.dpu_own_bytes_per_s
    seconds = -(-(period.to_ns - period.from_ns) // NS_PER_S)
    return cables * (assumed.in_flight_bytes + assumed.late_completion_bytes + rate * seconds)


def _sum(parts: Iterable[int | None]) -> int | None:
    known, listed = 0, list(parts)
    for part in listed:
        if part is None:
            return None
        known += part
    return known


def _finding(evidence: SiteEvidence, text: str, lacking: int) -> Finding:
    return Finding(
        FindingKind.BYTES_UNACCOUNTED,
        certain=False,
        text=text,
        bytes_at_least=lacking,
        from_ns=evidence.period.from_ns,
        to_ns=evidence.period.to_ns,
    )
