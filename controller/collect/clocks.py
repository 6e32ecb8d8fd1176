"""Exchanges clocks with an agent, and journals the four stamps as they are.

What they bound is decided when they are read again (:mod:`controller.clockoffset`).
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable

import grpc

from controller.collect.attempts import Look, LookFailed, Reason
from controller.collect.channel import AgentChannel
from controller.collect.pace import Steady
from controller.collect.recorder import Recorder
from controller.journal import Kind, NewEntry

CLOCK_TIMEOUT_S = 2.0

LOST_CLOCK_EXCHANGES = 3
"""So many clock exchanges in a row without an answer end the session: the connection is dead."""


class ClockExchanger:
    """Exchanges clocks with one agent over one connection."""

    def __init__(
        self,
        agent: str,
        channel: AgentChannel,
        recorder: Recorder,
        *,
        timeline: str,
        interval_ns: int,
        explain: Callable[[grpc.aio.AioRpcError], LookFailed],
    ) -> None:
        """``explain`` puts an RPC's failure into words."""
        self._agent, self._channel, self._recorder = agent, channel, recorder
        self._timeline, self._interval_ns, self._explain = timeline, interval_ns, explain

    async def run(self, on_exchange: Callable[[], Awaitable[None]]) -> None:
        """Exchange at the interval, and call ``on_exchange`` after each.

        Raises:
            LookFailed: so many in a row failed that the connection must be dead.
        """
        steady = Steady(self._interval_ns, self._recorder.rng)
        failed = 0
        while True:
            began_ns = self._recorder.now_ns()
            try:
                await self.exchange()
            except LookFailed as failure:
                failed += 1
                if failed >= LOST_CLOCK_EXCHANGES:
                    raise
                await self._recorder.failed(self._agent, failure, first_sent_ns=began_ns)
            else:
                failed = 0
                self._recorder.narrator.well(self._agent, Look.CLOCK.value, "its clock answers")
                await on_exchange()
            await asyncio.sleep(steady.wait_s(self._recorder.now_ns()))

    async def exchange(self) -> None:
        """Exchange once and journal the four stamps.

        Raises:
            LookFailed: no answer in time, or one that goes backwards.
        """
        sent_ns = self._recorder.now_ns()
        try:
            reply = await self._channel.exchange_clock(CLOCK_TIMEOUT_S)
        except grpc.aio.AioRpcError as error:
            raise self._explain(error) from error
        received_ns = self._recorder.now_ns()
        raw_ns = time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW)
        if reply.sent_monotonic_ns < reply.received_monotonic_ns or not reply.clock.boot_id:
            text = f"agent {self._agent} answered a clock exchange with stamps that go backwards or name no boot"
            raise LookFailed(Look.CLOCK, Reason.MALFORMED, text)
        body = {
            "t1": str(sent_ns),
            "t2": str(reply.received_monotonic_ns),
            "t3": str(reply.sent_monotonic_ns),
            "t4": str(received_ns),
            "boot_id": reply.clock.boot_id,
            "monotonic_ns": str(reply.clock.monotonic_ns),
            "monotonic_raw_ns": str(reply.clock.monotonic_raw_ns),
            "wall_ns": str(reply.clock.wall_ns),
            "controller_raw_ns": str(raw_ns),
            "timeline": self._timeline,
        }
        encoded = json.dumps(body, separators=(",", ":")).encode()
        await self._recorder.keep(NewEntry(Kind.CLOCK, self._agent, received_ns, encoded))
