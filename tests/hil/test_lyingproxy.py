from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from hil.lyingproxy import counters, rewrite

TEXT = """# HELP node_network_transmit_bytes_total Network device statistic transmit_bytes.
# TYPE node_network_transmit_bytes_total counter
node_boot_time_seconds 1.796076058e+09
node_network_receive_bytes_total{device="eth0"} 5000
node_network_receive_bytes_total{device="mgmt0"} 7000
node_network_receive_packets_total{device="eth0"} 50
node_network_transmit_bytes_total{device="eth0"} %s
node_network_transmit_bytes_total{device="mgmt0"} 9e+06
node_network_transmit_drop_total{device="eth0"} 3
node_network_transmit_packets_total{device="eth0"} 1.0006e+04
"""
SENT = "node_network_transmit_bytes_total"


def test_only_the_device_s_counters_are_belittled() -> None:
    base = counters(TEXT % "1e+06", "eth0")
    assert base == {
        "node_network_receive_bytes_total": 5000,
        "node_network_receive_packets_total": 50,
        SENT: 1_000_000,
        "node_network_transmit_packets_total": 10_006,
    }
    lie = rewrite(TEXT % "2.0123456e+07", "eth0", base, 100)
    assert counters(lie, "eth0")[SENT] == 1_000_000 + (20_123_456 - 1_000_000) // 100
    assert counters(lie, "mgmt0") == counters(TEXT % "1", "mgmt0")
    assert 'node_network_transmit_drop_total{device="eth0"} 3\n' in lie
    assert "node_boot_time_seconds 1.796076058e+09\n" in lie
    assert lie.count("\n") == TEXT.count("\n")


def test_a_factor_of_one_is_the_truth() -> None:
    base = counters(TEXT % "1", "eth0")
    assert counters(rewrite(TEXT % "123456789", "eth0", base, 1), "eth0")[SENT] == 123_456_789


@given(st.integers(0, 2**53), st.lists(st.integers(0, 10**12), max_size=20), st.integers(1, 10_000))
def test_the_lie_never_goes_backwards_and_never_exceeds_the_truth(start: int, steps: list[int], factor: int) -> None:
    base = counters(TEXT % start, "eth0")
    true, claimed = start, start
    for step in steps:
        true += step
        claim = counters(rewrite(TEXT % true, "eth0", base, factor), "eth0")[SENT]
        assert claimed <= claim <= true
        claimed = claim
