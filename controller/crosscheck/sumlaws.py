"""Laws over several links: per switch, per pod, per pair of nodes; tested over all start and end times at once.

    switch      what the nodes sent into it       <=  what left it towards them + its other ports + its drops
    pod         what its nodes sent to each other  <=  what they received from each other + drops on the way
    node pair   what one sent to the other         <=  what that received from it + drops on the way

The other way round nothing follows: floods and copies make more come out than went in. Pod and pair rest on what meters
count by class and by peer (one DPU's word against another's), and are tested where all links are on one switch, since
what is dropped between two switches nobody counts here. A broken law is certain, its cause is not: a device may filter
or drop uncounted. So it is a finding that accuses nobody (:mod:`controller.crosscheck.sums`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from controller.crosscheck.model import (
    LinkEvidence,
    PortEvidence,
    SharedTraffic,
    SiteEvidence,
    SumOf,
    Unknown,
)
from protos.reading import Direction, Observer, Reading

Part = tuple[Sequence[Reading], frozenset[int]]
"""Readings of one counter, and its epochs that are proven."""


@dataclass(frozen=True, slots=True)
class SumLaw:
    """One law, ready to be tested: parts to be added up on each side, drop counters in bytes and in frames.

    ``cables`` is for how many of them the declared allowances count.
    """

    of: SumOf
    name: str
    switch: str | None
    nodes: tuple[str, ...]
    left: tuple[Part, ...] = ()
    right: tuple[Part, ...] = ()
    dropped_bytes: tuple[Part, ...] = ()
    dropped_frames: tuple[Part, ...] = ()
    over_l2: int = 0
    cables: int = 1
    unknown: tuple[Unknown, str] | None = None


def laws_of(evidence: SiteEvidence) -> Iterator[SumLaw]:
    """Yield every law over several links that the site has."""
    yield from _switches(evidence)
    yield from _shared(evidence)


def _switches(evidence: SiteEvidence) -> Iterator[SumLaw]:
    cables = _cables(evidence)
    names = dict.fromkeys(name for pair in cables.values() for name in [pair[0].switch] if name is not None)
    for switch in sorted(names):
        own = [pair for pair in cables.values() if pair[0].switch == switch]
        ports = {pair[0].port for pair in own}
        others = [port for port in evidence.ports if port.switch == switch and port.port not in ports]
        yield _switch(switch, own, others, inventory_checked=evidence.inventory_checked)


def _switch(
    switch: str,
    cables: Sequence[tuple[LinkEvidence, LinkEvidence]],
    others: Sequence[PortEvidence],
    *,
    inventory_checked: bool,
) -> SumLaw:
    nodes = tuple(dict.fromkeys(out.node for out, _ in cables))
    law = SumLaw(SumOf.SWITCH, f"into {switch} <= out of {switch} + drops", switch, nodes, cables=len(cables))
    if not inventory_checked:
        return _unknown(law, Unknown.MISSING_EVIDENCE, f"the ports of {switch} were not listed in the period")
    tracks = [(out.tracks.get(Observer.SWITCH), into.tracks.get(Observer.SWITCH)) for out, into in cables]
    seen = [(one, other) for one, other in tracks if one is not None and other is not None]
    if len(seen) < len(tracks) or any(not len(one.readings) or not len(other.readings) for one, other in seen):
        return _unknown(law, Unknown.MISSING_EVIDENCE, f"{switch} gave no readings of one of its ports")
    framings = {each.readings[0].framing for pair in seen for each in pair}
    if len(framings) > 1:
        return _unknown(law, Unknown.BY_DESIGN, f"{switch} counts its ports in different framings")
    if any(track.counter_bits < 64 for pair in seen for track in pair):
        return _unknown(law, Unknown.BY_DESIGN, f"{switch} has counters that begin again at 32 bits")
    frames, in_bytes, lacking = _drops([(pair[at], pair) for pair in cables for at in (0, 1)], [Observer.SWITCH])
    if lacking:
        return _unknown(law, Unknown.BY_DESIGN, f"{switch} does not count what it drops")
    return SumLaw(
        law.of,
        law.name,
        switch,
        nodes,
        left=tuple((one.readings, one.proven_epochs) for one, _ in seen),
        right=(
            *((other.readings, other.proven_epochs) for _, other in seen),
            *((port.readings, port.proven_epochs) for port in others),
        ),
        dropped_bytes=in_bytes,
        dropped_frames=frames,
        over_l2=framings.pop().bytes_per_frame_over_l2,
        cables=len(cables),
    )


def _shared(evidence: SiteEvidence) -> Iterator[SumLaw]:
    """Yield the laws of pods and of pairs, from what meters count by class and by peer."""
    told = {(one.node, one.direction, one.peer): one for one in evidence.shared}
    pods = {link.node: link.pod for link in evidence.links}
    for pod in sorted({pods[node] for node, _, peer in told if peer is None and node in pods}):
        members = tuple(sorted(node for node, of in pods.items() if of == pod))
        if len(members) > 1:
            sent = [told.get((node, Direction.EGRESS, None)) for node in members]
            received = [told.get((node, Direction.INGRESS, None)) for node in members]
            name = SumOf.POD, f"sent within {pod} <= received within {pod} + drops"
            yield _between(evidence, name, members, (sent, received))
    pairs = [(node, peer) for node, direction, peer in told if direction is Direction.EGRESS and peer is not None]
    for node, peer in sorted(pairs):
        if node in pods and peer in pods:
            one, other = told[node, Direction.EGRESS, peer], told.get((peer, Direction.INGRESS, node))
            name = SumOf.NODE_PAIR, f"{node} to {peer}: sent <= received + drops"
            yield _between(evidence, name, (node, peer), ([one], [other]))


def _between(
    evidence: SiteEvidence,
    name: tuple[SumOf, str],
    nodes: tuple[str, ...],
    counted: tuple[Sequence[SharedTraffic | None], Sequence[SharedTraffic | None]],
) -> SumLaw:
    sent, received = counted
    pairs = [pair for pair in _cables(evidence).values() if pair[0].node in nodes]
    switches = {pair[0].switch for pair in pairs}
    switch = switches.pop() if len(switches) == 1 else None
    law = SumLaw(*name, switch, nodes, cables=max(1, len(pairs)))
    if switch is None:
        why = "the nodes are on several switches, and what is dropped between those nobody counts here"
        return _unknown(law, Unknown.BY_DESIGN, why)
    told = [each for each in (*sent, *received) if each is not None]
    if len(told) < len(sent) + len(received) or any(not part[0] for each in told for part in each.parts):
        return _unknown(law, Unknown.MISSING_EVIDENCE, "a meter on the way does not tell what it counted")
    sides = [(pair[at], pair) for pair in pairs for at in (0, 1)]
    frames, in_bytes, lacking = _drops(sides, [Observer.DPU_HOST_PORT, Observer.DPU_UPLINK, Observer.SWITCH])
    if lacking:
        return _unknown(law, Unknown.BY_DESIGN, "a port on the way does not count what it drops")
    return SumLaw(
        *name,
        switch,
        nodes,
        left=tuple(part for each in sent if each is not None for part in each.parts),
        right=tuple(part for each in received if each is not None for part in each.parts),
        dropped_bytes=in_bytes,
        dropped_frames=frames,
        cables=max(1, len(pairs)),
    )


def _cables(evidence: SiteEvidence) -> dict[str, tuple[LinkEvidence, LinkEvidence]]:
    """Return each cable's two directions; a bond is the sum of its cables, and is left out."""
    found: dict[str, dict[Direction, LinkEvidence]] = {}
    for link in evidence.links:
        if link.switch is not None:
            found.setdefault(link.link, {})[link.direction] = link
    return {
        name: (sides[Direction.EGRESS], sides[Direction.INGRESS])
        for name, sides in found.items()
        if len(sides) == len(Direction)
    }


def _drops(
    sides: Sequence[tuple[LinkEvidence, object]], places: Sequence[Observer]
) -> tuple[tuple[Part, ...], tuple[Part, ...], bool]:
    """Return the drop counters at ``places`` in frames and in bytes, and whether one that must be there is not."""
    frames: list[Part] = []
    in_bytes: list[Part] = []
    for link, _ in sides:
        for place in places:
            track = link.tracks.get(place)
            counters = () if track is None else track.drop_counters
            if track is None or not (track.drop_packets or counters):
                return (), (), True
            if track.drop_packets:
                frames.append((track.drop_packets, track.proven_epochs))
            for counter in counters:
                (in_bytes if counter.in_bytes else frames).append((counter.readings, track.proven_epochs))
    return tuple(frames), tuple(in_bytes), False


def _unknown(law: SumLaw, why: Unknown, text: str) -> SumLaw:
    return SumLaw(law.of, law.name, law.switch, law.nodes, cables=law.cables, unknown=(why, text))
