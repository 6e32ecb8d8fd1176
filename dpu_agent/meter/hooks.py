"""What stands between a port and the stack, as the kernel tells it: XDP, tcx, the clsact filters in order, statistics.

Read over plain rtnetlink and bpf(2): pyroute2 0.9 does not decode the numbers and tags of BPF filters, and this is read
every second. :func:`chain_of` is pure, over the messages.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import socket
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

INGRESS_PARENT = 0xFFFF_FFF2
"""clsact's ingress: TC_H_MAKE(TC_H_CLSACT, TC_H_MIN_INGRESS), linux/pkt_sched.h."""
_RTM_NEWLINK, _RTM_GETLINK, _RTM_NEWTFILTER, _RTM_GETTFILTER = 16, 18, 44, 46
_RTM_NEWSTATS, _RTM_GETSTATS = 92, 94
_NLMSG_ERROR, _NLMSG_DONE = 2, 3
_NLM_F_REQUEST, _NLM_F_DUMP = 1, 0x300
_HEADER, _LINK, _TC, _ATTRIBUTE = (
    struct.Struct("=IHHII"),
    struct.Struct("=BxHiII"),
    struct.Struct("=BxxxiIII"),
    struct.Struct("=HH"),
)
_IFLA_STATS64, _IFLA_XDP = 23, 43
_STATS = struct.Struct("=BxxxII")
"""struct if_stats_msg, linux/if_link.h: family, ifindex, filter_mask."""
_IFLA_STATS_LINK_64, _IFLA_STATS_LINK_OFFLOAD_XSTATS, _IFLA_OFFLOAD_XSTATS_CPU_HIT = 1, 4, 1
_STATS_WANTED = 1 << _IFLA_STATS_LINK_64 - 1 | 1 << _IFLA_STATS_LINK_OFFLOAD_XSTATS - 1
_IFLA_XDP_ATTACHED, _IFLA_XDP_PROG_ID = 2, 4
_TCA_KIND, _TCA_OPTIONS = 1, 2
_TCA_BPF_NAME, _TCA_BPF_TAG, _TCA_BPF_ID = 7, 10, 11
_ATTRIBUTE_TYPE = 0x3FFF
_REPLY_TIMEOUT_S = 1.0
_RECEIVE_BYTES = 1 << 18
_GROUPS = 1 << 0 | 1 << 3
"""RTMGRP_LINK and RTMGRP_TC: interfaces come and go, filters are changed."""

_BPF_SYSCALL = {"x86_64": 321, "aarch64": 280}
_BPF_PROG_QUERY, _BPF_TCX_INGRESS = 16, 46
_QUERY = struct.Struct("=IIIIQI36x")
_MOST_TCX = 64


@dataclass(frozen=True, slots=True)
class Filter:
    """One filter of the ingress hook; ``number`` and ``tag`` are its BPF program's, 0 and empty where it has none."""

    preference: int
    handle: int
    kind: str
    number: int = 0
    tag: str = ""
    name: str = ""


@dataclass(frozen=True, slots=True)
class Offload:
    """What a card says it received at a port, and what of that came to the CPU, in packets; read together.

    The card's own count is as old as its driver lets it be; what the CPU saw is of the moment.
    """

    received: int
    by_cpu: int


@dataclass(frozen=True, slots=True)
class Chain:
    """What a frame that a port receives meets, in order, and what the port has counted.

    Attributes:
        offload: the card's offload statistics; None where the driver has none (all but representors of a switch).
        xdp: number of the XDP program, 0: none.
        tcx: numbers of the tcx programs.
        filters: in the order in which they run.
        packets, bytes: received, as the driver counts.
    """

    ifindex: int
    xdp: int
    tcx: tuple[int, ...]
    filters: tuple[Filter, ...]
    packets: int
    bytes: int
    offload: Offload | None = None


class Hooks:
    """One netlink socket; used from one thread at a time."""

    def __init__(self) -> None:
        self._socket: socket.socket | None = None
        self._sequence = 0
        number = _BPF_SYSCALL.get(platform.machine())
        self._bpf = number
        self._libc = ctypes.CDLL(None, use_errno=True)

    def look(self, port: str) -> Chain | None:
        """Return the chain of ``port``, None if there is no such interface.

        Raises:
            OSError: the kernel does not answer.
        """
        try:
            ifindex = socket.if_nametoindex(port)
        except OSError:  # its only failure, and it comes without a number
            return None
        try:
            link = self._ask(_RTM_GETLINK, 0, _LINK.pack(socket.AF_UNSPEC, 0, ifindex, 0, 0))
            tcx = self._tcx(ifindex)
            filters = self._ask(_RTM_GETTFILTER, _NLM_F_DUMP, _TC.pack(socket.AF_UNSPEC, ifindex, 0, INGRESS_PARENT, 0))
            offload = self._offload(ifindex)
        except OSError as error:
            if error.errno == errno.ENODEV:
                return None
            self.close()
            raise
        return replace(chain_of(ifindex, link, tcx, filters), offload=offload)

    def close(self) -> None:
        """Close the socket."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _ask(self, kind: int, flags: int, body: bytes) -> list[tuple[int, bytes]]:
        if self._socket is None:
            self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, socket.NETLINK_ROUTE)
            self._socket.settimeout(_REPLY_TIMEOUT_S)
        self._sequence = self._sequence % 0xFFFF_FFFF + 1
        size = _HEADER.size + len(body)
        self._socket.send(_HEADER.pack(size, kind, _NLM_F_REQUEST | flags, self._sequence, 0) + body)
        found: list[tuple[int, bytes]] = []
        while True:
            for got, sequence, content in messages(self._socket.recv(_RECEIVE_BYTES)):
                if sequence != self._sequence:
                    continue
                if got == _NLMSG_ERROR:
                    number = -struct.unpack_from("=i", content)[0]
                    raise OSError(number, os.strerror(number))
                if got == _NLMSG_DONE:
                    return found
                found.append((got, content))
                if not flags & _NLM_F_DUMP:
                    return found

    def _offload(self, ifindex: int) -> Offload | None:
        """The card's offload statistics; None where kernel or driver have none."""
        try:
            answer = self._ask(_RTM_GETSTATS, 0, _STATS.pack(socket.AF_UNSPEC, ifindex, _STATS_WANTED))
        except OSError as error:
            if error.errno in {errno.EOPNOTSUPP, errno.EINVAL}:
                return None
            raise
        return offload_of(answer)

    def _tcx(self, ifindex: int) -> tuple[int, ...]:
        """The tcx programs; none where the kernel has no tcx (before 6.6)."""
        if self._bpf is None:
            return ()
        numbers = (ctypes.c_uint32 * _MOST_TCX)()
        query = ctypes.create_string_buffer(
            _QUERY.pack(ifindex, _BPF_TCX_INGRESS, 0, 0, ctypes.addressof(numbers), _MOST_TCX), _QUERY.size
        )
        if self._libc.syscall(self._bpf, _BPF_PROG_QUERY, query, _QUERY.size) < 0:
            return ()
        return tuple(numbers[: _QUERY.unpack(query.raw)[5]])


