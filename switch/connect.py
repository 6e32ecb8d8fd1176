"""Connect to switches: one :class:`SnmpClients` for the process, one reader a switch.

The only module that a collector needs beside :mod:`switch.reader` and :mod:`switch.record`::

    clients = SnmpClients(timeline.now_ns)  # inside the event loop
    reader = clients.connect("sw1", Endpoint("192.0.2.2"), UserSecurity(...), Device(refresh_ns, framing))
    poll = await reader.read_ports(["eth1", "eth2"])
    await clients.close()
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from switch.claims import EngineClaims
from switch.exchange import Channel
from switch.interpret import Device
from switch.mib import MESSAGE_OCTETS
from switch.reader import SwitchReader
from switch.security import Client, Endpoint, Security, Timing
from switch.snmp import SnmpSwitch

if TYPE_CHECKING:  # each client is loaded when the first switch is read with it
    from switch.direct import DirectStack
    from switch.engine import SnmpStack

__all__ = ["SnmpClients"]


class SnmpClients:
    """The sockets and engines of a process, made when the first switch needs them."""

    def __init__(self, now_ns: Callable[[], int], *, message_octets: int = MESSAGE_OCTETS) -> None:
        """``now_ns`` is the controller's timeline; ``message_octets`` the largest message, told to every agent."""
        self._now_ns, self._message_octets = now_ns, message_octets
        self._claims = EngineClaims()
        self._pysnmp: SnmpStack | None = None
        self._direct: DirectStack | None = None

    def connect(
        self,
        name: str,
        endpoint: Endpoint,
        security: Security,
        device: Device,
        *,
        client: Client = Client.PYSNMP,
        timing: Timing | None = None,
    ) -> SwitchReader:
        """Return a reader of the switch at ``endpoint``. Nothing is sent before its first look."""
        pace = timing or Timing()
        channel = self.channel(name, endpoint, security, client=client, timing=pace)
        return SnmpSwitch(name, channel, device, self._now_ns, timing=pace, message_octets=self._message_octets)

    def channel(self, name: str, endpoint: Endpoint, security: Security, *, client: Client, timing: Timing) -> Channel:
        """Return what puts questions to the agent at ``endpoint``."""
        if client is Client.DIRECT:
            from switch.direct import DirectChannel, DirectStack  # noqa: PLC0415  see above

            if self._direct is None:
                self._direct = DirectStack(self._now_ns, message_octets=self._message_octets, claims=self._claims)
            return DirectChannel(self._direct, name, endpoint, security, timing)
        from switch.channel import AgentChannel  # noqa: PLC0415  see above
        from switch.engine import SnmpStack  # noqa: PLC0415  see above

        if self._pysnmp is None:
            self._pysnmp = SnmpStack(self._now_ns, message_octets=self._message_octets, claims=self._claims)
        return AgentChannel(self._pysnmp, name, endpoint, security, timing)

    async def close(self) -> None:
        """Close the sockets; readers are dead afterwards."""
        for stack in (self._pysnmp, self._direct):
            if stack is not None:
                await stack.close()
        self._pysnmp = self._direct = None
