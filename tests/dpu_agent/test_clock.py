from __future__ import annotations

import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpu_agent.clock import ManualClock, Stamp, Sync, SystemClock, wall_step_ns
from dpu_agent.errors import StateError


def test_the_offset_is_on_both_monotonic_clocks_and_not_on_the_wall(tmp_path: Path) -> None:
    (tmp_path / "boot_id").write_text("4fa8\n")
    offset = 10**15
    clock = SystemClock(offset, tmp_path / "boot_id")
    before, wall = time.monotonic_ns(), time.time_ns()
    stamp = clock.stamp()
    after, wall_after = time.monotonic_ns(), time.time_ns()
    assert before + offset <= stamp.monotonic_ns <= clock.monotonic_ns() <= time.monotonic_ns() + offset
    assert stamp.monotonic_ns <= after + offset
    assert stamp.monotonic_raw_ns > offset
    assert wall <= stamp.wall_ns <= wall_after
    assert stamp.boot_id == clock.boot_id


def test_a_clock_with_another_offset_is_another_boot(tmp_path: Path) -> None:
    """Within a boot no clock jumps; whoever compares readings takes one that does for a broken clock."""
    (tmp_path / "boot_id").write_text("4fa8\n")
    assert SystemClock(0, tmp_path / "boot_id").boot_id == "4fa8"
    names = [SystemClock(offset, tmp_path / "boot_id").boot_id for offset in (0, 1, 1, 2)]
    assert names[1] == names[2]
    assert len(set(names)) == 3


def test_without_a_boot_id_there_is_no_agent(tmp_path: Path) -> None:
    with pytest.raises(StateError, match="needs /proc"):
        SystemClock(0, tmp_path / "none")
    (tmp_path / "empty").write_text("\n")
    with pytest.raises(StateError, match="is empty"):
        SystemClock(0, tmp_path / "empty")


def test_this_machine_has_one() -> None:
    assert len(SystemClock().boot_id) == 36


def test_this_machines_kernel_says_whether_its_clock_is_kept() -> None:
    stamp = SystemClock().stamp()
    assert stamp.sync is not Sync.UNKNOWN
    assert (stamp.max_error_us is None) == (stamp.sync is Sync.UNSYNCHRONISED)
    assert stamp.within_ns > 0


@given(
    true_steps=st.lists(st.integers(-(10**13), 10**13), min_size=1, max_size=6),
    apart=st.lists(st.tuples(st.integers(0, 10**9), st.integers(0, 10**9)), min_size=7, max_size=7),
)
def test_a_step_is_told_with_no_more_than_it_was(true_steps: list[int], apart: list[tuple[int, int]]) -> None:
    """However long the machine pauses between reading one clock and the other."""
    wall_ahead, now, before = 10**18, 10**12, None
    for step, (until_wall, until_end) in zip([0, *true_steps], apart, strict=False):
        wall_ahead, now = wall_ahead + step, now + 10**9
        stamp = Stamp("b", now, now, now + until_wall + wall_ahead, until_wall + until_end)
        told = wall_step_ns(before, stamp)
        if before is not None:
            assert 0 <= told * (1 if step > 0 else -1) <= abs(step)
            assert abs(told) >= abs(step) - before.within_ns - stamp.within_ns
        before = stamp


def test_another_boot_is_no_step() -> None:
    clock = ManualClock(wall_ns=10**18)
    first = clock.stamp()
    clock.set_wall(10**18 - 5)
    assert wall_step_ns(first, clock.stamp()) == -5
    clock.reboot("b")
    assert wall_step_ns(first, clock.stamp()) == 0
    assert wall_step_ns(None, clock.stamp()) == 0


def test_the_double_moves_as_told() -> None:
    clock = ManualClock(5, 7)
    clock.advance(3)
    assert (clock.monotonic_ns(), clock.wall_ns()) == (8, 10)
    clock.set_wall(1)
    clock.reboot("b", 2)
    assert (clock.stamp().boot_id, clock.stamp().monotonic_ns, clock.stamp().wall_ns) == ("b", 2, 1)
