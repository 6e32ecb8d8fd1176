"""Hardware counters behind the seam: one source a port, no stand-in, every reason told."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from dpu_agent.config import PortConfig
from dpu_agent.counters import CounterValues, MemoryCounters, PortSample
from dpu_agent.sources import infiniband, mlx5
from dpu_agent.sources.hardware import Sources, ethtool_statistics
from protos.reading import Direction, Missing, Observer

EGRESS, INGRESS = Direction.EGRESS, Direction.INGRESS
PHY = "NIC statistics:\n rx_bytes_phy: 640\n rx_packets_phy: 10\n tx_bytes_phy: 128\n tx_packets_phy: 2\n"
SLOW = "NIC statistics:\n rx_bytes: 64\n rx_packets: 1\n tx_bytes: 128\n tx_packets: 2\n"


def fails(error: Exception) -> Callable[[str], str]:
    def statistics(_port: str) -> str:
        raise error

    return statistics


def look(source: str, statistics: Callable[[str], str], net: Path = Path("/nowhere"), **port: int) -> PortSample:
    ticks = iter(range(1_000, 9_000, 1_000))
    kernel = MemoryCounters(lambda: next(ticks))
    kernel.set("p0", 7, CounterValues(1), CounterValues(2))
    sources = Sources(kernel, lambda: next(ticks), statistics=statistics, sys_class_net=net)
    [sample] = sources.read([PortConfig("p0", Observer.DPU_UPLINK, port.get("refresh_ns", 0), source)])
    return sample


def test_a_port_that_names_no_source_is_netlinks() -> None:
    sample = look("netlink", fails(AssertionError("not asked")))
    assert sample.counters == {EGRESS: CounterValues(1), INGRESS: CounterValues(2)}


def test_the_wires_counters_take_the_place_of_netlinks_with_their_own_layer_and_time() -> None:
    sample = look("mlx5-phy", lambda _: PHY, refresh_ns=1_500)
    assert sample.counters == {INGRESS: CounterValues(640, 10), EGRESS: CounterValues(128, 2)}
    assert (sample.source, sample.ifindex, sample.missing) == (mlx5.WIRE, 7, None)
    assert (sample.earliest_ns, sample.latest_ns) == (500, 3_000), "from the look itself, less the refresh period"


@pytest.mark.parametrize(
    ("statistics", "missing"),
    [
        (lambda _: SLOW, Missing.UNSUPPORTED),  # a representor's slow path is not its total
        (lambda _: PHY.replace(" tx_bytes_phy: 128\n", ""), Missing.UNSUPPORTED),
        (lambda _: "no stats available\n", Missing.MALFORMED),
        (fails(FileNotFoundError("ethtool")), Missing.UNSUPPORTED),
        (fails(PermissionError("ethtool")), Missing.DENIED),
        (fails(subprocess.TimeoutExpired("ethtool", 2)), Missing.TIMEOUT),
    ],
)
def test_nothing_stands_in_for_what_is_not_there(statistics: Callable[[str], str], missing: Missing) -> None:
    sample = look("mlx5-phy", statistics)
    assert (sample.missing, sample.counters, sample.ifindex, sample.source) == (missing, {}, 0, mlx5.WIRE)


def test_without_rdma_names_a_function_has_no_sum() -> None:
    names = [f"{word}_vport_{kind}_bytes" for word in ("rx", "tx") for kind in ("unicast", "multicast", "broadcast")]
    text = "NIC statistics:\n" + "".join(f" {name}: 5\n" for name in names)
    assert look("mlx5-vport", lambda _: text).missing is Missing.UNSUPPORTED
    text += "".join(f" {w}_vport_rdma_{kind}_bytes: 1000\n" for w in ("rx", "tx") for kind in ("unicast", "multicast"))
    sample = look("mlx5-vport", lambda _: text)
    assert sample.counters == {INGRESS: CounterValues(2015), EGRESS: CounterValues(2015)}


def test_an_interface_that_is_not_there_is_absent_whatever_the_card_says() -> None:
    kernel = MemoryCounters(lambda: 1)
    sources = Sources(kernel, lambda: 1, statistics=lambda _: PHY)
    [sample] = sources.read([PortConfig("p0", Observer.DPU_UPLINK, 0, "mlx5-phy")])
    assert (sample.missing, sample.source) == (Missing.ABSENT, mlx5.WIRE)


def test_infiniband_of_the_interfaces_own_device_and_port(tmp_path: Path) -> None:
    counters = tmp_path / "p0" / "device" / "infiniband" / "mlx5_0" / "ports" / "2" / "counters"
    counters.mkdir(parents=True)
    (tmp_path / "p0" / "dev_port").write_text("1\n")
    (counters / "port_rcv_data").write_text("10\n")
    (counters / "port_xmit_data").write_text("7\n")
    sample = look("infiniband", fails(AssertionError("not asked")), tmp_path)
    assert sample.counters == {INGRESS: CounterValues(40), EGRESS: CounterValues(28)}
    assert sample.source == infiniband.DESCRIPTION
    (counters / "port_rcv_data").write_text(f"{2**32 - 1}\n")
    assert look("infiniband", fails(AssertionError()), tmp_path).missing is Missing.UNSUPPORTED, "stuck is no value"
    (tmp_path / "p0" / "device" / "infiniband" / "mlx5_1").mkdir()
    assert look("infiniband", fails(AssertionError()), tmp_path).missing is Missing.UNSUPPORTED, "which of the two?"


@pytest.mark.rig
def test_a_real_interface_without_such_counters_says_unsupported() -> None:
    sample = look("mlx5-phy", lambda _: ethtool_statistics("lo"))
    assert sample.missing is Missing.UNSUPPORTED
