"""One question put to an agent and its answer, exactly as it came.

An :class:`Exchange` is evidence: the datagram as received, the variable bindings decoded from it, and the
controller's times around it. It knows SNMP but no library; :mod:`switch.engine` makes exchanges over UDP and
:mod:`switch.recorded` from memory.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol, TypeAlias

from protos.reading import Missing

Oid: TypeAlias = "tuple[int, ...]"


class ValueType(enum.Enum):
    """The SMI types and exceptions a binding can hold (RFC 2578, section 7.1; RFC 3416, section 3)."""

    INTEGER = "integer"
    COUNTER32 = "counter32"
    GAUGE32 = "gauge32"
    TIMETICKS = "timeticks"
    COUNTER64 = "counter64"
    OCTETS = "octets"
    OID = "oid"
    IP_ADDRESS = "ip-address"
    OPAQUE = "opaque"
    NULL = "null"
    NO_SUCH_OBJECT = "no-such-object"
    NO_SUCH_INSTANCE = "no-such-instance"
    END_OF_MIB_VIEW = "end-of-mib-view"
    UNKNOWN = "unknown"


NUMBERS = frozenset(
    {ValueType.INTEGER, ValueType.COUNTER32, ValueType.GAUGE32, ValueType.TIMETICKS, ValueType.COUNTER64}
)
OCTET_STRINGS = frozenset({ValueType.OCTETS, ValueType.IP_ADDRESS, ValueType.OPAQUE})
EXCEPTIONS = frozenset({ValueType.NO_SUCH_OBJECT, ValueType.NO_SUCH_INSTANCE, ValueType.END_OF_MIB_VIEW})


class ErrorStatus(enum.IntEnum):
    """The error status of a response (RFC 3416, section 3)."""

    NO_ERROR = 0
    TOO_BIG = 1
    NO_SUCH_NAME = 2
    BAD_VALUE = 3
    READ_ONLY = 4
    GEN_ERR = 5
    NO_ACCESS = 6
    RESOURCE_UNAVAILABLE = 13
    AUTHORIZATION_ERROR = 16


class Operation(enum.Enum):
    """What was asked."""

    GET = "get"
    GET_BULK = "get-bulk"


class VarBind(NamedTuple):
    """One variable binding: ``value`` is an int, bytes, an object identifier, or None by its type.

    A tuple, because a fleet makes a hundred thousand of them a second.
    """

    oid: Oid
    type: ValueType
    value: int | bytes | Oid | None


@dataclass(frozen=True, slots=True)
class Exchange:
    """A request and the response that answered it.

    Attributes:
        operation: what was asked.
        first_sent_ns: controller's timeline, just before the *first* transmission of this request.
        received_ns: controller's timeline, just after the answering datagram was read.
        attempts: how many times the request was sent.
        engine_id: authoritative engine that answered, hex; empty where the protocol has none (v2c).
        engine_boots: snmpEngineBoots from the authenticated message header (RFC 3414, section 2.2), or None.
        engine_time_s: snmpEngineTime from the same header in seconds, or None.
        error_status: of the response; 0 is no error.
        error_index: the binding the error is about, from 1; 0 is none.
        datagram: the whole message as received.
        varbinds: the bindings decoded from it, in order.
    """

    operation: Operation
    first_sent_ns: int
    received_ns: int
    attempts: int
    engine_id: str
    engine_boots: int | None
    engine_time_s: int | None
    error_status: int
    error_index: int
    datagram: bytes
    varbinds: tuple[VarBind, ...]


class NoAnswerError(Exception):
    """A question got no usable answer. ``str()`` says why in a sentence; ``reason`` is its type."""

    def __init__(self, reason: Missing, text: str, first_sent_ns: int, gave_up_ns: int, attempts: int = 1) -> None:
        self.reason, self.text = reason, text
        self.first_sent_ns, self.gave_up_ns, self.attempts = first_sent_ns, gave_up_ns, attempts
        super().__init__(text)


class Channel(Protocol):
    """Puts questions to one agent. The transport's seam: UDP in service, memory in tests."""

    @property
    def host(self) -> str:
        """The agent's address, numeric once it is known."""

    def close(self) -> None:
        """Let go of the agent."""

    async def get(self, oids: Sequence[Oid]) -> Exchange:
        """Ask for exactly these instances in one message.

        Raises:
            NoAnswerError: no answer, an answer that cannot be trusted, or access refused.
        """

    async def get_bulk(self, oids: Sequence[Oid], max_repetitions: int) -> Exchange:
        """Ask for up to ``max_repetitions`` successors of each of ``oids`` in one message.

        Raises:
            NoAnswerError: as :meth:`get`.
        """


def dotted(oid: Oid) -> str:
    """Return ``oid`` as people write it, for example ``1.3.6.1.2.1.1.3.0``."""
    return ".".join(map(str, oid))
