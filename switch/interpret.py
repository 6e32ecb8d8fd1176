"""From the bindings of one answer to what they say about one port. Pure.

Presence decides, not value and not speed: a 64-bit counter that reads 0 is a counter, an absent one is
*unsupported* whatever the 32-bit one says. Values are taken only with the type the MIB gives them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from protos.reading import Framing, Missing
from switch.exchange import EXCEPTIONS, Exchange, Oid, ValueType, VarBind
from switch.mib import (
    DEVICE_OBJECTS,
    ENGINE_BOOTS,
    ENGINE_TIME,
    PORT_COLUMNS,
    SYS_UPTIME,
    TABLE_OBJECTS,
    Column,
    instances,
)
from switch.ports import PortCounters, PortFault, PortIdentity, PortSample, Text, Value

ALL_ONES_64 = 2**64 - 1
ALL_ONES_32 = 2**32 - 1


@dataclass(frozen=True, slots=True)
class Row:
    """Which row to read for a port: the name it must bear and where it was last seen.

    Attributes:
        port: what the caller calls the port.
        if_name: the ifName the row must bear, as text.
        if_index: the row.
    """

    port: str
    if_name: str
    if_index: int


@dataclass(frozen=True, slots=True)
class Device:
    """What every sample of a device carries: declared in the site file, not read."""

    refresh_ns: int
    framing: Framing


class BindingChangedError(Exception):
    """The row is gone or bears another name; the ports must be resolved again."""


def text_of(octets: bytes) -> str:
    """Return an agent's octets as text: UTF-8, what is not with backslashes (case: invalid UTF-8 in names)."""
    return octets.decode("utf-8", "backslashreplace")


def number(binding: VarBind | None, *types: ValueType) -> Value:
    """Return the number of ``binding`` if it is there and of one of ``types``, else why not.

    A 64-bit counter of all ones is a device's way of saying that it does not know.
    """
    if binding is None:
        return Missing.TRUNCATED
    kind, value = binding.type, binding.value
    if kind not in types or not isinstance(value, int) or value < 0:
        return Missing.UNSUPPORTED if kind in EXCEPTIONS else Missing.MALFORMED
    if kind is ValueType.COUNTER64 and value == ALL_ONES_64:
        return Missing.MALFORMED
    if kind is ValueType.COUNTER32 and value == ALL_ONES_32:
        return Missing.MALFORMED
    return value


def octets(binding: VarBind | None) -> bytes | Missing:
    """Return the octet string of ``binding``, else why there is none."""
    if binding is None:
        return Missing.TRUNCATED
    if binding.type in EXCEPTIONS:
        return Missing.UNSUPPORTED
    if binding.type is not ValueType.OCTETS or not isinstance(binding.value, bytes):
        return Missing.MALFORMED
    return binding.value


def text(binding: VarBind | None) -> Text:
    """Return the text of ``binding``, else why there is none."""
    found = octets(binding)
    return found if isinstance(found, Missing) else text_of(found)


def requested(rows: Sequence[Row], columns: Sequence[Column] = PORT_COLUMNS, *, table: bool = False) -> list[Oid]:
    """Return the instances to ask for so that each row and the device's restart evidence come in one message.

    With ``table``, also for what shows that the list of ports changed.
    """
    device = (*DEVICE_OBJECTS, *TABLE_OBJECTS) if table else DEVICE_OBJECTS
    wanted = [*device]
    for row in rows:
        at = instances(row.if_index)
        wanted += at.values() if columns is PORT_COLUMNS else [at[column] for column in columns]
    return wanted


def answered(oids: Sequence[Oid], exchange: Exchange) -> dict[Oid, VarBind] | None:
    """Return the bindings by instance if the answer is an answer to ``oids``, else None.

    A response must repeat the request's names in order (RFC 3416, section 4.2.1). One that stops early keeps
    what it has; one that names anything else answers another question and is worth nothing.
    """
    if len(exchange.varbinds) > len(oids):
        return None
    if [binding.oid for binding in exchange.varbinds] != list(oids[: len(exchange.varbinds)]):
        return None
    return {binding.oid: binding for binding in exchange.varbinds}


