"""Makes a copy of a whole journal for the other side: one file, as of one moment, that checks by itself."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from controller.errors import OperatorError
from controller.journal import Journal
from controller.journal_schema import SIDE_FILES, fsync_folder, sqlite_errors


def export(journal: Journal, path: Path) -> int:
    """Write a copy of ``journal`` to ``path``; return how many entries it has.

    The copy is a journal: entries, checkpoints and cosignatures, without the private keys and without what deleted
    pages of the file still hold. `weighbridge journal fsck --journal PATH --log KEY` checks it anywhere.

    Raises:
        OperatorError: something is at ``path``, or it cannot be written; nothing is left behind.
    """
    fresh = path.with_name(f".{path.name}.new-{os.getpid()}")
    if path.exists() or path.is_symlink():
        raise OperatorError(f"{path} exists already; a copy never overwrites. Name another file.")
    try:
        os.close(os.open(fresh, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
        with sqlite_errors(journal.path):
            journal.rows("VACUUM INTO ?", str(fresh))
        with Journal.open(fresh) as copy:
            # A copy made so is not in write-ahead mode, which is what a journal's file is in.
            if copy.rows("PRAGMA journal_mode = WAL") != [("wal",)]:
                raise OperatorError(f"{path}: SQLite cannot keep a write-ahead log there. Name a file on a local disk.")
            entries = len(copy)
        descriptor = os.open(fresh, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        os.link(fresh, path)
        fsync_folder(path.parent)
    except OSError as error:
        raise OperatorError(f"{path}: cannot be written ({error.strerror}). Check the folder and the disk.") from error
    finally:
        for suffix in ("", *SIDE_FILES):
            with contextlib.suppress(OSError):
                fresh.with_name(fresh.name + suffix).unlink(missing_ok=True)
    return entries
