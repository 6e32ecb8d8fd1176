"""The reader above the wire, on an agent in memory: every fault of tables, names and sizes."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

import pytest

from protos.reading import Framing, Missing
from switch.exchange import Exchange, NoAnswerError, Oid, Operation, ValueType, VarBind
from switch.interpret import Device
from switch.mib import IF_TABLE_LAST_CHANGE, PORT_COLUMNS, Column, pack, port_octets
from switch.ports import Poll, PortFault, PortSample
from switch.recorded import RecordedAgent, RecordedPort, RecordedSwitch, device_rows
from switch.security import Timing
from switch.snmp import SnmpSwitch

S = 1_000_000_000


class Clock:
    """A timeline that moves a millisecond at every look at it."""

    def __init__(self) -> None:
        self.ns = 1_000 * S

    def __call__(self) -> int:
        self.ns += 1_000_000
        return self.ns


def agent_of(clock: Clock, *ports: RecordedPort, more: Sequence[VarBind] = ()) -> RecordedAgent:
    rows = [*device_rows(100_000), *(row for port in ports for row in port.rows()), *more]
    return RecordedAgent(rows, clock)


def switch_of(agent: Any, clock: Clock, **options: Any) -> SnmpSwitch:
    device = Device(refresh_ns=3 * S, framing=Framing.L2_WITHOUT_FCS)
    return SnmpSwitch("sw1", agent, device, clock, **options)


def read(agent: Any, clock: Clock, *names: str, **options: Any) -> Poll:
    return asyncio.run(switch_of(agent, clock, **options).read_ports(names))


def sample(poll: Poll, port: str) -> PortSample:
    (entry,) = [entry for entry in poll.ports if entry.port == port]
    assert isinstance(entry, PortSample), entry
    return entry


def fault(poll: Poll, port: str) -> PortFault:
    (entry,) = [entry for entry in poll.ports if entry.port == port]
    assert isinstance(entry, PortFault), entry
    return entry


def test_every_value_of_a_port_comes_in_one_message() -> None:
    clock = Clock()
    agent = agent_of(clock, RecordedPort(3, b"eth1", in_octets=11, out_octets=22, in_packets=1, out_packets=2))
    poll = read(agent, clock, "eth1")
    one = sample(poll, "eth1")
    assert (one.switch_in.octets, one.switch_out.octets) == (11, 22)
    assert (one.switch_in.packets(one.framing), one.sys_uptime_ticks, one.engine_boots) == (1, 100_000, 1)
    assert (one.identity.if_name, one.identity.if_index, one.operational) == ("eth1", 3, True)
    (asked,) = [oids for _, oids in agent.asked if Column.HC_IN_OCTETS.of(3) in oids]
    assert {column.of(3) for column in PORT_COLUMNS} <= set(asked)
    assert one.earliest_ns == one.first_sent_ns - 3 * S


def test_every_name_asked_for_gets_an_entry_in_order() -> None:
    clock = Clock()
    agent = agent_of(clock, *(RecordedPort(n, b"eth%d" % n) for n in range(1, 9)))
    names = ["eth5", "gone", "eth1", "eth5"]
    poll = read(agent, clock, *names)
    assert [entry.port for entry in poll.ports] == names
    assert fault(poll, "gone").reason is Missing.ABSENT
    assert poll.failure is None


# --- case 8


def test_ifindex_renumbered_between_polls_is_followed_by_name() -> None:
    clock = Clock()
    agent = agent_of(clock, RecordedPort(29, b"Eth1/1", in_octets=100), RecordedPort(30, b"Eth1/2", in_octets=200))

    async def story() -> tuple[Poll, Poll]:
        switch = switch_of(agent, clock)
        before = await switch.read_ports(["Eth1/1", "Eth1/2"])
        agent.rows = agent_of(
            clock, RecordedPort(29, b"Eth1/2", in_octets=201), RecordedPort(30, b"Eth1/1", in_octets=101)
        ).rows
        return before, await switch.read_ports(["Eth1/1", "Eth1/2"])

    before, after = asyncio.run(story())
    assert [s.switch_in.octets for s in before.samples] == [100, 200]
    assert [s.switch_in.octets for s in after.samples] == [101, 201]
    assert [s.identity.if_index for s in after.samples] == [30, 29]


def test_a_row_that_vanished_is_absent_and_found_again_when_it_returns() -> None:
    clock = Clock()
    agent = agent_of(clock, RecordedPort(5, b"eth5"), RecordedPort(6, b"eth6"))

    async def story() -> list[Poll]:
        switch = switch_of(agent, clock)
        polls = [await switch.read_ports(["eth5", "eth6"])]
        agent.rows = agent_of(clock, RecordedPort(6, b"eth6")).rows
        polls.append(await switch.read_ports(["eth5", "eth6"]))
        agent.rows = agent_of(clock, RecordedPort(6, b"eth6"), RecordedPort(9, b"eth5")).rows
        clock.ns += 4 * S
        polls.append(await switch.read_ports(["eth5", "eth6"]))
        return polls

    first, second, third = asyncio.run(story())
    assert len(first.samples) == 2
    assert fault(second, "eth5").reason is Missing.ABSENT
    assert sample(second, "eth6").operational
    assert sample(third, "eth5").identity.if_index == 9


def test_the_frozen_row_of_a_deleted_interface_is_never_taken_for_its_successor() -> None:
    """net-snmp leaves a deleted interface's row for up to 300 s, down, beside the new one's."""
    clock = Clock()
    old = RecordedPort(5, b"eth5", in_octets=1_000)
    agent = agent_of(clock, old)

    async def story() -> tuple[Poll, Poll]:
        switch = switch_of(agent, clock)
        await switch.read_ports(["eth5"])
        clock.ns += 4 * S
        agent.rows = agent_of(clock, replace(old, oper_status=2), RecordedPort(9, b"eth5", in_octets=77)).rows
        moved = await switch.read_ports(["eth5"])
        return moved, await switch.read_ports(["eth5"])

    moved, later = asyncio.run(story())
    assert sample(moved, "eth5").identity.if_index == 9
    assert sample(moved, "eth5").switch_in.octets == 77
    assert any("re-created" in note for note in moved.notes)
    assert sample(later, "eth5").identity.if_index == 9


def test_discovery_leaves_out_the_old_row_of_a_re_created_interface() -> None:
    clock = Clock()
    agent = agent_of(clock, RecordedPort(5, b"eth5", oper_status=2), RecordedPort(9, b"eth5"), RecordedPort(3, b"eth3"))
    found = asyncio.run(switch_of(agent, clock).discover())
    assert [entry.port for entry in found.poll.ports] == ["eth3", "eth5"]
    assert [entry.identity.if_index for entry in found.poll.samples] == [3, 9]


def test_elsewhere_than_on_linux_a_shared_name_is_settled_only_by_what_was_read_before() -> None:
    clock = Clock()
    cisco = VarBind((1, 3, 6, 1, 2, 1, 1, 2, 0), ValueType.OID, (1, 3, 6, 1, 4, 1, 9))
    ports = RecordedPort(5, b"eth5", oper_status=2), RecordedPort(9, b"eth5")
    fresh = read(agent_of(clock, *ports, more=[cisco]), clock, "eth5")
    assert fault(fresh, "eth5").reason is Missing.MALFORMED

    async def story() -> Poll:
        agent = agent_of(clock, RecordedPort(5, b"eth5"), more=[cisco])
        switch = switch_of(agent, clock)
        await switch.read_ports(["eth5"])
        clock.ns += 4 * S
        agent.rows = agent_of(clock, *ports, more=[cisco]).rows
        return await switch.read_ports(["eth5"])

    assert sample(asyncio.run(story()), "eth5").identity.if_index == 9


def test_the_successor_that_goes_down_is_in_doubt_again() -> None:
    clock = Clock()
    agent = agent_of(clock, RecordedPort(5, b"eth5", oper_status=2), RecordedPort(9, b"eth5"))

    async def story() -> tuple[Poll, Poll]:
        switch = switch_of(agent, clock)
        await switch.read_ports(["eth5"])
        clock.ns += 4 * S
        agent.rows = agent_of(
            clock, RecordedPort(5, b"eth5", oper_status=2), RecordedPort(9, b"eth5", oper_status=2)
        ).rows
        down = await switch.read_ports(["eth5"])
        clock.ns += 4 * S
        agent.rows = agent_of(
            clock, RecordedPort(9, b"eth5", oper_status=2), RecordedPort(12, b"eth5", in_octets=4)
        ).rows
        return down, await switch.read_ports(["eth5"])

    down, third = asyncio.run(story())
    assert fault(down, "eth5").reason is Missing.MALFORMED
    assert sample(third, "eth5").identity.if_index == 12


def test_two_rows_of_one_name_are_refused_and_can_be_told_apart_by_index() -> None:
    clock = Clock()
    agent = agent_of(clock, RecordedPort(1, b"etp1", in_octets=10), RecordedPort(2, b"etp1", in_octets=20))
    poll = read(agent, clock, "etp1", "etp1#2")
    assert fault(poll, "etp1").reason is Missing.MALFORMED
    assert "etp1#1, etp1#2" in fault(poll, "etp1").text
    assert sample(poll, "etp1#2").switch_in.octets == 20


def test_a_port_that_is_down_and_alone_under_its_name_is_read() -> None:
    clock = Clock()
    agent = agent_of(clock, RecordedPort(5, b"eth5", in_octets=7, oper_status=2))

    async def story() -> tuple[Poll, int]:
        switch = switch_of(agent, clock)
        await switch.read_ports(["eth5"])
        asked = len(agent.asked)
        return await switch.read_ports(["eth5"]), len(agent.asked) - asked

    poll, questions = asyncio.run(story())
    assert sample(poll, "eth5").operational is False
    assert questions == 1  # the walk is younger than the refresh period, so it is not repeated


def test_a_port_that_is_down_claims_no_more_than_the_last_walk_of_the_names_can_vouch_for() -> None:
    """Its successor may have counted since; the walk saw the device as it was up to a refresh before it."""
    clock = Clock()
    agent = agent_of(clock, RecordedPort(5, b"eth5", in_octets=7, oper_status=2), RecordedPort(6, b"eth6"))

    async def story() -> tuple[Poll, Poll, Poll]:
        switch = switch_of(agent, clock)
        first = await switch.read_ports(["eth5", "eth6"])
        clock.ns += 2 * S
        second = await switch.read_ports(["eth5", "eth6"])
        clock.ns += 2 * S
        return first, second, await switch.read_ports(["eth5", "eth6"])

    first, second, third = asyncio.run(story())
    walked_ns = first.exchanges[0].first_sent_ns
    assert walked_ns - 3 * S - 10_000_000 <= sample(second, "eth5").earliest_ns <= walked_ns - 3 * S
    assert sample(second, "eth6").refresh_ns == 3 * S
    # By then the walk is older than a refresh; a new one follows the reading, and vouches for all of it.
    assert sample(third, "eth5").refresh_ns == 3 * S


# --- case 9


def test_counter64_of_zero_is_a_counter_whatever_the_speed_says() -> None:
    clock = Clock()
    poll = read(agent_of(clock, RecordedPort(7, b"e7", high_speed=0, in_octets=0)), clock, "e7")
    assert sample(poll, "e7").switch_in.octets == 0


def test_counter32_octets_are_never_used() -> None:
    clock = Clock()
    port = RecordedPort(7, b"e7", in_octets=None, out_octets=None)
    old_style = VarBind((1, 3, 6, 1, 2, 1, 2, 2, 1, 10, 7), ValueType.COUNTER32, 4_000_000)
    agent = agent_of(clock, port, more=[old_style])
    poll = read(agent, clock, "e7")
    assert sample(poll, "e7").switch_in.octets is Missing.UNSUPPORTED
    assert all(old_style.oid not in oids for _, oids in agent.asked)


def test_a_counter_of_the_wrong_type_is_malformed_and_spares_the_others() -> None:
    clock = Clock()
    wrong = VarBind(Column.HC_IN_OCTETS.of(7), ValueType.COUNTER32, 12)
    poll = read(agent_of(clock, RecordedPort(7, b"e7", out_octets=5), more=[wrong]), clock, "e7")
    one = sample(poll, "e7")
    assert one.switch_in.octets is Missing.MALFORMED
    assert one.switch_out.octets == 5


def test_all_ones_is_malformed() -> None:
    clock = Clock()
    poll = read(agent_of(clock, RecordedPort(7, b"e7", in_octets=2**64 - 1)), clock, "e7")
    assert sample(poll, "e7").switch_in.octets is Missing.MALFORMED


# --- cases 10, 11, 12: tables that end too early, too late, or not at all


@dataclass(frozen=True)
class Asked:
    """A question and the answer that would be right."""

    exchange: Exchange
    oids: tuple[Oid, ...]
    repetitions: int = 0
    number: int = 0


class Misbehaving(RecordedAgent):
    """An agent whose GETBULK answers are bent by ``bend``, and GET answers by ``bend_get``."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.bulks = count()

    def bend(self, asked: Asked) -> Exchange:
        return asked.exchange

    def bend_get(self, asked: Asked) -> Exchange:
        return asked.exchange

    async def get_bulk(self, oids: Sequence[Oid], max_repetitions: int) -> Exchange:
        exchange = await super().get_bulk(oids, max_repetitions)
        return self.bend(Asked(exchange, tuple(oids), max_repetitions, next(self.bulks)))

    async def get(self, oids: Sequence[Oid]) -> Exchange:
        return self.bend_get(Asked(await super().get(oids), tuple(oids)))


