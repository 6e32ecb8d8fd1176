"""The direct client: one agent over UDP without a library's engine, several times as fast, with nothing hidden.

:mod:`switch.message` makes and reads messages, :mod:`switch.usm` protects them, :mod:`switch.asking` decides. Why it
exists beside pysnmp: docs/adr/0144-a-client-of-our-own.md.
"""

from __future__ import annotations

import asyncio
import secrets
import socket
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from switch.asking import NS_PER_S, Answer, AskingChannel, Level, Question, Refusal, Refused, within
from switch.ber import BerError
from switch.claims import EngineClaims
from switch.exchange import Oid
from switch.message import REPORT, Outer, Pdu, read_outer, read_v2c, write_pdu, write_v2c
from switch.mib import MESSAGE_OCTETS
from switch.security import Endpoint, Security, Timing, UserSecurity
from switch.session import UnusableError, UserSession, discovery, named_engine
from switch.varbinds import encode_names

_V2C = 1
_MOST_DATAGRAM_OCTETS = 65_535
_USM_STATS: Oid = (1, 3, 6, 1, 6, 3, 15, 1, 1)
_REPORTS = {
    (*_USM_STATS, 1, 0): Refusal.UNSUPPORTED_LEVEL,
    (*_USM_STATS, 2, 0): Refusal.NOT_IN_TIME_WINDOW,
    (*_USM_STATS, 3, 0): Refusal.UNKNOWN_USER,
    (*_USM_STATS, 4, 0): Refusal.UNKNOWN_ENGINE,
    (*_USM_STATS, 5, 0): Refusal.WRONG_DIGEST,
    (*_USM_STATS, 6, 0): Refusal.DECRYPTION,
}

_Sender = tuple[str, int]


@dataclass(frozen=True, slots=True)
class _Pending:
    """A transmission that waits for its answer."""

    channel: DirectChannel
    level: Level
    future: asyncio.Future[Answer | Refused | None]


class DirectStack:
    """The sockets of all channels, one for each IP version. Make it inside a running event loop, close it there."""

    def __init__(
        self, now_ns: Callable[[], int], *, message_octets: int = MESSAGE_OCTETS, claims: EngineClaims | None = None
    ) -> None:
        self.now_ns = now_ns
        self.message_octets = message_octets
        self.claims = claims if claims is not None else EngineClaims()
        self._sockets: dict[int, _Socket] = {}
        self._channels: dict[_Sender, DirectChannel] = {}
        self._pending: dict[int, _Pending] = {}

    async def close(self) -> None:
        """Close the sockets; channels are dead afterwards."""
        for each in self._sockets.values():
            each.close()
        self._sockets.clear()

    def open(self, family: int) -> _Socket:
        """Return the socket for an address family, opening it first if need be.

        Raises:
            OSError: it cannot be opened.
        """
        if family not in self._sockets:
            self._sockets[family] = _Socket(self, family)
        return self._sockets[family]

    def attach(self, sender: _Sender, channel: DirectChannel) -> None:
        """Read what comes from ``sender`` for ``channel``."""
        self._channels[sender] = channel

    def detach(self, channel: DirectChannel) -> None:
        """Forget ``channel``."""
        self._channels = {sender: other for sender, other in self._channels.items() if other is not channel}

    def expect(self, identity: int, pending: _Pending) -> None:
        """Give the message with this id to who waits for it."""
        self._pending[identity] = pending

    def forget(self, identity: int) -> None:
        """Nobody waits for the message with this id any more."""
        self._pending.pop(identity, None)

    def received(self, datagram: bytes, sender: _Sender) -> None:
        """Give a datagram to the transmission that it answers; any other is only counted.

        An answer is known by the id of its message, not by where it comes from: switches answer out of another
        interface's address. What is wrong with one is its channel's to say; the wait goes on, for whoever can send a
        wrong answer cannot stop the right one.
        """
        received_ns = self.now_ns()
        channel = self._channels.get(sender)
        try:
            outer = read_outer(datagram)
        except BerError as error:
            if channel is not None:
                channel.arrived()
                channel.trouble(f"not a readable SNMP message: {error}")
            return
        pending = self._pending.get(outer.identity)
        if pending is not None:
            channel = pending.channel
        if channel is not None:
            channel.arrived()
        if pending is None or pending.future.done():
            return
        try:
            pending.future.set_result(pending.channel.read(datagram, outer, pending.level, received_ns))
        except BerError as error:
            pending.channel.trouble(f"not a readable SNMP message: {error}")
        except UnusableError as error:
            pending.channel.trouble(f"an answer came, but {error}")


class _Socket:
    """A UDP socket on the event loop, without asyncio's transport: that one makes room for 256 KiB at each datagram."""

    def __init__(self, stack: DirectStack, family: int) -> None:
        """Open it.

        Raises:
            OSError: it cannot be opened.
        """
        self._stack = stack
        self._room = bytearray(_MOST_DATAGRAM_OCTETS)
        self._socket = socket.socket(family, socket.SOCK_DGRAM)
        self._socket.setblocking(False)
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._socket.fileno(), self._readable)

    def _readable(self) -> None:
        try:
            octets, sender = self._socket.recvfrom_into(self._room)
        except OSError:  # an error that an earlier datagram met; whoever waits for its answer will give up by itself
            return
        self._stack.received(bytes(memoryview(self._room)[:octets]), (str(sender[0]), int(sender[1])))

    def send(self, datagram: bytes, address: Any) -> None:
        """Send at once.

        Raises:
            OSError: the kernel refuses, or has no room.
        """
        self._socket.sendto(datagram, address)

    def close(self) -> None:
        """Close it."""
        self._loop.remove_reader(self._socket.fileno())
        self._socket.close()


