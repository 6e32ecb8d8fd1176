"""Counter epochs: every fault of the field that would turn into a number if it were not seen."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from protos.reading import Direction, Framing, Missing
from switch.continuity import EpochReason, Plausibility
from switch.epochs import Loss, PortHistory, judge, readings
from switch.ports import PortCounters, PortIdentity, PortSample

S = 1_000_000_000
relaxed = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])


def sample(
    at_s: float,
    in_octets: int | Missing = 0,
    *,
    packets: int | Missing | None = None,
    out_octets: int = 0,
    out_packets: int = 0,
    uptime: int | Missing | None = None,
    boots: int | Missing = 7,
    engine_time: int | Missing = Missing.UNSUPPORTED,
    discontinuity: int = 0,
    if_index: int = 5,
    address: str = "020000000001",
    oper_status: int = 1,
    speed: int | Missing = 10_000,
    framing: Framing = Framing.L2_WITHOUT_FCS,
    errors: int = 0,
) -> PortSample:
    """A sample taken at ``at_s`` of a device that has been up for 1,000 s more than that."""
    at_ns = int(at_s * S)
    if packets is None:
        packets = in_octets // 1_000 if isinstance(in_octets, int) else 0
    return PortSample(
        port="eth5",
        identity=PortIdentity("8000", "eth5", if_index),
        first_sent_ns=at_ns,
        received_ns=at_ns + 1_000_000,
        refresh_ns=3 * S,
        framing=framing,
        alias="",
        if_type=6,
        physical_address=address,
        oper_status=oper_status,
        high_speed_mbit_per_s=speed,
        sys_uptime_ticks=uptime if uptime is not None else int((at_s + 1_000) * 100) % 2**32,
        engine_boots=boots,
        engine_time_s=engine_time,
        discontinuity_ticks=discontinuity,
        last_change_ticks=0,
        switch_in=PortCounters(in_octets, packets, 0, 0, 0, errors),
        switch_out=PortCounters(out_octets, out_packets, 0, 0, 0, 0),
    )


def epochs_of(history: PortHistory) -> list[tuple[int, EpochReason]]:
    return [(epoch.number, epoch.reason) for epoch in history.epochs]


def test_steady_counters_are_one_proven_epoch() -> None:
    history = judge([sample(t, t * 1_000_000) for t in range(5)])
    assert epochs_of(history) == [(0, EpochReason.FIRST)]
    assert history.proven_epochs == {0}
    assert [reading.bytes for reading in history.readings(Direction.EGRESS)] == [t * 1_000_000 for t in range(5)]


def test_a_reading_is_as_old_as_the_refresh_period_and_not_older() -> None:
    (reading,) = readings([sample(10, 5)], Direction.EGRESS)
    assert (reading.earliest_ns, reading.latest_ns) == (7 * S, 10 * S + 1_000_000)


def test_switch_in_is_egress_and_switch_out_is_ingress() -> None:
    one = sample(0, 111, out_octets=222)
    assert [r.bytes for r in readings([one], Direction.EGRESS)] == [111]
    assert [r.bytes for r in readings([one], Direction.INGRESS)] == [222]
    assert [r.bytes for r in readings([one], None)] == [333]


# --- case 1


def test_64_bit_reset_taken_for_a_wrap() -> None:
    before = sample(0, 81_234_567_890_123, uptime=912_345_600)
    after = sample(60, 120_034, uptime=4_211)
    history = judge([before, after])
    assert epochs_of(history) == [(0, EpochReason.FIRST), (1, EpochReason.REBOOT)]
    assert [(r.epoch, r.bytes) for r in history.readings(Direction.EGRESS)] == [(0, 81_234_567_890_123), (1, 120_034)]
    assert history.epoch_reasons[1].startswith("reboot: sysUpTime 912345600 -> 4211")


# --- case 2


def test_baseline_is_re_seeded_after_a_reset() -> None:
    values = [9_000_000_000_000, 1_000, 126_000, 251_000]
    history = judge([sample(5 * n, value) for n, value in enumerate(values)])
    got = history.readings(Direction.EGRESS)
    assert [r.epoch for r in got] == [0, 1, 1, 1]
    assert [later.bytes - earlier.bytes for earlier, later in itertools.pairwise(got[1:])] == [125_000] * 2


# --- case 3


def test_line_card_reset_while_sysuptime_keeps_running_spares_the_other_ports() -> None:
    reset = judge([sample(0, 0, out_octets=7 * 10**12, out_packets=10**9), sample(60, 0, out_octets=4_096)])
    assert epochs_of(reset)[1] == (1, EpochReason.COUNTER_DECREASED)
    spared = judge(
        [sample(0, 5 * 10**12, packets=10**9), sample(60, 5 * 10**12 + 3 * 10**9, packets=10**9 + 3 * 10**6)]
    )
    assert epochs_of(spared) == [(0, EpochReason.FIRST)]


# --- case 4


def test_discontinuity_time_of_zero_proves_nothing() -> None:
    history = judge([sample(0, 900_000, discontinuity=0), sample(10, 120_000, discontinuity=0)])
    assert epochs_of(history)[1] == (1, EpochReason.COUNTER_DECREASED)


def test_discontinuity_time_that_changed_ends_the_epoch_though_counters_rose() -> None:
    history = judge([sample(0, 900_000), sample(10, 950_000, discontinuity=1_234)])
    assert epochs_of(history)[1] == (1, EpochReason.DISCONTINUITY)


# --- case 6


def test_agent_cache_sawtooth_gives_true_intervals() -> None:
    """1 GB/s, refreshed every 3 s, polled every 2 s: every reading's claim holds, none says that nothing passed."""
    rate = 10**9
    got = judge([sample(t, t // 3 * 3 * rate, packets=t // 3 * 3 * 10**6) for t in range(0, 14, 2)]).readings(
        Direction.EGRESS
    )
    assert len({r.epoch for r in got}) == 1
    for reading in got:
        assert reading.earliest_ns * rate // S <= reading.bytes <= reading.latest_ns * rate // S


# --- case 7


def test_unseen_reset_of_net_snmp_adds_two_to_the_32() -> None:
    before = sample(0, 0, out_octets=151_400_586, out_packets=100_007)
    after = sample(3, 0, out_octets=4_296_481_722, out_packets=4_294_968_303)
    history = judge([before, after, sample(4, 0, out_octets=4_296_482_722, out_packets=4_294_968_304)])
    assert epochs_of(history)[1] == (1, EpochReason.IMPLAUSIBLE_FRAMES)
    assert [r.epoch for r in history.readings(Direction.INGRESS)] == [0, 1, 1]


def test_frozen_counter_that_catches_up_leaves_no_stale_reading() -> None:
    """The counter stood still at 20 GB while 40 GB passed: the readings in between claim what is not true."""
    frozen = [sample(t, 20 * 10**9, packets=20 * 10**6) for t in (10, 11, 12, 13)]
    jump = sample(14, 60 * 10**9, packets=60 * 10**6)
    history = judge([sample(9, 19 * 10**9, packets=19 * 10**6), *frozen, jump])
    assert epochs_of(history)[1] == (1, EpochReason.IMPLAUSIBLE_RATE)
    assert [entry.sample for entry in history.rejected] == frozen[1:]
    assert [r.bytes for r in history.readings(Direction.EGRESS)] == [19 * 10**9, 20 * 10**9, 60 * 10**9]


# --- case 8


def test_ifindex_renumbered_is_another_row() -> None:
    history = judge([sample(0, 1_000_000), sample(1, 2_000_000, if_index=6)])
    assert epochs_of(history)[1] == (1, EpochReason.BINDING_CHANGED)


def test_interface_recreated_under_its_old_index_shows_by_its_hardware_address() -> None:
    history = judge([sample(0, 1_000), sample(1, 2_000, address="020000000002")])
    assert epochs_of(history)[1] == (1, EpochReason.BINDING_CHANGED)


# --- case 16


def test_engine_boots_change_is_restart_evidence() -> None:
    history = judge([sample(0, 1_000, boots=7), sample(1, 2_000, boots=8)])
    assert epochs_of(history)[1] == (1, EpochReason.ENGINE_RESTARTED)


def test_engine_time_that_went_back_is_restart_evidence() -> None:
    history = judge([sample(0, 1_000, engine_time=400_000), sample(1, 2_000, engine_time=35)])
    assert epochs_of(history)[1] == (1, EpochReason.ENGINE_RESTARTED)


# --- case 17


def test_sysuptime_wraps_after_497_days() -> None:
    before = sample(0, 9 * 10**12, packets=9 * 10**9, uptime=4_294_966_000)
    after = sample(60, 9 * 10**12 + 3 * 10**9, packets=9 * 10**9 + 3 * 10**6, uptime=4_704)
    assert epochs_of(judge([before, after])) == [(0, EpochReason.FIRST)]
    assert judge([before, after]).proven_epochs == {0}


def test_sysuptime_that_goes_back_by_a_reboot_is_no_wrap() -> None:
    before = sample(0, 9 * 10**12, packets=9 * 10**9, uptime=4_294_966_000)
    after = sample(60, 2_000_000, uptime=900)
    assert epochs_of(judge([before, after]))[1] == (1, EpochReason.REBOOT)


def test_reboot_in_a_long_gap_shows_though_uptime_and_counters_are_higher() -> None:
    before = sample(0, 1_000, uptime=1_000)
    after = sample(86_400, 5_000, uptime=50_000)
    assert epochs_of(judge([before, after]))[1] == (1, EpochReason.REBOOT)


def test_uptime_a_few_ticks_back_is_jitter_and_no_reboot() -> None:
    """Two answers milliseconds apart; the agent stamped the later one with the earlier time."""
    history = judge([sample(0, 1_000, uptime=1_000), sample(0.01, 1_000, uptime=995)])
    assert epochs_of(history) == [(0, EpochReason.FIRST)]


def test_uptime_that_runs_ahead_is_no_evidence() -> None:
    history = judge([sample(0, 1_000, uptime=100), sample(10, 5_000, uptime=900_000)])
    assert epochs_of(history)[1] == (1, EpochReason.UPTIME_INCONSISTENT)


def test_a_gap_longer_than_half_of_sysuptime_leaves_the_epoch_unproven() -> None:
    history = judge([sample(0, 1_000), sample(260 * 86_400, 5_000)])
    assert history.proven_epochs == frozenset()


# --- case 27


def test_first_sample_is_only_a_baseline() -> None:
    (reading,) = readings([sample(0, 2**63)], Direction.EGRESS)
    assert reading.epoch == 0


# --- garbage


@pytest.mark.parametrize("garbage", [3, 2**63, 10**17])
def test_single_garbage_sample_is_set_aside(garbage: int) -> None:
    base = 10**12
    values = [base, base + 10**6, garbage, base + 3 * 10**6, base + 4 * 10**6]
    history = judge([sample(t, value, packets=10**9 + t * 1_000) for t, value in enumerate(values)])
    assert epochs_of(history) == [(0, EpochReason.FIRST)]
    assert [entry.sample.switch_in.octets for entry in history.rejected] == [garbage]
    assert [r.bytes for r in history.readings(Direction.EGRESS)] == [v for v in values if v != garbage]


def test_two_garbage_samples_are_not_explained_away() -> None:
    base = 10**12
    values = [base, 3, 4, base + 3 * 10**6]
    history = judge([sample(t, value, packets=10**9 + t * 1_000) for t, value in enumerate(values)])
    assert len(history.epochs) > 1


def test_a_fast_port_that_was_reset_is_never_taken_for_garbage() -> None:
    """The next sample continues both; a decrease is never explained away by a later rise."""
    values = [1_000_000, 10_000, 900_000_000]
    history = judge([sample(t, value) for t, value in enumerate(values)])
    assert [r.epoch for r in history.readings(Direction.EGRESS)] == [0, 1, 1]


def test_all_ones_is_no_value() -> None:
    history = judge([sample(0, 10), sample(1, Missing.MALFORMED), sample(2, 30)])
    assert [r.bytes for r in history.readings(Direction.EGRESS)] == [10, 30]
    assert len(history.epochs) == 1


# --- what is lacking


@pytest.mark.parametrize(
    ("lacking", "what"),
    [
        ({"uptime": Missing.UNSUPPORTED}, "no sysUpTime"),
        ({"boots": Missing.UNSUPPORTED}, "no snmpEngineBoots"),
        ({"speed": 0, "packets": Missing.UNSUPPORTED}, "neither a line rate nor packet counters"),
    ],
)
def test_an_epoch_without_evidence_is_not_proven(lacking: dict[str, int | Missing], what: str) -> None:
    history = judge([sample(0, 10), sample(1, 20, **lacking)])  # type: ignore[arg-type]  # keywords of one helper
    assert history.proven_epochs == frozenset()
    assert what in history.epochs[0].lacking[0]


def test_a_speed_that_does_not_exist_is_not_believed() -> None:
    """Case 23: ifHighSpeed in bit/s would allow any step."""
    jump = [sample(0, 0, speed=100_000_000), sample(1, 10**12, packets=10**9, speed=100_000_000)]
    assert len(judge(jump).epochs) == 1  # frames are plausible and no speed is known
    assert len(judge(jump, Plausibility(line_rate_bytes_per_s=1_250_000_000)).epochs) == 2


def test_the_declared_largest_frame_is_used() -> None:
    steps = [sample(0, 0, packets=0), sample(1, 10**9, packets=100_000)]
    assert len(judge(steps).epochs) == 1
    assert len(judge(steps, Plausibility(largest_frame_bytes=1_514)).epochs) == 2


def test_hardware_without_broadcast_counter_has_no_packet_sum() -> None:
    one = sample(0, 10, framing=Framing.L2_WITH_FCS)
    part = replace(one, switch_in=replace(one.switch_in, broadcast_packets=Missing.UNSUPPORTED))
    (reading,) = readings([part], Direction.EGRESS)
    assert reading.packets is None
    assert part.switch_in.missing_packets == ("broadcast",)
    linux = replace(part, framing=Framing.L2_WITHOUT_FCS)
    assert readings([linux], Direction.EGRESS)[0].packets == 0


def test_lost_packets_go_on_over_the_wrap_of_their_32_bits() -> None:
    history = judge([sample(0, 0, errors=2**32 - 10), sample(1, 0, errors=5)])
    assert [r.bytes for r in history.packets_lost(Direction.EGRESS, Loss.ERRORS)] == [2**32 - 10, 2**32 + 5]
    assert len(history.epochs) == 1


def test_errors_that_went_back_end_the_epoch() -> None:
    assert len(judge([sample(0, 0, errors=1_000), sample(1, 0, errors=3)]).epochs) == 2


def test_the_same_sample_twice_counts_once() -> None:
    one = sample(0, 10)
    assert len(readings([one, one, sample(1, 20)], Direction.EGRESS)) == 2


# --- never a wrong claim


@relaxed
@given(
    refresh_ms=st.integers(1_000, 60_000),
    jitter=st.lists(st.integers(0, 900), min_size=80, max_size=80),
    steps=st.lists(st.integers(200, 9_000), min_size=4, max_size=40),
    rates=st.lists(st.integers(0, 1_250_000), min_size=80, max_size=80),
)
def test_sample_and_hold_at_any_phase_never_claims_what_is_not_true(
    refresh_ms: int, jitter: list[int], steps: list[int], rates: list[int]
) -> None:
    """A device that copies its counters every ``refresh_ms`` at most, polled at any phase."""
    refreshes: list[tuple[int, int]] = []  # (when in ms, counter then)
    at = total = 0
    truth: list[tuple[int, int]] = [(0, 0)]
    for early, rate in zip(jitter, rates, strict=True):
        refreshes.append((at, total))
        span = max(1, refresh_ms - early)
        at += span
        total += rate * span
        truth.append((at, total))

    def true_at(ms: int) -> int:
        for (t0, v0), (t1, v1) in itertools.pairwise(truth):
            if t0 <= ms <= t1:
                return v0 + (v1 - v0) * (ms - t0) // (t1 - t0)
        return truth[-1][1] if ms > 0 else 0

    clock, samples = 0, []
    for step in steps:
        clock += step
        if clock >= at:
            break
        held = max((entry for entry in refreshes if entry[0] <= clock), key=lambda entry: entry[0])[1]
        one = sample(clock / 1_000, held, packets=held // 500)
        samples.append(replace(one, refresh_ns=refresh_ms * 1_000_000))
    for reading in judge(samples).readings(Direction.EGRESS):
        assert true_at(reading.earliest_ns // 1_000_000) <= reading.bytes <= true_at(-(-reading.latest_ns // 1_000_000))


@relaxed
@given(st.lists(st.integers(0, 2**64 - 1), max_size=30))
def test_within_an_epoch_no_counter_ever_decreases(values: list[int]) -> None:
    history = judge([sample(t, value) for t, value in enumerate(values)])
    got = history.readings(Direction.EGRESS)
    for earlier, later in itertools.pairwise(got):
        assert later.epoch > earlier.epoch or (later.epoch == earlier.epoch and later.bytes >= earlier.bytes)
    assert set(history.epoch_reasons) == {epoch.number for epoch in history.epochs} - {0}
