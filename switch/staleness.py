"""Whether a switch keeps the refresh period that is declared for it, told by a second observer of the same cable. Pure.

A counter that stands still says nothing by itself: an idle port looks the same. But when a neighbour on the cable
counted bytes and the switch's port, asked later than its refresh period after that, still showed none of them and then
caught up, the value it gave was older than declared. (Or the neighbour counted bytes before they passed; the two are
one trust domain each, so this accuses nobody.)

Samples of one value in a row, with a change before and a change after, are a *hold*. The device refreshed after the
request before the hold, because the value changed; so no sample of the hold is older than from there to its arrival.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from protos.reading import Direction, Missing, Reading
from switch.epochs import Judged, PortHistory
from switch.ports import PortSample


@dataclass(frozen=True, slots=True)
class StaleHold:
    """A hold that lasted longer than the declared refresh period allows.

    Attributes:
        direction: of the counter, as the node sees it.
        from_ns: arrival of the first sample that showed the value.
        to_ns: first transmission of the request for the last one.
        age_at_least_ns: the last sample's value was at least this old when it was asked for.
        age_at_most_ns: no sample of the hold was older than this at its arrival.
        bytes_unseen: that the neighbour certainly counted meanwhile, at least.
    """

    direction: Direction
    from_ns: int
    to_ns: int
    age_at_least_ns: int
    age_at_most_ns: int
    bytes_unseen: int


@dataclass(frozen=True, slots=True)
class _Hold:
    before: PortSample
    first: PortSample
    last: PortSample
    after: PortSample
    value: int
    next_value: int


def stale_holds(
    history: PortHistory, direction: Direction, neighbour: Sequence[Reading], allowance_bytes: int
) -> list[StaleHold]:
    """Return the holds of a port in which its counter was certainly older than declared.

    1. Take each hold that lasted longer than the refresh period; shorter ones can show nothing.
    2. The neighbour's bytes after the hold's first arrival, as far as they are certain: more than what may be on the
       way between the two.
    3. By the neighbour's first reading that shows so many, they had passed the switch. The last sample of the hold
       did not show them, so its value is from before: if that is longer ago than the refresh period, and the counter
       then caught up by as much, the device did not keep it.

    Args:
        history: the port's samples, judged.
        direction: which of its counters.
        neighbour: readings of the observer at the other end of the cable, in order of time.
        allowance_bytes: most bytes that the neighbour may have counted and the switch not, or the other way round.
    """
    epochs: dict[int, list[Reading]] = {}
    for reading in neighbour:
        epochs.setdefault(reading.epoch, []).append(reading)
    found = []
    for hold in _holds(history.judged, direction):
        if hold.last.first_sent_ns - hold.first.received_ns <= hold.last.refresh_ns:
            continue
        for readings in epochs.values():
            stale = _stale(hold, direction, readings, allowance_bytes)
            if stale is not None:
                found.append(stale)
                break
    return found


def could_be_stale(history: PortHistory, direction: Direction) -> bool:
    """Return whether any hold is long enough to be worth asking a neighbour about."""
    return any(
        hold.last.first_sent_ns - hold.first.received_ns > hold.last.refresh_ns
        for hold in _holds(history.judged, direction)
    )


def _stale(hold: _Hold, direction: Direction, readings: Sequence[Reading], allowance_bytes: int) -> StaleHold | None:
    begin = bisect_left(readings, hold.first.received_ns, key=lambda reading: reading.earliest_ns)
    if begin == len(readings):
        return None
    base = readings[begin].bytes + readings[begin].bytes_slack
    enough = bisect_left(readings, base + allowance_bytes + 1, lo=begin, key=lambda reading: reading.bytes)
    if enough == len(readings):
        return None
    passed_by_ns = readings[enough].latest_ns
    unseen = readings[enough].bytes - base - allowance_bytes
    age_ns = hold.last.first_sent_ns - passed_by_ns
    if age_ns <= hold.last.refresh_ns or hold.next_value - hold.value < unseen:
        return None
    return StaleHold(
        direction=direction,
        from_ns=hold.first.received_ns,
        to_ns=hold.last.first_sent_ns,
        age_at_least_ns=age_ns,
        age_at_most_ns=hold.last.received_ns - hold.before.first_sent_ns,
        bytes_unseen=unseen,
    )


def _holds(judged: Sequence[Judged], direction: Direction) -> Iterator[_Hold]:
    """Yield the stretches of one value that have a smaller one before and a larger one after, within one epoch."""
    runs: list[tuple[int, int, PortSample, PortSample]] = []  # epoch, value, first, last
    for entry in judged:
        value = entry.sample.toward(direction).octets
        if entry.epoch is None or isinstance(value, Missing):
            continue
        if runs and runs[-1][:2] == (entry.epoch, value):
            runs[-1] = (*runs[-1][:3], entry.sample)
            continue
        runs.append((entry.epoch, value, entry.sample, entry.sample))
        if len(runs) > 3:
            del runs[0]
        if len(runs) == 3 and runs[0][0] == runs[1][0] == runs[2][0]:
            yield _Hold(runs[0][3], runs[1][2], runs[1][3], runs[2][2], runs[1][1], runs[2][1])