def misbehaving(kind: type[Misbehaving], clock: Clock, ports: int = 40) -> Misbehaving:
    rows = [*device_rows(1), *(row for n in range(1, ports + 1) for row in RecordedPort(n, b"eth%d" % n).rows())]
    return kind(rows, clock)


def test_walk_goes_on_after_short_answers() -> None:
    clock = Clock()
    agent = misbehaving(Misbehaving, clock)
    agent.most_varbinds = 25  # GETs of one port still fit
    poll = read(agent, clock, "eth40", "eth1")
    assert len(poll.samples) == 2


def test_walk_halves_when_an_answer_is_too_big() -> None:
    class TooBig(Misbehaving):
        def bend(self, asked: Asked) -> Exchange:
            return replace(asked.exchange, error_status=1, varbinds=()) if asked.repetitions > 6 else asked.exchange

    clock = Clock()
    assert len(read(misbehaving(TooBig, clock), clock, "eth40").samples) == 1


def test_walk_does_not_take_the_next_columns_rows_for_names() -> None:
    """Case 12: the tail of an answer belongs to the next column; here both hold strings."""
    clock = Clock()
    agent = agent_of(clock, RecordedPort(1, b"eth1"), RecordedPort(2, b"eth2"))
    poll = read(agent, clock, "eth1")
    discovered = asyncio.run(switch_of(agent, clock).discover())
    assert [entry.port for entry in discovered.poll.ports] == ["eth1", "eth2"]
    assert len(poll.samples) == 1


