"""Queues on a port's way out: one HTB qdisc at the root, a default class, a class with a byte queue for each limit.

Spoken over plain rtnetlink: pyroute2 0.9 counts bursts in whole microseconds, which at 50 GB/s is 50 kB, and decodes no
64-bit rates. Numbers are those of ``linux/pkt_sched.h``; what the kernel does with them is in ``net/sched/sch_htb.c``:

- A class sends while it has tokens and then goes into debt by the packet it sent: what leaves in any window is at most
  rate times its length, the burst and one packet, which may be segmentation-offloaded (64 kB).
- Bursts are times of 64 ns, 32 bits: 274 s at most; a class that was idle gets tokens for 60 s at most.
- A frame whose ``skb->priority`` is a class's number goes there, one that names no class into the default class.
  Without a default class frames go past all queues ("direct packets").
"""

from __future__ import annotations

import errno
import os
import socket
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dpu_agent.meter.hooks import attributes, messages
from protos.units import NS_PER_S

ROOT = 0x5742_0000
"""Our root queue's handle."""
DEFAULT = 1
"""The default class, for everything that is not limited."""
DEFAULT_RATE = 1 << 40
_LEAVES = 0x1000_0000
_TC_ROOT = 0xFFFF_FFFF
_NEW_QDISC, _DEL_QDISC, _GET_QDISC, _NEW_CLASS, _GET_CLASS = 36, 37, 38, 40, 42
_ERROR, _DONE = 2, 3
_REQUEST, _ACK, _DUMP, _REPLACE, _CREATE = 1, 4, 0x300, 0x100, 0x400
_HEADER, _TC, _ATTRIBUTE = struct.Struct("=IHHII"), struct.Struct("=BxxxiIII"), struct.Struct("=HH")
_KIND, _OPTIONS, _STATS2 = 1, 2, 7
_PARMS, _INIT, _RATE64, _CEIL64 = 1, 2, 6, 7
_STATS_QUEUE = 3
_NESTED = 0x8000
# struct tc_ratespec: cell_log, linklayer, overhead, cell_align, mpu, rate.
_RATE = struct.Struct("=BBHhHI")
# struct tc_htb_opt after its two rates: buffer, cbuffer, quantum, level, prio.
_PARMS_TAIL = struct.Struct("=IIIII")
# struct tc_htb_glob: version, rate2quantum, defcls, debug, direct_pkts.
_GLOBAL = struct.Struct("=IIIII")
# struct gnet_stats_queue: qlen, backlog, drops, requeues, overlimits.
_QUEUED = struct.Struct("=IIIII")
_ETHERNET = 1
_TICK_NS = 64
_MOST_U32 = (1 << 32) - 1
MOST_BURST_NS = 60 * NS_PER_S
_QUANTUM = 65_536
"""What one class sends before the next one's turn."""
_TIMEOUT_S = 2.0
_RECEIVE_BYTES = 1 << 18


@dataclass(frozen=True, slots=True)
class Queue:
    """A class and its queue: bytes/s, ns of that rate that may leave at once, bytes that may wait."""

    rate_bytes_per_s: int
    burst_ns: int
    limit_bytes: int


@dataclass(frozen=True, slots=True)
class QueueState:
    """A class as the kernel has it. ``waiting_bytes``: now; ``dropped_packets``: since it was made."""

    rate_bytes_per_s: int
    burst_ns: int
    waiting_bytes: int
    dropped_packets: int


@dataclass(frozen=True, slots=True)
class DeviceState:
    """The queues of one device. ``direct_packets`` went past all of them."""

    ifindex: int
    classes: Mapping[int, QueueState]
    direct_packets: int


