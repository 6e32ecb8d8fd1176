"""Puts a site's evidence together: every link in both directions, every switch port, the known weights."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import groupby

from controller.agreement.inforce import accepted
from controller.crosscheck.columns import columns
from controller.crosscheck.model import (
    Finding,
    Limit,
    LinkEvidence,
    NodePair,
    Period,
    PortEvidence,
    SiteEvidence,
    Track,
)
from controller.journal import Journal
from controller.observations.agents import PortGroup, read_agent
from controller.observations.agreed import agreements_in
from controller.observations.down import idle_readings
from controller.observations.hosts import read_host
from controller.observations.limits import Heard, limit_findings
from controller.observations.loads import load_budgets
from controller.observations.meters import MeterFindings
from controller.observations.pairs import PairCounts
from controller.observations.runs import runs
from controller.observations.series import Note, Series, paired
from controller.observations.shares import Shares, shared
from controller.observations.silences import Silences
from controller.observations.staleness import stale_switches, widened
from controller.observations.switches import SwitchRecord, list_was_checked, read_switch, series_of
from controller.observations.tables import TableFindings
from controller.observations.weights import known_weights
from controller.site import Dpu, Link, Site, Switch
from protos.reading import Direction, Framing, Observer

METERED = {Observer.DPU_HOST_PORT: Direction.EGRESS, Observer.DPU_UPLINK: Direction.INGRESS}
"""A meter counts what enters its port: from the host what the node sends, from the switch what it receives."""


def evidence(journal: Journal, site: Site, period: Period) -> SiteEvidence:
    """Return what the journal holds about ``site`` in ``period``, ready for the cross-check.

    Only entries around the period are read; all of it is in memory at the end.

    Raises:
        EvidenceError: a journaled record cannot be read by this program, or is damaged.
    """
    switches, about_switches = _switches(journal, site, period)
    order = {link.name: at for at, link in enumerate(site.links)}
    told = _Told()
    found = list(_links(journal, site, period, switches, told))
    checked = bool(switches) and all(list_was_checked(record, period) for record in switches.values())
    return SiteEvidence(
        site=site.name,
        period=period,
        assumptions=site.assumptions.crosscheck,
        links=tuple(sorted(found, key=lambda one: order.get(one.link, len(order)))),
        ports=tuple(port for switch in site.switches for port in _ports(site, switch, switches[switch.name])),
        inventory_checked=checked,
        known_weights=tuple(known_weights(journal, period)),
        about_switches=about_switches,
        about_meters=tuple(told.findings),
        pairs=tuple(told.pairs),
        shared=shared(told.shares),
        agreements=agreements_in(accepted(journal), period),
    )


def links(journal: Journal, site: Site, period: Period) -> Iterator[LinkEvidence]:
    """Yield the evidence of each link and direction, one DPU after the other; as :func:`evidence`, in less memory."""
    switches, _ = _switches(journal, site, period)
    yield from _links(journal, site, period, switches, _Told())


def _switches(journal: Journal, site: Site, period: Period) -> tuple[dict[str, SwitchRecord], tuple[Finding, ...]]:
    """Every switch's record, one that did not keep its refresh period widened; and what is to be told of them."""
    records = {switch.name: read_switch(journal, site, switch, period) for switch in site.switches}
    stale = stale_switches(journal, site, period, records)
    records |= {name: widened(records[name], found.refresh_ns) for name, found in stale.items()}
    about = [finding for record in records.values() for finding in record.about]
    return records, (*(found.finding for found in stale.values()), *about)


@dataclass(frozen=True, slots=True)
class _Path:
    """One link, or the links of a bond together, and which counters stand along it.

    ``shares_host_ports`` is set for one link of a bond: what its host ports carried cannot be told apart by link.
    """

    name: str
    links: tuple[Link, ...]
    limits: tuple[Limit, ...]
    shares_host_ports: bool = False

    @property
    def uplinks(self) -> PortGroup:
        return PortGroup(Observer.DPU_UPLINK, tuple(link.uplink.name for link in self.links))

    @property
    def host_ports(self) -> PortGroup:
        ports = dict.fromkeys(port for link in self.links for port in link.uplink.host_ports)
        return PortGroup(Observer.DPU_HOST_PORT, tuple(ports))

    @property
    def host_interfaces(self) -> tuple[str, ...] | None:
        found: dict[str, None] = {}
        for link in self.links:
            if link.uplink.host_interfaces is None:
                return None
            found |= dict.fromkeys(link.uplink.host_interfaces)
        return tuple(found)


