"""Run one command inside a machine: ``python -I -S enter.py PID START_TIME CWD COMMAND...``.

1. Open a pidfd of the machine's first process and check its start time, so that a recycled PID is never entered.
2. Join its network, mount, UTS, PID and time namespaces in one ``setns`` (Linux 5.8).
3. Fork: a PID namespace holds only children. The child asks to be killed when this process dies and executes
   the command.
4. Pass signals on to the child and leave as it left: same exit code, or killed by the same signal.

Standard input, output and error are the caller's. Needs nothing but the standard library, because it
also has to start fast: a rig calls it often.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import signal
import sys
from typing import NoReturn

# CLONE_NEWNS | NEWUTS | NEWIPC | NEWPID | NEWNET; time is joined only where the machine has its own
_NAMESPACES = 0x0002_0000 | 0x0400_0000 | 0x0800_0000 | 0x2000_0000 | 0x4000_0000
_CLONE_NEWTIME = 0x80
_PR_SET_PDEATHSIG = 1
_FORWARDED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)
_CANNOT_ENTER = 125  # as docker exec: the machine, not the command, is at fault
_CANNOT_EXECUTE, _NOT_FOUND = 126, 127


def start_time(pid: int) -> str:
    """Return the start time of ``pid`` in clock ticks since boot (field 22 of ``/proc/PID/stat``)."""
    with open(f"/proc/{pid}/stat", encoding="utf-8", errors="surrogateescape") as stat:  # noqa: PTH123 pathlib is slow to import
        return stat.read().rpartition(")")[2].split()[19]


def main(arguments: list[str]) -> int:
    """Enter the machine and run the command; see the module's steps."""
    pid, expected_start, directory, command = int(arguments[0]), arguments[1], arguments[2], arguments[3:]
    libc = ctypes.CDLL(None, use_errno=True)
    try:
        pidfd = os.pidfd_open(pid)
        if start_time(pid) != expected_start:
            raise ProcessLookupError(f"process {pid} is another one by now")
        _join(libc, pid, pidfd)
    except OSError as error:
        print(f"cannot enter the machine: {error}; is the rig up?", file=sys.stderr)
        return _CANNOT_ENTER
    signals = {*_FORWARDED, signal.SIGCHLD}
    signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    child = os.fork()
    if child == 0:
        _become(libc, directory, command, signals)
    return _attend(child, signals)


def _join(libc: ctypes.CDLL, pid: int, pidfd: int) -> None:
    flags = _NAMESPACES
    if os.stat(f"/proc/{pid}/ns/time").st_ino != os.stat("/proc/self/ns/time").st_ino:  # noqa: PTH116
        flags |= _CLONE_NEWTIME
    if libc.setns(pidfd, flags) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def _become(libc: ctypes.CDLL, directory: str, command: list[str], blocked: set[signal.Signals]) -> NoReturn:
    libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, blocked)
    try:
        os.chdir(directory)
    except OSError:
        os.chdir("/")  # the caller's directory need not exist in the machine
    try:
        os.execvp(command[0], command)  # noqa: S606 running the given command is the purpose
    except FileNotFoundError as error:
        print(f"{command[0]}: {error.strerror}", file=sys.stderr)
        os._exit(_NOT_FOUND)
    except OSError as error:
        print(f"{command[0]}: {error.strerror}", file=sys.stderr)
        os._exit(_CANNOT_EXECUTE)


def _attend(child: int, signals: set[signal.Signals]) -> int:
    while True:
        received = signal.sigwaitinfo(signals)
        if received.si_signo == signal.SIGCHLD:
            done, status = os.waitpid(child, os.WNOHANG)
            if done == child:
                break
        elif received.si_code <= 0:  # sent by a process; what the terminal sends, the child has got as well
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, received.si_signo)
    code = os.waitstatus_to_exitcode(status)
    if code >= 0:
        return code
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if -code not in (signal.SIGKILL, signal.SIGSTOP):
        signal.signal(-code, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, signals)
    os.kill(os.getpid(), -code)
    return 128 - code  # only for a signal that does not kill


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
