"""Whether a port's counters surely went on from one sample to the next. Pure.

Counters of 64 bits do not wrap in service (800 Gb/s takes 5.8 years), so a decrease is never a wrap. What ends a
counter epoch, strongest evidence first:

- sysUpTime went back, modulo 2^32 (it wraps after 497 days: then it is as much later as the controller's clock);
- snmpEngineBoots changed, or snmpEngineTime went back;
- ifCounterDiscontinuityTime changed (that it did not, proves nothing: many agents never set it);
- the port is another row, another engine or another piece of hardware than before;
- a monotone counter of the row decreased;
- the step is physically impossible: more octets than the line carries, or frames smaller or larger than frames
  are. This is a filter, not a proof; it catches net-snmp's phantom steps of 2^32 and its catch-up jumps.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

from protos.reading import Direction, Framing, Missing
from switch.ports import PortCounters, PortSample, Value

_NS_PER_S = 1_000_000_000
_TICKS_PER_S = 100
_TICK_MODULUS = 2**32
_COUNTER32_MODULUS = 2**32

UPTIME_SLACK_TICKS = 200
"""2 s: agents stamp sysUpTime when they start on a request or when they finish."""
UPTIME_DRIFT_DIVISOR = 100
"""1 %: the agent's clock against ours; no oscillator is near it."""
ENGINE_TIME_SLACK_S = 1
RATE_MARGIN_PERCENT = 2
"""R5: octets are counted in bursts and line rates are nominal."""
SKEW_FRAMES = 10_000
"""Octets and packets of one row may be of slightly different instants."""
SKEW_PERCENT = 1

LAG_IF_TYPE = 161
"""ieee8023adLag (IANAifType-MIB)."""

SPEEDS_MBIT_PER_S = frozenset(
    {10, 100, 1_000, 2_500, 5_000, 10_000, 20_000, 25_000, 40_000, 50_000, 56_000, 100_000, 200_000, 400_000}
    | {800_000, 1_600_000}
)
"""What an Ethernet or InfiniBand port can be. Anything else that ifHighSpeed says is not believed."""

_SMALLEST_FRAME = {
    Framing.L2_WITHOUT_FCS: 14,  # Linux counts what it was given, unpadded
    Framing.L2_WITH_FCS: 64,
    Framing.L1: 84,
}
_LARGEST_FRAME = {
    Framing.L2_WITHOUT_FCS: 65_550,  # a software switch may count a super-packet of segmentation offload as one
    Framing.L2_WITH_FCS: 16_384,
    Framing.L1: 16_408,
}


class EpochReason(enum.Enum):
    """Why a counter epoch began."""

    FIRST = "first-sample"
    REBOOT = "reboot"
    ENGINE_RESTARTED = "engine-restarted"
    UPTIME_INCONSISTENT = "uptime-inconsistent"
    DISCONTINUITY = "counter-discontinuity"
    BINDING_CHANGED = "binding-changed"
    COUNTER_DECREASED = "counter-decreased"
    IMPLAUSIBLE_RATE = "implausible-rate"
    IMPLAUSIBLE_FRAMES = "implausible-frames"


@dataclass(frozen=True, slots=True)
class Break:
    """Why two samples are not of one epoch. ``directions``: in which the step itself was impossible."""

    reason: EpochReason
    text: str
    directions: tuple[Direction, ...] = ()


@dataclass(frozen=True, slots=True)
class Plausibility:
    """What a port can do, as the site file declares it; None leaves it to ifHighSpeed and to the framing.

    Attributes:
        line_rate_bytes_per_s: of the port, layer 2.
        largest_frame_bytes: as the device's framing counts it.
    """

    line_rate_bytes_per_s: int | None = None
    largest_frame_bytes: int | None = None


def broken(before: PortSample, after: PortSample, plausibility: Plausibility) -> Break | None:
    """Return why ``after`` does not continue ``before``, or None if nothing speaks against it.

    The evidence is asked in the order of the module's list; the first that speaks names the reason.
    """
    return (
        _uptime(before, after)
        or _engine(before, after)
        or _discontinuity(before, after)
        or _binding(before, after)
        or _decrease(before, after)
        or _rate(before, after, plausibility)
        or _frames(before, after, plausibility)
    )


