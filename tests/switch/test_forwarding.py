"""Stations that send frames and do not say who they are: the bridge's forwarding table beside LLDP."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.site import load
from controller.topology import PortWiring, Wiring, wiring
from protos.reading import Framing
from switch.exchange import Exchange, Operation, ValueType, VarBind
from switch.forwarding import BRIDGE_PORT_INTERFACE, FORWARDING_PORT, VLAN_FORWARDING_PORT, stations
from switch.interpret import Device
from switch.lldp import REMOTE_ENTRY
from switch.ports import Discovery
from switch.recorded import RecordedAgent, RecordedPort, device_rows
from switch.snmp import SnmpSwitch

S = 1_000_000_000
SITE = load(Path(__file__).parents[1] / "controller" / "site_ok" / "demo.yaml", secrets=False)
STRANGER, HOME = "02deadbeef01", "02aaaaaaaa01"


class Clock:
    ns = 1_000 * S

    def __call__(self) -> int:
        self.ns += 1_000_000
        return self.ns


def own(number: int) -> bytes:
    return bytes((2, 0, 0, 0, 1, number))


PORTS = [RecordedPort(100 + n, b"eth%d" % n, physical_address=own(n)) for n in range(1, 8)]
BASE = [VarBind((*BRIDGE_PORT_INTERFACE, n), ValueType.INTEGER, 100 + n) for n in range(1, 8)]


def learnt(address: str, bridge_port: int, *, vlan: int | None = None) -> VarBind:
    octets = tuple(bytes.fromhex(address))
    table = (*FORWARDING_PORT, *octets) if vlan is None else (*VLAN_FORWARDING_PORT, vlan, *octets)
    return VarBind(table, ValueType.INTEGER, bridge_port)


def says(port: int, name: bytes, address: str) -> list[VarBind]:
    """A neighbour on a port, who bears a hardware address."""
    cells: tuple[tuple[int, ValueType, Any], ...] = (
        (4, ValueType.INTEGER, 4),
        (5, ValueType.OCTETS, bytes.fromhex(address)),
        (6, ValueType.INTEGER, 3),
        (7, ValueType.OCTETS, bytes.fromhex(address)),
        (8, ValueType.OCTETS, b"p0"),
        (9, ValueType.OCTETS, name),
    )
    return [VarBind((*REMOTE_ENTRY, column, 1, 100 + port, 1), kind, value) for column, kind, value in cells]


def discovered(*more: VarBind) -> tuple[Discovery, RecordedAgent]:
    clock = Clock()
    rows = [*device_rows(1), *(row for port in PORTS for row in port.rows()), *more]
    agent = RecordedAgent(rows, clock)
    switch = SnmpSwitch("sw1", agent, Device(3 * S, Framing.L2_WITHOUT_FCS), clock)
    return asyncio.run(switch.discover()), agent


def wired(*more: VarBind) -> dict[str, PortWiring]:
    return {port.port: port for port in wiring(SITE, "sw1", discovered(*more)[0].poll)}


@pytest.mark.parametrize("vlan", [None, 10])
def test_addresses_are_found_behind_their_ports_by_either_table(vlan: int | None) -> None:
    found, _ = discovered(*BASE, learnt(STRANGER, 7, vlan=vlan), learnt(HOME, 1, vlan=vlan))
    assert stations(found.poll.exchanges, found.poll.samples) == {"eth7": (STRANGER,), "eth1": (HOME,)}
    assert found.complete


def test_the_switchs_own_addresses_and_unresolved_bridge_ports_are_left_out() -> None:
    rows = [*BASE, learnt(own(3).hex(), 3), learnt(STRANGER, 0), learnt(HOME, 99)]
    found, _ = discovered(*rows)
    assert stations(found.poll.exchanges, found.poll.samples) == {}
    without, _ = discovered(learnt(STRANGER, 107))
    assert stations(without.poll.exchanges, without.poll.samples) == {}  # a bridge port is no ifIndex


def test_an_agent_without_a_bridge_costs_two_questions_and_a_huge_table_is_left_off() -> None:
    _, agent = discovered()
    asked = [oids[0] for operation, oids in agent.asked if operation is Operation.GET_BULK]
    assert asked[-2:] == [VLAN_FORWARDING_PORT, FORWARDING_PORT]
    huge = [learnt(f"0400{n:08x}", 7) for n in range(5_000)]
    found, agent = discovered(*BASE, *huge)
    assert sum(oids[0][: len(FORWARDING_PORT)] == FORWARDING_PORT for _, oids in agent.asked) == 8
    assert any("addresses" in note for note in found.poll.notes)
    assert found.complete


def test_a_station_at_an_undeclared_port_is_an_undeclared_neighbour_who_does_not_say_who_he_is() -> None:
    ports = wired(*BASE, learnt(STRANGER, 7))
    assert (ports["eth7"].state, ports["eth7"].addresses) == (Wiring.UNDECLARED_NEIGHBOUR, (STRANGER,))
    assert "02:de:ad:be:ef:01 is there and does not say who he is" in ports["eth7"].text
    assert ports["eth6"].state is Wiring.UNDECLARED_PORT


def test_a_silent_link_stays_unconfirmed_and_tells_which_addresses_are_behind_it() -> None:
    many = [learnt(f"02000000aa{n:02x}", 2) for n in range(5)]
    ports = wired(*BASE, *many)
    assert ports["eth2"].state is Wiring.UNCONFIRMED
    assert "02:00:00:00:aa:02 and 2 more is there" in ports["eth2"].text


def test_a_dpu_whose_address_is_behind_another_port_is_not_confirmed_where_it_says_to_be() -> None:
    at_home = wired(*BASE, *says(1, b"node1-dpu0", HOME), learnt(HOME, 1))
    assert at_home["eth1"].state is Wiring.CONFIRMED
    elsewhere = wired(*BASE, *says(1, b"node1-dpu0", HOME), learnt(HOME, 5))
    assert elsewhere["eth1"].state is Wiring.UNCONFIRMED
    assert "but 02:aa:aa:aa:aa:01 is behind eth5" in elsewhere["eth1"].text
    unseen = wired(*BASE, *says(1, b"node1-dpu0", HOME))
    assert unseen["eth1"].state is Wiring.CONFIRMED


_TABLES = st.sampled_from([BRIDGE_PORT_INTERFACE, FORWARDING_PORT, VLAN_FORWARDING_PORT])
_VALUES = st.one_of(
    st.tuples(st.just(ValueType.INTEGER), st.integers(-(2**31), 2**31)),
    st.tuples(st.just(ValueType.OCTETS), st.binary(max_size=8)),
    st.just((ValueType.NO_SUCH_INSTANCE, None)),
)


@given(st.lists(st.tuples(_TABLES, st.lists(st.integers(0, 2**32 - 1), max_size=9), _VALUES), max_size=30))
def test_any_bindings_end_in_addresses_or_in_none(rows: list[Any]) -> None:
    bindings = tuple(VarBind((*table, *rest), kind, value) for table, rest, (kind, value) in rows)
    exchange = Exchange(Operation.GET_BULK, 0, 1, 1, "", None, None, 0, 0, b"", bindings)
    samples = discovered()[0].poll.samples
    assert set(stations([exchange], samples)) <= {sample.port for sample in samples}
