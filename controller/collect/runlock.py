"""One run a journal: a lock that ends with the process that holds it, however it ends."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

from controller.errors import OperatorError


def lock_path(journal: Path) -> Path:
    """Return the lock's file: beside the journal itself, also when it was named through a symbolic link."""
    real = journal.resolve()
    return real.with_name(real.name + ".run")


@contextlib.contextmanager
def only_run(journal: Path) -> Iterator[None]:
    """Hold the journal's run lock.

    The file stays when the lock is gone: to remove it would let two runs hold locks on two files of one name.

    Raises:
        OperatorError: another run holds it, or the file cannot be made.
    """
    path = lock_path(journal)
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise OperatorError(f"{path}: cannot be made ({error.strerror}). Check the journal's folder.") from error
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            holder = os.pread(descriptor, 32, 0).decode("ascii", "replace").strip()
            who = f"process {holder}" if holder.isdigit() else "another process"
            raise OperatorError(
                f"{journal}: {who} is collecting into this journal already (`weighbridge run`). "
                "Stop it first, or use another journal; nothing was changed."
            ) from error
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        yield
    finally:
        os.close(descriptor)
