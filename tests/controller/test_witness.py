"""A witness cosigns what continues what it saw; whatever it is shown and however it is killed, never two histories."""

from __future__ import annotations

import base64
import contextlib
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given
from hypothesis import strategies as st

from controller import witness_store
from controller.errors import EvidenceError, OperatorError
from controller.evidence import checkpoint as checkpoints
from controller.evidence import note as notes
from controller.evidence.checkpoint import Checkpoint, check_cosignature
from controller.evidence.note import KeyKind, Note, NoteKey
from controller.evidence.tree import check_consistency, leaf_hash
from controller.treeproof import prove_consistency, subtree_of
from controller.witness import MAX_REQUEST_BYTES, RefusalError, Request, decode
from controller.witness_store import MAX_REFUSED, Witness

LOG_NAME = "weighbridge/demo"
NAME = "prover.example/witness"
LOG_KEY = Ed25519PrivateKey.from_private_bytes(b"\x01" * 32)
NEW_KEY = Ed25519PrivateKey.from_private_bytes(b"\x05" * 32)


def log_key(key: Ed25519PrivateKey = LOG_KEY, name: str = LOG_NAME) -> NoteKey:
    return NoteKey(name, KeyKind.LOG, key.public_key().public_bytes_raw())


class Log:
    """A log in memory, which may also lie: its ``story`` is part of every leaf from ``fork`` on."""

    def __init__(self, story: str = "true", fork: int = 0, key: Ed25519PrivateKey = LOG_KEY) -> None:
        self._story, self._fork, self.key = story, fork, key

    def hashes(self, size: int) -> list[bytes]:
        return [leaf_hash(f"{n}{self._story if n >= self._fork else ''}".encode()) for n in range(size)]

    def note(self, size: int) -> Note:
        root = subtree_of(self.hashes(size))(0, size)
        return checkpoints.sign(Checkpoint(LOG_NAME, size, root), self.key)

    def request(self, old: int, size: int) -> bytes:
        subtree = subtree_of(self.hashes(max(old, size)))
        path = prove_consistency(old, size, subtree) if 0 < old < size else []
        return Request(old, tuple(path), self.note(size)).encode()


class Clock:
    now_s = 1_796_072_400

    def __call__(self) -> int:
        return self.now_s


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def witness(tmp_path: Path, clock: Clock) -> Witness:
    made = Witness.make(tmp_path / "w", NAME)
    assert made.trust(log_key())
    return Witness(tmp_path / "w", now_s=clock)


def cosigned(witness: Witness, raw: bytes) -> tuple[Checkpoint, int]:
    """Ask, and check the answer as the log does."""
    line = witness.add_checkpoint(raw).decode()
    request = decode(raw)
    time_s = check_cosignature(Note(request.note.text, notes.decode_signatures(line)), witness.key.public)
    assert time_s is not None
    return checkpoints.decode(request.note.text), time_s


def refusal(witness: Witness, raw: bytes) -> RefusalError:
    with pytest.raises(RefusalError) as caught:
        witness.add_checkpoint(raw)
    return caught.value


def size_of(witness: Witness) -> int:
    note = witness.last(LOG_NAME)
    return 0 if note is None else checkpoints.decode(note.text).size


def test_a_log_that_grows_is_cosigned(witness: Witness, clock: Clock) -> None:
    log, old = Log(), 0
    for size in (0, 0, 1, 1, 2, 7, 8, 300):
        clock.now_s += 60
        checkpoint, time_s = cosigned(witness, log.request(old, size))
        assert (checkpoint.size, time_s) == (size, clock.now_s)
        old = size
    assert size_of(Witness(witness.folder)) == 300


def test_the_last_checkpoint_is_kept_with_the_logs_own_signature_alone(witness: Witness) -> None:
    stranger = notes.Signature("someone.example", b"abcd", b"x" * 64)
    note = Log().note(3)
    cosigned(witness, Request(0, (), Note(note.text, (stranger, *note.signatures))).encode())
    kept = witness.last(LOG_NAME)
    assert kept is not None
    assert [each.name for each in kept.signatures] == [LOG_NAME, NAME]


def test_a_forking_log_gets_no_second_history(witness: Witness) -> None:
    true, lie = Log(), Log("a better story", fork=4)
    cosigned(witness, true.request(0, 6))
    assert refusal(witness, lie.request(6, 9)).status == 422
    assert refusal(witness, lie.request(6, 6)).status == 409
    assert "two histories" in str(refusal(witness, lie.request(6, 6)))
    # Also not by way of a smaller tree that both share, or of a beginning anew.
    for old in (0, 4):
        assert (refusal(witness, lie.request(old, 9)).status, refusal(witness, lie.request(old, 9)).size) == (409, 6)
    assert size_of(witness) == 6
    cosigned(witness, true.request(6, 9))
    # What the log signed and was refused proves what it did: two roots of one size, both signed.
    assert witness.refused(LOG_NAME) == 2


