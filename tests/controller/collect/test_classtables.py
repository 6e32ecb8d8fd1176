"""Class tables from the site file to a real agent's table, over real TLS; and what frames say against them."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

import pytest

from controller.classtables import body_of, signed_table
from controller.collect.agents import AgentCollector
from controller.collect.classtables import ClassTableSender
from controller.journal import Kind
from controller.verifierkey import verifier_key
from dpu_agent.classtable import ClassTables
from dpu_agent.disk import Disk
from protos.buckets import TrafficClass
from protos.v1 import agent_pb2, meter_pb2
from tests.controller.collect.conftest import AgentDouble, Surroundings

pytestmark = pytest.mark.loopback


def entry(last: int, traffic_class: TrafficClass = TrafficClass.SAME_POD, peer: str = "node1") -> meter_pb2.ClassEntry:
    return meter_pb2.ClassEntry(
        network=bytes([10, 77, 0, last]), prefix_length=32, traffic_class=traffic_class, peer=peer
    )


ENTRIES = [entry(1), entry(2, TrafficClass.OTHER_POD, "node2")]


@pytest.fixture
def counting(agent: AgentDouble, surroundings: Surroundings, tmp_path: Path) -> AgentDouble:
    """An agent that was told the verifier's key, and is enrolled."""
    agent.tables = tables_of(agent, surroundings, tmp_path)
    surroundings.enrol(agent)
    agent.make_frames(1)
    return agent


def tables_of(agent: AgentDouble, surroundings: Surroundings, folder: Path) -> ClassTables:
    verifier = verifier_key(surroundings.journal.path).public_key().public_bytes_raw()
    return ClassTables(Disk(), folder, agent=agent.name, verifier=verifier)


def collect(
    surroundings: Surroundings,
    agent: AgentDouble,
    entries: Sequence[meter_pb2.ClassEntry],
    until: Callable[[], bool],
    steps: Sequence[tuple[Callable[[], bool], Callable[[], None]]] = (),
) -> None:
    """Collect until ``until``; each step is done once its condition holds. Gives up after 15 s."""

    async def go() -> None:
        await agent.start()
        left = list(steps)
        async with surroundings.recorder() as recorder:
            collector = AgentCollector(
                agent.dpu,
                journal=surroundings.journal,
                recorder=recorder,
                load_credential=surroundings.credential,
                clock_interval_ns=20_000_000,
                timeline="controller-boot",
                tables=ClassTableSender(agent.dpu, entries, journal=surroundings.journal, recorder=recorder),
            )
            running = asyncio.ensure_future(collector.run())
            for _ in range(750):
                await asyncio.sleep(0.02)
                while left and left[0][0]():
                    left.pop(0)[1]()
                if running.done() or (not left and until()):
                    break
            running.cancel()
            with suppress(asyncio.CancelledError):
                await running
        await agent.stop()
        assert not left
        assert until(), f"not reached; said: {surroundings.said.getvalue()}"

    asyncio.run(go())


def sent(surroundings: Surroundings) -> list[tuple[int | None, bytes]]:
    entries = surroundings.journal.entries(kinds=[Kind.CLASS_TABLE])
    return [(each.sequence, agent_pb2.SignedClassTable.FromString(each.body).body) for each in entries]


def table_attempts(surroundings: Surroundings) -> list[dict[str, str]]:
    return [attempt for attempt in surroundings.attempts() if attempt["what"] == "class-table"]


def says(surroundings: Surroundings, text: str) -> Callable[[], bool]:
    return lambda: text in surroundings.said.getvalue()


def test_a_table_is_journaled_sent_and_in_every_later_frame(surroundings: Surroundings, counting: AgentDouble) -> None:
    done = says(surroundings, "counts by class table 1 (2 prefixes)")
    collect(
        surroundings,
        counting,
        ENTRIES,
        lambda: counting.acknowledged == 6,
        [(done, lambda: counting.make_frames(5))],
    )
    assert counting.tables is not None
    body = body_of(counting.name, 1, ENTRIES)
    assert sent(surroundings) == [(1, body)]
    assert counting.tables.table.sha256 == hashlib.sha256(body).digest()
    assert [(each.traffic_class, each.peer) for each in counting.tables.table.prefixes] == [(1, 1), (2, 2)]
    assert table_attempts(surroundings) == []


