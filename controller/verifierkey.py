"""The verifier's key: what agents take class tables and leases by, and one of the two that sign an agreement.

It lies beside the journal in ``JOURNAL.keys/``: ``verifier.pem`` (private, mode 0600) and ``verifier.pub`` (the raw
public key in hexadecimal, as an agent's configuration and the other party know it). It is made when it is first
needed; a verifier that brings its own imports it before that. A party's key elsewhere has the same two files.
"""

from __future__ import annotations

import stat
from pathlib import Path

from cryptography.exceptions import InternalError as LibraryError
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, load_pem_private_key

from controller.errors import OperatorError
from controller.logkeys import keys_folder
from controller.pki import PRIVATE_MODE, write_new
from protos.signing import SignatureRejected, load_public_key

NAME = "verifier"
_PUBLIC_MODE = 0o644
_MAX_FILE_BYTES = 4_096


def verifier_key(journal: Path) -> Ed25519PrivateKey:
    """Return the verifier's private key of ``journal``, made and on the disk if it was not there.

    Raises:
        OperatorError: it cannot be written or read, or others can read it.
    """
    return make_key_file(_stem(journal)) if not _private(_stem(journal)).exists() else read_key_file(_stem(journal))


def load_verifier_key(journal: Path) -> Ed25519PrivateKey | None:
    """Return the verifier's private key of ``journal``; None where it was not made yet.

    Raises:
        OperatorError: as :func:`verifier_key`.
    """
    return read_key_file(_stem(journal)) if _private(_stem(journal)).exists() else None


def load_verifier_public(journal: Path) -> bytes | None:
    """Return the raw public key, for whom the private one need not be readable; None where it was not made yet.

    Raises:
        OperatorError: it cannot be read.
    """
    path = _public(_stem(journal))
    return read_public_file(path) if path.exists() else None


def import_verifier_key(journal: Path, source: Path) -> bytes:
    """Take the key in ``source`` (PEM, PKCS #8) as the verifier's of ``journal``; return the raw public key.

    Raises:
        OperatorError: there is one already, or ``source`` is no Ed25519 key; nothing was changed.
    """
    key = _read_private(source)
    _write(_stem(journal), key)
    return key.public_key().public_bytes_raw()


def make_key_file(stem: Path) -> Ed25519PrivateKey:
    """Return a new key, on the disk as ``STEM.pem`` and ``STEM.pub``.

    Raises:
        OperatorError: one of the files is there, or cannot be written.
    """
    key = Ed25519PrivateKey.generate()
    _write(stem, key)
    return key


def read_key_file(stem: Path) -> Ed25519PrivateKey:
    """Return the key in ``STEM.pem``, where ``STEM.pub`` is its public half.

    Raises:
        OperatorError: it cannot be read, others can read it, or the two do not belong together.
    """
    key = _read_private(_private(stem))
    if read_public_file(_public(stem)) != key.public_key().public_bytes_raw():
        raise OperatorError(f"{stem}.pem and {stem}.pub do not belong together. Restore both from one copy.")
    return key


def read_public_file(path: Path) -> bytes:
    """Return the raw public key that ``path`` holds in hexadecimal.

    Raises:
        OperatorError: it is not there, or holds something else.
    """
    try:
        with path.open("rb") as file:
            raw = bytes.fromhex(file.read(_MAX_FILE_BYTES).decode("ascii").strip())
        load_public_key(raw)
    except OSError as error:
        raise OperatorError(f"{path}: cannot be read ({error.strerror}). Give the file with the public key.") from error
    except (ValueError, SignatureRejected) as error:
        raise OperatorError(
            f"{path}: is not an Ed25519 public key ({error}). It has one line of 64 hexadecimal digits."
        ) from error
    return raw


def _write(stem: Path, key: Ed25519PrivateKey) -> None:
    public = f"{key.public_key().public_bytes_raw().hex()}\n".encode()
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    if _private(stem).exists():
        raise OperatorError(f"{_private(stem)}: is already there and was left alone; move it away first")
    # The public half first: a private key without it would never be used. One that is left alone is nobody's.
    _public(stem).unlink(missing_ok=True)
    write_new(_public(stem), public, _PUBLIC_MODE)
    write_new(_private(stem), pem, PRIVATE_MODE)


def _read_private(path: Path) -> Ed25519PrivateKey:
    try:
        with path.open("rb") as file:
            mode, content = stat.S_IMODE(path.stat().st_mode), file.read(_MAX_FILE_BYTES)
    except OSError as error:
        raise OperatorError(f"{path}: cannot be read ({error.strerror}). Run as the user that made it.") from error
    if mode & 0o077:
        raise OperatorError(f"{path}: a private key that others can read; run `chmod 600 {path}`")
    try:
        key = load_pem_private_key(content, None)
    except (ValueError, TypeError, UnsupportedAlgorithm, LibraryError) as error:
        raise OperatorError(f"{path}: is not an unencrypted PEM private key. Give one, or restore it.") from error
    if not isinstance(key, Ed25519PrivateKey):
        raise OperatorError(f"{path}: is not an Ed25519 key. Give one, or restore it.")
    return key


def _stem(journal: Path) -> Path:
    return keys_folder(journal) / NAME


def _private(stem: Path) -> Path:
    return stem.with_name(f"{stem.name}.pem")


def _public(stem: Path) -> Path:
    return stem.with_name(f"{stem.name}.pub")
