"""What the agent must not forget: the numbers it has used, and what it needs to go on without a doubt.

One small file of fixed size (:mod:`dpu_agent.twoslots`): a write that is cut anywhere leaves the state before it, and
it can be written on a full disk; a sequence number is therefore never used again, even when the spool was wiped. Not
defended against: someone who puts back an old copy of the whole directory (a virtual machine's snapshot); the
controller sees numbers it already has under another hash.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dpu_agent.counters import CounterValues
from dpu_agent.disk import Disk
from dpu_agent.epochs import PortKey, PortState
from dpu_agent.errors import StateError
from dpu_agent.twoslots import NewerFormatError, TooLargeError, TwoSlots, newest
from protos.reading import Direction, Framing, Observer

FORMAT_VERSION = 1
# A port takes some 350 bytes as JSON and is never forgotten, a loss some 40: room for 300 ports ever and all losses.
SLOT_BYTES = 128 * 1024
# With more separate losses not yet in a frame the disk is dying; those left out are found again at the next start.
MAX_LOSSES = 400

_MAGIC = b"WBSTATE\0"


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

    def __init__(self, slots: TwoSlots) -> None:
        self._slots = slots

    @classmethod
    def create(cls, disk: Disk, path: Path) -> StateFile:
        """Make the file, holding an empty state; it is there whole or not at all.

        Raises:
            OSError: it cannot be made.
        """
        empty = _encode(AgentState())
        return cls(TwoSlots.create(disk, path, empty, magic=_MAGIC, version=FORMAT_VERSION, slot_bytes=SLOT_BYTES))

    @classmethod
    def open(cls, disk: Disk, path: Path) -> tuple[StateFile, AgentState]:
        """Return the file and the newest state in it.

        Raises:
            StateError: written by a newer agent, or neither slot is whole.
            OSError: it cannot be read.
        """
        try:
            slots, payload = TwoSlots.open(disk, path, magic=_MAGIC, version=FORMAT_VERSION, slot_bytes=SLOT_BYTES)
        except NewerFormatError as error:
            raise _newer(path, error) from error
        return cls(slots), _decode(path, payload)

    def write(self, state: AgentState) -> None:
        """Return when ``state`` is on disk."""
        try:
            self._slots.write(_encode(state))
        except TooLargeError as error:
            raise StateError(f"{self._slots.path}: the state: {error}; use fewer ports") from error

    def close(self) -> None:
        """Close the file."""
        self._slots.close()


def read_only(path: Path) -> AgentState | None:
    """Return the state in ``path`` without keeping it open, None where there is none yet.

    Raises:
        StateError, OSError: as :meth:`StateFile.open`.
    """
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return None
    try:
        _, payload = newest([content[:SLOT_BYTES], content[SLOT_BYTES:]], magic=_MAGIC, version=FORMAT_VERSION)
    except NewerFormatError as error:
        raise _newer(path, error) from error
    return _decode(path, payload)


def _newer(path: Path, error: NewerFormatError) -> StateError:
    return StateError(f"{path}: was written by a newer agent ({error}); install that agent's release again")


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


def _decode(path: Path, payload: bytes | None) -> AgentState:
    if payload is None:
        raise StateError(
            f"{path}: is damaged, the numbers already used are not known; move {path.parent} away and start again: "
            "the agent gets a new key and must be enrolled anew"
        )
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
