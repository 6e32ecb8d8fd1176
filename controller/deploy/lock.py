"""The agent's third-party packages, pinned by version and SHA-256 for every target.

``python -m controller.deploy.lock`` downloads them for all targets and writes ``dpu_agent/requirements.lock`` anew;
the versions come from ``constraints.txt``, so that the agent runs what the tests ran. The file is in pip's own
format (``--require-hashes``), so anyone can check it with pip alone.

Not in it: ``pycparser``, which ``cffi`` imports only to parse C at build time; the agent never does.
"""

from __future__ import annotations

import hashlib
import re
import sys
import tempfile
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from controller.deploy.target import TARGETS, canonical, parse_wheel
from controller.errors import InternalError, OperatorError, WeighbridgeError

PACKAGES = ("cffi", "cryptography", "grpcio", "protobuf", "pyroute2", "typing-extensions")

_PIN = re.compile(r"([A-Za-z0-9._-]+)==([A-Za-z0-9.!+_-]+)((?:\s*\\\n\s+--hash=sha256:[0-9a-f]{64})+)")
_HEADER = """\
# The agent's third-party packages, for pip --require-hashes. Written by: python -m controller.deploy.lock
# Targets: {targets}
"""


@dataclass(frozen=True, slots=True)
class Pin:
    """One package: its version, and the SHA-256 (hex) of its wheel for each target that has its own."""

    name: str
    version: str
    sha256: frozenset[str]


def package_folder(package: str) -> Path:
    """Return the folder of a top-level package without importing it: controller code must not load the agent's.

    Raises:
        InternalError: it is not installed, or has no folder.
    """
    spec = find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise InternalError(f"the package {package!r} is not installed beside controller; install weighbridge again")
    return Path(spec.submodule_search_locations[0])


def lock_file() -> Path:
    """Return the path of the lock file that is installed."""
    return package_folder("dpu_agent") / "requirements.lock"


def read_lock(path: Path) -> dict[str, Pin]:
    """Return the pins in ``path`` by package name.

    Raises:
        OperatorError: not there, a line that is not a pin, or not exactly the agent's packages.
    """
    remedy = "restore it from the release, or write it with `python -m controller.deploy.lock`"
    try:
        text = path.read_text("ascii")
    except (OSError, UnicodeDecodeError) as error:
        raise OperatorError(f"{path}: cannot be read ({error}); {remedy}") from error
    body = "".join(line for line in text.splitlines(keepends=True) if not line.startswith("#"))
    pins: dict[str, Pin] = {}
    for match in _PIN.finditer(body):
        name = canonical(match[1])
        if name in pins:
            raise OperatorError(f"{path}: {name} is pinned twice; {remedy}")
        pins[name] = Pin(name, match[2], frozenset(re.findall(r"sha256:([0-9a-f]{64})", match[3])))
    rest = _PIN.sub("", body).split()
    if rest:
        raise OperatorError(f"{path}: {rest[0]!r} is not a pin NAME==VERSION with --hash=sha256:...; {remedy}")
    if sorted(pins) != sorted(PACKAGES):
        raise OperatorError(f"{path}: pins {sorted(pins)}, the agent needs {sorted(PACKAGES)}; {remedy}")
    return pins


def format_lock(pins: dict[str, Pin]) -> str:
    """Return ``pins`` as the text of a lock file."""
    lines = [_HEADER.format(targets=" ".join(map(str, TARGETS)))]
    for name in sorted(pins):
        pin = pins[name]
        hashes = [f"    --hash=sha256:{sha256}" for sha256 in sorted(pin.sha256)]
        lines.append(" \\\n".join([f"{name}=={pin.version}", *hashes]) + "\n")
    return "".join(lines)


def versions_in(constraints: Path) -> dict[str, str]:
    """Return the versions of the agent's packages that a constraints file names.

    Raises:
        OperatorError: it cannot be read or lacks one.
    """
    try:
        text = constraints.read_text("utf-8")
    except OSError as error:
        raise OperatorError(f"{constraints}: cannot be read ({error.strerror}); run this in the repository") from error
    found = re.findall(r"^([A-Za-z0-9._-]+)==([^\s;#]+)", text, re.MULTILINE)
    versions = {canonical(name): version for name, version in found}
    for name in PACKAGES:
        if name not in versions:
            raise OperatorError(f"{constraints}: does not name {name}; add {name}==VERSION")
    return {name: versions[name] for name in PACKAGES}


def main() -> int:
    """Write the lock file anew from the package index; return the exit code."""
    from controller.deploy.wheels import download  # noqa: PLC0415  wheels reads locks, so it imports this module

    try:
        versions = versions_in(package_folder("controller").parent / "constraints.txt")
        hashes: dict[str, set[str]] = {name: set() for name in PACKAGES}
        for target in TARGETS:
            print(f"{target}: downloading", file=sys.stderr)  # noqa: T201  progress of a developer's command
            with tempfile.TemporaryDirectory() as scratch:
                download(target, [f"{name}=={version}" for name, version in versions.items()], Path(scratch))
                for wheel in Path(scratch).glob("*.whl"):
                    hashes[parse_wheel(wheel.name).name].add(hashlib.sha256(wheel.read_bytes()).hexdigest())
        pins = {name: Pin(name, versions[name], frozenset(hashes[name])) for name in PACKAGES}
        lock_file().write_text(format_lock(pins), "ascii")
    except WeighbridgeError as error:
        print(error, file=sys.stderr)  # noqa: T201
        return error.exit_code
    print(lock_file())  # noqa: T201
    return 0


if __name__ == "__main__":
    sys.exit(main())
