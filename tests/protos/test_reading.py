from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protos.reading import Framing, Observer, Reading, TrustDomain


@given(st.integers(), st.integers(), st.integers(), st.none() | st.integers(), st.integers())
def test_a_reading_is_a_window_and_values_that_can_be(
    earliest: int, latest: int, value: int, packets: int | None, slack: int
) -> None:
    possible = earliest <= latest and value >= 0 and slack >= 0 and (packets is None or packets >= 0)
    if possible:
        assert Reading(earliest, latest, value, packets, bytes_slack=slack).bytes == value
    else:
        with pytest.raises(ValueError, match=r"is after its latest|cannot be negative"):
            Reading(earliest, latest, value, packets, bytes_slack=slack)


def test_both_ports_of_a_dpu_are_one_trust_domain() -> None:
    assert [observer.trust_domain for observer in Observer] == [
        TrustDomain.HOST,
        TrustDomain.DPU,
        TrustDomain.DPU,
        TrustDomain.SWITCH,
    ]


def test_observers_stand_in_order_from_node_to_switch() -> None:
    assert [observer.value for observer in Observer] == ["host", "dpu.host_port", "dpu.uplink", "switch"]


@pytest.mark.parametrize(
    ("framing", "extra"), [(Framing.L2_WITHOUT_FCS, 0), (Framing.L2_WITH_FCS, 4), (Framing.L1, 24)]
)
def test_bytes_per_frame_over_l2(framing: Framing, extra: int) -> None:
    assert framing.bytes_per_frame_over_l2 == extra
