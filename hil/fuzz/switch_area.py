"""What the switch reader reads of agents: whatever octets come in, only its two errors go out."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Mapping

from protos.reading import Framing
from switch import record, varbinds
from switch.ber import OCTET_STRING, BerError, element, integer
from switch.bindings import bind
from switch.exchange import Exchange, Operation
from switch.forwarding import stations
from switch.interpret import Device
from switch.lldp import neighbours
from switch.message import (
    RESPONSE,
    read_ciphertext,
    read_outer,
    read_protected,
    read_scoped,
    read_v2c,
    scoped,
    write_v2c,
    write_v3,
)
from switch.mib import PORT_COLUMNS
from switch.record import RecordError
from switch.recorded import RecordedAgent, RecordedPort, device_rows
from switch.snmp import SnmpSwitch
from switch.tablemarks import marks_of

_OIDS = [column.of(2) for column in PORT_COLUMNS]


def _message(raw: bytes) -> None:
    outer = read_outer(raw)
    if outer.flags:
        read_ciphertext(raw, read_protected(raw, outer).content)
    else:
        read_v2c(raw, outer)


def _answers(raw: bytes) -> None:
    """Everything that is read from the bindings of an answer, whoever asked."""
    bindings = varbinds.decode(raw, 0, len(raw))
    exchange = Exchange(Operation.GET_BULK, 0, 1, 1, "", None, None, 0, 0, b"", bindings)
    bind((binding for binding in bindings if binding.oid), 0).ports()
    neighbours([exchange], [])
    stations([exchange], [])
    marks_of([exchange])


def _record(raw: bytes) -> None:
    poll = record.decode(raw)
    if record.decode(record.encode(poll)) != poll:
        raise AssertionError("a record does not survive")


TARGETS: Mapping[str, Callable[[bytes], object]] = {
    "message": _message,
    "scoped": lambda raw: read_scoped(raw, 0),
    "bindings": lambda raw: varbinds.decode(raw, 0, len(raw)),
    "answers": _answers,
    "record": _record,
}
"""Each takes any bytes; :class:`BerError` and :class:`RecordError` are its only answers but silence."""

EXPECTED = (BerError, RecordError)


def seeds(target: str) -> list[bytes]:
    """Return what to begin with: a question and its answer as this project writes them, a poll as it is journaled."""
    names = varbinds.encode_names(_OIDS)
    pdu = element(RESPONSE, integer(7) + integer(0) + integer(0) + names)
    content = scoped(b"\x80\x00\x00\x00\x01", pdu)
    encrypted = element(OCTET_STRING, content)
    v3, _ = write_v3(7, 1_400, 3, engine_id=b"\x80\x00\x00\x00\x01", user=b"u", salt=bytes(8), content=encrypted)
    found = {"message": [write_v2c(b"public", pdu), v3], "scoped": [content], "bindings": [names], "answers": [names]}
    return found[target] if target in found else [_poll()]


def _poll() -> bytes:
    clock = itertools.count(1_000, 1_000)
    rows = [*device_rows(1_000), *RecordedPort(2, b"eth1", in_octets=2**53 + 1).rows()]
    agent = RecordedAgent(rows, lambda: next(clock))
    switch = SnmpSwitch("sw1", agent, Device(3, Framing.L2_WITH_FCS), lambda: next(clock))
    return record.encode(asyncio.run(switch.read_ports(["eth1", "gone"])))
