"""A switch's polls as readings, and the list of its ports."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise

from controller.crosscheck.model import Finding, Period
from controller.errors import EvidenceError
from controller.journal import Journal, Kind
from controller.observations.around import entries_from_before
from controller.observations.series import Note, Series
from controller.observations.wires import WiringFindings
from controller.site import Site, Switch
from protos.reading import Direction, Reading
from switch.continuity import Plausibility
from switch.discovery import classify
from switch.epochs import Loss, PortHistory, judge
from switch.ports import PortFault, PortSample
from switch.record import RecordError, decode

POLLS_AT_EDGES = 2

LONGEST_BETWEEN_DISCOVERIES_NS = 60_000_000_000
"""The list of a switch's ports is checked over a period if no two complete discoveries are further apart."""


@dataclass(slots=True)
class SwitchRecord:
    """What one switch's polls say around a period.

    Attributes:
        histories: each port's samples, judged; by the port's name.
        faults: each port's faults, in order.
        undeclared: ports that the site file does not name and whose bytes are counted nowhere else.
        discoveries: when the list of ports was read to its end.
        about: what its wiring shows within the period.
    """

    histories: dict[str, PortHistory] = field(default_factory=dict)
    faults: dict[str, list[PortFault]] = field(default_factory=dict)
    undeclared: frozenset[str] = frozenset()
    discoveries: list[int] = field(default_factory=list)
    about: tuple[Finding, ...] = ()


def read_switch(journal: Journal, site: Site, switch: Switch, period: Period) -> SwitchRecord:
    """Return a switch's samples around ``period``, port by port, judged by :mod:`switch.epochs`.

    Raises:
        EvidenceError: a journaled poll cannot be read by this program.
    """
    record = SwitchRecord()
    samples: dict[str, list[PortSample]] = {}
    declared = site.declared_ports(switch.name)
    roles = {other.port: other.role for other in switch.other_ports}
    undeclared: set[str] = set()
    wires = WiringFindings(site, switch.name, period)
    after = 0
    for entry in entries_from_before(journal, Kind.POLL, switch.name, period, at_least=POLLS_AT_EDGES):
        try:
            poll = decode(entry.body)
        except RecordError as error:
            raise EvidenceError(
                f"{journal.path}: leaf {entry.leaf} is a poll of {switch.name} that this program cannot read: {error}. "
                "Update weighbridge on this machine."
            ) from error
        for sample in poll.samples:
            # The messages behind a sample stay in the journal; the sample alone is kept in memory.
            samples.setdefault(sample.port, []).append(sample)
        for fault in poll.faults:
            record.faults.setdefault(fault.port, []).append(fault)
        if entry.meta.get("discovery"):
            wires.take(poll)
            kinds = classify(poll.ports, poll.agent, roles)
            undeclared |= {port for port, kind in kinds.items() if kind.kind.carries_bytes_of_its_own} - declared
            if entry.meta.get("complete"):
                record.discoveries.append(poll.first_sent_ns)
        after += poll.first_sent_ns - switch.refresh_ns > period.to_ns
        if after >= POLLS_AT_EDGES:
            break
    record.undeclared = frozenset(undeclared)
    record.about = wires.findings(samples)
    plausibility = _plausibility(site, switch)
    wanted = declared | undeclared
    record.histories = {port: judge(found, plausibility.get(port)) for port, found in samples.items() if port in wanted}
    return record


def _plausibility(site: Site, switch: Switch) -> Mapping[str, Plausibility]:
    largest = site.assumptions.crosscheck.largest_frame_bytes + switch.framing.bytes_per_frame_over_l2
    found = {}
    for link in site.links_of(switch.name):
        rate = link.uplink.line_rate_bytes_per_s
        margin = 1_000_000 + site.assumptions.line_rate_margin_ppm
        found[link.port] = Plausibility(None if rate is None else -(-rate * margin // 1_000_000), largest)
    return found


def series_of(history: PortHistory) -> Series:
    """Return a port's history as a series: directions as the node sees them, discards and errors as drops."""
    series = Series(
        reasons=history.epoch_reasons,
        proven=set(history.proven_epochs),
        # The device's own: a port that is down is older by what is not known of its successor.
        refresh_ns=min((entry.sample.refresh_ns for entry in history.judged), default=0),
    )
    for direction in Direction:
        series.readings[direction] = list(history.readings(direction))
        series.drops[direction] = _lost(history, direction)
    for entry in history.rejected:
        series.notes.append(Note(entry.sample.first_sent_ns, entry.sample.received_ns, entry.rejected))
    return series


def _lost(history: PortHistory, direction: Direction) -> list[Reading]:
    """Discards and errors together; either alone where the agent counts only one."""
    discards = {reading.latest_ns: reading for reading in history.packets_lost(direction, Loss.DISCARDS)}
    errors = {reading.latest_ns: reading for reading in history.packets_lost(direction, Loss.ERRORS)}
    if not discards or not errors:
        return list((discards or errors).values())
    both = discards.keys() & errors.keys()
    return [replace(discards[at], bytes=discards[at].bytes + errors[at].bytes) for at in sorted(both)]


def list_was_checked(record: SwitchRecord, period: Period) -> bool:
    """Return whether the switch's list of ports was read to its end often enough over the whole period.

    No stretch of the period is longer than :data:`LONGEST_BETWEEN_DISCOVERIES_NS` without a complete discovery, and
    one lies no further outside of it.
    """
    reach = LONGEST_BETWEEN_DISCOVERIES_NS
    near = [at for at in record.discoveries if period.from_ns - reach <= at <= period.to_ns + reach]
    inside = [at for at in near if period.from_ns < at < period.to_ns]
    moments = [period.from_ns, *inside, period.to_ns]
    return bool(near) and all(later - earlier <= reach for earlier, later in pairwise(moments))
