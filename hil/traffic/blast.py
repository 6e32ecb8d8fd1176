"""UDP at a given rate, for a given time or volume.

``python -m hil.traffic.blast send --target 10.77.1.100:9001 --rate 5MB/s --for 10s [--size 1400] [--device eth1]``
``python -m hil.traffic.blast receive --listen 10.77.1.100:9001 --for 12s``

The rate counts UDP payload; on the wire each datagram is 42 bytes longer (Ethernet 14, IPv4 20, UDP 8), while it
fits the MTU. A receiver is optional but keeps the other side from answering with ICMP errors.
"""

from __future__ import annotations

import argparse
import errno
import socket
import sys
import time

from hil.traffic.outcome import MOST_BYTES, Outcome, Pace, address, duration, rate, size
from protos.units import NS_PER_S

HEADER_BYTES = 42
_BURST_NS = 2_000_000  # sleep no shorter than this: sends in between go out together


def send(
    target: tuple[str, int], *, rate_bytes_per_s: int, for_ns: int, most_bytes: int, payload: int, device: str | None
) -> Outcome:
    """Send datagrams of ``payload`` bytes at the rate until time or bytes are used up.

    Raises:
        OSError: no route, no such device.
    """
    start_ns, count, refused, full = time.monotonic_ns(), 0, 0, 0
    datagram = bytes(payload)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        if device is not None:
            sender.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, device.encode())
        sender.connect(target)
        pace = Pace(rate_bytes_per_s)
        while time.monotonic_ns() - start_ns < for_ns and (count + 1) * payload <= most_bytes:
            try:
                sender.send(datagram)
                count += 1
            except ConnectionRefusedError:
                refused += 1  # the answer to an earlier datagram; nothing was sent this time
                continue
            except OSError as error:
                if error.errno != errno.ENOBUFS:
                    raise
                full += 1
            wait_ns = pace.wait_ns(payload)
            if wait_ns >= _BURST_NS:
                time.sleep(wait_ns / NS_PER_S)
    detail = {"frame_bytes": count * (payload + HEADER_BYTES), "refused": refused, "no_buffer": full}
    return Outcome("blast", "send", start_ns, time.monotonic_ns(), count * payload, 0, count, None, {**detail})


def receive(listen: tuple[str, int], for_ns: int) -> Outcome:
    """Count what arrives for that long.

    Raises:
        OSError: the address cannot be used.
    """
    start_ns, total, count = time.monotonic_ns(), 0, 0
    buffer = bytearray(65536)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as receiver:
        receiver.bind(listen)
        while (left_ns := start_ns + for_ns - time.monotonic_ns()) > 0:
            receiver.settimeout(left_ns / NS_PER_S)
            try:
                total += receiver.recv_into(buffer)
                count += 1
            except TimeoutError:
                break
    return Outcome("blast", "receive", start_ns, time.monotonic_ns(), 0, total, None, count)


def main(arguments: list[str] | None = None) -> int:
    """Run one side; return the exit code."""
    parser = argparse.ArgumentParser(prog="hil.traffic.blast", description="UDP at a given rate.")
    sides = parser.add_subparsers(dest="side", required=True)
    receiving, sending = sides.add_parser("receive"), sides.add_parser("send")
    receiving.add_argument("--listen", type=address, required=True)
    sending.add_argument("--target", type=address, required=True)
    sending.add_argument("--rate", type=rate, required=True, help="of UDP payload, for example 5MB/s")
    sending.add_argument("--size", type=int, default=1400, choices=range(1, 65508), metavar="BYTES")
    sending.add_argument("--bytes", type=size, default=MOST_BYTES, help="stop after this much payload")
    sending.add_argument("--device", default=None, help="leave by this interface whatever the routes say")
    for side in (receiving, sending):
        side.add_argument("--for", dest="for_ns", type=duration, required=True)
    chosen = parser.parse_args(arguments)
    try:
        if chosen.side == "receive":
            outcome = receive(chosen.listen, chosen.for_ns)
        else:
            outcome = send(
                chosen.target,
                rate_bytes_per_s=chosen.rate,
                for_ns=chosen.for_ns,
                most_bytes=chosen.bytes,
                payload=chosen.size,
                device=chosen.device,
            )
    except OSError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    outcome.print()
    return 0


if __name__ == "__main__":
    sys.exit(main())
