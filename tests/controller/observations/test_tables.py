"""A frame counted by another class table than its agent was given becomes a finding, from signed frames alone."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from controller.collect.attempts import Look, LookFailed, Reason, attempt_entry
from controller.crosscheck.model import FindingKind, Period
from controller.errors import EvidenceError
from controller.journal import Journal, Kind, NewEntry
from controller.observations.tables import TableFindings
from protos.v1 import agent_pb2, frame_pb2

S = 1_000_000_000
AGENT = "node1-dpu0"
PERIOD = Period(10 * S, 30 * S)
FIRST, SECOND = (hashlib.sha256(body).digest() for body in (b"table 1", b"table 2"))


def given(number: int) -> NewEntry:
    body = agent_pb2.SignedClassTable(body=b"table %d" % number).SerializeToString()
    return NewEntry(Kind.CLASS_TABLE, AGENT, number * S, body, sequence=number)


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    with Journal.create(tmp_path / "journal.db", NewEntry(Kind.SITE, "demo", 1, b""), given(1), given(2)) as made:
        yield made


def heard(journal: Journal, *hashes: bytes, first_s: int = 12) -> TableFindings:
    found = TableFindings(journal, AGENT, "node1", PERIOD)
    for second, sha256 in enumerate(hashes, first_s):
        frame = frame_pb2.Frame(agent=AGENT, sequence=second, class_table_sha256=sha256)
        found.take(frame, second * S, second * S + S // 2)
    return found


def test_an_agent_that_counts_as_it_was_told_is_no_finding(journal: Journal) -> None:
    assert heard(journal, b"", b"", FIRST, FIRST, SECOND, SECOND).findings() == []


def test_a_table_that_nobody_gave_is_one_finding_as_long_as_it_lasts(journal: Journal) -> None:
    strange = b"\xab" * 32
    [one, again] = heard(journal, FIRST, strange, strange, FIRST, strange).findings()
    assert (one.kind, one.certain, one.node) == (FindingKind.OTHER_CLASS_TABLE, False, "node1")
    assert (one.from_ns, one.to_ns) == (13 * S, 14 * S + S // 2)
    assert "class table abababababababab, which it was never given; in 2 frames" in one.text
    assert (again.from_ns, again.to_ns) == (16 * S, 16 * S + S // 2)


@pytest.mark.parametrize(("back", "says"), [(FIRST, "class table 1, after table 2"), (b"", "no class table, after")])
def test_an_agent_never_goes_back(journal: Journal, back: bytes, says: str) -> None:
    [one] = heard(journal, SECOND, back, back, SECOND).findings()
    assert says in one.text
    assert "in 2 frames" in one.text


def test_what_came_before_the_period_counts_and_is_not_told(journal: Journal) -> None:
    [one] = heard(journal, SECOND, FIRST, FIRST, first_s=8).findings()
    assert (one.from_ns, one.to_ns) == (10 * S, 10 * S + S // 2), "only the frame in the period"
    assert heard(journal, SECOND, FIRST, first_s=31).findings() == []


def look(sequence: int | None, at_s: int, reason: Reason = Reason.OTHER_TABLE) -> NewEntry:
    evidence = None
    if sequence is not None:
        frame = frame_pb2.Frame(version=1, agent=AGENT, sequence=sequence, class_table_sha256=FIRST)
        evidence = frame_pb2.SignedFrame(body=frame.SerializeToString()).SerializeToString()
    failure = LookFailed(Look.CLASS_TABLE, reason, "it does not", evidence=evidence)
    return attempt_entry(failure, source=AGENT, first_sent_ns=at_s * S, gave_up_ns=at_s * S + 1)


def test_what_only_the_controller_saw_is_told_and_the_rest_not_twice(journal: Journal) -> None:
    journal.append(look(13, 13), look(99, 15), look(None, 16), look(None, 17, Reason.REFUSED), look(77, 31))
    [own, seen, without] = heard(journal, SECOND, FIRST, SECOND).findings()
    assert "class table 1, after table 2" in own.text
    assert "another class table than it said (1, in frame 99)" in seen.text
    assert "another class table than it said; in 1 frame." in without.text


def test_a_table_that_cannot_be_read_is_told_with_its_leaf(journal: Journal) -> None:
    journal.append(NewEntry(Kind.CLASS_TABLE, AGENT, 3 * S, b"\xff", sequence=3))
    with pytest.raises(EvidenceError, match="leaf 3 is not a class table"):
        TableFindings(journal, AGENT, "node1", PERIOD)
