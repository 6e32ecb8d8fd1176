"""The few Linux calls that Python 3.10 does not wrap: namespaces, mounts, parent-death signal.

Constants are the kernel's (include/uapi/linux/sched.h, mount.h, prctl.h). Every function raises
:class:`OSError` with the kernel's errno and a sentence naming the call.
"""

from __future__ import annotations

import ctypes
import os

CLONE_NEWTIME = 0x0000_0080
CLONE_NEWNS = 0x0002_0000
CLONE_NEWUTS = 0x0400_0000
CLONE_NEWIPC = 0x0800_0000
CLONE_NEWPID = 0x2000_0000
CLONE_NEWNET = 0x4000_0000

MS_NOSUID = 0x2
MS_NODEV = 0x4
MS_NOEXEC = 0x8
MS_BIND = 0x1000
MS_REC = 0x4000
MS_PRIVATE = 0x4_0000

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mount.argtypes = (ctypes.c_char_p, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_ulong, ctypes.c_char_p)


def _checked(result: int, call: str) -> None:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{call}: {os.strerror(number)}")


def unshare(flags: int) -> None:
    """Give this process new namespaces (``CLONE_NEW*``); PID and time take effect for its children."""
    _checked(_libc.unshare(flags), f"unshare(0x{flags:x})")


def join(namespace: int, flags: int) -> None:
    """Move this thread into the namespace that the open file ``namespace`` stands for.

    Raises:
        OSError: the kernel refused.
    """
    _checked(_libc.setns(namespace, flags), "setns")


def mount(source: str, target: str, kind: str | None, flags: int = 0, data: str | None = None) -> None:
    """Mount ``source`` on ``target``; with ``MS_BIND``, ``kind`` is ignored and may be None."""
    encoded = (os.fsencode(source), os.fsencode(target), kind and kind.encode(), flags, data and data.encode())
    _checked(_libc.mount(*encoded), f"mount {kind or source} on {target}")
