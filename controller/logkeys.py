"""The keys that speak for a site's journal: one signs its checkpoints, one its reports. Apart, so that each can go.

They lie beside the journal in ``JOURNAL.keys/``: ``log.pem`` and ``report.pem`` (private), ``log.vkey`` and
``report.pub`` (what a policy file names). ``weighbridge init`` makes them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from cryptography.exceptions import InternalError as LibraryError
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, load_pem_private_key

from controller.errors import OperatorError
from controller.evidence.note import KeyKind, NoteKey, decode_key
from controller.evidence.refusal import VerificationError
from controller.pki import PRIVATE_MODE, write_new

_PUBLIC_MODE = 0o644
_NOT_IN_A_NAME = re.compile(r"[\s+\x00-\x1f]")


@dataclass(frozen=True)
class SigningKey:
    """A private key with what others know it by."""

    public: NoteKey
    private: Ed25519PrivateKey


@dataclass(frozen=True)
class SiteKeys:
    """The keys of one site's journal."""

    log: SigningKey
    report: Ed25519PrivateKey

    @property
    def report_public(self) -> bytes:
        """The raw public key of reports."""
        return self.report.public_key().public_bytes_raw()


def keys_folder(journal: Path) -> Path:
    """Return where the keys of ``journal`` lie."""
    return journal.with_name(f"{journal.name}.keys")


def log_name(site: str) -> str:
    """Return the name under which the log of ``site`` signs: names in notes have no spaces."""
    return f"weighbridge/{_NOT_IN_A_NAME.sub('-', site)}"


def make_site_keys(journal: Path, site: str) -> SiteKeys:
    """Return the keys of ``journal``, made and on the disk if they were not there.

    Raises:
        OperatorError: they cannot be written, or what is there cannot be read.
    """
    folder = keys_folder(journal)
    log = make_key(folder / "log", log_name(site), KeyKind.LOG)
    if not (folder / "report.pem").exists():
        _clear(folder / "report.pub")
        write_new(folder / "report.pem", _encode(Ed25519PrivateKey.generate()), PRIVATE_MODE)
    report = _read(folder / "report.pem")
    if not (folder / "report.pub").exists():
        write_new(folder / "report.pub", f"{report.public_key().public_bytes_raw().hex()}\n".encode(), _PUBLIC_MODE)
    return SiteKeys(log, report)


def load_site_keys(journal: Path) -> SiteKeys | None:
    """Return the keys of ``journal``; None if it has none, as journals of before had.

    Raises:
        OperatorError: they cannot be read, or do not belong together.
    """
    folder = keys_folder(journal)
    # The verifier's key may lie there alone.
    if not (folder / "log.pem").exists() and not (folder / "report.pem").exists():
        return None
    return SiteKeys(load_key(folder / "log", KeyKind.LOG), _read(folder / "report.pem"))


def load_log_public(journal: Path) -> NoteKey | None:
    """Return the public key of the log, for whom the private one need not be readable; None if there is none.

    Raises:
        OperatorError: it cannot be read.
    """
    path = keys_folder(journal) / "log.vkey"
    return _read_public(path) if path.exists() else None


def key_faults(journal: Path, *, signed: bool) -> tuple[list[str], list[str]]:
    """Return what is wrong with the keys of ``journal``, and what could not be looked at.

    Args:
        journal: whose; a copy has none.
        signed: whether it has checkpoints. Before the first, keys that were never finished are made anew when needed.
    """
    folder = keys_folder(journal)
    if not folder.exists() or not (signed or (folder / "report.pub").exists()):
        return [], []
    pairs = ("report", "verifier")
    private = [folder / f"{name}.pem" for name in ("log", *pairs)]
    hidden = [path for path in private if path.exists() and not os.access(path, os.R_OK)]
    if hidden:
        return [], [f"{path}: it is another user's" for path in hidden]
    found: list[str] = []
    try:
        load_key(folder / "log", KeyKind.LOG)
        # The verifier's is made when it is first needed.
        there = [name for name in pairs if name == "report" or (folder / f"{name}.pem").exists()]
        found += [fault for name in there for fault in _apart(folder / name)]
        for path in folder.glob("retired-*.vkey"):
            if path.name != f"retired-{_read_public(path).key_id.hex()}.vkey":
                found.append(f"{path}: is not the key that its name says")
    except OperatorError as error:
        found.append(str(error))
    return found, []


