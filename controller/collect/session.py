"""One connection to an agent: frames are received, written and acknowledged, with clock exchanges beside them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

import grpc

from controller.collect.attempts import Look, LookFailed, Reason, attempt_entry
from controller.collect.channel import AgentChannel, FrameStream
from controller.collect.framechain import FrameChain, ReceivedFrame
from controller.collect.recorder import Recorder
from controller.journal import ConflictingEntryError, Kind, NewEntry

LONGEST_SESSION_S = 2_700.0
"""45 minutes. Agents end a connection after an hour, so that certificates are shown again; here it ends before, in good
order, between two looks."""

MAX_UNWRITTEN_FRAMES = 1_024
"""Frames in hand that are not on the disk yet; above it nothing more is read from the network."""


@dataclass(frozen=True, slots=True)
class _End:
    """After the last frame of a session: why there are no more; None if the agent ended it in good order."""

    error: LookFailed | grpc.aio.AioRpcError | None


class Session:
    """One connection's work: receive, write, acknowledge; and exchange clocks."""

    def __init__(
        self, agent: str, recorder: Recorder, on_frame: Callable[[ReceivedFrame], None] = lambda _frame: None
    ) -> None:
        """``on_frame`` is told of each frame that is on the disk."""
        self._agent, self._recorder, self._on_frame = agent, recorder, on_frame
        self._received: asyncio.Queue[ReceivedFrame | _End] = asyncio.Queue(MAX_UNWRITTEN_FRAMES)
        self.look = Look.CONNECT
        self.look_since_ns = recorder.now_ns()
        self.brought_something = False

    async def collect(self, channel: AgentChannel, chain: FrameChain, clocks: Callable[[], Awaitable[None]]) -> None:
        """Work until the agent ends the stream in good order, or for :data:`LONGEST_SESSION_S`.

        Raises:
            LookFailed: what the agent sent is not what it should be, or its clock does not answer.
            grpc.aio.AioRpcError: the connection failed.
        """
        self.look, self.look_since_ns = Look.FRAMES, self._recorder.now_ns()
        stream = channel.stream_frames()
        await stream.acknowledge(chain.last_sequence)
        writing = asyncio.ensure_future(self._write(stream))
        exchanging = asyncio.ensure_future(clocks())
        tasks = {writing, exchanging, asyncio.ensure_future(self._receive(stream, chain))}
        try:
            going, loop = set(tasks), asyncio.get_running_loop()
            ends_at = loop.time() + LONGEST_SESSION_S
            while {writing, exchanging} <= going and loop.time() < ends_at:
                left_s = ends_at - loop.time()
                done, going = await asyncio.wait(going, timeout=left_s, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    task.result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _receive(self, stream: FrameStream, chain: FrameChain) -> None:
        """Take frames from the network until they end; how they ended goes the same way as they do."""
        try:
            async for raw in stream.frames():
                self.look_since_ns = self._recorder.now_ns()
                await self._received.put(chain.accept(raw, received_ns=self.look_since_ns))
        except (LookFailed, grpc.aio.AioRpcError) as error:
            await self._received.put(_End(error))
        else:
            await self._received.put(_End(None))

    async def _write(self, stream: FrameStream) -> None:
        """Put what was received on the disk, all that waits at once, and acknowledge it; then end as they ended."""
        while True:
            batch = [await self._received.get()]
            while not self._received.empty():
                batch.append(self._received.get_nowait())
            frames = [item for item in batch if isinstance(item, ReceivedFrame)]
            if frames:
                await self._keep(frames)
                for frame in frames:
                    self._on_frame(frame)
                self.brought_something = True
                self._recorder.narrator.well(self._agent, Look.FRAMES.value, "frames arrive")
                await stream.acknowledge(frames[-1].sequence)
            end = batch[-1]
            if isinstance(end, _End):
                if end.error is not None:
                    raise end.error
                return

    async def _keep(self, frames: Sequence[ReceivedFrame]) -> None:
        entries = []
        for frame in frames:
            if frame.missing is not None:
                first, last = frame.missing
                text = (
                    f"agent {self._agent} went on to frame {frame.sequence}: frames {first} to {last} never came. "
                    "What was lost is resolution, not volume: counters are cumulative"
                )
                hole = LookFailed(Look.FRAMES, Reason.FRAMES_MISSING, text)
                entries.append(
                    attempt_entry(
                        hole, source=self._agent, first_sent_ns=frame.received_ns, gave_up_ns=frame.received_ns
                    )
                )
                self._recorder.narrator.say(f"{self._agent}: {text}")
            entries.append(
                NewEntry(
                    kind=Kind.FRAME,
                    source=self._agent,
                    recorded_ns=frame.received_ns,
                    body=frame.raw,
                    meta={"received_ns": str(frame.received_ns)},
                    sequence=frame.number,
                )
            )
        try:
            await self._recorder.keep(*entries)
        except ConflictingEntryError as error:
            evidence = next((frame.raw for frame in frames if frame.number == error.sequence), None)
            raise LookFailed(Look.FRAMES, Reason.CONFLICT, str(error), evidence=evidence) from error
