"""Figures of evidence: frames verified, proofs of a log of ten million leaves, bundles of a link-day."""

from __future__ import annotations

import hashlib
import io
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from controller.bundle_steps import StepError, verify
from controller.evidence.note import KeyKind, NoteKey
from controller.evidence.policy import Policy
from controller.evidence.tree import check_consistency, check_inclusion, node_hash
from controller.journal import Journal
from controller.journal_survey import summary
from controller.treeproof import prove_consistency, prove_inclusion
from hil import phases, rigfile
from hil.bench.figure import Figure, Goal
from hil.operation import Operation
from hil.phases import Generator
from hil.rig import Rig
from protos.signing import SigningDomain, load_public_key, sign
from protos.signing import verify as verify_signature

LEAVES = 10_000_000
JUNK_BYTES = 10_000_000
_FRAME_BYTES = 1000
_GROWTH_S = 40
_DAY_NS = 86_400 * 10**9
_RIG_FOLDER = Path("build/bench/evidence")
_ROUNDS = 2000


def figures() -> Iterator[Figure]:
    """Yield every figure of this area."""
    yield from _frames()
    yield from _proofs()
    yield from _junk()
    yield from _growth()


def _per_second(work: Callable[[], object], rounds: int) -> float:
    # Processor time: the figure is per core, whatever else the machine does.
    begin = time.process_time()
    for _ in range(rounds):
        work()
    return rounds / (time.process_time() - begin)


def _frames() -> Iterator[Figure]:
    private = Ed25519PrivateKey.from_private_bytes(b"\x07" * 32)
    public = load_public_key(private.public_key().public_bytes_raw())
    body = bytes(_FRAME_BYTES)
    signature = sign(private, SigningDomain.FRAME, body)
    rate = _per_second(lambda: verify_signature(public, SigningDomain.FRAME, body, signature), _ROUNDS)
    yield Figure("evidence.frames_verified_per_core", round(rate), "1/s", 2000, Goal.AT_LEAST, "signature of 1 kB")


def _proofs() -> Iterator[Figure]:
    # A log whose leaves are all equal has one hash a level: a tree of ten million without ten million hashes.
    leaf = hashlib.sha256(b"\x00a leaf").digest()
    full: dict[int, bytes] = {1: leaf}

    def subtree(start: int, stop: int) -> bytes:
        count = stop - start
        if count & (count - 1) == 0:
            if count not in full:
                half = subtree(0, count // 2)
                full[count] = node_hash(half, half)
            return full[count]
        middle = 1 << (count - 1).bit_length() - 1
        return node_hash(subtree(0, middle), subtree(0, count - middle))

    root, index, earlier = subtree(0, LEAVES), LEAVES // 3, LEAVES * 2 // 3
    path = prove_inclusion(index, LEAVES, subtree)
    history = prove_consistency(earlier, LEAVES, subtree)
    old_root = subtree(0, earlier)
    inclusion = 1e6 / _per_second(lambda: check_inclusion(index, LEAVES, leaf, path, root), _ROUNDS)
    consistency = 1e6 / _per_second(lambda: check_consistency(earlier, LEAVES, history, old_root, root), _ROUNDS)
    yield Figure("evidence.inclusion_proof.bytes", 32 * len(path), "B", 1024, note="ten million leaves")
    yield Figure("evidence.inclusion_proof.verify", round(inclusion, 1), "us", 1000, note="ten million leaves")
    yield Figure("evidence.consistency_proof.bytes", 32 * len(history), "B", 2048, note="ten million leaves")
    yield Figure("evidence.consistency_proof.verify", round(consistency, 1), "us", 1000, note="ten million leaves")


def _growth() -> Iterator[Figure]:
    """What a day of a link adds to the journal, by kind, from a stretch of steady traffic on a real rig."""
    with Rig.up(rigfile.load(rigfile.find("pair")), _RIG_FOLDER / "rig", name="benchgrow", progress=_say) as rig:
        operation = Operation(rig, _RIG_FOLDER / "logs")
        operation.prepare()
        try:
            operation.start()
            with phases.running(rig, _traffic(rig)):
                time.sleep(2)
                before, begin_ns = _bodies(operation.journal), operation.now_ns()
                time.sleep(_GROWTH_S)
                after, end_ns = _bodies(operation.journal), operation.now_ns()
            operation.stop()
        finally:
            operation.kill()
        links, entries_bytes = len(rig.file.nodes()), _entry_bytes(operation.journal)
    days = (end_ns - begin_ns) / _DAY_NS * links
    entries = 0
    for kind, (count, size) in after.items():
        more, bytes_more = (now - then for now, then in zip((count, size), before.get(kind, (0, 0)), strict=True))
        entries += more
        if more > 1:
            note = f"{round(bytes_more / more)} B in each, {more} in {_GROWTH_S} s of traffic"
            yield Figure(f"evidence.journal_growth.{kind}", round(bytes_more / days / 1e6, 1), "MB/link-day", note=note)
    rows = entries * entries_bytes / days / 1e6
    yield Figure("evidence.journal_growth.rows", round(rows, 1), "MB/link-day", note=f"{entries_bytes} B beside a body")
    sizes = [sum(each[key] for each in after.values()) - sum(each[key] for each in before.values()) for key in (0, 1)]
    leaf = 260
    full = (sizes[1] + sizes[0] * leaf) / days / 1e6
    yield Figure(
        "evidence.bundle_full.growth", round(full, 1), "MB/link-day", note=f"bodies, and leaves of some {leaf} B"
    )


def _traffic(rig: Rig) -> list[Generator]:
    """Return half a megabyte a second from the first node to the second: every millisecond bucket has something."""
    sender, receiver = rig.file.nodes()[:2]
    where = f"{rig.plan.machines[receiver].data_address}:9000"
    volume = f"{500 * (_GROWTH_S + 8)}kB"
    return [
        Generator(receiver, "transfer", ("receive", "--listen", where), waited_for=False),
        Generator(sender, "transfer", ("send", "--target", where, "--bytes", volume, "--rate", "500kB/s")),
    ]


def _bodies(journal_file: Path) -> dict[str, tuple[int, int]]:
    with Journal.open(journal_file, read_only=True) as journal:
        found: dict[str, tuple[int, int]] = {}
        for row in summary(journal):
            count, size = found.get(row.kind, (0, 0))
            found[row.kind] = count + row.entries, size + row.body_bytes
    return found


def _entry_bytes(journal_file: Path) -> int:
    """What an entry takes in the file beside its body: row, digests and its place in the indexes."""
    with Journal.open(journal_file, read_only=True) as journal:
        size = journal_file.stat().st_size - sum(row.body_bytes for row in summary(journal))
        return size // len(journal)


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _junk() -> Iterator[Figure]:
    public = Ed25519PrivateKey.from_private_bytes(b"\x07" * 32).public_key().public_bytes_raw()
    policy = Policy(NoteKey("log", KeyKind.LOG, public), (public,), 1, (), 0, None)
    slowest = 0.0
    for start in (b"", b"weighbridge bundle v1 full\n", b"weighbridge bundle v1 full\nenvelope 2000000\n"):
        raw = start + b'{"a":[' + b"[" * JUNK_BYTES
        begin = time.process_time()
        try:
            verify(io.BytesIO(raw), policy, lambda _step, _text: None)
        except StepError:
            slowest = max(slowest, time.process_time() - begin)
    yield Figure("evidence.junk_refused.most", round(slowest * 1000, 1), "ms", 1000, note="10 MB in a bundle's place")
