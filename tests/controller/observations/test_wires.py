"""The wiring: what neighbours say against the site file, as states of ports, as findings and as a picture."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from xml.etree import ElementTree as ET

import pytest

from controller.crosscheck.check import crosscheck
from controller.crosscheck.model import FindingKind, Period, SiteEvidence, Verdict
from controller.observations.wires import WiringFindings
from controller.site import Site
from controller.topology import Wiring, confirmed, wiring
from controller.topology_drawing import draw
from protos.reading import Framing
from switch.exchange import ValueType, VarBind
from switch.interpret import Device
from switch.lldp import REMOTE_ENTRY
from switch.ports import Poll
from switch.recorded import RecordedAgent, RecordedPort, device_rows
from switch.snmp import SnmpSwitch

S = 1_000_000_000


class Clock:
    ns = 1_000 * S

    def __call__(self) -> int:
        self.ns += 1_000_000
        return self.ns


def discovery(neighbours: dict[int, list[str]], down: tuple[int, ...] = ()) -> Poll:
    """A look at a switch with ports eth1 to eth6, at whose ports these machines say who they are."""
    clock = Clock()
    rows = [*device_rows(100_000)]
    for n in range(1, 7):
        rows += RecordedPort(n, b"eth%d" % n, in_octets=7, oper_status=2 if n in down else 1).rows()
    for port, names in neighbours.items():
        for number, name in enumerate(names):
            system, _, interface = name.partition("/")
            cells = {5: b"\x02" * 6, 7: b"\x02" * 6, 8: interface.encode(), 9: system.encode()}
            rows += [
                VarBind((*REMOTE_ENTRY, column, 1, port, number), ValueType.OCTETS, v) for column, v in cells.items()
            ]
    switch = SnmpSwitch("sw1", RecordedAgent(rows, clock), Device(3 * S, Framing.L2_WITHOUT_FCS), clock)
    return asyncio.run(switch.discover()).poll


AT_HOME = {1: ["node1-dpu0/p0"], 2: ["node2-dpu0/p0"]}
IDLE = (3, 4, 6)


@pytest.mark.parametrize(
    ("neighbours", "down", "port", "state"),
    [
        (AT_HOME, IDLE, "eth1", Wiring.CONFIRMED),
        ({1: ["node1-dpu0.example.org/p0"]}, IDLE, "eth1", Wiring.CONFIRMED),
        ({1: ["node2-dpu0/p0"]}, IDLE, "eth1", Wiring.MISCABLED),
        ({1: ["node1-dpu0/p1"]}, IDLE, "eth1", Wiring.UNDECLARED_NEIGHBOUR),
        ({1: ["node1-dpu0/p0", "hub/1"]}, IDLE, "eth1", Wiring.UNDECLARED_NEIGHBOUR),
        ({3: ["node1-dpu0/p0"]}, IDLE, "eth3", Wiring.MISCABLED),
        ({5: ["node1-dpu0/p0"]}, IDLE, "eth5", Wiring.MISCABLED),
        ({5: ["frontend/eth0"]}, IDLE, "eth5", Wiring.DECLARED),
        ({3: ["stranger/eth0"]}, IDLE, "eth3", Wiring.UNDECLARED_NEIGHBOUR),
        ({}, (3, 4), "eth6", Wiring.UNDECLARED_PORT),
        ({}, IDLE, "eth6", Wiring.DOWN),
        ({}, IDLE, "eth1", Wiring.UNCONFIRMED),
    ],
)
def test_each_kind_of_port_is_told_apart(
    site: Site, neighbours: dict[int, list[str]], down: tuple[int, ...], port: str, state: Wiring
) -> None:
    found = {each.port: each for each in wiring(site, "sw1", discovery(neighbours, down))}
    assert found[port].state is state, found[port].text


def test_only_every_link_heard_at_home_and_nothing_else_is_confirmed(site: Site) -> None:
    assert confirmed(wiring(site, "sw1", discovery(AT_HOME, IDLE)))
    assert not confirmed(wiring(site, "sw1", discovery({1: AT_HOME[1]}, IDLE)))
    assert not confirmed(wiring(site, "sw1", discovery({**AT_HOME, 3: ["stranger/x"]}, IDLE)))


def test_a_port_that_the_switch_does_not_have_is_unread(site: Site) -> None:
    poll = discovery(AT_HOME, IDLE)
    poll = replace(poll, ports=tuple(entry for entry in poll.ports if entry.port != "eth1"))
    assert next(each for each in wiring(site, "sw1", poll) if each.port == "eth1").state is not Wiring.CONFIRMED


def _findings(site: Site, polls: list[Poll], period: Period) -> list[FindingKind]:
    wires = WiringFindings(site, "sw1", period)
    for poll in polls:
        wires.take(poll)
    samples = {"eth1": [sample for poll in polls for sample in poll.samples if sample.port == "eth1"]}
    return [finding.kind for finding in wires.findings(samples)]


def test_what_is_seen_again_and_again_is_one_finding_and_only_within_the_period(site: Site) -> None:
    polls = [discovery({1: ["node2-dpu0/p0"], 3: ["stranger/x"]}, IDLE)] * 3
    whole = Period(0, 10_000 * S)
    assert sorted(_findings(site, polls, whole), key=lambda kind: kind.value) == [
        FindingKind.MISCABLED_LINK,
        FindingKind.UNDECLARED_NEIGHBOUR,
    ]
    assert _findings(site, polls, Period(0, 1)) == []
    assert _findings(site, [discovery(AT_HOME, IDLE)], whole) == []


def test_a_flap_of_a_links_port_is_a_finding(site: Site) -> None:
    first = discovery({}, IDLE)

    def later(poll: Poll) -> Poll:
        ports = [
            replace(
                sample,
                first_sent_ns=sample.first_sent_ns + 5 * S,
                received_ns=sample.received_ns + 5 * S,
                sys_uptime_ticks=100_500,
                engine_time_s=1_005,
                last_change_ticks=100_200,
            )
            for sample in poll.samples
        ]
        return replace(poll, ports=tuple(ports))

    assert _findings(site, [first, later(first)], Period(0, 10_000 * S)) == [FindingKind.LINK_FLAP]


def test_a_miscabled_link_convicts_nobody_and_keeps_the_site_from_being_compliant(site: Site) -> None:
    wires = WiringFindings(site, "sw1", Period(0, 10_000 * S))
    wires.take(discovery({1: ["node2-dpu0/p0"]}, IDLE))
    evidence = SiteEvidence("demo", Period(0, 10_000 * S), site.assumptions.crosscheck, (), (), inventory_checked=True)
    result = crosscheck(replace(evidence, about_switches=wires.findings({})))
    assert [finding.kind for finding in result.findings] == [FindingKind.MISCABLED_LINK]
    assert not result.findings[0].certain
    assert result.verdict is Verdict.INCONCLUSIVE


def test_the_picture_is_well_formed_whatever_a_neighbour_calls_himself(site: Site) -> None:
    picture = draw(site, wiring(site, "sw1", discovery({1: ['<script>"&\x07/p0'], 2: ["node1-dpu0/p0"]}, IDLE)))
    tree = ET.fromstring(picture)  # noqa: S314  our own text
    texts = [element.text or "" for element in tree.iter("{http://www.w3.org/2000/svg}text")]
    assert any("<script>" in text for text in texts)
    assert "<script>" not in picture