def test_walk_of_an_agent_whose_rows_do_not_increase_ends() -> None:
    class Circular(Misbehaving):
        def bend(self, asked: Asked) -> Exchange:
            return replace(asked.exchange, varbinds=(VarBind(Column.NAME.of(1), ValueType.OCTETS, b"eth1"),))

    clock = Clock()
    agent = misbehaving(Circular, clock)
    poll = read(agent, clock, "eth1")
    assert fault(poll, "eth1").reason is Missing.MALFORMED
    assert "do not increase" in fault(poll, "eth1").text
    assert len(agent.asked) == 2


def test_walk_of_a_table_without_end_ends() -> None:
    class Endless(Misbehaving):
        def bend(self, asked: Asked) -> Exchange:
            first = asked.oids[0][-1] + 1 if len(asked.oids[0]) > len(Column.NAME.value) else 1
            rows = (VarBind(Column.NAME.of(first + n), ValueType.OCTETS, b"x") for n in range(asked.repetitions))
            return replace(asked.exchange, varbinds=tuple(rows))

    clock = Clock()
    poll = read(misbehaving(Endless, clock, ports=1), clock, "eth1", timing=Timing(deadline_ns=20 * S))
    assert fault(poll, "eth1").reason is Missing.MALFORMED
    assert "did not end" in fault(poll, "eth1").text


