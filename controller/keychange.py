"""Replaces the key that signs a journal's checkpoints; a crash at any moment leaves a change that can be finished.

1. Make the new key beside the old one (``next.pem``, ``next.vkey``).
2. Sign a last checkpoint with the old key.
3. Journal the handover, signed by both (:mod:`controller.logrotation`).
4. Keep the old public key as ``retired-ID.vkey``, and let the new files take the old one's place: the private half of
   the old key is gone.
5. Sign a first checkpoint with the new key.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from controller.errors import OperatorError
from controller.evidence import note as notes
from controller.evidence.note import KeyKind, Note
from controller.journal import Journal, Kind, NewEntry
from controller.journal_log import publish
from controller.journal_schema import fsync_folder
from controller.logkeys import SigningKey, keys_folder, load_key, log_name, make_key, make_site_keys, public_of
from controller.logrotation import handover_text, read_handover


def change_log_key(journal: Journal, site: str, *, now_ns: int) -> SigningKey:
    """Give the log of ``site`` a new key, by the steps of this module; return it.

    Raises:
        EvidenceError: the journal does not continue its last checkpoint; nothing was changed.
        OperatorError: a file cannot be written.
    """
    folder = keys_folder(journal.path)
    with _words(folder):
        _finish_names(journal)
    old = make_site_keys(journal.path, site).log
    new = make_key(folder / "next", log_name(site), KeyKind.LOG)
    if not _is_handed_over(journal, old, new):
        publish(journal, old)
        text = handover_text(old.public, new.public)
        signed = [notes.sign(text, key.public.name, key.private).signatures[0] for key in (old, new)]
        journal.append(NewEntry(Kind.LOG_KEY, old.public.name, now_ns, Note(text, (*signed,)).encode()))
    with _words(folder):
        (folder / f"retired-{old.public.key_id.hex()}.vkey").write_text(f"{old.public.encode()}\n", encoding="utf-8")
        (folder / "next.pem").replace(folder / "log.pem")
        _finish_names(journal)
    key = load_key(folder / "log", KeyKind.LOG)
    publish(journal, key)
    return key


@contextlib.contextmanager
def _words(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise OperatorError(f"{folder}: cannot be written ({error.strerror}). Make room, and run it again.") from error


def _is_handed_over(journal: Journal, old: SigningKey, new: SigningKey) -> bool:
    last = journal.last(Kind.LOG_KEY)
    if last is None:
        return False
    found = read_handover(last)
    return (found.old, found.new) == (old.public, new.public)


def _finish_names(journal: Journal) -> None:
    """Give the new public key its name if its private half has it already."""
    folder = keys_folder(journal.path)
    public = folder / "next.vkey"
    if public.exists() and not (folder / "next.pem").exists() and public_of(folder / "log.pem") in public.read_text():
        public.replace(folder / "log.vkey")
        fsync_folder(folder)
