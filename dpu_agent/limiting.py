"""What the agent asks of its limits: one seam for leases and limiters, with a double that limits nothing."""

from __future__ import annotations

from typing import Protocol

from dpu_agent.leasechecks import LeaseRefusedError, Refused
from protos.v1 import lease_pb2


class Limiting(Protocol):
    """Leases in, what is in force out."""

    def apply(self, signed: bytes) -> None:
        """Put a lease in force.

        Raises:
            LeaseRefusedError: it is not taken; nothing changed.
        """

    def revoke(self, signed: bytes) -> None:
        """End leases before their time.

        Raises:
            LeaseRefusedError: the revocation is not taken; nothing changed.
        """

    def read(self) -> lease_pb2.LimitsReading:
        """Return what is in force and what passed, for a frame: with the buckets of time since the last call."""

    def describe(self) -> lease_pb2.LimitsReading:
        """Return what is in force and what passed in all."""

    def close(self) -> None:
        """Let go; the limits stay in force."""


class NoLimiting:
    """An agent that limits nothing, and says so: because it was told to, or because it cannot (``why``)."""

    def __init__(self, backend: str = "none", why: str = "") -> None:
        self._backend, self._why = backend, why

    def apply(self, _signed: bytes) -> None:
        """Refuse it."""
        raise self._refusal()

    def revoke(self, _signed: bytes) -> None:
        """Refuse it."""
        raise self._refusal()

    def read(self) -> lease_pb2.LimitsReading:
        """Say so."""
        return lease_pb2.LimitsReading(backend=self._backend, unavailable=self._why)

    describe = read

    def close(self) -> None:
        """Nothing is held."""

    def _refusal(self) -> LeaseRefusedError:
        why = self._why or "its configuration says so"
        return LeaseRefusedError(Refused.NOT_ENFORCED, f"this agent limits nothing: {why}")
