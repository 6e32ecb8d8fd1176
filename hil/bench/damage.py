"""Flips bits in everything that a journal keeps on the disk, and asks whether fsck names it.

A flip is *named* if fsck finds a fault or the journal cannot be opened, *without effect* if everything that was
recorded reads as before (a page's unused space, a counter of SQLite's own), and *missed* otherwise: that must never be.
"""

from __future__ import annotations

import enum
import json
import os
import shutil
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from controller.errors import InternalError, WeighbridgeError
from controller.evidence.checkpoint import cosign
from controller.evidence.note import KeyKind, NoteKey
from controller.journal import Journal, Kind, NewEntry
from controller.journal_fsck import fsck
from controller.journal_log import keep_cosignature, publish
from controller.journal_prune import KEPT_BEFORE_NS, carry_out
from controller.keychange import change_log_key
from controller.logkeys import key_faults, keys_folder, load_log_public, load_site_keys, make_site_keys
from controller.verifierkey import verifier_key
from protos.signing import SigningDomain, sign
from protos.v1 import frame_pb2
from protos.wire import FRAME_VERSION

_TABLES = ("entry", "checkpoint", "cosignature", "tile", "witness", "prune")
_NAME = "journal.db"


class Outcome(enum.Enum):
    """What became of a flipped bit."""

    NAMED = "named"
    WITHOUT_EFFECT = "without effect"
    MISSED = "missed"


@dataclass(frozen=True, slots=True)
class Flip:
    """One bit of one file."""

    file: str
    byte: int
    bit: int


def build(folder: Path) -> None:
    """Make a small journal with one of everything in ``folder``, half of it in the write-ahead log."""
    path, key = folder / "made" / _NAME, Ed25519PrivateKey.from_private_bytes(b"\x07" * 32)
    path.parent.mkdir(parents=True)
    enrolment = {"agent": "dpu0", "public_key": key.public_key().public_bytes_raw().hex(), "bundle_sha256": ""}
    first = [
        NewEntry(Kind.SITE, "demo", 1, b"site"),
        NewEntry(Kind.ENROLMENT, "dpu0", 2, json.dumps(enrolment).encode()),
    ]
    first += [NewEntry(Kind.SCRAPE, "node1", number, b"scrape %d" % number * 3) for number in range(3, 10)]
    with Journal.create(path, *first) as journal:
        keys = make_site_keys(path, "demo")
        verifier_key(path)
        _witnessed(journal, publish(journal, keys.log).checkpoint.size)
        body = frame_pb2.Frame(version=FRAME_VERSION, agent="dpu0", sequence=1).SerializeToString()
        frame = frame_pb2.SignedFrame(body=body, signature=sign(key, SigningDomain.FRAME, body)).SerializeToString()
        decision = {"before_ns": str(7 + KEPT_BEFORE_NS), "stop": "5"}
        journal.append(
            NewEntry(Kind.FRAME, "dpu0", 20, frame, {"received_ns": "20"}, 1),
            *(NewEntry(Kind.POLL, "sw1", number, b"poll %d" % number * 3, {"n": number}) for number in range(21, 280)),
            NewEntry(Kind.PRUNE, "demo", 300, json.dumps(decision).encode()),
        )
        journal.rows("PRAGMA wal_checkpoint(TRUNCATE)")
        carry_out(journal)
        change_log_key(journal, "demo", now_ns=350)
        keys = make_site_keys(path, "demo")
        journal.append(NewEntry(Kind.RUN_STOP, "controller", 400, b"{}"))
        _witnessed(journal, publish(journal, keys.log).checkpoint.size)
        # As a killed process leaves it: with its log beside it.
        shutil.copytree(path.parent, folder / "whole")
    for name in ("-shm",):
        (folder / "whole" / f"{_NAME}{name}").unlink()


def _witnessed(journal: Journal, size: int) -> None:
    from controller.journal_log import stored  # noqa: PLC0415

    key = Ed25519PrivateKey.from_private_bytes(b"\x02" * 32)
    witness = NoteKey("prover.example/witness", KeyKind.WITNESS, key.public_key().public_bytes_raw())
    line = cosign(stored(journal, size).note, witness.name, key, 1_796_072_400).encode()
    keep_cosignature(journal, size, line, witness)


def files(folder: Path) -> list[Path]:
    """Return the stored files of the journal that :func:`build` made, relative to where they lie."""
    whole = folder / "whole"
    return sorted(path.relative_to(whole) for path in whole.rglob("*") if path.is_file())


def all_over(folder: Path, rng: Random, *, step: int) -> Iterator[Flip]:
    """Yield one random bit in every ``step`` bytes of the database, in every byte of the other files."""
    for file in files(folder):
        stride = step if file.name.startswith(_NAME) else 1
        for begin in range(0, (folder / "whole" / file).stat().st_size - stride + 1, stride):
            yield Flip(str(file), begin + rng.randrange(stride), rng.randrange(8))


def sample(folder: Path, rng: Random, each: int) -> Iterator[Flip]:
    """Yield ``each`` random bits of every file."""
    for file in files(folder):
        size = (folder / "whole" / file).stat().st_size
        for _ in range(each):
            yield Flip(str(file), rng.randrange(size), rng.randrange(8))


def judge(folder: Path, flips: Iterable[Flip]) -> Iterator[tuple[Flip, Outcome]]:
    """Yield what became of each of ``flips``, one at a time in a fresh copy."""
    whole, copy = folder / "whole", folder / f"copy-{os.getpid()}"
    before = _contents(_fresh(whole, copy))
    for flip in flips:
        path = _fresh(whole, copy)
        target = copy / flip.file
        raw = bytearray(target.read_bytes())
        raw[flip.byte] ^= 1 << flip.bit
        target.write_bytes(raw)
        if _named(path):
            yield flip, Outcome.NAMED
        else:
            yield flip, Outcome.WITHOUT_EFFECT if _reads_as(path, before) else Outcome.MISSED


def _fresh(whole: Path, copy: Path) -> Path:
    if copy.exists():
        shutil.rmtree(copy)
    shutil.copytree(whole, copy)
    return copy / _NAME


def _named(path: Path) -> bool:
    try:
        if key_faults(path, signed=True)[0]:
            return True
        with Journal.open(path, read_only=True) as journal:
            return bool(fsck(journal, load_log_public(path)).faults)
    except InternalError:
        return False  # a fault of our own is no finding
    except WeighbridgeError:
        return True


def _reads_as(path: Path, before: list[object]) -> bool:
    try:
        return _contents(path) == before
    except WeighbridgeError:
        return False


def _contents(path: Path) -> list[object]:
    with Journal.open(path, read_only=True) as journal:
        found: list[object] = [sorted(journal.rows(f"SELECT * FROM {table}"), key=str) for table in _TABLES]  # noqa: S608
    keys = load_site_keys(path)
    folder = keys_folder(path)
    found.append(None if keys is None else (keys.log.public, keys.report_public, sorted(folder.iterdir()) != []))
    return found
