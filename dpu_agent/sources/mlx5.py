"""mlx5 counters by layer, from ``ethtool -S``.

Tested on constructed outputs; they await a BlueField. What each counter is, and the trap in it
(Documentation/networking/device_drivers/ethernet/mellanox/mlx5/counters.rst):

- ``rx_bytes_phy``, ``tx_bytes_phy``: the wire port, Ethernet header and FCS included, every function of the card
  together, encapsulation and the card's own frames too. Layer :data:`WIRE`.
- ``*_vport_unicast_bytes`` and its fellows leave RDMA out: the sum is over Ethernet *and* RDMA, unicast, multicast and
  broadcast. A driver without the RDMA names counts less than the port carries; the sum is then not given. Layer
  :data:`VPORT`.
- ``vport_rx_bytes`` and ``vport_tx_bytes``, which newer drivers give on representors, are such sums made by the driver;
  as merged, its bytes leave out what is sent as multicast while its packets do not. Never used for bytes.
- ``rx_bytes`` and ``tx_bytes`` on a representor are what the Arm cores handled, the slow path; they stand still when
  flows are offloaded. Layer :data:`SLOW_PATH`, kept apart and never a port's total.
- ``IFLA_OFFLOAD_XSTATS_CPU_HIT`` (``ip stats show ... subgroup cpu_hit``), the software part of a representor's total,
  is the kernel's: the meter's audit reads it (:mod:`dpu_agent.meter.hooks`).

Absent stays absent: a name that is not there gives None, never 0.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from dpu_agent.counters import CounterValues, SourceDescription
from protos.reading import Direction, Framing, Observer

_LINE = re.compile(r"\s*(?P<name>[A-Za-z0-9_.\[\]-]+):\s*(?P<value>[0-9]+)\s*", re.ASCII)
_MOST = (1 << 64) - 1
_KINDS = ("unicast", "multicast", "broadcast")

WIRE = SourceDescription(
    name="mlx5-phy",
    framing=Framing.L2_WITH_FCS,
    sees=("every frame on the wire port, of every function, RDMA included",),
    cannot_see=("which function a frame belongs to", "traffic between two functions of the card"),
)
VPORT = SourceDescription(
    name="mlx5-vport",
    framing=Framing.L2_WITHOUT_FCS,
    sees=("every frame of one function, offloaded or not, RDMA included",),
    cannot_see=("other functions of the card", "values newer than the driver's last background refresh"),
)
SLOW_PATH = SourceDescription(
    name="mlx5-slow-path",
    framing=Framing.L2_WITHOUT_FCS,
    sees=("frames that the Arm cores handled",),
    cannot_see=("offloaded flows, so it is no port's total",),
)


class CounterTextError(ValueError):
    """Text that is not what the tool prints."""


@dataclass(frozen=True, slots=True)
class Mlx5Counters:
    """One look, in the node's directions; a layer that the driver does not give is empty."""

    wire: Mapping[Direction, CounterValues]
    vport: Mapping[Direction, CounterValues]
    slow_path: Mapping[Direction, CounterValues]


def parse_ethtool(text: str) -> dict[str, int]:
    """Return the counters that ``ethtool -S`` prints, by name.

    Raises:
        CounterTextError: it is not that, a name stands twice, or a number is beyond 64 bits.
    """
    lines = text.splitlines()
    if not lines or lines[0].strip() != "NIC statistics:":
        raise CounterTextError("the text does not begin with 'NIC statistics:'; is it from `ethtool -S`?")
    found: dict[str, int] = {}
    for line in lines[1:]:
        if not line.strip():
            continue
        match = _LINE.fullmatch(line)
        if match is None or len(match["value"]) > 20:
            raise CounterTextError(f"{line.strip()[:80]!r} is not a counter and its number")
        name, value = match["name"], int(match["value"])
        if name in found or value > _MOST:
            raise CounterTextError(f"counter {name!r} stands twice, or is beyond 64 bits")
        found[name] = value
    return found


def counters_of(values: Mapping[str, int], role: Observer) -> Mlx5Counters:
    """Return the counters by layer and direction, seen from a port of ``role``.

    What a host port receives, and what an uplink sends, left the node. A representor's vport counters are the
    *function's*: what the function sends, the representor receives; so they are turned round on a host port.
    """
    host_port = role is Observer.DPU_HOST_PORT
    received, sent = (Direction.EGRESS, Direction.INGRESS) if host_port else (Direction.INGRESS, Direction.EGRESS)
    function_received, function_sent = (sent, received) if host_port else (received, sent)
    wire: dict[Direction, CounterValues] = {}
    slow: dict[Direction, CounterValues] = {}
    vport: dict[Direction, CounterValues] = {}
    for word, direction, function in (("rx", received, function_received), ("tx", sent, function_sent)):
        octets = values.get(f"{word}_bytes_phy")
        if octets is not None:
            wire[direction] = CounterValues(
                octets, values.get(f"{word}_packets_phy"), values.get(f"{word}_discards_phy")
            )
        octets = values.get(f"{word}_bytes")
        if octets is not None:
            slow[direction] = CounterValues(octets, values.get(f"{word}_packets"))
        octets = _vport_sum(values, word, "bytes")
        if octets is not None:
            vport[function] = CounterValues(octets, _vport_sum(values, word, "packets"))
    return Mlx5Counters(wire, vport, slow)


def _vport_sum(values: Mapping[str, int], word: str, unit: str) -> int | None:
    """All classes of a function, or None where one is not told: without RDMA it would be less than was carried."""
    names = [f"{word}_vport_{kind}_{unit}" for kind in _KINDS]
    names += [f"{word}_vport_rdma_{kind}_{unit}" for kind in _KINDS if kind != "broadcast"]
    parts = [values.get(name) for name in names]
    known = [part for part in parts if part is not None]
    return sum(known) if len(known) == len(parts) else None
