"""Playing traffic: a stretch of sending is what single frames would have passed, and the clock is the planner's."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.planner import player
from controller.planner.marks import PlanError
from controller.planner.player import Job, Way, play
from controller.planner.volume import NodeBytes
from protos.lease import most_bytes
from protos.policer import Bucket, Limit, admit
from protos.units import NS_PER_S


def frame_by_frame(rate: int, depth: int, frame: int, size: int) -> tuple[int, int]:
    """Return when the last of ``size`` bytes passed a full bucket, sent frame by frame as early as each can."""
    limit, bucket = Limit(rate, depth), Bucket(rate=rate, tokens=depth)
    now_ns = 0
    while size:
        now = min(frame, size)
        lacking = now * NS_PER_S - bucket.tokens * NS_PER_S - bucket.remainder
        now_ns = max(now_ns, bucket.last_ns + max(0, -(-lacking // rate)))
        bucket = admit(bucket, limit, now, now_ns)
        size -= now
    return now_ns, bucket.passed_bytes


@settings(max_examples=50)
@given(st.integers(1_000, 10**8), st.integers(3_200, 10**6), st.integers(200, 1_600), st.integers(1, 3_000_000))
def test_a_stretch_is_what_single_frames_pass(rate: int, depth: int, frame: int, size: int) -> None:
    size = min(size, 200 * frame)
    way = Way(rate, depth)
    end_ns = way.offer(size, 0)
    way.pass_until(end_ns)
    single_ns, passed = frame_by_frame(rate, depth, frame, size)
    assert way.passed_bytes[-1] == passed == size
    assert end_ns == single_ns


@settings(max_examples=50)
@given(
    st.integers(1_000, 10**8),
    st.integers(1, 10**6),
    st.lists(st.tuples(st.integers(1, 10**7), st.integers(0, 10**11)), max_size=20),
)
def test_no_window_holds_more_than_the_bucket_allows(rate: int, depth: int, offers: list[tuple[int, int]]) -> None:
    way, now_ns = Way(rate, depth), 0
    for size, pause_ns in offers:
        way.offer(size, now_ns)
        now_ns += pause_ns
        way.pass_until(now_ns)
    marks = list(zip(way.times_ns, way.passed_bytes, strict=True))
    for at, (from_ns, before) in enumerate(marks):
        for to_ns, after in marks[at:]:
            assert after - before <= most_bytes(rate, depth, to_ns - from_ns) + 1


def test_what_has_passed_stays_passed_while_nothing_waits() -> None:
    way = Way(1_000_000, 64_000)
    done_ns = way.offer(2_064_000, 0)
    way.pass_until(100 * NS_PER_S)
    assert done_ns == 2 * NS_PER_S
    assert (way.times_ns[-2:], way.passed_bytes[-2:]) == ([done_ns, 100 * NS_PER_S], [2_064_000, 2_064_000])
    # Rested, the bucket is full and no fuller.
    assert way.offer(1_064_000, 100 * NS_PER_S) == 101 * NS_PER_S


def job(*, overlapped: bool, up: int = 10**8, compute_s: int = 40, parts: int = 1, depth: int = 64_000) -> Job:
    return Job(NodeBytes(Fraction(up), Fraction(up)), Fraction(compute_s), parts, overlapped, 10**6, depth)


@pytest.mark.parametrize("parts", [1, 4])
def test_rounds_last_as_planned(parts: int) -> None:
    for overlapped, expected in ((True, 100.0), (False, 140.0)):
        played = play(job(overlapped=overlapped, parts=parts), least_ns=0, least_rounds=20, factor=lambda: 1.0)
        assert played.rounds >= 20
        assert played.seconds_a_round == pytest.approx(expected, rel=0.005)


def test_what_fits_between_is_not_slowed() -> None:
    played = play(job(overlapped=True, up=10**7), least_ns=0, least_rounds=5, factor=lambda: 1.0)
    assert played.seconds_a_round == pytest.approx(40)


def test_what_would_never_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(player, "MOST_PIECES", 100)
    small = Job(NodeBytes(Fraction(1), Fraction(1)), Fraction(1, 1000), 1, True, 10**6, 64_000)
    with pytest.raises(PlanError, match="more than 100 transfers"):
        play(small, least_ns=10**15, least_rounds=1, factor=lambda: 1.0)