def watch() -> socket.socket:
    """Return a socket on which something arrives whenever an interface or a filter of this namespace changes.

    Raises:
        OSError: the kernel refuses it.
    """
    found = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, socket.NETLINK_ROUTE)
    found.bind((0, _GROUPS))
    return found


def messages(data: bytes) -> Iterator[tuple[int, int, bytes]]:
    """Yield kind, sequence and content of the netlink messages in ``data``."""
    at = 0
    while at + _HEADER.size <= len(data):
        size, kind, _, sequence, _ = _HEADER.unpack_from(data, at)
        if size < _HEADER.size:
            return
        yield kind, sequence, data[at + _HEADER.size : at + size]
        at += (size + 3) & ~3


def attributes(data: bytes) -> dict[int, bytes]:
    """Return netlink attributes by type; of one that stands twice the last."""
    found, at = {}, 0
    while at + _ATTRIBUTE.size <= len(data):
        size, kind = _ATTRIBUTE.unpack_from(data, at)
        if size < _ATTRIBUTE.size:
            break
        found[kind & _ATTRIBUTE_TYPE] = data[at + _ATTRIBUTE.size : at + size]
        at += (size + 3) & ~3
    return found


def chain_of(
    ifindex: int, link: Sequence[tuple[int, bytes]], tcx: Sequence[int], filters: Sequence[tuple[int, bytes]]
) -> Chain:
    """Return what the kernel's answers say.

    Raises:
        OSError: they are not answers to what was asked.
    """
    own = next((attributes(content[_LINK.size :]) for kind, content in link if kind == _RTM_NEWLINK), None)
    if own is None or len(own.get(_IFLA_STATS64, b"")) < 24:
        raise OSError(errno.EPROTO, f"interface {ifindex}: the kernel's answer has no statistics")
    packets, _, received = struct.unpack_from("=QQQ", own[_IFLA_STATS64])
    xdp = attributes(own.get(_IFLA_XDP, b""))
    number = _number(xdp.get(_IFLA_XDP_PROG_ID, b""))
    if number == 0 and any(xdp.get(_IFLA_XDP_ATTACHED, b"")):
        number = -1  # several modes at once: the kernel then gives no single number
    found = [each for kind, content in filters if kind == _RTM_NEWTFILTER and (each := _filter(content)) is not None]
    return Chain(ifindex, number, tuple(tcx), tuple(found), packets, received)


def offload_of(answer: Sequence[tuple[int, bytes]]) -> Offload | None:
    """Return the offload statistics in the kernel's answer; None where the driver gives none."""
    for kind, content in answer:
        own = attributes(content[_STATS.size :]) if kind == _RTM_NEWSTATS else {}
        offload = attributes(own.get(_IFLA_STATS_LINK_OFFLOAD_XSTATS, b""))
        total, hit = own.get(_IFLA_STATS_LINK_64, b""), offload.get(_IFLA_OFFLOAD_XSTATS_CPU_HIT, b"")
        if len(total) >= 8 and len(hit) >= 8:
            return Offload(*struct.unpack_from("=Q", total), *struct.unpack_from("=Q", hit))
    return None


def _filter(content: bytes) -> Filter | None:
    """A filter; None for the head of a list, which comes before the list's filters."""
    _, _, handle, _, info = _TC.unpack_from(content)
    own = attributes(content[_TC.size :])
    if handle == 0 and _TCA_OPTIONS not in own:
        return None
    options = attributes(own.get(_TCA_OPTIONS, b""))
    kind = own.get(_TCA_KIND, b"").rstrip(b"\0").decode("ascii", "replace")
    if kind != "bpf":
        return Filter(info >> 16, handle, kind)
    return Filter(
        preference=info >> 16,
        handle=handle,
        kind=kind,
        number=_number(options.get(_TCA_BPF_ID, b"")),
        tag=options.get(_TCA_BPF_TAG, b"").hex(),
        name=options.get(_TCA_BPF_NAME, b"").rstrip(b"\0").decode("ascii", "replace"),
    )


def _number(data: bytes) -> int:
    return int(struct.unpack("=I", data)[0]) if len(data) == 4 else 0