def interpret(row: Row, bindings: Mapping[Oid, VarBind], exchange: Exchange, device: Device) -> PortSample | PortFault:
    """Return what ``exchange`` says about one port.

    1. The row must bear the expected name in this very message; else whose counters these are is unknown.
    2. Every value is taken with its MIB type or given a reason; one bad value does not void the others.
    3. Restart evidence comes from the message's bindings; boots and time of a device that hides them from the
       MIB come from the message's authenticated header.

    Raises:
        BindingChangedError: the row does not exist, or bears another name.
    """
    where, at = f"port {row.port!r} (ifIndex {row.if_index})", instances(row.if_index)
    name = bindings.get(at[Column.NAME])
    found = octets(name)
    if found is Missing.UNSUPPORTED and name is not None and name.type is ValueType.NO_SUCH_INSTANCE:
        raise BindingChangedError(f"{where}: the row is gone")
    if isinstance(found, Missing):
        reason = {
            Missing.TRUNCATED: "the answer ends before this port's ifName; its messages may be too small",
            Missing.UNSUPPORTED: "the agent has no ifName (no ifXTable, or hidden by its access view)",
        }.get(found, "ifName came with a type that is not a string")
        return PortFault(
            row.port, found, f"{where}: {reason}", exchange.first_sent_ns, exchange.received_ns, row.if_index
        )
    if text_of(found) != row.if_name:
        raise BindingChangedError(f"{where}: the row now bears the name {text_of(found)!r}")

    def counter64(column: Column) -> Value:
        return number(bindings.get(at[column]), ValueType.COUNTER64)

    def counter32(column: Column) -> Value:
        return number(bindings.get(at[column]), ValueType.COUNTER32)

    def plain(column: Column, kind: ValueType) -> Value:
        return number(bindings.get(at[column]), kind)

    address = octets(bindings.get(at[Column.PHYSICAL_ADDRESS]))
    boots = number(bindings.get(ENGINE_BOOTS), ValueType.INTEGER)
    seconds = number(bindings.get(ENGINE_TIME), ValueType.INTEGER)
    if isinstance(boots, Missing) and exchange.engine_boots is not None:
        boots = exchange.engine_boots
    if isinstance(seconds, Missing) and exchange.engine_time_s is not None:
        seconds = exchange.engine_time_s
    return PortSample(
        port=row.port,
        identity=PortIdentity(exchange.engine_id, row.if_name, row.if_index),
        first_sent_ns=exchange.first_sent_ns,
        received_ns=exchange.received_ns,
        refresh_ns=device.refresh_ns,
        framing=device.framing,
        alias=text(bindings.get(at[Column.ALIAS])),
        if_type=plain(Column.TYPE, ValueType.INTEGER),
        physical_address=address if isinstance(address, Missing) else address.hex(),
        oper_status=plain(Column.OPER_STATUS, ValueType.INTEGER),
        high_speed_mbit_per_s=plain(Column.HIGH_SPEED, ValueType.GAUGE32),
        sys_uptime_ticks=number(bindings.get(SYS_UPTIME), ValueType.TIMETICKS),
        engine_boots=boots,
        engine_time_s=seconds,
        discontinuity_ticks=plain(Column.DISCONTINUITY, ValueType.TIMETICKS),
        last_change_ticks=plain(Column.LAST_CHANGE, ValueType.TIMETICKS),
        switch_in=PortCounters(
            octets=counter64(Column.HC_IN_OCTETS),
            unicast_packets=counter64(Column.HC_IN_UCAST),
            multicast_packets=counter64(Column.HC_IN_MULTICAST),
            broadcast_packets=counter64(Column.HC_IN_BROADCAST),
            discards=counter32(Column.IN_DISCARDS),
            errors=counter32(Column.IN_ERRORS),
        ),
        switch_out=PortCounters(
            octets=counter64(Column.HC_OUT_OCTETS),
            unicast_packets=counter64(Column.HC_OUT_UCAST),
            multicast_packets=counter64(Column.HC_OUT_MULTICAST),
            broadcast_packets=counter64(Column.HC_OUT_BROADCAST),
            discards=counter32(Column.OUT_DISCARDS),
            errors=counter32(Column.OUT_ERRORS),
        ),
    )
