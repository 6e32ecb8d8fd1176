"""``python -m hil.watch --for 10s PORT...``: a port's kernel counters, read as often as can be, and when.

One line a reading: before, after (UTC nanoseconds, which all machines of a rig share), port, received bytes, packets,
dropped, sent bytes, packets, dropped. Ends by itself.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from hil.traffic.outcome import duration

TABLE = Path("/proc/net/dev")
INTERVAL_S = 0.01
_COLUMNS = (0, 1, 3, 8, 9, 11)
"""Received bytes, packets, dropped; sent bytes, packets, dropped (proc(5))."""


def rows(table: str) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Yield each port's name and its counters."""
    for line in table.splitlines()[2:]:
        name, _, numbers = line.partition(":")
        values = numbers.split()
        yield name.strip(), tuple(int(values[index]) for index in _COLUMNS)


def main(arguments: list[str] | None = None) -> int:
    """Read until the time is over."""
    parser = argparse.ArgumentParser(prog="hil.watch")
    parser.add_argument("--for", dest="for_ns", type=duration, required=True, help="how long, for example 10s")
    parser.add_argument("ports", nargs="+")
    given = parser.parse_args(arguments)
    end_ns = time.monotonic_ns() + given.for_ns
    while time.monotonic_ns() < end_ns:
        before = time.time_ns()
        found = dict(rows(TABLE.read_text(encoding="ascii")))
        after = time.time_ns()
        for port in given.ports:
            print(before, after, port, *found[port])
        time.sleep(INTERVAL_S)
    sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
