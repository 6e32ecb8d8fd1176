"""From a port's samples to readings in counter epochs. Pure.

A reading is never made across a doubt: each sample starts from where the evidence of :mod:`switch.continuity`
leaves it, either in the epoch so far or as the first of a new one. No difference is ever taken across an epoch,
so a reset can cost a stretch of knowledge but not make a number up.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass

from protos.reading import Direction, Missing, Reading
from switch.continuity import (
    Break,
    EpochReason,
    Plausibility,
    broken,
    counter32_step,
    gaps,
    no_counter,
    too_far_apart,
)
from switch.ports import PortSample


class Loss(enum.Enum):
    """Which packets a port lost."""

    DISCARDS = "discards"
    ERRORS = "errors"


@dataclass(frozen=True, slots=True)
class Epoch:
    """A stretch in which the port's counters went on.

    Attributes:
        number: from 0.
        reason: why it began.
        text: the evidence, in a sentence.
        lacking: what its samples lack to prove that it is one epoch; empty if it is proven.
    """

    number: int
    reason: EpochReason
    text: str
    lacking: tuple[str, ...] = ()

    @property
    def proven(self) -> bool:
        """Whether upper bounds may rest on it."""
        return not self.lacking


@dataclass(frozen=True, slots=True)
class Judged:
    """A sample and its epoch, or why it says nothing."""

    sample: PortSample
    epoch: int | None
    rejected: str = ""


@dataclass(frozen=True, slots=True)
class PortHistory:
    """All samples of one port, judged."""

    judged: tuple[Judged, ...]
    epochs: tuple[Epoch, ...]

    @property
    def epoch_reasons(self) -> dict[int, str]:
        """Why each epoch after the first began, by number: the type, a colon, the evidence."""
        return {epoch.number: f"{epoch.reason.value}: {epoch.text}" for epoch in self.epochs if epoch.number}

    @property
    def proven_epochs(self) -> frozenset[int]:
        """The epochs whose continuity is evidenced; in any other, upper bounds are void (bounds.md 3)."""
        return frozenset(epoch.number for epoch in self.epochs if epoch.proven)

    @property
    def rejected(self) -> tuple[Judged, ...]:
        """The samples that say nothing, with the reason of each."""
        return tuple(entry for entry in self.judged if entry.epoch is None)

    def readings(self, direction: Direction | None) -> tuple[Reading, ...]:
        """Return the readings of octets in one direction, or with None of both together, in order of time.

        ``earliest`` is the first transmission of the request less the device's refresh period, ``latest`` the
        arrival of the answer. A sample without the counter gives none.
        """
        directions = (direction,) if direction is not None else (Direction.EGRESS, Direction.INGRESS)
        readings: list[Reading] = []
        for entry in self.judged:
            if entry.epoch is None:
                continue
            counters = [entry.sample.toward(each) for each in directions]
            octets = [each.octets for each in counters if not isinstance(each.octets, Missing)]
            packets = [each.packets(entry.sample.framing) for each in counters]
            counted = [each for each in packets if each is not None]
            if len(octets) < len(directions):
                continue
            readings.append(
                Reading(
                    earliest_ns=entry.sample.earliest_ns,
                    latest_ns=entry.sample.latest_ns,
                    bytes=sum(octets),
                    packets=sum(counted) if len(counted) == len(directions) else None,
                    epoch=entry.epoch,
                    framing=entry.sample.framing,
                )
            )
        return tuple(readings)

    def packets_lost(self, direction: Direction, loss: Loss) -> tuple[Reading, ...]:
        """Return the readings of packets lost at the port in one direction (``bytes`` holds packets).

        The agent's counters have 32 bits; within an epoch they are continued over their wraps, of which there
        can be at most one between two samples less than 29 s apart on a line of 100 Gb/s.
        """
        readings: list[Reading] = []
        last: tuple[int, int] | None = None
        total = 0
        for entry in self.judged:
            counters = entry.sample.toward(direction)
            value = counters.discards if loss is Loss.DISCARDS else counters.errors
            if entry.epoch is None or isinstance(value, Missing):
                continue
            step = counter32_step(last[1], value) if last is not None and last[0] == entry.epoch else None
            total = total + step if step is not None else value
            last = (entry.epoch, value)
            sample = entry.sample
            readings.append(Reading(sample.earliest_ns, sample.latest_ns, total, None, entry.epoch, sample.framing))
        return tuple(readings)


def judge(samples: Sequence[PortSample], plausibility: Plausibility | None = None) -> PortHistory:
    """Judge the samples of one port.

    1. In order of time; the same sample twice counts once. One whose octets are no counter says nothing (a LAG).
    2. Each sample is held against the last one accepted. Nothing speaks against it: same epoch.
    3. Something does. If the next sample continues the last accepted one and not this one, this one alone is
       garbage and is set aside.
    4. Otherwise a new epoch begins with this sample as its baseline. If the counter jumped by more than the line
       carries, the samples before the jump in which it stood still may have been stale: all but the first are
       set aside.
    5. An epoch is proven if none of its samples lacks evidence and no two neighbours are so far apart that
       sysUpTime shows nothing.
    """
    limits = plausibility or Plausibility()
    ordered = sorted(dict.fromkeys(samples), key=lambda sample: (sample.first_sent_ns, sample.received_ns))
    judged: list[Judged] = []
    epochs: list[Epoch] = []
    accepted: PortSample | None = None
    for position, sample in enumerate(ordered):
        if no_counter(sample):
            judged.append(Judged(sample, None, no_counter(sample)))
            continue
        if accepted is None:
            epochs.append(Epoch(0, EpochReason.FIRST, "the first sample is the baseline", gaps(sample, limits)))
        else:
            why = broken(accepted, sample, limits)
            if why is not None:
                following = ordered[position + 1] if position + 1 < len(ordered) else None
                if following is not None and _is_garbage(accepted, sample, following, limits):
                    judged.append(Judged(sample, None, f"a single sample out of line: {why.text}"))
                    continue
                _set_stale_aside(judged, why)
                epochs.append(Epoch(len(epochs), why.reason, why.text, gaps(sample, limits)))
            else:
                epochs[-1] = _with_evidence(epochs[-1], accepted, sample, limits)
        accepted = sample
        judged.append(Judged(sample, epochs[-1].number))
    return PortHistory(tuple(judged), tuple(epochs))


def readings(
    samples: Sequence[PortSample], direction: Direction | None, plausibility: Plausibility | None = None
) -> tuple[Reading, ...]:
    """Return :func:`judge`'s readings of one direction (None: both together)."""
    return judge(samples, plausibility).readings(direction)


