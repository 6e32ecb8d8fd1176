"""Faults of real devices as reports from the field tell them, each on an agent of ours over UDP that has the fault.

The faults whose whole story is in a port's samples (resets, wraps, jumps) are in ``test_epochs.py``; those of tables
and names in ``test_snmp_switch.py``; those that need SNMPv3 or a kernel in ``test_snmpd.py``.
"""

from __future__ import annotations

import asyncio
import itertools
import socket
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from controller.crosscheck.account import Account
from controller.crosscheck.epochs import epochs_of
from controller.crosscheck.quantity import bounds
from protos.reading import Direction, Framing, Missing
from switch.channel import AgentChannel
from switch.continuity import EpochReason, Plausibility, line_rate
from switch.discovery import PortKind, classify
from switch.engine import SnmpStack
from switch.epochs import PortHistory, judge
from switch.exchange import Exchange, Oid, ValueType, VarBind
from switch.interpret import Device
from switch.mib import Column
from switch.polling import polls
from switch.ports import Agent, Discovery, Poll, PortFault, PortSample
from switch.recorded import RecordedAgent, RecordedPort, RecordedSwitch, device_rows
from switch.security import Endpoint, InsecureCommunity, Timing
from switch.snmp import SnmpSwitch
from switch.watch import EpochWatch

pytestmark = pytest.mark.loopback