def test_a_dead_agent_is_asked_once_and_not_for_ever() -> None:
    """Case 15."""
    clock = Clock()
    agent = misbehaving(Misbehaving, clock)
    agent.silent = (Missing.TIMEOUT, "no answer")
    poll = read(agent, clock, "eth1", "eth2")
    assert [entry.reason for entry in poll.faults] == [Missing.TIMEOUT] * 2
    assert poll.failure is not None
    assert len(agent.asked) == 1


def test_silence_in_the_middle_of_a_walk_is_tried_once_with_fewer_rows() -> None:
    class LosesFragments(Misbehaving):
        def bend(self, asked: Asked) -> Exchange:
            if asked.number == 1:
                raise NoAnswerError(Missing.TIMEOUT, "lost", 0, 1)
            return asked.exchange

    clock = Clock()
    assert len(read(misbehaving(LosesFragments, clock), clock, "eth40").samples) == 1


def test_ports_known_before_go_on_when_the_walk_stops_early() -> None:
    """Case 10: expected ports are read by instance; a walk that fails later does not take them away."""

    class StopsEarly(Misbehaving):
        early = False

        def bend(self, asked: Asked) -> Exchange:
            return replace(asked.exchange, varbinds=()) if self.early else asked.exchange

    clock = Clock()
    agent = misbehaving(StopsEarly, clock)

    async def story() -> Poll:
        switch = switch_of(agent, clock)
        await switch.read_ports(["eth1", "eth40"])
        StopsEarly.early = True
        clock.ns += 10 * S
        return await switch.read_ports(["eth1", "eth40", "nowhere"])

    poll = asyncio.run(story())
    assert len(poll.samples) == 2
    assert fault(poll, "nowhere").reason is Missing.TRUNCATED


