"""Port totals from hardware counters, behind the same seam as netlink's: which, the configuration says port by port.

==================  ================================================  ==============================================
``ports[].source``  read from                                         layer
==================  ================================================  ==============================================
``netlink``         the kernel's interface statistics                 :data:`dpu_agent.netlink.DESCRIPTION`
``mlx5-phy``        ``ethtool -S``, ``*_phy``                         the wire port, FCS included
``mlx5-vport``      ``ethtool -S``, ``*_vport_*``                     one function, RDMA included
``infiniband``      ``/sys/class/infiniband/.../counters``            RDMA transport
==================  ================================================  ==============================================

A port whose hardware does not give what was asked for is *missing* with the reason why; another source never stands in
for it silently. Who the interface is (its number, its size and speed) still comes from netlink, so a re-created one is
a new epoch here too. The last three are tested on constructed outputs and await hardware.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from dpu_agent.config import PortConfig
from dpu_agent.counters import CounterSource, CounterValues, PortSample, SourceDescription
from dpu_agent.sources import infiniband, mlx5
from protos.reading import Direction, Missing

ETHTOOL_TIMEOUT_S = 2.0
"""It answers in milliseconds; firmware that hangs must not stop the frames of the other ports for longer."""
_SYS_CLASS_NET = Path("/sys/class/net")

_DESCRIPTIONS = {"mlx5-phy": mlx5.WIRE, "mlx5-vport": mlx5.VPORT, "infiniband": infiniband.DESCRIPTION}
_Counted = Mapping[Direction, CounterValues]


def ethtool_statistics(port: str) -> str:
    """Return what ``ethtool -S`` prints.

    Raises:
        OSError: there is no ethtool, or the driver has no statistics.
        subprocess.TimeoutExpired: it does not answer.
    """
    done = subprocess.run(
        ["ethtool", "-S", port], capture_output=True, text=True, timeout=ETHTOOL_TIMEOUT_S, check=False
    )
    if done.returncode:
        raise OSError(done.stderr.strip() or f"ethtool ends with {done.returncode}")
    return done.stdout


class Sources:
    """Reads each port from the source that its configuration names."""

    def __init__(
        self,
        netlink: CounterSource,
        monotonic_ns: Callable[[], int],
        *,
        statistics: Callable[[str], str] = ethtool_statistics,
        sys_class_net: Path = _SYS_CLASS_NET,
    ) -> None:
        """``netlink`` says who the interfaces are, and counts where nothing else is named."""
        self._netlink, self._now_ns = netlink, monotonic_ns
        self._statistics, self._sys_class_net = statistics, sys_class_net

    @property
    def description(self) -> SourceDescription:
        """What the numbers are of ports that name no source."""
        return self._netlink.description

    def read(self, ports: Sequence[PortConfig]) -> list[PortSample]:
        """Return one sample a port, in the order asked."""
        return [
            sample if sample.port.source == "netlink" else self._from_hardware(sample)
            for sample in self._netlink.read(ports)
        ]

    def close(self) -> None:
        """Close netlink's socket."""
        self._netlink.close()

    def _from_hardware(self, sample: PortSample) -> PortSample:
        """Put the hardware's counters in the place of netlink's; what netlink misses is missing here."""
        description = _DESCRIPTIONS[sample.port.source]
        if sample.missing is not None:
            return replace(sample, source=description)
        earliest_ns = max(0, self._now_ns() - sample.port.refresh_ns)
        counters, missing = self._look(sample.port)
        return replace(
            sample,
            source=description,
            earliest_ns=earliest_ns,
            latest_ns=self._now_ns(),
            counters=counters,
            missing=missing,
            ifindex=0 if missing else sample.ifindex,
        )

    def _look(self, port: PortConfig) -> tuple[_Counted, Missing | None]:
        try:
            found = self._infiniband(port) if port.source == "infiniband" else self._mlx5(port)
        except subprocess.TimeoutExpired:
            return {}, Missing.TIMEOUT
        except PermissionError:
            return {}, Missing.DENIED
        except OSError:
            return {}, Missing.UNSUPPORTED
        except ValueError:
            return {}, Missing.MALFORMED
        # Half of a port is no port: a law would take the other half for zero.
        return (found, None) if len(found) == len(Direction) else ({}, Missing.UNSUPPORTED)

    def _mlx5(self, port: PortConfig) -> _Counted:
        counters = mlx5.counters_of(mlx5.parse_ethtool(self._statistics(port.name)), port.role)
        return counters.wire if port.source == "mlx5-phy" else counters.vport

    def _infiniband(self, port: PortConfig) -> _Counted:
        own = self._sys_class_net / port.name
        number = int((own / "dev_port").read_text(encoding="ascii")) + 1
        devices = sorted((own / "device" / "infiniband").iterdir())
        if len(devices) != 1:
            raise FileNotFoundError(f"{port.name} has {len(devices)} InfiniBand devices")
        return infiniband.read_port(devices[0] / "ports" / str(number) / "counters", port.role)
