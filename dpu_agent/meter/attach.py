"""Puts the meter at a port's ingress hook, over netlink, and holds the port against a second agent."""

from __future__ import annotations

import errno
import os
import socket
import struct
from typing import Any

from pyroute2 import IPRoute
from pyroute2.netlink.exceptions import NetlinkError

from dpu_agent.meter.errors import MeterUnavailableError, NoMeter, PortInUseError
from dpu_agent.meter.hooks import INGRESS_PARENT

PREFERENCE = 1
"""The lowest number runs first: nothing of tc can take a frame before the meter has seen it."""
HANDLE = 1
NAME = "weighbridge"
_ETH_P_ALL = 3
_ASKERS = 64
"""So many may ask in an agent's life who holds a port; they are never taken off the queue."""


def attach(ifindex: int, program: int) -> None:
    """Make ``program`` the first filter at the interface's ingress; one of ours that is there is replaced at once.

    1. clsact, unless it or an ingress queue is there already.
    2. The filter, under its fixed preference and handle: the kernel swaps programs without a frame between them.

    Raises:
        MeterUnavailableError: not permitted, or the kernel has no clsact.
        OSError: the interface is gone.
    """
    with IPRoute() as netlink:
        try:
            _add_clsact(netlink, ifindex)
            netlink.tc(
                "replace-filter",
                "bpf",
                ifindex,
                HANDLE,
                fd=program,
                name=NAME,
                parent=INGRESS_PARENT,
                prio=PREFERENCE,
                protocol=_ETH_P_ALL,
                direct_action=True,
            )
        except NetlinkError as error:
            if error.code == errno.ENODEV:
                raise OSError(error.code, os.strerror(error.code)) from error
            why = NoMeter.NO_PERMISSION if error.code in (errno.EPERM, errno.EACCES) else NoMeter.NOT_ATTACHED
            raise MeterUnavailableError(
                why, f"the meter cannot be put at the port's ingress ({error}); `tc filter show dev PORT ingress`"
            ) from error


def detach(ifindex: int) -> None:
    """Take our filter away; fine if it is not there.

    Raises:
        NetlinkError: the kernel refuses.
    """
    with IPRoute() as netlink:
        try:
            netlink.tc(
                "del-filter", "bpf", ifindex, HANDLE, parent=INGRESS_PARENT, prio=PREFERENCE, protocol=_ETH_P_ALL
            )
        except NetlinkError as error:
            if error.code not in (errno.ENOENT, errno.ENODEV, errno.EINVAL):
                raise


def _add_clsact(netlink: Any, ifindex: int) -> None:
    try:
        netlink.tc("add", "clsact", ifindex)
    except NetlinkError as error:
        if error.code != errno.EEXIST:
            raise


def hold(port: str) -> socket.socket:
    """Return a socket that holds ``port`` in this network namespace; the kernel lets go of it with the process.

    Raises:
        PortInUseError: another process holds it.
    """
    holder = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    address = f"\0weighbridge-meter/{port}"
    try:
        holder.bind(address)
        # Who asks is told by the kernel which process this is; nobody is ever answered.
        holder.listen(_ASKERS)
    except OSError as error:
        holder.close()
        if error.errno != errno.EADDRINUSE:
            raise
        who = _holder(address)
        by = f" (process {who})" if who is not None else ""
        raise PortInUseError(
            f"port {port} is metered by another agent already{by}; stop that one first, or give this one other ports"
        ) from error
    return holder


def _holder(address: str) -> int | None:
    """Return which process holds the socket, as its kernel tells a caller; None where it cannot be asked."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC) as asking:
        # A full queue is no answer, and not waited for.
        asking.setblocking(False)
        try:
            asking.connect(address)
            credentials = asking.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
        except OSError:
            return None
    process: int = struct.unpack("3i", credentials)[0]
    return process or None