def test_discovery_says_when_its_list_may_not_be_whole() -> None:
    clock = Clock()
    rows = [*device_rows(1)]
    for n in (1, 2, 3):
        rows += [row for row in RecordedPort(n, b"eth%d" % n).rows() if n != 2 or row.oid != Column.NAME.of(2)]
    found = asyncio.run(switch_of(RecordedAgent(rows, clock), clock).discover())
    assert not found.complete
    assert "ifIndex 2" in found.text


def test_an_answer_of_too_many_ports_is_halved_and_remembered() -> None:
    clock = Clock()
    agent = agent_of(clock, *(RecordedPort(n, b"eth%d" % n) for n in range(1, 5)))
    agent.most_varbinds = len(PORT_COLUMNS) + 5  # one port, restart evidence, marks of the table

    async def story() -> tuple[Poll, int]:
        switch = switch_of(agent, clock)
        names = [f"eth{n}" for n in range(1, 5)]
        await switch.read_ports(names)
        asked = len(agent.asked)
        return await switch.read_ports(names), len(agent.asked) - asked

    poll, questions = asyncio.run(story())
    assert len(poll.samples) == 4
    assert questions == 4


def test_a_port_too_big_for_any_message_keeps_its_octets() -> None:
    clock = Clock()
    agent = agent_of(clock, RecordedPort(1, b"eth1", in_octets=5))
    agent.most_varbinds = 13
    one = sample(read(agent, clock, "eth1"), "eth1")
    assert one.switch_in.octets == 5
    assert one.switch_in.errors is Missing.TRUNCATED
    agent.most_varbinds = 4
    assert fault(read(agent, clock, "eth1"), "eth1").reason is Missing.TRUNCATED


