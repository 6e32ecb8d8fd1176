"""The kernel's 64-bit interface statistics, over netlink: the totals that every DPU has.

One RTM_GETLINK request a port; the answer names the interface's index, so identity and counters come from the same
message (struct rtnl_link_stats64 in IFLA_STATS64, linux/if_link.h). What the interface *receives* at the host port
left the node, what it *sends* at the uplink left the node: here, and nowhere else, rx and tx become directions.

Drops and errors by direction, from the same struct: received and dropped is ``rx_dropped`` (counted in ``rx_packets``
first) plus ``rx_missed_errors`` (never counted in ``rx_packets``); sent and dropped is ``tx_dropped``, which never
reached ``tx_bytes``.
"""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pyroute2.iproute.linux import AsyncIPRoute
from pyroute2.netlink import NLM_F_REQUEST
from pyroute2.netlink.exceptions import NetlinkError
from pyroute2.netlink.rtnl import RTM_GETLINK

from dpu_agent.config import PortConfig
from dpu_agent.counters import CounterValues, PortSample, SourceDescription
from protos.reading import Direction, Framing, Missing, Observer

# The kernel answers at once; a reply this late was lost (the socket's buffer was full).
REPLY_TIMEOUT_S = 1.0
# Without NLM_F_ACK, which "get" would ask for: the kernel answers a single request with one message anyway, and
# pyroute2 0.9.7 leaves the acknowledgement behind it in a queue that nobody empties, for every request.
_GET_LINK = (RTM_GETLINK, NLM_F_REQUEST)
_BITS_PER_MBIT = 1_000_000
_SYS_CLASS_NET = Path("/sys/class/net")

DESCRIPTION = SourceDescription(
    name="netlink-stats64",
    framing=Framing.L2_WITHOUT_FCS,
    sees=("every frame the interface's driver counts, both directions, since the interface was made",),
    cannot_see=(
        "segmentation-offloaded frames count once, without the headers they get on the wire",
        "VLAN tags that the device inserts or strips",
        "traffic that hardware forwards without the driver counting it (RDMA on some ports)",
        "frames a bridge or filter drops behind the interface",
        "rx_nohandler drops",
    ),
)
_MISSING_BY_ERRNO = {
    errno.ENODEV: Missing.ABSENT,
    errno.EPERM: Missing.DENIED,
    errno.EACCES: Missing.DENIED,
    errno.EOPNOTSUPP: Missing.UNSUPPORTED,
}


class NetlinkCounters:
    """Reads interface statistics; one socket, one event loop of its own, used from one thread."""

    def __init__(self, monotonic_ns: Callable[[], int], sys_class_net: Path = _SYS_CLASS_NET) -> None:
        self._now_ns = monotonic_ns
        self._sys_class_net = sys_class_net
        self._loop = asyncio.new_event_loop()
        self._netlink: Any = None

    @property
    def description(self) -> SourceDescription:
        """What these numbers are."""
        return DESCRIPTION

    def read(self, ports: Sequence[PortConfig]) -> list[PortSample]:
        """Return one sample a port; an interface that is not there is absent."""
        return [self._loop.run_until_complete(self._read(port)) for port in ports]

    def close(self) -> None:
        """Close socket and loop."""
        self._loop.run_until_complete(self._close())
        self._loop.close()

    async def _read(self, port: PortConfig) -> PortSample:
        """Look at one port.

        1. Stamp, ask, stamp: the counters were read by the kernel in between, and are at most ``refresh_ns`` older.
        2. Say why there is no answer, where there is none.
        3. Turn received and sent into directions by the port's role.
        """
        earliest_ns = self._now_ns()
        link, missing = await self._ask(port.name)
        latest_ns = self._now_ns()
        earliest_ns = max(0, earliest_ns - port.refresh_ns)
        stats = link.get_attr("IFLA_STATS64") if link is not None else None
        if link is None or stats is None:
            return PortSample(port, DESCRIPTION, earliest_ns, latest_ns, missing=missing or Missing.UNSUPPORTED)
        return PortSample(
            port=port,
            source=DESCRIPTION,
            earliest_ns=earliest_ns,
            latest_ns=latest_ns,
            ifindex=link["index"],
            counters=by_direction(stats, port.role),
            mtu_bytes=link.get_attr("IFLA_MTU"),
            speed_bytes_per_s=self._speed(port.name),
        )

    async def _ask(self, name: str) -> tuple[Any, Missing | None]:
        try:
            if self._netlink is None:
                self._netlink = AsyncIPRoute()
                await self._netlink.setup_endpoint()
            answer = await asyncio.wait_for(self._netlink.link(_GET_LINK, ifname=name), REPLY_TIMEOUT_S)
        except NetlinkError as error:
            return None, _MISSING_BY_ERRNO.get(error.code, Missing.MALFORMED)
        except (TimeoutError, asyncio.TimeoutError):
            # A late reply on this socket would be taken for the next request's.
            await self._close()
            return None, Missing.TIMEOUT
        except OSError as error:
            await self._close()
            return None, _MISSING_BY_ERRNO.get(error.errno or 0, Missing.TIMEOUT)
        return (answer[0], None) if answer else (None, Missing.MALFORMED)

    async def _close(self) -> None:
        if self._netlink is not None:
            self._netlink.close()
            self._netlink = None
            # The transport closes its socket in the loop's next turn.
            await asyncio.sleep(0)

    def _speed(self, name: str) -> int | None:
        """The link's speed as its driver says; None where it says nothing (-1, or no link)."""
        try:
            mbit_per_s = int((self._sys_class_net / name / "speed").read_text(encoding="ascii"))
        except (OSError, ValueError):
            return None
        return mbit_per_s * _BITS_PER_MBIT // 8 if mbit_per_s > 0 else None


def by_direction(stats: Mapping[str, int], role: Observer) -> dict[Direction, CounterValues]:
    """Return rtnl_link_stats64 as the node's directions, seen from a port of ``role``."""
    received = CounterValues(
        bytes=stats["rx_bytes"],
        packets=stats["rx_packets"],
        dropped_packets=stats["rx_dropped"] + stats["rx_missed_errors"],
        error_packets=stats["rx_errors"],
    )
    sent = CounterValues(
        bytes=stats["tx_bytes"],
        packets=stats["tx_packets"],
        dropped_packets=stats["tx_dropped"],
        error_packets=stats["tx_errors"],
    )
    if role is Observer.DPU_HOST_PORT:
        return {Direction.EGRESS: received, Direction.INGRESS: sent}
    return {Direction.EGRESS: sent, Direction.INGRESS: received}
