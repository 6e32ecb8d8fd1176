"""What kind of thing an interface is: bytes are counted once, and what is not known does not hide."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from protos.reading import Framing, Missing
from switch.discovery import PortKind, classify
from switch.interpret import Device
from switch.mib import LINUX_AGENT, address_instances
from switch.ports import Agent, PortFault, PortSample
from switch.recorded import RecordedAgent, RecordedPort, device_rows
from switch.snmp import SnmpSwitch

SONIC = Agent(object_id="1.3.6.1.4.1.4413")
LINUX = Agent(object_id=LINUX_AGENT)


def samples(*ports: RecordedPort) -> tuple[PortSample | PortFault, ...]:
    clock = iter(range(1, 10**6))
    rows = [*device_rows(1), *(row for port in ports for row in port.rows())]
    agent = RecordedAgent(rows, lambda: next(clock))
    switch = SnmpSwitch("s", agent, Device(1, Framing.L2_WITHOUT_FCS), lambda: next(clock))
    return asyncio.run(switch.discover()).poll.ports


def kind(port: RecordedPort, agent: Agent = SONIC, roles: dict[str, str] | None = None, *others: RecordedPort) -> Any:
    return classify(samples(port, *others), agent, roles)[port.name.decode()]


@pytest.mark.parametrize(
    ("if_type", "expected"),
    [
        (6, PortKind.PHYSICAL),
        (161, PortKind.LAG),
        (135, PortKind.VLAN),
        (136, PortKind.VLAN),
        (24, PortKind.LOOPBACK),
        (131, PortKind.TUNNEL),
        (209, PortKind.BRIDGE),
        (53, PortKind.VIRTUAL),
        (1, PortKind.PHYSICAL),
        (199, PortKind.PHYSICAL),
        (None, PortKind.UNKNOWN),
    ],
)
def test_lag_vlan_and_the_like_are_not_counted_beside_their_members(if_type: int | None, expected: PortKind) -> None:
    """Case 22."""
    assert kind(RecordedPort(1, b"p1", if_type=if_type)).kind is expected


def test_only_what_is_counted_nowhere_else_carries_bytes_of_its_own() -> None:
    own = {each for each in PortKind if each.carries_bytes_of_its_own}
    assert own == {PortKind.PHYSICAL, PortKind.UNKNOWN}


def test_a_sub_interface_is_not_a_port() -> None:
    assert kind(RecordedPort(1, b"Ethernet1.100")).kind is PortKind.SUB_INTERFACE
    assert kind(RecordedPort(1, b"Ethernet1/1")).kind is PortKind.PHYSICAL


def test_the_site_file_decides_first() -> None:
    found = kind(RecordedPort(1, b"eth5", if_type=161), SONIC, {"eth5": "front-end"})
    assert (found.kind, found.certain) == (PortKind.PHYSICAL, True)
    assert kind(RecordedPort(1, b"eth9"), SONIC, {"eth9": "management"}).kind is PortKind.MANAGEMENT
    assert kind(RecordedPort(1, b"br0"), SONIC, {"br0": "bridge"}).kind is PortKind.BRIDGE


def test_the_port_with_the_polled_address_is_the_management_port_and_a_name_is_not_enough() -> None:
    agent = Agent(object_id=LINUX_AGENT, management_if_index=10)
    assert kind(RecordedPort(10, b"eth7"), agent).kind is PortKind.MANAGEMENT
    assert kind(RecordedPort(11, b"mgmt0"), agent).kind is PortKind.PHYSICAL


def test_a_linux_bridge_is_certain_by_name_and_shared_hardware_address_together() -> None:
    shared = b"\x02\x00\x00\x00\x00\x07"
    bridge, member = (
        RecordedPort(2, b"br0", physical_address=shared),
        RecordedPort(3, b"eth1", physical_address=shared),
    )
    alone = RecordedPort(2, b"br0", physical_address=b"\x02\x00\x00\x00\x00\x08")
    assert (kind(bridge, LINUX, None, member).kind, kind(bridge, LINUX, None, member).certain) == (
        PortKind.BRIDGE,
        True,
    )
    assert (kind(alone, LINUX).kind, kind(alone, LINUX).certain) == (PortKind.BRIDGE, False)
    assert "declare it" in kind(alone, LINUX).why
    assert kind(member, LINUX, None, bridge).kind is PortKind.PHYSICAL


def test_names_count_for_nothing_on_another_agent() -> None:
    assert kind(RecordedPort(2, b"br0"), SONIC).kind is PortKind.PHYSICAL


def test_a_port_that_cannot_be_read_stays_unknown() -> None:
    fault = PortFault("eth1", Missing.TIMEOUT, "no answer", 0, 1)
    found = classify([fault], SONIC)["eth1"]
    assert (found.kind, found.certain) == (PortKind.UNKNOWN, False)
    assert found.kind.carries_bytes_of_its_own


def test_address_instances_of_both_versions() -> None:
    assert address_instances("10.250.0.2") == (
        (1, 3, 6, 1, 2, 1, 4, 34, 1, 3, 1, 4, 10, 250, 0, 2),
        (1, 3, 6, 1, 2, 1, 4, 20, 1, 2, 10, 250, 0, 2),
    )
    ((*_, last),) = address_instances("fe80::1%eth0")
    assert last == 1
    assert address_instances("switch.example") == ()


def test_kinds_are_plain_words_for_json() -> None:
    assert json.dumps([each.value for each in PortKind]).islower()