class DirectChannel(AskingChannel):
    """A :class:`switch.exchange.Channel` on our own messages. Nothing is sent before the first question."""

    def __init__(self, stack: DirectStack, device: str, endpoint: Endpoint, security: Security, timing: Timing) -> None:
        super().__init__(stack.claims, device, endpoint, security, timing)
        self._sender: _Sender = ("", 0)
        self._stack = stack
        self._socket: _Socket | None = None
        self._address: Any = None
        self._named_engine = b""
        if isinstance(security, UserSecurity):
            self._session: UserSession | None = UserSession(security)
            self._community = b""
        else:
            self._session, self._community = None, security.community.encode()

    @property
    def host(self) -> str:
        """The agent's numeric address once it is known, else what was configured."""
        return self._sender[0] or self.endpoint.host

    def close(self) -> None:
        """Let go of the agent."""
        super().close()
        self._stack.detach(self)

    def _now_ns(self) -> int:
        return self._stack.now_ns()

    async def _open(self) -> None:
        if self._socket is not None:
            return
        loop = asyncio.get_running_loop()
        found = await loop.getaddrinfo(self.endpoint.host, self.endpoint.port, type=socket.SOCK_DGRAM)
        family, _, _, _, self._address = found[0]
        self._socket = self._stack.open(family)
        self._sender = (str(self._address[0]), int(self._address[1]))
        self._stack.attach(self._sender, self)

    async def _find_engine(self) -> str | None:
        identity = secrets.randbelow(2**31 - 1) + 1
        self._named_engine = b""
        reply, _ = await self._put(identity, Level.NO_AUTH, discovery(identity, self._stack.message_octets))
        return None if reply is None else self._named_engine.hex()

    def _learn_engine(self, engine_id: str, security: UserSecurity) -> None:  # noqa: ARG002  the session has it
        if self._session is not None:
            self._session.adopt(bytes.fromhex(engine_id))

    def _forget_engine(self) -> None:
        if self._session is not None:
            self._session.forget()

    async def _transmit(self, question: Question, request_id: int, level: Level) -> tuple[Answer | Refused | None, int]:
        most, names = self._stack.message_octets, encode_names(question.oids)
        pdu = write_pdu(question.operation, request_id, names, question.max_repetitions)
        if self._session is None:
            message = write_v2c(self._community, pdu)
        else:
            message = self._session.protect(request_id, most, pdu, level, self._now_ns())
        if len(message) > most:
            return Refused(Refusal.TOO_BIG, f"{len(message)} octets, agreed are {most}"), self._now_ns()
        return await self._put(request_id, level, message)

    async def _put(self, identity: int, level: Level, message: bytes) -> tuple[Answer | Refused | None, int]:
        if self._socket is None:
            raise OSError("the socket is not open")
        future: asyncio.Future[Answer | Refused | None] = asyncio.get_running_loop().create_future()
        self._stack.expect(identity, _Pending(self, level, future))
        try:
            sent_ns = self._now_ns()
            self._socket.send(message, self._address)
            return await within(future, self.timing.timeout_ns / NS_PER_S), sent_ns
        finally:
            self._stack.forget(identity)

    def read(self, datagram: bytes, outer: Outer, level: Level, received_ns: int) -> Answer | Refused:
        """Return what the answer to a transmission at ``level`` says.

        Raises:
            BerError: it is not readable.
            UnusableError: it must not be used.
        """
        if (outer.version == _V2C) is not (self._session is None):
            raise BerError("a message of another SNMP version than was asked in")
        if self._session is None:
            community, pdu = read_v2c(datagram, outer)
            if community != self._community:
                raise UnusableError("it bears another community")
            return _reply(datagram, pdu, outer.identity, received_ns, None)
        if level is Level.NO_AUTH:
            self._named_engine = named_engine(datagram, outer)
            return Refused(Refusal.UNKNOWN_ENGINE)
        opened = self._session.unprotect(datagram, outer, level, received_ns)
        return _reply(datagram, opened.pdu, outer.identity, received_ns, opened.header)


def _reply(
    datagram: bytes, pdu: Pdu, request_id: int, received_ns: int, header: tuple[str, int, int] | None
) -> Answer | Refused:
    if pdu.tag == REPORT:
        name = pdu.varbinds[0].oid if pdu.varbinds else ()
        refusal = _REPORTS.get(name, Refusal.OTHER)
        return Refused(refusal, "" if refusal is not Refusal.OTHER else f"report {'.'.join(map(str, name))}")
    if pdu.request_id != request_id:
        raise UnusableError("it bears the id of another question")
    return Answer(datagram, received_ns, header, pdu.error_status, pdu.error_index, pdu.varbinds)
