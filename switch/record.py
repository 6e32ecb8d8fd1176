"""A poll as bytes for the journal, and back. Version 1: canonical JSON, self-contained.

Kept are the samples and faults, and the messages behind them: each datagram exactly as it was received (base64;
encrypted, so a check needs the switch's privacy key) beside the bindings decoded from it. 64-bit numbers are
decimal strings. A value that is not there is ``{"missing": REASON}``, never null and never 0.

Decoding is strict: unknown or absent keys, other types, numbers out of range, repeated keys are a
:class:`RecordError`, and nothing else is raised whatever the bytes are.
"""

from __future__ import annotations

import base64
import binascii
import json
from dataclasses import fields
from typing import Any

from protos.reading import Framing, Missing
from switch.exchange import NUMBERS, OCTET_STRINGS, Exchange, Operation, ValueType, VarBind, dotted
from switch.ports import Agent, Poll, PortCounters, PortFault, PortIdentity, PortSample, Text, Value
from switch.strictjson import (
    RecordError,
    no_float,
    no_repeats,
    take_hex,
    take_list,
    take_member,
    take_number,
    take_object,
    take_oid,
    take_optional,
    take_signed,
    take_string,
    take_text,
    take_time,
    take_value,
)

__all__ = ["RecordError", "decode", "encode"]

VERSION = 1
MOST_OCTETS = 64 * 1024 * 1024
"""A poll of thousands of ports; anything larger is not a poll."""


def encode(poll: Poll) -> bytes:
    """Return ``poll`` for the journal: the same poll gives the same bytes."""
    body = {
        "v": VERSION,
        "switch": poll.switch,
        "first_sent_ns": str(poll.first_sent_ns),
        "received_ns": str(poll.received_ns),
        "agent": {
            "engine_id": poll.agent.engine_id,
            "system_name": _put_text(poll.agent.system_name),
            "object_id": _put_text(poll.agent.object_id),
            "management_if_index": _put(poll.agent.management_if_index),
        },
        "ports": [_put_port(entry) for entry in poll.ports],
        "exchanges": [_put_exchange(exchange) for exchange in poll.exchanges],
        "notes": list(poll.notes),
    }
    return json.dumps(body, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False).encode()


def decode(data: bytes) -> Poll:
    """Return the poll that ``data`` records.

    Raises:
        RecordError: the bytes are not a version 1 record of a poll.
    """
    if len(data) > MOST_OCTETS:
        raise RecordError(f"a record of {len(data)} octets is no poll; at most {MOST_OCTETS}")
    try:
        body = json.loads(
            data.decode("ascii"), object_pairs_hook=no_repeats, parse_float=no_float, parse_constant=no_float
        )
    except RecordError:
        raise
    except (ValueError, RecursionError) as error:
        raise RecordError(f"not canonical JSON: {error}") from error
    if not isinstance(body, dict) or body.get("v") != VERSION or isinstance(body.get("v"), bool):
        raise RecordError(f"not a poll record of version {VERSION}; a newer one needs a newer program")
    poll = take_object(
        body, "poll", "v", "switch", "first_sent_ns", "received_ns", "agent", "ports", "exchanges", "notes"
    )
    agent = take_object(poll["agent"], "agent", "engine_id", "system_name", "object_id", "management_if_index")
    return Poll(
        switch=take_string(poll["switch"], "switch"),
        first_sent_ns=take_time(poll["first_sent_ns"], "first_sent_ns"),
        received_ns=take_time(poll["received_ns"], "received_ns"),
        agent=Agent(
            engine_id=take_hex(agent["engine_id"], "agent engine_id"),
            system_name=take_text(agent["system_name"], "system_name"),
            object_id=take_text(agent["object_id"], "object_id"),
            management_if_index=take_value(agent["management_if_index"], "management_if_index"),
        ),
        ports=tuple(_take_port(entry) for entry in take_list(poll["ports"], "ports")),
        exchanges=tuple(_take_exchange(entry) for entry in take_list(poll["exchanges"], "exchanges")),
        notes=tuple(take_string(note, "note") for note in take_list(poll["notes"], "notes")),
    )


