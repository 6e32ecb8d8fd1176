"""The objects that are read, and how many octets an answer about them can take.

Numeric only: no MIB files. Sources: IF-MIB (RFC 2863), SNMPv2-MIB (RFC 3418), SNMP-FRAMEWORK-MIB (RFC 3411),
IP-MIB (RFC 4293 and, deprecated but widespread, RFC 4293's ipAddrTable).
"""

from __future__ import annotations

import enum
import ipaddress
from collections.abc import Mapping, Sequence
from functools import lru_cache

from switch.exchange import Oid

MESSAGE_OCTETS = 1_400
"""Largest message we accept, told to every agent (msgMaxSize): under the path MTU of any Ethernet with room for
tunnels, because a fragment lost to a filter looks like a dead agent."""

SYS_UPTIME: Oid = (1, 3, 6, 1, 2, 1, 1, 3, 0)
SYS_OBJECT_ID: Oid = (1, 3, 6, 1, 2, 1, 1, 2, 0)
SYS_NAME: Oid = (1, 3, 6, 1, 2, 1, 1, 5, 0)
ENGINE_ID: Oid = (1, 3, 6, 1, 6, 3, 10, 2, 1, 1, 0)
ENGINE_BOOTS: Oid = (1, 3, 6, 1, 6, 3, 10, 2, 1, 2, 0)
ENGINE_TIME: Oid = (1, 3, 6, 1, 6, 3, 10, 2, 1, 3, 0)
IF_NUMBER: Oid = (1, 3, 6, 1, 2, 1, 2, 1, 0)
IF_TABLE_LAST_CHANGE: Oid = (1, 3, 6, 1, 2, 1, 31, 1, 5, 0)

_IF_ENTRY: Oid = (1, 3, 6, 1, 2, 1, 2, 2, 1)
_IFX_ENTRY: Oid = (1, 3, 6, 1, 2, 1, 31, 1, 1, 1)
_IP_AD_ENT_IF_INDEX: Oid = (1, 3, 6, 1, 2, 1, 4, 20, 1, 2)
_IP_ADDRESS_IF_INDEX: Oid = (1, 3, 6, 1, 2, 1, 4, 34, 1, 3)

LINUX_AGENT = "1.3.6.1.4.1.8072.3.2.10"
"""sysObjectID of net-snmp on Linux (NET-SNMP-TC, linux)."""

DEVICE_OBJECTS = (SYS_UPTIME, ENGINE_BOOTS, ENGINE_TIME)
"""Asked for in every message, once: the restart evidence that belongs to its rows."""

TABLE_OBJECTS = (IF_NUMBER, IF_TABLE_LAST_CHANGE)
"""Asked for once in a look: that they changed is a reason to list the ports anew, that they did not proves nothing."""


class Column(enum.Enum):
    """A column of ifTable or ifXTable; the instance is the ifIndex.

    The 32-bit octet counters (ifInOctets, ifOutOctets) are left out on purpose: at 400 Gb/s they wrap every
    86 ms, and a device without the 64-bit ones gets *unsupported*, not a guess.
    """

    NAME = (*_IFX_ENTRY, 1)
    HC_IN_OCTETS = (*_IFX_ENTRY, 6)
    HC_IN_UCAST = (*_IFX_ENTRY, 7)
    HC_IN_MULTICAST = (*_IFX_ENTRY, 8)
    HC_IN_BROADCAST = (*_IFX_ENTRY, 9)
    HC_OUT_OCTETS = (*_IFX_ENTRY, 10)
    HC_OUT_UCAST = (*_IFX_ENTRY, 11)
    HC_OUT_MULTICAST = (*_IFX_ENTRY, 12)
    HC_OUT_BROADCAST = (*_IFX_ENTRY, 13)
    HIGH_SPEED = (*_IFX_ENTRY, 15)
    ALIAS = (*_IFX_ENTRY, 18)
    DISCONTINUITY = (*_IFX_ENTRY, 19)
    TYPE = (*_IF_ENTRY, 3)
    PHYSICAL_ADDRESS = (*_IF_ENTRY, 6)
    OPER_STATUS = (*_IF_ENTRY, 8)
    LAST_CHANGE = (*_IF_ENTRY, 9)
    IN_DISCARDS = (*_IF_ENTRY, 13)
    IN_ERRORS = (*_IF_ENTRY, 14)
    OUT_DISCARDS = (*_IF_ENTRY, 19)
    OUT_ERRORS = (*_IF_ENTRY, 20)

    __hash__ = object.__hash__  # a column is one object; Enum's hash of its name is a call, made for every value read

    def of(self, if_index: int) -> Oid:
        """Return the instance of this column for one interface."""
        return (*self.value, if_index)


