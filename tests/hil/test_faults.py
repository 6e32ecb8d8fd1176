"""Whatever is killed, fails or is flipped: nothing promised is lost, and fsck names it. The bench runs many more."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from random import Random

import pytest

from controller import journal_file
from hil.bench import damage, faults


def test_killed_at_random_moments_nothing_promised_is_lost(tmp_path: Path) -> None:
    rng = Random(11)
    runs = [faults.killed(tmp_path / "killed", rng, ("append", "cosign", "write")) for _ in range(6)]
    assert [run.wrong for run in runs] == [()] * len(runs)
    assert runs[-1].promised > 100


@pytest.mark.parametrize(
    ("work", "call", "error", "when"),
    [
        ("cosign", "pwrite64", "EIO", "2"),  # SQLite says nothing when it cannot enter write-ahead mode
        ("cosign", "pwrite64", "ENOSPC", "8"),
        ("cosign", "write", "ENOSPC", "2+3"),
        ("cosign", "fdatasync", "EIO", "5"),
        ("cosign", "fsync", "EIO", "4+"),
        ("rotate", "fsync", "EIO", "5"),
        ("rotate", "rename", "EIO", "2+3"),
        ("write", "rename", "EIO", "1"),
        ("write", "link,linkat", "EIO", "2"),
        ("write", "unlink,unlinkat", "EIO", "5"),
    ],
)
def test_a_failing_system_call_costs_nothing_promised(
    tmp_path: Path, work: str, call: str, error: str, when: str
) -> None:
    run = faults.failing(tmp_path / "failing", work, call, error, when)
    assert run.wrong == ()


def test_a_failing_write_is_told(tmp_path: Path) -> None:
    assert faults.failing(tmp_path / "failing", "append", "fdatasync", "EIO", "4+").failures > 0


@pytest.mark.rig
@pytest.mark.parametrize("work", ["cosign", "write"])
def test_a_full_disk_costs_nothing_promised(tmp_path: Path, work: str) -> None:
    run = faults.full_disk(tmp_path / "full", work, 900_000)
    assert run.wrong == ()
    assert run.failures > 0


def test_fsck_names_a_flipped_bit_in_any_stored_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal_file, "BETWEEN_LOOKS_S", 0.0)
    damage.build(tmp_path)
    names = [path.name for path in damage.files(tmp_path)]
    assert names[:6] == ["journal.db", "journal.db-wal", "log.pem", "log.vkey", "report.pem", "report.pub"]
    assert re.fullmatch(r"retired-[0-9a-f]{8}\.vkey", names[6])
    assert names[7:] == ["verifier.pem", "verifier.pub"]
    found: Counter[tuple[str, damage.Outcome]] = Counter()
    missed = []
    for flip, outcome in damage.judge(tmp_path, damage.sample(tmp_path, Random(5), each=25)):
        found[Path(flip.file).name, outcome] += 1
        if outcome is damage.Outcome.MISSED:
            missed.append(flip)
    assert missed == []
    for name in names:
        assert found[name, damage.Outcome.NAMED] > 0


def test_the_last_transaction_of_a_killed_writer_is_the_ordinary_end_of_the_log(tmp_path: Path) -> None:
    damage.build(tmp_path)
    path = tmp_path / "whole" / "journal.db-wal"
    whole = path.read_bytes()
    for cut in (10, 500, 4096):
        # Cut off in the middle of its last frame: it was never finished, and nothing of it was acknowledged.
        path.write_bytes(whole[:-cut])
        assert list(journal_file._wal_faults(path)) == []
    path.write_bytes(whole[:-100] + b"x" + whole[-99:])
    (text,) = journal_file._wal_faults(path)
    assert "entries are missing that were on the disk" in text
