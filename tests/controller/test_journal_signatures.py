"""What was given is signed by whoever could give it. Each signature wrong alone: tests/hil/test_mutations.py."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from controller.agreement.envelope import Party
from controller.journal import Journal, Kind
from controller.journal_fsck import fsck
from hil.bench.forge_agreed import PARTY_KEYS, agreed

STRANGER = Ed25519PrivateKey.from_private_bytes(b"\x09" * 32)
VERIFIER = PARTY_KEYS[Party.VERIFIER].public_key().public_bytes_raw()


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    with Journal.create(tmp_path / "j.db") as journal:
        yield journal


def test_all_is_checked_by_the_agreement_in_force(journal: Journal) -> None:
    journal.append(*agreed("demo", "dpu0", 1))
    found = fsck(journal)
    assert (found.faults, found.unchecked) == ((), ())


def test_without_an_agreement_the_reader_brings_the_verifiers_key(journal: Journal) -> None:
    (table,) = (entry for entry in agreed("demo", "dpu0", 1) if entry.kind is Kind.CLASS_TABLE)
    journal.append(table)
    assert fsck(journal).unchecked == (
        "the signatures of 1 leases and class tables: there is no key of the verifier to check them by",
    )
    found = fsck(journal, verifier=[VERIFIER])
    assert (found.faults, found.unchecked) == ((), ())
    (fault,) = fsck(journal, verifier=[STRANGER.public_key().public_bytes_raw()]).faults
    assert "the class-table of dpu0 in leaf 0 is not signed as it must be" in fault.text


def test_a_verifier_may_sign_leases_with_another_key_that_the_reader_knows(journal: Journal) -> None:
    journal.append(*agreed("demo", "dpu0", 1, lease=STRANGER))
    assert len(fsck(journal).faults) == 1
    assert fsck(journal, verifier=[STRANGER.public_key().public_bytes_raw()]).faults == ()
