"""One port of one poll as a flat JSON object, for people and scripts. Pure.

Numbers that do not surely fit a double (counters, times in nanoseconds) are decimal strings. Only counters that are
there stand under ``counters``; each other stands under ``missing`` with its reason. A port that could not be read at
all has no counters, and its reason under ``reason``. In and out are the switch port's: In is what the node sent.
"""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from protos.reading import Missing
from switch.epochs import Epoch
from switch.ports import Discovery, OperStatus, PortCounters, PortFault, PortSample

VERSION = 1

_COUNTERS = tuple(field.name for field in fields(PortCounters))


def sample_line(switch: str, number: int, sample: PortSample, epoch: Epoch) -> dict[str, Any]:
    """Return the line of a port that was read in poll ``number`` (from 1)."""
    counters: dict[str, str] = {}
    missing: dict[str, str] = {}
    for side, found in (("in", sample.switch_in), ("out", sample.switch_out)):
        for name in _COUNTERS:
            value = getattr(found, name)
            if isinstance(value, Missing):
                missing[f"{side}_{name}"] = value.value
            else:
                counters[f"{side}_{name}"] = str(value)
    device = {
        "oper_status": _status(sample),
        "sys_uptime_ticks": sample.sys_uptime_ticks,
        "engine_boots": sample.engine_boots,
        "discontinuity_ticks": sample.discontinuity_ticks,
        "last_change_ticks": sample.last_change_ticks,
        "high_speed_mbit_per_s": sample.high_speed_mbit_per_s,
    }
    missing |= {name: value.value for name, value in device.items() if isinstance(value, Missing)}
    return {
        **_head(switch, number, sample.port),
        "reason": None,
        "text": None,
        "first_sent_ns": str(sample.first_sent_ns),
        "received_ns": str(sample.received_ns),
        "earliest_ns": str(sample.earliest_ns),
        "latest_ns": str(sample.latest_ns),
        "refresh_ns": str(sample.refresh_ns),
        "epoch": epoch.number,
        "epoch_reason": epoch.reason.value,
        "epoch_text": epoch.text,
        "epoch_proven": epoch.proven,
        "framing": sample.framing.value,
        "engine_id": sample.identity.engine_id,
        "if_index": sample.identity.if_index,
        "counters": counters,
        "missing": missing,
        **{name: None if isinstance(value, Missing) else value for name, value in device.items()},
    }


def fault_line(switch: str, number: int, fault: PortFault) -> dict[str, Any]:
    """Return the line of a port that was asked for in poll ``number`` and not read."""
    return {
        **_head(switch, number, fault.port),
        "reason": fault.reason.value,
        "text": fault.text,
        "first_sent_ns": str(fault.first_sent_ns),
        "gave_up_ns": str(fault.gave_up_ns),
        "earliest_ns": None,
        "latest_ns": None,
        "epoch": None,
        "if_index": fault.if_index,
        "counters": {},
        "missing": {},
    }


def unlisted_line(switch: str, number: int, discovery: Discovery) -> dict[str, Any]:
    """Return the line of a poll in which not even the names of the ports could be read; its port is None."""
    poll = discovery.poll
    reason = discovery.reason or Missing.ABSENT
    return {
        **fault_line(switch, number, PortFault("", reason, discovery.text, poll.first_sent_ns, poll.received_ns)),
        "port": None,
    }


def _head(switch: str, number: int, port: str) -> dict[str, Any]:
    return {"v": VERSION, "switch": switch, "poll": number, "port": port}


def _status(sample: PortSample) -> str | Missing:
    value = sample.oper_status
    if isinstance(value, Missing):
        return value
    return OperStatus(value).name.lower().replace("_", "-") if value in set(OperStatus) else str(value)
