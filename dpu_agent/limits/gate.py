"""The gate: at the ports' egress, where limits are in force, only frames leave that came past a policer.

A port that is made anew comes without filters, and could carry traffic before the agent has seen it. Its number is
new, though, and frames say by which interface they came in: the gate's program lets out what came in by an interface
that the agent has looked at, and drops the rest. Looked at are all interfaces but those of our ports at whose ingress
our program is not the first. The agent's death leaves the gate: what is new then stays shut.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import socket
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

from pyroute2 import IPRoute
from pyroute2.netlink.exceptions import NetlinkError

from dpu_agent.limits.order import LimiterError
from dpu_agent.meter.attach import HANDLE, NAME, PREFERENCE
from dpu_agent.meter.hooks import Hooks
from dpu_agent.meter.libbpf import LibBpf
from dpu_agent.meter.maps import BPF_FILE_SYSTEM, ENTERED, GATE_PIN, PINS
from dpu_agent.meter.meters import Watcher

log = logging.getLogger(__name__)

EGRESS_PARENT = 0xFFFF_FFF3
"""clsact's egress: TC_H_MAKE(TC_H_CLSACT, TC_H_MIN_EGRESS), linux/pkt_sched.h."""
_ETH_P_ALL = 3
_REFUSED_KEY = (0).to_bytes(4, "little")
_GONE = (errno.ENODEV, errno.ENOENT, errno.EINVAL)


class Gate:
    """The gates of an agent's ports."""

    def __init__(
        self, ports: Sequence[str], library: LibBpf, *, bpf_file_system: Path = BPF_FILE_SYSTEM, watch: bool = True
    ) -> None:
        """Put the gates in place; with ``watch``, look again whenever an interface or a filter changes.

        Raises:
            LimiterError: a port has no meter, or the kernel refuses.
        """
        self._library, self._ports = library, tuple(ports)
        self._lock = threading.Lock()
        self._hooks = Hooks()
        self._maps: dict[str, int] = {}
        self._programs: dict[str, int] = {}
        self._watcher: Watcher | None = None
        try:
            for port in ports:
                folder = bpf_file_system / PINS / port
                self._maps[port] = library.pinned(str(folder / ENTERED))
                self._programs[port] = library.pinned(str(folder / GATE_PIN))
                if _REFUSED_KEY not in list(library.keys(self._maps[port], 4)):
                    library.update(self._maps[port], _REFUSED_KEY, bytes(8))
            self.check()
            if watch:
                self._watcher = Watcher(self._check_aloud)
        except OSError as error:
            self.close()
            raise LimiterError(f"the gates cannot be put in place: {error}") from error

    def check(self) -> tuple[str, ...]:
        """Let out what comes in by interfaces that may; return the ports that had lost their gate, which is back.

        1. Every interface there is may, but for our ports at whose ingress our program does not come first.
        2. Numbers of interfaces that are gone are forgotten before they can be given again.
        3. A gate that is not at its port's egress is put there.

        Raises:
            OSError: the kernel refuses.
        """
        with self._lock:
            may = self._may()
            for descriptor in self._maps.values():
                known = {int.from_bytes(key, "little") for key in self._library.keys(descriptor, 4)} - {0}
                for number in known - may:
                    with contextlib.suppress(FileNotFoundError):
                        self._library.delete(descriptor, number.to_bytes(4, "little"))
                for number in may - known:
                    self._library.update(descriptor, number.to_bytes(4, "little"), bytes(8))
            with IPRoute() as netlink:
                return tuple(port for port in self._ports if self._attach(netlink, port))

    def refused(self) -> Mapping[str, int]:
        """Return how many frames each gate has dropped.

        Raises:
            OSError: the kernel does not tell.
        """
        return {
            port: int.from_bytes(self._library.look_up(descriptor, _REFUSED_KEY, 8), "little")
            for port, descriptor in self._maps.items()
        }

    def close(self) -> None:
        """Stop watching and let go; the gates stay."""
        if self._watcher is not None:
            self._watcher.close()
        self._hooks.close()
        for descriptor in (*self._maps.values(), *self._programs.values()):
            with contextlib.suppress(OSError):
                os.close(descriptor)
        self._maps, self._programs = {}, {}

    def _may(self) -> set[int]:
        found = {number for number, name in socket.if_nameindex() if name not in self._ports}
        for port in self._ports:
            chain = self._hooks.look(port)
            if chain is None or not chain.filters:
                continue
            first = chain.filters[0]
            if (first.preference, first.handle, first.name) == (PREFERENCE, HANDLE, NAME):
                found.add(chain.ifindex)
        return found

    def _attach(self, netlink: IPRoute, port: str) -> bool:
        """Put the gate at ``port``'s egress unless it is there; return whether it was missing at a port that is."""
        try:
            ifindex = socket.if_nametoindex(port)
        except OSError:
            return False
        try:
            there = [
                each
                for each in netlink.get_filters(index=ifindex, parent=EGRESS_PARENT)
                if each["index"] == ifindex and each["parent"] == EGRESS_PARENT and each["handle"] == HANDLE
            ]
            if there:
                return False
            with contextlib.suppress(NetlinkError):
                netlink.tc("add", "clsact", ifindex)
            netlink.tc(
                "replace-filter",
                "bpf",
                ifindex,
                HANDLE,
                fd=self._programs[port],
                name=NAME,
                parent=EGRESS_PARENT,
                prio=PREFERENCE,
                protocol=_ETH_P_ALL,
                direct_action=True,
            )
        except NetlinkError as error:
            if error.code in _GONE:
                return False
            raise OSError(error.code, os.strerror(error.code)) from error
        return True

    def _check_aloud(self) -> None:
        try:
            self.check()
        except OSError as error:
            log.warning("the gates cannot be looked after: %s", error)