def test_an_answer_that_stops_early_truncates_only_what_it_lacks() -> None:
    class Short(Misbehaving):
        def bend_get(self, asked: Asked) -> Exchange:
            return (
                replace(asked.exchange, varbinds=asked.exchange.varbinds[:30])
                if len(asked.oids) > 30
                else asked.exchange
            )

    clock = Clock()
    poll = read(misbehaving(Short, clock), clock, "eth1", "eth2")
    assert sample(poll, "eth1").switch_out.errors == 0
    assert sample(poll, "eth2").switch_out.errors is Missing.TRUNCATED


def test_an_answer_to_other_objects_is_worth_nothing() -> None:
    class Shifted(Misbehaving):
        def bend_get(self, asked: Asked) -> Exchange:
            return replace(asked.exchange, varbinds=(*asked.exchange.varbinds[1:], asked.exchange.varbinds[0]))

    clock = Clock()
    poll = read(misbehaving(Shifted, clock), clock, "eth1")
    assert fault(poll, "eth1").reason is Missing.MALFORMED


@pytest.mark.parametrize(
    ("status", "reason"), [(5, Missing.MALFORMED), (6, Missing.DENIED), (16, Missing.DENIED), (2, Missing.ABSENT)]
)
def test_one_ports_error_is_not_its_neighbours(status: int, reason: Missing) -> None:
    class FailsOnTwo(Misbehaving):
        def bend_get(self, asked: Asked) -> Exchange:
            return (
                replace(asked.exchange, error_status=status, varbinds=())
                if Column.NAME.of(2) in asked.oids
                else asked.exchange
            )

    clock = Clock()
    poll = read(misbehaving(FailsOnTwo, clock), clock, "eth1", "eth2", "eth3")
    assert fault(poll, "eth2").reason is reason
    assert len(poll.samples) == 2


@pytest.mark.parametrize("status", [2, 5])
def test_an_agent_that_fails_over_what_it_lacks_costs_no_port(status: int) -> None:
    class LacksTheMark(Misbehaving):
        def bend_get(self, asked: Asked) -> Exchange:
            if IF_TABLE_LAST_CHANGE in asked.oids:
                return replace(asked.exchange, error_status=status, varbinds=())
            return asked.exchange

    clock = Clock()
    agent = misbehaving(LacksTheMark, clock)
    poll = read(agent, clock, "eth1", "eth2", "eth3", "eth40")
    assert len(poll.samples) == 4
    assert sum(IF_TABLE_LAST_CHANGE in oids for _, oids in agent.asked) == 1


def test_refused_access_ends_the_look() -> None:
    class Refuses(Misbehaving):
        def bend_get(self, asked: Asked) -> Exchange:
            if len(asked.oids) > 10:
                raise NoAnswerError(Missing.DENIED, "wrong pass phrase", 0, 1)
            return asked.exchange

    clock = Clock()
    agent = misbehaving(Refuses, clock)
    poll = read(agent, clock, *(f"eth{n}" for n in range(1, 11)))
    assert {entry.reason for entry in poll.faults} == {Missing.DENIED}
    assert sum(operation is Operation.GET and len(oids) > 10 for operation, oids in agent.asked) == 1


def test_two_silences_in_a_row_end_the_look() -> None:
    class Dies(Misbehaving):
        def bend_get(self, asked: Asked) -> Exchange:
            if len(asked.oids) > 10:
                raise NoAnswerError(Missing.TIMEOUT, "no answer", 0, 1)
            return asked.exchange

    clock = Clock()
    agent = misbehaving(Dies, clock)
    poll = read(agent, clock, *(f"eth{n}" for n in range(1, 11)))
    assert {entry.reason for entry in poll.faults} == {Missing.TIMEOUT}
    assert sum(operation is Operation.GET and len(oids) > 10 for operation, oids in agent.asked) == 2


