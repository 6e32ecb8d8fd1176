"""Figures of evidence: frames verified, proofs of ten million leaves, junk, mutations, bundles of a link-day."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from controller.bundle import Extent, read_head
from controller.bundle_entries import read_entries
from controller.bundle_make import issue, write
from controller.bundle_steps import verify
from controller.crosscheck.model import Period
from controller.errors import InternalError
from controller.evidence.policy import Policy
from controller.evidence.tree import check_consistency, check_inclusion, node_hash
from controller.journal import Journal, Kind, NewEntry
from controller.journal_fsck import fsck
from controller.journal_survey import summary
from controller.judgement import json_text, judge_period
from controller.logkeys import make_site_keys
from controller.treeproof import prove_consistency, prove_inclusion
from hil import phases, rigfile
from hil.bench.figure import Figure, Goal
from hil.bench.matrix import PATHS, matrix
from hil.bench.mutations import MUTATIONS
from hil.operation import Operation
from hil.phases import Generator
from hil.rig import Rig
from protos.signing import SigningDomain, load_public_key, sign
from protos.signing import verify as verify_signature
from protos.v1 import frame_pb2
from protos.wire import FRAME_VERSION

LEAVES = 10_000_000
_FRAME_BYTES = 640
_FRAMES = 3000
_GROWTH_S = 40
_DAY_NS = 86_400 * 10**9
_RIG_FOLDER = Path("build/bench/evidence")
_ROUNDS = 2000


def figures() -> Iterator[Figure]:
    """Yield every figure of this area."""
    yield from _frames()
    yield from _proofs()
    yield from _junk()
    yield from _mutations()
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
    body = bytes(1000)
    signature = sign(private, SigningDomain.FRAME, body)
    rate = _per_second(lambda: verify_signature(public, SigningDomain.FRAME, body, signature), _ROUNDS)
    yield Figure("evidence.signatures_verified_per_core", round(rate), "1/s", 2000, Goal.AT_LEAST, "of 1 kB each")
    with tempfile.TemporaryDirectory(prefix="weighbridge-frames-") as folder:
        rate = _chained(Path(folder), private)
    note = f"as fsck and `verify` do: {_FRAMES} frames of {_FRAME_BYTES} B, each its digests, tree, signature and chain"
    yield Figure("evidence.frames_verified_per_core", round(rate), "1/s", 500, Goal.AT_LEAST, note)


def _chained(folder: Path, private: Ed25519PrivateKey) -> float:
    """Return how many frames of a journal are checked in a second of one processor."""
    enrolment = {"agent": "dpu0", "public_key": private.public_key().public_bytes_raw().hex(), "bundle_sha256": ""}
    entries = [NewEntry(Kind.ENROLMENT, "dpu0", 1, json.dumps(enrolment).encode())]
    previous = b""
    for number in range(1, _FRAMES + 1):
        frame = frame_pb2.Frame(version=FRAME_VERSION, agent="dpu0", sequence=number, previous_sha256=previous)
        body = frame.SerializeToString()
        # A field that nobody knows is passed over: as long as a frame that measures something.
        body += b"\xfa\x7f" + _varint(_FRAME_BYTES) + bytes(_FRAME_BYTES)
        previous = hashlib.sha256(body).digest()
        signed = frame_pb2.SignedFrame(body=body, signature=sign(private, SigningDomain.FRAME, body))
        entries.append(NewEntry(Kind.FRAME, "dpu0", number, signed.SerializeToString(), {}, number))
    with Journal.create(folder / "journal.db", *entries) as journal:
        begin = time.process_time()
        found = fsck(journal)
        spent = time.process_time() - begin
    if found.faults or found.frames != _FRAMES:
        raise InternalError(f"frames that were made to be right are not: {found.faults[:1]}")
    return _FRAMES / spent


def _varint(number: int) -> bytes:
    return bytes((number & 0x7F | 0x80, number >> 7))


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


def _junk() -> Iterator[Figure]:
    command = [sys.executable, "-m", "hil.bench.junk"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    slowest, memory = (float(each) for each in done.stdout.split())
    note = "10 MB in the place of each thing that is read, bombs behind a good head"
    yield Figure("evidence.junk_refused.most", round(slowest * 1000, 1), "ms", 1000, note=note)
    yield Figure("evidence.junk_refused.memory", round(memory / 1e6), "MB", 200, note="Python and all imports included")


def _mutations() -> Iterator[Figure]:
    with tempfile.TemporaryDirectory(prefix="weighbridge-mutations-") as folder:
        cells = list(matrix(Path(folder)))
    for cell in cells:
        _say(str(cell))
    held = sum(cell.holds for cell in cells)
    steps = {cell.mutation.step for cell in cells if cell.holds}
    note = f"{len(MUTATIONS)} mutations of {len(steps)} steps on {len(PATHS)} paths, refused at their own step; printed"
    yield Figure("evidence.mutations.held", held, "1", len(cells), Goal.EXACTLY, note)


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
    yield from _bundles(operation.journal, Period(begin_ns, end_ns), links)


def _bundles(journal_file: Path, period: Period, links: int) -> Iterator[Figure]:
    """What a report on the stretch weighs; the full one is checked as a stranger would."""
    with Journal.open(journal_file) as journal:
        size, parts = len(journal), judge_period(journal, period)
        keys = make_site_keys(journal_file, parts[0].site.name)
        first, last = journal.rows("SELECT min(recorded_ns), max(recorded_ns) FROM entry WHERE kind = 'poll'")[0]
        leaf = issue(journal, keys, parts, size=size, period=period, now_ns=period.to_ns)
        result = json_text(parts).encode()
        paths = {extent: journal_file.with_name(f"{extent.value}.bundle") for extent in Extent}
        for extent, path in paths.items():
            write(journal, keys, path, leaf=leaf, size=size, result=result, extent=extent)
    summary_bytes, full_bytes = (paths[extent].stat().st_size for extent in (Extent.SUMMARY, Extent.FULL))
    with paths[Extent.FULL].open("rb") as file:
        read_head(file)
        raw = sum(len(leaf) + len(body or b"") for leaf, body in read_entries(file))
    policy = Policy(keys.log.public, (keys.report_public,), 1, (), 0, None)
    with paths[Extent.FULL].open("rb") as file:
        begin = time.process_time()
        verify(file, policy, lambda *_: None)
        spent = time.process_time() - begin
    # The bundle has the whole journal, and so the size of a day is that of as many such journals as fill one.
    days = (last - first) / _DAY_NS * links
    packed = full_bytes - summary_bytes
    note = f"leaves and bodies, {raw} B, in {packed} B; unpacked {raw / days / 1e6:.0f} MB/link-day"
    yield Figure("evidence.bundle_full.size", round(packed / days / 1e6, 1), "MB/link-day", 200, note=note)
    yield Figure("evidence.bundle_full.share", round(packed / raw, 3), "1", 0.15, note="of what is in it")
    yield Figure("evidence.bundle_full.verify", round(spent / days), "s/link-day", 3600, note="all steps, one core")
    note = f"a report on {links} links; with their number it grows, with its period not"
    yield Figure("evidence.bundle_summary.size", round(summary_bytes / links / 1000, 1), "kB/link", 100, note=note)


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