_POLL_KEYS = ("v", "switch", "first_sent_ns", "received_ns", "agent", "ports", "exchanges", "notes")
_SAMPLE_VALUES = (
    "if_type",
    "oper_status",
    "high_speed_mbit_per_s",
    "sys_uptime_ticks",
    "engine_boots",
    "engine_time_s",
    "discontinuity_ticks",
    "last_change_ticks",
)
_SAMPLE_TIMES = ("first_sent_ns", "received_ns", "refresh_ns")
_SAMPLE_TEXTS = ("alias", "physical_address")
_SAMPLE_SIDES = ("switch_in", "switch_out")
_COUNTERS = tuple(field.name for field in fields(PortCounters))
_SAMPLE_KEYS = (
    *("port", "engine_id", "if_name", "if_index", "framing"),
    *_SAMPLE_TIMES,
    *_SAMPLE_TEXTS,
    *_SAMPLE_VALUES,
    *_SAMPLE_SIDES,
)
_FAULT_KEYS = ("port", "reason", "text", "first_sent_ns", "gave_up_ns", "if_index")
_EXCHANGE_KEYS = tuple(field.name for field in fields(Exchange))


def _put(value: Value) -> str | dict[str, str]:
    return {"missing": value.value} if isinstance(value, Missing) else str(value)


def _put_text(value: Text) -> str | dict[str, str]:
    return {"missing": value.value} if isinstance(value, Missing) else value


def _put_port(entry: PortSample | PortFault) -> dict[str, Any]:
    if isinstance(entry, PortFault):
        return {
            "port": entry.port,
            "reason": entry.reason.value,
            "text": entry.text,
            "first_sent_ns": str(entry.first_sent_ns),
            "gave_up_ns": str(entry.gave_up_ns),
            "if_index": None if entry.if_index is None else str(entry.if_index),
        }
    body: dict[str, Any] = {
        "port": entry.port,
        "engine_id": entry.identity.engine_id,
        "if_name": entry.identity.if_name,
        "if_index": str(entry.identity.if_index),
        "framing": entry.framing.value,
    }
    body |= {key: str(getattr(entry, key)) for key in _SAMPLE_TIMES}
    body |= {key: _put_text(getattr(entry, key)) for key in _SAMPLE_TEXTS}
    body |= {key: _put(getattr(entry, key)) for key in _SAMPLE_VALUES}
    for side in _SAMPLE_SIDES:
        body[side] = {name: _put(getattr(getattr(entry, side), name)) for name in _COUNTERS}
    return body


def _put_exchange(exchange: Exchange) -> dict[str, Any]:
    return {
        "operation": exchange.operation.value,
        "first_sent_ns": str(exchange.first_sent_ns),
        "received_ns": str(exchange.received_ns),
        "attempts": str(exchange.attempts),
        "engine_id": exchange.engine_id,
        "engine_boots": None if exchange.engine_boots is None else str(exchange.engine_boots),
        "engine_time_s": None if exchange.engine_time_s is None else str(exchange.engine_time_s),
        "error_status": str(exchange.error_status),
        "error_index": str(exchange.error_index),
        "datagram": base64.b64encode(exchange.datagram).decode(),
        "varbinds": [_put_varbind(binding) for binding in exchange.varbinds],
    }


def _put_varbind(binding: VarBind) -> list[str | None]:
    content: str | None = None
    if isinstance(binding.value, bytes):
        content = binding.value.hex()
    elif isinstance(binding.value, tuple):
        content = dotted(binding.value)
    elif binding.value is not None:
        content = str(binding.value)
    return [dotted(binding.oid), binding.type.value, content]


