"""The pysnmp client: one agent over UDP; messages and security by pysnmp's engine, bindings by ours."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

from pyasn1.error import PyAsn1Error
from pysnmp.error import PySnmpError
from pysnmp.proto import errind, rfc1902
from pysnmp.proto.api import v2c

from switch.asking import NS_PER_S, Answer, AskingChannel, Level, Question, Refusal, Refused, within
from switch.ber import BerError
from switch.engine import SnmpStack
from switch.exchange import Operation
from switch.opaque import get_bulk_request, get_request
from switch.security import Endpoint, InsecureCommunity, Security, Timing, UserSecurity
from switch.varbinds import decode

_V2C, _V3 = 1, 3  # message processing models (RFC 3412, section 10)
_COMMUNITY_BASED, _USER_BASED = 2, 3  # security models

_REFUSALS = (  # pairs: the library's indications cannot be hashed
    (errind.wrongDigest, Refusal.WRONG_DIGEST),
    (errind.unknownUserName, Refusal.UNKNOWN_USER),
    (errind.unknownSecurityName, Refusal.UNKNOWN_USER),
    (errind.unsupportedSecurityLevel, Refusal.UNSUPPORTED_LEVEL),
    (errind.decryptionError, Refusal.DECRYPTION),
    (errind.notInTimeWindow, Refusal.NOT_IN_TIME_WINDOW),
    (errind.unknownEngineID, Refusal.UNKNOWN_ENGINE),
    (errind.tooBig, Refusal.TOO_BIG),
)


class AgentChannel(AskingChannel):
    """A :class:`switch.exchange.Channel` on pysnmp. Nothing is sent before the first question."""

    def __init__(self, stack: SnmpStack, device: str, endpoint: Endpoint, security: Security, timing: Timing) -> None:
        super().__init__(stack.claims, device, endpoint, security, timing)
        self._stack = stack
        self._family = socket.AF_INET
        self._address: Any = None
        self._transport: Any = None
        self._registered: set[str] = set()
        self._security_name = b""

    @property
    def host(self) -> str:
        """The agent's numeric address once it is known, else what was configured."""
        return str(self._address[0]) if self._address else self.endpoint.host

    def close(self) -> None:
        """Let go of the agent."""
        super().close()
        self._stack.detach(self)

    def _now_ns(self) -> int:
        return self._stack.now_ns()

    def _unreadable(self) -> int:
        return self._stack.unparsed()

    async def _open(self) -> None:
        if self._address is None:
            loop = asyncio.get_running_loop()
            found = await loop.getaddrinfo(self.endpoint.host, self.endpoint.port, type=socket.SOCK_DGRAM)
            family, _, _, _, address = found[0]
            self._transport = await self._stack.transport(family)
            # An IPv6 answer names its sender with flow and scope; the engine looks peers up by the whole tuple.
            self._family, self._address = family, address
            self._stack.attach((str(address[0]), int(address[1])), self)
        if isinstance(self._security, InsecureCommunity) and not self._security_name:
            self._security_name = self._stack.add_community(self._security).encode()

    async def _find_engine(self) -> str | None:
        domain = self._stack.domain(self._family)
        self._stack.peers.forget(domain, self._address)
        pdu = v2c.GetRequestPDU()
        v2c.apiPDU.set_defaults(pdu)
        reply, _ = await self._put(pdu, 0, Level.NO_AUTH)
        if reply is None:
            return None
        found = self._stack.peers.get_peer_engine_info(domain, self._address)[0]
        return bytes(found).hex() if found else ""

    def _learn_engine(self, engine_id: str, security: UserSecurity) -> None:
        if engine_id not in self._registered:
            try:
                self._stack.add_user(engine_id, security)
            except PySnmpError as error:
                raise ValueError(f"{error}") from error
            self._registered.add(engine_id)
        self._security_name = security.user.encode()

    def _forget_engine(self) -> None:
        if self._address is not None:
            self._stack.peers.forget(self._stack.domain(self._family), self._address)

    async def _transmit(self, question: Question, request_id: int, level: Level) -> tuple[Answer | Refused | None, int]:
        if question.operation is Operation.GET:
            pdu = get_request(request_id, question.oids)
        else:
            pdu = get_bulk_request(request_id, question.oids, question.max_repetitions)
        return await self._put(pdu, request_id, level)

    async def _put(self, pdu: Any, request_id: int, level: Level) -> tuple[Answer | Refused | None, int]:
        future: asyncio.Future[Answer | Refused | None] = asyncio.get_running_loop().create_future()
        secure = isinstance(self._security, UserSecurity)
        timeout_s = self.timing.timeout_ns / NS_PER_S
        ticks = 2 * timeout_s / self._stack.engine.transport_dispatcher.get_timer_resolution() + 2

        def on_response(*told: Any) -> None:
            _, _, _, _, _, _, _, _, answer, status, _, _ = told
            if future.done():
                return
            indication = status.get("errorIndication") or errind.otherError if status else None
            if indication is None:
                future.set_result(self._answer(answer, request_id))
            elif indication != errind.requestTimedOut:  # our own timer decides
                future.set_result(_refused(indication))

        try:
            self._stack.engine.message_dispatcher.send_pdu(
                self._stack.engine,
                self._stack.domain(self._family),
                self._transport.ADDRESS_TYPE(self._address),
                _V3 if secure else _V2C,
                _USER_BASED if secure else _COMMUNITY_BASED,
                rfc1902.OctetString(self._security_name),
                int(level if secure else Level.NO_AUTH),
                None,
                b"",
                1,
                pdu,
                True,
                ticks,
                on_response,
                None,
            )
        except (PySnmpError, PyAsn1Error) as error:
            indication = error.get("errorIndication") if hasattr(error, "get") else None
            if indication is not None:
                return _refused(indication), self._stack.now_ns()
            raise OSError(f"{error}") from error
        sent_ns: int = self._transport.sent_ns
        return await within(future, timeout_s), sent_ns

    def _answer(self, pdu: Any, request_id: int) -> Answer | None:
        """Return the answer in ``pdu``, None if it is none: what is wrong is noted."""
        arrival = self._transport.arrival
        if arrival is None or int(pdu[0]) != request_id:
            self.trouble("an answer bears the id of another question")
            return None
        octets = bytes(pdu[3])
        try:
            varbinds = decode(octets, 0, len(octets))
        except BerError as error:
            self.trouble(f"not a readable SNMP message: {error}")
            return None
        return Answer(
            arrival.datagram, arrival.received_ns, self._stack.header, int(pdu[1]), max(0, int(pdu[2])), varbinds
        )


def _refused(indication: Any) -> Refused:
    for known, refusal in _REFUSALS:
        if indication == known:
            return Refused(refusal)
    return Refused(Refusal.OTHER, f"{indication}")
