"""fsck: a sound journal is in order; each kind of damage is found and named, and the rest is checked all the same."""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given
from hypothesis import strategies as st

from controller.journal import Journal, Kind, NewEntry
from controller.journal_fsck import Fsck, Hole, _Chain, _holes, fsck
from controller.journal_survey import survey
from protos.signing import SigningDomain, sign
from protos.v1 import frame_pb2
from protos.wire import FRAME_VERSION


class Agent:
    """Makes an agent's frames, as a DPU would."""

    def __init__(self, name: str, seed: int) -> None:
        self.name = name
        self.key = Ed25519PrivateKey.from_private_bytes(bytes([seed]) * 32)
        self.sequence = 0
        self.previous = b""

    def enrolment(self, **changed: object) -> NewEntry:
        body = {
            "agent": self.name,
            "public_key": self.key.public_key().public_bytes_raw().hex(),
            "bundle_sha256": "",
            "agent_version": "0.1.0",
        }
        return NewEntry(Kind.ENROLMENT, self.name, 1, json.dumps({**body, **changed}).encode())

    def frame(self, *losses: tuple[int, int]) -> NewEntry:
        self.sequence += 1
        frame = frame_pb2.Frame(
            version=FRAME_VERSION,
            agent=self.name,
            sequence=self.sequence,
            previous_sha256=self.previous,
            losses=[frame_pb2.Loss(first_sequence=a, last_sequence=b, reason="spool full") for a, b in losses],
        )
        body = frame.SerializeToString()
        signed = frame_pb2.SignedFrame(body=body, signature=sign(self.key, SigningDomain.FRAME, body))
        self.previous = hashlib.sha256(body).digest()
        return NewEntry(Kind.FRAME, self.name, self.sequence, signed.SerializeToString(), {}, self.sequence)

    def frames(self, count: int) -> list[NewEntry]:
        return [self.frame() for _ in range(count)]

    def skip(self, count: int) -> None:
        """Make frames that never arrive."""
        self.frames(count)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "journal.db"


@pytest.fixture
def journal(path: Path) -> Iterator[Journal]:
    with Journal.create(path, NewEntry(Kind.SITE, "demo", 1, b"site")) as journal:
        yield journal


@pytest.fixture
def agent() -> Agent:
    return Agent("dpu0", 7)


def texts(found: Fsck) -> list[str]:
    return [fault.text for fault in found.faults]


def test_a_sound_journal(journal: Journal, agent: Agent) -> None:
    other = Agent("dpu1", 8)
    journal.append(agent.enrolment(), other.enrolment())
    for _ in range(5):
        journal.append(agent.frame(), other.frame(), NewEntry(Kind.POLL, "sw1", 1, b"poll"))
    assert fsck(journal) == Fsck(entries=18, frames=10, agents=2, faults=(), holes=())


def test_an_empty_journal(tmp_path: Path) -> None:
    with Journal.create(tmp_path / "empty.db") as journal:
        assert fsck(journal) == Fsck(0, 0, 0, (), ())


def test_a_hole_that_the_agent_declared_is_no_fault(journal: Journal, agent: Agent) -> None:
    journal.append(agent.enrolment(), *agent.frames(3))
    agent.skip(4)
    journal.append(agent.frame((4, 7)), *agent.frames(2))
    found = fsck(journal)
    assert found.faults == ()
    assert found.holes == (Hole("dpu0", 4, 7, declared=True),)


def test_a_declaration_may_come_later_and_in_pieces(journal: Journal, agent: Agent) -> None:
    journal.append(agent.enrolment(), agent.frame())
    agent.skip(6)
    journal.append(agent.frame((2, 3)), agent.frame((6, 7)))
    found = fsck(journal)
    assert found.holes == (
        Hole("dpu0", 2, 3, declared=True),
        Hole("dpu0", 4, 5, declared=False),
        Hole("dpu0", 6, 7, declared=True),
    )
    assert texts(found) == ["frames 4 to 5 of dpu0 are missing and were not declared lost"]


