"""The UDP socket under pysnmp's engine: stamps datagrams, survives any of them, keeps monotonic time.

Three things that pysnmp's own transport does not do, each the reason for an override:

- the controller's timeline is read just before a datagram is sent and just after one was read;
- a datagram that trips the engine is counted and dropped; it does not reach the event loop as an exception;
- engine timers run on monotonic time. pysnmp ticks on the wall clock, which stops every timeout for an hour
  when the wall clock is set back by one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pysnmp.carrier.asyncio.dgram.udp import UdpAsyncioTransport
from pysnmp.carrier.asyncio.dgram.udp6 import Udp6AsyncioTransport
from pysnmp.carrier.asyncio.dispatch import AsyncioDispatcher
from pysnmp.carrier.error import CarrierError


class MonotonicDispatcher(AsyncioDispatcher):  # type: ignore[misc]  # untyped library
    """pysnmp's dispatcher on the event loop's clock."""

    async def handle_timeout(self) -> None:
        """Tick until cancelled."""
        try:
            while True:
                await asyncio.sleep(self.get_timer_resolution())
                self.handle_timer_tick(self.loop.time())
        except asyncio.CancelledError:
            return


@dataclass(frozen=True, slots=True)
class Arrival:
    """One datagram: its bytes, when it was read, and from where."""

    datagram: bytes
    received_ns: int
    sender: tuple[str, int]


class _Stamping:
    """Mixed into pysnmp's transports, IPv4 and IPv6."""

    now_ns: Callable[[], int]
    arrival: Arrival | None = None
    sent_ns: int = 0
    send_error: OSError | None = None
    on_trouble: Callable[[Arrival, str], None]
    on_arrival: Callable[[Arrival], None]

    def datagram_received(self, datagram: bytes, address: Any) -> None:
        """Stamp, hand to the engine at once, and let nothing escape."""
        arrival = Arrival(bytes(datagram), self.now_ns(), (str(address[0]), int(address[1])))
        self.arrival = arrival
        self.on_arrival(arrival)
        try:
            self._callback_function(self, address, arrival.datagram)  # type: ignore[attr-defined]
        except Exception as error:  # noqa: BLE001  # whatever a stranger's datagram provokes in the decoder
            self.on_trouble(arrival, f"{type(error).__name__}: {error}")
        finally:
            self.arrival = None

    def error_received(self, error: OSError) -> None:
        """Remember why the kernel refused to send, for :meth:`send_message`."""
        self.send_error = error

    def send_message(self, message: bytes, address: Any) -> None:
        """Stamp and send.

        Raises:
            CarrierError: the kernel refused (no route, no permission).
        """
        self.send_error = None
        self.sent_ns = self.now_ns()
        super().send_message(message, address)  # type: ignore[misc]
        if self.send_error is not None:
            raise CarrierError(f"{self.send_error}") from self.send_error

    async def ready(self) -> None:
        """Wait until the socket is open.

        Raises:
            OSError: it cannot be opened.
        """
        await self._lport  # type: ignore[attr-defined]


class StampingUdp(_Stamping, UdpAsyncioTransport):  # type: ignore[misc]  # untyped library
    """UDP over IPv4."""

    PROTO_TRANSPORT_DISPATCHER = MonotonicDispatcher


class StampingUdp6(_Stamping, Udp6AsyncioTransport):  # type: ignore[misc]  # untyped library
    """UDP over IPv6."""

    PROTO_TRANSPORT_DISPATCHER = MonotonicDispatcher
