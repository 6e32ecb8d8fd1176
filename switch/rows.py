"""Read rows of a device: all of a port in one message, several ports a message, smaller when that is too big."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from protos.reading import Missing
from switch.exchange import ErrorStatus, Exchange, NoAnswerError
from switch.interpret import BindingChangedError, Device, Row, answered, interpret, requested
from switch.look import Look
from switch.mib import ESSENTIAL_COLUMNS, PORT_COLUMNS, Column, pack, port_octets
from switch.ports import PortFault, PortSample

FAILURES_THAT_END_A_LOOK = 2
"""Questions in a row without an answer, after which the rest is not asked: the device is gone."""


@dataclass(frozen=True, slots=True)
class Moved:
    """The row is gone or bears another name: resolve again. ``text`` says which."""

    text: str
    if_index: int


Entry: TypeAlias = "PortSample | PortFault | Moved"


class RowReader:
    """Reads rows and learns how many fit into one of this device's messages."""

    def __init__(self, device: Device, message_octets: int) -> None:
        self._device, self._message_octets = device, message_octets
        self._most_rows: int | None = None

    async def read(self, look: Look, rows: Sequence[Row]) -> dict[str, Entry]:
        """Return an entry for each of ``rows``, by port.

        A question without an answer voids only its own rows, unless nothing was answered yet, access was
        refused, or it was the second in a row: then the rest is given up with the same reason.
        """
        entries: dict[str, Entry] = {}
        for number, group in enumerate(self._groups(rows)):
            try:
                await self._read_group(look, group, PORT_COLUMNS, entries, table=not number)
            except NoAnswerError as error:  # noqa: PERF203  # one group's silence is not its neighbours'
                entries.update(_faults(group, error, entries))
                hopeless = error.reason is Missing.DENIED or not look.exchanges
                if hopeless or look.failures >= FAILURES_THAT_END_A_LOOK:
                    entries.update(_faults(rows, error, entries))
                    break
        return entries

    def _groups(self, rows: Sequence[Row]) -> list[Sequence[Row]]:
        sizes = [port_octets(row.if_name, row.if_index) for row in rows]
        groups: list[Sequence[Row]] = []
        for packed in pack(sizes, self._message_octets):
            step = self._most_rows or len(packed)
            groups += [rows[start : min(start + step, packed.stop)] for start in range(packed.start, packed.stop, step)]
        return groups

    async def _read_group(
        self,
        look: Look,
        rows: Sequence[Row],
        columns: Sequence[Column],
        entries: dict[str, Entry],
        *,
        table: bool = False,
    ) -> None:
        """Read some rows in one message, with ``table`` also what shows that the list of ports changed.

        1. Too big, or an error about the whole message: halve the rows until one is left, so that one port's
           trouble is not its neighbours'. What was too big is remembered for the next look.
        2. One row that is still too big: ask for what a reading needs; the rest is *truncated*.
        3. An answer to another question is worth nothing; a row that moved is for the caller to resolve.
        """
        oids = requested(rows, columns, table=table)
        exchange: Exchange | None = None
        try:
            exchange = await look.get(oids)
        except NoAnswerError as error:
            if error.reason is not Missing.TRUNCATED or (len(rows) == 1 and columns is not PORT_COLUMNS):
                raise
        if exchange is None or exchange.error_status != ErrorStatus.NO_ERROR:
            await self._read_less(look, rows, columns, exchange, entries, table=table)
            return
        bindings = answered(oids, exchange)
        for row in rows:
            if bindings is None:
                text = f"port {row.port!r}: the agent answered with other objects than it was asked for"
                entries[row.port] = _fault(row, Missing.MALFORMED, text, exchange)
                continue
            try:
                entries[row.port] = interpret(row, bindings, exchange, self._device)
            except BindingChangedError as error:
                entries[row.port] = Moved(str(error), row.if_index)

    async def _read_less(
        self,
        look: Look,
        rows: Sequence[Row],
        columns: Sequence[Column],
        exchange: Exchange | None,
        entries: dict[str, Entry],
        *,
        table: bool,
    ) -> None:
        """Ask for half of what failed: ``exchange`` says how, None that the question itself was too big.

        Some agents answer a question with one object that they lack by an error about all of it. So that what only
        shows a change of the list costs no port, it is left out first.
        """
        too_big = exchange is None or exchange.error_status == ErrorStatus.TOO_BIG
        if table and not too_big:
            await self._read_group(look, rows, columns, entries)
            return
        if len(rows) > 1:
            half = len(rows) // 2
            if too_big:
                self._most_rows = half if self._most_rows is None else min(half, self._most_rows)
                look.notes.append(f"{len(rows)} ports are too big for one message; asking for {half}")
            await self._read_group(look, rows[:half], columns, entries, table=table)
            await self._read_group(look, rows[half:], columns, entries)
        elif too_big and columns is PORT_COLUMNS:
            look.notes.append(f"port {rows[0].port!r}: all its values are too big for one message")
            await self._read_group(look, rows, ESSENTIAL_COLUMNS, entries)
        elif exchange is not None:
            entries[rows[0].port] = _refused(rows[0], exchange)


def _fault(row: Row, reason: Missing, text: str, exchange: Exchange) -> PortFault:
    return PortFault(row.port, reason, text, exchange.first_sent_ns, exchange.received_ns, row.if_index)


def _faults(rows: Sequence[Row], error: NoAnswerError, entries: dict[str, Entry]) -> dict[str, Entry]:
    return {
        row.port: PortFault(row.port, error.reason, error.text, error.first_sent_ns, error.gave_up_ns, row.if_index)
        for row in rows
        if row.port not in entries
    }


def _refused(row: Row, exchange: Exchange) -> PortFault:
    status = exchange.error_status
    where = f"port {row.port!r} (ifIndex {row.if_index})"
    if status == ErrorStatus.TOO_BIG:
        return _fault(row, Missing.TRUNCATED, f"{where}: even its octets alone are too big for a message", exchange)
    if status in (ErrorStatus.NO_ACCESS, ErrorStatus.AUTHORIZATION_ERROR):
        text = f"{where}: the agent refuses access; check the user's view on the switch"
        return _fault(row, Missing.DENIED, text, exchange)
    if status == ErrorStatus.NO_SUCH_NAME:
        return _fault(row, Missing.ABSENT, f"{where}: the agent does not have it", exchange)
    return _fault(row, Missing.MALFORMED, f"{where}: the agent failed with error status {status}", exchange)
