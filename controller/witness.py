"""What a witness asks of a log before it cosigns (c2sp.org/tlog-witness). Pure: values in, values out.

A request is ``old SIZE``, the consistency proof from that size, a hash a line, an empty line, and the signed
checkpoint. Rules, in order, with the status that refuses each:

1. The request has this form (400).
2. The log is one that the witness was told to watch (404).
3. One of the keys that it was told to trust for that log signed the checkpoint (403).
4. The old size is not larger than the checkpoint (400).
5. The old size is that of the last checkpoint cosigned for this log, nought before the first (409, with that size).
6. A checkpoint of the same size has the same root (409): two of them are a log with two histories.
7. The proof shows that the larger tree continues the smaller (422).

Who keeps the answer to 5 must do so atomically with the answer: :mod:`controller.witness_store`.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass

from controller.evidence import checkpoint as checkpoints
from controller.evidence import note as notes
from controller.evidence.checkpoint import Checkpoint
from controller.evidence.grammar import base64_bytes, decimal, utf8
from controller.evidence.note import KeyKind, Note, NoteKey, Signature
from controller.evidence.refusal import VerificationError
from controller.evidence.tree import check_consistency

MAX_REQUEST_BYTES = 2**16
"""63 hashes and a checkpoint with its signatures."""

MAX_PATH_HASHES = 63

BAD_REQUEST, FORBIDDEN, UNKNOWN_LOG, CONFLICT, NOT_CONSISTENT = 400, 403, 404, 409, 422


class RefusalError(VerificationError):
    """The witness does not cosign. ``status`` is HTTP's; ``size`` is what it cosigned last, where that would help.

    ``is_signed``: the log did sign what was refused, so that it is worth keeping: it may prove two histories.
    """

    def __init__(self, status: int, why: str, *, size: int | None = None, is_signed: bool = False) -> None:
        self.status, self.size, self.is_signed = status, size, is_signed
        super().__init__(why)


@dataclass(frozen=True, slots=True)
class Request:
    """A checkpoint with the proof that it continues the one of ``old`` leaves."""

    old: int
    path: tuple[bytes, ...]
    note: Note

    def encode(self) -> bytes:
        """Return the request's body."""
        lines = [f"old {self.old}", *(base64.b64encode(each).decode("ascii") for each in self.path), "", ""]
        return "\n".join(lines).encode("ascii") + self.note.encode()


def decode(raw: bytes) -> Request:
    """Return the request in ``raw``.

    Raises:
        RefusalError: it has another form.
    """
    if len(raw) > MAX_REQUEST_BYTES:
        raise RefusalError(BAD_REQUEST, f"a request has at most {MAX_REQUEST_BYTES} bytes")
    try:
        return _request(raw)
    except VerificationError as error:
        raise RefusalError(BAD_REQUEST, str(error)) from error


def _request(raw: bytes) -> Request:
    head, blank, rest = raw.partition(b"\n\n")
    first, *lines = utf8(head, "the request").split("\n")
    mark, _, size = first.partition(" ")
    if not blank or mark != "old" or len(lines) > MAX_PATH_HASHES:
        raise VerificationError("a request is `old SIZE`, at most 63 hashes, an empty line and a checkpoint")
    path = tuple(base64_bytes(line, "a hash of the proof") for line in lines)
    note = notes.decode(rest)
    checkpoints.decode(note.text)
    return Request(decimal(size, "the old size"), path, note)


def origin_of(request: Request) -> str:
    """Return the name of the log that the request says it is about."""
    return checkpoints.decode(request.note.text).origin


def judge(request: Request, trusted: Sequence[NoteKey], last: Checkpoint | None) -> Note:
    """Return the checkpoint to cosign, with the log's own signatures alone, by the rules of this module.

    Args:
        request: what the log sent.
        trusted: the keys that may sign for the log it names; none: the log is not known.
        last: what was cosigned last for it.

    Raises:
        RefusalError: a rule is broken.
    """
    found = checkpoints.decode(request.note.text)
    if not trusted:
        raise RefusalError(UNKNOWN_LOG, f"this witness does not watch {found.origin}")
    own = tuple(signature for key in trusted if (signature := _signed(request.note, key, found)) is not None)
    if not own:
        raise RefusalError(FORBIDDEN, "the checkpoint is not signed by a key that is trusted for this log")
    if request.old > found.size:
        raise RefusalError(BAD_REQUEST, "the old size is larger than the checkpoint", is_signed=True)
    size = 0 if last is None else last.size
    if request.old != size:
        raise RefusalError(CONFLICT, f"the last checkpoint cosigned has {size} leaves", size=size, is_signed=True)
    _continues(request, found, last)
    return Note(request.note.text, own)


def _signed(note: Note, key: NoteKey, found: Checkpoint) -> Signature | None:
    signature = note.of(key)
    if key.kind is not KeyKind.LOG or key.name != found.origin or signature is None:
        return None
    try:
        notes.check(key, note.text.encode("utf-8"), signature.signature)
    except VerificationError as error:
        raise RefusalError(FORBIDDEN, str(error)) from error
    return signature


def _continues(request: Request, found: Checkpoint, last: Checkpoint | None) -> None:
    if last is not None and found.size == last.size and found.root != last.root:
        raise RefusalError(
            CONFLICT,
            f"this log signed another tree of {found.size} leaves before: it has two histories",
            is_signed=True,
        )
    if last is None or last.size == 0:
        if request.path:
            raise RefusalError(
                NOT_CONSISTENT, "there is nothing before the first checkpoint that a proof could start from"
            )
        return
    try:
        check_consistency(last.size, found.size, request.path, last.root, found.root)
    except VerificationError as error:
        raise RefusalError(NOT_CONSISTENT, str(error), is_signed=True) from error
