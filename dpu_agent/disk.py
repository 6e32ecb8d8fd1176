"""The seam to the disk: the few calls on which durability rests.

What is promised, and nothing more: bytes written are on disk after :meth:`Disk.flush` of their file; a name made,
moved or removed is on disk after :meth:`Disk.flush_directory`. Before that a power cut may keep any part of it.
:class:`dpu_agent.memory_disk.MemoryDisk`, the double, does exactly that.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

FILE_MODE = 0o600
DIRECTORY_MODE = 0o700


class Disk:
    """The file system. Every method raises OSError as the system does."""

    def open(self, path: Path, *, create: bool = False) -> int:
        """Return a descriptor to read and write ``path``; with ``create`` it is made, and must not be there."""
        flags = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | (os.O_CREAT | os.O_EXCL if create else 0)
        return os.open(path, flags, FILE_MODE)

    def size(self, descriptor: int) -> int:
        """Bytes in the file."""
        return os.fstat(descriptor).st_size

    def mode(self, descriptor: int) -> int:
        """Permission bits of the file."""
        return stat.S_IMODE(os.fstat(descriptor).st_mode)

    def read_at(self, descriptor: int, size: int, offset: int) -> bytes:
        """Return up to ``size`` bytes; fewer only at the file's end."""
        parts = []
        while size > 0 and (part := os.pread(descriptor, size, offset)):
            parts.append(part)
            size, offset = size - len(part), offset + len(part)
        return b"".join(parts)

    def write_at(self, descriptor: int, data: bytes, offset: int) -> None:
        """Write all of ``data``."""
        view = memoryview(data)
        while view:
            written = os.pwrite(descriptor, view, offset)
            view, offset = view[written:], offset + written

    def allocate(self, descriptor: int, size: int) -> None:
        """Give the file ``size`` bytes of disk, so that writing below that cannot find the disk full."""
        os.posix_fallocate(descriptor, 0, size)

    def flush(self, descriptor: int) -> None:
        """Return when what was written is on disk."""
        os.fdatasync(descriptor)

    def close(self, descriptor: int) -> None:
        """Give the descriptor back."""
        os.close(descriptor)

    def make_directory(self, path: Path) -> None:
        """Make ``path``, for its owner only; fine if it is there."""
        path.mkdir(mode=DIRECTORY_MODE, exist_ok=True)

    def list(self, directory: Path) -> list[str]:
        """Return the names in ``directory``, sorted."""
        return sorted(path.name for path in directory.iterdir())

    def rename(self, source: Path, target: Path) -> None:
        """Move ``source`` to ``target``, replacing it."""
        source.replace(target)

    def remove(self, path: Path) -> None:
        """Remove the file."""
        path.unlink()

    def flush_directory(self, directory: Path) -> None:
        """Return when the names in ``directory`` are on disk."""
        descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
