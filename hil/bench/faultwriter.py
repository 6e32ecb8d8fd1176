"""Works on a journal, a witness and a bundle, and says on stdout what it was promised: for runs that are made to fail.

``python -m hil.bench.faultwriter WORK FOLDER ROUNDS``. Lines: ``kept N``: the journal holds N entries at least, on the
disk; ``signed N``: so does a checkpoint; ``cosigned N``: the witness said so; ``written NAME``: the file is whole;
``failed TEXT``: it was said that something was not done. What fails is tried again in the next round.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

from controller.bundle import Extent, Head, write_bundle
from controller.cosigning import request_for, take
from controller.errors import WeighbridgeError
from controller.evidence.refusal import VerificationError
from controller.journal import Journal, Kind, NewEntry
from controller.journal_export import export
from controller.journal_log import publish
from controller.keychange import change_log_key
from controller.logkeys import make_site_keys
from controller.witness_store import Witness

GROUP = 7
SITE = "demo"


def body(leaf: int) -> bytes:
    """Return what entry ``leaf`` holds: any loss or mixture shows."""
    return b"<%d>" % leaf * (1 + leaf * 37 % 300)


def journal_of(folder: Path) -> Path:
    """Return where the journal lies."""
    return folder / "journal.db"


def _open(folder: Path) -> Journal:
    path = journal_of(folder)
    if not path.exists():
        Journal.create(path, NewEntry(Kind.SITE, SITE, 1, b"site")).close()
    return Journal.open(path)


def append(folder: Path, _round: int) -> None:
    """Append some entries; another process may do so, too."""
    with _open(folder) as journal:
        for _ in range(GROUP):
            # Where another process was faster, the body tells another leaf: so each process has a source of its own.
            start = len(journal)
            leaves = journal.append(
                *(NewEntry(Kind.POLL, f"writer-{os.getpid()}", n, body(start + n)) for n in range(GROUP))
            )
            _say(f"kept {1 + max(leaf for leaf in leaves if leaf is not None)}")


def sign(folder: Path, _round: int) -> None:
    """Append, sign a checkpoint, have it cosigned."""
    append(folder, _round)
    with _open(folder) as journal:
        size = publish(journal, make_site_keys(journal.path, SITE).log).checkpoint.size
        _say(f"signed {size}")


def cosign(folder: Path, _round: int) -> None:
    """Sign, and have it cosigned by a witness on the same disk."""
    sign(folder, _round)
    with _open(folder) as journal:
        witness = Witness.make(folder / "witness", "prover.example/witness")
        witness.trust(make_site_keys(journal.path, SITE).log.public)
        last = witness.last(f"weighbridge/{SITE}")
        old = 0 if last is None else int(last.text.split("\n")[1])
        asked, request = request_for(journal, witness.key.public, old)
        line = witness.add_checkpoint(request.encode())
        _say(f"cosigned {asked.checkpoint.size}")
        take(journal, witness.key.public, asked, 200, line)


def write(folder: Path, number: int) -> None:
    """Write a bundle over the one before, and a copy of the journal."""
    append(folder, number)
    head = Head(Extent.SUMMARY, b"e" * 1000, b"%d" % number * 5000, b"c", b"l", (), ())
    write_bundle(folder / "bundle", head, ())
    _say("written bundle")
    with _open(folder) as journal:
        export(journal, folder / f"copy-{number}.db")
    _say(f"written copy-{number}.db")


def rotate(folder: Path, number: int) -> None:
    """Change the log's key, then sign with it."""
    append(folder, number)
    with _open(folder) as journal:
        change_log_key(journal, SITE, now_ns=number)
    sign(folder, number)


WORKS: dict[str, Callable[[Path, int], None]] = {
    "append": append,
    "sign": sign,
    "cosign": cosign,
    "write": write,
    "rotate": rotate,
}


def main(arguments: list[str]) -> int:
    """Do the rounds; what fails is said and tried again."""
    work, folder, rounds = WORKS[arguments[0]], Path(arguments[1]), int(arguments[2])
    for number in range(rounds):
        _try(work, folder, number)
    return 0


def _try(work: Callable[[Path, int], None], folder: Path, number: int) -> None:
    try:
        work(folder, number)
    except (WeighbridgeError, VerificationError) as error:
        _say(f"failed {' '.join(str(error).split())}")


def _say(text: str) -> None:
    # Not write(2): that may be what is made to fail.
    os.writev(1, [f"{text}\n".encode()])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