S = 1_000_000_000
REFRESH_NS = 3 * S
PATIENT = Timing(timeout_ns=5 * S, attempts=4, deadline_ns=60 * S)
"""For an agent that answers at once, on a machine that may pause."""
QUICK = Timing(timeout_ns=S // 10, attempts=4, deadline_ns=60 * S)
PUBLIC = InsecureCommunity("public", insecure=True)
Story = Callable[[Any, SnmpSwitch], Awaitable[Any]]


def run(fake_agent: Any, story: Story, *ports: RecordedPort, timing: Timing = PATIENT) -> Any:
    async def main() -> Any:
        async with fake_agent(*ports) as agent:
            stack = SnmpStack(time.monotonic_ns)
            try:
                channel = AgentChannel(stack, "sw1", Endpoint("127.0.0.1", agent.port), PUBLIC, timing)
                device = Device(REFRESH_NS, Framing.L2_WITH_FCS)
                return await story(agent, SnmpSwitch("sw1", channel, device, time.monotonic_ns, timing=timing))
            finally:
                await stack.close()

    return asyncio.run(main())


def now_has(agent: Any, *ports: RecordedPort) -> None:
    """From now on the agent's device has these ports and no others."""
    rows = [*device_rows(100_000), *(row for port in ports for row in port.rows())]
    agent.inner.rows = {binding.oid: binding for binding in rows}


def only(entry: PortSample | PortFault) -> PortSample:
    assert isinstance(entry, PortSample), entry
    return entry


def ethernet(count: int) -> list[RecordedPort]:
    return [RecordedPort(4 * n + 1, b"Ethernet%d" % (4 * n), in_octets=1_000 + n) for n in range(count)]


# --- case 10


class StopsEarly(RecordedAgent):
    """Jumps from a row of some columns to the next column, as if there were no rows behind it."""

    stops: dict[Oid, int]

    async def get_bulk(self, oids: Sequence[Oid], max_repetitions: int) -> Exchange:
        exchange = await super().get_bulk(oids, max_repetitions)
        kept = [binding for binding in exchange.varbinds if not self._hidden(binding.oid)]
        return replace(exchange, varbinds=tuple(kept) or (VarBind(oids[0], ValueType.END_OF_MIB_VIEW, None),))

    def _hidden(self, oid: Oid) -> bool:
        last = self.stops.get(oid[:-1])
        return last is not None and oid[-1] > last


def stopping(agent: Any, stops: dict[Oid, int]) -> None:
    found = StopsEarly(agent.inner.rows.values(), time.monotonic_ns)
    found.stops = stops
    agent.inner = found


@pytest.mark.parametrize("columns", [(Column.NAME,), (Column.NAME, Column.HC_IN_OCTETS), (Column.HC_IN_OCTETS,)])
def test_walk_silently_stops_early_on_sonic(fake_agent: Any, columns: tuple[Column, ...]) -> None:
    """Rows 1, 5 and 9, then directly the next column: the ports behind are found by instance, right to the byte."""

    async def story(agent: Any, switch: SnmpSwitch) -> tuple[Poll, Discovery]:
        stopping(agent, {column.value: 9 for column in columns})
        return await switch.read_ports(["Ethernet0", "Ethernet8", "Ethernet12", "Ethernet60"]), await switch.discover()

    poll, discovery = run(fake_agent, story, *ethernet(16))
    assert [only(entry).switch_in.octets for entry in poll.ports] == [1_000, 1_002, 1_003, 1_015]
    assert discovery.complete
    assert len(discovery.poll.samples) == 16


def test_a_port_behind_a_walk_that_stops_early_is_never_called_absent(fake_agent: Any) -> None:
    """The names stop at row 9 and cannot be asked for by instance either: what is behind is unknown, not absent."""

    async def story(agent: Any, switch: SnmpSwitch) -> tuple[Poll, Discovery]:
        hidden = {Column.NAME.of(4 * n + 1) for n in range(3, 16)}
        agent.inner.rows = {oid: row for oid, row in agent.inner.rows.items() if oid not in hidden}
        return await switch.read_ports(["Ethernet8", "Ethernet12"]), await switch.discover()

    poll, discovery = run(fake_agent, story, *ethernet(16))
    known, behind = poll.ports
    assert only(known).switch_in.octets == 1_002
    assert isinstance(behind, PortFault)
    assert behind.reason is Missing.TRUNCATED
    assert "stopped early" in behind.text
    assert not discovery.complete


def test_a_port_known_before_survives_a_walk_that_stops_early_later(fake_agent: Any) -> None:
    """Another port goes away, so the names are walked anew; both columns now stop early, at the same row."""

    async def story(agent: Any, switch: SnmpSwitch) -> Poll:
        await switch.read_ports(["Ethernet0", "Ethernet60"])
        now_has(agent, *ethernet(16)[1:])
        stopping(agent, {Column.NAME.value: 9, Column.TYPE.value: 9})
        return await switch.read_ports(["Ethernet0", "Ethernet60"])

    gone, kept = run(fake_agent, story, *ethernet(16)).ports
    assert isinstance(gone, PortFault)
    assert gone.reason is not Missing.MALFORMED
    assert only(kept).switch_in.octets == 1_015


# --- case 20


def state(history: PortHistory, from_ns: int, to_ns: int) -> tuple[int, int | None]:
    """The bytes in a period that the readings leave possible."""
    readings = history.readings(Direction.EGRESS)
    epochs = epochs_of(readings, origin=from_ns, proven=history.proven_epochs, starts={})
    return bounds(Account(epochs, None), 0, to_ns - from_ns)


def test_a_port_polled_twice_within_one_refresh_gives_no_rate_between(fake_agent: Any) -> None:
    """Case 20, double poll: the counter moved between two polls milliseconds apart, by bytes of the seconds before."""

    async def story(agent: Any, switch: SnmpSwitch) -> list[PortSample]:
        samples = []
        for octets in (10_000_000, 15_000_000):
            now_has(agent, RecordedPort(1, b"eth1", in_octets=octets, in_packets=octets // 1_000))
            samples.append(only((await switch.read_ports(["eth1"])).ports[0]))
        return samples

    first, second = run(fake_agent, story, RecordedPort(1, b"eth1"))
    history = judge([first, second])
    assert len(history.epochs) == 1
    least, _ = state(history, first.received_ns, second.received_ns)
    assert least == 0
    if second.earliest_ns < first.latest_ns:
        least, _ = state(history, first.first_sent_ns, second.received_ns)
        assert least == 0


def test_what_was_read_before_is_not_given_again_when_nothing_is_read(fake_agent: Any) -> None:
    """Case 20, obsolete data: a switch that fell silent has no value, not its last one."""

    async def story(agent: Any, switch: SnmpSwitch) -> Poll:
        for _ in range(10):
            if (await switch.read_ports(["eth1"])).samples:
                break
        agent.bend = lambda _request, _answer: []
        return await switch.read_ports(["eth1"])

    poll = run(fake_agent, story, RecordedPort(1, b"eth1", in_octets=5), timing=QUICK)
    assert [entry.reason for entry in poll.faults] == [Missing.TIMEOUT]
    assert poll.samples == ()


class FakeTime:
    """A clock that only sleeping and looks move, in nanoseconds."""

    def __init__(self) -> None:
        self.ns = 0

    def __call__(self) -> int:
        return self.ns

    async def sleep(self, seconds: float) -> None:
        self.ns += round(seconds * S)


@pytest.mark.parametrize("lasts_s", [[0, 0, 0, 0, 0], [0, 9, 0, 0, 0], [0, 25, 3, 0, 0], [12, 12, 12, 12, 12]])
def test_starts_do_not_drift_and_no_poll_overlaps_another(lasts_s: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    """Case 20, drift: a poll's length is not added to the interval; a start that was missed is not made up for."""
    clock = FakeTime()
    looks: list[tuple[int, int]] = []
    lasts = iter(lasts_s)

    class Slow(RecordedSwitch):
        async def read_ports(self, names: Sequence[str]) -> Poll:
            assert names == ["eth1"]
            began = clock.ns
            clock.ns += next(lasts) * S
            looks.append((began, clock.ns))
            return self._polls[0]

    async def main() -> None:
        device = Slow("sw1", [Poll("sw1", 0, 0, Agent(), ())])
        async for _ in polls(device, ["eth1"], interval_ns=10 * S, count=5, now_ns=clock):
            pass

    monkeypatch.setattr("switch.polling.asyncio.sleep", clock.sleep)
    asyncio.run(main())
    assert all(began % (10 * S) == 0 for began, _ in looks)
    assert all(before[1] <= after[0] for before, after in itertools.pairwise(looks))
    assert len({began for began, _ in looks}) == 5


# --- case 22


def lag(octets: int) -> RecordedPort:
    return RecordedPort(1_000, b"PortChannel1", in_octets=octets, in_packets=octets // 1_000, if_type=161)


def member(number: int, octets: int) -> RecordedPort:
    return RecordedPort(number, b"Ethernet%d" % number, in_octets=octets, in_packets=octets // 1_000)


@pytest.mark.parametrize(
    ("joins", "jump"), [(9 * 10**12, "a port's history of years"), (1_000, "a history that any line could carry")]
)
def test_a_lags_sum_falls_and_jumps_with_its_members_and_is_no_counter(fake_agent: Any, joins: int, jump: str) -> None:
    """Ethernet0 5e12 and Ethernet4 6e12, so 11e12; Ethernet4 leaves: 5e12; Ethernet8 joins: 5e12 and its history."""

    async def story(agent: Any, switch: SnmpSwitch) -> list[Poll]:
        found = []
        for total in (11 * 10**12, 5 * 10**12, 5 * 10**12 + joins):
            members = member(0, 5 * 10**12), member(4, 6 * 10**12), member(8, joins)
            now_has(agent, lag(total), *members)
            found.append(await switch.read_ports(["PortChannel1", "Ethernet0", "Ethernet4", "Ethernet8"]))
        return found

    found = run(fake_agent, story, lag(0), member(0, 0), member(4, 0), member(8, 0))
    histories = [judge([only(poll.ports[place]) for poll in found]) for place in range(4)]
    assert histories[0].readings(Direction.EGRESS) == ()
    assert {entry.rejected for entry in histories[0].judged} == {entry.rejected for entry in histories[0].rejected}
    assert "declare the members" in histories[0].rejected[0].rejected
    for history in histories[1:]:
        readings = history.readings(Direction.EGRESS)
        assert len(history.epochs) == 1
        assert readings[-1].bytes == readings[0].bytes, jump
    watch = EpochWatch()
    assert not any(watch.take(only(poll.ports[0])).proven for poll in found)


def test_bytes_of_lags_vlans_and_sub_interfaces_are_counted_at_their_members_only(fake_agent: Any) -> None:
    kinds = {
        b"Ethernet0": (6, PortKind.PHYSICAL),
        b"PortChannel1": (161, PortKind.LAG),
        b"Vlan10": (136, PortKind.VLAN),
        b"vlan20": (135, PortKind.VLAN),
        b"Ethernet0.100": (6, PortKind.SUB_INTERFACE),
        b"Loopback0": (24, PortKind.LOOPBACK),
        b"tunnel1": (131, PortKind.TUNNEL),
    }
    ports = [RecordedPort(n, name, if_type=kind) for n, (name, (kind, _)) in enumerate(kinds.items(), start=1)]

    async def story(_agent: Any, switch: SnmpSwitch) -> Discovery:
        return await switch.discover()

    found = run(fake_agent, story, *ports)
    judged = classify(found.poll.ports, replace(found.poll.agent, object_id="1.3.6.1.4.1.9"))
    assert {port: kind.kind for port, kind in judged.items()} == {
        name.decode(): kind for name, (_, kind) in kinds.items()
    }
    assert [port for port, kind in judged.items() if kind.kind.carries_bytes_of_its_own] == ["Ethernet0"]


# --- case 23

HUNDRED_GBIT = 12_500_000_000


@pytest.mark.parametrize(
    ("speed", "believed"),
    [
        (0, None),
        (100_000_000, None),  # in bit/s
        (4_294_967_295, None),  # all ones, where 32 bits of bit/s overflowed
        (4_295, None),  # the same, divided
        (40_000, 5_000_000_000),  # every LAG, whatever its members
        (10_000, 1_250_000_000),  # a bandwidth statement made for routing metrics
    ],
)
def test_speed_lies_and_no_limit_or_rate_comes_of_it(fake_agent: Any, speed: int, believed: int | None) -> None:
    """A port of 100 Gb/s carries what it carries, whatever it says; the declared line rate is what is held against."""
    steps = (0, 25 * 10**9)  # two seconds' worth at 100 Gb/s

    async def story(agent: Any, switch: SnmpSwitch) -> list[PortSample]:
        samples: list[PortSample] = []
        for octets in steps:
            now_has(agent, RecordedPort(1, b"eth1", in_octets=octets, in_packets=octets // 1_000, high_speed=speed))
            one = only((await switch.read_ports(["eth1"])).ports[0])
            samples.append(replace(one, first_sent_ns=len(samples) * S, received_ns=len(samples) * S + 1))
        return samples

    samples = run(fake_agent, story, RecordedPort(1, b"eth1", high_speed=speed))
    assert line_rate(samples[0], Plausibility()) == believed
    assert line_rate(samples[0], Plausibility(line_rate_bytes_per_s=HUNDRED_GBIT)) == HUNDRED_GBIT
    declared = judge(samples, Plausibility(line_rate_bytes_per_s=HUNDRED_GBIT))
    assert [reading.bytes for reading in declared.readings(Direction.EGRESS)] == list(steps)
    assert len(declared.epochs) == 1
    believing = judge(samples).epochs
    assert (believed is None) == (len(believing) == 1)
    assert believed is None or believing[1].reason is EpochReason.IMPLAUSIBLE_RATE


# --- case 28


def test_an_answer_out_of_another_interfaces_address_is_taken_for_it_names_the_question(fake_agent: Any) -> None:
    """As switches do from a management VRF; a socket that only hears the address it asked would hear nothing."""

    async def story(agent: Any, switch: SnmpSwitch) -> Poll:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
            other.bind(("127.0.0.2", 0))
            own = agent._transport

            class Elsewhere:
                def sendto(self, datagram: bytes, address: tuple[str, int]) -> None:
                    other.sendto(datagram, address)

                def is_closing(self) -> bool:
                    return False

            agent._transport = Elsewhere()
            try:
                return await switch.read_ports(["eth1"])
            finally:
                agent._transport = own

    poll = run(fake_agent, story, RecordedPort(1, b"eth1", in_octets=77))
    assert only(poll.ports[0]).switch_in.octets == 77


def test_a_management_network_without_a_route_is_a_timeout_that_names_the_remedy(fake_agent: Any) -> None:
    """The own kernel says "network is unreachable", as it does of an address nobody may send to."""

    async def story(_agent: Any, _switch: SnmpSwitch) -> Poll:
        stack = SnmpStack(time.monotonic_ns)
        try:
            channel = AgentChannel(stack, "sw1", Endpoint("255.255.255.255", 161), PUBLIC, QUICK)
            device = Device(REFRESH_NS, Framing.L2_WITH_FCS)
            return await SnmpSwitch("sw1", channel, device, time.monotonic_ns, timing=QUICK).read_ports(["eth1"])
        finally:
            await stack.close()

    poll = run(fake_agent, story)
    assert poll.faults[0].reason is Missing.TIMEOUT
    assert "255.255.255.255:161" in poll.faults[0].text
    assert "route" in poll.faults[0].text


# --- case 29


def test_a_starved_agent_that_answers_the_third_time_gives_a_reading_from_before_the_first(fake_agent: Any) -> None:
    """Its processor was busy: two requests are lost in it. The reading claims no more than the first request allows."""

    async def story(agent: Any, switch: SnmpSwitch) -> tuple[Poll, int, list[int], Poll]:
        await switch.read_ports(["eth1"])
        now_has(agent, RecordedPort(1, b"eth1", in_octets=88))
        heard: list[int] = []

        def starved(_request: bytes, answer: bytes) -> list[tuple[float, bytes]]:
            heard.append(time.monotonic_ns())
            return [(0, answer)] if len(heard) > 2 else []

        agent.bend = starved
        asked_ns = time.monotonic_ns()
        late = await switch.read_ports(["eth1"])
        agent.bend = lambda _request, answer: [(0, answer)]
        return late, asked_ns, heard, await switch.read_ports(["eth1"])

    late, asked_ns, heard, after = run(
        fake_agent, story, RecordedPort(1, b"eth1", in_octets=7), timing=replace(QUICK, timeout_ns=S // 2, attempts=20)
    )
    one = only(late.ports[0])
    assert one.switch_in.octets == 88
    assert asked_ns <= one.first_sent_ns <= heard[0] < heard[2] <= one.received_ns
    assert one.earliest_ns == one.first_sent_ns - REFRESH_NS
    assert late.exchanges[-1].attempts == len(heard)
    assert only(after.ports[0]).switch_in.octets == 88


# --- case 31


def twice(answer: bytes, first: bytes, second: bytes) -> bytes:
    """The answer with the name of ``second`` in it turned into that of ``first``: one metric there twice."""
    assert answer.count(second) == 1
    return answer.replace(second, first)


def test_one_metric_twice_in_an_answer_once_wrong_is_worth_nothing(fake_agent: Any) -> None:
    """In octets come twice, the second time with the value of Out octets; none of the two is taken for either."""

    def encoded(oid: Oid) -> bytes:
        return bytes((43, *oid[2:]))

    async def story(agent: Any, switch: SnmpSwitch) -> Poll:
        await switch.read_ports(["eth1"])
        first, second = encoded(Column.HC_IN_OCTETS.of(1)), encoded(Column.HC_OUT_OCTETS.of(1))
        agent.bend = lambda _request, answer: [(0, twice(answer, first, second))]
        return await switch.read_ports(["eth1"])

    poll = run(fake_agent, story, RecordedPort(1, b"eth1", in_octets=5, out_octets=6))
    assert [entry.reason for entry in poll.faults] == [Missing.MALFORMED]
    assert "other objects" in poll.faults[0].text


def test_one_row_twice_in_a_walk_ends_it_with_a_reason(fake_agent: Any) -> None:
    class Doubled(RecordedAgent):
        async def get_bulk(self, oids: Sequence[Oid], max_repetitions: int) -> Exchange:
            exchange = await super().get_bulk(oids, max_repetitions)
            wrong = VarBind(exchange.varbinds[0].oid, ValueType.OCTETS, b"other")
            return replace(exchange, varbinds=(exchange.varbinds[0], wrong, *exchange.varbinds[1:]))

    async def story(agent: Any, switch: SnmpSwitch) -> Poll:
        agent.inner = Doubled(agent.inner.rows.values(), time.monotonic_ns)
        return await switch.read_ports(["eth1"])

    poll = run(fake_agent, story, RecordedPort(1, b"eth1"), RecordedPort(2, b"eth2"))
    assert [entry.reason for entry in poll.faults] == [Missing.MALFORMED]
    assert "do not increase" in poll.faults[0].text


def test_a_poll_that_is_stored_twice_counts_once(fake_agent: Any) -> None:
    async def story(agent: Any, switch: SnmpSwitch) -> list[PortSample]:
        samples = []
        for octets in (1_000, 2_000, 3_000):
            now_has(agent, RecordedPort(1, b"eth1", in_octets=octets))
            samples.append(only((await switch.read_ports(["eth1"])).ports[0]))
        return samples

    samples = run(fake_agent, story, RecordedPort(1, b"eth1"))
    once = judge(samples)
    assert judge([*samples, samples[1], *reversed(samples)]) == once
    assert [reading.bytes for reading in once.readings(Direction.EGRESS)] == [1_000, 2_000, 3_000]


# --- case 32: what a reader that speaks gNMI would hand over meets the same rules


def pushed(at_s: int, octets: int, *, cleared: int | Missing = Missing.UNSUPPORTED) -> PortSample:
    """A sample of a protocol that has neither sysUpTime nor engine boots; ``cleared`` is its last-clear."""
    rows = [*device_rows(0), *RecordedPort(1, b"eth1", in_octets=octets, in_packets=octets // 1_000).rows()]
    poll = asyncio.run(
        SnmpSwitch(
            "sw1", RecordedAgent(rows, lambda: at_s * S), Device(REFRESH_NS, Framing.L2_WITH_FCS), lambda: at_s * S
        ).read_ports(["eth1"])
    )
    lacking: dict[str, Any] = dict.fromkeys(("sys_uptime_ticks", "engine_boots", "engine_time_s"), Missing.UNSUPPORTED)
    return replace(only(poll.ports[0]), discontinuity_ticks=cleared, **lacking)


def test_a_leaf_that_only_updates_when_its_container_is_read_never_says_that_nothing_passed() -> None:
    """The same value every 10 s with a new time stamp, then all the bytes at once: no bound rests on the stamps."""
    history = judge([pushed(10 * n, value) for n, value in enumerate((10**6, 10**6, 10**6, 5 * 10**6))])
    assert history.proven_epochs == frozenset()
    _, most = state(history, 10 * S, 20 * S)
    assert most is None
    assert "no sysUpTime" in history.epochs[0].lacking


def test_last_clear_ends_an_epoch_though_the_counter_rose() -> None:
    history = judge([pushed(0, 10**6, cleared=0), pushed(10, 2 * 10**6, cleared=500)])
    assert [epoch.reason for epoch in history.epochs] == [EpochReason.FIRST, EpochReason.DISCONTINUITY]


def test_a_sample_that_arrives_after_its_successor_is_put_in_its_place() -> None:
    samples = [pushed(10 * n, value) for n, value in enumerate((1_000, 2_000, 3_000))]
    late = judge([samples[0], samples[2], samples[1]])
    assert [reading.bytes for reading in late.readings(Direction.EGRESS)] == [1_000, 2_000, 3_000]
    assert len(late.epochs) == 1
