"""Turns what a meter counted into its part of a frame. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dpu_agent.meter.audit import Verdict
from dpu_agent.meter.drain import Drained
from dpu_agent.meter.layout import CLASS_WORDS, LANE_CLASSES, LANE_WORDS, PEER_WORDS, PEERS_A_TABLE
from dpu_agent.meter.libbpf import ProgramId
from dpu_agent.meter.marks import Marks
from protos.buckets import CLASSES, Totals, pack
from protos.v1 import meter_pb2
from protos.wire import Gap, totals_message


@dataclass(frozen=True, slots=True)
class Counts:
    """Cumulative counts by class number and by node; all of them if ``full``, else those that changed."""

    classes: Mapping[int, tuple[int, ...]]
    peers: Mapping[str, tuple[int, int]]
    full: bool


def class_totals(lanes: memoryview) -> dict[int, tuple[int, ...]]:
    """Return raw bytes, wire bytes, segments, tunnelled bytes and tagged segments of each class that has any."""
    sums = [0] * (len(CLASSES) * CLASS_WORDS)
    for at in range(LANE_CLASSES, len(lanes), LANE_WORDS):
        for place, value in enumerate(lanes[at : at + len(sums)].tolist()):
            sums[place] += value
    found = {number: tuple(sums[number * CLASS_WORDS : (number + 1) * CLASS_WORDS]) for number in range(len(CLASSES))}
    return {number: counts for number, counts in found.items() if any(counts)}


def peer_totals(peers: memoryview, entries: int, half: int, known: int) -> dict[int, tuple[int, int]]:
    """Return wire bytes and segments of each node that has any, by its number from 1 to ``known``.

    ``entries`` are a CPU's; ``half`` says which class table of the two in memory the numbers are of.
    """
    sums = [0] * ((known + 1) * PEER_WORDS)
    for at in range(half * PEERS_A_TABLE * PEER_WORDS, len(peers), entries * PEER_WORDS):
        for place, value in enumerate(peers[at : at + len(sums)].tolist()):
            sums[place] += value
    found = {number: (sums[number * PEER_WORDS], sums[number * PEER_WORDS + 1]) for number in range(1, known + 1)}
    return {number: counts for number, counts in found.items() if any(counts)}


def class_messages(classes: Mapping[int, tuple[int, ...]]) -> list[meter_pb2.ClassTotals]:
    """Return what :func:`class_totals` gives, as messages."""
    return [
        meter_pb2.ClassTotals(
            traffic_class=number,
            total=totals_message(Totals(*values[:3])),
            tunnelled_bytes=values[3],
            tagged_segments=values[4],
        )
        for number, values in classes.items()
    ]


def peer_messages(peers: Mapping[str, tuple[int, int]]) -> list[meter_pb2.PeerTotals]:
    """Return what :func:`peer_totals` gives, by the nodes' names, as messages."""
    return [
        meter_pb2.PeerTotals(peer=name, wire_bytes=wire, segments=segments) for name, (wire, segments) in peers.items()
    ]


def message(
    port: str,
    *,
    marks: Marks,
    drained: Drained,
    counts: Counts,
    verdict: Verdict,
    program: ProgramId,
    gaps: Sequence[Gap],
    offset_ns: int,
) -> meter_pb2.MeterReading:
    """Return a port's part of a frame. ``offset_ns`` takes the kernel's clock to the agent's."""
    first = drained.start.bucket
    reading = meter_pb2.MeterReading(
        port=port,
        since_ns=marks.since_ns + offset_ns,
        epoch=marks.epoch,
        epoch_reason=marks.epoch_reason if counts.full or gaps else "",
        width_ns=marks.width_ns,
        bucket_zero_ns=offset_ns,
        first_bucket=first,
        bucket_count=drained.end.bucket - first,
        start=totals_message(drained.start.totals),
        series=pack(first, drained.buckets),
        unplaced=[
            meter_pb2.Unplaced(first_bucket=part.first, count=part.end - part.first, moved=totals_message(part.moved))
            for part in drained.unplaced
        ],
        lost_buckets=drained.lost,
        classes=class_messages(counts.classes),
        peers=peer_messages(counts.peers),
        full=counts.full,
        gaps=[meter_pb2.MeterGap(from_ns=gap.from_ns, to_ns=gap.to_ns, reason=gap.reason) for gap in gaps],
    )
    if drained.moved != Totals():
        reading.moved.CopyFrom(totals_message(drained.moved))
    if verdict.installed or verdict.findings:
        reading.audit.CopyFrom(
            meter_pb2.MeterAudit(
                findings=verdict.findings,
                texts=verdict.texts,
                unmetered_packets=verdict.unmetered_packets,
                unmetered_bytes=verdict.unmetered_bytes if verdict.unmetered_packets else 0,
                offloaded_ppm=verdict.offloaded_ppm,
                program_id=program.number if counts.full or verdict.findings else 0,
                program_tag=bytes.fromhex(program.tag) if counts.full or verdict.findings else b"",
            )
        )
    return reading