PORT_COLUMNS = tuple(Column)
"""Everything about one port, in one message."""


@lru_cache(maxsize=16_384)
def instances(if_index: int) -> Mapping[Column, Oid]:
    """Return every column's instance for one interface; the same ones are asked for in every poll."""
    return {column: column.of(if_index) for column in PORT_COLUMNS}


ESSENTIAL_COLUMNS = (
    Column.NAME,
    Column.HC_IN_OCTETS,
    Column.HC_OUT_OCTETS,
    Column.HC_IN_UCAST,
    Column.HC_OUT_UCAST,
    Column.OPER_STATUS,
    Column.HIGH_SPEED,
    Column.PHYSICAL_ADDRESS,
    Column.DISCONTINUITY,
)
"""For an agent whose messages cannot hold all: identity, octets and what tells a reset. The rest is *truncated*."""

# Largest encoded value of each column, octets; 9 is a Counter64, 5 a 32-bit value.
_VALUE_OCTETS = dict.fromkeys(PORT_COLUMNS, 5) | {column: 9 for column in PORT_COLUMNS if column.name.startswith("HC_")}
_VALUE_OCTETS |= {Column.PHYSICAL_ADDRESS: 8, Column.ALIAS: 64}
_BINDING_HEADERS = 2 + 2 + 2  # sequence, name, value: tag and length of each
# Message wrapping: USM header with the longest engine id, user name and digest, twice the engine id (context),
# privacy salt and cipher framing (RFC 3412, section 6; RFC 3414, section 2.4; RFC 7860, section 4.2).
MESSAGE_OVERHEAD_OCTETS = 190
_DEVICE_OCTETS = sum(_BINDING_HEADERS + 11 + 5 for _ in (*DEVICE_OBJECTS, *TABLE_OBJECTS))


def _subidentifier_octets(number: int) -> int:
    return max(1, -(-number.bit_length() // 7))


def _oid_octets(oid: Oid) -> int:
    return 1 + sum(_subidentifier_octets(arc) for arc in oid[2:])


@lru_cache(maxsize=16_384)
def port_octets(name: str, if_index: int, columns: tuple[Column, ...] = PORT_COLUMNS, alias_octets: int = 64) -> int:
    """Return how many octets the bindings of one port take in an answer at the most."""
    total = 0
    for column in columns:
        value = _VALUE_OCTETS[column]
        if column is Column.NAME:
            value = len(name.encode("utf-8", "surrogateescape"))
        elif column is Column.ALIAS:
            value = alias_octets
        total += _BINDING_HEADERS + _oid_octets(column.of(if_index)) + value
    return total


def pack(sizes: Sequence[int], message_octets: int) -> list[range]:
    """Return consecutive groups of ``sizes`` that each fit into an answer of ``message_octets``.

    A group is never empty: a port that is too large alone still goes alone, and the agent decides.
    """
    room = message_octets - MESSAGE_OVERHEAD_OCTETS - _DEVICE_OCTETS
    groups: list[range] = []
    start = used = 0
    for number, size in enumerate(sizes):
        if number > start and used + size > room:
            groups.append(range(start, number))
            start, used = number, 0
        used += size
    if start < len(sizes):
        groups.append(range(start, len(sizes)))
    return groups


def address_instances(address: str) -> tuple[Oid, ...]:
    """Return the instances that name the interface holding ``address``: ipAddressIfIndex, and for IPv4 ipAdEntIfIndex.

    An ``address`` that is not numeric has none.
    """
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return ()
    octets = tuple(parsed.packed)
    if parsed.version == 4:
        return (*_IP_ADDRESS_IF_INDEX, 1, 4, *octets), (*_IP_AD_ENT_IF_INDEX, *octets)
    return ((*_IP_ADDRESS_IF_INDEX, 2, 16, *octets),)
