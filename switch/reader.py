"""The seam to a switch, whatever it speaks.

``controller/collect`` polls through :class:`SwitchReader` and knows nothing of SNMP. :class:`switch.snmp.SnmpSwitch`
is one reader; :class:`switch.recorded.RecordedSwitch` is the double; a gNMI reader would be another.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from switch.ports import Discovery, Poll


class SwitchReader(Protocol):
    """Reads the ports of one switch. One call at a time: a second one waits for the first."""

    @property
    def name(self) -> str:
        """The switch's name in the site file."""

    async def read_ports(self, names: Sequence[str]) -> Poll:
        """Return a sample or a fault for each of ``names``, in order, within the reader's deadline.

        Nothing a device or a network does is raised: it is a :class:`switch.ports.PortFault` with a typed
        reason and a sentence.
        """

    async def discover(self) -> Discovery:
        """Return every port the device has, read like :meth:`read_ports` reads. Device faults are not raised."""

    async def close(self) -> None:
        """Let go of the device."""