def test_refused_requests_cannot_fill_the_disk(witness: Witness) -> None:
    cosigned(witness, Log().request(0, 3))
    for n in range(MAX_REFUSED + 5):
        refusal(witness, Log(f"story {n}").request(3, 5))
    assert witness.refused(LOG_NAME) == MAX_REFUSED


def bent(raw: bytes, old: bytes, new: bytes) -> bytes:
    assert old in raw
    return raw.replace(old, new, 1)


@pytest.mark.parametrize(
    ("name", "status", "make"),
    [
        ("nothing", 400, lambda _: b""),
        ("junk", 400, lambda _: b"\xff" * 100),
        ("too long", 400, lambda _: b"x" * (MAX_REQUEST_BYTES + 1)),
        ("no old size", 400, lambda log: bent(log.request(3, 5), b"old 3\n", b"")),
        ("a leading zero", 400, lambda log: bent(log.request(3, 5), b"old 3", b"old 03")),
        ("64 hashes", 400, lambda log: bent(log.request(3, 5), b"old 3\n", b"old 3\n" + 64 * (b"A" * 43 + b"=\n"))),
        ("no checkpoint", 400, lambda log: log.request(3, 5).partition(b"\n\n")[0] + b"\n\n"),
        (
            "another log",
            404,
            lambda log: bent(log.request(3, 5), b"\n\nweighbridge/demo\n", b"\n\nweighbridge/other\n"),
        ),
        ("another key", 403, lambda _: Log(key=NEW_KEY).request(3, 5)),
        ("one bit of the text", 403, lambda log: bent(log.request(3, 5), b"demo\n5\n", b"demo\n7\n")),
        ("an old size that is too large", 400, lambda log: log.request(5, 3)),
        ("an old size that is none of ours", 409, lambda log: log.request(2, 5)),
        ("a proof too short", 422, lambda log: Request(3, (), log.note(5)).encode()),
        ("a proof too long", 422, lambda log: Request(3, (bytes(32),) * 9, log.note(5)).encode()),
        ("a hash that is none", 422, lambda log: Request(3, (b"x",), log.note(5)).encode()),
    ],
)
def test_what_is_refused(witness: Witness, name: str, status: int, make: Callable[[Log], bytes]) -> None:
    cosigned(witness, Log().request(0, 3))
    assert refusal(witness, make(Log())).status == status, name
    assert size_of(witness) == 3


def test_a_first_checkpoint_has_no_proof(witness: Witness) -> None:
    assert refusal(witness, Request(0, (bytes(32),), Log().note(3)).encode()).status == 422
    assert witness.last(LOG_NAME) is None


@given(raw=st.binary(max_size=400) | st.binary(max_size=200).map(lambda rest: b"old 3\n\n" + rest))
def test_only_a_refusal_leaves_the_parser(raw: bytes) -> None:
    with contextlib.suppress(RefusalError):
        decode(raw)


def test_a_log_may_change_its_key_but_not_its_history(witness: Witness) -> None:
    cosigned(witness, Log().request(0, 3))
    assert witness.trust(log_key(NEW_KEY))
    assert not witness.trust(log_key(NEW_KEY))
    assert refusal(witness, Log("other", key=NEW_KEY).request(3, 5)).status == 422
    cosigned(witness, Log(key=NEW_KEY).request(3, 5))
    assert witness.logs() == [LOG_NAME]


def test_a_clock_that_went_back_is_waited_for(witness: Witness, clock: Clock) -> None:
    cosigned(witness, Log().request(0, 3))
    clock.now_s -= 1
    assert refusal(witness, Log().request(3, 5)).status == 503
    clock.now_s += 1
    cosigned(witness, Log().request(3, 5))


def test_a_witness_that_forgot_does_not_go_on(witness: Witness) -> None:
    cosigned(witness, Log().request(0, 3))
    (path,) = witness.folder.glob("logs/*/checkpoint")
    raw = path.read_bytes()
    for n in range(len(raw)):
        path.write_bytes(raw[:n] + bytes([raw[n] ^ 1]) + raw[n + 1 :])
        with pytest.raises(EvidenceError, match="must not go on"):
            witness.add_checkpoint(Log().request(3, 5))
    for spoil in (lambda: path.write_bytes(b""), lambda: path.write_bytes(Log().note(2).encode()), path.unlink):
        spoil()
        with pytest.raises(EvidenceError, match="must not go on"):
            witness.add_checkpoint(Log().request(0, 5))
    path.write_bytes(raw)
    cosigned(witness, Log().request(3, 5))


