"""A spare port that is down is shown idle since it went down, also for the time before anybody looked."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from controller.crosscheck.model import Period, PortEvidence
from controller.crosscheck.ports import undeclared, weigh_port
from controller.observations.down import down_since_ns, idle_readings
from protos.reading import Framing, Missing
from switch.epochs import judge
from switch.ports import PortCounters, PortIdentity, PortSample

S = 1_000_000_000
DOWN, UP = 2, 1
UPTIME = 3_600 * 100


def sample(at_s: int, octets: int, **more: Any) -> PortSample:
    """A port of a switch that had been up for an hour at 0 s; down since its start, if not said otherwise."""
    counters = PortCounters(octets, 0, 0, 0, 0, 0)
    values: dict[str, Any] = {
        "oper_status": DOWN,
        "sys_uptime_ticks": UPTIME + at_s * 100,
        "last_change_ticks": 0,
        "high_speed_mbit_per_s": 10_000,
    }
    return PortSample(
        port="eth9",
        identity=PortIdentity("80", "eth9", 9),
        first_sent_ns=at_s * S,
        received_ns=at_s * S + 2_000_000,
        refresh_ns=3 * S,
        framing=Framing.L2_WITHOUT_FCS,
        alias="",
        if_type=6,
        physical_address="",
        engine_boots=1,
        engine_time_s=3_600 + at_s,
        discontinuity_ticks=0,
        switch_in=counters,
        switch_out=counters,
        **(values | more),
    )


def finding(samples: list[PortSample], period: Period) -> str | None:
    history = judge(samples)
    port = PortEvidence(
        "sw1",
        "eth9",
        declared=False,
        operational=samples[-1].operational,
        readings=history.readings(None) + idle_readings(history),
        proven_epochs=history.proven_epochs,
    )
    found = undeclared(weigh_port(port, period))
    return None if found is None else found.text


def test_a_port_that_was_down_before_anybody_looked_is_a_socket_in_the_wall() -> None:
    samples = [sample(at, 4_711) for at in (20, 50, 80)]
    assert finding(samples, Period(1 * S, 70 * S)) is None
    # A switch that does not say since when leaves the time before the first look open.
    silent = [replace(one, last_change_ticks=Missing.ABSENT) for one in samples]
    assert "nor that there were none" in str(finding(silent, Period(1 * S, 70 * S)))


def test_a_port_that_went_down_within_the_period_is_open_before_that() -> None:
    samples = [sample(at, 4_711, last_change_ticks=UPTIME + 10 * 100) for at in (20, 50, 80)]
    assert "nor that there were none" in str(finding(samples, Period(1 * S, 70 * S)))
    assert finding(samples, Period(13 * S, 70 * S)) is None


def test_bytes_that_passed_are_bytes_whatever_the_state_says() -> None:
    samples = [sample(20, 4_711), sample(50, 4_711), sample(80, 9_999)]
    assert "certainly moved at least" in str(finding(samples, Period(1 * S, 85 * S)))


@pytest.mark.parametrize(
    "changed",
    [
        {"oper_status": UP},
        {"oper_status": Missing.ABSENT},
        {"last_change_ticks": Missing.ABSENT},
        {"sys_uptime_ticks": Missing.ABSENT},
    ],
)
def test_only_a_port_that_is_down_and_whose_agent_says_since_when_tells_anything(changed: dict[str, Any]) -> None:
    assert down_since_ns(sample(20, 5, **changed)) is None
    assert idle_readings(judge([sample(20, 5, **changed)])) == ()


def test_the_time_is_not_told_longer_than_it_was() -> None:
    """Clocks 1 % apart, stamps 2 s wide, and an uptime that began again after 497 days."""
    assert down_since_ns(sample(0, 5)) == 2_000_000 - 3_600 * S + 36 * S + 2 * S
    wrapped = sample(0, 5, sys_uptime_ticks=50, last_change_ticks=2**32 - 50)
    assert down_since_ns(wrapped) == 2_000_000 - S + S // 100 + 2 * S
