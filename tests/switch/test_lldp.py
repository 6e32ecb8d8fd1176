"""Neighbours from LLDP-MIB, and flaps from ifLastChange."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from protos.reading import Framing, Missing
from switch.exchange import Exchange, Operation, ValueType, VarBind
from switch.flaps import flaps
from switch.interpret import Device
from switch.lldp import LOCAL_PORT_ENTRY, REMOTE_ENTRY, neighbours
from switch.ports import PortSample
from switch.record import decode, encode
from switch.recorded import RecordedAgent, RecordedPort, device_rows
from switch.snmp import SnmpSwitch

S = 1_000_000_000
MAC = bytes.fromhex("a24e375db740")


def remote(mark: int, port: int, number: int, name: bytes, description: bytes = b"p0") -> list[VarBind]:
    """A row of lldpRemTable, as lldpd 1.0.16 answers it."""
    cells: tuple[tuple[int, ValueType, Any], ...] = (
        (4, ValueType.INTEGER, 4),
        (5, ValueType.OCTETS, MAC),
        (6, ValueType.INTEGER, 3),
        (7, ValueType.OCTETS, MAC),
        (8, ValueType.OCTETS, description),
        (9, ValueType.OCTETS, name),
        (10, ValueType.OCTETS, b"Debian GNU/Linux 12"),
    )
    return [VarBind((*REMOTE_ENTRY, column, mark, port, number), kind, value) for column, kind, value in cells]


def local(port: int, name: bytes) -> list[VarBind]:
    return [
        VarBind((*LOCAL_PORT_ENTRY, 2, port), ValueType.INTEGER, 3),
        VarBind((*LOCAL_PORT_ENTRY, 3, port), ValueType.OCTETS, MAC),
        VarBind((*LOCAL_PORT_ENTRY, 4, port), ValueType.OCTETS, name),
    ]


class Clock:
    ns = 1_000 * S

    def __call__(self) -> int:
        self.ns += 1_000_000
        return self.ns


def discovered(*more: VarBind) -> Any:
    clock = Clock()
    ports = [RecordedPort(2, b"eth1"), RecordedPort(3, b"eth2")]
    agent = RecordedAgent([*device_rows(1), *(row for port in ports for row in port.rows()), *more], clock)
    return asyncio.run(SnmpSwitch("sw1", agent, Device(3 * S, Framing.L2_WITHOUT_FCS), clock).discover()).poll


def test_a_discovery_tells_who_is_at_the_other_end_of_each_cable() -> None:
    rows = [
        *remote(3200, 2, 1, b"node1-dpu0"),
        *remote(3200, 3, 2, b"node2-dpu0"),
        *local(2, b"eth1"),
        *local(3, b"eth2"),
    ]
    poll = discovered(*rows)
    found = neighbours(poll.exchanges, poll.samples)
    assert [(each.port, each.system_name, each.port_description) for each in found] == [
        ("eth1", "node1-dpu0", "p0"),
        ("eth2", "node2-dpu0", "p0"),
    ]
    assert found[0].chassis == MAC.hex()
    # What is journaled is enough to read it again.
    again = decode(encode(poll))
    assert neighbours(again.exchanges, again.samples) == found


def test_an_agent_without_lldp_costs_one_question_and_has_no_neighbours() -> None:
    poll = discovered()
    assert neighbours(poll.exchanges, poll.samples) == ()
    assert not poll.notes


def test_a_local_number_that_is_no_ifindex_is_resolved_by_the_switchs_own_table() -> None:
    poll = discovered(*remote(1, 77, 1, b"node1-dpu0"), *local(77, b"eth2"))
    assert [each.port for each in neighbours(poll.exchanges, poll.samples)] == ["eth2"]
    poll = discovered(*remote(1, 77, 1, b"node1-dpu0"))
    assert [(each.port, each.local_number) for each in neighbours(poll.exchanges, poll.samples)] == [(None, 77)]


def test_the_newest_of_two_rows_of_one_neighbour_counts_and_two_neighbours_on_one_port_are_two() -> None:
    poll = discovered(*remote(5, 2, 1, b"old"), *remote(9, 2, 1, b"new"), *remote(9, 2, 2, b"other"))
    assert [each.system_name for each in neighbours(poll.exchanges, poll.samples)] == ["new", "other"]


def test_names_that_are_no_strings_or_not_utf8_are_survived() -> None:
    wrong = VarBind((*REMOTE_ENTRY, 9, 1, 2, 1), ValueType.INTEGER, 7)
    rows = [row for row in remote(1, 2, 1, b"x", b"\xff") if row.oid != wrong.oid]
    poll = discovered(*rows, wrong)
    (found,) = neighbours(poll.exchanges, poll.samples)
    assert (found.system_name, found.port_description) == ("", "\\xff")
    assert "chassis" in found.told()


@given(
    st.lists(
        st.tuples(
            st.lists(st.integers(0, 2**32 - 1), max_size=6),
            st.sampled_from(list(ValueType)),
            st.one_of(st.none(), st.integers(-1, 2**64), st.binary(max_size=8)),
        ),
        max_size=20,
    )
)
def test_any_bindings_end_in_neighbours_or_in_none(rows: list[Any]) -> None:
    bindings = tuple(VarBind((*REMOTE_ENTRY, *rest), kind, value) for rest, kind, value in rows)
    exchange = Exchange(Operation.GET_BULK, 0, 1, 1, "", None, None, 0, 0, b"", bindings)
    assert len(neighbours([exchange], [])) <= len(rows)


def port_at(at_s: int, changed: int, **more: Any) -> PortSample:
    sample: PortSample = next(each for each in discovered().samples if each.port == "eth1")
    defaults: dict[str, Any] = {
        "first_sent_ns": at_s * S,
        "received_ns": at_s * S + 1_000_000,
        "sys_uptime_ticks": 1_000 + at_s * 100,
        "engine_time_s": 10 + at_s,
        "last_change_ticks": changed,
    }
    return replace(sample, **(defaults | more))


def test_a_port_that_went_down_and_up_between_two_looks_flapped() -> None:
    found = flaps([port_at(0, 500), port_at(5, 500), port_at(10, 1_800), port_at(15, 1_800)])
    assert [(each.from_ns, each.to_ns // S) for each in found] == [(5 * S, 10)]


def test_a_port_that_is_seen_down_is_no_flap_and_a_restarted_agent_proves_none() -> None:
    assert flaps([port_at(0, 500), port_at(5, 900, oper_status=2), port_at(10, 900, oper_status=2)]) == []
    assert flaps([port_at(0, 500), port_at(5, 3, sys_uptime_ticks=40, engine_boots=2)]) == []
    assert flaps([port_at(0, 500), port_at(5, 900, last_change_ticks=Missing.UNSUPPORTED)]) == []
