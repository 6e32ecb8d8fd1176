"""From the journal to evidence: every reading is true, every gap is explained, nothing honest is accused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from controller.crosscheck.model import LinkEvidence, Period, SiteEvidence, Track
from controller.journal import Journal, Kind, NewEntry
from controller.observations import end_of_evidence_ns, evidence, inventories, links
from controller.site import Site
from protos.reading import Direction, Observer

if TYPE_CHECKING:
    from tests.controller.observations.conftest import SimulatedNode, SimulatedSite

S = 1_000_000_000
START = 1_800_000_000 * S
NAMES = {
    Observer.HOST: "host",
    Observer.DPU_HOST_PORT: "host_port",
    Observer.DPU_UPLINK: "uplink",
    Observer.SWITCH: "switch",
}
Make = Callable[..., "SimulatedSite"]


def period(start: float, end: float) -> Period:
    return Period(START + int(start * S), START + int(end * S))


def _gather(simulated: SimulatedSite, site: Site, tmp_path: Path, asked: Period) -> SiteEvidence:
    with simulated.build(tmp_path / "journal.db") as journal:
        return evidence(journal, site, asked)


def _link(found: SiteEvidence, name: str, direction: Direction = Direction.EGRESS) -> LinkEvidence:
    [link] = [link for link in found.links if link.link == name and link.direction is direction]
    return link


def _true(track: Track, node: SimulatedNode, direction: Direction) -> None:
    """Assert that every reading of the track is true."""
    counter = node.counter(NAMES[track.observer], direction)
    for reading in track.readings:
        assert counter.at(reading.earliest_ns) <= reading.bytes <= counter.at(reading.latest_ns)
        assert reading.packets is not None
        assert counter.packets(reading.earliest_ns) <= reading.packets <= counter.packets(reading.latest_ns)


@pytest.mark.parametrize("seed", range(6))
def test_every_reading_of_every_observer_is_true(make_site: Make, site: Site, tmp_path: Path, seed: int) -> None:
    simulated = make_site(seed)
    found = _gather(simulated, site, tmp_path, period(10, 50))
    assert [(link.link, link.direction) for link in found.links] == [
        (name, direction) for name in ("node1/p0", "node2/p0") for direction in Direction
    ]
    for link in found.links:
        [node] = [node for node in simulated.nodes if node.name == link.node]
        assert list(link.tracks) == list(Observer)
        for track in link.tracks.values():
            assert len(track.readings) >= 40
            assert track.looked == ()
            assert track.proven_epochs == {0}
            assert track.epoch_reasons == {}
            _true(track, node, link.direction)
            earliest = [reading.earliest_ns for reading in track.readings]
            assert earliest == sorted(earliest)
            assert earliest[0] <= found.period.from_ns - 3 * S, "the edge is tight: there are readings before it"
            assert track.readings[-1].earliest_ns >= found.period.to_ns
        uplink, host = link.tracks[Observer.DPU_UPLINK], link.tracks[Observer.HOST]
        assert uplink.line_rate_bytes_per_s is not None
        assert uplink.line_rate_bytes_per_s >= 1_250_000_000
        assert uplink.step_bytes == 1514
        assert 0 < uplink.clock_width_ns < 100_000_000
        assert host.line_rate_bytes_per_s is None
        assert link.tracks[Observer.SWITCH].refresh_ns == 3_500_000_000
        assert all(len(t.drop_packets) == len(t.readings) for o, t in link.tracks.items() if o is not Observer.HOST)
        assert (link.pod, link.dpu, link.switch) == (
            "pod-a" if node.name == "node1" else "pod-b",
            f"{node.name}-dpu0",
            "sw1",
        )
    assert found.inventory_checked
    assert [(port.port, port.declared, port.operational) for port in found.ports] == [
        ("eth1", True, True), ("eth2", True, True), ("eth5", True, True)
    ]  # fmt: skip


@pytest.mark.parametrize("seed", range(3))
def test_frames_spooled_while_the_network_was_cut_are_read_at_their_own_time(
    make_site: Make, site: Site, tmp_path: Path, seed: int
) -> None:
    simulated = make_site(seed, seconds=90)
    simulated.cut = [(20, 70)]
    found = _gather(simulated, site, tmp_path, period(30, 50))
    track = _link(found, "node1/p0").tracks[Observer.DPU_UPLINK]
    inside = [r for r in track.readings if found.period.from_ns < r.earliest_ns < found.period.to_ns]
    assert len(inside) >= 18
    assert track.looked == ()
    _true(track, simulated.nodes[0], Direction.EGRESS)
    # 25 s from the nearest exchange at 1000 ppm each way.
    assert max(r.latest_ns - r.earliest_ns for r in inside) < 60_000_000
    [silence] = _link(found, "node1/p0").tracks[Observer.SWITCH].looked
    assert silence.who == "network-cut"
    assert (silence.from_ns, silence.to_ns) == (found.period.from_ns, found.period.to_ns)


def test_a_reboot_of_the_dpu_is_another_epoch_and_another_clock(
    make_site: Make, site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    simulated = make_site(1)
    node = simulated.nodes[0]
    after = make_site(1).nodes[0]
    after.boot_id, after.offset_ns = "boot-2", 10**9
    original = simulated._frames

    def frames(one: SimulatedNode) -> None:
        if one is not node:
            return original(one)
        before = len(simulated.entries)
        original(one)
        early = [e for e in simulated.entries[before:] if e[0] < START + 30 * S]
        del simulated.entries[before:]
        original(after)
        late = [e for e in simulated.entries[before:] if e[0] >= START + 31 * S]
        simulated.entries[before:] = [*early, *late]
        return None

    monkeypatch.setattr(simulated, "_frames", frames)
    clocks = simulated._clocks

    def both_clocks(one: SimulatedNode) -> None:
        before = len(simulated.entries)
        clocks(one)
        if one is node:
            early = [e for e in simulated.entries[before:] if e[0] < START + 30 * S]
            del simulated.entries[before:]
            clocks(after)
            late = [e for e in simulated.entries[before:] if e[0] >= START + 31 * S]
            simulated.entries[before:] = [*early, *late]

    monkeypatch.setattr(simulated, "_clocks", both_clocks)
    found = _gather(simulated, site, tmp_path, period(10, 50))
    track = _link(found, "node1/p0").tracks[Observer.DPU_UPLINK]
    assert {reading.epoch for reading in track.readings} == {0, 1}
    assert track.proven_epochs == {0, 1}
    assert track.epoch_reasons == {1: "p0: first-reading"}
    _true(track, node, Direction.EGRESS)


@pytest.mark.parametrize("killed", [False, True])
def test_a_stopped_controller_is_named(make_site: Make, site: Site, tmp_path: Path, killed: bool) -> None:
    simulated = make_site(2)
    simulated.stopped, simulated.killed = [(20, 35)], killed
    found = _gather(simulated, site, tmp_path, period(10, 50))
    for observer in (Observer.HOST, Observer.SWITCH):
        looked = _link(found, "node1/p0").tracks[observer].looked
        [stopped] = [silence for silence in looked if silence.who == "controller-stopped"]
        assert START + 19 * S <= stopped.from_ns <= START + 20.1 * S
        assert START + 34.9 * S <= stopped.to_ns <= START + 35.1 * S
        assert all(s.to_ns - s.from_ns < 2 * S for s in looked if s is not stopped)
    assert _link(found, "node1/p0").tracks[Observer.DPU_UPLINK].looked == (), "its spool covered the stop"


def test_a_switch_that_alone_is_silent_is_told_from_a_cut_network(make_site: Make, site: Site, tmp_path: Path) -> None:
    simulated = make_site(3)
    simulated.silent_switch = [(20, 35)]
    found = _gather(simulated, site, tmp_path, period(10, 50))
    [silence] = _link(found, "node1/p0").tracks[Observer.SWITCH].looked
    assert silence.who == "device-silent"
    assert "timeout: no answer" in silence.text
    assert "answered: sw1 or its own way was down" in silence.text
    assert _link(found, "node1/p0").tracks[Observer.HOST].looked == ()


def test_an_agent_silent_while_reachable_is_named(make_site: Make, site: Site, tmp_path: Path) -> None:
    simulated = make_site(4)
    simulated.silent_agents = {"node1-dpu0": [(20, 35)]}
    found = _gather(simulated, site, tmp_path, period(10, 50))
    [silence] = _link(found, "node1/p0").tracks[Observer.DPU_UPLINK].looked
    assert silence.who == "device-silent"
    assert silence.text == "node1-dpu0 answered, but not with this counter"
    assert _link(found, "node2/p0").tracks[Observer.DPU_UPLINK].looked == ()


def test_frames_that_never_came_are_named_with_the_agents_reason(make_site: Make, site: Site, tmp_path: Path) -> None:
    simulated = make_site(4)
    add = simulated._add

    def lose(entry: object) -> None:
        if entry.kind.value == "frame" and entry.source == "node1-dpu0" and 20 <= entry.sequence < 35:  # type: ignore[attr-defined]
            return
        add(entry)  # type: ignore[arg-type]

    simulated._add = lose  # type: ignore[method-assign]
    found = _gather(simulated, site, tmp_path, period(10, 50))
    [silence] = _link(found, "node1/p0").tracks[Observer.DPU_UPLINK].looked
    assert silence.who == "device-silent"
    assert silence.text == "frames 20 to 34 never came; the agent has not said why"


def test_a_port_missing_from_the_polls_is_named(make_site: Make, site: Site, tmp_path: Path) -> None:
    simulated = make_site(5)
    simulated.lost_port = {"eth1": [(20, 35)]}
    found = _gather(simulated, site, tmp_path, period(10, 50))
    [silence] = _link(found, "node1/p0").tracks[Observer.SWITCH].looked
    assert silence.who == "device-silent"
    assert "none of the device's interfaces bears this name" in silence.text


def test_an_undeclared_port_is_evidence(make_site: Make, site: Site, tmp_path: Path) -> None:
    simulated = make_site(6)
    simulated.undeclared = {"eth7": type(simulated.nodes[0].counter("host", Direction.EGRESS))(simulated.nodes[0].sent)}
    found = _gather(simulated, site, tmp_path, period(10, 50))
    [port] = [port for port in found.ports if not port.declared]
    assert (port.switch, port.port, port.operational) == ("sw1", "eth7", True)
    assert port.readings[-1].bytes > port.readings[0].bytes


def test_without_discoveries_the_inventory_was_not_checked(make_site: Make, site: Site, tmp_path: Path) -> None:
    simulated = make_site(6, seconds=200)
    add = simulated._add

    def undiscovered(entry: object) -> None:
        if entry.meta.get("discovery") and entry.recorded_ns > START + 60 * S:  # type: ignore[attr-defined]
            return
        add(entry)  # type: ignore[arg-type]

    simulated._add = undiscovered  # type: ignore[method-assign]
    with simulated.build(tmp_path / "journal.db") as journal:
        assert evidence(journal, site, period(10, 100)).inventory_checked
        assert not evidence(journal, site, period(10, 190)).inventory_checked
        assert not evidence(journal, site, period(150, 190)).inventory_checked


def test_lists_that_ended_early_do_not_check_the_inventory(make_site: Make, site: Site, tmp_path: Path) -> None:
    simulated = make_site(6)
    add = simulated._add

    def incomplete(entry: NewEntry) -> None:
        add(replace(entry, meta={**entry.meta, "complete": False}) if entry.meta.get("discovery") else entry)

    simulated._add = incomplete  # type: ignore[method-assign]
    assert not _gather(simulated, site, tmp_path, period(10, 50)).inventory_checked


def test_a_site_without_a_journaled_reading_is_all_silence(make_site: Make, site: Site, tmp_path: Path) -> None:
    found = _gather(make_site(1), site, tmp_path, period(1000, 1100))
    for link in found.links:
        for track in link.tracks.values():
            [silence] = track.looked
            assert silence.who == "controller-stopped"
            assert (silence.from_ns, silence.to_ns) == (found.period.from_ns, found.period.to_ns)
    assert not found.inventory_checked


def test_links_are_yielded_one_by_one(make_site: Make, site: Site, tmp_path: Path) -> None:
    with make_site(1).build(tmp_path / "journal.db") as journal:
        assert sorted(links(journal, site, period(10, 50)), key=repr) == sorted(
            evidence(journal, site, period(10, 50)).links, key=repr
        )


def test_now_ends_where_every_observer_has_looked(make_site: Make, site: Site, tmp_path: Path) -> None:
    with make_site(1).build(tmp_path / "journal.db") as journal:
        end = end_of_evidence_ns(journal, site)
        assert end is not None
        found = evidence(journal, site, Period(end - 10 * S, end))
        newest = [track.readings[-1] for link in found.links for track in link.tracks.values()]
        assert min(reading.earliest_ns for reading in newest) == end
        assert START + 54 * S < end < START + 58 * S


def test_a_dead_observer_does_not_hold_now_back(make_site: Make, site: Site, tmp_path: Path) -> None:
    simulated = make_site(1)
    simulated.silent_switch = [(20, 60)]
    with simulated.build(tmp_path / "journal.db") as journal:
        end = end_of_evidence_ns(journal, site)
    assert end is not None
    assert end > START + 57 * S


def test_the_site_file_in_force_splits_the_period(make_site: Make, tmp_path: Path) -> None:
    simulated = make_site(1)
    simulated.build(tmp_path / "journal.db").close()
    with Journal.open(tmp_path / "journal.db") as journal:
        journal.append(NewEntry(Kind.SITE, "demo", START + 40 * S, b"changed"))
        found = inventories(journal, period(10, 50))
        assert [(one.from_ns - START, one.to_ns - START) for one in found] == [(10 * S, 40 * S), (40 * S, 50 * S)]
        assert found[1].content == b"changed"
        assert [one.content for one in inventories(journal, period(42, 50))] == [b"changed"]
        assert len(inventories(journal, period(10, 30))) == 1


@pytest.mark.parametrize(("jump_s", "told"), [(-5, "in one boot it read less than it had before"), (40, "jumped")])
def test_a_clock_that_contradicts_itself_is_told(
    make_site: Make, site: Site, tmp_path: Path, jump_s: int, told: str
) -> None:
    simulated = make_site(2)
    node = simulated.nodes[0]
    honest = node.agent_ns
    node.agent_ns = lambda true_ns: honest(true_ns) + (jump_s * S if true_ns > START + 30 * S else 0)  # type: ignore[method-assign]
    # Frames are lost around the jump, so that there is a gap to be explained.
    simulated.silent_agents["node1-dpu0"] = [(27, 36)]
    track = _link(_gather(simulated, site, tmp_path, period(10, 50)), "node1/p0").tracks[Observer.DPU_UPLINK]
    texts = [silence.text for silence in track.looked]
    assert any("the agent's clock contradicts itself" in text and told in text for text in texts), texts
