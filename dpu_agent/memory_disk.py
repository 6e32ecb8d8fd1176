"""The disk's double: files in memory, a capacity, and a power cut that keeps any part of what was not flushed."""

from __future__ import annotations

import errno
import os
import random
from dataclasses import dataclass, field
from pathlib import Path

from dpu_agent.disk import FILE_MODE, Disk


class PowerCutError(Exception):
    """The double's power went; only what :meth:`MemoryDisk.survivor` returns is left."""


@dataclass
class _File:
    """``data`` is what a reader finds; ``flushed`` plus any part of ``written`` is what a power cut leaves."""

    data: bytearray = field(default_factory=bytearray)
    flushed: bytearray = field(default_factory=bytearray)
    written: list[tuple[int, bytes]] = field(default_factory=list)

    def write(self, offset: int, data: bytes) -> None:
        self.written.append((offset, data))
        _write(self.data, offset, data)

    def flush(self) -> None:
        for offset, data in self.written:
            _write(self.flushed, offset, data)
        self.written = []


def _write(content: bytearray, offset: int, data: bytes) -> None:
    content.extend(bytes(max(0, offset + len(data) - len(content))))
    content[offset : offset + len(data)] = data


class MemoryDisk(Disk):
    """The double: files in memory, a capacity, and a power cut after a number of changes.

    Attributes:
        capacity: bytes all files together may have; beyond it writing and allocating raise ENOSPC.
        changes_left: changes until the power goes; None for never.
        broken_flush: the next so many flushes raise EIO, and what they should have flushed stays in doubt.
        bad_files: flushing these always raises EIO.
    """

    def __init__(self, capacity: int | None = None) -> None:
        self.capacity = capacity
        self.changes_left: int | None = None
        self.broken_flush = 0
        self.bad_files: set[Path] = set()
        self.changes = 0
        self._names: dict[Path, _File] = {}
        # The names as last flushed, then as after each change since.
        self._names_since_flush: list[dict[Path, _File]] = [{}]
        self._open: dict[int, _File] = {}
        self._next_descriptor = 1000

    def survivor(self, seed: int) -> MemoryDisk:
        """Return the disk after a power cut: of each file any part of what was not flushed, torn anywhere.

        Of the changes to names a first part survives: journaling file systems keep their order.
        """
        chance = random.Random(seed)  # noqa: S311  a reproducible accident, not cryptography
        after = MemoryDisk(self.capacity)
        for path, file in chance.choice(self._names_since_flush).items():
            kept = [(offset, data) for offset, data in file.written if chance.random() < 0.5]
            if kept and chance.random() < 0.7:
                offset, data = kept[-1]
                kept[-1] = (offset, data[: chance.randrange(len(data) + 1)])
            content = bytearray(file.flushed)
            for offset, data in kept:
                _write(content, offset, data)
            after._names[path] = _File(content, bytearray(content))
        after._names_since_flush = [dict(after._names)]
        return after

    def content(self, path: Path) -> bytes:
        """What a reader finds in ``path``."""
        return bytes(self._names[path].data)

    def replace_content(self, path: Path, content: bytes) -> None:
        """Damage ``path`` so that it holds ``content``."""
        self._names[path] = _File(bytearray(content), bytearray(content))
        self._names_since_flush = [dict(self._names)]

    def open(self, path: Path, *, create: bool = False) -> int:
        """As the file system."""
        if create:
            if path in self._names:
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path))
            self._change(0)
            self._names[path] = _File()
            self._names_since_flush.append(dict(self._names))
        elif path not in self._names:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
        self._next_descriptor += 1
        self._open[self._next_descriptor] = self._names[path]
        return self._next_descriptor

    def size(self, descriptor: int) -> int:
        """As the file system."""
        return len(self._open[descriptor].data)

    def mode(self, descriptor: int) -> int:  # noqa: ARG002  all files are alike here
        """Every file is its owner's alone."""
        return FILE_MODE

    def read_at(self, descriptor: int, size: int, offset: int) -> bytes:
        """As the file system."""
        return bytes(self._open[descriptor].data[offset : offset + size])

    def write_at(self, descriptor: int, data: bytes, offset: int) -> None:
        """As the file system; a power cut may tear this very write."""
        file = self._open[descriptor]
        growth = max(0, offset + len(data) - len(file.data))
        self._change(growth, (file, offset, data))
        file.write(offset, bytes(data))

    def allocate(self, descriptor: int, size: int) -> None:
        """As the file system."""
        file = self._open[descriptor]
        growth = max(0, size - len(file.data))
        if growth:
            self._change(growth)
            file.write(len(file.data), bytes(growth))

    def flush(self, descriptor: int) -> None:
        """As the file system; may be told to break."""
        self._change(0)
        file = self._open[descriptor]
        if self.broken_flush or any(self._names.get(path) is file for path in self.bad_files):
            self.broken_flush = max(0, self.broken_flush - 1)
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        file.flush()

    def close(self, descriptor: int) -> None:
        """As the file system."""
        del self._open[descriptor]

    def make_directory(self, path: Path) -> None:
        """Directories need no making here."""

    def list(self, directory: Path) -> list[str]:
        """As the file system."""
        return sorted(path.name for path in self._names if path.parent == directory)

    def rename(self, source: Path, target: Path) -> None:
        """As the file system."""
        self._change(0)
        self._names[target] = self._names.pop(source)
        self._names_since_flush.append(dict(self._names))

    def remove(self, path: Path) -> None:
        """As the file system."""
        self._change(0)
        del self._names[path]
        self._names_since_flush.append(dict(self._names))

    def flush_directory(self, directory: Path) -> None:
        """As the file system."""
        self._change(0)
        here = {path: file for path, file in self._names.items() if path.parent == directory}
        self._names_since_flush = [
            {path: file for path, file in names.items() if path.parent != directory} | here
            for names in self._names_since_flush
        ]

    def _change(self, growth: int, write: tuple[_File, int, bytes] | None = None) -> None:
        """Count a change; raise where the disk is full or the power goes in the middle of it."""
        if self.changes_left is not None:
            if self.changes_left == 0:
                if write is not None:
                    file, offset, data = write
                    file.write(offset, bytes(data))
                raise PowerCutError
            self.changes_left -= 1
        self.changes += 1
        used = sum(len(file.data) for file in self._names.values())
        if growth and self.capacity is not None and used + growth > self.capacity:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
