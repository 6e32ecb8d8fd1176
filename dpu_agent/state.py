"""What the agent must not forget: the numbers it has used, and what it needs to go on without a doubt.

One small file of fixed size with two slots, written in turn, each with generation and CRC-32: a write that is cut
anywhere leaves the other slot. The file never grows, so it can be written on a full disk; a sequence number is
therefore never used again, even when the spool was wiped. Not defended against: someone who puts back an old copy of
the whole directory (a virtual machine's snapshot); the controller sees numbers it already has under another hash.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dpu_agent.counters import CounterValues
from dpu_agent.disk import Disk
from dpu_agent.epochs import PortKey, PortState
from dpu_agent.errors import StateError
from protos.reading import Direction, Framing, Observer

FORMAT_VERSION = 1
# A port takes some 350 bytes as JSON and is never forgotten, a loss some 40: room for 300 ports ever and all losses.
SLOT_BYTES = 128 * 1024
# With more separate losses not yet in a frame the disk is dying; those left out are found again at the next start.
MAX_LOSSES = 400

_MAGIC = b"WBSTATE\0"
# magic, format version, length of the payload, generation; then the CRC-32 of all that and the payload.
_HEADER = struct.Struct(">8sIIQ")
_CRC = struct.Struct(">I")


@dataclass(frozen=True, slots=True)
class Loss:
    """Frames [first, last] that will not be sent (again), and why."""

    first: int
    last: int
    reason: str


@dataclass(frozen=True, slots=True)
class AgentState:
    """The fold of all frames so far.

    Attributes:
        sequence: of the newest frame, stored or lost; 0 before the first.
        previous_sha256: of that frame's body; empty before the first.
        acknowledged: the newest frame the controller is known to have on disk.
        lost_frames: frames lost unacknowledged, ever.
        agent_start: how often the agent was started with this key.
        losses: those no stored frame records yet.
        ports: the last reading of every port and source there ever was.
    """

    sequence: int = 0
    previous_sha256: bytes = b""
    acknowledged: int = 0
    lost_frames: int = 0
    agent_start: int = 0
    losses: tuple[Loss, ...] = ()
    ports: Mapping[PortKey, PortState] = field(default_factory=dict)


class StateFile:
    """The file. Writing raises OSError; the slot of the last good write is then still whole."""

    def __init__(self, disk: Disk, path: Path, descriptor: int, generation: int) -> None:
        self._disk, self._path, self._descriptor, self._generation = disk, path, descriptor, generation

    @classmethod
    def create(cls, disk: Disk, path: Path) -> StateFile:
        """Make the file, holding an empty state; it is there whole or not at all.

        Raises:
            OSError: it cannot be made.
        """
        scratch = path.with_name(path.name + ".new")
        if scratch.name in disk.list(path.parent):
            disk.remove(scratch)
        descriptor = disk.open(scratch, create=True)
        disk.allocate(descriptor, 2 * SLOT_BYTES)
        created = cls(disk, path, descriptor, 0)
        created.write(AgentState())
        disk.rename(scratch, path)
        disk.flush_directory(path.parent)
        return created

    @classmethod
    def open(cls, disk: Disk, path: Path) -> tuple[StateFile, AgentState]:
        """Return the file and the newest state in it.

        Raises:
            StateError: written by a newer agent, or neither slot is whole.
            OSError: it cannot be read.
        """
        descriptor = disk.open(path)
        generation, state = _newest(path, [disk.read_at(descriptor, SLOT_BYTES, at) for at in (0, SLOT_BYTES)])
        return cls(disk, path, descriptor, generation), state

    def write(self, state: AgentState) -> None:
        """Return when ``state`` is on disk."""
        payload = _encode(state)
        generation = self._generation + 1
        header = _HEADER.pack(_MAGIC, FORMAT_VERSION, len(payload), generation)
        slot = header + _CRC.pack(zlib.crc32(payload, zlib.crc32(header))) + payload
        if len(slot) > SLOT_BYTES:
            raise StateError(
                f"{self._path}: the state needs {len(slot)} bytes, a slot has {SLOT_BYTES}; use fewer ports"
            )
        self._disk.write_at(self._descriptor, slot, (generation % 2) * SLOT_BYTES)
        self._disk.flush(self._descriptor)
        self._generation = generation

    def close(self) -> None:
        """Close the file."""
        self._disk.close(self._descriptor)


def read_only(path: Path) -> AgentState | None:
    """Return the state in ``path`` without keeping it open, None where there is none yet.

    Raises:
        StateError, OSError: as :meth:`StateFile.open`.
    """
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return None
    return _newest(path, [content[:SLOT_BYTES], content[SLOT_BYTES:]])[1]


def _newest(path: Path, slots: list[bytes]) -> tuple[int, AgentState]:
    found: list[tuple[int, bytes]] = []
    for slot in slots:
        start = _HEADER.size + _CRC.size
        if len(slot) < start:
            continue
        magic, version, length, generation = _HEADER.unpack_from(slot)
        (crc,) = _CRC.unpack_from(slot, _HEADER.size)
        if magic != _MAGIC:
            continue
        if version > FORMAT_VERSION:
            raise StateError(
                f"{path}: was written by a newer agent (format {version}, this one knows {FORMAT_VERSION}); "
                "install that agent's release again"
            )
        payload = slot[start : start + length]
        if len(payload) == length and crc == zlib.crc32(payload, zlib.crc32(slot[: _HEADER.size])):
            found.append((generation, payload))
    if not found:
        raise StateError(
            f"{path}: is damaged, the numbers already used are not known; move {path.parent} away and start again: "
            "the agent gets a new key and must be enrolled anew"
        )
    generation, payload = max(found)
    return generation, _decode(path, payload)


def _encode(state: AgentState) -> bytes:
    ports = [
        {
            "port": port,
            "source": source,
            "role": at.role.value,
            "framing": at.framing.value,
            "epoch": at.epoch,
            "reason": at.reason,
            "boot_id": at.boot_id,
            "ifindex": at.ifindex,
            "gone": at.gone,
            "counters": {
                direction.value: [values.bytes, values.packets, values.dropped_packets, values.error_packets]
                for direction, values in at.counters.items()
            },
        }
        for (port, source), at in state.ports.items()
    ]
    document = {
        "sequence": state.sequence,
        "previous_sha256": state.previous_sha256.hex(),
        "acknowledged": state.acknowledged,
        "lost_frames": state.lost_frames,
        "agent_start": state.agent_start,
        "losses": [[loss.first, loss.last, loss.reason] for loss in state.losses[:MAX_LOSSES]],
        "ports": ports,
    }
    return json.dumps(document, separators=(",", ":")).encode()


def _decode(path: Path, payload: bytes) -> AgentState:
    # The CRC held, so what is here is what an agent of this format wrote; anything else is a fault to be seen.
    try:
        document: dict[str, Any] = json.loads(payload)
        return AgentState(
            sequence=document["sequence"],
            previous_sha256=bytes.fromhex(document["previous_sha256"]),
            acknowledged=document["acknowledged"],
            lost_frames=document["lost_frames"],
            agent_start=document["agent_start"],
            losses=tuple(Loss(*loss) for loss in document["losses"]),
            ports={(item["port"], item["source"]): _port(item) for item in document["ports"]},
        )
    except (ValueError, KeyError, TypeError) as error:
        raise StateError(
            f"{path}: says something this agent cannot read ({error!r}); install the agent that wrote it"
        ) from error


def _port(item: Mapping[str, Any]) -> PortState:
    return PortState(
        role=Observer(item["role"]),
        framing=Framing(item["framing"]),
        epoch=item["epoch"],
        reason=item["reason"],
        boot_id=item["boot_id"],
        ifindex=item["ifindex"],
        gone=item["gone"],
        counters={Direction(name): CounterValues(*values) for name, values in item["counters"].items()},
    )
