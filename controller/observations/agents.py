"""An agent's frames as readings on the controller's timeline.

An agent stamps with its own CLOCK_MONOTONIC; clock exchanges bound where that lies on the timeline
(:mod:`controller.clockoffset`), and a frame that was received bounds it from above: what it says was true by then.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from controller.clockoffset import AgentClock, Exchange
from controller.crosscheck.model import Period
from controller.errors import EvidenceError
from controller.journal import Entry, Journal, Kind
from controller.observations.around import entries_from_before
from controller.observations.buckets import BucketRuns
from controller.observations.series import Note, Series, summed
from protos.leasewire import DIRECTION
from protos.reading import Direction, Observer
from protos.v1 import frame_pb2
from protos.wire import PortReading, WireError, parse_signed_frame, port_reading

EXCHANGES_AT_EDGES = 30
"""So many clock exchanges are read before the period, and so many after it: the quickest trips count."""

FRAMES_AT_EDGES = 2


class FrameListener(Protocol):
    """Who looks at frames for something else than readings."""

    def take(self, frame: frame_pb2.Frame, from_ns: int, to_ns: int) -> None:
        """Take in what ``frame`` says; it was made after ``from_ns`` and received by ``to_ns`` (timeline)."""


@dataclass(frozen=True, slots=True)
class PortGroup:
    """Ports of one agent that are one observer of one link: their counters are added up."""

    observer: Observer
    ports: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Look:
    """One frame: which boot, its ports, its clock if there is one, and when that was, as far as it is known.

    ``policed`` is what the agent's own limiters dropped, in packets, by port and direction, and when that was read at
    the latest (agent's clock): the port's own counters do not know of it.
    """

    boot_id: str
    ports: Mapping[str, PortReading]
    policed: Mapping[tuple[str, Direction], tuple[int, int]]
    clock: AgentClock | None
    received_ns: int
    at_ns: int


def read_agent(
    journal: Journal,
    agent: str,
    groups: Sequence[PortGroup],
    period: Period,
    *,
    drift_ppm: int,
    hears: FrameListener | None = None,
) -> dict[PortGroup, Series]:
    """Return an agent's readings around ``period``, a series for each group of ports; ``hears`` hears each frame.

    1. From the clock exchanges around it, one clock a boot.
    2. Each frame from a little before the period: each group's ports added up, in one epoch by boot, source and the
       agent's own epoch numbers, placed on the timeline.
    3. What its meters told by the millisecond, as far as it is in order (:mod:`controller.observations.buckets`).
    4. Stop after the first frames that lie wholly after it; say where frames never came.

    Raises:
        EvidenceError: a journaled frame or exchange cannot be read by this program.
    """
    clocks = _clocks(journal, agent, period, drift_ppm)
    found = {group: Series() for group in groups}
    buckets = BucketRuns(agent, drift_ppm)
    losses: list[frame_pb2.Loss] = []
    holes: list[tuple[range, int, int]] = []
    last_sequence, last_ns, after = None, period.from_ns, 0
    for entry in entries_from_before(journal, Kind.FRAME, agent, period, at_least=FRAMES_AT_EDGES):
        frame, ports = _read(journal, agent, entry)
        losses.extend(frame.losses)
        clock = clocks.get(frame.clock.boot_id)
        placed = clock.interval(frame.clock.monotonic_ns) if clock is not None else None
        at_ns = entry.recorded_ns if placed is None else min(placed[0], entry.recorded_ns)
        if last_sequence is not None and frame.sequence > last_sequence + 1:
            holes.append((range(last_sequence + 1, frame.sequence), last_ns, at_ns))
        last_sequence, last_ns = frame.sequence, at_ns
        if hears is not None:
            hears.take(frame, at_ns, entry.recorded_ns)
        buckets.take(frame, clock, entry.recorded_ns)
        look = _Look(frame.clock.boot_id, ports, _policed(frame), clock, entry.recorded_ns, at_ns)
        for group, series in found.items():
            _add(series, group, look)
        after += at_ns > period.to_ns
        if after >= FRAMES_AT_EDGES:
            break
    steps = [
        Note(each.after_ns, each.before_ns, f"the agent's clock contradicts itself: {each.reason}")
        for clock in clocks.values()
        for each in clock.steps
    ]
    for group, series in found.items():
        series.buckets = buckets.runs(group.ports)
        series.notes += steps
    for numbers, from_ns, to_ns in holes:
        for series in found.values():
            series.notes.append(Note(from_ns, to_ns, _lost_frames(numbers, losses)))
    return found


def _read(journal: Journal, agent: str, entry: Entry) -> tuple[frame_pb2.Frame, dict[str, PortReading]]:
    try:
        _, frame = parse_signed_frame(entry.body)
        # Of two readings of one port, by two sources, the first counts.
        return frame, {message.port: port_reading(message) for message in reversed(frame.ports)}
    except WireError as error:
        raise EvidenceError(
            f"{journal.path}: leaf {entry.leaf} is a frame of {agent} that this program cannot read: {error}. "
            "Update weighbridge on this machine."
        ) from error


def _lost_frames(numbers: range, losses: Sequence[frame_pb2.Loss]) -> str:
    reasons = [
        loss.reason for loss in losses if loss.first_sequence < numbers.stop and loss.last_sequence >= numbers.start
    ]
    why = f"the agent says why: {', '.join(dict.fromkeys(reasons))}" if reasons else "the agent has not said why"
    return f"frames {numbers.start} to {numbers.stop - 1} never came; {why}"


def _add(series: Series, group: PortGroup, look: _Look) -> None:
    """Add what one frame says about a group of ports, or why it says nothing."""
    found = [look.ports[name] for name in group.ports if name in look.ports]
    window = _window(found, look.clock, look.received_ns) if found and look.clock is not None else None
    wrong = _wrong(group, found, look, window)
    if wrong is not None or window is None:
        series.note(look.at_ns, look.received_ns, wrong or f"the agent could not read {', '.join(group.ports)}")
        return
    earliest_ns, latest_ns, width_ns = window
    key = (look.boot_id, *((port.port, port.source, port.epoch) for port in found))
    epoch = series.number_of(key, _reason(found), proven=True)
    series.clock_width_ns = max(series.clock_width_ns, width_ns)
    for direction in Direction:
        parts = [port.readings[direction] for port in found if direction in port.readings]
        placed = summed(parts, epoch=epoch, window=(earliest_ns, latest_ns)) if len(parts) == len(found) else None
        if placed is None:
            series.note(look.at_ns, look.received_ns, f"its ports do not count the same {direction.value} bytes")
            continue
        series.readings[direction].append(placed)
        lost = [_lost(port, direction) for port in found]
        if None not in lost:
            policed = [look.policed[name, direction] for name in group.ports if (name, direction) in look.policed]
            total = sum(value for value in lost if value is not None) + sum(packets for packets, _ in policed)
            until_ns = max([latest_ns, *(_latest(look, read_ns) for _, read_ns in policed)])
            series.drops[direction].append(replace(placed, bytes=total, packets=None, latest_ns=until_ns))


def _latest(look: _Look, read_ns: int) -> int:
    """Return the latest time on the timeline at which the agent's clock can have shown ``read_ns``."""
    found = look.clock.interval(read_ns) if look.clock is not None else None
    return look.received_ns if found is None else min(found[1], look.received_ns)


def _policed(frame: frame_pb2.Frame) -> dict[tuple[str, Direction], tuple[int, int]]:
    found: dict[tuple[str, Direction], tuple[int, int]] = {}
    for limiter in frame.limits.limiters:
        direction = DIRECTION.get(limiter.state.direction)
        if direction is not None and limiter.HasField("counters"):
            packets, read_ns = found.get((limiter.state.port, direction), (0, 0))
            dropped = limiter.counters.dropped_packets
            found[limiter.state.port, direction] = packets + dropped, max(read_ns, limiter.latest_ns)
    return found


def _wrong(
    group: PortGroup, found: Sequence[PortReading], look: _Look, window: tuple[int, int, int] | None
) -> str | None:
    """Why the frame says nothing about the group; None if it does."""
    lacking = [name for name in group.ports if name not in look.ports]
    if lacking:
        return f"the agent is not told to meter {', '.join(lacking)}"
    for port in found:
        if port.missing is not None:
            return f"the agent could not read {port.port}: {port.missing.value}"
    if look.clock is None:
        return "no clock exchange of the agent's boot is journaled"
    if window is not None:
        return None
    if look.clock.went_backwards:
        return "the agent's clock contradicts itself: in one boot it read less than it had before"
    return "the agent's clock contradicts itself: it puts a frame after the time at which it was received"


def _reason(ports: Sequence[PortReading]) -> str:
    return "; ".join(dict.fromkeys(f"{port.port}: {port.epoch_reason or 'unknown'}" for port in ports))


def _lost(port: PortReading, direction: Direction) -> int | None:
    """Packets that the port received or was given and did not pass on; None where the source counts none."""
    counted = [counts[direction] for counts in (port.dropped_packets, port.error_packets) if direction in counts]
    return sum(counted) if counted else None


def _window(ports: Sequence[PortReading], clock: AgentClock, received_ns: int) -> tuple[int, int, int] | None:
    """Return when, on the timeline, the agent looked at the ports, earliest and latest, and how wide its clock is.

    None if the clock cannot be placed, or if its place contradicts that the frame had been received by then.
    """
    first = clock.interval(min(port.looked_ns[0] for port in ports))
    last = clock.interval(max(port.looked_ns[1] for port in ports))
    if first is None or last is None or first[0] > received_ns:
        return None
    return first[0], min(last[1], received_ns), last[1] - last[0]


# ---------------------------------------------------------------- clocks


def _clocks(journal: Journal, agent: str, period: Period, drift_ppm: int) -> dict[str, AgentClock]:
    """The agent's clock in each boot that has exchanges around the period, by boot id."""
    by_boot: dict[str, list[Exchange]] = {}
    for boot_id, exchange in _exchanges(journal, agent, period):
        by_boot.setdefault(boot_id, []).append(exchange)
    return {boot_id: AgentClock(exchanges, drift_ppm=drift_ppm) for boot_id, exchanges in by_boot.items()}


def _exchanges(journal: Journal, agent: str, period: Period) -> Iterator[tuple[str, Exchange]]:
    after = 0
    for entry in entries_from_before(journal, Kind.CLOCK, agent, period, at_least=EXCHANGES_AT_EDGES):
        boot_id, exchange = read_exchange(journal, entry)
        yield boot_id, exchange
        after += exchange.sent_ns > period.to_ns
        if after >= EXCHANGES_AT_EDGES:
            return


def read_exchange(journal: Journal, entry: Entry) -> tuple[str, Exchange]:
    """Return the boot id and the stamps that a CLOCK entry holds.

    Raises:
        EvidenceError: it cannot be read.
    """
    try:
        body = json.loads(entry.body)
        t1, t2, t3, t4 = (int(body[key]) for key in ("t1", "t2", "t3", "t4"))
        # The raw clock was read a moment after T3, together with the clock itself: shift it back by as much.
        shift = int(body.get("monotonic_ns", t3)) - t3
        raw = int(body["monotonic_raw_ns"]) - shift
        controller_raw = body.get("controller_raw_ns")
        exchange = Exchange(
            sent_ns=t1,
            agent_received_ns=t2,
            agent_sent_ns=t3,
            received_ns=t4,
            agent_raw_ns=raw,
            controller_raw_ns=None if controller_raw is None else int(controller_raw),
            timeline=str(body.get("timeline", "")),
        )
        return str(body["boot_id"]), exchange
    except (ValueError, KeyError, TypeError) as error:
        raise EvidenceError(
            f"{journal.path}: leaf {entry.leaf} is not a clock exchange this program can read. "
            "Update weighbridge on this machine, or restore the journal from a copy."
        ) from error


def newest_reading_ns(journal: Journal, agent: str, *, drift_ppm: int) -> tuple[int, int] | None:
    """Return the earliest and latest time of an agent's newest reading; None if it has none that can be placed."""
    last = journal.last(Kind.FRAME, agent)
    if last is None:
        return None
    frame, ports = _read(journal, agent, last)
    clock = _clocks(journal, agent, Period(last.recorded_ns, last.recorded_ns), drift_ppm).get(frame.clock.boot_id)
    read = [port for port in ports.values() if port.missing is None]
    window = _window(read, clock, last.recorded_ns) if clock is not None and read else None
    return None if window is None else window[:2]
