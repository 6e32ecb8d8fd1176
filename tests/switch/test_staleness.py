"""Whether a declared refresh period is kept: proven only with a neighbour who saw bytes pass."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protos.reading import Direction, Framing, Reading
from switch.epochs import PortHistory, judge
from switch.ports import PortCounters, PortIdentity, PortSample
from switch.staleness import could_be_stale, stale_holds

S = 1_000_000_000
MS = 1_000_000
DECLARED = 3 * S


def history(polled_ns: Sequence[int], copied_ns: Sequence[int], rate: int) -> PortHistory:
    """What a device says that serves at each poll its last copy of a counter rising ``rate`` bytes a millisecond."""
    samples = []
    for at in polled_ns:
        copy = max(copied for copied in copied_ns if copied <= at + MS)
        octets = copy // MS * rate
        values: dict[str, Any] = dict.fromkeys(("if_type", "oper_status", "engine_boots", "last_change_ticks"), 1)
        values |= {"high_speed_mbit_per_s": 10_000, "discontinuity_ticks": 0}
        ticks = at // 10_000_000
        counters = PortCounters(octets, octets // 1_000, 0, 0, 0, 0)
        samples.append(
            PortSample(
                port="e",
                identity=PortIdentity("80", "e", 1),
                first_sent_ns=at,
                received_ns=at + 2 * MS,
                refresh_ns=DECLARED,
                framing=Framing.L2_WITHOUT_FCS,
                alias="",
                physical_address="",
                sys_uptime_ticks=ticks,
                engine_time_s=ticks // 100,
                switch_in=counters,
                switch_out=counters,
                **values,
            )
        )
    return judge(samples)


def neighbour(seconds: int, rate: int) -> list[Reading]:
    """The DPU's readings of the same bytes, five a second."""
    return [Reading(at, at + MS, at // MS * rate) for at in range(0, seconds * S, S // 5)]


def every(period_ns: int, seconds: int) -> list[int]:
    return list(range(-period_ns, seconds * S, period_ns))


def test_twelve_seconds_are_seen_where_three_are_declared() -> None:
    port = history(range(100 * MS, 60 * S, S), every(12 * S, 60), 100)
    holds = stale_holds(port, Direction.EGRESS, neighbour(60, 100), 3_000)
    assert len(holds) == 3  # the first and the last have no change on both sides
    for hold in holds:
        assert DECLARED < hold.age_at_least_ns <= 12 * S <= hold.age_at_most_ns <= 14 * S
        assert hold.bytes_unseen > 0


def test_a_device_that_keeps_its_period_is_never_called_stale() -> None:
    port = history(range(100 * MS, 60 * S, S), every(3 * S - 10 * MS, 60), 100)
    assert stale_holds(port, Direction.EGRESS, neighbour(60, 100), 0) == []


def test_an_idle_port_is_not_stale_however_long_it_stands_still() -> None:
    polled = [*range(S, 20 * S, S), *range(40 * S, 60 * S, S)]
    port = history(polled, [0, 5 * S, 50 * S], 100)
    idle = [Reading(at, at + MS, min(at, 5 * S) // MS * 100) for at in range(0, 40 * S, S // 5)]
    idle += [Reading(at, at + MS, 5_000 * 100 + (at - 49 * S) // MS * 100) for at in range(50 * S, 60 * S, S // 5)]
    assert could_be_stale(port, Direction.EGRESS)
    assert stale_holds(port, Direction.EGRESS, idle, 1_000) == []


def test_a_neighbour_whose_bytes_never_came_is_a_broken_law_and_not_staleness() -> None:
    port = history(range(100 * MS, 60 * S, S), every(12 * S, 60), 1)
    assert stale_holds(port, Direction.EGRESS, neighbour(60, 1_000), 3_000) == []


def test_without_readings_of_the_neighbour_nothing_is_said() -> None:
    port = history(range(100 * MS, 60 * S, S), every(12 * S, 60), 100)
    assert stale_holds(port, Direction.EGRESS, [], 0) == []


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32), refresh_ms=st.integers(300, 20_000), polls_ms=st.integers(200, 3_000))
def test_ages_hold_the_truth_and_who_keeps_the_period_is_left_alone(seed: int, refresh_ms: int, polls_ms: int) -> None:
    generator = random.Random(seed)
    copied, at = [-20 * S], 0
    while at < 60 * S:
        copied.append(at)
        at += int(refresh_ms * MS * generator.uniform(0.7, 1.0))
    polled = sorted(generator.randrange(60 * S) for _ in range(60_000 // polls_ms))
    port = history(polled, copied, 100)
    holds = stale_holds(port, Direction.EGRESS, neighbour(60, 100), 2_000)
    if refresh_ms * MS <= DECLARED:
        assert holds == []
    for hold in holds:
        copy = max(time for time in copied if time <= hold.to_ns + MS)
        assert hold.age_at_least_ns <= hold.to_ns - copy + 2 * MS <= hold.age_at_most_ns + 2 * MS


@pytest.mark.parametrize("direction", list(Direction))
def test_both_directions_are_held_to_it(direction: Direction) -> None:
    port = history(range(100 * MS, 60 * S, S), every(12 * S, 60), 100)
    assert len(stale_holds(port, direction, neighbour(60, 100), 3_000)) == 3