def _paths(site: Site, dpu: Dpu) -> Iterator[_Path]:
    """The paths of a DPU: each link; where links are bonded, the bond as a whole and each cable for itself.

    A limit is on what leaves and enters, so it stands with the whole.
    """
    own = [link for link in site.links if link.dpu == dpu.name]
    for link in own:
        bonded = bool(link.bonded_with)
        yield _Path(link.name, (link,), () if bonded else site.limits, shares_host_ports=bonded)
    members = tuple(link for link in own if link.bonded_with)
    if members and dpu.bond is not None:
        yield _Path(f"{dpu.name}/{dpu.bond.name}", members, site.limits)


@dataclass(frozen=True, slots=True)
class _Told:
    """What agents say beside readings: what is in the way of their meters and limiters, and their counts by node."""

    findings: list[Finding] = field(default_factory=list)
    pairs: list[NodePair] = field(default_factory=list)
    shares: dict[str, Shares] = field(default_factory=dict)


def _links(
    journal: Journal,
    site: Site,
    period: Period,
    switches: Mapping[str, SwitchRecord],
    told: _Told,
) -> Iterator[LinkEvidence]:
    """Yield the evidence of each link and direction; what agents say beside it goes into ``told``."""
    found = runs(journal, period)
    silences = Silences(journal, period, found, longest_gap_ns=site.assumptions.crosscheck.largest_gap_ns)
    loads = load_budgets(journal, period)
    for node, dpus in groupby(sorted(site.agents(), key=_node_of), key=_node_of):
        ports = {(dpu.name, port): direction for dpu in dpus for port, direction in _entering(dpu).items()}
        told.shares[node] = Shares(node, ports)
    for dpu in site.agents():
        paths = list(_paths(site, dpu))
        groups = {group for path in paths for group in (path.uplinks, path.host_ports)}
        by_node = PairCounts(dpu.name, dpu.node, period, _entering(dpu))
        heard = Heard(
            MeterFindings(dpu.name, dpu.node, period),
            limit_findings(journal, dpu, period),
            TableFindings(journal, dpu.name, dpu.node, period),
            pairs=by_node,
            shares=told.shares[dpu.node],
        )
        agent = read_agent(journal, dpu.name, sorted(groups, key=str), period, drift_ppm=_drift(site), hears=heard)
        told.findings.extend(heard.findings())
        told.pairs.extend(by_node.pairs())
        claims = site.node(dpu.node).exporter is not None
        claimed = {path.host_interfaces for path in paths if path.host_interfaces and not path.shares_host_ports}
        host = read_host(journal, dpu.node, claimed, period) if claims else {}
        for path in paths:
            tracks = _Tracks(site, path, silences, loads)
            tracks.add(Observer.DPU_UPLINK, agent[path.uplinks], source=dpu.name)
            tracks.add(Observer.SWITCH, _at_switch(path, switches), source=path.links[0].switch)
            if not path.shares_host_ports:
                tracks.add(Observer.DPU_HOST_PORT, agent[path.host_ports], source=dpu.name)
                if claims and path.host_interfaces:
                    tracks.add(Observer.HOST, host[path.host_interfaces], source=dpu.node)
            yield from tracks.evidence()


def _node_of(dpu: Dpu) -> str:
    return dpu.node


def _entering(dpu: Dpu) -> dict[str, Direction]:
    """Which of the node's directions enters each port: what a meter there counts."""
    found = {uplink.name: METERED[Observer.DPU_UPLINK] for uplink in dpu.uplinks}
    return found | {port: METERED[Observer.DPU_HOST_PORT] for uplink in dpu.uplinks for port in uplink.host_ports}


def _drift(site: Site) -> int:
    return site.assumptions.clock_drift_ppm


