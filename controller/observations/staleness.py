"""Switches that do not keep their declared refresh period: what it is then taken to be, and the finding about it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from controller.crosscheck.model import Finding, FindingKind, Period
from controller.crosscheck.wording import at_least, lasting_at_least
from controller.journal import Journal
from controller.observations.agents import PortGroup, read_agent
from controller.observations.switches import SwitchRecord
from controller.site import Link, Site
from protos.reading import Direction, Observer
from protos.units import format_duration
from switch.epochs import PortHistory
from switch.staleness import StaleHold, could_be_stale, stale_holds


@dataclass(frozen=True, slots=True)
class StaleSwitch:
    """A switch whose counters were older than declared.

    Attributes:
        refresh_ns: what every reading of the switch is now taken to be old at the most.
        finding: what is told of it.
    """

    refresh_ns: int
    finding: Finding


def stale_switches(
    journal: Journal, site: Site, period: Period, records: Mapping[str, SwitchRecord]
) -> dict[str, StaleSwitch]:
    """Return the switches whose ports certainly showed counters older than declared, by name.

    Only agents on cables whose port stood still for longer than the refresh period are read for it.

    Raises:
        EvidenceError: a journaled record cannot be read by this program.
    """
    found: dict[str, list[tuple[Link, StaleHold]]] = {}
    for link, hold in _holds(journal, site, period, records):
        found.setdefault(link.switch, []).append((link, hold))
    return {
        switch: StaleSwitch(
            max(hold.age_at_most_ns for _, hold in holds), _finding(switch, site.switch(switch).refresh_ns, holds)
        )
        for switch, holds in found.items()
    }


def widened(record: SwitchRecord, refresh_ns: int) -> SwitchRecord:
    """Return ``record`` with every sample taken to be up to ``refresh_ns`` old."""
    return replace(record, histories={port: _older(history, refresh_ns) for port, history in record.histories.items()})


def _older(history: PortHistory, refresh_ns: int) -> PortHistory:
    judged = tuple(
        replace(entry, sample=replace(entry.sample, refresh_ns=max(entry.sample.refresh_ns, refresh_ns)))
        for entry in history.judged
    )
    return replace(history, judged=judged)


def _holds(
    journal: Journal, site: Site, period: Period, records: Mapping[str, SwitchRecord]
) -> Iterator[tuple[Link, StaleHold]]:
    assumptions = site.assumptions
    for link in site.links:
        history = records[link.switch].histories.get(link.port)
        if history is None or not any(could_be_stale(history, direction) for direction in Direction):
            continue
        group = PortGroup(Observer.DPU_UPLINK, (link.uplink.name,))
        series = read_agent(journal, link.dpu, [group], period, drift_ppm=assumptions.clock_drift_ppm)[group]
        laws = assumptions.crosscheck
        length_s = -(-(period.to_ns - period.from_ns) // 1_000_000_000)
        allowance = laws.in_flight_bytes + 2 * laws.largest_frame_bytes + laws.control_bytes_per_s * length_s
        for direction in Direction:
            for hold in stale_holds(history, direction, series.readings[direction], allowance):
                yield link, hold


def _finding(switch: str, declared_ns: int, holds: list[tuple[Link, StaleHold]]) -> Finding:
    link, worst = max(holds, key=lambda pair: pair[1].age_at_least_ns)
    taken_ns = max(hold.age_at_most_ns for _, hold in holds)
    times = "once" if len(holds) == 1 else f"{len(holds)} times"
    text = (
        f"{switch} is declared to serve counters at most {format_duration(declared_ns)} old, and {times} it did not: "
        f"port {link.port} showed none of {at_least(worst.bytes_unseen)} that {link.dpu} had counted "
        f"{lasting_at_least(worst.age_at_least_ns)} before, and showed them later. All its readings are taken to be up "
        f"to {format_duration(taken_ns)} old. Lower the switch's period, or declare `refresh` longer; "
        "or the DPU counted bytes before they passed"
    )
    return Finding(
        FindingKind.COUNTER_STALE,
        certain=False,
        text=text,
        switch=switch,
        port=link.port,
        from_ns=worst.from_ns,
        to_ns=worst.to_ns,
        margin=f"the counter was at least {lasting_at_least(worst.age_at_least_ns - declared_ns)} older than declared",
    )
