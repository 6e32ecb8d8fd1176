"""Raw Ethernet frames of known length and number: every observer on the way must count exactly these bytes.

``python -m hil.traffic.frames send --device eth0 --to 02:..:.. --length 1514 --count 1000 [--rate 5MB/s]``
``python -m hil.traffic.frames receive --device eth0 --count 1000 --within 10s``

Length is the whole frame without its check sequence, as Linux counts it (18 to 65535; a 1500-byte MTU carries 1514).
The type is 0x88B5, which IEEE 802 gives to local experiments: no stack answers it. Let the two ends talk first (a
ping, a TCP connection): a bridge floods frames to an address it has not learnt.
"""

from __future__ import annotations

import argparse
import errno
import re
import socket
import struct
import sys
import time
from pathlib import Path

from hil.traffic.outcome import Outcome, Pace, duration, rate
from protos.units import NS_PER_S

ETHER_TYPE = 0x88B5
SHORTEST = 18  # header and the running number
_MAC = re.compile(r"[0-9a-f]{2}(?::[0-9a-f]{2}){5}")
_DEFAULT_RATE = 20_000_000  # bytes/s: slow enough for any queue on the way


def mac_of(device: str) -> bytes:
    """Return the device's own address.

    Raises:
        OSError: no such device.
    """
    text = Path("/sys/class/net", device, "address").read_text(encoding="ascii")
    return bytes.fromhex(text.strip().replace(":", ""))


def send(device: str, to: bytes, *, length: int, count: int, rate_bytes_per_s: int) -> Outcome:
    """Send ``count`` frames of ``length`` bytes, numbered from 0.

    Raises:
        OSError: no such device, or it does not take a frame of that length.
    """
    start_ns = time.monotonic_ns()
    header = to + mac_of(device) + struct.pack("!H", ETHER_TYPE)
    padding = bytes(length - SHORTEST)
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0) as sender:
        sender.bind((device, 0))
        pace = Pace(rate_bytes_per_s)
        for number in range(count):
            frame = header + struct.pack("!I", number) + padding
            while True:
                try:
                    sender.send(frame)
                    break
                except OSError as error:
                    if error.errno != errno.ENOBUFS:
                        raise
                time.sleep(0.001)  # the queue was full and the frame was not taken
            pace.sent(length)
    return Outcome("frames", "send", start_ns, time.monotonic_ns(), length * count, 0, count)


def receive(device: str, count: int, within_ns: int) -> Outcome:
    """Count experiment frames until ``count`` of them came or the time is over.

    Raises:
        OSError: no such device.
    """
    start_ns, total, got = time.monotonic_ns(), 0, 0
    buffer = bytearray(65536)
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETHER_TYPE)) as receiver:
        receiver.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8 << 20)
        receiver.bind((device, ETHER_TYPE))
        while got < count and (left_ns := start_ns + within_ns - time.monotonic_ns()) > 0:
            receiver.settimeout(left_ns / NS_PER_S)
            try:
                total += receiver.recv_into(buffer)
                got += 1
            except TimeoutError:
                break
    return Outcome("frames", "receive", start_ns, time.monotonic_ns(), 0, total, None, got, {"complete": got == count})


def mac(text: str) -> bytes:
    """Return the six bytes of a MAC address, for argparse."""
    if not _MAC.fullmatch(text.lower()):
        raise argparse.ArgumentTypeError(f"{text!r} is not a MAC address: write it like 02:00:00:00:00:01")
    return bytes.fromhex(text.replace(":", ""))


def main(arguments: list[str] | None = None) -> int:
    """Run one side; return the exit code, 1 if not all frames came."""
    parser = argparse.ArgumentParser(prog="hil.traffic.frames", description="Raw frames of known length and number.")
    sides = parser.add_subparsers(dest="side", required=True)
    receiving, sending = sides.add_parser("receive"), sides.add_parser("send")
    for side in (receiving, sending):
        side.add_argument("--device", required=True)
        side.add_argument("--count", type=int, required=True, choices=range(1, 10_000_001), metavar="FRAMES")
    receiving.add_argument("--within", type=duration, required=True)
    sending.add_argument("--to", type=mac, required=True)
    sending.add_argument("--length", type=int, required=True, choices=range(SHORTEST, 65536), metavar="BYTES")
    sending.add_argument("--rate", type=rate, default=_DEFAULT_RATE)
    chosen = parser.parse_args(arguments)
    try:
        if chosen.side == "receive":
            outcome = receive(chosen.device, chosen.count, chosen.within)
        else:
            outcome = send(
                chosen.device, chosen.to, length=chosen.length, count=chosen.count, rate_bytes_per_s=chosen.rate
            )
    except OSError as error:
        print(f"error: {chosen.device}: {error}", file=sys.stderr)
        return 1
    outcome.print()
    return 0 if outcome.detail.get("complete", True) else 1


if __name__ == "__main__":
    sys.exit(main())
