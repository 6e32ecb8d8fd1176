"""The writer groups and never loses; the narrator does not repeat itself; the pace is kept."""

from __future__ import annotations

import asyncio
from io import StringIO
from itertools import pairwise
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.collect import writer as writing
from controller.collect.narrator import FIRST_REMINDER_NS, Narrator
from controller.collect.pace import Backoff, Steady
from controller.collect.writer import GroupWriter
from controller.errors import OperatorError
from controller.journal import ConflictingEntryError, Journal, Kind, NewEntry

S = 1_000_000_000


def _entry(number: int, body: bytes = b"x", *, source: str = "a") -> NewEntry:
    return NewEntry(Kind.FRAME, source, 1, body, sequence=number)


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    return Journal.create(tmp_path / "journal.db")


# ---------------------------------------------------------------- the writer


def test_those_who_wait_together_are_written_together(journal: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    transactions: list[int] = []
    append = Journal.append

    def counted(journal: Journal, *entries: NewEntry) -> list[int | None]:
        transactions.append(len(entries))
        return append(journal, *entries)

    monkeypatch.setattr(Journal, "append", counted)

    async def go() -> list[list[int | None]]:
        async with GroupWriter(journal) as writer:
            return await asyncio.gather(*(writer.append(_entry(i), _entry(i, source="b")) for i in range(1, 101)))

    leaves = [leaf for pair in asyncio.run(go()) for leaf in pair]
    assert sorted(leaves) == list(range(200))  # type: ignore[type-var]
    assert len(transactions) < 10
    assert sum(transactions) == 200


def test_a_conflict_hurts_only_who_asked_for_it(journal: Journal) -> None:
    journal.append(_entry(1, b"first"))

    async def go() -> list[object]:
        async with GroupWriter(journal) as writer:
            requests = (
                writer.append(_entry(2)),
                writer.append(_entry(1, b"other"), _entry(9)),
                writer.append(_entry(3)),
            )
            return list(await asyncio.gather(*requests, return_exceptions=True))

    two, conflict, three = asyncio.run(go())
    assert isinstance(conflict, ConflictingEntryError)
    assert {two[0], three[0]} == {1, 2}  # type: ignore[index]
    assert [e.sequence for e in journal.entries()] == [1, 2, 3]


def test_a_disk_that_fails_is_told_to_everyone(journal: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OperatorError("journal.db: the disk is full.")

    async def go() -> list[object]:
        async with GroupWriter(journal) as writer:
            first = await asyncio.gather(*(writer.append(_entry(i)) for i in range(5)), return_exceptions=True)
            monkeypatch.undo()
            return [*first, await writer.append(_entry(99))]

    monkeypatch.setattr(Journal, "append", full)
    results = asyncio.run(go())
    assert all(isinstance(result, OperatorError) for result in results[:5])
    assert results[5] == [0], "the next one is tried anew"


def test_closing_writes_what_waits(journal: Journal) -> None:
    async def go() -> None:
        async with GroupWriter(journal) as writer:
            waiting = [asyncio.ensure_future(writer.append(_entry(i))) for i in range(1, 51)]
            await asyncio.sleep(0)
        assert all(task.done() for task in waiting) or await asyncio.gather(*waiting)

    asyncio.run(go())
    assert len(journal) == 50


def test_who_went_away_is_written_all_the_same(journal: Journal) -> None:
    async def go() -> None:
        async with GroupWriter(journal) as writer:
            task = asyncio.ensure_future(writer.append(_entry(1)))
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            task.cancel()
            await writer.append(_entry(2))

    asyncio.run(go())
    assert {e.sequence for e in journal.entries()} >= {2}


def test_more_than_the_disk_can_take_waits_its_turn(journal: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writing, "MAX_WAITING_BYTES", 5_000)
    most = 0

    async def go() -> None:
        nonlocal most
        async with GroupWriter(journal) as writer:

            async def one(i: int) -> None:
                nonlocal most
                await writer.append(_entry(i, b"y" * 1_000))
                most = max(most, writer._waiting_bytes)

            await asyncio.gather(*(one(i) for i in range(1, 41)))

    asyncio.run(go())
    assert len(journal) == 40
    assert most <= 5_000


def test_one_entry_above_every_bound_is_still_written(journal: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writing, "MAX_WAITING_BYTES", 100)
    monkeypatch.setattr(writing, "MAX_GROUP_BYTES", 100)

    async def go() -> None:
        async with GroupWriter(journal) as writer:
            await asyncio.gather(*(writer.append(_entry(i, b"y" * 1_000)) for i in range(1, 4)))

    asyncio.run(go())
    assert len(journal) == 3


# ---------------------------------------------------------------- the narrator


def test_an_hour_of_trouble_is_few_lines() -> None:
    now, out = 0, StringIO()
    narrator = Narrator(lambda: now, out)
    narrator.well("sw1", "poll", "answers")
    for _ in range(3600):
        now += S
        narrator.trouble("sw1", "poll", "timeout", "does not answer")
    now += S
    narrator.well("sw1", "poll", "answers")
    lines = out.getvalue().splitlines()
    assert lines[0] == "sw1: answers"
    assert lines[1] == "sw1: does not answer"
    assert lines[-1] == "sw1: answers again after 1 h (3600 looks failed)"
    assert 4 < len(lines) < 12
    assert lines[2].startswith("sw1: still, for 60 s (61 looks): does not answer")


def test_another_reason_is_news_and_devices_do_not_mix() -> None:
    out = StringIO()
    narrator = Narrator(lambda: 0, out)
    narrator.trouble("sw1", "poll", "timeout", "silence")
    narrator.trouble("sw1", "poll", "denied", "wrong password")
    narrator.trouble("sw2", "poll", "timeout", "silence")
    narrator.well("sw1", "poll", "answers")
    narrator.well("sw1", "poll", "answers")
    assert out.getvalue().splitlines() == [
        "sw1: silence",
        "sw1: wrong password",
        "sw2: silence",
        "sw1: answers again after 0 ns (2 looks failed)",
    ]
    assert FIRST_REMINDER_NS == 60 * S


# ---------------------------------------------------------------- the pace


@given(seed=st.integers(0, 1000), failures=st.integers(1, 60))
def test_waits_grow_to_a_bound_and_are_never_nothing(seed: int, failures: int) -> None:
    backoff = Backoff(Random(seed), first_s=0.5, longest_s=15)
    waits = [backoff.next_s() for _ in range(failures)]
    assert all(0.25 <= wait <= 15 for wait in waits)
    assert all(wait >= 7.5 for wait in waits[6:])
    backoff.reset()
    assert backoff.next_s() <= 0.5


@given(
    seed=st.integers(0, 1000),
    interval=st.integers(1_000_000, 10 * S),
    lasted=st.lists(st.integers(0, 30 * S), min_size=1, max_size=30),
)
def test_starts_keep_their_phase_and_never_crowd(seed: int, interval: int, lasted: list[int]) -> None:
    steady, now = Steady(interval, Random(seed)), 5 * S
    starts = []
    for took in lasted:
        now += round(steady.wait_s(now) * S)
        starts.append(now)
        now += took
    phase = starts[0] - 5 * S
    assert 0 <= phase < interval
    for start in starts:
        off = (start - starts[0]) % interval
        assert min(off, interval - off) < 1_000, "rounding of the float seconds only"
    assert all(later - earlier > interval - 1_000 for earlier, later in pairwise(starts))
