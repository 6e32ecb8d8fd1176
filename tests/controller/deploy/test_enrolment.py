from __future__ import annotations

import itertools
import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from controller.collect.attempts import Attempt
from controller.deploy.enrolment import Enrolment, enrol, enrolled
from controller.errors import EvidenceError
from controller.framenumbers import GAP
from controller.journal import Journal, Kind, NewEntry

CLOCK = itertools.count(1_000)


def now_ns() -> int:
    return next(CLOCK)


def new_key() -> bytes:
    return Ed25519PrivateKey.generate().public_key().public_bytes_raw()


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    with Journal.create(tmp_path / "journal.db") as opened:
        yield opened


@pytest.fixture
def shown() -> Enrolment:
    return Enrolment("a", new_key(), "ab" * 32, "0.1.0")


def bodies(journal: Journal) -> list[dict[str, str]]:
    return [json.loads(entry.body) for entry in journal.entries(kinds=[Kind.ENROLMENT])]


def test_the_first_key_is_pinned_once(journal: Journal, shown: Enrolment) -> None:
    assert enrolled(journal, "a") is None
    assert enrol(journal, now_ns, shown, replace_key=False) is True
    assert enrolled(journal, "a") == shown
    assert enrol(journal, now_ns, shown, replace_key=False) is False
    assert bodies(journal) == [
        {"agent": "a", "public_key": shown.public_key.hex(), "bundle_sha256": "ab" * 32, "agent_version": "0.1.0"}
    ]
    assert enrolled(journal, "b") is None


def test_a_new_release_with_the_same_key_is_recorded(journal: Journal, shown: Enrolment) -> None:
    enrol(journal, now_ns, shown, replace_key=False)
    later = replace(shown, bundle_sha256="cd" * 32)
    assert enrol(journal, now_ns, later, replace_key=False) is True
    assert enrolled(journal, "a") == later
    assert [e.sequence for e in journal.entries(kinds=[Kind.ENROLMENT])] == [1, 2]
    assert [dict(e.meta) for e in journal.entries(kinds=[Kind.ENROLMENT])] == [{}, {}]


def test_another_key_is_refused_and_the_attempt_kept(journal: Journal, shown: Enrolment) -> None:
    enrol(journal, now_ns, shown, replace_key=False)
    other = replace(shown, public_key=new_key())
    with pytest.raises(EvidenceError, match="--replace-key"):
        enrol(journal, now_ns, other, replace_key=False)
    assert enrolled(journal, "a") == shown
    entry = journal.last(Kind.ATTEMPT, "a")
    assert entry is not None
    attempt = Attempt.of(entry)
    assert (attempt.source, attempt.look, attempt.reason) == ("a", "connect", "other-key")
    assert attempt.first_sent_ns < attempt.gave_up_ns
    assert enrol(journal, now_ns, other, replace_key=True) is True
    assert enrolled(journal, "a") == other
    last = journal.last(Kind.ENROLMENT, "a")
    assert last is not None
    assert last.meta == {"replaces": shown.public_key.hex(), "numbers_from": str(GAP)}


def test_replace_key_replaces_nothing_where_there_is_nothing_to_replace(journal: Journal, shown: Enrolment) -> None:
    assert enrol(journal, now_ns, shown, replace_key=True) is True
    last = journal.last(Kind.ENROLMENT, "a")
    assert last is not None
    assert last.meta == {}


@pytest.mark.parametrize("key", [b"", b"\x01" + bytes(31), bytes(32), b"\xff" * 32, bytes(31), bytes(33)])
def test_keys_that_would_verify_anything_or_nothing_are_not_enrolled(journal: Journal, key: bytes) -> None:
    with pytest.raises(EvidenceError, match="cannot be used"):
        enrol(journal, now_ns, Enrolment("a", key, "", "0"), replace_key=True)
    assert len(journal) == 0


def test_of_fifty_at_once_one_key_is_pinned_and_every_other_refused(journal: Journal) -> None:
    shown = [Enrolment("a", new_key(), "", "0") for _ in range(50)]
    start = threading.Barrier(50)

    def one(enrolment: Enrolment) -> bool:
        start.wait(20)
        try:
            return enrol(journal, now_ns, enrolment, replace_key=False)
        except EvidenceError:
            return False

    with ThreadPoolExecutor(50) as pool:
        came_through = list(pool.map(one, shown))
    assert came_through.count(True) == 1
    pinned = enrolled(journal, "a")
    assert pinned == shown[came_through.index(True)]
    assert len(bodies(journal)) == 1
    assert len(list(journal.entries(kinds=[Kind.ATTEMPT]))) == 49


def test_an_enrolment_that_cannot_be_read_is_evidence_of_damage(journal: Journal) -> None:
    journal.append(NewEntry(Kind.ENROLMENT, "a", 1, b'{"agent": "a"}', {}, 1))
    with pytest.raises(EvidenceError, match="leaf 0 is not an enrolment"):
        enrolled(journal, "a")
