"""What the lease keeper must not forget, on the disk: numbers taken, leases in force, what was used of each budget.

A lease is kept as the bytes it came as and is parsed and checked again at the next start. A file that is damaged is
refused, not replaced: without it a lease that was used before could be used again.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dpu_agent.disk import Disk
from dpu_agent.errors import StateError
from dpu_agent.keeper import Floor, Held, KeeperState, Place
from dpu_agent.twoslots import NewerFormatError, TwoSlots
from protos.buckets import TrafficClass
from protos.lease import LeaseKind, Slot
from protos.leasewire import parse_lease
from protos.reading import Direction
from protos.v1 import lease_pb2

FILE = "leases"
FORMAT_VERSION = 1
# 64 ports with a lease of each kind for every class need some 300 kB.
SLOT_BYTES = 512 * 1024
_MAGIC = b"WBLEASE\0"


@dataclass(frozen=True, slots=True)
class Counted:
    """Up to where a slot's traffic is charged: the limiter's total of bytes passed, and when it was read."""

    passed_bytes: int
    at_ns: int


@dataclass(frozen=True, slots=True)
class Remembered:
    """The keeper's state, and up to where traffic is charged to it."""

    keeper: KeeperState = field(default_factory=KeeperState)
    counted: Mapping[Slot, Counted] = field(default_factory=dict)


class LeaseStore:
    """The file. Writing raises OSError; what was written before is then still whole."""

    def __init__(self, slots: TwoSlots, written: bytes) -> None:
        self._slots, self._written = slots, written

    @classmethod
    def open(cls, disk: Disk, directory: Path) -> tuple[LeaseStore, Remembered]:
        """Return the file in ``directory``, made where it is not there, and what it holds.

        Raises:
            StateError: it is damaged, or was written by a newer agent.
            OSError: it cannot be read or made.
        """
        path = directory / FILE
        if FILE not in disk.list(directory):
            empty = _encode(Remembered())
            slots = TwoSlots.create(disk, path, empty, magic=_MAGIC, version=FORMAT_VERSION, slot_bytes=SLOT_BYTES)
            return cls(slots, empty), Remembered()
        try:
            slots, payload = TwoSlots.open(disk, path, magic=_MAGIC, version=FORMAT_VERSION, slot_bytes=SLOT_BYTES)
        except NewerFormatError as error:
            raise StateError(
                f"{path}: was written by a newer agent ({error}); install that agent's release again"
            ) from error
        if payload is None:
            raise StateError(
                f"{path}: is damaged, which leases were used is not known; move {directory} away and start again: "
                "the agent gets a new key and must be enrolled anew"
            )
        return cls(slots, payload), _decode(path, payload)

    def write(self, remembered: Remembered) -> None:
        """Return when ``remembered`` is on disk."""
        payload = _encode(remembered)
        if payload != self._written:
            self._slots.write(payload)
            self._written = payload

    def close(self) -> None:
        """Close the file."""
        self._slots.close()


def _encode(remembered: Remembered) -> bytes:
    keeper = remembered.keeper
    document = {
        "highest_sequence": keeper.highest_sequence,
        "boot_id": keeper.boot_id,
        "latest_ns": keeper.latest_ns,
        "places": [
            {
                **_slot(slot),
                "kind": kind.value,
                "signed": base64.b64encode(place.held.signed).decode() if place.held else None,
                "floor": place.floor.value,
                "budget": place.budget,
                "used_bytes": place.used_bytes,
                "window": place.window,
            }
            for (slot, kind), place in keeper.places.items()
        ],
        "counted": [
            {**_slot(slot), "passed_bytes": at.passed_bytes, "at_ns": at.at_ns}
            for slot, at in remembered.counted.items()
        ],
    }
    return json.dumps(document, separators=(",", ":")).encode()


def _slot(slot: Slot) -> dict[str, str]:
    return {"port": slot.port, "direction": slot.direction.value, "class": slot.traffic_class.title}


def _decode(path: Path, payload: bytes) -> Remembered:
    # The CRC held, so what is here is what an agent of this format wrote; anything else is a fault to be seen.
    try:
        document: dict[str, Any] = json.loads(payload)
        keeper = KeeperState(
            highest_sequence=document["highest_sequence"],
            boot_id=document["boot_id"],
            latest_ns=document["latest_ns"],
            places={(_slot_of(item), LeaseKind(item["kind"])): _place(item) for item in document["places"]},
        )
        counted = {_slot_of(item): Counted(item["passed_bytes"], item["at_ns"]) for item in document["counted"]}
    except (ValueError, KeyError, TypeError) as error:
        raise StateError(
            f"{path}: says something this agent cannot read ({error!r}); install the agent that wrote it"
        ) from error
    return Remembered(keeper, counted)


def _slot_of(item: Mapping[str, Any]) -> Slot:
    traffic_class = TrafficClass[item["class"].upper().replace("-", "_")]
    return Slot(item["port"], Direction(item["direction"]), traffic_class)


def _place(item: Mapping[str, Any]) -> Place:
    held = None
    if item["signed"] is not None:
        signed = base64.b64decode(item["signed"], validate=True)
        held = Held(parse_lease(lease_pb2.SignedLease.FromString(signed).body), signed)
    return Place(held, Floor(item["floor"]), item["budget"], item["used_bytes"], item["window"])
