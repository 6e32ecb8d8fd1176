"""Check an unpacked bundle against its manifest: every file there, none more, none changed.

Used on the controller's side of a test and on the DPU after unpacking. It finds what storage and transport do to
files; it is no defence against who owns the DPU's operating system, who could change this file as well.

As a program it prints the SHA-256 of the manifest, which is the bundle's name, or says what is wrong and returns 1.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
import sys
from collections.abc import Iterator
from pathlib import Path

MANIFEST = "manifest.json"
_BLOCK_BYTES = 1 << 20


class ReleaseDamagedError(Exception):
    """The release is not what its manifest says; the text names the file."""


def check_release(root: Path) -> str:
    """Return the SHA-256 (hex) of the manifest of the release in ``root`` if every file is as it says.

    Raises:
        ReleaseDamagedError: a file is missing, changed, not listed, not a plain file, or the manifest cannot be read.
    """
    try:
        content = (root / MANIFEST).read_bytes()
        files = json.loads(content)["files"]
        expected = {
            path: (entry["sha256"], int(entry["bytes"]), bool(entry["executable"])) for path, entry in files.items()
        }
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ReleaseDamagedError(f"{root}: {MANIFEST} cannot be read ({error!r})") from error
    seen = set(_plain_files(root))
    for path in sorted(expected.keys() - seen):
        raise ReleaseDamagedError(f"{root}: {path} is missing")
    for path in sorted(seen - expected.keys() - {MANIFEST}):
        raise ReleaseDamagedError(f"{root}: {path} is not in the manifest")
    for path, fingerprint in sorted(expected.items()):
        if _fingerprint(root / path) != fingerprint:
            raise ReleaseDamagedError(f"{root}: {path} is not the file that was sent")
    return hashlib.sha256(content).hexdigest()


def _plain_files(root: Path) -> Iterator[str]:
    for folder, folders, names in os.walk(root):
        for name in [*names, *folders]:
            path = Path(folder) / name
            mode = path.lstat().st_mode
            if stat.S_ISREG(mode):
                yield path.relative_to(root).as_posix()
            elif not stat.S_ISDIR(mode):
                raise ReleaseDamagedError(f"{path} is not a plain file")


def _fingerprint(path: Path) -> tuple[str, int, bool]:
    sha256, size = hashlib.sha256(), 0
    try:
        with path.open("rb") as file:
            executable = bool(os.fstat(file.fileno()).st_mode & stat.S_IXUSR)
            while block := file.read(_BLOCK_BYTES):
                sha256.update(block)
                size += len(block)
    except OSError as error:
        raise ReleaseDamagedError(f"{path} cannot be read ({error.strerror})") from error
    return sha256.hexdigest(), size, executable


def main() -> int:
    """Check the release in the first argument, or the one this file lies in."""
    root = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parent
    try:
        sys.stdout.write(check_release(root) + "\n")
    except ReleaseDamagedError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
