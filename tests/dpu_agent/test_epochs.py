from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpu_agent.config import PortConfig
from dpu_agent.counters import CounterValues, PortSample, SourceDescription
from dpu_agent.epochs import PortKey, PortState, advance, after_readings
from protos.reading import Direction, Framing, Missing, Observer
from protos.wire import encode_port_reading, port_reading

_PORT = PortConfig("p0", Observer.DPU_UPLINK)
_SOURCE = SourceDescription("netlink", Framing.L2_WITHOUT_FCS, (), ())


def _sample(
    egress: CounterValues | None = None,
    ingress: CounterValues | None = None,
    *,
    ifindex: int = 3,
    port: PortConfig = _PORT,
    source: SourceDescription = _SOURCE,
) -> PortSample:
    counters = {
        Direction.EGRESS: egress or CounterValues(100, 10, 1, 0),
        Direction.INGRESS: ingress or CounterValues(200, 20, 0, 0),
    }
    return PortSample(port, source, 5, 6, ifindex, counters)


def _gone(missing: Missing = Missing.ABSENT) -> PortSample:
    return PortSample(_PORT, _SOURCE, 5, 6, missing=missing)


def _epochs(*steps: tuple[str, PortSample]) -> list[tuple[int, str]]:
    """The epoch and reason of each sample, each taken under a boot id."""
    states: dict[PortKey, PortState] = {}
    found = []
    for boot_id, sample in steps:
        states, (reading,) = advance(states, boot_id, [sample])
        found.append((reading.epoch, reading.epoch_reason))
    return found


def test_an_epoch_goes_on_while_nothing_speaks_against_it() -> None:
    assert (
        _epochs(("b", _sample()), ("b", _sample()), ("b", _sample(CounterValues(101, 10, 1, 0))))
        == [(1, "first-reading")] * 3
    )


@pytest.mark.parametrize(
    ("then", "reason"),
    [
        (("c", _sample()), "boot"),
        (("c", _sample(ifindex=9)), "boot"),
        (("b", _sample(ifindex=9)), "interface-recreated"),
        (("b", _sample(CounterValues(99, 10, 1, 0))), "counter-decreased"),
        (("b", _sample(CounterValues(100, 9, 1, 0))), "counter-decreased"),
        (("b", _sample(CounterValues(100, 10, 0, 0))), "counter-decreased"),
        (("b", _sample(ingress=CounterValues(199, 20, 0, 0))), "counter-decreased"),
        (("b", _sample(port=PortConfig("p0", Observer.DPU_HOST_PORT))), "configuration-changed"),
        (("b", _sample(source=replace(_SOURCE, framing=Framing.L2_WITH_FCS))), "configuration-changed"),
    ],
)
def test_what_ends_an_epoch(then: tuple[str, PortSample], reason: str) -> None:
    assert _epochs(("b", _sample()), then, then) == [(1, "first-reading"), (2, reason), (2, reason)]


def test_an_interface_that_was_gone_is_another_one() -> None:
    assert _epochs(("b", _sample()), ("b", _gone()), ("b", _gone(Missing.TIMEOUT)), ("b", _sample())) == [
        (1, "first-reading"),
        (1, "first-reading"),
        (1, "first-reading"),
        (2, "interface-recreated"),
    ]


def test_a_look_that_failed_otherwise_is_no_evidence() -> None:
    for missing in set(Missing) - {Missing.ABSENT}:
        assert _epochs(("b", _sample()), ("b", _gone(missing)), ("b", _sample()))[-1] == (1, "first-reading")


def test_a_port_never_read_has_no_epoch_yet() -> None:
    assert _epochs(("b", _gone()), ("b", _sample())) == [(0, ""), (1, "first-reading")]


def test_another_source_of_the_same_port_counts_its_own_epochs() -> None:
    states, _ = advance({}, "b", [_sample()])
    states, readings = advance(states, "b", [_sample(source=replace(_SOURCE, name="meter")), _sample(ifindex=4)])
    assert [(reading.source, reading.epoch) for reading in readings] == [("meter", 1), ("netlink", 2)]


def test_a_port_taken_out_of_the_configuration_never_uses_a_number_again() -> None:
    states, _ = advance({}, "b", [_sample()])
    states, _ = advance(states, "b", [])
    states, (reading,) = advance(states, "c", [_sample()])
    assert (reading.epoch, reading.epoch_reason) == (2, "boot")


def test_a_counter_the_source_stopped_giving_is_no_decrease() -> None:
    assert _epochs(("b", _sample()), ("b", _sample(CounterValues(100))))[-1] == (1, "first-reading")


_VALUES = st.builds(
    CounterValues,
    st.integers(0, 5),
    st.none() | st.integers(0, 5),
    st.none() | st.integers(0, 2),
    st.none() | st.integers(0, 2),
)
_SAMPLES = st.builds(lambda e, i, n: _sample(e, i, ifindex=n), _VALUES, _VALUES, st.integers(1, 2)) | st.sampled_from(
    Missing
).map(_gone)


@given(st.lists(st.tuples(st.sampled_from("bc"), _SAMPLES), max_size=12))
def test_epochs_only_rise_and_hold_only_rising_counters(steps: list[tuple[str, PortSample]]) -> None:
    """Within an epoch: one boot, one interface, never gone, nothing decreases. The frame alone gives the state back."""
    states: dict[PortKey, PortState] = {}
    before: tuple[str, PortSample, int] | None = None
    gone = False
    for boot_id, sample in steps:
        from_frame = states
        states, (reading,) = advance(states, boot_id, [sample])
        received = port_reading(encode_port_reading(reading))
        assert after_readings(from_frame, boot_id, [received]) == states
        if sample.missing:
            gone = gone or sample.missing is Missing.ABSENT
            continue
        if before is not None:
            boot, last, epoch = before
            same = (
                boot == boot_id
                and not gone
                and last.ifindex == sample.ifindex
                and not any(sample.counters[d].decreased_from(last.counters[d]) for d in Direction)
            )
            assert reading.epoch == epoch + (0 if same else 1)
        before, gone = (boot_id, sample, reading.epoch), False
