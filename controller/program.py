"""Which program this is: a digest of its source, by which two machines can tell whether they compute with the same."""

from __future__ import annotations

import functools
import hashlib
from pathlib import Path

import controller
import protos
import switch

_PACKAGES = (controller, protos, switch)


@functools.cache
def program_sha256() -> str:
    """Return SHA-256, in hexadecimal, over the names and contents of every module that a result can depend on."""
    digest = hashlib.sha256()
    for package in _PACKAGES:
        folder = Path(package.__path__[0])
        for path in sorted(folder.rglob("*.py")):
            content = path.read_bytes()
            digest.update(f"{package.__name__}/{path.relative_to(folder).as_posix()} {len(content)}\n".encode())
            digest.update(content)
    return digest.hexdigest()
