"""One agent over UDP: puts a question, waits, asks again, and says precisely why there is no answer.

The sample's ``first_sent_ns`` is the first transmission of the request, whatever came between.
"""

from __future__ import annotations

import asyncio
import secrets
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from pyasn1.error import PyAsn1Error
from pysnmp.error import PySnmpError
from pysnmp.proto import errind, rfc1902, rfc1905
from pysnmp.proto.api import v2c

from protos.reading import Missing
from switch.engine import SharedEngineIdError, SnmpStack
from switch.exchange import NUMBERS, OCTET_STRINGS, Exchange, NoAnswerError, Oid, Operation, ValueType, VarBind
from switch.mib import SYS_UPTIME
from switch.security import Endpoint, InsecureCommunity, Security, Timing, UserSecurity
from switch.transport import Arrival

_NS_PER_S = 1_000_000_000
_V2C, _V3 = 1, 3  # message processing models (RFC 3412, section 10)
_COMMUNITY_BASED, _USER_BASED = 2, 3  # security models
_NO_AUTH, _AUTH_NO_PRIV, _AUTH_PRIV = 1, 2, 3  # security levels

_TYPES = {
    rfc1902.Integer32.tagSet: ValueType.INTEGER,
    rfc1902.OctetString.tagSet: ValueType.OCTETS,
    rfc1902.ObjectIdentifier.tagSet: ValueType.OID,
    rfc1902.IpAddress.tagSet: ValueType.IP_ADDRESS,
    rfc1902.Counter32.tagSet: ValueType.COUNTER32,
    rfc1902.Gauge32.tagSet: ValueType.GAUGE32,
    rfc1902.TimeTicks.tagSet: ValueType.TIMETICKS,
    rfc1902.Opaque.tagSet: ValueType.OPAQUE,
    rfc1902.Counter64.tagSet: ValueType.COUNTER64,
    rfc1902.Null.tagSet: ValueType.NULL,
    rfc1905.NoSuchObject.tagSet: ValueType.NO_SUCH_OBJECT,
    rfc1905.NoSuchInstance.tagSet: ValueType.NO_SUCH_INSTANCE,
    rfc1905.EndOfMibView.tagSet: ValueType.END_OF_MIB_VIEW,
}

_DENIED = (  # pairs: the library's indications cannot be hashed
    (errind.wrongDigest, "the agent found a wrong digest: the authentication pass phrase (or its algorithm) is wrong"),
    (errind.unknownUserName, "the agent does not know this user"),
    (errind.unknownSecurityName, "the agent does not know this user"),
    (errind.unsupportedSecurityLevel, "the agent does not serve this user with authentication and privacy"),
    (errind.decryptionError, "the agent could not decrypt: the privacy pass phrase (or its algorithm) is wrong"),
)


def varbind(name: Any, value: Any) -> VarBind:
    """Return one of pysnmp's bindings as ours. Numbers become ints at once: the library's own wrap."""
    kind = _TYPES.get(value.tagSet, ValueType.UNKNOWN)
    content: int | bytes | Oid | None = None
    if kind in NUMBERS:
        content = int(value)
    elif kind in OCTET_STRINGS:
        content = value.asOctets()
    elif kind is ValueType.OID:
        content = value.asTuple()
    return VarBind(name.asTuple(), kind, content)


@dataclass(frozen=True, slots=True)
class _Reply:
    """What one transmission came to: a PDU, or the indication that stands in its place."""

    arrival: Arrival | None
    pdu: Any = None
    indication: Any = None
    header: tuple[str, int, int] | None = None