def test_the_deadline_of_a_look_holds_whatever_happens_inside() -> None:
    class Sleeps(Misbehaving):
        async def get(self, oids: Sequence[Oid]) -> Exchange:
            await asyncio.sleep(60)
            return await super().get(oids)

    clock = Clock()
    timing = Timing(timeout_ns=S // 10, attempts=1, deadline_ns=S // 5)
    poll = read(misbehaving(Sleeps, clock), clock, "eth1", timing=timing)
    assert fault(poll, "eth1").reason is Missing.TIMEOUT
    assert "0.2 s" in fault(poll, "eth1").text


# --- case 24


def test_names_quoted_and_not_utf8_are_kept_apart_and_found() -> None:
    clock = Clock()
    agent = agent_of(
        clock,
        RecordedPort(4, b"Appliance 'mgmt' port", in_octets=4),
        RecordedPort(5, b"eth\xff", in_octets=5),
        RecordedPort(9, b"", in_octets=9),
        RecordedPort(10, b"", in_octets=10),
    )
    poll = read(agent, clock, "Appliance 'mgmt' port", "eth\\xff", "#10")
    assert [s.switch_in.octets for s in poll.samples] == [4, 5, 10]
    found = asyncio.run(switch_of(agent, clock).discover())
    assert [entry.port for entry in found.poll.ports] == ["Appliance 'mgmt' port", "eth\\xff", "#9", "#10"]
    assert found.complete


def test_breakout_under_the_old_index_is_another_speed_and_still_the_named_row() -> None:
    clock = Clock()
    agent = agent_of(clock, RecordedPort(1, b"Ethernet0", high_speed=100_000))

    async def story() -> Poll:
        switch = switch_of(agent, clock)
        await switch.read_ports(["Ethernet0"])
        agent.rows = agent_of(
            clock, RecordedPort(1, b"Ethernet0", high_speed=25_000), RecordedPort(2, b"Ethernet1", high_speed=25_000)
        ).rows
        return await switch.read_ports(["Ethernet0"])

    assert sample(asyncio.run(story()), "Ethernet0").high_speed_mbit_per_s == 25_000


# --- sizes


def test_groups_fit_the_path_and_leave_no_port_out() -> None:
    sizes = [port_octets(f"eth{n}", n) for n in range(1, 65)]
    groups = pack(sizes, 1_400)
    assert [n for group in groups for n in group] == list(range(64))
    assert all(sum(sizes[n] for n in group) <= 1_400 for group in groups)
    assert pack([5_000, 10], 1_400) == [range(1), range(1, 2)]


def test_looks_do_not_overlap() -> None:
    clock = Clock()
    agent = agent_of(clock, RecordedPort(1, b"eth1"))

    async def story() -> list[Poll]:
        switch = switch_of(agent, clock)
        return list(await asyncio.gather(switch.read_ports(["eth1"]), switch.read_ports(["eth1"])))

    first, second = asyncio.run(story())
    assert first.received_ns < second.first_sent_ns


def test_a_recorded_switch_replays_what_was_read() -> None:
    clock = Clock()
    agent = agent_of(clock, RecordedPort(1, b"eth1", in_octets=1), RecordedPort(2, b"eth2"))
    polls = [read(agent, clock, "eth1", "eth2")]
    agent.rows = agent_of(clock, RecordedPort(1, b"eth1", in_octets=2), RecordedPort(2, b"eth2")).rows
    polls.append(read(agent, clock, "eth1", "eth2"))

    async def story() -> list[Poll]:
        switch = RecordedSwitch("sw1", polls)
        found = [await switch.read_ports(["eth1"]) for _ in range(3)]
        assert (await switch.discover()).complete
        return [*found, await switch.read_ports(["eth9"])]

    *replayed, unknown = asyncio.run(story())
    assert [sample(poll, "eth1").switch_in.octets for poll in replayed] == [1, 2, 2]
    assert fault(unknown, "eth9").reason is Missing.ABSENT