def test_missing_first_frames_are_a_hole(journal: Journal, agent: Agent) -> None:
    agent.skip(2)
    journal.append(agent.enrolment(), agent.frame())
    assert texts(fsck(journal)) == ["frames 1 to 2 of dpu0 are missing and were not declared lost"]


@given(
    hole=st.tuples(st.integers(1, 30), st.integers(1, 30)).map(sorted),
    losses=st.lists(st.tuples(st.integers(1, 35), st.integers(1, 35)).map(sorted), max_size=6),
)
def test_holes_are_cut_exactly_at_the_declarations(hole: list[int], losses: list[list[int]]) -> None:
    chain = _Chain("a", holes=[(hole[0], hole[1])], losses=[(first, last) for first, last in losses])
    seen = {number: each.declared for each in _holes(chain) for number in range(each.first, each.last + 1)}
    declared = {number for first, last in losses for number in range(first, last + 1)}
    assert seen == {number: number in declared for number in range(hole[0], hole[1] + 1)}
    assert sum(each.last - each.first + 1 for each in _holes(chain)) == hole[1] - hole[0] + 1


def test_a_frame_of_another_key(journal: Journal, agent: Agent) -> None:
    journal.append(agent.enrolment(), agent.frame())
    genuine, agent.key = agent.key, Ed25519PrivateKey.generate()
    journal.append(agent.frame())
    agent.key = genuine
    journal.append(agent.frame())
    (fault,) = fsck(journal).faults
    assert fault.leaf == 3
    assert "frame 2 of dpu0 in leaf 3 is not signed by the enrolled key" in fault.text


def test_the_key_in_force_is_the_one_enrolled_before(journal: Journal, agent: Agent) -> None:
    journal.append(agent.enrolment(), *agent.frames(2))
    agent.key = Ed25519PrivateKey.generate()
    journal.append(agent.enrolment(), *agent.frames(2))
    assert fsck(journal).faults == ()


def test_a_frame_before_any_enrolment(journal: Journal, agent: Agent) -> None:
    journal.append(agent.frame(), agent.enrolment(), agent.frame())
    assert texts(fsck(journal)) == [
        "frame 1 of dpu0 in leaf 1 comes before any enrolment of dpu0: no key to check it with"
    ]


def test_a_broken_chain(journal: Journal, agent: Agent) -> None:
    journal.append(agent.enrolment(), *agent.frames(2))
    agent.previous = hashlib.sha256(b"another past").digest()
    journal.append(*agent.frames(2))
    (fault,) = fsck(journal).faults
    assert fault.text == "frame 3 of dpu0 in leaf 4 does not follow from frame 2: the chain is broken there"


def test_a_first_frame_that_claims_a_past(journal: Journal, agent: Agent) -> None:
    agent.previous = hashlib.sha256(b"a past").digest()
    journal.append(agent.enrolment(), agent.frame())
    assert texts(fsck(journal)) == ["frame 1 of dpu0 in leaf 2 does not follow from frame 0: the chain is broken there"]


def test_frames_out_of_order(journal: Journal, agent: Agent) -> None:
    first, second = agent.frames(2)
    journal.append(agent.enrolment(), second, first)
    assert texts(fsck(journal)) == [
        "frame 1 of dpu0 in leaf 3 was recorded after frame 2",
        "frames 1 to 1 of dpu0 are missing and were not declared lost",
    ]


def test_a_frame_under_a_false_name_or_number(journal: Journal, agent: Agent) -> None:
    other = Agent("dpu1", 9)
    stolen = other.frame()
    genuine = agent.frame()
    journal.append(
        agent.enrolment(),
        NewEntry(Kind.FRAME, "dpu0", 1, stolen.body, {}, 1),
        NewEntry(Kind.FRAME, "dpu0", 1, genuine.body, {}, 5),
        NewEntry(Kind.FRAME, "dpu0", 1, b"\xff\xff", {}, 6),
    )
    found = texts(fsck(journal))
    assert found[:2] == ["frame 1 of dpu0 in leaf 2 is frame 1 of dpu1", "frame 5 of dpu0 in leaf 3 is frame 1 of dpu0"]
    assert found[2].startswith("frame 6 of dpu0 in leaf 4 cannot be read: ")


