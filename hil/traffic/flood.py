"""Raw frames of one kind, as fast as asked, many a system call; and a listener that keeps when it had each.

``python -m hil.traffic.flood send --device eth0 --kind udp --length 900 --rate 5MB/s --for 2s [--bypass] [--realtime]``
``python -m hil.traffic.flood receive --device eth0 --length 1000 --for 3s --stamps FILE``

Frames go out by sendmmsg(2), so that what limits them is not this interpreter; ``--bypass`` hands them to the driver
past the queue discipline (packet(7), PACKET_QDISC_BYPASS); ``--realtime`` sends before all other work of the machine,
so that what is measured is not who else is busy (sched(7), SCHED_FIFO). The listener takes frames of exactly that
length and writes when the kernel had each, 8 bytes of nanoseconds a frame, machine's own byte order.
"""

from __future__ import annotations

import argparse
import array
import contextlib
import ctypes
import errno
import os
import socket
import struct
import sys
import time
from collections.abc import Callable
from pathlib import Path

from hil.traffic.frames import mac_of
from hil.traffic.outcome import Outcome, duration, rate
from protos.units import NS_PER_S

FLOWS = 256
"""Frames of a kind that come in several: ports, addresses."""
BATCH = 64
_BURST_BYTES = 32_000
"""What goes out in one call at most: a sender of bursts far beyond a bucket's depth would only measure its own."""
_ETH_P_ALL = 3
_SOL_PACKET, _PACKET_QDISC_BYPASS = 263, 20
_SO_RCVBUFFORCE, _SO_TIMESTAMPNS = 33, 35
_STAMP = struct.Struct("=qq")
_RECEIVE_BUFFER = 64 << 20
_TO = b"\x02\x00\x00\x00\x00\x02"
_SOURCE4, _TARGET4 = bytes([10, 78, 0, 1]), bytes([10, 78, 0, 2])
_SOURCE6, _TARGET6 = bytes.fromhex("fd00") + bytes(13) + b"\1", bytes.fromhex("fd00") + bytes(13) + b"\2"


def _ip4(length: int, number: int, *, offset: int = 0, more: bool = False) -> bytes:
    fragment = offset >> 3 | more << 13
    head = struct.pack("!BBHHHBBH4s4s", 0x45, 0, length, number, fragment, 64, 17, 0, _SOURCE4, _TARGET4)
    total = sum(struct.unpack("!10H", head))
    total = (total & 0xFFFF) + (total >> 16)
    return head[:10] + struct.pack("!H", 0xFFFF - (total & 0xFFFF) - (total >> 16)) + head[12:]


def _udp(length: int, number: int) -> bytes:
    return struct.pack("!HHHH", 20_000 + number, 9, length, 0)


