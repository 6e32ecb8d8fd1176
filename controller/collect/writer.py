"""Puts entries on the disk for every collector at once: one thread, one transaction for all that wait.

A synchronous write takes milliseconds; a task that awaits :meth:`GroupWriter.append` waits for one, not for one each.
When :meth:`GroupWriter.append` returns, its entries are on the disk: only then may a frame be acknowledged.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from types import TracebackType
from typing import final

from controller.journal import ConflictingEntryError, Journal, NewEntry

MAX_GROUP_BYTES = 8 * 2**20
"""A transaction holds no more than this (and one append): memory, and how long another process waits for its turn."""

MAX_WAITING_BYTES = 64 * 2**20
"""More than this is not taken from the network while the disk is behind."""

_ROW_BYTES = 512
"""What an entry costs beside its body, roughly."""


@dataclass(slots=True)
class _Request:
    entries: Sequence[NewEntry]
    size: int
    done: asyncio.Future[list[int | None]]


@final
class GroupWriter:
    """Use as an asynchronous context manager; the journal stays its owner's to close."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._waiting: deque[_Request] = deque()
        self._waiting_bytes = 0
        self._changed = asyncio.Condition()
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="journal-writer")
        self._task: asyncio.Task[None] | None = None
        self._closing = False

    async def __aenter__(self) -> GroupWriter:
        self._task = asyncio.create_task(self._write(), name="journal-writer")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Write what waits, then stop."""
        async with self._changed:
            self._closing = True
            self._changed.notify_all()
        if self._task is not None:
            await self._task
        self._thread.shutdown()

    async def append(self, *entries: NewEntry) -> list[int | None]:
        """Append ``entries`` in one transaction; they are on the disk when this returns. As :meth:`Journal.append`.

        Raises:
            ConflictingEntryError: one of *these* entries is there already with other bytes; none of them was written.
            OperatorError: the disk is full or fails.
        """
        size = sum(len(entry.body) + _ROW_BYTES for entry in entries)
        request = _Request(entries, size, asyncio.get_running_loop().create_future())
        async with self._changed:
            await self._changed.wait_for(
                lambda: self._waiting_bytes == 0 or self._waiting_bytes + size <= MAX_WAITING_BYTES
            )
            if self._closing:
                raise RuntimeError("the journal's writer has been stopped")
            self._waiting.append(request)
            self._waiting_bytes += size
            self._changed.notify_all()
        return await request.done

    async def _write(self) -> None:
        """Until closed and empty: take all that waits, commit it, tell those who wait."""
        loop = asyncio.get_running_loop()
        while True:
            async with self._changed:
                await self._changed.wait_for(lambda: self._waiting or self._closing)
                if not self._waiting:
                    return
                group = self._take_group()
            results = await loop.run_in_executor(self._thread, self._commit, group)
            for request, result in zip(group, results, strict=True):
                if request.done.cancelled():
                    continue  # whoever asked has gone; the entries are on the disk all the same
                if isinstance(result, Exception):
                    request.done.set_exception(result)
                else:
                    request.done.set_result(result)
            async with self._changed:
                self._waiting_bytes -= sum(request.size for request in group)
                self._changed.notify_all()

    def _take_group(self) -> list[_Request]:
        group = [self._waiting.popleft()]
        size = group[0].size
        while self._waiting and size + self._waiting[0].size <= MAX_GROUP_BYTES:
            group.append(self._waiting.popleft())
            size += group[-1].size
        return group

    def _commit(self, group: Sequence[_Request]) -> Sequence[list[int | None] | Exception]:
        """In the writer's thread: all in one transaction, or, if one conflicts, each in its own."""
        try:
            leaves = iter(self._journal.append(*(entry for request in group for entry in request.entries)))
        except ConflictingEntryError:
            return [self._commit_one(request) for request in group]
        except Exception as error:  # noqa: BLE001  the disk's trouble is everyone's: each who waits must hear of it
            return [error] * len(group)
        return [[next(leaves) for _ in request.entries] for request in group]

    def _commit_one(self, request: _Request) -> list[int | None] | Exception:
        try:
            return self._journal.append(*request.entries)
        except Exception as error:  # noqa: BLE001  as above
            return error