@pytest.mark.parametrize(
    ("changed", "text"),
    [
        ({"public_key": "00" * 32}, "cannot be read: the Ed25519 public key is of low order"),
        ({"public_key": "zz"}, "cannot be read"),
        ({"agent": "dpu9"}, "leaf 1 enrols dpu9 under the name dpu0"),
    ],
)
def test_an_enrolment_that_is_none(journal: Journal, agent: Agent, changed: dict[str, object], text: str) -> None:
    journal.append(agent.enrolment(**changed))
    (fault,) = fsck(journal).faults
    assert fault.leaf == 1
    assert text in fault.text


def _behind_its_back(path: Path, statement: str) -> None:
    with sqlite3.connect(path) as editor:
        triggers = editor.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'").fetchall()
        for name, _ in triggers:
            editor.execute(f"DROP TRIGGER {name}")
        editor.execute(statement)
        for _, sql in triggers:
            editor.execute(sql)
    editor.close()


def test_removed_leaves(journal: Journal, path: Path) -> None:
    journal.append(*(NewEntry(Kind.POLL, "sw1", number, b"poll") for number in range(600)))
    journal.close()
    _behind_its_back(path, "DELETE FROM entry WHERE leaf BETWEEN 100 AND 399 OR leaf = 500")
    with Journal.open(path, read_only=True) as damaged:
        found = fsck(damaged)
    assert texts(found) == ["leaves 100 to 399 are missing", "leaves 500 to 500 are missing"]
    assert found.entries == 300


def test_a_removed_first_leaf(journal: Journal, path: Path) -> None:
    journal.append(NewEntry(Kind.POLL, "sw1", 1, b"poll"))
    journal.close()
    _behind_its_back(path, "DELETE FROM entry WHERE leaf = 0")
    with Journal.open(path, read_only=True) as damaged:
        assert texts(fsck(damaged)) == ["leaves 0 to 0 are missing"]


def test_every_changed_entry_is_named_and_the_rest_is_checked(journal: Journal, path: Path, agent: Agent) -> None:
    journal.append(agent.enrolment(), *agent.frames(8))
    journal.close()
    _behind_its_back(path, "UPDATE entry SET recorded_ns = recorded_ns + 1 WHERE leaf IN (4, 7)")
    with Journal.open(path, read_only=True) as damaged:
        found = fsck(damaged)
    assert [fault.leaf for fault in found.faults if fault.leaf is not None] == [4, 7]
    assert found.entries == 10


def test_a_page_of_the_file_that_is_gone_costs_only_its_own_leaves(path: Path) -> None:
    with Journal.create(path) as journal:
        journal.append(*(NewEntry(Kind.POLL, "sw1", number, b"<leaf %05d>" % number * 40) for number in range(400)))
    content = bytearray(path.read_bytes())
    page = content.index(b"<leaf 00200>") // 4096 * 4096
    content[page : page + 4096] = b"\xa5" * 4096
    path.write_bytes(content)
    with Journal.open(path, read_only=True) as damaged:
        found = fsck(damaged)
        readable = [seen.leaf for seen in survey(damaged) if not isinstance(seen.found, Exception)]
    lost = sorted(set(range(400)) - set(readable))
    assert 200 in lost
    assert len(lost) < 12
    assert [fault.leaf for fault in found.faults if fault.leaf is not None] == lost
    assert all("cannot be read: the file is damaged there" in fault.text for fault in found.faults if fault.leaf)
    assert any("SQLite says" in fault.text for fault in found.faults)