def _at_switch(path: _Path, switches: Mapping[str, SwitchRecord]) -> Series:
    parts = []
    for link in path.links:
        record = switches[link.switch]
        history = record.histories.get(link.port)
        series = Series() if history is None else series_of(history)
        series.notes += [Note(f.first_sent_ns, f.gave_up_ns, f.text) for f in record.faults.get(link.port, ())]
        parts.append(series)
    return parts[0] if len(parts) == 1 else paired(parts)


class _Tracks:
    """Collects the tracks of one path, in both directions."""

    def __init__(self, site: Site, path: _Path, silences: Silences, loads: Mapping[tuple[str, Direction], int]) -> None:
        self._site, self._path, self._silences, self._loads = site, path, silences, loads
        self._tracks: dict[Direction, dict[Observer, Track]] = {direction: {} for direction in Direction}

    def add(self, observer: Observer, series: Series, *, source: str) -> None:
        """Add one observer, whose readings come from the journal's ``source``."""
        on_wire = observer in (Observer.DPU_UPLINK, Observer.SWITCH)
        looked = self._silences.of(source, series.moments(), series.notes)
        for direction in Direction:
            self._tracks[direction][observer] = Track(
                observer=observer,
                readings=columns(series.readings[direction]),
                line_rate_bytes_per_s=self._line_rate() if on_wire else None,
                step_bytes=self._step(observer, series),
                refresh_ns=series.refresh_ns,
                clock_width_ns=series.clock_width_ns,
                drop_packets=columns(series.drops[direction]),
                epoch_reasons=series.reasons,
                proven_epochs=frozenset(series.proven),
                looked=looked,
                # Where no check sequence is counted, no padding is either: that is software counting what it was given.
                unpadded=series.framing is Framing.L2_WITHOUT_FCS,
                super_packet_header_bytes=self._segment_headers() if observer is Observer.HOST else None,
                buckets=series.buckets if METERED.get(observer) is direction else (),
            )

    def evidence(self) -> Iterator[LinkEvidence]:
        """Yield what was added, a direction at a time."""
        first = self._path.links[0]
        alone = len(self._path.links) == 1
        for direction in Direction:
            yield LinkEvidence(
                link=self._path.name,
                node=first.node,
                pod=first.pod,
                direction=direction,
                tracks={observer: self._tracks[direction][observer] for observer in Observer if self._has(observer)},
                limits=self._path.limits,
                dpu=first.dpu,
                switch=first.switch if alone else None,
                port=first.port if alone else None,
                load_bytes=self._loads.get((first.node, direction), 0),
            )

    def _has(self, observer: Observer) -> bool:
        return observer in self._tracks[Direction.EGRESS]

    def _line_rate(self) -> int | None:
        """What the cables carry together, with the margin that the site file allows."""
        rates = [link.uplink.line_rate_bytes_per_s for link in self._path.links]
        known = [rate for rate in rates if rate is not None]
        if len(known) < len(rates):
            return None
        return -(-sum(known) * (1_000_000 + self._site.assumptions.line_rate_margin_ppm) // 1_000_000)

    def _segment_headers(self) -> tuple[int, int] | None:
        """What a host's counter may leave out of each frame that its packets were cut into."""
        most = self._site.assumptions.host_segment_header_bytes
        return (0, most) if most else None

    def _step(self, observer: Observer, series: Series) -> int:
        """The largest step of the counter: a frame of each cable; at the host what the site file says."""
        if observer is Observer.HOST:
            return self._site.assumptions.host_step_bytes
        framing = series.framing or Framing.L2_WITHOUT_FCS
        frame = self._site.assumptions.crosscheck.largest_frame_bytes + framing.bytes_per_frame_over_l2
        return frame * len(self._path.links)


def _ports(site: Site, switch: Switch, record: SwitchRecord) -> Iterator[PortEvidence]:
    """Every declared port and every other one whose bytes are counted nowhere else."""
    declared = site.declared_ports(switch.name)
    for port in sorted(declared | record.undeclared):
        history = record.histories.get(port)
        if history is None:
            yield PortEvidence(switch.name, port, port in declared, None, ())
            continue
        last = history.judged[-1].sample
        yield PortEvidence(
            switch=switch.name,
            port=port,
            declared=port in declared,
            operational=last.operational,
            readings=history.readings(None) + idle_readings(history),
            proven_epochs=history.proven_epochs,
        )
