"""Boot one machine: ``python -m hil.boot --rig NAME --machine NAME --state DIR``.

1. Take new network, mount, UTS, IPC and PID namespaces, and where the machine file says so a time namespace whose
   boot clock starts now (``node_boot_time_seconds`` then tells when *this* machine booted).
2. Fork: the child is the machine's first process. When it dies, the kernel kills everything in the machine.
3. The child cuts its mounts off from the rest of the world, mounts its own /proc, /sys, /run and BPF file system,
   lays the machine's own folders and files over the shared ones, and sets the host name and the boot id.
4. It says so to its parent, which prints its PID and leaves; then waits for power
   (a SIGUSR1: the rig plugs the cables in first) and supervises the services until it is stopped.

The command line carries rig and machine on purpose: it is how a rig's remains are found after a crash.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import socket
import sys
import time
from pathlib import Path
from typing import Any, NoReturn

from hil import linux
from hil.controlsocket import serve
from hil.supervisor import Supervisor

MACHINE_FILE = "machine.json"
SOCKET_PATH = "/run/supervisor.sock"
SERVICE_DIRECTORY = Path("/run/supervisor.d")
LOG_DIRECTORY = Path("/var/log")


def main(arguments: list[str] | None = None) -> int:
    """Boot the machine; return 0 in the caller when the machine's first process runs, 2 with a text when it cannot."""
    parser = argparse.ArgumentParser(prog="hil.boot")
    for option in ("--rig", "--machine", "--state"):
        parser.add_argument(option, required=True)
    chosen = parser.parse_args(arguments)
    folder = Path(chosen.state) / "machines" / chosen.machine
    description: dict[str, Any] = json.loads((folder / MACHINE_FILE).read_text(encoding="utf-8"))
    flags = linux.CLONE_NEWNS | linux.CLONE_NEWUTS | linux.CLONE_NEWIPC | linux.CLONE_NEWPID | linux.CLONE_NEWNET
    if description["own_boot_time"]:
        flags |= linux.CLONE_NEWTIME
    linux.unshare(flags)
    if description["own_boot_time"]:
        # Whole seconds: /proc/stat's btime has no finer grain, and the clock may not start below zero.
        since_boot_s = int(time.clock_gettime(time.CLOCK_BOOTTIME))
        Path("/proc/self/timens_offsets").write_text(f"boottime {-since_boot_s} 0\n", encoding="ascii")
    told_read, told_write = os.pipe()
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})  # power may come before the child waits for it
    child = os.fork()
    if child == 0:
        os.close(told_read)
        _first_process(description, told_write)
    os.close(told_write)
    with os.fdopen(told_read, "rb") as told:
        text = told.read().decode()
    if text != "ready":
        print(f"machine {chosen.machine} of rig {chosen.rig}: {text or 'its first process died'}", file=sys.stderr)
        return 2
    print(child)  # this process sees the machine's /proc by now, so its start time is for the caller to look up
    return 0


def _first_process(description: dict[str, Any], told: int) -> NoReturn:
    try:
        os.setsid()
        prepare_file_systems(description)
        socket.sethostname(description["hostname"])
    except OSError as error:
        os.write(told, f"cannot set up its namespaces: {error}".encode())
        os._exit(1)
    log = os.open(LOG_DIRECTORY / "supervisor.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    null = os.open(os.devnull, os.O_RDONLY)
    for target, source in ((0, null), (1, log), (2, log)):
        os.dup2(source, target)
    supervisor = Supervisor(SERVICE_DIRECTORY, LOG_DIRECTORY, description["environment"])
    os.write(told, b"ready")
    os.close(told)
    signal.sigwait({signal.SIGUSR1})
    supervisor.log(f"booted, boot id {description['boot_id']}")
    os.chdir("/")
    serve(supervisor, SOCKET_PATH)
    os._exit(0)


def prepare_file_systems(description: dict[str, Any]) -> None:
    """Lay the machine's own view over the shared file systems, in this process's mount namespace.

    Raises:
        OSError: a mount failed; the text names it.
    """
    linux.mount("none", "/", None, linux.MS_REC | linux.MS_PRIVATE)
    # Opened before anything is covered: a source may itself lie under /opt or /var/lib.
    kept = [(path, os.open(path, os.O_PATH)) for path in description["keep_visible"]]
    sources = {
        step["source"]: os.open(step["source"], os.O_PATH) for step in description["mounts"] if step["what"] == "bind"
    }
    quiet = linux.MS_NOSUID | linux.MS_NODEV | linux.MS_NOEXEC
    linux.mount("proc", "/proc", "proc", quiet)
    linux.mount("sysfs", "/sys", "sysfs", quiet)
    linux.mount("bpf", "/sys/fs/bpf", "bpf", quiet, "mode=700")
    for step in description["mounts"]:
        if step["what"] == "tmpfs":
            linux.mount("tmpfs", step["target"], "tmpfs", linux.MS_NOSUID | linux.MS_NODEV, "mode=755,size=64m")
        elif step["what"] == "directory":
            Path(step["target"]).mkdir(mode=0o755, parents=True, exist_ok=True)
        else:
            linux.mount(f"/proc/self/fd/{sources[step['source']]}", step["target"], None, linux.MS_BIND)
    for path, handle in kept:
        opened = os.fstat(handle)
        try:
            seen: os.stat_result | None = Path(path).stat()
        except FileNotFoundError:
            seen = None
        if seen is None or (seen.st_dev, seen.st_ino) != (opened.st_dev, opened.st_ino):
            Path(path).mkdir(parents=True, exist_ok=True)
            linux.mount(f"/proc/self/fd/{handle}", path, None, linux.MS_BIND | linux.MS_REC)
        os.close(handle)
    for handle in sources.values():
        os.close(handle)


if __name__ == "__main__":
    sys.exit(main())
