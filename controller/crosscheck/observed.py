"""One observer of one link and direction, ready to be bounded: bytes in the common framing, packets, drops."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from controller.crosscheck.account import Account
from controller.crosscheck.epochs import epochs_of, near_readings
from controller.crosscheck.exact import Line, Rate
from controller.crosscheck.framing import without_fcs
from controller.crosscheck.model import Track
from controller.crosscheck.quantity import Quantity
from controller.crosscheck.wraps import unwrapped
from protos.reading import Framing, Observer, Reading

WIDE = 64
"""Bits of a counter that does not begin again in service: 5.8 years at 800 Gbit/s."""


@dataclass(frozen=True, slots=True)
class Observed:
    """What one observer's readings prove.

    Attributes:
        observer: who.
        track: what they were built from.
        origin: the time that is 0 in all quantities, nanoseconds of the timeline.
        counted: bytes as the counter counts them.
        bytes: bytes as layer 2 without FCS.
        packets: frames; None where the source has no packet counter.
        drops: what was dropped here in this direction, counter by counter, and whether it counts bytes; empty where
            drops are not counted.
        problems: contradictions inside the observer, each a part of a sentence. A contradictory epoch proves
            nothing and is left out of ``bytes``.
    """

    observer: Observer
    track: Track
    origin: int
    counted: Account
    bytes: Quantity
    packets: Account | None
    drops: tuple[tuple[Account, bool], ...]
    problems: tuple[str, ...]

    @property
    def usable(self) -> bool:
        """Whether any reading proves anything about its bytes."""
        return self.counted.usable

    def widened(self, earlier: int, later: int) -> Observed:
        """Return what the readings would prove if each window were wider by so many nanoseconds.

        That is what a longer refresh period (``earlier`` alone) or a worse clock (both) would mean.
        """
        counted = self.counted.widened(earlier, later)
        packets = None if self.packets is None else self.packets.widened(earlier, later)
        return replace(
            self,
            counted=counted,
            bytes=without_fcs(counted, packets, _framing(self.track)),
            packets=packets,
            drops=tuple((drops.widened(earlier, later), in_bytes) for drops, in_bytes in self.drops),
        )

    def without_line(self) -> Observed:
        """Return what the readings prove without believing the port's line rate."""
        counted = self.counted.without_line()
        return replace(self, counted=counted, bytes=without_fcs(counted, self.packets, _framing(self.track)))


def _framing(track: Track) -> Framing:
    return track.readings[0].framing if len(track.readings) else Framing.L2_WITHOUT_FCS


def observe(track: Track, origin: int) -> Observed:
    """Build what a track proves.

    1. Readings further than 36 years from the origin, or in another framing than the first, are left out and named.
    2. Bytes, packets and drops become accounts over all epochs.
    3. Bytes are converted to layer 2 without FCS by the packets counted beside them.
    """
    framing = _framing(track)
    problems = []
    readings = near_readings(track.readings, origin)
    if len(readings) < len(track.readings):
        problems.append(f"{len(track.readings) - len(readings)} readings are decades away from the period")
    drops, left_out = drops_of(track, origin)
    if left_out:
        problems.append(f"{left_out} drop readings are decades away from the period")
    own = readings.framings == readings.framings[:1]
    same = readings if bool(own.all()) else readings.where(own)
    if len(same) < len(readings):
        problems.append(f"{len(readings) - len(same)} readings count another framing than {framing.value}")
    line = None
    if track.line_rate_bytes_per_s is not None:
        line = Line(Rate.per_second(track.line_rate_bytes_per_s), track.step_bytes)
    counted = _account(same, track, origin, line)
    # A packet counter may be missing from some readings: its epochs then have fewer readings, which is sound.
    has_packets = track.counter_bits >= WIDE and bool(same.counted.any())
    packets = _account(same, track, origin, None, packets=True) if has_packets else None
    problems += [str(wrong) for wrong in counted.contradictions]
    problems += [f"packets: {wrong}" for wrong in (packets.contradictions if packets else ())]
    problems += [f"drops: {wrong}" for account, _ in drops for wrong in account.contradictions]
    return Observed(
        observer=track.observer,
        track=track,
        origin=origin,
        counted=counted,
        bytes=without_fcs(counted, packets, framing),
        packets=packets,
        drops=drops,
        problems=tuple(problems),
    )


def drops_of(track: Track, origin: int) -> tuple[tuple[tuple[Account, bool], ...], int]:
    """Return every counter of drops as an account, whether it counts bytes, and how many readings are too far away."""
    counters = ((track.drop_packets, False), *((counter.readings, counter.in_bytes) for counter in track.drop_counters))
    accounts, left_out = [], 0
    for readings, in_bytes in counters:
        near = near_readings(readings, origin)
        left_out += len(readings) - len(near)
        if readings:
            accounts.append((_account(near, replace(track, counter_bits=WIDE), origin, None), in_bytes))
    return tuple(accounts), left_out


def _account(
    readings: Sequence[Reading], track: Track, origin: int, line: Line | None, *, packets: bool = False
) -> Account:
    epochs = epochs_of(readings, origin=origin, proven=track.proven_epochs, starts=track.epoch_starts, packets=packets)
    if track.counter_bits < WIDE:
        epochs = [part for epoch in epochs for part in unwrapped(epoch, track.counter_bits, line)]
    return Account(epochs, line)
