"""Polling a switch: known ports each time, the whole list now and then, and every failure with its reason."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

import pytest

from controller.collect import switches
from controller.collect.attempts import Reason
from controller.collect.switches import SwitchCollector
from controller.journal import Kind
from protos.reading import Framing, Missing
from switch.effort import Effort
from switch.exchange import NoAnswerError, Operation, ValueType, VarBind
from switch.interpret import Device
from switch.mib import IF_NUMBER, IF_TABLE_LAST_CHANGE
from switch.ports import Discovery, Poll
from switch.record import decode
from switch.recorded import RecordedAgent, RecordedPort, device_rows
from switch.snmp import SnmpSwitch

if TYPE_CHECKING:
    from tests.controller.collect.conftest import Surroundings

PORTS = [
    RecordedPort(1, b"lo", if_type=24),
    RecordedPort(2, b"eth1", in_octets=100),
    RecordedPort(3, b"eth2", in_octets=200),
    RecordedPort(4, b"br0", physical_address=b"\x02\x00\x00\x00\x00\x02"),
]
DECLARED = {"eth1": None, "eth2": None}


class Clock:
    """Time that passes a little with each look at it, and as a test says."""

    def __init__(self) -> None:
        self.ns = 10**18

    def __call__(self) -> int:
        self.ns += 1_000
        return self.ns


class Bench:
    """A recorded switch with its collector."""

    def __init__(self, ports: Sequence[RecordedPort] = PORTS) -> None:
        self.clock = Clock()
        self.agent = RecordedAgent([], self.clock)
        self.set(ports)
        self.effort = Effort()
        self.reader = SnmpSwitch("sw1", self.agent, Device(3_500_000_000, Framing.L2_WITHOUT_FCS), self.clock)

    def set(self, ports: Sequence[RecordedPort]) -> None:
        rows = [*device_rows(1000), *(row for port in ports for row in port.rows())]
        self.agent.rows = {binding.oid: binding for binding in rows}

    async def look(self, surroundings: Surroundings, steps: Sequence[object]) -> list[bool]:
        """Look once after each step; a step is a function, or seconds that pass."""
        results = []
        async with surroundings.recorder(self.clock) as recorder:
            collector = SwitchCollector(self.reader, DECLARED, recorder=recorder, interval_ns=10**9, effort=self.effort)
            for step in steps:
                if callable(step):
                    step()
                elif isinstance(step, int):
                    self.clock.ns += step * 10**9
                results.append(await collector.look())
        return results


def _polls(surroundings: Surroundings) -> list[tuple[Poll, bool]]:
    entries = surroundings.journal.entries(kinds=[Kind.POLL], source="sw1")
    return [(decode(entry.body), bool(entry.meta.get("discovery"))) for entry in entries]


def test_known_ports_then_the_whole_list_then_known_ports(surroundings: Surroundings) -> None:
    bench = Bench()
    assert asyncio.run(bench.look(surroundings, [0, 1, 1, 1])) == [True] * 4
    polls = _polls(surroundings)
    assert [discovery for _, discovery in polls] == [False, True, False, False]
    assert [port.port for port in polls[0][0].ports] == ["eth1", "eth2"]
    assert [port.port for port in polls[1][0].ports] == ["lo", "eth1", "eth2", "br0"]
    assert [port.port for port in polls[2][0].ports] == ["eth1", "eth2"], "loopback and bridge are no paths"
    assert (bench.effort.polls, bench.effort.rows_expected, bench.effort.rows_got) == (4, 10, 10)
    entry = surroundings.journal.last(Kind.POLL)
    assert entry is not None
    last = polls[-1][0]
    assert entry.meta == {"first_sent_ns": str(last.first_sent_ns), "received_ns": str(last.received_ns)}
    assert surroundings.attempts() == []
    assert surroundings.said.getvalue().splitlines() == [
        "sw1: port eth1 is read", "sw1: port eth2 is read", "sw1: the switch answers", "sw1: 4 ports listed"
    ]  # fmt: skip


def test_a_port_nobody_declared_is_found_and_polled_from_then_on(surroundings: Surroundings) -> None:
    bench = Bench()
    new = RecordedPort(7, b"eth7", in_octets=5, physical_address=b"\x02\x00\x00\x00\x00\x07")
    steps = [0, 1, lambda: bench.set([*PORTS, new]), 11, 1]
    assert asyncio.run(bench.look(surroundings, steps)) == [True] * 5
    polls = _polls(surroundings)
    assert [discovery for _, discovery in polls] == [False, True, False, True, False]
    assert [port.port for port in polls[2][0].ports] == ["eth1", "eth2"]
    assert [port.port for port in polls[4][0].ports] == ["eth1", "eth2", "eth7"]
    assert "sw1: port eth7 is up and not in the site file" in surroundings.said.getvalue()


@pytest.mark.parametrize("mark", ["number", "time"])
def test_a_port_is_found_at_once_where_the_switch_says_that_its_table_changed(
    surroundings: Surroundings, mark: str
) -> None:
    bench = Bench()

    def more(number: int, ticks: int) -> None:
        marks = VarBind(IF_NUMBER, ValueType.INTEGER, number), VarBind(IF_TABLE_LAST_CHANGE, ValueType.TIMETICKS, ticks)
        bench.agent.rows = {**bench.agent.rows, **{binding.oid: binding for binding in marks}}

    def plug() -> None:
        bench.set([*PORTS, RecordedPort(9, b"eth9", in_octets=5)])
        more(5 if mark == "number" else 4, 900 if mark == "time" else 500)

    steps: list[object] = [0, lambda: more(4, 500), 11, 1, plug, 1, 1]
    assert asyncio.run(bench.look(surroundings, steps)) == [True] * len(steps)
    kinds = [discovery for _, discovery in _polls(surroundings)]
    # The first look, the marks' first appearance, the discovery when it is due; after plug() a poll sees the change.
    assert kinds == [False, True, True, False, False, True, False]
    assert "eth9" in {sample.port for sample in _polls(surroundings)[-1][0].samples}


def test_marks_that_never_move_or_move_all_the_time_neither_stop_nor_flood_discovery(
    surroundings: Surroundings,
) -> None:
    bench = Bench()
    ticks = iter(range(100))

    def move() -> None:
        mark = VarBind(IF_TABLE_LAST_CHANGE, ValueType.TIMETICKS, next(ticks))
        bench.agent.rows = {**bench.agent.rows, mark.oid: mark}
        bench.clock.ns += 10**9

    asyncio.run(bench.look(surroundings, [move] * 12))
    kinds = [discovery for _, discovery in _polls(surroundings)]
    assert 2 <= sum(kinds) <= 6  # every second look at the most: a discovery's own marks are the new ones
    still = Bench()
    asyncio.run(still.look(surroundings, [0, *[4] * 9]))
    assert sum(discovery for _, discovery in _polls(surroundings)[12:]) == 3


def test_a_discovery_that_takes_long_is_made_rarer(surroundings: Surroundings, monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench()
    discover = bench.reader.discover

    async def slow() -> Discovery:
        found = await discover()
        bench.clock.ns += 5 * 10**9
        return found

    monkeypatch.setattr(bench.reader, "discover", slow)
    asyncio.run(bench.look(surroundings, [0, 1, 15, 15, 15, 15]))
    assert [discovery for _, discovery in _polls(surroundings)] == [False, True, False, False, False, True]
    assert switches.DISCOVERY_INTERVAL_NS == 10 * 10**9


@pytest.mark.parametrize(("missing", "reason"), [(Missing.TIMEOUT, Reason.TIMEOUT), (Missing.DENIED, Reason.AUTH)])
def test_a_switch_that_gives_nothing_is_a_failed_look(
    surroundings: Surroundings, missing: Missing, reason: Reason
) -> None:
    bench = Bench()

    def fail() -> None:
        bench.agent.silent = (missing, "the agent found a wrong digest: the pass phrase is wrong")

    def recover() -> None:
        bench.agent.silent = None

    assert asyncio.run(bench.look(surroundings, [0, fail, 1, recover])) == [True, False, False, True]
    attempts = surroundings.attempts()
    assert [attempt["reason"] for attempt in attempts] == [reason.value] * 2
    assert attempts[0]["what"] == "poll"
    assert "wrong digest" in attempts[0]["text"]
    assert "password" not in attempts[0]["text"]
    said = surroundings.said.getvalue()
    assert said.count("was not read") == 1
    assert "the switch answers again" in said
    operations = {operation for operation, _ in bench.agent.asked[-1:]}
    assert operations == {Operation.GET}, "after a failure the known ports come first, not a walk"


def test_a_list_that_cannot_be_read_does_not_stop_the_polls(
    surroundings: Surroundings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An SNMP view that shows the rows but not the walk: known ports go on, and the operator hears of it."""
    bench = Bench()

    async def refused(*_: object) -> object:
        raise NoAnswerError(Missing.DENIED, "the agent refuses access to the table", 1, 2)

    def refuse() -> None:
        monkeypatch.setattr(bench.agent, "get_bulk", refused)

    assert asyncio.run(bench.look(surroundings, [0, refuse, 1, 1])) == [True] * 4
    assert [discovery for _, discovery in _polls(surroundings)] == [False] * 4
    assert surroundings.said.getvalue().count("an undeclared port would go unseen") == 1