def _is_garbage(before: PortSample, sample: PortSample, after: PortSample, limits: Plausibility) -> bool:
    return broken(before, after, limits) is None and broken(sample, after, limits) is not None


def _with_evidence(epoch: Epoch, before: PortSample, sample: PortSample, limits: Plausibility) -> Epoch:
    lacking = gaps(sample, limits)
    if too_far_apart(before, sample):
        lacking = (*lacking, "two samples so far apart that sysUpTime shows nothing")
    fresh = tuple(what for what in lacking if what not in epoch.lacking)
    return Epoch(epoch.number, epoch.reason, epoch.text, (*epoch.lacking, *fresh)) if fresh else epoch


def _set_stale_aside(judged: list[Judged], why: Break) -> None:
    if why.reason is not EpochReason.IMPLAUSIBLE_RATE or not judged:
        return
    for direction in why.directions:
        last = next((entry for entry in reversed(judged) if entry.epoch is not None), None)
        if last is None:
            return
        value = last.sample.toward(direction).octets
        run = [
            number
            for number, entry in enumerate(judged)
            if entry.epoch == last.epoch and entry.sample.toward(direction).octets == value
        ]
        for number in run[1:]:
            text = f"the counter stood still before it caught up by a jump: {why.text}"
            judged[number] = Judged(judged[number].sample, None, text)
