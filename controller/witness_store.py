"""What a witness keeps: its key, whom it watches, and for each log the last checkpoint that it cosigned.

::

    FOLDER/witness.pem, witness.vkey       its own key
    FOLDER/lock                            one request at a time, whichever process serves it
    FOLDER/logs/HASH/trusted               the verifier keys of a log, one a line; HASH is of the log's name
    FOLDER/logs/HASH/checkpoint            what was cosigned last, cosignature included; or ``nothing yet``
    FOLDER/logs/HASH/refused-N             requests that the log signed and the witness refused: evidence

A checkpoint is replaced by a rename and is on the disk before its cosignature leaves (docs/adr/0094). A witness that
forgot what it had cosigned would cosign a second history, so a checkpoint file that is missing, empty or not the
witness's own is an error and never the beginning of a new log.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from controller.errors import EvidenceError, OperatorError
from controller.evidence import checkpoint as checkpoints
from controller.evidence import note as notes
from controller.evidence.checkpoint import check_cosignature, cosign
from controller.evidence.note import KeyKind, Note, NoteKey, decode_key
from controller.evidence.refusal import VerificationError
from controller.journal_schema import fsync_folder
from controller.logkeys import SigningKey, load_key, make_key
from controller.witness import RefusalError, decode, judge, origin_of

MAX_REFUSED = 16
"""So many refused requests are kept for a log: enough to prove what it did, too few to fill a disk."""

UNAVAILABLE = 503

_NOTHING_YET = b"nothing yet\n"


class Witness:
    """One witness on one folder. Several processes may share it; each request holds the folder's lock."""

    def __init__(self, folder: Path, *, now_s: Callable[[], int] = lambda: int(time.time())) -> None:
        """Open the witness that :meth:`make` made.

        Args:
            folder: where it keeps everything.
            now_s: the witness's own clock, seconds since 1970.

        Raises:
            OperatorError: there is none, or its key cannot be read.
        """
        if not (folder / "witness.pem").exists():
            raise OperatorError(f"{folder}: there is no witness here. Make one with `weighbridge witness init`.")
        self.folder, self._now_s = folder, now_s
        self.key: SigningKey = load_key(folder / "witness", KeyKind.WITNESS)

    @classmethod
    def make(cls, folder: Path, name: str) -> Witness:
        """Make the witness ``name`` in ``folder``; the one that is there stays as it is.

        Raises:
            OperatorError: it cannot be written, or another one is there.
        """
        try:
            (folder / "logs").mkdir(parents=True, exist_ok=True, mode=0o700)
        except OSError as error:
            raise OperatorError(f"{folder}: cannot be made ({error.strerror}). Name another folder.") from error
        made = make_key(folder / "witness", name, KeyKind.WITNESS)
        if made.public.name != name:
            raise OperatorError(f"{folder} is the witness {made.public.name}. Name another folder for {name}.")
        return cls(folder)

    def trust(self, log: NoteKey) -> bool:
        """Watch ``log``, or trust one more key of a log that is watched; return whether that is new.

        Raises:
            OperatorError: it is not a log's key, or the folder cannot be written.
        """
        if log.kind is not KeyKind.LOG:
            raise OperatorError(f"{log.name}: is not the key of a log (those begin with A after the second plus).")
        with self._exclusive():
            folder = self._folder(log.name)
            known = self.trusted(log.name)
            if log in known:
                return False
            with _words(folder):
                if not known:
                    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
                    # First what was cosigned, then whom to trust: a crash in between leaves a log that is not watched.
                    _replace(folder / "checkpoint", _NOTHING_YET)
                _replace(folder / "trusted", "".join(f"{each.encode()}\n" for each in (*known, log)).encode())
            return True

    def logs(self) -> list[str]:
        """Return the names of the logs that are watched.

        Raises:
            OperatorError: a file cannot be read.
        """
        return sorted(_keys(path)[0].name for path in (self.folder / "logs").glob("*/trusted"))

    def trusted(self, origin: str) -> tuple[NoteKey, ...]:
        """Return the keys that may sign for the log ``origin``; none if it is not watched.

        Raises:
            OperatorError: they cannot be read.
        """
        path = self._folder(origin) / "trusted"
        return _keys(path) if path.exists() else ()

    def last(self, origin: str) -> Note | None:
        """Return the checkpoint that was cosigned last for the log ``origin``, or None before the first.

        Raises:
            EvidenceError: the file is missing or is not what this witness wrote.
        """
        path = self._folder(origin) / "checkpoint"
        try:
            raw = path.read_bytes()
            if raw == _NOTHING_YET:
                return None
            return self._own(raw, origin)
        except (OSError, VerificationError) as error:
            raise EvidenceError(
                f"{path}: is not the checkpoint that this witness cosigned last ({error}). Restore it from a copy: "
                "a witness that does not know what it cosigned must not go on."
            ) from error

    def _own(self, raw: bytes, origin: str) -> Note:
        note = notes.decode(raw)
        if check_cosignature(note, self.key.public) is None or checkpoints.decode(note.text).origin != origin:
            raise VerificationError("it is not this witness's, or another log's")
        signers = [key for key in self.trusted(origin) if note.of(key) is not None]
        if not signers:
            raise VerificationError("no key that is trusted for this log signed it")
        notes.check_signed(note, signers)
        return note

    def add_checkpoint(self, raw: bytes) -> bytes:
        """Return the cosignature line for the request ``raw``; what it is for is on the disk by then.

        Raises:
            RefusalError: the log did not show what a witness asks for.
            EvidenceError: what was cosigned last cannot be read.
            OperatorError: the folder cannot be read or written; nothing was cosigned.
        """
        request = decode(raw)
        origin = origin_of(request)
        with self._exclusive():
            trusted = self.trusted(origin)
            before = self.last(origin) if trusted else None
            last = None if before is None else checkpoints.decode(before.text)
            try:
                note = judge(request, trusted, last)
            except RefusalError as refusal:
                if refusal.is_signed and refusal.size is None:
                    self._keep_refused(origin, raw)
                raise
            line = cosign(note, self.key.public.name, self.key.private, self._time(before))
            path = self._folder(origin) / "checkpoint"
            with _words(path):
                _replace(path, Note(note.text, (*note.signatures, line)).encode())
        return line.encode().encode("utf-8")

    def refused(self, origin: str) -> int:
        """Return how many requests of the log ``origin`` are kept that it signed and that were refused."""
        return len(list(self._folder(origin).glob("refused-*")))

    def _time(self, before: Note | None) -> int:
        now_s = self._now_s()
        seen_s = None if before is None else check_cosignature(before, self.key.public)
        if seen_s is not None and now_s < seen_s:
            raise RefusalError(
                UNAVAILABLE, "the witness's clock went back behind its last cosignature; it waits, or is set right"
            )
        return now_s

    def _keep_refused(self, origin: str, raw: bytes) -> None:
        folder = self._folder(origin)
        with _words(folder):
            if all(each.read_bytes() != raw for each in folder.glob("refused-*")):
                free = [name for n in range(MAX_REFUSED) if not (name := folder / f"refused-{n + 1}").exists()]
                if free:
                    _replace(free[0], raw)

    def _folder(self, origin: str) -> Path:
        return self.folder / "logs" / hashlib.sha256(origin.encode("utf-8")).hexdigest()

    @contextlib.contextmanager
    def _exclusive(self) -> Iterator[None]:
        path = self.folder / "lock"
        with _words(path):
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)


def _keys(path: Path) -> tuple[NoteKey, ...]:
    try:
        keys = tuple(decode_key(line) for line in path.read_text(encoding="utf-8").splitlines())
    except (OSError, ValueError, VerificationError) as error:
        raise OperatorError(f"{path}: does not hold verifier keys ({error}). Restore it from a copy.") from error
    if len({key.name for key in keys}) != 1:
        raise OperatorError(f"{path}: does not hold the keys of one log. Restore it from a copy.")
    return keys


def _replace(path: Path, content: bytes) -> None:
    """Put ``content`` at ``path`` in one step: whoever looks, and whatever crashes, sees the old or the new."""
    fresh = path.with_name(f".{path.name}.new")
    with fresh.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(path)
    fsync_folder(path.parent)


@contextlib.contextmanager
def _words(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise OperatorError(
            f"{path}: cannot be written ({error.strerror}); nothing was cosigned. Check the folder and the disk."
        ) from error
