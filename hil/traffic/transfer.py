"""An exact number of bytes over one TCP connection.

``python -m hil.traffic.transfer receive --listen 10.77.0.3:9000``
``python -m hil.traffic.transfer send --target 10.77.0.3:9000 --bytes 100MB [--rate 20MB/s]``

The receiver takes one connection, reads until the sender closes its side, and answers with the number of bytes it
got; the sender fails if that is not what it sent.
"""

from __future__ import annotations

import argparse
import socket
import sys
import time

from hil.traffic.outcome import Outcome, Pace, address, duration, rate, size
from protos.units import NS_PER_S

_CHUNK = 64 * 1024
_ANSWER_BYTES = 20  # decimal digits of a 64-bit number


def connect(target: tuple[str, int], within_ns: int) -> socket.socket:
    """Connect, trying again while the other side is still starting.

    Raises:
        OSError: nobody listens within the time.
    """
    deadline = time.monotonic_ns() + within_ns
    while True:
        try:
            return socket.create_connection(target, timeout=within_ns / NS_PER_S)
        except ConnectionRefusedError:
            if time.monotonic_ns() > deadline:
                raise
        time.sleep(0.05)


def send(target: tuple[str, int], total: int, rate_bytes_per_s: int | None, within_ns: int) -> Outcome:
    """Send ``total`` bytes and return when the receiver has confirmed them.

    Raises:
        OSError: the connection failed, or took longer than ``within_ns``.
        ValueError: the receiver got another number of bytes.
    """
    start_ns = time.monotonic_ns()
    chunk = memoryview(bytes(_CHUNK))
    with connect(target, within_ns) as connection:
        connection.settimeout(within_ns / NS_PER_S)
        pace, left = Pace(rate_bytes_per_s), total
        while left:
            part = chunk[: min(left, _CHUNK)]
            connection.sendall(part)
            left -= len(part)
            pace.sent(len(part))
        connection.shutdown(socket.SHUT_WR)
        answer = b""
        while len(answer) < _ANSWER_BYTES and (data := connection.recv(_ANSWER_BYTES - len(answer))):
            answer += data
    if int(answer or b"0") != total:
        raise ValueError(f"sent {total} bytes, but the receiver got {int(answer or b'0')}")
    return Outcome("transfer", "send", start_ns, time.monotonic_ns(), total, len(answer))


def receive(listen: tuple[str, int], within_ns: int) -> Outcome:
    """Take one connection and everything that comes over it.

    Raises:
        OSError: nobody connected within ``within_ns``, or the connection failed.
    """
    with socket.create_server(listen) as server:
        server.settimeout(within_ns / NS_PER_S)
        connection, _ = server.accept()
    start_ns, total, buffer = time.monotonic_ns(), 0, bytearray(_CHUNK)
    with connection:
        connection.settimeout(within_ns / NS_PER_S)
        while got := connection.recv_into(buffer):
            total += got
        answer = str(total).zfill(_ANSWER_BYTES).encode()
        connection.sendall(answer)
    return Outcome("transfer", "receive", start_ns, time.monotonic_ns(), len(answer), total)


def main(arguments: list[str] | None = None) -> int:
    """Run one side; return the exit code."""
    parser = argparse.ArgumentParser(prog="hil.traffic.transfer", description="An exact number of bytes over TCP.")
    sides = parser.add_subparsers(dest="side", required=True)
    receiving, sending = sides.add_parser("receive"), sides.add_parser("send")
    receiving.add_argument("--listen", type=address, required=True)
    sending.add_argument("--target", type=address, required=True)
    sending.add_argument("--bytes", type=size, required=True)
    sending.add_argument("--rate", type=rate, default=None)
    for side in (receiving, sending):
        side.add_argument("--within", type=duration, default=60 * NS_PER_S, help="give up after this long")
    chosen = parser.parse_args(arguments)
    try:
        if chosen.side == "receive":
            outcome = receive(chosen.listen, chosen.within)
        else:
            outcome = send(chosen.target, chosen.bytes, chosen.rate, chosen.within)
    except (OSError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    outcome.print()
    return 0


if __name__ == "__main__":
    sys.exit(main())
