"""How one question is put to an agent, whatever client sends it: waits, asks again, says precisely why nothing came.

The clients (:mod:`switch.channel` on pysnmp, :mod:`switch.direct` without it) differ in how a transmission becomes a
datagram and an answer is read from one. What silence, a refusal or a second attempt means is here, once.
"""

from __future__ import annotations

import abc
import asyncio
import enum
import secrets
from collections.abc import Sequence
from dataclasses import dataclass

from protos.reading import Missing
from switch.claims import EngineClaims, SharedEngineIdError
from switch.exchange import Exchange, NoAnswerError, Oid, Operation, VarBind
from switch.mib import SYS_UPTIME
from switch.security import Endpoint, Security, Timing, UserSecurity

NS_PER_S = 1_000_000_000


class Level(enum.IntEnum):
    """How a message is protected (RFC 3411, section 3.4.3). The values are the standard's."""

    NO_AUTH = 1
    AUTH_NO_PRIV = 2
    AUTH_PRIV = 3


class Refusal(enum.Enum):
    """Why an agent refuses a message, or we cannot send it. The value is what a person is told."""

    WRONG_DIGEST = "the agent found a wrong digest: the authentication pass phrase (or its algorithm) is wrong"
    UNKNOWN_USER = "the agent does not know this user"
    UNSUPPORTED_LEVEL = "the agent does not serve this user with authentication and privacy"
    DECRYPTION = "the agent could not decrypt: the privacy pass phrase (or its algorithm) is wrong"
    NOT_IN_TIME_WINDOW = "the agent refuses as not in time window even after telling its time"
    UNKNOWN_ENGINE = "the agent does not know its own engine id"
    TOO_BIG = "the question is too large"
    OTHER = "the agent answered with an error"


_DENIED = (Refusal.WRONG_DIGEST, Refusal.UNKNOWN_USER, Refusal.UNSUPPORTED_LEVEL, Refusal.DECRYPTION)


@dataclass(frozen=True, slots=True)
class Question:
    """What to ask; ``max_repetitions`` is of GETBULK."""

    operation: Operation
    oids: Sequence[Oid]
    max_repetitions: int = 0


@dataclass(frozen=True, slots=True)
class Answer:
    """A response whose message and request ids are those of the transmission.

    Attributes:
        datagram: as received.
        received_ns: controller's timeline, just after it was read.
        header: engine id in hex, boots and time in seconds from the authenticated header; None with SNMPv2c.
        error_status: of the response.
        error_index: of the response.
        varbinds: of the response.
    """

    datagram: bytes
    received_ns: int
    header: tuple[str, int, int] | None
    error_status: int
    error_index: int
    varbinds: tuple[VarBind, ...]


@dataclass(frozen=True, slots=True)
class Refused:
    """A report instead of an answer, or a question that could not be sent; ``detail`` is the client's own word."""

    refusal: Refusal
    detail: str = ""


