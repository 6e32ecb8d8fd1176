"""The log's side of a witness: what it asks for, and what it makes of the answer. No socket: the shell carries both.

Rules:

1. A request starts from the newest checkpoint that this witness cosigned, as far as the journal knows.
2. A witness that says it cosigned another size is asked again from there, once: the proof is made from any size. If it
   is less than what the journal has its signature for, the witness was set back to an old copy of itself, and could
   vouch for a second history: that is said, too.
3. A witness that cosigned more leaves than the journal's newest checkpoint has, has seen a longer history than the one
   that is here: the journal was cut short, or an old copy is at work. That is said, and never repaired.
4. An answer is kept only if it is this witness's cosignature of the very checkpoint that was sent.
"""

from __future__ import annotations

from controller.errors import DeviceError, EvidenceError
from controller.evidence.grammar import decimal, utf8
from controller.evidence.note import NoteKey
from controller.evidence.refusal import VerificationError
from controller.journal import Journal
from controller.journal_log import Stored, cosigned_size, keep_cosignature, last_checkpoint, subtree
from controller.treeproof import prove_consistency
from controller.witness import CONFLICT, Request

MAX_ANSWER_BYTES = 2**14

SIZE_TYPE = "text/x.tlog.size"


class CosigningError(DeviceError):
    """A witness did not cosign; the text says what it answered."""


def request_for(journal: Journal, witness: NoteKey, old: int | None = None) -> tuple[Stored, Request]:
    """Return the newest checkpoint and the request for its cosignature.

    Args:
        journal: the log.
        witness: whom to ask.
        old: the size that the witness says it cosigned last; else what the journal knows of it.

    Raises:
        CosigningError: the journal has no checkpoint yet.
        EvidenceError: the journal is damaged, or has less than the witness has seen.
    """
    newest = last_checkpoint(journal)
    if newest is None:
        raise CosigningError(f"{journal.path}: there is no checkpoint to cosign yet. Run `weighbridge run`.")
    size = newest.checkpoint.size
    known = cosigned_size(journal, witness)
    start = known if old is None else old
    if start < known:
        raise EvidenceError(
            f"{witness.name} says that it cosigned {start} entries last, but {journal.path} has its signature for "
            f"{known}: it was restored from an old copy and does not know what it vouched for. It needs another name."
        )
    if start > size:
        raise EvidenceError(
            f"{witness.name} cosigned a tree of {start} entries, but the newest checkpoint of {journal.path} has "
            f"{size}: the journal was cut short, or an old copy of it is at work. Keep it and find the newer one."
        )
    path = prove_consistency(start, size, subtree(journal)) if 0 < start < size else []
    return newest, Request(start, tuple(path), newest.note)


def size_in(status: int, content_type: str, body: bytes) -> int | None:
    """Return the size that a witness says it cosigned last, or None if its answer is another one."""
    if status != CONFLICT or content_type.partition(";")[0].strip().lower() != SIZE_TYPE:
        return None
    text = body.decode("ascii", "replace")
    try:
        return decimal(text.removesuffix("\n"), "a size")
    except VerificationError:
        return None


def take(journal: Journal, witness: NoteKey, asked: Stored, status: int, body: bytes) -> int:
    """Keep the cosignature in a witness's answer; return when the witness saw the log, in seconds since 1970.

    Raises:
        CosigningError: it answered something else; nothing was kept.
    """
    if status != 200:
        said = body[:200].decode("utf-8", "replace").strip()
        shown = "".join(each if each.isprintable() else " " for each in said)
        raise CosigningError(f"witness {witness.name} did not cosign: it answered {status} ({shown})")
    try:
        mine = [line for line in utf8(body, "the answer").splitlines(keepends=True) if f" {witness.name} " in line]
        return keep_cosignature(journal, asked.checkpoint.size, "".join(mine[:1]), witness)
    except (EvidenceError, VerificationError) as error:
        raise CosigningError(f"witness {witness.name} answered what is no cosignature of its key: {error}") from error