def test_a_witness_is_made_once(tmp_path: Path) -> None:
    with pytest.raises(OperatorError, match="no witness here"):
        Witness(tmp_path / "none")
    first = Witness.make(tmp_path / "w", NAME)
    assert Witness.make(tmp_path / "w", NAME).key.public == first.key.public
    with pytest.raises(OperatorError, match="is the witness prover"):
        Witness.make(tmp_path / "w", "another.example")
    with pytest.raises(OperatorError, match="cannot be the name"):
        Witness.make(tmp_path / "x", "has a space")
    with pytest.raises(OperatorError, match="not the key of a log"):
        first.trust(first.key.public)
    assert (tmp_path / "w" / "witness.pem").stat().st_mode & 0o777 == 0o600


def test_nothing_is_cosigned_that_is_not_on_the_disk(witness: Witness, monkeypatch: pytest.MonkeyPatch) -> None:
    cosigned(witness, Log().request(0, 3))

    def fails(*_: object) -> None:
        raise OSError(28, "No space left on device")

    for name in ("os.fsync", "os.open", "pathlib.Path.replace", "controller.witness_store.fsync_folder"):
        with monkeypatch.context() as patch:
            patch.setattr(name, fails)
            with pytest.raises(OperatorError, match="No space left"):
                witness.add_checkpoint(Log().request(3, 5) if size_of_raw(witness) == 3 else Log().request(5, 5))
    assert size_of(witness) in (3, 5)


def size_of_raw(witness: Witness) -> int:
    (path,) = witness.folder.glob("logs/*/checkpoint")
    return checkpoints.decode(notes.decode(path.read_bytes()).text).size


def attempt(witness: Witness, raw: bytes) -> int | None:
    """Ask; return the size that the witness cosigned last if it is another one than was thought."""
    try:
        witness.add_checkpoint(raw)
    except RefusalError as error:
        return error.size
    return None


def test_of_requests_at_once_none_is_rolled_back(witness: Witness, monkeypatch: pytest.MonkeyPatch) -> None:
    cosigned(witness, Log().request(0, 3))
    written: list[int] = []
    replace = witness_store._replace

    def watched(path: Path, content: bytes) -> None:
        replace(path, content)
        written.append(checkpoints.decode(notes.decode(content).text).size)

    monkeypatch.setattr(witness_store, "_replace", watched)

    def ask(size: int) -> None:
        old: int | None = 3
        mine = Witness(witness.folder, now_s=lambda: Clock.now_s)
        while old is not None and old <= size:
            old = attempt(mine, Log().request(old, size))

    threads = [threading.Thread(target=ask, args=(size,)) for size in range(4, 44)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert written == sorted(set(written))
    assert size_of(witness) == 43


CHILD = """
import sys
from pathlib import Path
sys.path.insert(0, {tests!r})
from test_witness import Log
from controller.witness import RefusalError
from controller.witness_store import Witness
witness = Witness(Path(sys.argv[1]))
log, size = Log(), int(sys.argv[2])
while True:
    old, size = size, size + 1
    print(size, witness.add_checkpoint(log.request(old, size)).decode(), end="", flush=True)
"""


def test_killed_at_random_moments_a_witness_keeps_its_word(tmp_path: Path) -> None:
    witness = Witness.make(tmp_path / "w", NAME)
    witness.trust(log_key())
    rng, promised, size = random.Random(5), 0, 0
    code = CHILD.format(tests=str(Path(__file__).parent))
    for _ in range(8):
        command = [sys.executable, "-c", code, str(witness.folder), str(size)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            lines = [process.stdout.readline()]
            time.sleep(rng.random() * 0.05)
            os.kill(process.pid, signal.SIGKILL)
            lines += process.stdout.read().splitlines(keepends=True)
        promised = max([promised, *(int(line.split(" ", 1)[0]) for line in lines if line.endswith("=\n"))])
        size = size_of(Witness(witness.folder))
        # It may have kept one more than it could still say.
        assert promised <= size <= promised + 1
        root = subtree_of(Log().hashes(size))(0, size)
        note = witness.last(LOG_NAME)
        assert note is not None
        assert checkpoints.decode(note.text).root == root
        refused = refusal(Witness(witness.folder), Log("another", fork=1).request(size, size + 2))
        assert refused.status == 422
    assert promised > 8


def test_proofs_between_what_a_witness_saw_hold(witness: Witness) -> None:
    log = Log()
    cosigned(witness, log.request(0, 5))
    first = checkpoints.decode(log.note(5).text)
    second, _ = cosigned(witness, log.request(5, 11))
    path = decode(log.request(5, 11)).path
    check_consistency(5, 11, path, first.root, second.root)
    assert all(len(base64.b64encode(each)) == 44 for each in path)
