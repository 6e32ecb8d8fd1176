"""Polls one switch at an interval, a number of times. No poll overlaps another; a late one is not made up for."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence

from switch.ports import Discovery, Poll
from switch.reader import SwitchReader

_NS_PER_S = 1_000_000_000


async def polls(
    reader: SwitchReader, ports: Sequence[str], *, interval_ns: int, count: int, now_ns: Callable[[], int]
) -> AsyncIterator[Poll | Discovery]:
    """Yield ``count`` looks whose starts are ``interval_ns`` apart, or more where a look lasts longer.

    Without ``ports`` each look is a discovery until one has found the device's ports; those are then asked for.
    """
    wanted, start_ns = list(ports), now_ns()
    for number in range(count):
        if number:
            due_ns = start_ns + interval_ns
            behind_ns = max(0, now_ns() - due_ns)
            # Starts stay on the grid of the interval; those that passed during a long look are left out.
            start_ns = due_ns + -(-behind_ns // interval_ns) * interval_ns if behind_ns else due_ns
            await asyncio.sleep(max(0, start_ns - now_ns()) / _NS_PER_S)
        if wanted:
            yield await reader.read_ports(wanted)
            continue
        discovery = await reader.discover()
        if discovery.complete:
            wanted = [entry.port for entry in discovery.poll.ports]
        yield discovery
