"""Doubles in memory: an agent that answers from a recorded walk, and a switch that replays recorded polls.

Both speak the seams that the real ones speak, so that everything above UDP can be tested without it.
"""

from __future__ import annotations

import asyncio
import bisect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from protos.reading import Missing
from switch.exchange import Exchange, NoAnswerError, Oid, Operation, ValueType, VarBind
from switch.mib import ENGINE_BOOTS, ENGINE_TIME, SYS_NAME, SYS_OBJECT_ID, SYS_UPTIME, Column
from switch.ports import Discovery, Poll, PortFault, PortSample


@dataclass(frozen=True, slots=True)
class RecordedPort:
    """One interface of a recorded agent; a value of None is a column that the agent does not have."""

    if_index: int
    name: bytes
    in_octets: int | None = 0
    out_octets: int | None = 0
    in_packets: int | None = 0
    out_packets: int | None = 0
    oper_status: int | None = 1
    high_speed: int | None = 10_000
    if_type: int | None = 6
    physical_address: bytes | None = b"\x02\x00\x00\x00\x00\x01"
    discontinuity: int | None = 0

    def rows(self) -> Iterable[VarBind]:
        """Return the port's row of ifTable and ifXTable as bindings."""
        counter64, gauge, integer = ValueType.COUNTER64, ValueType.GAUGE32, ValueType.INTEGER
        cells: tuple[tuple[Column, ValueType, int | bytes | None], ...] = (
            (Column.NAME, ValueType.OCTETS, self.name),
            (Column.HC_IN_OCTETS, counter64, self.in_octets),
            (Column.HC_OUT_OCTETS, counter64, self.out_octets),
            (Column.HC_IN_UCAST, counter64, self.in_packets),
            (Column.HC_OUT_UCAST, counter64, self.out_packets),
            (Column.HC_IN_MULTICAST, counter64, 0),
            (Column.HC_IN_BROADCAST, counter64, 0),
            (Column.HC_OUT_MULTICAST, counter64, 0),
            (Column.HC_OUT_BROADCAST, counter64, 0),
            (Column.HIGH_SPEED, gauge, self.high_speed),
            (Column.ALIAS, ValueType.OCTETS, b""),
            (Column.DISCONTINUITY, ValueType.TIMETICKS, self.discontinuity),
            (Column.TYPE, integer, self.if_type),
            (Column.PHYSICAL_ADDRESS, ValueType.OCTETS, self.physical_address),
            (Column.OPER_STATUS, integer, self.oper_status),
            (Column.LAST_CHANGE, ValueType.TIMETICKS, 0),
            (Column.IN_DISCARDS, ValueType.COUNTER32, 0),
            (Column.IN_ERRORS, ValueType.COUNTER32, 0),
            (Column.OUT_DISCARDS, ValueType.COUNTER32, 0),
            (Column.OUT_ERRORS, ValueType.COUNTER32, 0),
        )
        return (VarBind(column.of(self.if_index), kind, value) for column, kind, value in cells if value is not None)


