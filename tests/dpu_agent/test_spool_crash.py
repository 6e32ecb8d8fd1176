"""The agent's memory against power cuts, damage and full disks: nothing shown is lost, nothing lost is hidden."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from dpu_agent import segment
from dpu_agent.memory_disk import MemoryDisk, PowerCutError
from dpu_agent.spool import Spool
from protos.v1 import frame_pb2

if TYPE_CHECKING:
    from tests.dpu_agent.conftest import Agent, Controller


SEGMENT_BYTES = 4096


def _story(agent: Agent, controller: Controller, chance: random.Random, rounds: int) -> None:
    """Record, let the controller take some, acknowledge some of it."""
    for _ in range(rounds):
        agent.tick()
        if chance.random() < 0.6:
            controller.take(agent, chance.randrange(1, 6))
        if chance.random() < 0.5 and controller.newest:
            agent.recorder.acknowledge(chance.randrange(controller.newest + 1))


@pytest.mark.parametrize("seed", range(12))
def test_a_power_cut_at_every_change_loses_nothing_shown(
    seed: int, start_agent: Callable[..., Agent], new_controller: Callable[[], Controller]
) -> None:
    """One run is cut at each of its changes; whatever the disk kept, the controller ends with every frame once."""
    whole = MemoryDisk()
    _story(start_agent(whole), new_controller(), random.Random(seed), 25)
    assert whole.changes > 100

    for cut in range(1 + seed % 3, whole.changes, 3):
        disk, controller = MemoryDisk(), new_controller()
        disk.changes_left = cut
        agent = None
        try:
            agent = start_agent(disk)
            _story(agent, controller, random.Random(seed), 25)
        except PowerCutError:
            pass
        else:
            pytest.fail("the power was not cut")
        clock = agent.clock if agent else None
        again = start_agent(disk.survivor(seed * 1000 + cut), clock=clock)
        shown = dict(controller.journal)
        for sequence, signed in again.recorder.frames_after(0, 1000):
            assert shown.get(sequence, signed) == signed, "a number was used twice"
        again.tick(3)
        controller.take(again)
        controller.check()
        assert controller.said_lost() == set(), "a power cut alone loses nothing"
        assert controller.frame(controller.newest).spool.lost_frames == 0


@pytest.mark.parametrize("seed", range(8))
def test_a_power_cut_at_every_change_of_a_full_spool_hides_nothing(
    seed: int, start_agent: Callable[..., Agent], new_controller: Callable[[], Controller]
) -> None:
    """At the bound the oldest file is written anew: whichever of its two names the disk kept, no frame is mistaken."""
    options = {"max_bytes": 3 * 4096}
    whole = MemoryDisk()
    agent = start_agent(whole, **options)
    started = whole.changes
    agent.tick(60)
    for cut in range(60 + seed, whole.changes - started, 3):
        disk, controller = MemoryDisk(), new_controller()
        agent = start_agent(disk, **options)
        disk.changes_left = cut
        with pytest.raises(PowerCutError):
            agent.tick(60)
        again = start_agent(disk.survivor(seed * 1000 + cut), clock=agent.clock, **options)
        before = dict(again.recorder.frames_after(0, 1000))
        again.tick(2)
        if again.recorder.snapshot()[0].losses:
            # The second made the oldest go: the third says so.
            again.tick()
        controller.take(again)
        controller.check()
        assert all(controller.journal.get(sequence, signed) == signed for sequence, signed in before.items())
        assert not again.recorder.snapshot()[0].losses


def test_truncation_at_every_byte(start_agent: Callable[..., Agent], new_controller: Callable[[], Controller]) -> None:
    """Whatever of the newest segment is cut off, the rest is sent and the cut is recorded as lost."""
    disk = MemoryDisk()
    agent = start_agent(disk)
    agent.tick(13)
    segments = [agent.home / "spool" / name for name in disk.list(agent.home / "spool") if name != "spare.seg"]
    assert len(segments) > 1
    newest = disk.content(segments[-1])
    used = len(newest.rstrip(b"\0"))
    for size in range(used + 1):
        damaged = disk.survivor(0)
        damaged.replace_content(segments[-1], newest[:size])
        again, controller = start_agent(damaged, clock=agent.clock), new_controller()
        left = len(again.frames())
        again.tick(2)
        controller.take(again)
        controller.check()
        assert controller.newest == 15
        assert len(controller.lost()) == 13 - left
        assert controller.frame(15).spool.lost_frames == 13 - left


def test_truncation_of_the_state_at_every_byte(start_agent: Callable[..., Agent], controller: Controller) -> None:
    """One slot is always whole; a state without a whole slot is refused."""
    disk = MemoryDisk()
    agent = start_agent(disk)
    agent.tick(3)
    state = agent.home / "state"
    content = disk.content(state)
    half = len(content) // 2
    for slot in (0, half):
        used = len(content[slot : slot + half].rstrip(b"\0"))
        for at in range(slot, slot + used, 7):
            damaged = disk.survivor(0)
            damaged.replace_content(state, content[:at] + b"\xff" * 7 + content[at + 7 :])
            again = start_agent(damaged, clock=agent.clock)
            assert again.frames() == [1, 2, 3]
            assert again.tick() == 4


@settings(max_examples=150, deadline=None, phases=[phase for phase in Phase if phase is not Phase.shrink])
@given(data=st.data())
def test_any_damage_is_a_recorded_loss_and_never_a_wrong_frame(
    data: st.DataObject, start_agent: Callable[..., Agent], new_controller: Callable[[], Controller]
) -> None:
    disk = MemoryDisk()
    agent = start_agent(disk)
    agent.tick(20)
    written = dict(agent.recorder.frames_after(0, 100))
    assert len(written) == 20
    names = [name for name in disk.list(agent.home / "spool") if name != "spare.seg"]
    damaged = disk.survivor(0)
    while_running = data.draw(st.booleans())
    for _ in range(data.draw(st.integers(1, 3))):
        path = agent.home / "spool" / data.draw(st.sampled_from(names))
        content = bytearray(damaged.content(path))
        at = data.draw(st.integers(0, len(content) - 1))
        junk = data.draw(st.binary(min_size=1, max_size=40))
        content[at : at + len(junk)] = junk
        damaged.replace_content(path, bytes(content[: len(damaged.content(path))]))
        if while_running:
            running = disk._names[path]
            running.data[:] = damaged.content(path)
    again = agent if while_running else start_agent(damaged, clock=agent.clock)
    controller = new_controller()
    controller.take(again)
    again.tick(2)
    controller.take(again)
    controller.check()
    assert controller.newest == 22
    for sequence, signed in controller.journal.items():
        assert written.get(sequence, signed) == signed
    assert controller.frame(22).spool.lost_frames == len(controller.lost())


@pytest.mark.parametrize("at", [20, -segment.RECORD_BYTES], ids=["in the frame", "before it"])
def test_what_a_lost_frame_recorded_as_lost_is_recorded_anew(
    start_agent: Callable[..., Agent], controller: Controller, at: int
) -> None:
    """Damage under a running agent: first to a frame, then to the one that says so, before anyone has read it."""
    disk = MemoryDisk()
    agent = start_agent(disk)

    def damage(sequence: int) -> None:
        [(found, signed)] = agent.recorder.frames_after(sequence - 1, 1)
        assert found == sequence
        for name in disk.list(agent.home / "spool"):
            data = disk._names[agent.home / "spool" / name].data
            if signed in data:
                data[data.index(signed) + at] ^= 1

    agent.tick(5)
    damage(2)
    controller.take(agent)
    agent.tick()
    damage(6)
    agent.tick()
    controller.take(agent)
    agent.tick()
    controller.take(agent)
    assert controller.newest == 8
    controller.check()
    # Behind a damaged header nothing of its file is found; what comes next goes into another one.
    assert controller.lost() == ({2, 6} if at > 0 else {2, 3, 4, 5, 6, 7})


def test_a_wiped_spool_never_reuses_a_number(start_agent: Callable[..., Agent], controller: Controller) -> None:
    disk = MemoryDisk()
    agent = start_agent(disk)
    agent.tick(12)
    controller.take(agent, 5)
    agent.recorder.acknowledge(3)
    agent.tick()
    for name in disk.list(agent.home / "spool"):
        disk.remove(agent.home / "spool" / name)
    again = start_agent(disk, clock=agent.clock)
    assert again.tick() == 14
    controller.take(again)
    controller.check()
    assert controller.lost() == set(range(6, 14))
    assert controller.frame(14).losses == [frame_pb2.Loss(first_sequence=4, last_sequence=13, reason="spool-damaged")]


def test_damage_in_one_frame_costs_one_frame(start_agent: Callable[..., Agent], controller: Controller) -> None:
    disk = MemoryDisk()
    agent = start_agent(disk)
    agent.tick(5)
    path = agent.home / "spool" / f"{1:020d}.seg"
    content = bytearray(disk.content(path))
    (third,) = [signed for sequence, signed in agent.recorder.frames_after(0, 10) if sequence == 3]
    content[content.index(third) + 20] ^= 1
    disk.replace_content(path, bytes(content))
    again = start_agent(disk, clock=agent.clock)
    assert again.frames() == [1, 2, 4, 5]
    again.tick()
    controller.take(again)
    assert controller.lost() == {3}


def test_a_full_disk_loses_the_newest_and_says_so(start_agent: Callable[..., Agent], controller: Controller) -> None:
    disk = MemoryDisk()
    agent = start_agent(disk)
    agent.tick(1)
    stored = disk.changes and sum(len(file.data) for file in disk._names.values())
    disk.capacity = stored
    agent.tick(60)
    figures = agent.recorder.snapshot()[1]
    assert "cannot be stored" in figures.trouble
    assert figures.lost_frames > 20
    kept = agent.frames()
    assert kept == list(range(1, len(kept) + 1)), "what was there before stays"

    again = start_agent(disk.survivor(1), clock=agent.clock)
    assert again.recorder.snapshot()[0].sequence == 61, "numbers are kept on a full disk"
    again.tick(3)
    again.disk.capacity = None  # type: ignore[attr-defined]
    again.tick(1)
    controller.take(again)
    controller.check()
    assert controller.newest == 65
    assert controller.lost() == set(range(len(kept) + 1, 65))
    (loss,) = controller.frame(65).losses
    assert loss.reason == "disk-full"
    again.tick()
    assert again.recorder.snapshot()[1].trouble == ""


def test_with_a_controller_that_keeps_up_a_full_disk_loses_nothing(
    start_agent: Callable[..., Agent], controller: Controller
) -> None:
    disk = MemoryDisk()
    agent = start_agent(disk)
    agent.tick(1)
    disk.capacity = sum(len(file.data) for file in disk._names.values())
    for _ in range(100):
        agent.tick()
        controller.take(agent)
        agent.recorder.acknowledge(controller.newest)
    controller.check()
    assert controller.newest == 101
    assert controller.lost() == set()


@pytest.mark.parametrize("broken", [1, 2, 5])
@pytest.mark.parametrize("seed", range(6))
def test_a_failing_flush_is_a_loss(
    broken: int, seed: int, start_agent: Callable[..., Agent], controller: Controller
) -> None:
    disk = MemoryDisk()
    agent = start_agent(disk)
    agent.tick(4)
    disk.broken_flush = broken
    agent.tick(6)
    disk.broken_flush = 0
    again = start_agent(disk.survivor(seed), clock=agent.clock)
    again.tick(2)
    controller.take(again)
    controller.check()
    assert controller.lost() == controller.said_lost(), "what is said to be lost is not sent later"
    assert controller.lost()
    assert {loss.reason for sequence in controller.journal for loss in controller.frame(sequence).losses} == {
        "disk-error"
    }


def test_a_bad_place_on_the_disk_costs_one_frame(start_agent: Callable[..., Agent], controller: Controller) -> None:
    disk = MemoryDisk()
    agent = start_agent(disk)
    agent.tick(4)
    disk.bad_files = {agent.home / "spool" / f"{1:020d}.seg"}
    agent.tick(20)
    controller.take(agent)
    controller.check()
    assert controller.lost() == {5}


def test_beyond_its_bytes_the_oldest_goes(start_agent: Callable[..., Agent], controller: Controller) -> None:
    disk = MemoryDisk()
    agent = start_agent(disk, max_bytes=8 * 4096)
    controller.take(agent)
    agent.tick(30)
    controller.take(agent, 4)
    agent.recorder.acknowledge(controller.newest)
    agent.tick(170)
    assert agent.recorder.snapshot()[1].bytes <= 8 * 4096
    on_disk = sum(len(disk.content(agent.home / "spool" / name)) for name in disk.list(agent.home / "spool"))
    assert on_disk == agent.recorder.snapshot()[1].bytes
    controller.take(agent)
    controller.check()
    assert controller.newest == 200
    lost = controller.lost()
    assert lost == set(range(5, 5 + len(lost)))
    assert controller.frame(200).spool.lost_frames == len(lost)
    reasons = {loss.reason for sequence in controller.journal for loss in controller.frame(sequence).losses}
    assert reasons == {"spool-full"}


def test_beyond_its_age_the_oldest_goes_and_the_wall_clock_has_no_say(
    start_agent: Callable[..., Agent], controller: Controller
) -> None:
    disk = MemoryDisk()
    agent = start_agent(disk, max_age_s=60)
    agent.tick(30)
    agent.clock.set_wall(agent.clock.wall_ns() + 10**18)
    agent.tick(10)
    assert agent.frames() == list(range(1, 41))
    agent.clock.reboot("another-boot")
    again = start_agent(disk, clock=agent.clock, max_age_s=60)
    again.tick(30)
    assert again.frames()[0] == 1, "time before this boot is not counted"
    again.tick(60)
    oldest = again.frames()[0]
    assert oldest > 41
    controller.take(again)
    controller.check()
    reasons = {loss.reason for sequence in controller.journal for loss in controller.frame(sequence).losses}
    assert reasons == {"spool-age"}


def test_many_threads_of_accidents(start_agent: Callable[..., Agent], new_controller: Callable[[], Controller]) -> None:
    """A long life: cuts, full disks, failing flushes, slow controllers; still every number is there or said lost."""
    for seed in range(25):
        chance = random.Random(seed)
        disk, controller, clock = MemoryDisk(), new_controller(), None
        for _ in range(12):
            disk.changes_left = None
            agent = start_agent(disk, clock=clock, max_bytes=10 * 4096)
            clock = agent.clock
            used = sum(len(file.data) for file in disk._names.values())
            disk.capacity = chance.choice([None, None, used, used + 5000])
            disk.broken_flush = chance.choice([0, 0, 0, 1, 3])
            disk.changes_left = chance.randrange(5, 300)
            try:
                for _ in range(40):
                    agent.tick()
                    if chance.random() < 0.3:
                        controller.take(agent, chance.randrange(1, 9))
                    if chance.random() < 0.3 and controller.newest:
                        agent.recorder.acknowledge(controller.newest)
            except PowerCutError:
                pass
            disk = disk.survivor(seed)
            disk.capacity = None
        agent = start_agent(disk, clock=clock, max_bytes=10 * 4096)
        agent.tick(2)
        controller.take(agent)
        controller.check()


def _spool(disk: MemoryDisk) -> tuple[Spool, list[tuple[int, bytes]]]:
    spool, _ = Spool.open(
        disk, Path("/spool"), max_bytes=1 << 20, acknowledged=0, losses_in=lambda _: [], segment_bytes=SEGMENT_BYTES
    )
    return spool, spool.read_after(0, 100)


def _put(disk: MemoryDisk, name: int, first: int, *sequences: int) -> Path:
    """Write a segment by hand: its name, its header's first sequence, its records."""
    path = Path("/spool") / f"{name:020d}.seg"
    content = segment.encode_header(first)
    for sequence in sequences:
        content += segment.encode_record(sequence, segment.Moment(1, sequence), 0, b"%d" % sequence)
    disk.replace_content(path, content.ljust(SEGMENT_BYTES, b"\0"))
    return path


