"""One look at a device: a deadline over all its questions, and a record of every answer."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, Sequence

from protos.reading import Missing
from switch.exchange import Channel, Exchange, NoAnswerError, Oid

_NS_PER_S = 1_000_000_000


class Look:
    """A :class:`switch.exchange.Channel` that ends at a deadline and keeps its exchanges.

    Attributes:
        started_ns: controller's timeline when the look began.
        exchanges: the answers so far.
        notes: sentences for a person.
        failures: questions without an answer since the last answer.
    """

    def __init__(self, channel: Channel, deadline_ns: int, now_ns: Callable[[], int]) -> None:
        self._channel, self._now_ns = channel, now_ns
        self._deadline_s = deadline_ns / _NS_PER_S
        self._ends_at = asyncio.get_running_loop().time() + self._deadline_s
        self.started_ns = now_ns()
        self.exchanges: list[Exchange] = []
        self.notes: list[str] = []
        self.failures = 0

    @property
    def host(self) -> str:
        """See :class:`switch.exchange.Channel`."""
        return self._channel.host

    def close(self) -> None:
        """A look owns nothing."""

    async def get(self, oids: Sequence[Oid]) -> Exchange:
        """See :meth:`switch.exchange.Channel.get`; the deadline counts as silence."""
        return await self._within(lambda: self._channel.get(oids))

    async def get_bulk(self, oids: Sequence[Oid], max_repetitions: int) -> Exchange:
        """See :meth:`switch.exchange.Channel.get_bulk`; the deadline counts as silence."""
        return await self._within(lambda: self._channel.get_bulk(oids, max_repetitions))

    async def _within(self, ask: Callable[[], Awaitable[Exchange]]) -> Exchange:
        asked_ns = self._now_ns()
        try:
            exchange = await _until(ask, self._ends_at)
        except asyncio.TimeoutError:
            self.failures += 1
            text = f"the look at the device did not end within its {self._deadline_s:g} s"
            raise NoAnswerError(Missing.TIMEOUT, text, asked_ns, self._now_ns(), 0) from None
        except NoAnswerError:
            self.failures += 1
            raise
        self.failures = 0
        self.exchanges.append(exchange)
        return exchange


async def _until(ask: Callable[[], Awaitable[Exchange]], ends_at: float) -> Exchange:
    """Ask; give up at ``ends_at`` on the event loop's clock.

    Raises:
        TimeoutError: it did not end by then; the question is cancelled, and after then it is not put at all.
    """
    remaining_s = ends_at - asyncio.get_running_loop().time()
    if remaining_s <= 0:
        raise asyncio.TimeoutError
    if sys.version_info >= (3, 11):  # without a task of its own for each question
        async with asyncio.timeout_at(ends_at):
            return await ask()
    return await asyncio.wait_for(ask(), remaining_s)
