"""When observers were looking, and who was not when they were not.

A time is covered by an observer if it lies between two readings of one proven, consistent epoch that were taken no
further apart than the site allows. Coverage is the share of the period that the DPU's ports and the switch all
cover (design section 2).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from controller.crosscheck.columns import columns
from controller.crosscheck.exact import subtract
from controller.crosscheck.model import Silence, Track
from protos.reading import Observer

Stretches = tuple[tuple[int, int], ...]
"""Disjoint stretches of time in order, nanoseconds of the timeline."""

OFF_HOST = (Observer.DPU_HOST_PORT, Observer.DPU_UPLINK, Observer.SWITCH)
UNEXPLAINED = "nothing recorded says why"
WHO = {
    "controller-stopped": "the controller was stopped",
    "network-cut": "the management network was cut",
    "device-silent": "the device did not answer while it could be reached",
    "not-polled": "nobody asked",
}


def covered(track: Track, void_epochs: frozenset[int], largest_gap_ns: int) -> Stretches:
    """Return when one observer was looking.

    1. Each proven and consistent epoch covers from its first ``latest`` to its last ``earliest``.
    2. Between two neighbours taken further apart than ``largest_gap_ns`` it does not.
    """
    given = columns(track.readings)
    stretches = []
    for number in given.epochs:
        if number not in track.proven_epochs or number in void_epochs:
            continue
        readings = given.of_epoch(number)
        order = np.argsort(readings.latest, kind="stable")
        latest, earliest = readings.latest[order], readings.earliest[order]
        breaks = np.flatnonzero(subtract(latest[1:], latest[:-1]) > largest_gap_ns)
        first = 0
        for last in (*(int(at) for at in breaks), len(latest) - 1):
            start, end = int(latest[first]), int(earliest[first : last + 1].max())
            if start < end:
                stretches.append((start, end))
            first = last + 1
    return union(stretches)


def union(stretches: Iterable[tuple[int, int]]) -> Stretches:
    """Return the stretches merged where they touch."""
    merged: list[tuple[int, int]] = []
    for start, end in sorted(stretches):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return tuple(merged)


def intersection(first: Stretches, second: Stretches) -> Stretches:
    """Return what lies in both."""
    both = []
    left = right = 0
    while left < len(first) and right < len(second):
        start = max(first[left][0], second[right][0])
        end = min(first[left][1], second[right][1])
        if start < end:
            both.append((start, end))
        if first[left][1] < second[right][1]:
            left += 1
        else:
            right += 1
    return tuple(both)


def gaps(stretches: Stretches, from_ns: int, to_ns: int) -> Stretches:
    """Return what of ``(from_ns, to_ns]`` no stretch covers."""
    left = []
    at = from_ns
    for start, end in stretches:
        if end <= from_ns or start >= to_ns:
            continue
        if start > at:
            left.append((at, start))
        at = max(at, end)
    if at < to_ns:
        left.append((at, to_ns))
    return tuple(left)


def share(stretches: Stretches, from_ns: int, to_ns: int) -> float:
    """Return the share of ``(from_ns, to_ns]`` that is covered, 0 to 1; 0 for an empty period."""
    length = to_ns - from_ns
    if length <= 0:
        return 0.0
    return 1 - sum(end - start for start, end in gaps(stretches, from_ns, to_ns)) / length


def why(silences: Sequence[Silence], gap: tuple[int, int]) -> str:
    """Return everyone who was not looking in a gap, by the recorded silences that overlap it, the longest first."""
    lengths: dict[str, int] = {}
    texts: dict[str, str] = {}
    for silence in silences:
        overlap = min(silence.to_ns, gap[1]) - max(silence.from_ns, gap[0])
        if overlap > 0:
            lengths[silence.who] = lengths.get(silence.who, 0) + overlap
            texts.setdefault(silence.who, silence.text)
    if not lengths:
        return UNEXPLAINED
    told = []
    for who in sorted(lengths, key=lambda who: (-lengths[who], who)):
        text = f": {texts[who]}" if texts[who] else ""
        told.append(f"{WHO.get(who, who)} ({who}){text}")
    return "; for a shorter part ".join(told)
