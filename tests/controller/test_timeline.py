"""The timeline: equal to UTC when a boot's first run starts, steady ever after, never backwards."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller import timeline as timelines
from controller.errors import EvidenceError, OperatorError
from controller.journal import Entry, Journal, Kind, NewEntry
from controller.timeline import Anchor, SystemClocks, Timeline, choose_anchor, clock_error

NOON = 1_796_040_000_000_000_000  # 2026-11-30 12:00 UTC
SECOND = 1_000_000_000


@dataclass
class FakeClocks:
    """A machine's clocks that a test turns."""

    monotonic: int = 50 * SECOND
    wall: int = NOON
    boot: str = "boot-1"

    def monotonic_ns(self) -> int:
        return self.monotonic

    def wall_ns(self) -> int:
        return self.wall

    def boot_id(self) -> str:
        return self.boot

    def pass_time(self, ns: int) -> None:
        self.monotonic += ns
        self.wall += ns

    def step_wall(self, ns: int) -> None:
        self.wall += ns

    def reboot(self, name: str, *, off_ns: int) -> None:
        self.boot, self.monotonic = name, 3 * SECOND
        self.wall += off_ns


@pytest.fixture
def clocks() -> FakeClocks:
    return FakeClocks()


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    with Journal.create(tmp_path / "j.db") as journal:
        yield journal


def reasons(journal: Journal) -> list[str]:
    return [json.loads(entry.body)["reason"] for entry in journal.entries(kinds=[Kind.TIMELINE])]


def record(journal: Journal, at_ns: int) -> None:
    journal.append(NewEntry(Kind.POLL, "sw1", at_ns, b"poll"))


def test_it_equals_the_wall_clock_when_a_boots_first_run_starts(journal: Journal, clocks: FakeClocks) -> None:
    timeline = Timeline.start(journal, clocks)
    assert timeline.now_ns() == NOON
    clocks.pass_time(7)
    assert timeline.now_ns() == NOON + 7
    assert timeline.at_monotonic_ns(clocks.monotonic - 7) == NOON
    assert reasons(journal) == ["anchor"]


def test_a_later_run_of_the_same_boot_uses_the_same_offset_whatever_the_wall_clock_did(
    journal: Journal, clocks: FakeClocks
) -> None:
    first = Timeline.start(journal, clocks)
    clocks.pass_time(10 * SECOND)
    clocks.step_wall(-3_600 * SECOND)
    second = Timeline.start(journal, clocks)
    assert second.anchor == first.anchor
    assert second.now_ns() == NOON + 10 * SECOND
    assert second.clock_error_ns() == -3_600 * SECOND
    assert reasons(journal) == ["anchor", "run"]


def test_a_reboot_anchors_anew_at_the_wall_clock(journal: Journal, clocks: FakeClocks) -> None:
    Timeline.start(journal, clocks)
    clocks.reboot("boot-2", off_ns=90 * SECOND)
    assert Timeline.start(journal, clocks).now_ns() == NOON + 90 * SECOND
    assert reasons(journal) == ["anchor", "anchor"]


def test_across_a_reboot_time_only_goes_forward(journal: Journal, clocks: FakeClocks) -> None:
    timeline = Timeline.start(journal, clocks)
    clocks.pass_time(500 * SECOND)
    record(journal, timeline.now_ns())
    clocks.reboot("boot-2", off_ns=-86_400 * SECOND)  # a machine whose clock battery is dead
    again = Timeline.start(journal, clocks)
    assert again.now_ns() == NOON + 500 * SECOND + 1
    last = journal.last(Kind.TIMELINE)
    assert last is not None
    assert last.recorded_ns == NOON + 500 * SECOND + 1


def test_going_back_to_an_earlier_boots_id_uses_its_offset(journal: Journal, clocks: FakeClocks) -> None:
    # The journal was on another machine in between.
    first = Timeline.start(journal, clocks)
    other = FakeClocks(boot="elsewhere", wall=NOON + 5 * SECOND)
    Timeline.start(journal, other)
    clocks.pass_time(20 * SECOND)
    assert Timeline.start(journal, clocks).anchor == first.anchor


@given(wall=st.integers(0, 2**62), monotonic=st.integers(0, 2**62), last=st.none() | st.integers(0, 2**62))
def test_a_new_anchor_is_the_wall_clock_or_just_after_the_last_record(
    wall: int, monotonic: int, last: int | None
) -> None:
    anchor = choose_anchor(boot_id="b", monotonic_ns=monotonic, wall_ns=wall, of_this_boot=None, last_recorded_ns=last)
    now = monotonic + anchor.offset_ns
    assert now == (wall if last is None or wall > last else last + 1)


def test_an_anchor_of_this_boot_is_kept() -> None:
    anchor = Anchor("b", -17)
    assert choose_anchor(boot_id="b", monotonic_ns=1, wall_ns=2, of_this_boot=anchor, last_recorded_ns=3) is anchor


def test_looking_writes_nothing(tmp_path: Path, journal: Journal, clocks: FakeClocks) -> None:
    started = Timeline.start(journal, clocks)
    with Journal.open(tmp_path / "j.db", read_only=True) as reader:
        assert Timeline.view(reader, clocks).anchor == started.anchor
        clocks.reboot("boot-2", off_ns=0)
        assert Timeline.view(reader, clocks).now_ns() == NOON + 1  # after what is recorded
        assert len(reader) == 1


