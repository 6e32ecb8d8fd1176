"""A process that reads switches for another: ``python -m switch.worker``, spoken to over its standard input and output.

Each message is its length in four octets and a pickle, both ways; the two ends are one program on one machine, and
pass phrases never appear on a command line. The process ends when its input does: it does not outlive who started it.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import pickle
import signal
import sys
import time
from dataclasses import dataclass
from typing import BinaryIO, TypeAlias

from switch.connect import SnmpClients
from switch.interpret import Device
from switch.ports import Discovery, Poll
from switch.reader import SwitchReader
from switch.security import Client, Endpoint, Security, Timing

LENGTH_OCTETS = 4


@dataclass(frozen=True, slots=True)
class Begin:
    """The first message: what to add to CLOCK_MONOTONIC, which is one for all processes, to be on the timeline."""

    offset_ns: int


@dataclass(frozen=True, slots=True)
class Connect:
    """Read this switch under this name from now on."""

    name: str
    endpoint: Endpoint
    security: Security
    device: Device
    client: Client
    timing: Timing | None


@dataclass(frozen=True, slots=True)
class Look:
    """Look at a switch: for these ports, or, None, for whatever it has. ``number`` is the answer's."""

    number: int
    name: str
    ports: tuple[str, ...] | None


@dataclass(frozen=True, slots=True)
class Close:
    """Let go of a switch."""

    name: str


Order: TypeAlias = "Begin | Connect | Look | Close"


@dataclass(frozen=True, slots=True)
class Seen:
    """The answer to a look."""

    number: int
    look: Poll | Discovery


def framed(message: Order | Seen) -> bytes:
    """Return a message as it is sent."""
    body = pickle.dumps(message, pickle.HIGHEST_PROTOCOL)
    return len(body).to_bytes(LENGTH_OCTETS, "big") + body


async def received(stream: asyncio.StreamReader) -> Order | Seen | None:
    """Return the next message, None at the end of the stream."""
    try:
        length = int.from_bytes(await stream.readexactly(LENGTH_OCTETS), "big")
        message: Order | Seen = pickle.loads(await stream.readexactly(length))  # noqa: S301  from our own process
    except asyncio.IncompleteReadError:
        return None
    return message


async def _serve(orders: BinaryIO, answers: BinaryIO) -> None:
    loop = asyncio.get_running_loop()
    stream = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(stream), orders)
    begin = await received(stream)
    if not isinstance(begin, Begin):
        return
    clients = SnmpClients(lambda: time.monotonic_ns() + begin.offset_ns)
    readers: dict[str, SwitchReader] = {}
    looks: set[asyncio.Task[None]] = set()

    async def look(order: Look) -> None:
        reader = readers[order.name]
        found = await (reader.discover() if order.ports is None else reader.read_ports(order.ports))
        # Written whole and at once: the other end reads without pause, and no two answers mix.
        answers.write(framed(Seen(order.number, found)))
        answers.flush()

    try:
        while (order := await received(stream)) is not None:
            if isinstance(order, Connect):
                readers[order.name] = clients.connect(
                    order.name, order.endpoint, order.security, order.device, client=order.client, timing=order.timing
                )
            elif isinstance(order, Look):
                task = loop.create_task(look(order))
                looks.add(task)
                task.add_done_callback(looks.discard)
            elif isinstance(order, Close) and order.name in readers:
                await readers.pop(order.name).close()
    finally:
        for task in tuple(looks):
            task.cancel()
        await clients.close()


def main() -> None:
    """Serve until the standard input ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for who started us, who then ends our input
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # whatever else prints must not mix with answers
    with contextlib.suppress(BrokenPipeError):
        asyncio.run(_serve(sys.stdin.buffer, answers))


if __name__ == "__main__":
    # Messages name their types by this module's name, which it has only when it is imported.
    from switch import worker  # noqa: PLW0406

    worker.main()
