"""Reads switches in processes of their own, when one core does not poll them all; each behind the same seam.

A switch belongs to one process for good, so its looks never overlap, and deadline and back-off are as without. A
process that dies, or does not answer long after a look's deadline, is started again with its switches, and the look
that it was at is taken once more.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from dataclasses import replace

from protos.reading import Missing
from switch.claims import EngineClaims, SharedEngineIdError
from switch.interpret import Device
from switch.ports import Discovery, Poll, PortFault
from switch.reader import SwitchReader
from switch.security import Client, Endpoint, Security, Timing
from switch.worker import Begin, Close, Connect, Look, Order, Seen, framed, received

GRACE_S = 30.0
"""After a look's deadline a process is taken for dead: it ends looks by itself, so it hangs."""


class WorkerError(RuntimeError):
    """A process that reads switches cannot be kept alive: our own fault, not a device's."""


class _Worker:
    """One process and the switches that are its own."""

    def __init__(self, offset_ns: int) -> None:
        self._offset_ns = offset_ns
        self._process: asyncio.subprocess.Process | None = None
        self._listening: set[asyncio.Task[None]] = set()
        self._switches: dict[str, Connect] = {}
        self._waiting: dict[int, asyncio.Future[Poll | Discovery]] = {}
        self._number = 0
        self._starting = asyncio.Lock()

    def connect(self, order: Connect) -> None:
        """Read this switch from the next look on."""
        self._switches[order.name] = order
        if self._process is not None:
            self._tell(order)

    def close_switch(self, name: str) -> None:
        """Let go of a switch."""
        self._switches.pop(name, None)
        if self._process is not None:
            self._tell(Close(name))

    async def look(self, name: str, ports: tuple[str, ...] | None) -> Poll | Discovery:
        """Return what the process saw.

        Raises:
            WorkerError: it died twice over this look.
        """
        for _ in range(2):
            await self._ensure()
            self._number += 1
            number = self._number
            future: asyncio.Future[Poll | Discovery] = asyncio.get_running_loop().create_future()
            self._waiting[number] = future
            process = self._process
            try:
                self._tell(Look(number, name, ports))
                await asyncio.wait({future}, timeout=self._patience_s(name))
            finally:
                self._waiting.pop(number, None)
            if future.done() and future.exception() is None:
                return future.result()
            if not future.done() and process is not None and process is self._process:
                process.kill()
                self._process = None
                self._fail()
        raise WorkerError(f"the process that reads {name} ended twice while it looked; see what it printed")

    def _patience_s(self, name: str) -> float:
        timing = self._switches[name].timing if name in self._switches else None
        return (timing or Timing()).deadline_ns / 1e9 + GRACE_S

    async def stop(self) -> None:
        """End the process."""
        process, self._process = self._process, None
        if process is not None and process.stdin is not None:
            process.stdin.close()
            try:
                await asyncio.wait_for(process.wait(), 5)
            except asyncio.TimeoutError:
                process.kill()
                await process.wait()
        await asyncio.gather(*self._listening)

    async def _ensure(self) -> None:
        async with self._starting:
            if self._process is not None:
                return
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "switch.worker"),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
            )
            self._process = process
            listening = asyncio.get_running_loop().create_task(self._listen(process))
            self._listening.add(listening)
            listening.add_done_callback(self._listening.discard)
            self._tell(Begin(self._offset_ns))
            for order in self._switches.values():
                self._tell(order)

    def _tell(self, order: Order) -> None:
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.write(framed(order))

    async def _listen(self, process: asyncio.subprocess.Process) -> None:
        if process.stdout is None:
            return
        while (message := await received(process.stdout)) is not None:
            future = self._waiting.get(message.number) if isinstance(message, Seen) else None
            if isinstance(message, Seen) and future is not None and not future.done():
                future.set_result(message.look)
        if self._process is process:
            self._process = None
            self._fail()
        await process.wait()

    def _fail(self) -> None:
        for future in self._waiting.values():
            if not future.done():
                future.set_exception(WorkerError("the process ended"))


class SwitchWorkers:
    """Processes that read switches. Make it inside a running event loop, stop it there."""

    def __init__(self, offset_ns: int, processes: int) -> None:
        """``offset_ns`` added to CLOCK_MONOTONIC is the controller's timeline."""
        self._workers = [_Worker(offset_ns) for _ in range(processes)]
        self._claims = EngineClaims()
        self._connected = 0

    def connect(
        self,
        name: str,
        endpoint: Endpoint,
        security: Security,
        device: Device,
        *,
        client: Client = Client.PYSNMP,
        timing: Timing | None = None,
    ) -> SwitchReader:
        """Return a reader of the switch at ``endpoint``; processes get switches in turn."""
        worker = self._workers[self._connected % len(self._workers)]
        self._connected += 1
        worker.connect(Connect(name, endpoint, security, device, client, timing))
        return _WorkerReader(name, worker, self._claims)

    async def close(self) -> None:
        """End the processes; readers are dead afterwards."""
        await asyncio.gather(*(worker.stop() for worker in self._workers))


class _WorkerReader:
    """A :class:`switch.reader.SwitchReader` whose looks another process takes."""

    def __init__(self, name: str, worker: _Worker, claims: EngineClaims) -> None:
        self._name, self._worker, self._claims = name, worker, claims
        self._one_at_a_time = asyncio.Lock()

    @property
    def name(self) -> str:
        """See :class:`switch.reader.SwitchReader`."""
        return self._name

    async def read_ports(self, names: Sequence[str]) -> Poll:
        """See :meth:`switch.reader.SwitchReader.read_ports`.

        Raises:
            WorkerError: the process cannot be kept alive.
        """
        async with self._one_at_a_time:
            found = await self._worker.look(self._name, tuple(names))
        return self._own(found if isinstance(found, Poll) else found.poll)

    async def discover(self) -> Discovery:
        """See :meth:`switch.reader.SwitchReader.discover`.

        Raises:
            WorkerError: the process cannot be kept alive.
        """
        async with self._one_at_a_time:
            found = await self._worker.look(self._name, None)
        if not isinstance(found, Discovery):
            raise WorkerError(f"the process that reads {self._name} answered another question")
        return replace(found, poll=self._own(found.poll))

    async def close(self) -> None:
        """Let go of the device."""
        self._claims.release(self._name)
        self._worker.close_switch(self._name)

    def _own(self, poll: Poll) -> Poll:
        """Refuse an engine id that is another switch's; within a process its client has done so already."""
        engine_id = poll.agent.engine_id
        if not engine_id or not poll.samples:
            return poll
        try:
            self._claims.check_unclaimed(engine_id, self._name)
        except SharedEngineIdError as error:
            at = poll.first_sent_ns, poll.received_ns
            ports = [PortFault(entry.port, Missing.MALFORMED, str(error), *at) for entry in poll.ports]
            return replace(poll, ports=tuple(ports))
        self._claims.claim(engine_id, self._name)
        return poll