class AskingChannel(abc.ABC):
    """A :class:`switch.exchange.Channel` over UDP. Nothing is sent before the first question."""

    def __init__(
        self, claims: EngineClaims, device: str, endpoint: Endpoint, security: Security, timing: Timing
    ) -> None:
        self.device, self.endpoint, self.timing = device, endpoint, timing
        self._claims, self._security = claims, security
        self._engine_id = ""
        self._troubles: list[str] = []
        self._arrivals = 0
        self._answered = False

    # ------------------------------------------------------------ Channel

    async def get(self, oids: Sequence[Oid]) -> Exchange:
        """See :meth:`switch.exchange.Channel.get`."""
        return await self._ask(Question(Operation.GET, oids))

    async def get_bulk(self, oids: Sequence[Oid], max_repetitions: int) -> Exchange:
        """See :meth:`switch.exchange.Channel.get_bulk`."""
        return await self._ask(Question(Operation.GET_BULK, oids, max_repetitions))

    @property
    @abc.abstractmethod
    def host(self) -> str:
        """See :class:`switch.exchange.Channel`."""

    def close(self) -> None:
        """Let go of the agent."""
        self._claims.release(self.device)

    # ------------------------------------------------------------ told by the socket

    def arrived(self) -> None:
        """A datagram came from the agent's address."""
        self._arrivals += 1

    def trouble(self, text: str) -> None:
        """A datagram from the agent's address could not be used."""
        self._troubles.append(text)

    # ------------------------------------------------------------ the client's part

    @abc.abstractmethod
    def _now_ns(self) -> int:
        """The controller's timeline."""

    @abc.abstractmethod
    async def _open(self) -> None:
        """Resolve the address and open the socket, if that is still to be done.

        Raises:
            OSError: one of them fails.
        """

    @abc.abstractmethod
    async def _transmit(self, question: Question, request_id: int, level: Level) -> tuple[Answer | Refused | None, int]:
        """Send once and wait; return what came, None for silence, and when it was sent.

        Raises:
            OSError: it could not be sent.
        """

    @abc.abstractmethod
    async def _find_engine(self) -> str | None:
        """Ask once for the agent's engine id; return it in hex, empty if the agent names none, None for silence.

        Raises:
            OSError: the question could not be sent.
        """

    @abc.abstractmethod
    def _learn_engine(self, engine_id: str, security: UserSecurity) -> None:
        """Make the user's keys for this engine (RFC 3414, section 2.6).

        Raises:
            ValueError: it is no engine id.
        """

    @abc.abstractmethod
    def _forget_engine(self) -> None:
        """Forget the engine id, boots and time."""

    def _unreadable(self) -> int:
        """How many messages could not even be told apart so far."""
        return 0

    # ------------------------------------------------------------ the work

    async def _ask(self, question: Question) -> Exchange:
        """Put one question.

        1. Know the address and, for SNMPv3, the agent's engine id and our keys for it.
        2. Send; on silence send anew with a new id, up to the agreed number of times. An answer to an earlier
           transmission is dropped by its id: it would not tell when it was produced.
        3. Refused as not in time window: the client has learnt boots and time from the refusal; send again, once.
        4. Refused as unknown engine id: the agent has a new one; discover and send again, once.
        5. Any other refusal ends it with its reason.
        6. Silence of an agent that never answered us yet: net-snmp drops what it cannot decrypt without a word, so
           find out whether it is only that.
        """
        first_sent_ns = self._now_ns()
        sent = False
        attempts = resent = 0
        unreadable, self._troubles, self._arrivals = self._unreadable(), [], 0
        while attempts < self.timing.attempts:
            await self._prepare(first_sent_ns)
            attempts += 1
            reply, sent_ns = await self._send(question, Level.AUTH_PRIV, first_sent_ns)
            if not sent:
                first_sent_ns, sent = sent_ns, True
            if reply is None:
                continue
            if isinstance(reply, Refused):
                if resent == 0 and reply.refusal in (Refusal.NOT_IN_TIME_WINDOW, Refusal.UNKNOWN_ENGINE):
                    resent, attempts = 1, attempts - 1
                    if reply.refusal is Refusal.UNKNOWN_ENGINE:
                        self._forget()
                    continue
                raise self._refused(reply, first_sent_ns, attempts)
            return self._exchange(question.operation, reply, first_sent_ns, attempts)
        silent = self._silent(unreadable, first_sent_ns, attempts)
        if silent.reason is Missing.TIMEOUT and await self._answers_without_privacy(first_sent_ns):
            text = (
                f"{self.device}: {self.endpoint} answers authenticated questions but no encrypted ones: the privacy "
                f"pass phrase (or its algorithm) is wrong; check {self._secrets}"
            )
            silent = NoAnswerError(Missing.DENIED, text, first_sent_ns, self._now_ns(), attempts)
        self._forget()
        raise silent

    async def _prepare(self, first_sent_ns: int) -> None:
        """Open the socket, discover the engine id, make the keys: each if need be."""
        try:
            await self._open()
        except OSError as error:
            text = f"{self.device}: cannot reach {self.endpoint}: {error}; check the switch's address in the site file"
            raise NoAnswerError(Missing.TIMEOUT, text, first_sent_ns, self._now_ns(), 0) from error
        if isinstance(self._security, UserSecurity) and not self._engine_id:
            await self._discover(first_sent_ns, self._security)

    async def _discover(self, first_sent_ns: int, security: UserSecurity) -> None:
        unreadable = self._unreadable()
        for _ in range(self.timing.attempts):
            try:
                engine_id = await self._find_engine()
            except OSError as error:
                raise self._unsendable(error, first_sent_ns) from error
            if engine_id is not None:
                break
        else:
            raise self._silent(unreadable, first_sent_ns, self.timing.attempts)
        if not engine_id:
            text = f"{self.device}: {self.endpoint} did not name its SNMPv3 engine; is it SNMPv3?"
            raise NoAnswerError(Missing.MALFORMED, text, first_sent_ns, self._now_ns())
        try:
            self._claims.check_unclaimed(engine_id, self.device)
            self._learn_engine(engine_id, security)
        except SharedEngineIdError as error:
            raise NoAnswerError(Missing.MALFORMED, str(error), first_sent_ns, self._now_ns()) from error
        except ValueError as error:
            self._forget()
            text = f"{self.device}: {self.endpoint} names an impossible SNMPv3 engine id {engine_id!r}: {error}"
            raise NoAnswerError(Missing.MALFORMED, text, first_sent_ns, self._now_ns()) from error
        self._engine_id = engine_id

    async def _send(self, question: Question, level: Level, first_sent_ns: int) -> tuple[Answer | Refused | None, int]:
        try:
            return await self._transmit(question, secrets.randbelow(2**31 - 1) + 1, level)
        except OSError as error:
            raise self._unsendable(error, first_sent_ns) from error

    async def _answers_without_privacy(self, first_sent_ns: int) -> bool:
        """Whether the agent answers a harmless question that is authenticated and not encrypted.

        Asked only of an agent that never answered an encrypted one. Access may be refused at that level; any
        authenticated answer tells that only the encryption is in the way.
        """
        if not isinstance(self._security, UserSecurity) or not self._engine_id or self._answered:
            return False
        reply, _ = await self._send(Question(Operation.GET, [SYS_UPTIME]), Level.AUTH_NO_PRIV, first_sent_ns)
        return isinstance(reply, Answer) or (reply is not None and reply.refusal is Refusal.UNSUPPORTED_LEVEL)

    def _forget(self) -> None:
        """The next question discovers the engine id again: the agent may have been replaced or reset."""
        self._forget_engine()
        self._engine_id, self._answered = "", False

    def _exchange(self, operation: Operation, answer: Answer, first_sent_ns: int, attempts: int) -> Exchange:
        if not self._answered and self._engine_id:
            self._claims.claim(self._engine_id, self.device)
        self._answered = True
        engine_id, boots, seconds = answer.header or ("", None, None)
        return Exchange(
            operation=operation,
            first_sent_ns=first_sent_ns,
            received_ns=answer.received_ns,
            attempts=attempts,
            engine_id=engine_id,
            engine_boots=boots,
            engine_time_s=seconds,
            error_status=answer.error_status,
            error_index=answer.error_index,
            datagram=answer.datagram,
            varbinds=answer.varbinds,
        )

    # ------------------------------------------------------------ why not, in words

    @property
    def _secrets(self) -> str:
        kept_in = self._security.kept_in if isinstance(self._security, UserSecurity) else ""
        return kept_in or "user and secrets of the switch"

    def _unsendable(self, error: OSError, first_sent_ns: int) -> NoAnswerError:
        text = f"{self.device}: cannot send to {self.endpoint}: {error}; is there a route to the switch?"
        return NoAnswerError(Missing.TIMEOUT, text, first_sent_ns, self._now_ns())

    def _refused(self, reply: Refused, first_sent_ns: int, attempts: int) -> NoAnswerError:
        why = reply.refusal.value + (f": {reply.detail}" if reply.detail else "")
        reason, text = Missing.MALFORMED, f"{self.device}: {self.endpoint}: {why}"
        if reply.refusal in _DENIED:
            reason, text = Missing.DENIED, f"{self.device}: {self.endpoint} refuses: {why}; check {self._secrets}"
        elif reply.refusal is Refusal.NOT_IN_TIME_WINDOW:
            reason = Missing.DENIED
        elif reply.refusal is Refusal.TOO_BIG:
            reason = Missing.TRUNCATED
        return NoAnswerError(reason, text, first_sent_ns, self._now_ns(), attempts)

    def _silent(self, unreadable: int, first_sent_ns: int, attempts: int) -> NoAnswerError:
        """Silence has kinds: nothing came, it came too late, or what came could not be read."""
        now_ns = self._now_ns()
        waited = f"{attempts} x {self.timing.timeout_ns / NS_PER_S:g} s"
        garbled = list(self._troubles)
        if self._arrivals and self._unreadable() > unreadable:
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


async def within(future: asyncio.Future[Answer | Refused | None], seconds: float) -> Answer | Refused | None:
    """Return what ``future`` is given within ``seconds``, else None: cheaper than a task for each question."""
    timer = future.get_loop().call_later(seconds, _give_up, future)
    try:
        return await future
    finally:
        timer.cancel()


def _give_up(future: asyncio.Future[Answer | Refused | None]) -> None:
    if not future.done():
        future.set_result(None)
