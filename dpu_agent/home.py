"""The state directory: one agent's key, numbers and spool, and the lock that keeps a second agent out.

::

    lock          held while an agent runs; names its process
    frame.key     Ed25519, PKCS #8 PEM, mode 0600: the agent's word; made at the first start
    state         the numbers (dpu_agent.state)
    spool/        the frames (dpu_agent.spool)

Key and numbers belong together: a key without its numbers could sign a second frame under a used number, so that is
refused, not repaired. At the first start the numbers are made before the key, so no crash leaves a key alone.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from pathlib import Path

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from dpu_agent.clock import Clock
from dpu_agent.config import SpoolLimits
from dpu_agent.disk import DIRECTORY_MODE, FILE_MODE, Disk
from dpu_agent.errors import StateError
from dpu_agent.frames import Identity, losses_in
from dpu_agent.recorder import Recorder
from dpu_agent.spool import Spool
from dpu_agent.state import AgentState, StateFile
from protos.wire import WireError

LOCK, KEY, STATE, SPOOL = "lock", "frame.key", "state", "spool"
_MAX_KEY_BYTES = 4096


class DirectoryLock:
    """Held while an agent uses a state directory; the kernel lets go of it when the process ends, however it ends."""

    def __init__(self, directory: Path) -> None:
        """Make the directory where it is not there, and take the lock.

        Raises:
            StateError: another agent has it, or the directory cannot be written.
        """
        path = directory / LOCK
        try:
            directory.mkdir(mode=DIRECTORY_MODE, parents=True, exist_ok=True)
            self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, FILE_MODE)
        except OSError as error:
            raise cannot_write(directory, error) from error
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            holder = os.read(self._descriptor, 32).decode("ascii", "replace").strip() or "unknown"
            os.close(self._descriptor)
            raise StateError(
                f"{directory}: is in use by another agent (process {holder}); stop that one first, "
                "or give this one a state_directory of its own"
            ) from error
        # Who holds the lock is a courtesy; on a full disk the agent runs without it.
        with contextlib.suppress(OSError):
            os.ftruncate(self._descriptor, 0)
            os.pwrite(self._descriptor, f"{os.getpid()}\n".encode(), 0)

    def release(self) -> None:
        """Let go."""
        os.close(self._descriptor)


def open_recorder(
    disk: Disk,
    directory: Path,
    *,
    agent: str,
    version: str,
    clock: Clock,
    limits: SpoolLimits,
    segment_bytes: int | None = None,
) -> Recorder:
    """Return the recorder over ``directory``, whose lock the caller holds.

    Raises:
        StateError: the directory cannot be used; the message says why and what to do.
    """
    try:
        disk.make_directory(directory / SPOOL)
        disk.flush_directory(directory)
        state_file, state = _open_state(disk, directory)
        key = _open_key(disk, directory, state)
        spool, recovered = Spool.open(
            disk,
            directory / SPOOL,
            max_bytes=limits.max_bytes,
            acknowledged=state.acknowledged,
            losses_in=losses_in,
            segment_bytes=segment_bytes,
        )
        return Recorder(
            identity=Identity(agent, version, key),
            clock=clock,
            limits=limits,
            state_file=state_file,
            state=state,
            spool=spool,
            recovered=recovered,
        )
    except WireError as error:
        raise StateError(
            f"{directory / SPOOL}: holds a frame that this agent cannot read ({error}); start the agent that wrote it, "
            "have the controller collect its frames, and change the release then"
        ) from error
    except OSError as error:
        raise cannot_write(directory, error) from error


def cannot_write(directory: Path, error: OSError) -> StateError:
    """Return the error for a directory that the system refuses."""
    return StateError(
        f"{directory}: cannot be used as the state directory ({error}); give the agent a directory on a local disk "
        "that it owns and may write, with room for its spool"
    )


def cannot_read(directory: Path, error: OSError) -> StateError:
    """Return the error for a directory that is there but cannot be looked into."""
    return StateError(f"{directory}: the agent's state cannot be read ({error}); run this as the agent's user")


def load_key(disk: Disk, path: Path) -> Ed25519PrivateKey:
    """Return the frame key in ``path``.

    Raises:
        StateError: others may read it, or it is no key of ours.
        OSError: it cannot be read.
    """
    descriptor = disk.open(path)
    try:
        if disk.mode(descriptor) & 0o077:
            raise StateError(f"{path}: the frame key can be read by others; run `chmod 600 {path}`")
        content = disk.read_at(descriptor, _MAX_KEY_BYTES, 0)
    finally:
        disk.close(descriptor)
    try:
        key = serialization.load_pem_private_key(content, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise _no_key(path) from error
    if not isinstance(key, Ed25519PrivateKey):
        raise _no_key(path)
    return key


def _no_key(path: Path) -> StateError:
    return StateError(
        f"{path}: is not the agent's Ed25519 key; put the file back, or move {path.parent} away and start again: "
        "the agent gets a new key and must be enrolled anew"
    )


def _open_state(disk: Disk, directory: Path) -> tuple[StateFile, AgentState]:
    names = disk.list(directory)
    if STATE in names:
        return StateFile.open(disk, directory / STATE)
    if KEY in names or disk.list(directory / SPOOL):
        raise StateError(
            f"{directory}: holds a key or frames, but not the file {STATE!r} with the numbers already used; put it "
            "back, or move the directory away and start again: the agent gets a new key and must be enrolled anew"
        )
    return StateFile.create(disk, directory / STATE), AgentState()


def _open_key(disk: Disk, directory: Path, state: AgentState) -> Ed25519PrivateKey:
    path = directory / KEY
    if KEY in disk.list(directory):
        return load_key(disk, path)
    if state.agent_start:
        raise StateError(
            f"{path}: is gone, its numbers are not; put it back, or move {directory} away and start again: "
            "the agent gets a new key and must be enrolled anew"
        )
    key = Ed25519PrivateKey.generate()
    pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    scratch = path.with_name(path.name + ".new")
    if scratch.name in disk.list(directory):
        disk.remove(scratch)
    descriptor = disk.open(scratch, create=True)
    try:
        disk.write_at(descriptor, pem, 0)
        disk.flush(descriptor)
    finally:
        disk.close(descriptor)
    disk.rename(scratch, path)
    disk.flush_directory(directory)
    return key