def gaps(sample: PortSample, plausibility: Plausibility) -> tuple[str, ...]:
    """Return what this sample lacks to prove, with others, that an epoch went on; empty if nothing."""
    lacking: list[str] = []
    if isinstance(sample.sys_uptime_ticks, Missing):
        lacking.append("no sysUpTime")
    if isinstance(sample.engine_boots, Missing):
        lacking.append("no snmpEngineBoots")
    counted = all(counters.packets(sample.framing) is not None for counters in (sample.switch_in, sample.switch_out))
    if line_rate(sample, plausibility) is None and not counted:
        lacking.append("neither a line rate nor packet counters to test its steps with")
    if no_counter(sample):
        lacking.append(no_counter(sample))
    return tuple(lacking)


def no_counter(sample: PortSample) -> str:
    """Return why the octets of ``sample`` are not a counter at all; empty if nothing says so.

    Many devices answer for a LAG with the sum over its members of the moment: it falls when a member leaves and jumps
    by a port's whole history when one joins, however small that is. The members' own counters tell what passed.
    """
    if sample.if_type == LAG_IF_TYPE:
        return "a LAG's octets are the sum over its members of the moment and no counter; declare the members' ports"
    return ""


def too_far_apart(before: PortSample, after: PortSample) -> bool:
    """Whether sysUpTime may have gone around more than half way between two samples, so that it shows nothing."""
    return (after.received_ns - before.first_sent_ns) * _TICKS_PER_S // _NS_PER_S >= _TICK_MODULUS // 2


def line_rate(sample: PortSample, plausibility: Plausibility) -> int | None:
    """Return the port's octets per second: as declared, else by ifHighSpeed if that is a speed there is."""
    if plausibility.line_rate_bytes_per_s is not None:
        return plausibility.line_rate_bytes_per_s
    speed = sample.high_speed_mbit_per_s
    if isinstance(speed, Missing) or speed not in SPEEDS_MBIT_PER_S:
        return None
    return speed * 1_000_000 // 8


