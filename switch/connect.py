"""Connect to a switch: one stack for the process, one reader a switch.

The only module that a collector needs beside :mod:`switch.reader` and :mod:`switch.record`::

    stack = SnmpStack(timeline.now_ns)  # inside the event loop
    reader = connect(stack, "sw1", Endpoint("10.250.0.2"), UserSecurity(...), Device(refresh_ns, framing))
    poll = await reader.read_ports(["eth1", "eth2"])
    await stack.close()
"""

from __future__ import annotations

from switch.channel import AgentChannel
from switch.engine import SnmpStack
from switch.interpret import Device
from switch.reader import SwitchReader
from switch.security import Endpoint, Security, Timing
from switch.snmp import SnmpSwitch

__all__ = ["SnmpStack", "connect"]


def connect(
    stack: SnmpStack, name: str, endpoint: Endpoint, security: Security, device: Device, *, timing: Timing | None = None
) -> SwitchReader:
    """Return a reader of the switch at ``endpoint``. Nothing is sent before its first look."""
    pace = timing or Timing()
    channel = AgentChannel(stack, name, endpoint, security, pace)
    return SnmpSwitch(name, channel, device, stack.now_ns, timing=pace, message_octets=stack.message_octets)
