"""Kills and failing system calls, judged by fsck: whatever happens, nothing that was promised is lost.

Each run of :mod:`hil.bench.faultwriter` is made to fail in one way; then the journal is opened for writing once, which
is all the recovery there is, and everything that the run was promised is looked for.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

from controller.bundle import read_head
from controller.errors import WeighbridgeError
from controller.evidence import checkpoint as checkpoints
from controller.journal import Journal, Kind
from controller.journal_fsck import fsck
from controller.journal_log import sizes
from controller.keychange import change_log_key
from controller.logkeys import key_faults, load_log_public
from controller.logrotation import read_handover
from controller.witness_store import Witness
from hil.bench.faultwriter import SITE, body, journal_of

CALLS: tuple[tuple[str, str], ...] = (
    ("pwrite64", "EIO"),
    ("pwrite64", "ENOSPC"),
    ("write", "ENOSPC"),
    ("fdatasync", "EIO"),
    ("fsync", "EIO"),
    ("rename", "EIO"),
    ("link,linkat", "EIO"),
    ("unlink,unlinkat", "EIO"),
    ("ftruncate", "EIO"),
)
"""System calls that are made to fail, and how."""

_DEADLINE_S = 120.0


@dataclass(frozen=True, slots=True)
class Run:
    """What one run was promised and what was wrong afterwards. ``failures``: how often it was told that it failed."""

    promised: int
    failures: int
    wrong: tuple[str, ...]


def killed(folder: Path, rng: Random, works: Sequence[str]) -> Run:
    """Run each of ``works`` as a process of its own on one journal, and kill all at a random moment."""
    processes = [subprocess.Popen(_command(work, folder, 10_000), stdout=subprocess.PIPE) for work in works]
    first = []
    for process in processes:
        assert process.stdout is not None  # noqa: S101  it was asked for
        first.append(process.stdout.readline())
    time.sleep(rng.random() * 0.3)
    for process in processes:
        os.kill(process.pid, signal.SIGKILL)
    said = b"".join(first) + b"".join(process.communicate()[0] for process in processes)
    return _judge(folder, said)


def failing(folder: Path, work: str, call: str, error: str, when: str) -> Run:
    """Run ``work`` with the system call ``call`` failing with ``error``, ``when``: ``3``, ``3+``, ``3+2`` (strace)."""
    strace = ["strace", "-f", "-qq", "-o", "/dev/null", "-e", f"trace={call}"]
    strace += ["-e", f"inject={call}:error={error}:when={when}"]
    done = subprocess.run([*strace, *_command(work, folder, 3)], capture_output=True, check=False, timeout=_DEADLINE_S)
    return _judge(folder, done.stdout, () if done.returncode == 0 else (f"it died: {done.stderr.decode()[-300:]}",))


def full_disk(folder: Path, work: str, size_bytes: int) -> Run:
    """Run ``work`` on a disk of ``size_bytes`` until it is full, make room, and run it again. Needs root."""
    folder.mkdir(parents=True, exist_ok=True)
    script = (
        'mount -t tmpfs -o "size=$1" tmpfs "$2" && shift 2 && folder=$1 && shift && '
        'head -c 400000 /dev/zero > "$folder/filler" && '
        '"$@" && rm "$folder/filler" && "$@" && cp -a "$folder" "$folder.after"'
    )
    command = ["unshare", "-m", "sh", "-ec", script, "sh", str(size_bytes), str(folder), str(folder)]
    done = subprocess.run(
        [*command, *_command(work, folder, 12)], capture_output=True, check=False, timeout=_DEADLINE_S
    )
    after = folder.with_name(f"{folder.name}.after")
    if not after.exists():
        return Run(0, 0, (f"it died: {done.stderr.decode()[-300:]}",))
    return _judge(after, done.stdout)


def _command(work: str, folder: Path, rounds: int) -> list[str]:
    folder.mkdir(parents=True, exist_ok=True)
    return [sys.executable, "-m", "hil.bench.faultwriter", work, str(folder), str(rounds)]


def _judge(folder: Path, said: bytes, wrong: tuple[str, ...] = ()) -> Run:
    lines = [line.split(" ", 1) for line in said.decode().splitlines() if " " in line]
    promised = {
        what: max((int(value) for word, value in lines if word == what), default=0)
        for what in ("kept", "signed", "cosigned")
    }
    failures = sum(word == "failed" for word, _ in lines)
    found = (*wrong, *_wrong(folder, promised, [value for word, value in lines if word == "written"]))
    return Run(promised["kept"], failures, found)


def _wrong(folder: Path, promised: dict[str, int], written: list[str]) -> Iterator[str]:
    path = journal_of(folder)
    if not path.exists():
        if any(promised.values()):
            yield "the journal is gone"
        return
    try:
        with Journal.open(path) as journal:
            last = journal.last(Kind.LOG_KEY)
            if last is not None and read_handover(last).new != load_log_public(path):
                # What the operator is told to do after a change of the key that failed.
                change_log_key(journal, SITE, now_ns=1)
        with Journal.open(path, read_only=True) as journal:
            log = load_log_public(path) if sizes(journal) else None
            found = fsck(journal, log)
            yield from (fault.text for fault in found.faults)
            if found.entries < promised["kept"]:
                yield f"{promised['kept']} entries were promised, {found.entries} are there"
            if max(sizes(journal), default=0) < promised["signed"]:
                yield f"a checkpoint of {promised['signed']} entries was promised and is gone"
            yield from _mixed(journal)
        yield from key_faults(path, signed=found.checkpoints > 0)[0]
        if promised["cosigned"]:
            note = Witness(folder / "witness").last(f"weighbridge/{SITE}")
            if note is None or checkpoints.decode(note.text).size < promised["cosigned"]:
                yield f"the witness cosigned {promised['cosigned']} entries and has forgotten it"
        for name in set(written):
            yield from _half(folder / name)
    except WeighbridgeError as error:
        yield str(error)


def _mixed(journal: Journal) -> Iterator[str]:
    for entry in journal.entries():
        if entry.source.startswith("writer-") and not _is_body(entry.body):
            yield f"entry {entry.leaf} holds what nobody wrote"


def _is_body(found: bytes) -> bool:
    number = found[1 : found.index(b">")]
    return number.isdigit() and found == body(int(number))


def _half(path: Path) -> Iterator[str]:
    if path.suffix == ".db":
        with Journal.open(path, read_only=True) as copy:
            yield from (fault.text for fault in fsck(copy).faults)
        return
    with path.open("rb") as file:
        read_head(file)


def fresh(folder: Path) -> Path:
    """Return ``folder``, empty."""
    for path in (folder, folder.with_name(f"{folder.name}.after")):
        if path.exists():
            shutil.rmtree(path)
    return folder
