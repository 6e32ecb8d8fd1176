"""Polls one switch for a person or a script: from the site file or from an address, printed and not journaled."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from controller.collect.switches import security_of
from controller.errors import OperatorError
from controller.site import load
from controller.site_secrets import SNMP_PASS_PHRASE_CHARACTERS, read_secret
from controller.site_values import split_address
from protos.reading import Framing, Missing
from protos.units import format_duration
from switch.connect import SnmpClients
from switch.continuity import Plausibility
from switch.effort import Effort
from switch.interpret import Device
from switch.line import fault_line, sample_line, unlisted_line
from switch.polling import polls
from switch.ports import Discovery, Poll, PortSample
from switch.refresh import learn_refresh
from switch.security import (
    Authentication,
    Client,
    Endpoint,
    InsecureCommunity,
    Privacy,
    Security,
    SecurityError,
    UserSecurity,
)
from switch.watch import EpochWatch

SNMP_PORT = 161

SAMPLES_KEPT = 600
"""Of each port and epoch, to learn the refresh period from: ten minutes at one poll a second."""


@dataclass(frozen=True, slots=True)
class Target:
    """A switch to read.

    Attributes:
        name: what its lines are headed with.
        endpoint: where it listens.
        security: how it is spoken to.
        device: its refresh period and framing.
        client: what makes and reads the messages.
        ports: what to read where nothing else is said; empty for every port it has.
    """

    name: str
    endpoint: Endpoint
    security: Security
    device: Device
    client: Client = Client.PYSNMP
    ports: tuple[str, ...] = ()

    @classmethod
    def at(
        cls,
        address: str,
        *,
        user: str | None,
        auth_key_file: Path | None,
        privacy_key_file: Path | None,
        auth: str,
        privacy: str,
        community: str | None,
        insecure: bool,
        refresh_ns: int,
        framing: Framing,
        client: Client = Client.PYSNMP,
    ) -> Target:
        """Return the switch at ``address``, as the options of a command describe it.

        Raises:
            OperatorError: options are missing, contradict each other or cannot be used.
        """
        endpoint = _endpoint(address)
        if (user is None) == (community is None):
            raise OperatorError(
                "how is the switch to be asked? Give --user with --auth-key-file and --priv-key-file (SNMPv3), "
                "or --community with --insecure (SNMPv2c)"
            )
        try:
            security: Security
            if community is not None:
                security = InsecureCommunity(community, insecure=insecure)
            elif user is None or auth_key_file is None or privacy_key_file is None:
                raise OperatorError("--user needs --auth-key-file and --priv-key-file: SNMPv3 is read with both or not")
            else:
                security = UserSecurity(
                    user,
                    Authentication(auth),
                    read_secret(auth_key_file, SNMP_PASS_PHRASE_CHARACTERS),
                    Privacy(privacy),
                    read_secret(privacy_key_file, SNMP_PASS_PHRASE_CHARACTERS),
                    f"--user {user}, pass phrases in {auth_key_file} and {privacy_key_file}",
                )
        except SecurityError as error:
            raise OperatorError(f"{error}") from error
        return cls(str(endpoint), endpoint, security, Device(refresh_ns, framing), client)


def named(site_file: Path, name: str, client: Client | None = None) -> Target:
    """Return the switch ``name`` of a site file, with its declared ports in the file's order.

    ``client`` is used instead of the file's.

    Raises:
        OperatorError: as :func:`controller.site.load`, or the site has no such switch.
    """
    site = load(site_file)
    switch = site.switch(name)
    ports = [link.port for link in site.links_of(name)] + [other.port for other in switch.other_ports]
    endpoint = Endpoint(switch.address.host, switch.address.port)
    device = Device(switch.refresh_ns, switch.framing)
    return Target(name, endpoint, security_of(switch), device, client or switch.client, tuple(ports))


def run_polls(
    target: Target,
    ports: Sequence[str],
    *,
    interval_ns: int,
    count: int,
    show: Callable[[dict[str, Any]], None],
    say: Callable[[str], None],
    effort_too: bool = False,
) -> bool:
    """Poll ``target`` ``count`` times; return whether any port was read.

    Times are this machine's: the monotonic clock, set to the wall clock's time when the command began.

    Args:
        target: the switch.
        ports: what to read; empty for every port it has.
        interval_ns: from the start of one poll to that of the next.
        count: how many polls.
        show: takes each line, see :mod:`switch.line`.
        say: takes sentences for a person: what the device is like and what the polls cost.
        effort_too: what the polls cost is shown as a last line as well.

    Raises:
        OperatorError: the switch refuses the user or a pass phrase, and nothing was read.
    """
    read, effort = asyncio.run(_run(target, ports, interval_ns=interval_ns, count=count, show=show, say=say))
    if effort_too:
        show(effort.line(target.name))
    return read


async def _run(
    target: Target,
    ports: Sequence[str],
    *,
    interval_ns: int,
    count: int,
    show: Callable[[dict[str, Any]], None],
    say: Callable[[str], None],
) -> tuple[bool, Effort]:
    offset_ns = time.time_ns() - time.monotonic_ns()

    def now_ns() -> int:
        return time.monotonic_ns() + offset_ns

    clients = SnmpClients(now_ns)
    watches: dict[str, EpochWatch] = {}
    kept: dict[tuple[str, int], deque[PortSample]] = {}
    effort, said, number, denied = Effort(), set[str](), 0, ""
    reader = clients.connect(target.name, target.endpoint, target.security, target.device, client=target.client)
    try:
        async for look in polls(reader, ports, interval_ns=interval_ns, count=count, now_ns=now_ns):
            number += 1
            poll = look.poll if isinstance(look, Discovery) else look
            effort.add(poll)
            denied = _denied(look) or denied
            if isinstance(look, Discovery) and not poll.ports:
                show(unlisted_line(target.name, number, look))
            elif isinstance(look, Discovery) and not look.complete:
                _tell(f"the list of ports may not be whole: {look.text}", said, say)
            for note in poll.notes:
                _tell(note, said, say)
            for entry in poll.ports:
                if isinstance(entry, PortSample):
                    watch = watches.setdefault(entry.port, EpochWatch(Plausibility()))
                    epoch = watch.take(entry)
                    show(sample_line(target.name, number, entry, epoch))
                    kept.setdefault((entry.port, epoch.number), deque(maxlen=SAMPLES_KEPT)).append(entry)
                else:
                    show(fault_line(target.name, number, entry))
    finally:
        await reader.close()
        await clients.close()
    if denied and not effort.rows_got:
        raise OperatorError(denied)
    say(effort.sentence())
    _tell_refresh(kept.values(), target.device.refresh_ns, say)
    return effort.rows_got > 0, effort


def _denied(look: Discovery | Poll) -> str:
    """Return what the switch says against the user or a pass phrase; empty if nothing."""
    if isinstance(look, Discovery) and look.reason is Missing.DENIED:
        return look.text
    faults = (look.poll if isinstance(look, Discovery) else look).faults
    return next((fault.text for fault in faults if fault.reason is Missing.DENIED), "")


def _tell_refresh(kept: Iterable[Sequence[PortSample]], taken_ns: int, say: Callable[[str], None]) -> None:
    """Say how often counters changed, which is how often the device refreshes while traffic never pauses."""
    learnt = [learn_refresh(samples) for samples in kept]
    typical = sorted(each.typical_ns for each in learnt if each.typical_ns is not None)
    if typical:
        holds = sum(len(each.holds) for each in learnt)
        say(
            f"counters changed every {format_duration(typical[len(typical) // 2])} (from {holds} stretches between two "
            f"changes; an idle port changes more rarely); taken to be up to {format_duration(taken_ns)} old"
        )


def _tell(text: str, said: set[str], say: Callable[[str], None]) -> None:
    if text not in said:
        said.add(text)
        say(text)


def _endpoint(text: str) -> Endpoint:
    """Return the endpoint that ``text`` names; the port is SNMP's own where none is given.

    Raises:
        OperatorError: it names none.
    """
    try:
        host, port = split_address(text if text.rpartition("]")[2].count(":") else f"{text}:{SNMP_PORT}")
    except ValueError as error:
        raise OperatorError(f"--address {text!r}: {error}. Write it like 192.0.2.2:161, IPv6 in brackets") from error
    return Endpoint(host, port)
