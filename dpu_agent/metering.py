"""What the agent asks of its in-kernel meters: one seam for all ports, with a double that has none."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from dpu_agent.classtable import ClassTableRejectedError, Table
from dpu_agent.counters import PortSample
from protos.v1 import agent_pb2, meter_pb2


class Metering(Protocol):
    """The meters of all ports."""

    @property
    def table(self) -> Table:
        """The class table in force."""

    def read(self, sequence: int, samples: Sequence[PortSample]) -> list[meter_pb2.MeterReading]:
        """Return what each port's meter counted since the last read, for frame ``sequence``.

        ``samples`` are the ports' own counters, read just before.
        """

    def describe(self) -> list[agent_pb2.MeterDescription]:
        """Return what the meters are, or why there are none."""

    def set_table(self, signed: bytes) -> Table:
        """Put a class table in force.

        Raises:
            ClassTableRejectedError: it is not taken.
            OSError: it cannot be stored or loaded.
        """

    def close(self) -> None:
        """Let go of the maps; the programs stay at their hooks and go on counting."""


class NoMetering:
    """The double: an agent without meters."""

    table = Table()

    def read(self, _sequence: int, _samples: Sequence[PortSample]) -> list[meter_pb2.MeterReading]:
        """Nothing."""
        return []

    def describe(self) -> list[agent_pb2.MeterDescription]:
        """Nothing."""
        return []

    def set_table(self, _signed: bytes) -> Table:
        """Refuse it."""
        raise ClassTableRejectedError("this agent has no meters")

    def close(self) -> None:
        """Nothing is held."""