def _apart(stem: Path) -> Iterator[str]:
    """Yield what is wrong with a private key in PEM and its public half in hexadecimal."""
    public = stem.with_suffix(".pub")
    try:
        told = public.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        yield f"{public}: cannot be read ({error})"
        return
    if told != f"{_read(stem.with_suffix('.pem')).public_key().public_bytes_raw().hex()}\n":
        yield f"{public}: is not the public half of {stem.name}.pem"


def make_key(stem: Path, name: str, kind: KeyKind) -> SigningKey:
    """Return the key at ``stem`` (``.pem`` and ``.vkey``), made and on the disk if it was not there.

    Raises:
        OperatorError: it cannot be written, or what is there cannot be read.
    """
    if not stem.with_suffix(".pem").exists():
        key = Ed25519PrivateKey.generate()
        try:
            public = decode_key(NoteKey(name, kind, key.public_key().public_bytes_raw()).encode())
        except VerificationError as error:
            raise OperatorError(f"{name!r} cannot be the name of a key: {error}. Choose another.") from error
        # The public half first: a private key without it would never be used, and could not be made again.
        _clear(stem.with_suffix(".vkey"))
        write_new(stem.with_suffix(".vkey"), f"{public.encode()}\n".encode(), _PUBLIC_MODE)
        write_new(stem.with_suffix(".pem"), _encode(key), PRIVATE_MODE)
    return load_key(stem, kind)


def load_key(stem: Path, kind: KeyKind) -> SigningKey:
    """Return the key at ``stem``.

    Raises:
        OperatorError: it cannot be read, is of another kind, or its halves do not belong together.
    """
    private, public = _read(stem.with_suffix(".pem")), _read_public(stem.with_suffix(".vkey"))
    if public.kind is not kind or private.public_key().public_bytes_raw() != public.public_key:
        raise OperatorError(f"{stem}.pem and {stem}.vkey do not belong together. Restore both from one copy.")
    return SigningKey(public, private)


def _clear(path: Path) -> None:
    """Take away a public half whose private half was never made."""
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise OperatorError(
            f"{path}: cannot be replaced ({error.strerror}). Check the folder and its rights."
        ) from error


def public_of(private: Path) -> str:
    """Return how the public half of the key at ``private`` stands in a verifier key.

    Raises:
        OperatorError: it cannot be read.
    """
    public = _read(private).public_key().public_bytes_raw()
    return NoteKey("log", KeyKind.LOG, public).encode().rpartition("+")[2]


def _read_public(path: Path) -> NoteKey:
    try:
        return decode_key(path.read_text(encoding="utf-8").removesuffix("\n"))
    except (OSError, ValueError, VerificationError) as error:
        raise OperatorError(f"{path}: cannot be read as a verifier key ({error}). Restore it from a copy.") from error


def _read(path: Path) -> Ed25519PrivateKey:
    try:
        key = load_pem_private_key(path.read_bytes(), None)
    except OSError as error:
        raise OperatorError(f"{path}: cannot be read ({error.strerror}). Run as the user that made it.") from error
    except (ValueError, TypeError, UnsupportedAlgorithm, LibraryError) as error:
        raise OperatorError(f"{path}: is not a private key. Restore it from a copy.") from error
    if not isinstance(key, Ed25519PrivateKey):
        raise OperatorError(f"{path}: is not an Ed25519 key. Restore it from a copy.")
    return key


def _encode(key: Ed25519PrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
