"""The site's certificates that count no more: ``revoked`` beside the authority's; deployment takes it to agents.

One line for each: the SHA-256 of the certificate's DER in hexadecimal, a blank, whose it was and when. Nothing is ever
taken out of it: a certificate that was revoked once stays so until it expires.
"""

from __future__ import annotations

import os
from datetime import datetime
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.hashes import SHA256

from controller.errors import OperatorError

NAME = "revoked"


def revoked_list(directory: Path) -> bytes:
    """Return the list as agents take it; empty where nothing was revoked.

    Raises:
        OperatorError: it cannot be read.
    """
    path = directory / NAME
    try:
        return path.read_bytes() if path.exists() else b""
    except OSError as error:
        raise OperatorError(f"{path}: cannot be read ({error.strerror}). Check its rights.") from error


def revoke(directory: Path, certificate: Path, *, now: datetime) -> str:
    """Put the certificate in the file ``certificate`` on the list of ``directory``; return its line.

    Raises:
        OperatorError: it is none, or the list cannot be written; it is as it was.
    """
    try:
        found = x509.load_pem_x509_certificate(certificate.read_bytes())
    except OSError as error:
        raise OperatorError(f"{certificate}: cannot be read ({error.strerror}). Name the certificate.") from error
    except ValueError as error:
        raise OperatorError(f"{certificate}: is not a certificate in PEM. Name the certificate.") from error
    digest = found.fingerprint(SHA256()).hex()
    before = revoked_list(directory)
    line = f"{digest} serial {found.serial_number}, revoked {now:%Y-%m-%dT%H:%M:%SZ}"
    if digest.encode() in before:
        return line
    path, fresh = directory / NAME, directory / f".{NAME}.new"
    try:
        with fresh.open("wb") as file:
            file.write(before + f"{line}\n".encode())
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(path)
    except OSError as error:
        raise OperatorError(f"{path}: cannot be written ({error.strerror}). Check the folder.") from error
    return line
