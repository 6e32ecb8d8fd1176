"""What a rig's state directory says about itself (``rig.json``), and who may build in it.

The record is for opening a rig again and for telling whose it is; what has to be cleared away after a crash is found
without it (``hil/remains.py``).
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import shutil
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hil import enter, remains
from hil.errors import RigError
from hil.firstprocess import FirstProcess
from hil.plan import ExtraCable
from hil.rigfile import RigFile

_FILE, _VERSION = "rig.json", 1
STARTING, UP, DOWN = "starting", "up", "down"


@dataclass(frozen=True)
class Record:
    """A rig: its name, ``phase`` (starting, up, down), the process it belongs to, its file and added cables."""

    name: str
    phase: str
    owner: FirstProcess | None  # None: it stays up until 'down'
    file: RigFile
    extra: tuple[ExtraCable, ...]

    @property
    def in_use(self) -> bool:
        """Whether it is up and was not left behind by a process that died."""
        return self.phase == UP and (self.owner is None or self.owner.is_alive())


def this_process() -> FirstProcess:
    """Return the calling process, as the owner of a rig."""
    return FirstProcess(os.getpid(), enter.start_time(os.getpid()))


def write(state: Path, record: Record) -> None:
    """Write the record, whole or not at all."""
    content = {
        "version": _VERSION,
        "name": record.name,
        "phase": record.phase,
        "owner": None if record.owner is None else dataclasses.asdict(record.owner),
        "file": record.file.model_dump(mode="json"),
        "extra_cables": [dataclasses.asdict(cable) for cable in record.extra],
    }
    partial = state / f"{_FILE}.new"
    partial.write_text(json.dumps(content, indent=1), encoding="utf-8")
    partial.replace(state / _FILE)


def read(state: Path) -> Record | None:
    """Return the record, or None if there is none.

    Raises:
        RigError: another version of Weighbridge wrote it.
    """
    try:
        content: dict[str, Any] = json.loads((state / _FILE).read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        return None
    if content.get("version") != _VERSION:
        raise RigError(f"{state / _FILE} was written by another version of Weighbridge; run 'hil down', then 'hil up'")
    return Record(
        content["name"],
        content["phase"],
        None if content["owner"] is None else FirstProcess(**content["owner"]),
        RigFile.model_validate(content["file"]),
        tuple(ExtraCable(**cable) for cable in content["extra_cables"]),
    )


def mark_down(state: Path) -> None:
    """Note that the rig is down; where there is no record that can be read, there is nothing to note."""
    with contextlib.suppress(RigError):
        record = read(state)
        if record is not None:
            write(state, dataclasses.replace(record, phase=DOWN, owner=None))


def refuse_if_in_use(name: str) -> None:
    """Return if a rig of that name may be built: there is none, or only the remains of one.

    Raises:
        RigError: it is up, and in use.
    """
    state = remains.rigs().get(name)
    record = None if state is None else read(state)
    if record is not None and record.in_use:
        whose = "" if record.owner is None else f" and belongs to process {record.owner.pid}"
        raise RigError(f"rig {name} is up already{whose} (state in {state}); run 'weighbridge hil down {name}' first")


def make_empty(state: Path) -> None:
    """Make the state directory, or empty it if it was a rig's.

    Raises:
        RigError: it holds something else; nothing was touched.
    """
    if state.exists() and any(state.iterdir()) and not (state / _FILE).exists():
        raise RigError(f"{state} is not empty and not a rig's state directory; name another with --state")
    for child in state.iterdir() if state.exists() else ():
        if child.name == _FILE:
            continue  # stays, so that a crash in between leaves it a rig's directory
        if child.is_dir() and not child.is_symlink():
            shutil.rmtree(child)
        else:
            child.unlink()
    state.mkdir(parents=True, exist_ok=True)


@contextlib.contextmanager
def sole_builder(name: str) -> Iterator[None]:
    """Keep others from building or tearing down the rig of that name; the lock goes with this process.

    Raises:
        RigError: another process is at it.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as lock:
        try:
            lock.bind(f"\0weighbridge-rig-{name}")
        except OSError as error:
            raise RigError(f"rig {name} is just being built or torn down by another process; wait for it") from error
        yield