def test_the_same_table_is_not_sent_again_and_another_gets_the_next_number(
    surroundings: Surroundings, counting: AgentDouble
) -> None:
    for entries, in_force in ((ENTRIES, 1), (ENTRIES, 1), (ENTRIES[:1], 2), ([], 3), ([], 3)):
        surroundings.said.truncate(0)
        surroundings.said.seek(0)
        collect(surroundings, counting, entries, says(surroundings, f"counts by class table {in_force} ("))
        counting.port = 0
    assert [number for number, _ in sent(surroundings)] == [1, 2, 3]
    assert counting.tables is not None
    assert (counting.tables.table.sequence, counting.tables.table.prefixes) == (3, ())


def test_a_site_without_addresses_leaves_an_agent_without_a_table_alone(
    surroundings: Surroundings, counting: AgentDouble
) -> None:
    collect(surroundings, counting, [], lambda: counting.acknowledged == 1)
    assert sent(surroundings) == []
    assert counting.tables is not None
    assert counting.tables.table.sequence == 0


def test_an_agent_that_lost_its_table_gets_the_very_same_again(
    surroundings: Surroundings, counting: AgentDouble, tmp_path: Path
) -> None:
    collect(surroundings, counting, ENTRIES, says(surroundings, "counts by class table 1"))
    (tmp_path / "wiped").mkdir()
    counting.tables, counting.port = tables_of(counting, surroundings, tmp_path / "wiped"), 0
    assert counting.tables.table.sequence == 0
    collect(surroundings, counting, ENTRIES, lambda: counting.tables is not None and counting.tables.table.sequence > 0)
    assert len(sent(surroundings)) == 1


def test_a_frame_of_another_table_is_journaled_and_told_and_the_table_is_sent_again(
    surroundings: Surroundings, counting: AgentDouble
) -> None:
    def lie() -> None:
        counting.table_lies = b"\xab" * 32
        counting.make_frames(1)
        counting.table_lies = b""

    done = says(surroundings, "counts by class table 1")
    again = says(surroundings, "again after")
    collect(surroundings, counting, ENTRIES, again, [(done, lie)])
    [attempt] = table_attempts(surroundings)
    assert attempt["reason"] == "other-table"
    assert "frame 2 that it counts by abababababababab" in attempt["text"]
    assert attempt["evidence_base64"]
    assert len(sent(surroundings)) == 1


def test_an_agent_that_knows_no_verifier_is_told_of_with_the_remedy_and_collected_from_all_the_same(
    surroundings: Surroundings, counting: AgentDouble, tmp_path: Path
) -> None:
    (tmp_path / "keyless").mkdir()
    counting.tables = ClassTables(Disk(), tmp_path / "keyless", agent=counting.name, verifier=b"")
    counting.make_frames(9)
    collect(surroundings, counting, ENTRIES, lambda: counting.acknowledged == 10)
    first = table_attempts(surroundings)[0]
    assert first["reason"] == "refused"
    assert "told no verifier_public_key" in first["text"]
    assert "run `weighbridge agents deploy node1-dpu0`" in first["text"]


def test_an_older_agent_is_told_of_with_the_remedy(surroundings: Surroundings, counting: AgentDouble) -> None:
    counting.tables = None
    collect(surroundings, counting, ENTRIES, lambda: bool(table_attempts(surroundings)))
    assert "its release knows no class tables" in table_attempts(surroundings)[0]["text"]


def test_a_table_that_another_controller_numbered_higher_is_replaced(
    surroundings: Surroundings, counting: AgentDouble
) -> None:
    assert counting.tables is not None
    key = verifier_key(surroundings.journal.path)
    other = signed_table(body_of(counting.name, 41, ENTRIES[:1]), key)
    counting.tables.accept(other.SerializeToString(deterministic=True))
    collect(surroundings, counting, ENTRIES, says(surroundings, "counts by class table 42"))
    assert [number for number, _ in sent(surroundings)] == [42]
