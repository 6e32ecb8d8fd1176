"""How far a meter was drained, for which frame: kept in the kernel's memory beside the counts, so it lives as long.

Two places, written in turn, each with length and CRC-32: a process killed while writing leaves the other one. A mark is
written *before* its frame is stored, and carries the frame's sequence; after a restart the newest mark whose frame was
numbered is the one to go on from. So no bucket is told twice and none is left out, wherever the agent was killed.
"""

from __future__ import annotations

import json
import struct
import zlib
from dataclasses import dataclass
from typing import Any

from dpu_agent.meter.drain import LaneMark, Mark
from dpu_agent.meter.layout import MARKS_BYTES
from protos.buckets import Totals

_VERSION = 1
_HEADER = struct.Struct("=II")
_PLACE_BYTES = MARKS_BYTES // 2


@dataclass(frozen=True, slots=True)
class Marks:
    """Everything a restarted agent must know of its meter. Times are the kernel's CLOCK_MONOTONIC.

    Attributes:
        sequence: of the frame that tells of the buckets up to ``mark``.
        since_ns: when the totals were zero.
        epoch, epoch_reason: as in frames.
        width_ns, at_host_port: what the counts mean.
        seen_ns: when the meter was last seen at its hook.
        ifindex: where it was.
        mark: how far it was drained.
        class_table: SHA-256, hex, of the table that the maps hold.
    """

    sequence: int
    since_ns: int
    epoch: int
    epoch_reason: str
    width_ns: int
    at_host_port: bool
    seen_ns: int
    ifindex: int
    mark: Mark
    class_table: str = ""


def write(memory: memoryview, marks: Marks) -> None:
    """Write ``marks`` where the mark before the last stood.

    Raises:
        ValueError: they do not fit (a machine of some 500 CPUs).
    """
    payload = json.dumps(
        {
            "version": _VERSION,
            "sequence": marks.sequence,
            "since_ns": marks.since_ns,
            "epoch": marks.epoch,
            "epoch_reason": marks.epoch_reason,
            "width_ns": marks.width_ns,
            "at_host_port": marks.at_host_port,
            "seen_ns": marks.seen_ns,
            "ifindex": marks.ifindex,
            "class_table": marks.class_table,
            "bucket": marks.mark.bucket,
            "lanes": [
                [lane.index, lane.totals.raw_bytes, lane.totals.wire_bytes, lane.totals.segments]
                for lane in marks.mark.lanes
            ],
        },
        separators=(",", ":"),
    ).encode()
    if len(payload) > _PLACE_BYTES - _HEADER.size:
        raise ValueError(f"{len(payload)} bytes of marks do not fit into {_PLACE_BYTES}")
    at = marks.sequence % 2 * _PLACE_BYTES
    # The CRC first: until the payload is whole it does not fit what is there.
    memory[at : at + _HEADER.size] = _HEADER.pack(len(payload), zlib.crc32(payload))
    memory[at + _HEADER.size : at + _HEADER.size + len(payload)] = payload


def read(memory: memoryview, last_sequence: int) -> Marks | None:
    """Return the newest whole marks whose frame was numbered by ``last_sequence``; None if there are none."""
    found = [each for at in (0, _PLACE_BYTES) if (each := _at(memory, at)) is not None]
    found = [each for each in found if each.sequence <= last_sequence]
    return max(found, key=lambda each: each.sequence, default=None)


def _at(memory: memoryview, at: int) -> Marks | None:
    length, crc = _HEADER.unpack_from(memory, at)
    if not 0 < length <= _PLACE_BYTES - _HEADER.size:
        return None
    payload = bytes(memory[at + _HEADER.size : at + _HEADER.size + length])
    if zlib.crc32(payload) != crc:
        return None
    content: dict[str, Any] = json.loads(payload)
    if content["version"] != _VERSION:
        return None
    lanes = tuple(LaneMark(index, Totals(raw, wire, segments)) for index, raw, wire, segments in content["lanes"])
    return Marks(
        sequence=content["sequence"],
        since_ns=content["since_ns"],
        epoch=content["epoch"],
        epoch_reason=content["epoch_reason"],
        width_ns=content["width_ns"],
        at_host_port=content["at_host_port"],
        seen_ns=content["seen_ns"],
        ifindex=content["ifindex"],
        mark=Mark(content["bucket"], lanes),
        class_table=content["class_table"],
    )
