"""The token bucket with injected time: exact over every window, from one byte a second to more than 50 GB/s."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import example, given
from hypothesis import strategies as st

from protos.policer import LONGEST_NS, Bucket, Limit, admit
from protos.units import NS_PER_S

RATES = st.one_of(st.sampled_from([100_000, 100_000_000, 50_000_000_000, 1 << 40]), st.integers(1, 1 << 40))
DEPTHS = st.one_of(st.sampled_from([64_000, 150_000_000]), st.integers(0, 1 << 40))
STEPS = st.lists(
    st.tuples(st.one_of(st.integers(0, 1_000), st.integers(0, 10 * NS_PER_S)), st.integers(60, 64_000)),
    min_size=1,
    max_size=40,
)


def run(bucket: Bucket, limits: Sequence[Limit], steps: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return when each frame came and how much of it passed; the limits take turns."""
    found, now_ns = [], bucket.last_ns
    for number, (wait_ns, size) in enumerate(steps):
        now_ns += wait_ns
        after = admit(bucket, limits[number % len(limits)], size, now_ns)
        found.append((now_ns, after.passed_bytes - bucket.passed_bytes))
        assert after.passed_bytes + after.dropped_bytes == bucket.passed_bytes + bucket.dropped_bytes + size
        bucket = after
    return found


def within(found: Sequence[tuple[int, int]], rate: int, depth: int) -> bool:
    """Return whether no window between any two frames holds more than rate times its length and the depth."""
    return all(
        sum(size for _, size in found[first : last + 1]) * NS_PER_S
        <= rate * (found[last][0] - found[first][0]) + depth * NS_PER_S
        for first in range(len(found))
        for last in range(first, len(found))
    )


@given(RATES, DEPTHS, STEPS)
def test_no_window_holds_more_than_rate_times_its_length_and_the_depth(
    rate: int, depth: int, steps: list[tuple[int, int]]
) -> None:
    full = Bucket(rate=rate, tokens=depth)
    assert within(run(full, [Limit(rate, depth)], steps), rate, depth)


@given(st.lists(st.tuples(RATES, DEPTHS), min_size=2, max_size=4), STEPS)
def test_changing_orders_is_no_refill(pairs: list[tuple[int, int]], steps: list[tuple[int, int]]) -> None:
    limits = [Limit(rate, depth) for rate, depth in pairs]
    found = run(Bucket(), limits, steps)
    assert within(found, max(rate for rate, _ in pairs), max(depth for _, depth in pairs))


@given(st.integers(1, 1 << 40), st.lists(st.integers(0, NS_PER_S), min_size=1, max_size=60))
@example(100_000, [9_999] * 50)
@example(1, [1] * 60)
def test_looking_often_loses_no_part_of_a_byte(rate: int, waits: list[int]) -> None:
    depth = 1 << 60
    bucket, limit, now_ns = Bucket(rate=rate), Limit(rate, depth), 0
    for wait_ns in waits:
        now_ns += wait_ns
        bucket = admit(bucket, limit, depth + 1, now_ns)
    assert bucket.tokens * NS_PER_S + bucket.remainder == rate * sum(waits)


def test_a_large_bucket_fills_at_a_small_rate_in_exactly_its_time() -> None:
    rate, depth, step_ns = 100_000, 150_000_000, 333_333_333
    bucket, limit = Bucket(rate=rate), Limit(rate, depth)
    full_ns = depth * NS_PER_S // rate
    for now_ns in range(step_ns, full_ns, step_ns):
        bucket = admit(bucket, limit, depth + 1, now_ns)
    assert admit(bucket, limit, depth, full_ns - 1).passed_bytes == 0
    assert admit(bucket, limit, depth, full_ns).passed_bytes == depth


@given(RATES, DEPTHS, st.integers(0, 1 << 40), STEPS)
def test_after_its_end_and_beyond_its_volume_only_the_floor_passes(
    rate: int, depth: int, volume: int, steps: list[tuple[int, int]]
) -> None:
    bounded = Limit(rate, depth, ceiling_bytes=volume)
    assert sum(size for _, size in run(Bucket(rate=rate, tokens=depth), [bounded], steps)) <= volume
    over = Limit(rate, depth, until_ns=0, floor_rate=1_000, floor_depth=2_000)
    assert within(run(Bucket(rate=rate, tokens=depth), [over], steps), 1_000, 2_000)


def test_a_clock_that_was_read_before_another_frame_gives_no_tokens_and_takes_none() -> None:
    bucket = Bucket(rate=NS_PER_S, tokens=100, last_ns=500)
    assert admit(bucket, Limit(NS_PER_S, 1_000), 100, 400) == Bucket(NS_PER_S, 0, 0, 500, 100)


def test_after_the_longest_time_without_a_frame_a_bucket_is_full() -> None:
    assert admit(Bucket(rate=1), Limit(1, 1 << 50), 1 << 50, LONGEST_NS).passed_bytes == 1 << 50