class AgentChannel:
    """A :class:`switch.exchange.Channel` over UDP. Nothing is sent before the first question."""

    def __init__(self, stack: SnmpStack, device: str, endpoint: Endpoint, security: Security, timing: Timing) -> None:
        self.device, self.endpoint, self.timing = device, endpoint, timing
        self._stack, self._security = stack, security
        self._family = socket.AF_INET
        self._address: Any = None
        self._transport: Any = None
        self._engine_id = ""
        self._registered: set[str] = set()
        self._security_name = b""
        self._troubles: list[str] = []
        self._arrivals = 0
        self._answered = False

    # ------------------------------------------------------------ Channel

    async def get(self, oids: Sequence[Oid]) -> Exchange:
        """See :meth:`switch.exchange.Channel.get`."""

        def build() -> Any:
            pdu = v2c.GetRequestPDU()
            v2c.apiPDU.set_defaults(pdu)
            v2c.apiPDU.set_varbinds(pdu, [(oid, v2c.null) for oid in oids])
            return pdu

        return await self._ask(Operation.GET, build)

    async def get_bulk(self, oids: Sequence[Oid], max_repetitions: int) -> Exchange:
        """See :meth:`switch.exchange.Channel.get_bulk`."""

        def build() -> Any:
            pdu = v2c.GetBulkRequestPDU()
            v2c.apiBulkPDU.set_defaults(pdu)
            v2c.apiBulkPDU.set_non_repeaters(pdu, 0)
            v2c.apiBulkPDU.set_max_repetitions(pdu, max_repetitions)
            v2c.apiBulkPDU.set_varbinds(pdu, [(oid, v2c.null) for oid in oids])
            return pdu

        return await self._ask(Operation.GET_BULK, build)

    @property
    def host(self) -> str:
        """The agent's numeric address once it is known, else what was configured."""
        return str(self._address[0]) if self._address else self.endpoint.host

    def close(self) -> None:
        """Let go of the agent."""
        self._stack.detach(self)

    # ------------------------------------------------------------ told by the stack

    def arrived(self) -> None:
        """A datagram came from the agent's address."""
        self._arrivals += 1

    def trouble(self, text: str) -> None:
        """A datagram from the agent's address could not be used."""
        self._troubles.append(text)

    # ------------------------------------------------------------ the work

    async def _ask(self, operation: Operation, build: Callable[[], Any]) -> Exchange:
        """Put one question.

        1. Know the address and, for SNMPv3, the agent's engine id and our keys for it.
        2. Send; on silence send anew with a new id, up to the agreed number of times. An answer to an earlier
           transmission is dropped by its id: it would not tell when it was produced.
        3. Refused as not in time window: the engine has learnt boots and time from the refusal; send again, once.
        4. Refused as unknown engine id: the agent has a new one; discover and send again, once.
        5. Any other refusal ends it with its reason.
        6. Silence of an agent that never answered us yet: net-snmp drops what it cannot decrypt without a word, so
           find out whether it is only that.
        """
        first_sent_ns = self._stack.now_ns()
        sent = False
        attempts = resent = 0
        unparsed, self._troubles, self._arrivals = self._stack.unparsed(), [], 0
        while attempts < self.timing.attempts:
            await self._prepare(first_sent_ns)
            attempts += 1
            pdu = build()
            v2c.apiPDU.set_request_id(pdu, secrets.randbelow(2**31 - 1) + 1)
            reply, sent_ns = await self._transmit(pdu, _AUTH_PRIV, first_sent_ns)
            if not sent:
                first_sent_ns, sent = sent_ns, True
            if reply is None:
                continue
            if reply.indication is not None:
                if resent == 0 and reply.indication in (errind.notInTimeWindow, errind.unknownEngineID):
                    resent, attempts = 1, attempts - 1
                    if reply.indication == errind.unknownEngineID:
                        self._forget()
                    continue
                raise self._refused(reply.indication, first_sent_ns, attempts)
            return self._exchange(operation, pdu, reply, first_sent_ns, attempts)
        silent = self._silent(unparsed, first_sent_ns, attempts)
        if silent.reason is Missing.TIMEOUT and await self._answers_without_privacy(first_sent_ns):
            text = (
                f"{self.device}: {self.endpoint} answers authenticated questions but no encrypted ones: the privacy "
                f"pass phrase (or its algorithm) is wrong; check {self._secrets}"
            )
            silent = NoAnswerError(Missing.DENIED, text, first_sent_ns, self._stack.now_ns(), attempts)
        self._forget()
        raise silent

    async def _prepare(self, first_sent_ns: int) -> None:
        """Resolve the address, open the socket, discover the engine id, register the keys: each if need be."""
        if self._address is None:
            await self._resolve(first_sent_ns)
        if isinstance(self._security, InsecureCommunity):
            if not self._security_name:
                self._security_name = self._stack.add_community(self._security).encode()
            return
        if not self._engine_id:
            await self._discover(first_sent_ns, self._security)

    async def _resolve(self, first_sent_ns: int) -> None:
        loop = asyncio.get_running_loop()
        try:
            found = await loop.getaddrinfo(self.endpoint.host, self.endpoint.port, type=socket.SOCK_DGRAM)
            family, _, _, _, address = found[0]
            self._transport = await self._stack.transport(family)
        except OSError as error:
            text = f"{self.device}: cannot reach {self.endpoint}: {error}; check the switch's address in the site file"
            raise NoAnswerError(Missing.TIMEOUT, text, first_sent_ns, self._stack.now_ns(), 0) from error
        # An IPv6 answer names its sender with flow and scope; the engine looks peers up by the whole tuple.
        self._family, self._address = family, address
        self._stack.attach((str(address[0]), int(address[1])), self)

    async def _discover(self, first_sent_ns: int, security: UserSecurity) -> None:
        domain = self._stack.domain(self._family)
        unparsed = self._stack.unparsed()
        self._stack.peers.forget(domain, self._address)
        for _ in range(self.timing.attempts):
            pdu = v2c.GetRequestPDU()
            v2c.apiPDU.set_defaults(pdu)
            reply, _ = await self._transmit(pdu, _NO_AUTH, first_sent_ns)
            if reply is not None:
                break
        else:
            raise self._silent(unparsed, first_sent_ns, self.timing.attempts)
        found = self._stack.peers.get_peer_engine_info(domain, self._address)[0]
        if not found:
            text = f"{self.device}: {self.endpoint} did not name its SNMPv3 engine ({reply.indication}); is it SNMPv3?"
            raise NoAnswerError(Missing.MALFORMED, text, first_sent_ns, self._stack.now_ns())
        engine_id = bytes(found).hex()
        try:
            self._stack.check_unclaimed(engine_id, self.device)
            if engine_id not in self._registered:
                self._stack.add_user(engine_id, security)
                self._registered.add(engine_id)
        except SharedEngineIdError as error:
            raise NoAnswerError(Missing.MALFORMED, str(error), first_sent_ns, self._stack.now_ns()) from error
        except PySnmpError as error:
            self._forget()
            text = f"{self.device}: {self.endpoint} names an impossible SNMPv3 engine id {engine_id!r}: {error}"
            raise NoAnswerError(Missing.MALFORMED, text, first_sent_ns, self._stack.now_ns()) from error
        self._engine_id, self._security_name = engine_id, security.user.encode()

    async def _answers_without_privacy(self, first_sent_ns: int) -> bool:
        """Whether the agent answers a harmless question that is authenticated and not encrypted.

        Asked only of an agent that never answered an encrypted one. Access may be refused at that level; any
        authenticated answer tells that only the encryption is in the way.
        """
        if not isinstance(self._security, UserSecurity) or not self._engine_id or self._answered:
            return False
        pdu = v2c.GetRequestPDU()
        v2c.apiPDU.set_defaults(pdu)
        v2c.apiPDU.set_varbinds(pdu, [(SYS_UPTIME, v2c.null)])
        reply, _ = await self._transmit(pdu, _AUTH_NO_PRIV, first_sent_ns)
        return reply is not None and (reply.indication is None or reply.indication == errind.unsupportedSecurityLevel)

    def _forget(self) -> None:
        """The next question discovers the engine id again: the agent may have been replaced or reset."""
        if self._address is not None:
            self._stack.peers.forget(self._stack.domain(self._family), self._address)
        self._engine_id, self._answered = "", False

    async def _transmit(self, pdu: Any, level: int, first_sent_ns: int) -> tuple[_Reply | None, int]:
        """Send once and wait; returns None for silence, and when it was sent."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[_Reply] = loop.create_future()
        secure = isinstance(self._security, UserSecurity)
        timeout_s = self.timing.timeout_ns / _NS_PER_S
        ticks = 2 * timeout_s / self._stack.engine.transport_dispatcher.get_timer_resolution() + 2

        def on_response(*told: Any) -> None:
            _, _, _, _, _, _, _, _, answer, status, _, _ = told
            if future.done():
                return
            if status:
                indication = status.get("errorIndication")
                if indication != errind.requestTimedOut:  # our own timer decides
                    future.set_result(_Reply(self._transport.arrival, None, indication or errind.otherError))
            else:
                future.set_result(_Reply(self._transport.arrival, answer, None, self._stack.header))

        try:
            self._stack.engine.message_dispatcher.send_pdu(
                self._stack.engine,
                self._stack.domain(self._family),
                self._transport.ADDRESS_TYPE(self._address),
                _V3 if secure else _V2C,
                _USER_BASED if secure else _COMMUNITY_BASED,
                rfc1902.OctetString(self._security_name),
                level if secure else _NO_AUTH,
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
                return _Reply(None, None, indication), self._stack.now_ns()
            text = f"{self.device}: cannot send to {self.endpoint}: {error}; is there a route to the switch?"
            raise NoAnswerError(Missing.TIMEOUT, text, first_sent_ns, self._stack.now_ns()) from error
        sent_ns: int = self._transport.sent_ns
        done, _ = await asyncio.wait({future}, timeout=timeout_s)
        if not done:
            future.cancel()
            return None, sent_ns
        return future.result(), sent_ns

    def _exchange(self, operation: Operation, pdu: Any, reply: _Reply, first_sent_ns: int, attempts: int) -> Exchange:
        now_ns = self._stack.now_ns()
        if reply.arrival is None or int(v2c.apiPDU.get_request_id(reply.pdu)) != int(v2c.apiPDU.get_request_id(pdu)):
            text = f"{self.device}: an answer bears the id of another question; dropped"
            raise NoAnswerError(Missing.MALFORMED, text, first_sent_ns, now_ns, attempts)
        if not self._answered and self._engine_id:
            self._stack.claim(self._engine_id, self.device)
        self._answered = True
        engine_id, boots, seconds = reply.header or ("", None, None)
        bindings = tuple(varbind(name, value) for name, value in v2c.apiPDU.get_varbinds(reply.pdu))
        return Exchange(
            operation=operation,
            first_sent_ns=first_sent_ns,
            received_ns=reply.arrival.received_ns,
            attempts=attempts,
            engine_id=engine_id,
            engine_boots=boots,
            engine_time_s=seconds,
            error_status=int(v2c.apiPDU.get_error_status(reply.pdu)),
            error_index=int(v2c.apiPDU.get_error_index(reply.pdu, muteErrors=True)),
            datagram=reply.arrival.datagram,
            varbinds=bindings,
        )

    @property
    def _secrets(self) -> str:
        kept_in = self._security.kept_in if isinstance(self._security, UserSecurity) else ""
        return kept_in or "user and secrets of the switch"

    def _refused(self, indication: Any, first_sent_ns: int, attempts: int) -> NoAnswerError:
        now_ns = self._stack.now_ns()
        for denied, why in _DENIED:
            if indication == denied:
                text = f"{self.device}: {self.endpoint} refuses: {why}; check {self._secrets}"
                return NoAnswerError(Missing.DENIED, text, first_sent_ns, now_ns, attempts)
        if indication == errind.notInTimeWindow:
            text = f"{self.device}: {self.endpoint} refuses as not in time window even after telling its time"
            return NoAnswerError(Missing.DENIED, text, first_sent_ns, now_ns, attempts)
        if indication == errind.tooBig:
            text = f"{self.device}: the question is larger than the agreed {self._stack.message_octets} octets"
            return NoAnswerError(Missing.TRUNCATED, text, first_sent_ns, now_ns, attempts)
        text = f"{self.device}: {self.endpoint} answered with an error: {indication}"
        return NoAnswerError(Missing.MALFORMED, text, first_sent_ns, now_ns, attempts)

    def _silent(self, unparsed: int, first_sent_ns: int, attempts: int) -> NoAnswerError:
        """Silence has kinds: nothing came, it came too late, or what came could not be read."""
        now_ns = self._stack.now_ns()
        waited = f"{attempts} x {self.timing.timeout_ns / _NS_PER_S:g} s"
        garbled = list(self._troubles)
        if self._arrivals and self._stack.unparsed() > unparsed:
            garbled.append("not a readable SNMP message")
        if garbled:
            text = f"{self.device}: {self.endpoint} answered within {waited}, but unusably: {garbled[-1]}"
            return NoAnswerError(Missing.MALFORMED, text, first_sent_ns, now_ns, attempts)
        if self._arrivals:
            text = (
                f"{self.device}: {self._arrivals} answers from {self.endpoint} came too late or to other questions "
                f"within {waited}; the agent is slower than the timeout"
            )
            return NoAnswerError(Missing.TIMEOUT, text, first_sent_ns, now_ns, attempts)
        text = f"{self.device}: no answer from {self.endpoint} within {waited}; switch down, cut off, or filtered?"
        return NoAnswerError(Missing.TIMEOUT, text, first_sent_ns, now_ns, attempts)
