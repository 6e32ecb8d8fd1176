"""Epochs as samples come: what is printed at once must agree with what is judged later."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protos.reading import Framing, Missing
from switch.continuity import EpochReason
from switch.epochs import judge
from switch.line import fault_line, sample_line
from switch.ports import PortCounters, PortFault, PortIdentity, PortSample
from switch.watch import EpochWatch

S = 1_000_000_000


def sample(at_s: int, octets: Any, **more: Any) -> PortSample:
    counters = PortCounters(octets, 0, 0, 0, 0, 0)
    counters = replace(counters, unicast_packets=octets if isinstance(octets, Missing) else octets // 1_000)
    values: dict[str, Any] = {
        "if_type": 6,
        "oper_status": 1,
        "high_speed_mbit_per_s": 10_000,
        "sys_uptime_ticks": 50_000 + at_s * 100,
        "engine_boots": 1,
        "engine_time_s": 500 + at_s,
        "discontinuity_ticks": 0,
        "last_change_ticks": 0,
    }
    return PortSample(
        port="e",
        identity=PortIdentity("80", "e", 1),
        first_sent_ns=at_s * S,
        received_ns=at_s * S + 2_000_000,
        refresh_ns=3 * S,
        framing=Framing.L2_WITHOUT_FCS,
        alias="",
        physical_address="",
        switch_in=counters,
        switch_out=counters,
        **(values | more),
    )


def test_a_reset_begins_an_epoch_and_the_next_sample_goes_on_in_it() -> None:
    watch = EpochWatch()
    samples = [sample(0, 9_000_000), sample(5, 1_000), sample(10, 126_000), sample(15, 251_000)]
    epochs = [watch.take(each) for each in samples]
    assert [epoch.number for epoch in epochs] == [0, 1, 1, 1]
    assert epochs[1].reason is EpochReason.COUNTER_DECREASED


def test_after_a_single_garbage_sample_the_epoch_before_goes_on() -> None:
    watch = EpochWatch()
    octets = [1_000_000, 10**18, 2_000_000, 3_000_000]
    assert [watch.take(sample(5 * n, value)).number for n, value in enumerate(octets)] == [0, 1, 0, 0]


@given(st.lists(st.tuples(st.integers(1, 20), st.sampled_from(["on", "on", "on", "reset", "reboot"])), max_size=12))
def test_without_garbage_it_says_what_the_judge_says(steps: list[tuple[int, str]]) -> None:
    at, octets, boots = 0, 50_000_000, 1
    samples = [sample(0, octets)]
    for gap, what in steps:
        at += gap
        octets = octets + gap * 1_000 if what == "on" else 1_000
        boots += what == "reboot"
        samples.append(sample(at, octets, engine_boots=boots))
    watch = EpochWatch()
    seen = [watch.take(each).number for each in samples]
    judged = [entry.epoch for entry in judge(samples).judged]
    if None not in judged:
        assert seen == judged


def test_counters_are_strings_and_what_is_missing_is_named_and_not_null() -> None:
    one = sample(0, 2**53 + 1, high_speed_mbit_per_s=Missing.UNSUPPORTED)
    one = replace(one, switch_out=replace(one.switch_out, octets=Missing.MALFORMED, errors=Missing.TRUNCATED))
    line = sample_line("sw1", 7, one, EpochWatch().take(one))
    assert line["counters"]["in_octets"] == "9007199254740993"
    assert line["missing"] == {
        "out_octets": "malformed",
        "out_errors": "truncated",
        "high_speed_mbit_per_s": "unsupported",
    }
    assert "out_octets" not in line["counters"]
    assert (line["reason"], line["poll"], line["port"], line["oper_status"]) == (None, 7, "e", "up")
    assert int(line["earliest_ns"]) == one.earliest_ns < int(line["latest_ns"])


def test_a_port_that_was_not_read_has_a_reason_and_no_counters() -> None:
    line = fault_line("sw1", 1, PortFault("e", Missing.TIMEOUT, "no answer", 1, 2))
    assert (line["reason"], line["text"], line["counters"], line["epoch"]) == ("timeout", "no answer", {}, None)


@pytest.mark.parametrize("reason", Missing)
def test_every_reason_has_the_word_scripts_know(reason: Missing) -> None:
    assert fault_line("sw1", 1, PortFault("e", reason, "", 1, 2))["reason"] in REASONS
    line = sample_line("sw1", 1, sample(0, reason), EpochWatch().take(sample(0, reason)))
    assert line["missing"]["in_octets"] in REASONS


REASONS = {"absent", "unsupported", "malformed", "truncated", "timeout", "auth"}