def device_rows(uptime_ticks: int, *, boots: int = 1, name: bytes = b"switch") -> list[VarBind]:
    """Return what an agent says of itself."""
    return [
        VarBind(SYS_UPTIME, ValueType.TIMETICKS, uptime_ticks),
        VarBind(SYS_NAME, ValueType.OCTETS, name),
        VarBind(SYS_OBJECT_ID, ValueType.OID, (1, 3, 6, 1, 4, 1, 8072, 3, 2, 10)),
        VarBind(ENGINE_BOOTS, ValueType.INTEGER, boots),
        VarBind(ENGINE_TIME, ValueType.INTEGER, uptime_ticks // 100),
    ]


class RecordedAgent:
    """A :class:`switch.exchange.Channel` that answers from bindings, as RFC 3416 says an agent answers.

    Attributes:
        rows: what it answers from; replace it to let the device change.
        asked: every question, for tests of how much is asked.
        most_varbinds: bindings that fit into a message; beyond it a GET is too big and a GETBULK is cut short.
        silent: when set, every question ends with this.
    """

    def __init__(
        self,
        rows: Iterable[VarBind],
        now_ns: Callable[[], int],
        *,
        engine_id: str = "8000000001",
        host: str = "192.0.2.1",
    ) -> None:
        self.rows: Mapping[Oid, VarBind] = {binding.oid: binding for binding in rows}
        self._now_ns, self._engine_id, self._host = now_ns, engine_id, host
        self.asked: list[tuple[Operation, tuple[Oid, ...]]] = []
        self.most_varbinds: int | None = None
        self.silent: tuple[Missing, str] | None = None

    @property
    def host(self) -> str:
        """See :class:`switch.exchange.Channel`."""
        return self._host

    def close(self) -> None:
        """Nothing to let go of."""

    async def get(self, oids: Sequence[Oid]) -> Exchange:
        """Answer each instance, or with the exception that fits."""
        sent_ns = await self._hear(Operation.GET, oids)
        if self.most_varbinds is not None and len(oids) > self.most_varbinds:
            return self._exchange(Operation.GET, sent_ns, (), error_status=1)
        return self._exchange(Operation.GET, sent_ns, tuple(self.rows.get(oid) or self._lacking(oid) for oid in oids))

    async def get_bulk(self, oids: Sequence[Oid], max_repetitions: int) -> Exchange:
        """Answer with the successors of each of ``oids``, row by row."""
        sent_ns = await self._hear(Operation.GET_BULK, oids)
        ordered = sorted(self.rows)
        cursors, found = list(oids), []
        for _ in range(max_repetitions):
            for column, cursor in enumerate(cursors):
                place = bisect.bisect_right(ordered, cursor)
                if place == len(ordered):
                    found.append(VarBind(cursor, ValueType.END_OF_MIB_VIEW, None))
                else:
                    found.append(self.rows[ordered[place]])
                    cursors[column] = ordered[place]
        return self._exchange(Operation.GET_BULK, sent_ns, tuple(found[: self.most_varbinds]))

    async def _hear(self, operation: Operation, oids: Sequence[Oid]) -> int:
        self.asked.append((operation, tuple(oids)))
        sent_ns = self._now_ns()
        await asyncio.sleep(0)
        if self.silent is not None:
            raise NoAnswerError(*self.silent, sent_ns, self._now_ns())
        return sent_ns

    def _lacking(self, oid: Oid) -> VarBind:
        known = any(row[: len(oid) - 1] == oid[:-1] for row in self.rows)
        return VarBind(oid, ValueType.NO_SUCH_INSTANCE if known else ValueType.NO_SUCH_OBJECT, None)

    def _exchange(
        self, operation: Operation, sent_ns: int, varbinds: tuple[VarBind, ...], error_status: int = 0
    ) -> Exchange:
        return Exchange(
            operation, sent_ns, self._now_ns(), 1, self._engine_id, None, None, error_status, 0, b"", varbinds
        )


class RecordedSwitch:
    """A :class:`switch.reader.SwitchReader` that replays polls in order, then the last one for ever.

    ``read_ports`` returns of each poll what was asked for; a port it does not have is *absent*.
    """

    def __init__(self, name: str, polls: Sequence[Poll], discovery: Discovery | None = None) -> None:
        if not polls:
            raise ValueError("a recorded switch needs at least one poll")
        self._name, self._polls, self._discovery = name, list(polls), discovery

    @property
    def name(self) -> str:
        """The switch's name in the site file."""
        return self._name

    async def read_ports(self, names: Sequence[str]) -> Poll:
        """Return the next poll, cut down to ``names``."""
        await asyncio.sleep(0)
        poll = self._polls.pop(0) if len(self._polls) > 1 else self._polls[0]
        known = {entry.port: entry for entry in poll.ports}
        ports: list[PortSample | PortFault] = []
        for name in names:
            text = f"port {name!r}: not in the recording"
            ports.append(known.get(name) or PortFault(name, Missing.ABSENT, text, poll.first_sent_ns, poll.received_ns))
        return Poll(
            poll.switch, poll.first_sent_ns, poll.received_ns, poll.agent, tuple(ports), poll.exchanges, poll.notes
        )

    async def discover(self) -> Discovery:
        """Return the recorded discovery, or the next poll as one."""
        await asyncio.sleep(0)
        return self._discovery or Discovery(self._polls[0], complete=True)

    async def close(self) -> None:
        """Nothing to let go of."""