def _take_port(raw: object) -> PortSample | PortFault:
    if isinstance(raw, dict) and "reason" in raw:
        body = take_object(raw, "fault", *_FAULT_KEYS)
        return PortFault(
            port=take_string(body["port"], "port"),
            reason=take_member(Missing, body["reason"], "reason"),
            text=take_string(body["text"], "text"),
            first_sent_ns=take_time(body["first_sent_ns"], "first_sent_ns"),
            gave_up_ns=take_time(body["gave_up_ns"], "gave_up_ns"),
            if_index=take_optional(body["if_index"], "if_index"),
        )
    body = take_object(raw, "sample", *_SAMPLE_KEYS)
    return PortSample(
        port=take_string(body["port"], "port"),
        identity=PortIdentity(
            engine_id=take_hex(body["engine_id"], "engine_id"),
            if_name=take_string(body["if_name"], "if_name"),
            if_index=take_number(body["if_index"], "if_index"),
        ),
        framing=take_member(Framing, body["framing"], "framing"),
        first_sent_ns=take_time(body["first_sent_ns"], "first_sent_ns"),
        received_ns=take_time(body["received_ns"], "received_ns"),
        refresh_ns=take_time(body["refresh_ns"], "refresh_ns"),
        alias=take_text(body["alias"], "alias"),
        physical_address=take_text(body["physical_address"], "physical_address"),
        if_type=take_value(body["if_type"], "if_type"),
        oper_status=take_value(body["oper_status"], "oper_status"),
        high_speed_mbit_per_s=take_value(body["high_speed_mbit_per_s"], "high_speed_mbit_per_s"),
        sys_uptime_ticks=take_value(body["sys_uptime_ticks"], "sys_uptime_ticks"),
        engine_boots=take_value(body["engine_boots"], "engine_boots"),
        engine_time_s=take_value(body["engine_time_s"], "engine_time_s"),
        discontinuity_ticks=take_value(body["discontinuity_ticks"], "discontinuity_ticks"),
        last_change_ticks=take_value(body["last_change_ticks"], "last_change_ticks"),
        switch_in=_take_counters(body["switch_in"], "switch_in"),
        switch_out=_take_counters(body["switch_out"], "switch_out"),
    )


def _take_counters(raw: object, side: str) -> PortCounters:
    body = take_object(raw, side, *_COUNTERS)
    return PortCounters(**{name: take_value(body[name], f"{side} {name}") for name in _COUNTERS})


def _take_exchange(raw: object) -> Exchange:
    body = take_object(raw, "exchange", *_EXCHANGE_KEYS)
    try:
        datagram = base64.b64decode(take_string(body["datagram"], "datagram"), validate=True)
    except (binascii.Error, ValueError) as error:
        raise RecordError(f"datagram is not base64: {error}") from error
    if base64.b64encode(datagram).decode() != body["datagram"]:
        raise RecordError("datagram is not canonical base64")
    return Exchange(
        operation=take_member(Operation, body["operation"], "operation"),
        first_sent_ns=take_time(body["first_sent_ns"], "first_sent_ns"),
        received_ns=take_time(body["received_ns"], "received_ns"),
        attempts=take_number(body["attempts"], "attempts"),
        engine_id=take_hex(body["engine_id"], "engine_id"),
        engine_boots=take_optional(body["engine_boots"], "engine_boots"),
        engine_time_s=take_optional(body["engine_time_s"], "engine_time_s"),
        error_status=take_number(body["error_status"], "error_status"),
        error_index=take_number(body["error_index"], "error_index"),
        datagram=datagram,
        varbinds=tuple(_take_varbind(binding) for binding in take_list(body["varbinds"], "varbinds")),
    )


def _take_varbind(raw: object) -> VarBind:
    parts = take_list(raw, "varbind")
    if len(parts) != 3:
        raise RecordError(f"a varbind has 3 parts, not {len(parts)}")
    oid, kind, content = take_oid(parts[0]), take_member(ValueType, parts[1], "varbind type"), parts[2]
    if kind in NUMBERS:
        return VarBind(oid, kind, take_signed(content, "varbind value"))
    if kind in OCTET_STRINGS:
        return VarBind(oid, kind, bytes.fromhex(take_hex(content, "varbind value")))
    if kind is ValueType.OID:
        return VarBind(oid, kind, take_oid(content))
    if content is not None:
        raise RecordError(f"a varbind of type {kind.value} has no value")
    return VarBind(oid, kind, None)