class Htb:
    """One netlink socket; used from one thread at a time."""

    def __init__(self) -> None:
        """Open it.

        Raises:
            OSError: the kernel refuses.
        """
        self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, socket.NETLINK_ROUTE)
        self._socket.settimeout(_TIMEOUT_S)
        self._sequence = 0

    def look(self, device: str) -> DeviceState | None:
        """Return our queues at ``device``; None where there is no such device, or our root is not at it.

        Raises:
            OSError: the kernel does not answer.
        """
        ifindex = _ifindex(device)
        if ifindex is None:
            return None
        direct = None
        for body in self._ask(_GET_QDISC, _DUMP, (ifindex, 0, 0)):
            _, index, handle, parent, _ = _TC.unpack_from(body)
            found = attributes(body[_TC.size :])
            if (index, handle, parent) == (ifindex, ROOT, _TC_ROOT) and found.get(_KIND) == b"htb\0":
                direct = _GLOBAL.unpack_from(attributes(found[_OPTIONS])[_INIT])
        if direct is None or direct[2] != DEFAULT:
            return None
        classes = {}
        for body in self._ask(_GET_CLASS, _DUMP, (ifindex, 0, 0)):
            _, index, handle, _, _ = _TC.unpack_from(body)
            if index == ifindex and handle & 0xFFFF_0000 == ROOT:
                classes[handle & 0xFFFF] = _state(attributes(body[_TC.size :]))
        return DeviceState(ifindex, classes, direct[4])

    def make_root(self, device: str, waiting_bytes: int) -> bool:
        """Put our root with its default class at ``device``, in place of whatever is there; False: no such device.

        Raises:
            OSError: the kernel refuses.
        """
        ifindex = _ifindex(device)
        if ifindex is None:
            return False
        init = _attribute(_INIT, _GLOBAL.pack(3, 10, DEFAULT, 0, 0))
        self._change(_NEW_QDISC, (ifindex, ROOT, _TC_ROOT), "htb", init)
        return self.make_class(device, DEFAULT, Queue(DEFAULT_RATE, NS_PER_S, waiting_bytes))

    def make_class(self, device: str, minor: int, queue: Queue) -> bool:
        """Make the class ``minor``, or change it; what waits in it stays. False: no such device.

        Raises:
            OSError: the kernel refuses.
        """
        ifindex = _ifindex(device)
        if ifindex is None:
            return False
        rate = queue.rate_bytes_per_s
        spec = _RATE.pack(0, _ETHERNET, 0, 0, 0, min(rate, _MOST_U32))
        ticks = min(_MOST_U32, queue.burst_ns // _TICK_NS)
        options = _attribute(_PARMS, spec + spec + _PARMS_TAIL.pack(ticks, ticks, _QUANTUM, 0, 0))
        if rate > _MOST_U32:
            options += _attribute(_RATE64, struct.pack("=Q", rate)) + _attribute(_CEIL64, struct.pack("=Q", rate))
        self._change(_NEW_CLASS, (ifindex, ROOT | minor, ROOT), "htb", options)
        limit = struct.pack("=I", min(_MOST_U32, queue.limit_bytes))
        self._change(_NEW_QDISC, (ifindex, _LEAVES | minor << 16, ROOT | minor), "bfifo", limit)
        return True

    def remove(self, device: str) -> None:
        """Take our root away; the device gets its usual queue back.

        Raises:
            OSError: the kernel refuses.
        """
        ifindex = _ifindex(device)
        if ifindex is not None and self.look(device) is not None:
            self._ask(_DEL_QDISC, _ACK, (ifindex, ROOT, _TC_ROOT))

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()

    def _change(self, kind: int, place: tuple[int, int, int], name: str, options: bytes) -> None:
        nested = 0 if name == "bfifo" else _NESTED
        said = _attribute(_KIND, name.encode() + b"\0") + _attribute(_OPTIONS | nested, options)
        self._ask(kind, _ACK | _CREATE | _REPLACE, place, said)

    def _ask(self, kind: int, flags: int, place: tuple[int, int, int], said: bytes = b"") -> Sequence[bytes]:
        """Send a request about ``place`` (interface, handle, parent), and return what was answered."""
        self._sequence = self._sequence % _MOST_U32 + 1
        body = _TC.pack(socket.AF_UNSPEC, *place, 0) + said
        self._socket.send(_HEADER.pack(_HEADER.size + len(body), kind, _REQUEST | flags, self._sequence, 0) + body)
        found: list[bytes] = []
        while True:
            for got, sequence, content in messages(self._socket.recv(_RECEIVE_BYTES)):
                if sequence != self._sequence:
                    continue
                if got == _ERROR:
                    number = -struct.unpack_from("=i", content)[0]
                    if number:
                        raise OSError(number, os.strerror(number))
                    return found
                if got == _DONE:
                    return found
                found.append(content)


def _ifindex(device: str) -> int | None:
    try:
        return socket.if_nametoindex(device)
    except OSError:  # its only failure, and it comes without a number
        return None


def _attribute(kind: int, content: bytes) -> bytes:
    size = _ATTRIBUTE.size + len(content)
    return _ATTRIBUTE.pack(size, kind) + content + bytes(-size % 4)


def _state(found: Mapping[int, bytes]) -> QueueState:
    options = attributes(found[_OPTIONS])
    parms = options[_PARMS]
    rate = _RATE.unpack_from(parms)[5]
    if _RATE64 in options:
        rate = max(rate, struct.unpack_from("=Q", options[_RATE64])[0])
    ticks = _PARMS_TAIL.unpack_from(parms, 2 * _RATE.size)[0]
    _, waiting, dropped, _, _ = _QUEUED.unpack_from(attributes(found[_STATS2])[_STATS_QUEUE])
    return QueueState(rate, ticks * _TICK_NS, waiting, dropped)


def is_gone(error: OSError) -> bool:
    """Whether ``error`` says that the device went away meanwhile."""
    return error.errno in (errno.ENODEV, errno.ENXIO)
