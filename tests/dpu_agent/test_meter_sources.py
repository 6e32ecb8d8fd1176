"""Hardware counters on constructed outputs, with the traps they are known for. They await hardware."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpu_agent.counters import CounterValues
from dpu_agent.sources import infiniband, mlx5
from protos.reading import Direction, Observer

HOST, UPLINK = Observer.DPU_HOST_PORT, Observer.DPU_UPLINK
EGRESS, INGRESS = Direction.EGRESS, Direction.INGRESS


def printed(**values: int) -> str:
    return "NIC statistics:\n" + "".join(f"     {name}: {value}\n" for name, value in values.items())


VPORT = {
    f"{word}_vport_{rdma}{kind}_{unit}": number * factor
    for word, factor in (("rx", 1), ("tx", 1_000))
    for number, (rdma, kind) in enumerate(
        [("", "unicast"), ("", "multicast"), ("", "broadcast"), ("rdma_", "unicast"), ("rdma_", "multicast")], 1
    )
    for unit in ("bytes", "packets")
}


def test_rdma_is_in_the_sum_and_a_function_s_words_are_turned_round_at_its_representor() -> None:
    values = mlx5.parse_ethtool(printed(**VPORT))
    found = mlx5.counters_of(values, HOST).vport
    assert found == {INGRESS: CounterValues(15, 15), EGRESS: CounterValues(15_000, 15_000)}
    assert mlx5.counters_of(values, UPLINK).vport == {
        INGRESS: CounterValues(15, 15),
        EGRESS: CounterValues(15_000, 15_000),
    }


@pytest.mark.parametrize("name", [name for name in VPORT if name.endswith("bytes")])
def test_a_sum_with_a_part_missing_is_absent_not_less(name: str) -> None:
    values = {key: value for key, value in VPORT.items() if key != name}
    found = mlx5.counters_of(values, UPLINK).vport
    assert set(found) == {EGRESS if name.startswith("rx") else INGRESS}


def test_the_slow_path_is_kept_apart_and_the_driver_s_own_sum_is_never_used() -> None:
    values = mlx5.parse_ethtool(printed(rx_bytes=10, rx_packets=1, tx_bytes=20, vport_rx_bytes=7, vport_tx_bytes=8))
    found = mlx5.counters_of(values, HOST)
    assert found.slow_path == {EGRESS: CounterValues(10, 1), INGRESS: CounterValues(20, None)}
    assert (found.vport, found.wire) == ({}, {})


def test_the_wire_counts_the_check_sequence_and_says_so() -> None:
    values = mlx5.parse_ethtool(printed(rx_bytes_phy=64, rx_packets_phy=1, rx_discards_phy=3, tx_bytes_phy=128))
    assert mlx5.counters_of(values, UPLINK).wire == {INGRESS: CounterValues(64, 1, 3), EGRESS: CounterValues(128)}
    assert mlx5.WIRE.framing.bytes_per_frame_over_l2 == 4


@pytest.mark.parametrize(
    "text",
    [
        "",
        "no stats available\n",
        "NIC statistics:\n a: -1\n",
        "NIC statistics:\n a: 1\n a: 2\n",
        "NIC statistics:\n a: 1e3\n",
        f"NIC statistics:\n a: {1 << 64}\n",
        "NIC statistics:\n a 5\n",
        "NIC statistics:\n a: \u0661\n",
    ],
)
def test_text_that_is_not_ethtool_s_is_refused(text: str) -> None:
    with pytest.raises(mlx5.CounterTextError):
        mlx5.parse_ethtool(text)


@given(st.text(max_size=200))
def test_any_text_is_counters_or_refused(text: str) -> None:
    try:
        found = mlx5.parse_ethtool("NIC statistics:\n" + text)
    except mlx5.CounterTextError:
        return
    assert all(0 <= value < 1 << 64 for value in found.values())


def test_infiniband_counts_words_of_four_bytes(tmp_path: Path) -> None:
    for name, value in (
        ("port_rcv_data", 10),
        ("port_xmit_data", 20),
        ("port_xmit_packets", 3),
        ("port_xmit_discards", 1),
    ):
        (tmp_path / name).write_text(f"{value}\n")
    assert infiniband.read_port(tmp_path, UPLINK) == {INGRESS: CounterValues(40), EGRESS: CounterValues(80, 3, 1)}
    assert infiniband.read_port(tmp_path, HOST) == {EGRESS: CounterValues(40), INGRESS: CounterValues(80, 3, 1)}
    assert infiniband.read_port(tmp_path / "gone", UPLINK) == {}


@pytest.mark.parametrize("text", [str((1 << 32) - 1), "", "-5", "N/A (no PMA)", "0x10", str(1 << 64), "\u0661"])
def test_a_stuck_or_unreadable_counter_is_absent(text: str) -> None:
    assert infiniband.parse_port({"port_rcv_data": text}, UPLINK) == {}
