"""A small file of fixed size that is written again and again and is whole after any crash.

Two slots are written in turn, each with generation and CRC-32: a write that is cut anywhere leaves the other slot. The
file never grows, so it can be written on a full disk.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from pathlib import Path

from dpu_agent.disk import Disk

# magic, format version, length of the payload, generation; then the CRC-32 of all that and the payload.
_HEADER = struct.Struct(">8sIIQ")
_CRC = struct.Struct(">I")
OVERHEAD = _HEADER.size + _CRC.size
"""Bytes of a slot that are not payload."""


class NewerFormatError(Exception):
    """The file was written in a later format; ``str()`` names both."""


class TooLargeError(Exception):
    """A payload that does not fit into a slot; nothing was written."""


class TwoSlots:
    """The file, open. Writing raises OSError; the slot of the last good write is then still whole."""

    def __init__(
        self, disk: Disk, path: Path, descriptor: int, *, magic: bytes, version: int, slot_bytes: int, generation: int
    ) -> None:
        """Use :meth:`create` or :meth:`open`."""
        self._disk, self.path, self._descriptor = disk, path, descriptor
        self._magic, self._version, self._slot_bytes, self._generation = magic, version, slot_bytes, generation

    @classmethod
    def create(cls, disk: Disk, path: Path, payload: bytes, *, magic: bytes, version: int, slot_bytes: int) -> TwoSlots:
        """Make the file, holding ``payload``; it is there whole or not at all.

        Raises:
            OSError: it cannot be made.
        """
        scratch = path.with_name(path.name + ".new")
        if scratch.name in disk.list(path.parent):
            disk.remove(scratch)
        descriptor = disk.open(scratch, create=True)
        disk.allocate(descriptor, 2 * slot_bytes)
        created = cls(disk, path, descriptor, magic=magic, version=version, slot_bytes=slot_bytes, generation=0)
        created.write(payload)
        disk.rename(scratch, path)
        disk.flush_directory(path.parent)
        return created

    @classmethod
    def open(
        cls, disk: Disk, path: Path, *, magic: bytes, version: int, slot_bytes: int
    ) -> tuple[TwoSlots, bytes | None]:
        """Return the file and the newest payload in it, None where neither slot is whole.

        Raises:
            NewerFormatError: written in a later format.
            OSError: it cannot be read.
        """
        descriptor = disk.open(path)
        slots = [disk.read_at(descriptor, slot_bytes, at) for at in (0, slot_bytes)]
        try:
            generation, payload = newest(slots, magic=magic, version=version)
        except NewerFormatError:
            disk.close(descriptor)
            raise
        opened = cls(disk, path, descriptor, magic=magic, version=version, slot_bytes=slot_bytes, generation=generation)
        return opened, payload

    def write(self, payload: bytes) -> None:
        """Return when ``payload`` is on disk.

        Raises:
            TooLargeError: it does not fit.
            OSError: it cannot be written.
        """
        if OVERHEAD + len(payload) > self._slot_bytes:
            raise TooLargeError(f"{OVERHEAD + len(payload)} bytes are needed, a slot has {self._slot_bytes}")
        generation = self._generation + 1
        header = _HEADER.pack(self._magic, self._version, len(payload), generation)
        slot = header + _CRC.pack(zlib.crc32(payload, zlib.crc32(header))) + payload
        self._disk.write_at(self._descriptor, slot, (generation % 2) * self._slot_bytes)
        self._disk.flush(self._descriptor)
        self._generation = generation

    def close(self) -> None:
        """Close the file."""
        self._disk.close(self._descriptor)


def newest(slots: Sequence[bytes], *, magic: bytes, version: int) -> tuple[int, bytes | None]:
    """Return the generation and payload of the newest whole slot; (0, None) where none is whole.

    Raises:
        NewerFormatError: one was written in a later format.
    """
    found: list[tuple[int, bytes]] = []
    for slot in slots:
        if len(slot) < OVERHEAD:
            continue
        said, its_version, length, generation = _HEADER.unpack_from(slot)
        (crc,) = _CRC.unpack_from(slot, _HEADER.size)
        if said != magic:
            continue
        if its_version > version:
            raise NewerFormatError(f"format {its_version}, this one knows {version}")
        payload = slot[OVERHEAD : OVERHEAD + length]
        if len(payload) == length and crc == zlib.crc32(payload, zlib.crc32(slot[: _HEADER.size])):
            found.append((generation, payload))
    return max(found) if found else (0, None)
