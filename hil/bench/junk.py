"""Ten megabytes of junk in the place of everything a verifier reads: ``python -m hil.bench.junk``, in its own process.

Prints the slowest refusal in seconds of processor time and the most memory that the process ever held, in bytes.
"""

from __future__ import annotations

import io
import lzma
import re
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from controller import journal_leaf, witness
from controller.bundle_steps import verify
from controller.errors import EvidenceError
from controller.evidence import checkpoint, envelope, note, statement
from controller.evidence.note import KeyKind, NoteKey
from controller.evidence.refusal import VerificationError
from controller.policyfile import load_policy

JUNK_BYTES = 10_000_000
_REPORTS = Path(__file__).resolve().parents[2] / "tests" / "vectors" / "reports" / "full-packed"
_KEY = NoteKey("log", KeyKind.LOG, bytes.fromhex("d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a"))
_SEEDS = (b"[", b'{"a":', b"\x00", b'"', b"\n", b"1,", b"\xff", "— a AAAA\n".encode(), b"{}")

_READERS: tuple[Callable[[bytes], object], ...] = (
    lambda raw: envelope.open_envelope(raw, [_KEY.public_key], 1),
    statement.decode,
    journal_leaf.decode,
    lambda raw: journal_leaf.decode(journal_leaf.PREFIX + raw),
    note.decode,
    lambda raw: checkpoint.open_checkpoint(raw, _KEY),
    witness.decode,
)


def main() -> int:
    """Try everything; exit code 1 if anything was taken for evidence."""
    slowest = 0.0
    for attempt in _attempts():
        begin = time.process_time()
        try:
            attempt()
        except (VerificationError, EvidenceError):
            slowest = max(slowest, time.process_time() - begin)
        else:
            return 1
    (kilobytes,) = re.findall(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text(encoding="ascii"))
    sys.stdout.write(f"{slowest} {int(kilobytes) * 1024}\n")
    return 0


def _attempts() -> Iterator[Callable[[], object]]:
    policy, good = load_policy(_REPORTS / "policy.toml"), (_REPORTS / "report.bundle").read_bytes()
    # Behind a head that verifies, too: there what is packed is unpacked.
    head = good[: good.index(b"\nchunk ") + 1]
    starts = (b"", b"weighbridge bundle v2 full\n", b"weighbridge bundle v2 full\nenvelope 2000000\n", head)
    for seed in _SEEDS:
        raw = seed * (JUNK_BYTES // len(seed))
        for read in _READERS:
            yield lambda read=read, raw=raw: read(raw)  # type: ignore[misc]
        for start in starts:
            yield lambda raw=start + raw: verify(io.BytesIO(raw), policy, lambda *_: None)  # type: ignore[misc]
    for begin in (b"", b"leaf 1\nx\nbody 60000000\n"):
        bomb = _bomb(begin)
        bundle = b"%schunk %d\n%s\n" % (head, len(bomb), bomb)
        yield lambda raw=bundle: verify(io.BytesIO(raw), policy, lambda *_: None)  # type: ignore[misc]


def _bomb(begin: bytes) -> bytes:
    """Return half a gigabyte of zeros behind ``begin``, packed, without ever holding it."""
    packer = lzma.LZMACompressor(preset=0)
    parts = [packer.compress(begin), *(packer.compress(bytes(1_000_000)) for _ in range(500)), packer.flush()]
    return b"".join(parts)


if __name__ == "__main__":
    sys.exit(main())
