"""Who is at the other end of each cable, as the neighbours themselves say it: LLDP-MIB (IEEE 802.1AB). Pure.

A switch remembers for a while what the last LLDP frame on a port said (:data:`REMOTE_ENTRY`, indexed by time mark,
local port number and a running number) and calls its own ports by local numbers (:data:`LOCAL_PORT_ENTRY`). Nothing
here is signed: whoever sits on a cable can say he is anybody. It is good enough to find a cable plugged in wrongly.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from switch.exchange import Exchange, Oid, ValueType, VarBind
from switch.interpret import text_of
from switch.ports import PortSample

REMOTE_ENTRY: Oid = (1, 0, 8802, 1, 1, 2, 1, 4, 1, 1)
"""lldpRemEntry."""
LOCAL_PORT_ENTRY: Oid = (1, 0, 8802, 1, 1, 2, 1, 3, 7, 1)
"""lldpLocPortEntry."""

_CHASSIS_SUBTYPE, _CHASSIS_ID, _PORT_SUBTYPE, _PORT_ID, _PORT_DESCRIPTION, _SYSTEM_NAME = 4, 5, 6, 7, 8, 9
_LOCAL_ID_SUBTYPE, _LOCAL_ID, _LOCAL_DESCRIPTION = 2, 3, 4
_CHASSIS_MAC, _PORT_MAC = 4, 3
"""Subtypes whose identifier is a hardware address (LldpChassisIdSubtype, LldpPortIdSubtype)."""
_REMOTE_INDEX = 3


@dataclass(frozen=True, slots=True)
class Neighbour:
    """One who introduced himself on a port.

    Attributes:
        port: the switch port's ifName; None if the switch's own number for it stands for no port that was read.
        local_number: the switch's own number for the port.
        system_name: what he calls himself; empty if he does not.
        chassis: his chassis, a hardware address in hex or a text.
        port_id: his port, a hardware address in hex or a text.
        port_description: his port for people; on Linux the interface's name.
    """

    port: str | None
    local_number: int
    system_name: str
    chassis: str
    port_id: str
    port_description: str

    def told(self) -> str:
        """Return him for a sentence."""
        name = self.system_name or f"chassis {self.chassis}"
        return f"{name}/{self.port_description or self.port_id}"


def neighbours(exchanges: Sequence[Exchange], samples: Iterable[PortSample]) -> tuple[Neighbour, ...]:
    """Return the neighbours that the answers of one look tell of.

    1. Take every binding of the two tables; rows by their index. One neighbour may be in several rows with different
       time marks: the newest is meant.
    2. The switch's number of a port is resolved by what its own table calls it: identifier or description, if one of
       them is the name of a port that was read. Where the table is silent, the number is the ifIndex, as it
       is on net-snmp with lldpd and on most switches.
    """
    remote: dict[tuple[int, ...], dict[int, VarBind]] = {}
    local: dict[int, dict[int, VarBind]] = {}
    for exchange in exchanges:
        for binding in exchange.varbinds:
            cell = _cell(binding.oid, REMOTE_ENTRY)
            if cell is not None and len(cell[1]) == _REMOTE_INDEX:
                remote.setdefault(cell[1], {})[cell[0]] = binding
            cell = _cell(binding.oid, LOCAL_PORT_ENTRY)
            if cell is not None and len(cell[1]) == 1:
                local.setdefault(cell[1][0], {})[cell[0]] = binding
    by_index = {sample.identity.if_index: sample.port for sample in samples}
    newest = {index[1:]: (index, row) for index, row in sorted(remote.items())}
    found = []
    for index, row in newest.values():
        chassis = _identifier(row, _CHASSIS_SUBTYPE, _CHASSIS_ID, _CHASSIS_MAC)
        port_id = _identifier(row, _PORT_SUBTYPE, _PORT_ID, _PORT_MAC)
        if not chassis or not port_id:
            continue  # both are mandatory: half a row is one that was read while it was being replaced
        number = index[1]
        found.append(
            Neighbour(
                port=_port(number, local.get(number, {}), by_index),
                local_number=number,
                system_name=_text(row.get(_SYSTEM_NAME)),
                chassis=chassis,
                port_id=port_id,
                port_description=_text(row.get(_PORT_DESCRIPTION)),
            )
        )
    return tuple(found)


def _port(number: int, row: Mapping[int, VarBind], by_index: Mapping[int, str]) -> str | None:
    names: Collection[str] = by_index.values()
    for column in (_LOCAL_ID, _LOCAL_DESCRIPTION):
        name = _text(row.get(column))
        if name in names:
            return name
    return by_index.get(number)


def _cell(oid: Oid, entry: Oid) -> tuple[int, tuple[int, ...]] | None:
    """Return column and index of an instance of ``entry``, None if it is none."""
    if oid[: len(entry)] != entry or len(oid) <= len(entry) + 1:
        return None
    return oid[len(entry)], oid[len(entry) + 1 :]


def _identifier(row: Mapping[int, VarBind], subtype: int, column: int, address: int) -> str:
    kind, content = row.get(subtype), row.get(column)
    if content is None or content.type is not ValueType.OCTETS or not isinstance(content.value, bytes):
        return ""
    if kind is not None and kind.value == address:
        return content.value.hex()
    return text_of(content.value)


def _text(binding: VarBind | None) -> str:
    if binding is None or binding.type is not ValueType.OCTETS or not isinstance(binding.value, bytes):
        return ""
    return text_of(binding.value)