def test_a_file_begun_anew_whose_new_name_did_not_reach_the_disk_counts_for_nothing() -> None:
    disk = MemoryDisk()
    stale = _put(disk, 1, 9, 9)
    _put(disk, 5, 5, 5, 6)
    _, frames = _spool(disk)
    assert frames == [(5, b"5"), (6, b"6")]
    assert stale.name not in disk.list(stale.parent)


def test_a_segment_holds_nothing_of_the_next_one() -> None:
    disk = MemoryDisk()
    damaged = _put(disk, 1, 1, 1, 2, 7)
    disk.replace_content(damaged, b"X" + disk.content(damaged)[1:])
    _put(disk, 5, 5, 5, 6)
    _, frames = _spool(disk)
    assert [sequence for sequence, _ in frames] == [1, 2, 5, 6]


def test_a_frame_that_should_be_there_and_is_not_does_not_hold_up_the_reader() -> None:
    disk = MemoryDisk()
    _put(disk, 1, 1, 1, 2)
    _put(disk, 5, 5, 5, 6)
    spool, _ = _spool(disk)
    for sequence in (4, 8):
        spool._kept.add(sequence, sequence)
    assert [sequence for sequence, _ in spool.read_after(0, 100)] == [1, 2, 5, 6]
    losses, lost = spool.take_losses()
    assert lost == 2
    assert {number for loss in losses for number in range(loss.first, loss.last + 1)} >= {4, 8}
