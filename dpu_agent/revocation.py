"""Certificates that count no more before they expire: a file beside the authority's, read anew when it changes.

``revoked`` has the SHA-256 of a certificate (its DER, in hexadecimal) a line; what follows a blank is for people. It is
looked at on every call and before every frame of a stream, so that putting it there is enough. A file that is there and
cannot be read lets nobody in: nobody knows whom it was meant to keep out.
"""

from __future__ import annotations

import re
from pathlib import Path

NAME = "revoked"

_LINE = re.compile(r"([0-9a-f]{64})( .*)?", re.ASCII)
_MAX_FILE_BYTES = 1 << 20


class UnreadableError(Exception):
    """The file is there and cannot be read; ``str()`` names it."""


class Revocations:
    """The certificates that the file at ``path`` revokes; none while it is not there. Threads may share it."""

    def __init__(self, path: Path | None) -> None:
        """``path`` is None where nothing can be revoked, as in tests of other things."""
        self._path = path
        self._read: tuple[tuple[int, int, int], frozenset[str]] | None = None

    def current(self) -> frozenset[str]:
        """Return the digests that are revoked now.

        Raises:
            UnreadableError: the file is there and cannot be read.
        """
        if self._path is None:
            return frozenset()
        try:
            status = self._path.stat()
            mark = (status.st_mtime_ns, status.st_size, status.st_ino)
            if self._read is None or self._read[0] != mark:
                self._read = mark, _parse(self._path)
        except FileNotFoundError:
            return frozenset()
        except (OSError, ValueError) as error:
            raise UnreadableError(f"{self._path}: cannot be read ({error}); nobody is let in") from error
        return self._read[1]


def _parse(path: Path) -> frozenset[str]:
    with path.open("rb") as file:
        text = file.read(_MAX_FILE_BYTES + 1)
    lines = text.decode("utf-8").splitlines()
    found = [_LINE.fullmatch(line) for line in lines]
    if len(text) > _MAX_FILE_BYTES or not all(found):
        raise ValueError("a line is not the SHA-256 of a certificate")
    return frozenset(match[1] for match in found if match)
