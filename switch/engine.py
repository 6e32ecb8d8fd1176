"""pysnmp's SNMP engine, one for every device of a process, with the two timers that must not run.

pysnmp forgets what it knows of a peer 300 s after it *learnt* it, however often it was confirmed since: from the
sixth minute on every poll would be refused as not in time window and sent again, and every engine id would be
discovered anew. Here knowledge of a peer lasts until a channel says that it is wrong.

The engine is used at its RFC 3412 interface (``send_pdu``), not at the level of its command generators: those
retry by themselves, hide which transmission was answered, and go on after a timeout.
"""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Callable
from typing import Any, Protocol

from pysnmp.entity import config
from pysnmp.entity.engine import SnmpEngine
from pysnmp.proto import rfc1902
from pysnmp.proto.mpmod.rfc2576 import SnmpV2cMessageProcessingModel
from pysnmp.proto.mpmod.rfc3412 import SnmpV3MessageProcessingModel
from pysnmp.proto.secmod.rfc3414 import service
from pysnmp.proto.secmod.rfc3414.service import SnmpUSMSecurityModel

from switch.claims import EngineClaims
from switch.mib import MESSAGE_OCTETS
from switch.opaque import OpaqueV2cMessage, OpaqueV3Message
from switch.security import Authentication, InsecureCommunity, Privacy, UserSecurity
from switch.transport import Arrival, StampingUdp, StampingUdp6

_TIMER_RESOLUTION_S = 0.5  # housekeeping only; our timeouts are the event loop's

_AUTHENTICATION = {
    Authentication.SHA256: config.USM_AUTH_HMAC192_SHA256,
    Authentication.SHA384: config.USM_AUTH_HMAC256_SHA384,
    Authentication.SHA512: config.USM_AUTH_HMAC384_SHA512,
}
_PRIVACY = {
    Privacy.AES128: config.USM_PRIV_CFB128_AES,
    Privacy.AES256: config.USM_PRIV_CFB256_AES_BLUMENTHAL,
}


class MonotonicSeconds:
    """Stands in for the module ``time`` where pysnmp reckons a peer's engine time.

    On the wall clock, a step of more than 150 s of the controller's own clock would make answers look late or replayed.
    """

    @staticmethod
    def time() -> float:
        """Return seconds that only pass."""
        return time.monotonic()


service.time = MonotonicSeconds


class _LastingTimeline(SnmpUSMSecurityModel):  # type: ignore[misc]  # untyped library
    """USM that keeps a peer's boots and time until a newer message, or a channel, says otherwise."""

    def receive_timer_tick(self, engine: Any, now: Any) -> None:  # noqa: ARG002  # the library's signature
        """Drop the expiry list that every message adds to, and expire nothing."""
        self._SnmpUSMSecurityModel__timelineExpQueue.clear()

    def forget(self, engine_id: bytes) -> None:
        """Forget an engine's boots and time: one whose clock stands still leaves the time window after 150 s."""
        timeline = self._SnmpUSMSecurityModel__timeline
        for known in [known for known in timeline if bytes(known) == engine_id]:
            del timeline[known]


class _LastingPeers(SnmpV3MessageProcessingModel):  # type: ignore[misc]  # untyped library
    """Message processing that keeps a peer's engine id until told that it is wrong, and leaves bindings as octets."""

    SNMP_MSG_SPEC = OpaqueV3Message

    def __init__(self, timeline: _LastingTimeline) -> None:
        super().__init__()
        self._timeline = timeline

    def receive_timer_tick(self, engine: Any, now: Any) -> None:  # noqa: ARG002  # the library's signature
        """Expire pending messages only."""
        self._cache.expire_caches()

    def forget(self, domain: tuple[int, ...], address: Any) -> None:
        """Forget a peer's engine id, boots and time, so that the next message to it discovers them.

        What the peer answers still has to bear the random id of a question of ours, encrypted: no older answer passes.
        """
        known = self._SnmpV3MessageProcessingModel__engineIdCache.pop((domain, address), None)
        if known is not None:
            self._timeline.forget(bytes(known["securityEngineId"]))
        self._SnmpV3MessageProcessingModel__engineIdCacheExpQueue.clear()


class _OpaqueV2c(SnmpV2cMessageProcessingModel):  # type: ignore[misc]  # untyped library
    """Message processing of SNMPv2c that leaves bindings as octets."""

    SNMP_MSG_SPEC = OpaqueV2cMessage


class Listener(Protocol):
    """Who is told of datagrams from an agent's address: a channel."""

    device: str

    def arrived(self) -> None:
        """A datagram came."""

    def trouble(self, text: str) -> None:
        """It could not be used."""


