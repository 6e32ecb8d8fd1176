"""What is in force at an agent, as a row of JSON and as a table for people."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from controller.cli_rows import print_rows
from protos.buckets import TrafficClass
from protos.lease import Slot
from protos.leasewire import DIRECTION, KIND
from protos.reading import Direction
from protos.units import format_bytes, format_duration, format_rate
from protos.v1 import lease_pb2


def row_of(
    agent: str, reading: lease_pb2.LimiterReading, now_ns: int, grants: Mapping[tuple[str, Slot], str]
) -> dict[str, Any]:
    """Return one limiter as JSON; 64-bit numbers are decimal strings, what is not there is null.

    ``now_ns`` is the agent's clock as it answered; ``grants`` are the ids by agent and slot.
    """
    state = reading.state
    direction = DIRECTION.get(state.direction)
    traffic_class = _class(state.traffic_class)
    leased = state.sequence > 0
    return {
        "agent": agent,
        "port": state.port,
        "direction": direction.value if direction else None,
        "class": traffic_class.title if traffic_class is not None else str(state.traffic_class),
        "state": KIND[state.kind].value if leased and state.kind in KIND else "floor",
        "floor_reason": state.floor_reason or None,
        "sequence": str(state.sequence) if leased else None,
        "grant": _grant(agent, state.port, direction, traffic_class, grants),
        "rate_bytes_per_s": str(state.rate_bytes_per_s),
        "depth_bytes": str(state.depth_bytes),
        "volume_bytes": str(state.volume_bytes) if state.HasField("volume_bytes") else None,
        "used_bytes": str(state.used_bytes) if state.HasField("used_bytes") else None,
        "left_ns": str(max(0, state.until_ns - now_ns)) if leased and state.HasField("until_ns") else None,
        "passed_bytes": str(reading.counters.passed_bytes) if reading.HasField("counters") else None,
        "dropped_bytes": str(reading.counters.dropped_bytes) if reading.HasField("counters") else None,
        "trouble": reading.trouble or None,
    }


def table(rows: list[dict[str, Any]]) -> None:
    """Print ``rows`` for people."""
    headings = (
        "agent",
        "port",
        "direction",
        "class",
        "in force",
        "rate",
        "depth",
        "left",
        "passed",
        "dropped",
        "grant",
    )
    print_rows(headings, map(_cells, rows), names=4)


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    in_force = row["state"] if row["floor_reason"] is None else f"floor ({row['floor_reason']})"
    return (
        row["agent"],
        row["port"],
        row["direction"] or "-",
        row["class"],
        f"{in_force} {row['trouble'] or ''}".strip(),
        format_rate(int(row["rate_bytes_per_s"])),
        format_bytes(int(row["depth_bytes"])),
        "-" if row["left_ns"] is None else format_duration(int(row["left_ns"])),
        "-" if row["passed_bytes"] is None else format_bytes(int(row["passed_bytes"])),
        "-" if row["dropped_bytes"] is None else format_bytes(int(row["dropped_bytes"])),
        row["grant"] or "-",
    )


def _class(number: int) -> TrafficClass | None:
    try:
        return TrafficClass(number)
    except ValueError:
        return None


def _grant(
    agent: str,
    port: str,
    direction: Direction | None,
    traffic_class: TrafficClass | None,
    grants: Mapping[tuple[str, Slot], str],
) -> str | None:
    if direction is None or traffic_class is None:
        return None
    return grants.get((agent, Slot(port, direction, traffic_class)))
