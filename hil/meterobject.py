"""``python -m hil.meterobject [--check]``: compile the in-kernel meter, or check that the compiled one is its source's.

The object is checked in, so that a DPU and a clone without clang have it; beside it stands a record of what it was made
from. ``--check`` compares the hashes of source and object with the record, and, where clang is there, compiles again:
the compiler that made the object must make it again byte for byte; another one's must only succeed.
"""

from __future__ import annotations

import hashlib
import json
import platform
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

FOLDER = Path(__file__).resolve().parent.parent / "dpu_agent" / "meter"
SOURCE, OBJECT, RECORD = FOLDER / "meter.bpf.c", FOLDER / "meter.bpf.o", FOLDER / "meter.bpf.json"
# v3 (jumps and arithmetic of 32 bits): Linux 5.1. Little-endian, as x86-64 and a DPU's arm64 both are.
_OPTIONS = (
    "-O2",
    "-g",
    "-target",
    "bpfel",
    "-mcpu=v3",
    "-Wall",
    "-Wextra",
    "-Werror",
    "-fno-ident",
    "-fdebug-compilation-dir=.",
)


def main(arguments: list[str]) -> int:
    """Compile or check; return 0, or 1 if the check fails, 2 if it cannot be compiled."""
    check = arguments == ["--check"]
    if not check:
        if shutil.which("clang") is None:
            sys.stderr.write("clang is not installed; run 'make setup' as root, or use the object that is checked in\n")
            return 2
        OBJECT.write_bytes(compiled())
        RECORD.write_text(json.dumps(record(), indent=2) + "\n", encoding="utf-8")
        sys.stderr.write(f"wrote {OBJECT.relative_to(FOLDER.parent.parent)}\n")
        return 0
    wrong = difference()
    if wrong:
        sys.stderr.write(f"{wrong}; run 'make meter' and commit\n")
    return 1 if wrong else 0


def compiled() -> bytes:
    """Return the object, without the debugging information that only a debugger reads.

    Raises:
        CalledProcessError: the compiler refuses the source.
    """
    headers = f"/usr/include/{platform.machine()}-linux-gnu"
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder) / OBJECT.name
        # From its own folder, so that no path of this machine gets into the object.
        command = ["clang", *_OPTIONS, "-I", headers, "-c", SOURCE.name, "-o", str(made)]
        subprocess.run(command, cwd=FOLDER, check=True)
        subprocess.run(["llvm-strip", "-g", str(made)], check=True)
        return made.read_bytes()


def record() -> dict[str, str]:
    """Return what the object in place was made from and by."""
    return {
        "source_sha256": hashlib.sha256(SOURCE.read_bytes()).hexdigest(),
        "object_sha256": hashlib.sha256(OBJECT.read_bytes()).hexdigest(),
        "compiler": compiler(),
    }


def compiler() -> str:
    """Return clang's first line about itself."""
    return subprocess.run(["clang", "--version"], capture_output=True, text=True, check=True).stdout.splitlines()[0]


def difference() -> str:
    """Return how source, object and record differ; empty if they do not."""
    said = json.loads(RECORD.read_text(encoding="utf-8"))
    for path, key in ((SOURCE, "source_sha256"), (OBJECT, "object_sha256")):
        if hashlib.sha256(path.read_bytes()).hexdigest() != said[key]:
            return f"{path.name} is not what {RECORD.name} says"
    if shutil.which("clang") is None:
        sys.stderr.write("clang is not installed: the object was compared with its record only\n")
        return ""
    made = compiled()
    if compiler() == said["compiler"] and made != OBJECT.read_bytes():
        return f"{OBJECT.name} is not what {SOURCE.name} gives"
    return ""


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