class SnmpStack:
    """The engine, its sockets and its channels. Make it inside a running event loop, close it there.

    ``now_ns`` is the controller's timeline. All channels share one socket for each IP version, and ``claims`` with
    whatever other client runs beside.
    """

    def __init__(
        self, now_ns: Callable[[], int], *, message_octets: int = MESSAGE_OCTETS, claims: EngineClaims | None = None
    ) -> None:
        self.now_ns = now_ns
        self.message_octets = message_octets
        self.claims = claims if claims is not None else EngineClaims()
        self.engine = SnmpEngine(maxMessageSize=message_octets)
        timeline = _LastingTimeline()
        self.peers = _LastingPeers(timeline)
        self.engine.message_processing_subsystems[1] = _OpaqueV2c()
        self.engine.message_processing_subsystems[3] = self.peers
        self.engine.security_models[3] = timeline
        self.header: tuple[str, int, int] | None = None
        self._transports: dict[int, StampingUdp | StampingUdp6] = {}
        self._channels: dict[tuple[str, int], Listener] = {}
        self._communities = 0
        builder = self.engine.get_mib_builder()
        (self._parse_errors,) = builder.import_symbols("__SNMPv2-MIB", "snmpInASNParseErrs")
        self.engine.observer.register_observer(self._saw_header, "rfc3414.processIncomingMsg")
        self.engine.observer.register_observer(self._saw_failure, "rfc3412.prepareDataElements:sm-failure")

    async def close(self) -> None:
        """Close the sockets; channels are dead afterwards."""
        self.engine.observer.unregister_observer()
        self.engine.close_dispatcher()
        self._transports.clear()
        await asyncio.sleep(0)

    # ------------------------------------------------------------ for channels

    async def transport(self, family: int) -> StampingUdp | StampingUdp6:
        """Return the socket for an address family, opening it first if need be.

        Raises:
            OSError: it cannot be opened.
        """
        if family not in self._transports:
            transport = StampingUdp6() if family == socket.AF_INET6 else StampingUdp()
            transport.now_ns = self.now_ns
            transport.on_arrival = self._arrived
            transport.on_trouble = self._trouble
            domain = self.domain(family)
            config.add_transport(self.engine, domain, transport.open_client_mode())
            self.engine.transport_dispatcher.set_timer_resolution(_TIMER_RESOLUTION_S)
            self._transports[family] = transport
        await self._transports[family].ready()
        return self._transports[family]

    @staticmethod
    def domain(family: int) -> tuple[int, ...]:
        """Return SNMP's name for UDP over an address family."""
        chosen: tuple[int, ...] = config.SNMP_UDP6_DOMAIN if family == socket.AF_INET6 else config.SNMP_UDP_DOMAIN
        return chosen

    def attach(self, sender: tuple[str, int], channel: Listener) -> None:
        """Tell ``channel`` about datagrams from ``sender`` that answer nothing."""
        self._channels[sender] = channel

    def detach(self, channel: Listener) -> None:
        """Forget ``channel``."""
        self._channels = {sender: other for sender, other in self._channels.items() if other is not channel}

    def add_user(self, engine_id: str, security: UserSecurity) -> None:
        """Make the keys of a user for one agent: localized to its engine id (RFC 3414, section 2.6).

        Raises:
            PySnmpError: the library does not accept the engine id.
        """
        config.add_v3_user(
            self.engine,
            security.user,
            _AUTHENTICATION[security.authentication],
            security.authentication_phrase,
            _PRIVACY[security.privacy],
            security.privacy_phrase,
            securityEngineId=rfc1902.OctetString(hexValue=engine_id),
        )

    def add_community(self, security: InsecureCommunity) -> str:
        """Make a community known; returns the security name that stands for it."""
        self._communities += 1
        name = f"community-{self._communities}"
        config.add_v1_system(self.engine, name, security.community, securityName=name)
        return name

    # ------------------------------------------------------------ what the engine tells

    def _saw_header(self, _engine: Any, _point: str, variables: dict[str, Any], _context: Any) -> None:
        self.header = (
            bytes(variables["securityEngineId"]).hex(),
            int(variables["snmpEngineBoots"]),
            int(variables["snmpEngineTime"]),
        )

    def _saw_failure(self, _engine: Any, _point: str, variables: dict[str, Any], _context: Any) -> None:
        host, port = variables["transportAddress"][:2]
        channel = self._channels.get((str(host), int(port)))
        if channel is not None:
            channel.trouble(f"{variables['statusInformation'].get('errorIndication')}")

    def _arrived(self, arrival: Arrival) -> None:
        self.header = None
        channel = self._channels.get(arrival.sender)
        if channel is not None:
            channel.arrived()

    def _trouble(self, arrival: Arrival, text: str) -> None:
        channel = self._channels.get(arrival.sender)
        if channel is not None:
            channel.trouble(text)

    def unparsed(self) -> int:
        """Return how many messages the engine could not parse so far."""
        return int(self._parse_errors.syntax)
