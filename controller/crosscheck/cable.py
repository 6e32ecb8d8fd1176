"""What an observer's count says about the cable between DPU and switch, where limits and periods are judged.

The DPU's uplink and the switch port stand at the cable: their counts are the cable's. The host and the DPU's host
port stand behind the DPU: between them and the cable lie bytes in flight, drops, and the DPU's own traffic.
"""

from __future__ import annotations

from dataclasses import dataclass

from controller.crosscheck.case import Case
from controller.crosscheck.exact import Rate
from controller.crosscheck.framing import cut_at_most
from controller.crosscheck.observed import Observed
from controller.crosscheck.quantity import Quantity, bounds
from protos.reading import Direction, Observer


@dataclass(frozen=True, slots=True)
class Difference:
    """By how much the cable can have carried more (``above``) and less (``below``) than was counted; None: unknown."""

    above: int | None
    below: int | None


def difference(observer: Observer, case: Case, ns: int) -> Difference:
    """Return the difference over any ``ns`` within the period.

    1. At the cable: none.
    2. Bytes in flight, late completion, the DPU's own and control traffic can be on either side.
    3. What the DPU drops of what leaves (counted, or not at all) makes the cable carry less than its host port saw;
       of what enters, more. What the host itself loses nobody counts: what it sent bounds the cable from above only,
       what it received from below only.
    """
    if observer in (Observer.SWITCH, Observer.DPU_UPLINK):
        return Difference(0, 0)
    assumptions, leaving = case.assumptions, case.direction is Direction.EGRESS
    if observer is Observer.HOST:
        rate = assumptions.dpu_own_bytes_per_s + assumptions.control_bytes_per_s
        either = 3 * assumptions.in_flight_bytes + assumptions.late_completion_bytes + _in(rate, ns)
        return Difference(either, None) if leaving else Difference(None, either)
    either = assumptions.in_flight_bytes + _in(assumptions.dpu_own_bytes_per_s, ns)
    dropped = dropped_in_dpu(case)
    lost = None if dropped is None else either + dropped
    return Difference(either, lost) if leaving else Difference(lost, either)


def in_frames(one: Observed) -> Quantity | None:
    """Return a quantity whose most is what an observer's bytes were as frames; None if nothing bounds it.

    A counter of super-packets leaves out the headers of each further frame, and of short frames the padding.
    """
    headers = one.track.super_packet_header_bytes
    if headers is None:
        return one.bytes
    if one.track.unpadded and one.packets is None:
        return None
    return cut_at_most(one.bytes, one.packets if one.track.unpadded else None, headers[1])


def dropped_in_dpu(case: Case) -> int | None:
    """Return the most bytes the DPU dropped in the period; None if it does not count them at both its ports."""
    dropped = 0
    for place in (Observer.DPU_HOST_PORT, Observer.DPU_UPLINK):
        counters = case.seen[place].drops if place in case.seen else ()
        mosts = [bounds(drops, 0, case.length)[1] for drops, _ in counters]
        if not mosts:
            return None
        for most, (_, in_bytes) in zip(mosts, counters, strict=True):
            if most is None:
                return None
            dropped += most * (1 if in_bytes else case.assumptions.largest_frame_bytes)
    return dropped


def _in(rate_bytes_per_s: int, ns: int) -> int:
    return Rate.per_second(rate_bytes_per_s).in_ns(ns) + 1 if rate_bytes_per_s else 0