def test_a_new_journal_is_made_with_its_anchor(tmp_path: Path, clocks: FakeClocks) -> None:
    timeline, anchor = Timeline.first(clocks)
    with Journal.create(tmp_path / "new.db", anchor) as journal:
        clocks.pass_time(SECOND)
        clocks.step_wall(SECOND)
        assert Timeline.start(journal, clocks).anchor == timeline.anchor


def test_two_that_start_at_once_agree(tmp_path: Path) -> None:
    path = tmp_path / "both.db"
    Journal.create(path).close()
    # Each sees a wall clock of its own, as two processes do that read it at different moments.
    barrier = threading.Barrier(6)
    anchors: list[Anchor] = []

    def start(number: int) -> None:
        with Journal.open(path) as journal:
            barrier.wait()
            anchors.append(Timeline.start(journal, FakeClocks(wall=NOON + number)).anchor)

    threads = [threading.Thread(target=start, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(anchors) == 6
    assert len(set(anchors)) == 1
    with Journal.open(path, read_only=True) as journal:
        assert sorted(reasons(journal)) == ["anchor"] + ["run"] * 5


def test_one_that_lost_the_race_takes_the_winners_anchor(
    journal: Journal, clocks: FakeClocks, monkeypatch: pytest.MonkeyPatch
) -> None:
    really_last = journal.last
    winner: list[Timeline] = []

    def last(kind: Kind, source: str | None = None) -> Entry | None:
        if not winner:  # nothing is there when the loser looks; then the winner writes
            winner.append(Timeline(Anchor("boot-1", 1234), clocks))
            journal.append(winner[0]._entry("anchor", sequence=1))
            return None
        return really_last(kind, source)

    monkeypatch.setattr(type(journal), "last", lambda _self, kind, source=None: last(kind, source))
    assert Timeline.start(journal, clocks).anchor == Anchor("boot-1", 1234)
    assert reasons(journal) == ["anchor", "run"]


def test_a_step_of_the_wall_clock_is_noted_once_and_slewing_is_not(journal: Journal, clocks: FakeClocks) -> None:
    timeline = Timeline.start(journal, clocks)
    clocks.pass_time(60 * SECOND)
    clocks.step_wall(50_000_000)
    assert timeline.note_wall_clock(journal) is None
    clocks.step_wall(2 * SECOND)
    assert timeline.note_wall_clock(journal) == 2 * SECOND + 50_000_000
    assert timeline.note_wall_clock(journal) is None
    clocks.step_wall(-2 * SECOND)
    assert timeline.note_wall_clock(journal) == -2 * SECOND
    assert reasons(journal) == ["anchor", "wall-clock", "wall-clock"]


def test_slewing_adds_up_until_it_is_noted(journal: Journal, clocks: FakeClocks) -> None:
    timeline = Timeline.start(journal, clocks)
    noted = []
    for _ in range(10):
        clocks.pass_time(60 * SECOND)
        clocks.step_wall(30_000_000)
        noted.append(timeline.note_wall_clock(journal))
    assert noted == [None, None, None, 120_000_000, None, None, None, 120_000_000, None, None]


def test_the_clock_error_of_a_period_counts_what_was_noted_before_it(journal: Journal, clocks: FakeClocks) -> None:
    assert clock_error(journal, from_ns=0, to_ns=NOON) is None
    timeline = Timeline.start(journal, clocks)
    clocks.pass_time(10 * SECOND)
    clocks.step_wall(3 * SECOND)
    timeline.note_wall_clock(journal)
    clocks.pass_time(10 * SECOND)
    clocks.step_wall(-7 * SECOND)
    timeline.note_wall_clock(journal)

    def between(start: int, end: int) -> tuple[int, int] | None:
        found = clock_error(journal, from_ns=NOON + start * SECOND, to_ns=NOON + end * SECOND)
        return None if found is None else (found.least_ns // SECOND, found.most_ns // SECOND)

    assert between(-10, -5) is None
    assert between(0, 5) == (0, 0)
    assert between(5, 15) == (0, 3)
    assert between(11, 15) == (3, 3)
    assert between(11, 25) == (-4, 3)
    assert between(21, 25) == (-4, -4)


@pytest.mark.parametrize("body", [b"", b"[]", b'{"offset_ns": "x", "monotonic_ns": "1", "wall_ns": "1"}', b"\xff"])
def test_an_entry_that_cannot_be_read_is_named(journal: Journal, clocks: FakeClocks, body: bytes) -> None:
    journal.append(NewEntry(Kind.TIMELINE, "boot-1", 1, body))
    with pytest.raises(EvidenceError, match="leaf 0 is not a timeline entry"):
        Timeline.start(journal, clocks)


def test_this_machines_clocks() -> None:
    clocks = SystemClocks()
    assert len(clocks.boot_id()) == 36
    before = clocks.monotonic_ns()
    assert clocks.wall_ns() > NOON - 10 * 365 * 86_400 * SECOND
    assert clocks.monotonic_ns() >= before


def test_a_machine_without_a_boot_id(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timelines, "BOOT_ID", tmp_path / "none")
    with pytest.raises(OperatorError, match="without it a reboot cannot be told"):
        SystemClocks().boot_id()