def test_a_declared_port_that_is_gone_is_a_fault_in_the_poll_and_told_once(surroundings: Surroundings) -> None:
    bench = Bench(PORTS[:2])
    assert asyncio.run(bench.look(surroundings, [0, 1, 1, 1])) == [True] * 4
    for poll, discovery in _polls(surroundings):
        if not discovery:
            [fault] = poll.faults
            assert (fault.port, fault.reason) == ("eth2", Missing.ABSENT)
    assert surroundings.said.getvalue().count("'eth2'") == 1
    assert surroundings.attempts() == []


def test_none_of_the_declared_ports_is_a_failed_look(surroundings: Surroundings) -> None:
    bench = Bench([PORTS[0]])
    assert asyncio.run(bench.look(surroundings, [0])) == [False]
    assert surroundings.attempts()[0]["reason"] == Reason.MISSING_PORTS.value
    assert bench.effort.missing == {"absent": 2}, "a look that failed was one"


def test_it_polls_at_the_interval_and_lets_go_in_the_end(surroundings: Surroundings) -> None:
    bench = Bench()
    closed = []

    async def go() -> None:
        async with surroundings.recorder() as recorder:
            collector = SwitchCollector(bench.reader, DECLARED, recorder=recorder, interval_ns=50_000_000)
            running = asyncio.ensure_future(collector.run())
            await asyncio.sleep(0.5)
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bench.agent, "close", lambda: closed.append(True))
        asyncio.run(go())
    assert closed == [True]
    polls = _polls(surroundings)
    assert 4 <= len(polls) <= 11
