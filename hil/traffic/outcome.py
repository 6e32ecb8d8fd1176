"""What a generator reports, and the options that bound it."""

from __future__ import annotations

import argparse
import dataclasses
import json
import time
from dataclasses import dataclass

from protos.units import NS_PER_S, UnitError, parse_bytes, parse_duration_ns, parse_rate_bytes_per_s

LONGEST_NS = 3600 * NS_PER_S
MOST_BYTES = 100 * 10**9


@dataclass(frozen=True)
class Outcome:
    """What one generator did. ``packets`` is None where the kernel decides how many frames it makes."""

    generator: str
    role: str
    start_ns: int
    end_ns: int
    bytes_sent: int
    bytes_received: int
    packets_sent: int | None = None
    packets_received: int | None = None
    detail: dict[str, int | float | str | bool | None] = dataclasses.field(default_factory=dict)

    def print(self) -> None:
        """Print it as one line of JSON; numbers that may exceed 2^53 as decimal strings."""
        record = dataclasses.asdict(self)
        large = ("start_ns", "end_ns", "bytes_sent", "bytes_received", "packets_sent", "packets_received")
        record |= {key: str(record[key]) for key in large if record[key] is not None}
        print(json.dumps(record), flush=True)


class Pace:
    """Spreads bytes over time: after ``sent(n)`` the caller may go on when the n bytes are due at the rate."""

    def __init__(self, rate_bytes_per_s: int | None) -> None:
        self._rate = rate_bytes_per_s
        self._start_ns = time.monotonic_ns()
        self._bytes = 0

    def wait_ns(self, size: int) -> int:
        """Count ``size`` bytes as sent; return how long to wait before the next, in nanoseconds."""
        self._bytes += size
        if self._rate is None:
            return 0
        due_ns = self._start_ns + self._bytes * NS_PER_S // self._rate
        return max(0, due_ns - time.monotonic_ns())

    def sent(self, size: int) -> None:
        """Count ``size`` bytes as sent and sleep until the next may go."""
        wait_ns = self.wait_ns(size)
        if wait_ns > 0:
            time.sleep(wait_ns / NS_PER_S)


def address(text: str) -> tuple[str, int]:
    """Return host and port of ``HOST:PORT`` (IPv4), for argparse."""
    host, colon, port = text.rpartition(":")
    if not colon or not port.isdigit() or not 0 < int(port) < 65536:
        raise argparse.ArgumentTypeError(f"{text!r} is not an address: write it like 10.77.0.3:9000")
    return host, int(port)


def size(text: str) -> int:
    """Return the bytes of ``10MB``, at most 100 GB, for argparse."""
    try:
        value = parse_bytes(text)
    except UnitError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
    if not 0 < value <= MOST_BYTES:
        raise argparse.ArgumentTypeError(f"{text!r} is not between 1 B and {MOST_BYTES // 10**9} GB")
    return value


def rate(text: str) -> int:
    """Return the bytes per second of ``20MB/s``, for argparse."""
    try:
        value = parse_rate_bytes_per_s(text)
    except UnitError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a positive rate")
    return value


def duration(text: str) -> int:
    """Return the nanoseconds of ``30s``, at most an hour, for argparse."""
    try:
        value = parse_duration_ns(text)
    except UnitError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
    if not 0 < value <= LONGEST_NS:
        raise argparse.ArgumentTypeError(f"{text!r} is not between 1 ns and an hour")
    return value
