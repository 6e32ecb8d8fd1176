"""Finding and clearing away what belongs to a rig, by name alone.

A rig's parts are known by name, not by a record that a crash could leave behind: machines' first processes carry
``hil.boot --rig NAME`` on their command line, network namespaces are called ``wb-NAME-MACHINE``. When a first
process dies, the kernel ends the whole machine: its processes, mounts and interfaces.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from hil import enter
from hil.errors import TeardownError
from hil.firstprocess import FirstProcess
from hil.network import NAMESPACES

_LONGEST_WAIT_S = 5.0


@dataclass(frozen=True)
class Found:
    """A process of a rig: its machine and the state directory it was started with."""

    rig: str
    machine: str
    state: Path
    process: FirstProcess


def processes() -> Iterator[Found]:
    """Yield the processes of all rigs on this computer, told by their command line."""
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            words = (folder / "cmdline").read_bytes().split(b"\0")
            if words[1:4] != [b"-m", b"hil.boot", b"--rig"]:
                continue
            rig, machine, state = (os.fsdecode(words[index]) for index in (4, 6, 8))
            process = FirstProcess(int(folder.name), enter.start_time(int(folder.name)))
        except (FileNotFoundError, ProcessLookupError):
            continue  # it ended while we looked
        yield Found(rig, machine, Path(state), process)


def namespaces(rig: str) -> list[str]:
    """Return the names of the rig's network namespaces."""
    if not NAMESPACES.is_dir():
        return []
    return sorted(path.name for path in NAMESPACES.iterdir() if path.name.startswith(f"wb-{rig}-"))


def rigs() -> dict[str, Path | None]:
    """Return every rig that has something on this computer, with its state directory where a process tells it."""
    found: dict[str, Path | None] = {}
    if NAMESPACES.is_dir():
        found = {path.name.split("-")[1]: None for path in NAMESPACES.iterdir() if path.name.startswith("wb-")}
    return found | {process.rig: process.state for process in processes()}


def exist(rig: str) -> bool:
    """Return whether anything of the rig is there."""
    return bool(namespaces(rig)) or any(found.rig == rig for found in processes())


def clear(rig: str, *, grace_s: float = 0.0) -> None:
    """End and remove everything of the rig, and make sure of it.

    1. End the first processes; the kernel ends the machines with them.
    2. Remove the named network namespaces.
    3. Look again, with patience for what the kernel does later: processes, names, mounts, and processes from
       outside that still hold one of the namespaces.

    Raises:
        TeardownError: something is still there; the text names it.
    """
    inodes = {_inode(NAMESPACES / name) for name in namespaces(rig)} - {None}
    for found in list(processes()):
        if found.rig == rig:
            found.process.end(grace_s=grace_s)
    for name in namespaces(rig):
        done = subprocess.run(["ip", "netns", "del", name], capture_output=True, text=True, check=False)
        if done.returncode != 0 and (NAMESPACES / name).exists():
            raise TeardownError(f"cannot remove network namespace {name}: {done.stderr.strip()}")
    deadline = time.monotonic() + _LONGEST_WAIT_S
    while left := _left(rig, inodes):
        if time.monotonic() > deadline:
            raise TeardownError(f"rig {rig} is not gone: {'; '.join(left)}. End what is named and run 'down' again")
        time.sleep(0.02)


def _left(rig: str, inodes: set[int | None]) -> list[str]:
    left = [f"process {found.process.pid} of machine {found.machine}" for found in processes() if found.rig == rig]
    left += [f"network namespace {name}" for name in namespaces(rig)]
    mounts = Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    left += [f"mount {line.split()[4]}" for line in mounts if f"/wb-{rig}-" in line.split()[4]]
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit() and _inode(folder / "ns" / "net") in inodes - {None}:
            left.append(f"process {folder.name} is still in one of its network namespaces")
    return left


def _inode(path: Path) -> int | None:
    try:
        return path.stat().st_ino
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return None
