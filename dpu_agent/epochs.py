"""Decides whether a counter went on: pure, no clock, no file.

Counters are compared only within a counter epoch, so an epoch may go on only on evidence. Per port and source, in
this order, a new epoch begins because of

- ``first-reading``: the agent never read this counter before;
- ``boot``: the boot id differs from the last reading's;
- ``interface-recreated``: the interface's index differs, or a look in between found it gone;
- ``counter-decreased``: bytes, packets, drops or errors are lower than at the last reading, in either direction;
- ``configuration-changed``: the port's role changed, or the source counts other bytes of a frame than before.

A look that failed for another reason (no answer, denied) is no evidence of a new interface: the same index and no
decrease afterwards show that the counter went on. An agent that was restarted compares with what it stored, so an
epoch outlives the agent within one boot. Not seen this way: an interface re-created between two looks under the same
index whose counters have already grown beyond the old ones.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from dpu_agent.counters import CounterValues, PortSample
from protos.reading import Direction, Framing, Missing, Observer, Reading
from protos.wire import PortReading

FIRST_READING = "first-reading"
BOOT = "boot"
INTERFACE_RECREATED = "interface-recreated"
COUNTER_DECREASED = "counter-decreased"
CONFIGURATION_CHANGED = "configuration-changed"

PortKey = tuple[str, str]
"""Port and source: their counters never mix."""


@dataclass(frozen=True, slots=True)
class PortState:
    """What must be known of the last reading to judge the next one.

    ``epoch`` is 0 until the first reading; ``gone`` is set by a look that found no such interface.
    """

    role: Observer
    framing: Framing
    epoch: int = 0
    reason: str = ""
    boot_id: str = ""
    ifindex: int = 0
    gone: bool = False
    counters: Mapping[Direction, CounterValues] = field(default_factory=dict)


def advance(
    states: Mapping[PortKey, PortState], boot_id: str, samples: Sequence[PortSample]
) -> tuple[dict[PortKey, PortState], list[PortReading]]:
    """Return the states after ``samples``, and the samples as readings that carry their epoch.

    States of ports that are not in ``samples`` stay, so that a port that comes back to the configuration never uses
    an epoch's number again.
    """
    after, readings = dict(states), []
    for sample in samples:
        key = (sample.port.name, sample.source.name)
        before = after.get(key) or PortState(sample.port.role, sample.source.framing)
        state = _missed(before, sample) if sample.missing else _read(before, boot_id, sample)
        if state.epoch:
            after[key] = state
        readings.append(_reading(sample, state))
    return after, readings


def after_readings(
    states: Mapping[PortKey, PortState], boot_id: str, readings: Sequence[PortReading]
) -> dict[PortKey, PortState]:
    """Return the states after ``readings`` of a stored frame: the same that :func:`advance` returned with them."""
    after = dict(states)
    for reading in readings:
        key = (reading.port, reading.source)
        if reading.missing is not None:
            if key in after:
                gone = after[key].gone or reading.missing is Missing.ABSENT
                after[key] = replace(after[key], gone=gone)
            continue
        after[key] = PortState(
            role=reading.observer,
            framing=next(iter(reading.readings.values())).framing,
            epoch=reading.epoch,
            reason=reading.epoch_reason,
            boot_id=boot_id,
            ifindex=reading.ifindex,
            counters={
                direction: CounterValues(
                    bytes=found.bytes,
                    packets=found.packets,
                    dropped_packets=reading.dropped_packets.get(direction),
                    error_packets=reading.error_packets.get(direction),
                )
                for direction, found in reading.readings.items()
            },
        )
    return after


def _missed(before: PortState, sample: PortSample) -> PortState:
    return replace(before, gone=before.gone or sample.missing is Missing.ABSENT)


def _read(before: PortState, boot_id: str, sample: PortSample) -> PortState:
    reason = _broken_by(before, boot_id, sample)
    return PortState(
        role=sample.port.role,
        framing=sample.source.framing,
        epoch=before.epoch if reason is None else before.epoch + 1,
        reason=before.reason if reason is None else reason,
        boot_id=boot_id,
        ifindex=sample.ifindex,
        counters=sample.counters,
    )


def _broken_by(before: PortState, boot_id: str, sample: PortSample) -> str | None:
    """Why the epoch cannot go on; None if nothing speaks against it."""
    if before.epoch == 0:
        return FIRST_READING
    if before.boot_id != boot_id:
        return BOOT
    if before.gone or before.ifindex != sample.ifindex:
        return INTERFACE_RECREATED
    if before.role is not sample.port.role or before.framing is not sample.source.framing:
        # Directions are swapped by another role, so "decreased" would compare different counters.
        return CONFIGURATION_CHANGED
    pairs = ((before.counters.get(direction), now) for direction, now in sample.counters.items())
    if any(old is not None and now.decreased_from(old) for old, now in pairs):
        return COUNTER_DECREASED
    return None


def _reading(sample: PortSample, state: PortState) -> PortReading:
    return PortReading(
        port=sample.port.name,
        observer=sample.port.role,
        epoch=state.epoch,
        epoch_reason=state.reason,
        readings={
            direction: Reading(
                earliest_ns=sample.earliest_ns,
                latest_ns=sample.latest_ns,
                bytes=values.bytes,
                packets=values.packets,
                epoch=state.epoch,
                framing=sample.source.framing,
            )
            for direction, values in sample.counters.items()
        },
        dropped_packets={d: v.dropped_packets for d, v in sample.counters.items() if v.dropped_packets is not None},
        missing=sample.missing,
        error_packets={d: v.error_packets for d, v in sample.counters.items() if v.error_packets is not None},
        source=sample.source.name,
        ifindex=sample.ifindex,
        looked_ns=(sample.earliest_ns, sample.latest_ns),
    )
