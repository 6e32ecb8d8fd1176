"""The main job on a rig, end to end, through the commands an operator types.

The figures of `make bench AREA=main` run the same scenarios ten times; here each has to hold once.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from controller.journal import Journal, Kind
from hil import rigfile, scenarios
from hil.operation import Operation
from hil.rig import Rig
from protos.v1 import agent_pb2
from protos.wire import parse_signed_frame

WEIGHBRIDGE = str(Path(sys.executable).with_name("weighbridge"))

pytestmark = [pytest.mark.rig, pytest.mark.slow]


@pytest.fixture(scope="module")
def operation(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Operation]:
    folder: Path = tmp_path_factory.mktemp("main job")  # a path with a space in it
    with Rig.up(rigfile.load(rigfile.find("demo")), folder / "rig", name="e2e") as rig:
        operation = Operation(rig, folder / "logs")
        operation.prepare()
        try:
            yield operation
        finally:
            operation.kill()


def test_four_observers_prove_the_same_number_to_the_byte(
    operation: Operation, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask, told = operation.crosscheck, list[dict[str, Any]]()

    def keep(from_ns: int, to_ns: int) -> dict[str, Any]:
        told.append(ask(from_ns, to_ns))
        return told[-1]

    monkeypatch.setattr(operation, "crosscheck", keep)
    operation.start()
    try:
        directions = scenarios.exact_transfer(operation)
    finally:
        operation.stop()
    for found in directions:
        assert found.containing_truth == 4, found
        assert found.widest_bytes is not None
        assert found.widest_bytes <= 3 * 1514, found
    assert directions[0].truth_bytes > 100_000_000
    _assert_counted_by_the_tables_sent(operation.journal)
    assert not {"other-class-table", "agent-clock-set"} & {each["kind"] for each in told[-1]["findings"]}
    # The same bytes by the nodes' addresses: sent at the one, received at the other, and nobody else's.
    rows = {(row["node"], row["direction"], row["peer"]): row for row in told[-1]["node_pairs"]["rows"]}
    for key in (("node1", "egress", "node4"), ("node4", "ingress", "node1")):
        row = rows.pop(key)
        assert 100_000_000 < int(row["lower_bytes"]) <= int(row["upper_bytes"]) <= directions[0].truth_bytes
    assert all(int(row["upper_bytes"]) < 20_000_000 for row in rows.values()), "else only what was acknowledged"


def _assert_counted_by_the_tables_sent(path: Path) -> None:
    """Each agent's newest frame names the class table that was journaled for it, and nodes of the site by it."""
    with Journal.open(path, read_only=True) as journal:
        for number in range(1, 5):
            agent = f"node{number}-dpu0"
            sent, newest = journal.last(Kind.CLASS_TABLE, agent), journal.last(Kind.FRAME, agent)
            assert sent is not None
            assert newest is not None
            frame = parse_signed_frame(newest.body)[1]
            body = agent_pb2.SignedClassTable.FromString(sent.body).body
            assert frame.class_table_sha256 == hashlib.sha256(body).digest()
            frames = journal.entries(kinds=[Kind.FRAME], source=agent)
            peers = {p.peer for e in frames for meter in parse_signed_frame(e.body)[1].meters for p in meter.peers}
            assert peers <= {"node1", "node2", "node3", "node4"}


def test_a_known_weight_is_shown_by_every_observer(operation: Operation) -> None:
    operation.start()
    try:
        done = subprocess.run(
            [WEIGHBRIDGE, "calibrate", "node2/p0", "--bytes", "777777B", "--site", str(operation.site_file)],
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
    finally:
        operation.stop()
    assert done.returncode == 0, done.stderr
    told = done.stdout.splitlines()
    assert len(told) == 2, told
    assert all(line.count("777,777") >= 4 for line in told), told


def test_no_false_alarm_and_the_lie_is_found(operation: Operation) -> None:
    watched = scenarios.watched_run(operation, seed=20261130)
    assert watched.honest_findings == ()
    assert watched.lie_found
    assert watched.accused == ("node1/p0 egress",)
    assert 0 < watched.found_bytes <= watched.hidden_bytes


def test_no_frame_is_lost_or_doubled_when_controller_and_agent_are_killed(operation: Operation) -> None:
    kills = scenarios.kill_run(operation, controller_kills=4, agent_kills=2, seed=7)
    assert (kills.missing, kills.doubled) == (0, 0), kills
    assert kills.frames > 4 * 10
