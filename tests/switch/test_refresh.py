"""The refresh period, learnt from the instants at which counters change."""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from protos.reading import Framing
from switch.ports import PortCounters, PortIdentity, PortSample
from switch.refresh import learn_refresh

S = 1_000_000_000


def sample(at_ns: int, octets: int) -> PortSample:
    counters = PortCounters(octets, 0, 0, 0, 0, 0)
    values: dict[str, Any] = dict.fromkeys(
        (
            "if_type",
            "oper_status",
            "high_speed_mbit_per_s",
            "sys_uptime_ticks",
            "engine_boots",
            "engine_time_s",
            "discontinuity_ticks",
            "last_change_ticks",
        ),
        1,
    )
    return PortSample(
        port="e",
        identity=PortIdentity("", "e", 1),
        first_sent_ns=at_ns,
        received_ns=at_ns + 2_000_000,
        refresh_ns=3 * S,
        framing=Framing.L1,
        alias="",
        physical_address="",
        switch_in=counters,
        switch_out=counters,
        **values,
    )


def test_three_seconds_are_learnt_from_polls_twice_a_second() -> None:
    found = learn_refresh([sample(tick * S // 2, tick // 6) for tick in range(60)])
    assert found.typical_ns is not None
    assert abs(found.typical_ns - 3 * S) < S // 2
    assert found.longest_at_least_ns <= 3 * S
    assert found.shortest_at_most_ns is not None
    assert found.shortest_at_most_ns >= 3 * S


def test_without_two_changes_nothing_is_learnt() -> None:
    for samples in ([], [sample(0, 1)], [sample(0, 1), sample(S, 2)], [sample(n * S, 5) for n in range(9)]):
        found = learn_refresh(samples)
        assert (found.holds, found.typical_ns, found.shortest_at_most_ns) == ((), None, None)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    refresh_ms=st.integers(400, 8_000),
    phase_ms=st.integers(0, 8_000),
    gaps_ms=st.lists(st.integers(50, 900), min_size=20, max_size=120),
)
def test_the_true_period_is_inside_every_hold(refresh_ms: int, phase_ms: int, gaps_ms: list[int]) -> None:
    """Traffic never pauses, so each hold is one or more whole periods; none is shorter than it can have been."""
    at, samples = phase_ms, []
    for gap in gaps_ms:
        at += gap
        # The agent answers somewhere between request and arrival: here in the middle.
        samples.append(sample(at * 1_000_000, (at + 1) // refresh_ms))
    for hold in learn_refresh(samples).holds:
        periods = max(1, round((hold.at_least_ns + hold.at_most_ns) / 2 / (refresh_ms * 1_000_000)))
        assert any(
            hold.at_least_ns <= count * refresh_ms * 1_000_000 <= hold.at_most_ns
            for count in range(max(1, periods - 1), periods + 2)
        )