def frames_of(kind: str, length: int, source: bytes) -> list[bytes]:
    """Return frames of ``length`` bytes of a kind; a kind of many flows has :data:`FLOWS` of them.

    Raises:
        KeyError: there is no such kind.
    """
    head = _TO + source
    inner = length - 14
    tagged = inner - 4
    makers: dict[str, Callable[[int], bytes]] = {
        "raw": lambda _: head + b"\x88\xb5",
        "vlan": lambda _: head + b"\x81\x00\x00\x05\x08\x00" + _ip4(tagged, 0) + _udp(tagged - 20, 0),
        "two-tags": lambda _: head + b"\x88\xa8\x00\x05\x81\x00\x00\x06\x88\xb5",
        "ipv6": lambda _: head + b"\x86\xdd" + struct.pack("!IHBB", 6 << 28, inner - 40, 17, 64) + _SOURCE6 + _TARGET6,
        "multicast": lambda _: b"\x01\x00\x5e\x00\x00\x05" + head[6:] + b"\x08\x00" + _ip4(inner, 0),
        "fragments": lambda number: head + b"\x08\x00" + _ip4(inner, number // 2, offset=number % 2 * 8, more=True),
        "udp": lambda _: head + b"\x08\x00" + _ip4(inner, 0) + _udp(inner - 20, 0),
        "flows": lambda number: head + b"\x08\x00" + _ip4(inner, number) + _udp(inner - 20, number),
    }
    make = makers[kind]
    return [frame + bytes(length - len(frame)) for frame in (make(number) for number in range(FLOWS))]


KINDS = ("raw", "vlan", "two-tags", "ipv6", "multicast", "fragments", "udp", "flows")


class _Vector(ctypes.Structure):
    _fields_ = (("base", ctypes.c_void_p), ("length", ctypes.c_size_t))


class _Header(ctypes.Structure):
    """``struct msghdr``."""

    _fields_ = (
        ("name", ctypes.c_void_p),
        ("name_length", ctypes.c_uint32),
        ("vectors", ctypes.POINTER(_Vector)),
        ("vector_count", ctypes.c_size_t),
        ("control", ctypes.c_void_p),
        ("control_length", ctypes.c_size_t),
        ("flags", ctypes.c_int),
    )


class _Message(ctypes.Structure):
    """``struct mmsghdr``: a message, and what was sent of it."""

    _fields_ = (("header", _Header), ("sent", ctypes.c_uint))


def send(device: str, frames: list[bytes], *, rate_bytes_per_s: int, for_ns: int, bypass: bool) -> Outcome:
    """Send the frames in turn, at the rate, for that long; what a full queue does not take is not sent again.

    Raises:
        OSError: no such device, or it does not take such a frame.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    length = len(frames[0])
    batch = max(1, min(BATCH, _BURST_BYTES // length))
    buffers = [ctypes.create_string_buffer(frame, length) for frame in frames]
    vectors = (_Vector * len(frames))(*[_Vector(ctypes.addressof(each), length) for each in buffers])
    messages = (_Message * (len(frames) + batch))()
    for number, message in enumerate(messages):
        message.header.vectors = ctypes.pointer(vectors[number % len(frames)])
        message.header.vector_count = 1
    sent, at = 0, 0
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0) as sender:
        sender.bind((device, 0))
        sender.setsockopt(_SOL_PACKET, _PACKET_QDISC_BYPASS, int(bypass))
        start_ns = due_ns = time.monotonic_ns()
        while (now_ns := time.monotonic_ns()) < start_ns + for_ns:
            if now_ns < due_ns:
                # Not a spin: the kernel takes the processor from a real-time process that never sleeps.
                time.sleep((due_ns - now_ns) / NS_PER_S)
            done = libc.sendmmsg(sender.fileno(), ctypes.byref(messages[at]), batch, 0)
            if done < 0 and ctypes.get_errno() != errno.ENOBUFS:
                raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
            sent += max(0, done)
            at = (at + batch) % len(frames)
            # What a pause took is not made up for: a burst would only be dropped.
            due_ns = max(due_ns, now_ns) + batch * length * NS_PER_S // rate_bytes_per_s
    return Outcome("flood", "send", start_ns, time.monotonic_ns(), sent * length, 0, sent)


def receive(device: str, length: int, for_ns: int, stamps: Path) -> Outcome:
    """Take frames of ``length`` bytes for that long.

    Raises:
        OSError: no such device, or the file cannot be written.
    """
    times = array.array("q")
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(_ETH_P_ALL)) as receiver:
        receiver.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
        receiver.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, _RECEIVE_BUFFER)
        receiver.bind((device, _ETH_P_ALL))
        receiver.settimeout(0.1)
        print("listening", file=sys.stderr, flush=True)
        start_ns = time.monotonic_ns()
        while time.monotonic_ns() < start_ns + for_ns:
            with contextlib.suppress(TimeoutError):
                got, extra, _, _ = receiver.recvmsg_into([bytearray(16)], 64, socket.MSG_TRUNC)
                # The kernel lifts an outer VLAN tag out of the frame.
                if got in {length, length - 4} and extra:
                    seconds, nanoseconds = _STAMP.unpack(extra[0][2][:16])
                    times.append(seconds * NS_PER_S + nanoseconds)
    stamps.write_bytes(times.tobytes())
    return Outcome("flood", "receive", start_ns, time.monotonic_ns(), 0, len(times) * length, None, len(times))


def stamps_of(path: Path) -> array.array[int]:
    """Return when each frame came, in nanoseconds.

    Raises:
        OSError: the file cannot be read.
    """
    times = array.array("q")
    times.frombytes(path.read_bytes())
    return times


def main(arguments: list[str] | None = None) -> int:
    """Run one side; return the exit code."""
    parser = argparse.ArgumentParser(prog="hil.traffic.flood", description="Raw frames of one kind, many a call.")
    sides = parser.add_subparsers(dest="side", required=True)
    receiving, sending = sides.add_parser("receive"), sides.add_parser("send")
    for side in (receiving, sending):
        side.add_argument("--device", required=True)
        side.add_argument("--length", type=int, required=True, choices=range(60, 65536), metavar="BYTES")
        side.add_argument("--for", dest="for_ns", type=duration, required=True)
    receiving.add_argument("--stamps", type=Path, required=True)
    sending.add_argument("--kind", choices=KINDS, default="raw")
    sending.add_argument("--rate", type=rate, required=True, help="of whole frames")
    sending.add_argument("--bypass", action="store_true")
    sending.add_argument("--realtime", action="store_true")
    chosen = parser.parse_args(arguments)
    try:
        if chosen.side == "receive":
            outcome = receive(chosen.device, chosen.length, chosen.for_ns, chosen.stamps)
        else:
            if chosen.realtime:
                os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
            frames = frames_of(chosen.kind, chosen.length, mac_of(chosen.device))
            outcome = send(
                chosen.device, frames, rate_bytes_per_s=chosen.rate, for_ns=chosen.for_ns, bypass=chosen.bypass
            )
    except OSError as error:
        print(f"error: {chosen.device}: {error}", file=sys.stderr)
        return 1
    outcome.print()
    return 0


if __name__ == "__main__":
    sys.exit(main())
