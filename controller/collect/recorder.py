"""What every collector needs around it: the time, the journal, and a voice. One object, so that tests can make it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random

from controller.collect.attempts import LookFailed, attempt_entry
from controller.collect.narrator import Narrator
from controller.collect.writer import GroupWriter
from controller.journal import NewEntry


@dataclass(frozen=True, slots=True)
class Recorder:
    """Where collectors put what they saw.

    Attributes:
        writer: on the disk when it returns.
        narrator: tells the operator.
        now_ns: the controller's timeline.
        rng: for phases and waits.
        kept: is told of entries that are on the disk, in the order of the journal; it must not wait.
    """

    writer: GroupWriter
    narrator: Narrator
    now_ns: Callable[[], int]
    rng: Random
    kept: Callable[[Sequence[NewEntry]], None] = lambda _entries: None

    async def keep(self, *entries: NewEntry) -> list[int | None]:
        """Put ``entries`` on the disk; as :meth:`GroupWriter.append`."""
        leaves = await self.writer.append(*entries)
        self.kept(entries)
        return leaves

    async def failed(self, source: str, failure: LookFailed, *, first_sent_ns: int) -> None:
        """Put a failed look on the disk and tell the operator."""
        entry = attempt_entry(failure, source=source, first_sent_ns=first_sent_ns, gave_up_ns=self.now_ns())
        await self.keep(entry)
        self.narrator.trouble(source, failure.look.value, failure.reason.value, failure.text)