def _uptime(before: PortSample, after: PortSample) -> Break | None:
    old, new = before.sys_uptime_ticks, after.sys_uptime_ticks
    if isinstance(old, Missing) or isinstance(new, Missing) or too_far_apart(before, after):
        return None
    least = max(0, after.first_sent_ns - before.received_ns) * _TICKS_PER_S // _NS_PER_S
    most = -(-max(0, after.received_ns - before.first_sent_ns) * _TICKS_PER_S // _NS_PER_S)
    slack = UPTIME_SLACK_TICKS + most // UPTIME_DRIFT_DIVISOR
    moved = (new - old) % _TICK_MODULUS
    if moved >= _TICK_MODULUS // 2:
        moved -= _TICK_MODULUS
    if least - slack <= moved <= most + slack:
        return None
    seen = f"sysUpTime {old} -> {new} ticks while {least} to {most} passed"
    if new < old or new + slack < least:
        return Break(EpochReason.REBOOT, f"{seen}: the agent started anew")
    return Break(EpochReason.UPTIME_INCONSISTENT, f"{seen}: its clock is no evidence")


def _engine(before: PortSample, after: PortSample) -> Break | None:
    old, new = before.engine_boots, after.engine_boots
    if not isinstance(old, Missing) and not isinstance(new, Missing) and old != new:
        return Break(EpochReason.ENGINE_RESTARTED, f"snmpEngineBoots {old} -> {new}")
    was, now = before.engine_time_s, after.engine_time_s
    if not isinstance(was, Missing) and not isinstance(now, Missing) and now + ENGINE_TIME_SLACK_S < was:
        return Break(EpochReason.ENGINE_RESTARTED, f"snmpEngineTime went back: {was} -> {now} s, boots unchanged")
    return None


def _discontinuity(before: PortSample, after: PortSample) -> Break | None:
    old, new = before.discontinuity_ticks, after.discontinuity_ticks
    if isinstance(old, Missing) or isinstance(new, Missing) or old == new:
        return None
    return Break(EpochReason.DISCONTINUITY, f"ifCounterDiscontinuityTime {old} -> {new}")


def _binding(before: PortSample, after: PortSample) -> Break | None:
    was, now = before.identity, after.identity
    if was.engine_id and now.engine_id and was.engine_id != now.engine_id:
        return Break(EpochReason.BINDING_CHANGED, f"another engine answers: {was.engine_id} -> {now.engine_id}")
    if was.if_index != now.if_index or was.if_name != now.if_name:
        rows = f"{was.if_name!r} at ifIndex {was.if_index} -> {now.if_name!r} at {now.if_index}"
        return Break(EpochReason.BINDING_CHANGED, f"the port is another row: {rows}")
    old, new = before.physical_address, after.physical_address
    if isinstance(old, str) and isinstance(new, str) and old != new:
        return Break(EpochReason.BINDING_CHANGED, f"the row is another interface: hardware address {old} -> {new}")
    if before.framing is not after.framing:
        said = f"{before.framing.value} -> {after.framing.value}"
        return Break(EpochReason.BINDING_CHANGED, f"the site file declares another framing: {said}")
    return None


def _decrease(before: PortSample, after: PortSample) -> Break | None:
    for side, was, now in _sides(before, after):
        wide = (
            ("octets", was.octets, now.octets),
            ("unicast packets", was.unicast_packets, now.unicast_packets),
            ("multicast packets", was.multicast_packets, now.multicast_packets),
            ("broadcast packets", was.broadcast_packets, now.broadcast_packets),
        )
        for what, old, new in wide:
            if not isinstance(old, Missing) and not isinstance(new, Missing) and new < old:
                return Break(EpochReason.COUNTER_DECREASED, f"{side} {what} {old} -> {new}")
        for what, old, new in (("discards", was.discards, now.discards), ("errors", was.errors, now.errors)):
            if not isinstance(old, Missing) and not isinstance(new, Missing) and counter32_step(old, new) is None:
                return Break(EpochReason.COUNTER_DECREASED, f"{side} {what} {old} -> {new}, too far for a wrap")
    return None


def counter32_step(old: int, new: int) -> int | None:
    """Return how far a 32-bit counter moved if less than half way around, else None: then it went back."""
    step = (new - old) % _COUNTER32_MODULUS
    return step if step < _COUNTER32_MODULUS // 2 else None


def _rate(before: PortSample, after: PortSample, plausibility: Plausibility) -> Break | None:
    rates = [rate for rate in (line_rate(before, plausibility), line_rate(after, plausibility)) if rate is not None]
    if not rates:
        return None
    window_ns = after.latest_ns - before.earliest_ns
    room = max(rates) * window_ns * (100 + RATE_MARGIN_PERCENT) // (100 * _NS_PER_S) + _largest(after, plausibility)
    told: list[str] = []
    directions: list[Direction] = []
    for side, was, now in _sides(before, after):
        step = _step(was.octets, now.octets)
        if step is not None and step > room:
            told.append(f"{side} octets rose by {step} where the line carries {room} at the most")
            directions.append(Direction.EGRESS if side == "In" else Direction.INGRESS)
    return Break(EpochReason.IMPLAUSIBLE_RATE, "; ".join(told), tuple(directions)) if told else None


def _frames(before: PortSample, after: PortSample, plausibility: Plausibility) -> Break | None:
    smallest, largest = _SMALLEST_FRAME[after.framing], _largest(after, plausibility)
    for side, was, now in _sides(before, after):
        octets = _step(was.octets, now.octets)
        old, new = was.packets(before.framing), now.packets(after.framing)
        if octets is None or old is None or new is None:
            continue
        frames = new - old
        fewest = frames * (100 - SKEW_PERCENT) // 100 - SKEW_FRAMES
        most = frames * (100 + SKEW_PERCENT) // 100 + SKEW_FRAMES
        if not smallest * fewest <= octets <= largest * most:
            text = f"{side} octets rose by {octets} and frames by {frames}: frames are {smallest} to {largest} octets"
            return Break(EpochReason.IMPLAUSIBLE_FRAMES, text)
    return None


def _sides(before: PortSample, after: PortSample) -> tuple[tuple[str, PortCounters, PortCounters], ...]:
    return ("In", before.switch_in, after.switch_in), ("Out", before.switch_out, after.switch_out)


def _step(old: Value, new: Value) -> int | None:
    return None if isinstance(old, Missing) or isinstance(new, Missing) else new - old


def _largest(sample: PortSample, plausibility: Plausibility) -> int:
    return plausibility.largest_frame_bytes or _LARGEST_FRAME[sample.framing]
