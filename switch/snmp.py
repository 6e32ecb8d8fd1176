"""Reads the ports of one switch over SNMP, so that a sample is right or says why it is not.

Expected ports are asked for by explicit instance, never by a walk: a walk that stops early looks like a device
with fewer ports. A walk only finds where a name is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace

from protos.reading import Missing
from switch.bindings import Bindings, Unresolved
from switch.exchange import Channel, NoAnswerError, ValueType, dotted
from switch.forwarding import BRIDGE_PORT_INTERFACE, FORWARDING_PORT, MOST_REQUESTS, VLAN_FORWARDING_PORT
from switch.interpret import Device, Row, text
from switch.lldp import LOCAL_PORT_ENTRY, REMOTE_ENTRY
from switch.look import Look
from switch.mib import LINUX_AGENT, MESSAGE_OCTETS, SYS_NAME, SYS_OBJECT_ID, address_instances
from switch.names import find_names
from switch.ports import Agent, Discovery, OperStatus, Poll, PortFault, PortSample, Value
from switch.rows import Entry, Moved, RowReader
from switch.security import Timing
from switch.walk import walk_column

_NEVER = Bindings({}, -(2**63))


class SnmpSwitch:
    """A :class:`switch.reader.SwitchReader` over a :class:`switch.exchange.Channel`."""

    def __init__(
        self,
        name: str,
        channel: Channel,
        device: Device,
        now_ns: Callable[[], int],
        *,
        timing: Timing | None = None,
        message_octets: int = MESSAGE_OCTETS,
    ) -> None:
        self._name, self._channel, self._device, self._now_ns = name, channel, device, now_ns
        self._deadline_ns = (timing or Timing()).deadline_ns
        self._rows = RowReader(device, message_octets)
        self._bindings = _NEVER
        self._last_index: dict[str, int] = {}
        self._successor: dict[str, int] = {}
        self._agent = Agent()
        self._lock = asyncio.Lock()

    @property
    def name(self) -> str:
        """The switch's name in the site file."""
        return self._name

    async def close(self) -> None:
        """Let go of the device."""
        self._channel.close()

    async def read_ports(self, names: Sequence[str]) -> Poll:
        """See :meth:`switch.reader.SwitchReader.read_ports`.

        1. Know where each name is: walk ifName at the first look.
        2. Ask for all of a port in one message, as many ports a message as fit; the name is checked in it.
        3. Resolve anew what is in doubt, and read again what moved: a row that vanished or bears another name,
           a name that is nowhere, and a port that is not up. A deleted interface may linger as a frozen row
           that is down while its successor counts elsewhere; its counters would say that nothing passed.
        """
        async with self._lock:
            look = Look(self._channel, self._deadline_ns, self._now_ns)
            wanted = list(dict.fromkeys(names))
            entries: dict[str, Entry] = {}
            try:
                if self._bindings is _NEVER:
                    await self._resolve(look, wanted)
                unresolved = await self._read_named(look, wanted, entries)
                doubtful = [port for port in wanted if self._in_doubt(look, entries.get(port))]
                if doubtful:
                    await self._read_doubtful(look, doubtful, entries)
                entries = {**unresolved, **entries}
            except NoAnswerError as error:
                for port in wanted:
                    fault = PortFault(port, error.reason, error.text, error.first_sent_ns, error.gave_up_ns)
                    entries.setdefault(port, fault)
            return self._poll(look, [self._final(entries[port], port, look) for port in names])

    async def discover(self) -> Discovery:
        """See :meth:`switch.reader.SwitchReader.discover`.

        1. Walk ifName anew, and ifType beside it: a row that only one of them has shows a walk that stopped early
           (:mod:`switch.names`).
        2. Read every row as :meth:`read_ports` does; leave out the old rows of re-created interfaces.
        3. Ask who is at the other end of the cables (LLDP-MIB) and which addresses are behind the ports (BRIDGE-MIB);
           :mod:`switch.lldp` and :mod:`switch.forwarding` read it from the answers. An agent that does not know
           costs three questions, and one that fails is only noted.
        """
        async with self._lock:
            look = Look(self._channel, self._deadline_ns, self._now_ns)
            try:
                bindings = await self._resolve(look)
            except NoAnswerError as error:
                return Discovery(self._poll(look, []), complete=False, text=error.text, reason=error.reason)
            for name in bindings.ambiguous():
                await self._find_successor(look, name)
            rows = [row for row in map(self._unless_old, bindings.ports()) if row is not None]
            entries = await self._rows.read(look, rows)
            await _ask_for_neighbours(look)
            await _ask_for_stations(look)
            poll = self._poll(look, [self._final(entries[row.port], row.port, look) for row in rows])
            return Discovery(poll, complete=not bindings.shortfall, text=bindings.shortfall)

    async def _resolve(self, look: Look, wanted: Sequence[str] | None = None) -> Bindings:
        """Learn the device's names and what it is; the list need not be whole if it has the ``wanted`` ones.

        Raises:
            NoAnswerError: the table of names could not be read to its end.
        """

        def enough(found: Bindings) -> bool:
            return wanted is not None and not any(
                isinstance(row, Unresolved) and row.reason is Missing.ABSENT for row in map(found.resolve, wanted)
            )

        try:
            self._bindings = await find_names(look, self._bindings.indexes, self._now_ns, enough=enough)
        except NoAnswerError as error:
            said = f"{self._name}: its table of port names could not be read: {error.text}"
            raise NoAnswerError(error.reason, said, error.first_sent_ns, error.gave_up_ns) from error
        for name, indexes in self._bindings.ambiguous().items():
            look.notes.append(f"{len(indexes)} rows bear the name {name!r}: ifIndex {', '.join(map(str, indexes))}")
        await self._describe(look)
        return self._bindings

    async def _describe(self, look: Look) -> None:
        instances = address_instances(look.host)
        exchange = await look.get([SYS_NAME, SYS_OBJECT_ID, *instances])
        found = {binding.oid: binding for binding in exchange.varbinds}
        maker = found.get(SYS_OBJECT_ID)
        management: Value = Missing.ABSENT
        for instance in instances:
            holder = found.get(instance)
            if holder is not None and holder.type is ValueType.INTEGER and isinstance(holder.value, int):
                management = holder.value
                break
        self._agent = Agent(
            engine_id=exchange.engine_id,
            system_name=text(found.get(SYS_NAME)),
            object_id=dotted(maker.value) if maker and isinstance(maker.value, tuple) else Missing.UNSUPPORTED,
            management_if_index=management,
        )

    def _row(self, port: str) -> Row | Unresolved:
        row = self._bindings.resolve(port)
        chosen = self._successor.get(port)
        if isinstance(row, Unresolved) and chosen is not None and chosen in self._bindings.rows.get(port, ()):
            return Row(port, port, chosen)
        return row

    def _unless_old(self, row: Row) -> Row | None:
        """Return the row under the name that ``read_ports`` finds it by, or None for what a re-creation left."""
        chosen = self._successor.get(row.if_name)
        if chosen is None or len(self._bindings.rows[row.if_name]) < 2:
            return row
        return Row(row.if_name, row.if_name, row.if_index) if row.if_index == chosen else None

    def _in_doubt(self, look: Look, entry: Entry | None) -> bool:
        """Whether the port must be resolved anew before anything is said of it."""
        if isinstance(entry, Moved):
            return True
        if isinstance(entry, PortFault):
            return False
        if entry is not None and entry.oper_status == OperStatus.UP:
            return False
        asked_ns = look.started_ns if entry is None else entry.first_sent_ns
        return self._bindings.resolved_ns < asked_ns - self._device.refresh_ns

    async def _read_named(self, look: Look, ports: Sequence[str], entries: dict[str, Entry]) -> dict[str, PortFault]:
        """Read the ports that have a row; return faults for those that have none."""
        rows: list[Row] = []
        unresolved: dict[str, PortFault] = {}
        for port in ports:
            if isinstance(self._row(port), Unresolved) and self._bindings.resolved_ns >= look.started_ns:
                await self._find_successor(look, port)
            row = self._row(port)
            if isinstance(row, Row):
                rows.append(row)
            else:
                unresolved[port] = PortFault(port, row.reason, row.text, look.started_ns, self._now_ns())
        entries.update(await self._rows.read(look, rows))
        for port in ports:
            entry = entries.get(port)
            if isinstance(entry, PortSample):
                self._last_index[port] = entry.identity.if_index
        return unresolved

    async def _read_doubtful(self, look: Look, doubtful: Sequence[str], entries: dict[str, Entry]) -> None:
        """Resolve anew; keep a sample whose row is still the only one of its name, read the others again."""
        try:
            await self._resolve(look, doubtful)
        except NoAnswerError as error:
            for port in doubtful:
                said = f"port {port!r}: cannot tell which row it is now: {error.text}"
                entries[port] = PortFault(port, error.reason, said, error.first_sent_ns, error.gave_up_ns)
            return
        moved: list[str] = []
        for port in doubtful:
            self._successor.pop(port, None)
            row, entry = self._row(port), entries.get(port)
            kept = isinstance(entry, PortSample) and isinstance(row, Row) and entry.identity.if_index == row.if_index
            if not kept:
                entries.pop(port, None)
                moved.append(port)
        entries.update(await self._read_named(look, moved, entries))

    async def _find_successor(self, look: Look, port: str) -> None:
        """Settle which of several rows of one name is the port, if it was re-created.

        net-snmp keeps a deleted interface's row for up to 300 s, down and frozen, beside its successor's. Exactly
        one row must be up, and the others must be read and not be. That is enough on Linux, where the kernel
        lets only one interface bear a name; elsewhere, two ports may share a name for good, so there we must
        have read the port at one of the other rows before, and the one that is up must be numbered later.
        """
        indexes = self._bindings.rows.get(port, ())
        if len(indexes) < 2:
            return
        rows = [Row(f"{port}#{if_index}", port, if_index) for if_index in indexes]
        found = [entry for entry in (await self._rows.read(look, rows)).values() if isinstance(entry, PortSample)]
        up = [entry.identity.if_index for entry in found if entry.operational]
        if len(up) != 1 or len(found) != len(rows):
            return
        previous = self._last_index.get(port)
        known = previous is not None and previous in indexes and up[0] > previous
        if known or self._agent.object_id == LINUX_AGENT:
            self._successor[port] = up[0]
            old = ", ".join(str(if_index) for if_index in indexes if if_index != up[0])
            look.notes.append(f"port {port!r}: re-created; ifIndex {up[0]} is its row now, {old} an old one")

    def _final(self, entry: Entry, port: str, look: Look) -> PortSample | PortFault:
        """Return what the caller gets of an entry.

        A port that is not up may have a successor since the names were last walked, and the walk itself saw the
        device as it was up to a refresh period before. So such a sample claims to be true only from then on:
        until then surely nothing else counted under its name.
        """
        if isinstance(entry, Moved):
            return PortFault(port, Missing.ABSENT, entry.text, look.started_ns, self._now_ns(), entry.if_index)
        if isinstance(entry, PortSample) and entry.oper_status != OperStatus.UP:
            age_ns = entry.first_sent_ns - self._bindings.resolved_ns + self._device.refresh_ns
            return replace(entry, refresh_ns=max(entry.refresh_ns, age_ns))
        return entry

    def _poll(self, look: Look, ports: Sequence[PortSample | PortFault]) -> Poll:
        first = min((exchange.first_sent_ns for exchange in look.exchanges), default=look.started_ns)
        return Poll(
            switch=self._name,
            first_sent_ns=first,
            received_ns=self._now_ns(),
            agent=self._agent,
            ports=tuple(ports),
            exchanges=tuple(look.exchanges),
            notes=tuple(look.notes),
        )


async def _ask_for_neighbours(look: Look) -> None:
    remote = await walk_column(look, REMOTE_ENTRY)
    if remote.rows and remote.reason is None:
        remote = await walk_column(look, LOCAL_PORT_ENTRY)
    if remote.reason is not None:
        look.notes.append(f"who is at the other end of the cables could not be read: {remote.text}")


async def _ask_for_stations(look: Look) -> None:
    walk = await walk_column(look, VLAN_FORWARDING_PORT, most_requests=MOST_REQUESTS)
    if not walk.rows and walk.reason is None:
        walk = await walk_column(look, FORWARDING_PORT, most_requests=MOST_REQUESTS)
    if walk.rows:
        ports = await walk_column(look, BRIDGE_PORT_INTERFACE)
        walk = ports if walk.reason is None else walk
    if walk.reason is not None:
        look.notes.append(f"which addresses are behind its ports could not be read to the end: {walk.text}")
