"""Polls a switch: its declared ports and every other port that it has, so that an undeclared path is seen.

Most looks ask for known ports by explicit instance. Every so often one is a *discovery*: it walks the device's own
list of ports, which finds what nobody declared; from then on that port is asked for like any other.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import TypeAlias

from controller.collect.attempts import Look, LookFailed, Reason
from controller.collect.pace import NS_PER_S, Backoff, Steady
from controller.collect.recorder import Recorder
from controller.errors import InternalError
from controller.journal import JsonValue, Kind, NewEntry
from controller.site import Snmp3, Switch
from controller.site_secrets import read_secret
from protos.reading import Missing
from switch.connect import SnmpClients
from switch.discovery import classify
from switch.effort import Effort
from switch.interpret import Device
from switch.ports import Discovery, Poll
from switch.reader import SwitchReader
from switch.record import encode
from switch.security import Authentication, Endpoint, InsecureCommunity, Privacy, Security, UserSecurity
from switch.tablemarks import TableMarks, marks_of
from switch.workers import SwitchWorkers, WorkerError

ReaderFactory: TypeAlias = "Callable[[Switch], SwitchReader]"

DISCOVERY_INTERVAL_NS = 10 * NS_PER_S
"""An undeclared port is found within this, on a switch whose list of ports is short enough; within one poll where the
switch says that its table of interfaces changed."""

DISCOVERY_SHARE = 10
"""A discovery that takes long is made rarer: at most one part in so many of the time goes into them."""

_REASONS = {
    Missing.TIMEOUT: Reason.TIMEOUT,
    Missing.DENIED: Reason.AUTH,
    Missing.MALFORMED: Reason.MALFORMED,
    Missing.TRUNCATED: Reason.MALFORMED,
    Missing.ABSENT: Reason.MISSING_PORTS,
    Missing.UNSUPPORTED: Reason.MISSING_PORTS,
}


@asynccontextmanager
async def snmp_readers(
    now_ns: Callable[[], int], *, offset_ns: int = 0, processes: int = 0
) -> AsyncIterator[ReaderFactory]:
    """Yield a function that makes the reader of a switch over SNMP; all share one set of sockets.

    With ``processes``, that many read the switches instead of this one; ``offset_ns`` added to CLOCK_MONOTONIC is then
    the timeline. The function raises OperatorError for a secret that cannot be read.
    """
    clients = SwitchWorkers(offset_ns, processes) if processes else SnmpClients(now_ns)

    def make(switch: Switch) -> SwitchReader:
        endpoint = Endpoint(switch.address.host, switch.address.port)
        device = Device(switch.refresh_ns, switch.framing)
        return clients.connect(switch.name, endpoint, security_of(switch), device, client=switch.client)

    try:
        yield make
    finally:
        await clients.close()


def security_of(switch: Switch) -> Security:
    """Return how a switch of the site file is spoken to.

    Raises:
        OperatorError: a secret cannot be read.
    """
    snmp = switch.snmp
    if isinstance(snmp, Snmp3):
        return UserSecurity(
            snmp.user,
            Authentication(snmp.auth),
            read_secret(snmp.auth_key_file),
            Privacy(snmp.privacy),
            read_secret(snmp.privacy_key_file),
            f"{snmp.place}: user `{snmp.user}`, pass phrases in {snmp.auth_key_file} and {snmp.privacy_key_file}",
        )
    return InsecureCommunity(read_secret(snmp.community_file), insecure=True)


class SwitchCollector:
    """Polls one switch until cancelled. Looks never overlap."""

    def __init__(
        self,
        reader: SwitchReader,
        declared: Mapping[str, str | None],
        *,
        recorder: Recorder,
        interval_ns: int,
        effort: Effort | None = None,
    ) -> None:
        """``declared`` are the ports of the site file: the role of those that are no links, None for links.

        ``effort`` is told of every look.
        """
        self._effort = effort if effort is not None else Effort()
        self._reader, self._declared = reader, dict(declared)
        self._recorder, self._interval_ns = recorder, interval_ns
        self._others: tuple[str, ...] = ()
        self._discovered_ns: int | None = None
        self._discovery_lasted_ns = 0
        self._listed: TableMarks | None = None
        self._table_changed = False
        self._answered = False
        self._said: set[str] = set()

    async def run(self) -> None:
        """Look at the interval; after failures wait longer. Never returns.

        Raises:
            InternalError: the process that reads the switch cannot be kept alive.
        """
        steady = Steady(self._interval_ns, self._recorder.rng)
        backoff = Backoff(self._recorder.rng)
        try:
            while True:
                await asyncio.sleep(steady.wait_s(self._recorder.now_ns()))
                if await self.look():
                    backoff.reset()
                else:
                    await asyncio.sleep(backoff.next_s())
        except WorkerError as error:
            raise InternalError(f"{error}; `poll_processes: 0` in the site file does without") from error
        finally:
            await self._reader.close()

    async def look(self) -> bool:
        """Look once and journal what came, or why nothing did; return whether something did.

        1. A discovery if one is due and the switch answered the look before; else, or if the list of ports cannot be
           read, the known ports.
        2. A look that read no port is a failed one. One that read some is journaled as it is, faults included.
        3. After a discovery, take up the ports that nobody declared.
        """
        began_ns = self._recorder.now_ns()
        try:
            if not (self._answered and self._discovery_due(began_ns) and await self._discover(began_ns)):
                poll = await self._reader.read_ports([*self._declared, *self._others])
                self._effort.add(poll)
                _refuse_empty(poll)
                await self._keep(poll, {})
                self._tell_faults(poll)
                self._table_changed = self._listed is not None and marks_of(poll.exchanges).differ(self._listed)
        except LookFailed as failure:
            self._answered = False
            await self._recorder.failed(self._reader.name, failure, first_sent_ns=began_ns)
            return False
        self._answered = True
        self._recorder.narrator.well(self._reader.name, Look.POLL.value, "the switch answers")
        return True

    def _discovery_due(self, now_ns: int) -> bool:
        if self._discovered_ns is None:
            return True
        share_ns = DISCOVERY_SHARE * self._discovery_lasted_ns
        spacing_ns = share_ns if self._table_changed else max(DISCOVERY_INTERVAL_NS, share_ns)
        return now_ns - self._discovered_ns >= spacing_ns

    async def _discover(self, began_ns: int) -> bool:
        """Read and journal every port of the switch; False if there is no list of them."""
        discovery = await self._reader.discover()
        self._effort.add(discovery.poll)
        self._discovered_ns = self._recorder.now_ns()
        self._discovery_lasted_ns = self._discovered_ns - began_ns
        self._table_changed = False
        if not discovery.poll.samples:
            text = f"the list of its ports cannot be read: {discovery.text}; an undeclared port would go unseen"
            self._recorder.narrator.trouble(self._reader.name, "list of ports", "unread", text)
            return False
        about: dict[str, JsonValue] = {"discovery": True, "complete": discovery.complete, "text": discovery.text}
        await self._keep(discovery.poll, about)
        self._listed = marks_of(discovery.poll.exchanges)
        self._take_up(discovery)
        return True

    async def _keep(self, poll: Poll, more: Mapping[str, JsonValue]) -> None:
        times = {"first_sent_ns": str(poll.first_sent_ns), "received_ns": str(poll.received_ns)}
        meta: dict[str, JsonValue] = {**times, **more}
        await self._recorder.keep(NewEntry(Kind.POLL, self._reader.name, self._recorder.now_ns(), encode(poll), meta))
        for note in poll.notes:
            if note not in self._said:
                self._said.add(note)
                self._recorder.narrator.say(f"{self._reader.name}: {note}")

    def _tell_faults(self, poll: Poll) -> None:
        narrator = self._recorder.narrator
        faults = [fault for fault in poll.faults if fault.port in self._declared]
        for fault in faults:
            narrator.trouble(self._reader.name, f"port {fault.port}", fault.reason.value, fault.text)
        for sample in poll.samples:
            if sample.port in self._declared:
                narrator.well(self._reader.name, f"port {sample.port}", f"port {sample.port} is read")

    def _take_up(self, discovery: Discovery) -> None:
        """From now on ask for every port whose bytes are counted nowhere else."""
        narrator, name = self._recorder.narrator, self._reader.name
        roles = {port: role for port, role in self._declared.items() if role is not None}
        kinds = classify(discovery.poll.ports, discovery.poll.agent, roles)
        self._others = tuple(
            port for port, kind in kinds.items() if port not in self._declared and kind.kind.carries_bytes_of_its_own
        )
        up = {sample.port for sample in discovery.poll.samples if sample.operational}
        for port in self._others:
            if port in up:
                narrator.trouble(name, f"undeclared {port}", "up", f"port {port} is up and not in the site file")
            elif port in self._said:
                narrator.well(name, f"undeclared {port}", f"port {port} is down")
        if discovery.complete:
            narrator.well(name, "list of ports", f"{len(discovery.poll.ports)} ports listed")
        else:
            narrator.trouble(name, "list of ports", "incomplete", f"the list of ports ended early: {discovery.text}")


def _refuse_empty(poll: Poll) -> None:
    """Return if any port was read.

    Raises:
        LookFailed: none was, for the reason of the first.
    """
    fault = poll.failure
    if fault is not None:
        raise LookFailed(Look.POLL, _REASONS[fault.reason], f"switch {poll.switch} was not read: {fault.text}")
