"""The wheels of a target: from the cache when they are there, from the package index once, never unpinned."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from controller.deploy.lock import PACKAGES, Pin, lock_file, read_lock
from controller.deploy.target import Target, parse_wheel
from controller.errors import OperatorError

# Twenty megabytes from a slow mirror.
DOWNLOAD_TIMEOUT_S = 600.0


@dataclass(frozen=True, slots=True)
class PinnedWheel:
    """A wheel on disk whose bytes are the pinned ones."""

    path: Path
    name: str
    version: str
    sha256: str


def fetch(target: Target, cache: Path, *, lock: Path | None = None) -> list[PinnedWheel]:
    """Return the pinned wheels of ``target``, sorted by name.

    1. Take what is in ``cache``/<target> and is pinned.
    2. When one is missing, let pip download all of them with ``--require-hashes`` beside it, and move them in.
    3. Take them again; now all must be there.

    Args:
        target: what they must run on.
        cache: a folder that is made when it is not there; wheels in it are used without a network.
        lock: the lock file; the installed one when absent.

    Raises:
        OperatorError: one is missing and could not be downloaded, or a file in the cache is not what is pinned.
    """
    lock = lock if lock is not None else lock_file()
    pins = read_lock(lock)
    folder = cache / str(target)
    found = _pinned(target, folder, pins)
    if len(found) < len(PACKAGES):
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(prefix=".incoming-", dir=folder) as scratch:
                download(target, ["--require-hashes", "-r", str(lock)], Path(scratch), wanted_in=folder)
                for wheel in Path(scratch).glob("*.whl"):
                    wheel.replace(folder / wheel.name)
        except OSError as error:
            raise OperatorError(f"{folder}: cannot hold wheels ({error}); check its disk and owner") from error
        found = _pinned(target, folder, pins)
    for name in PACKAGES:
        if name not in found:
            raise OperatorError(
                f"{folder}: there is no wheel of {name} {pins[name].version} for {target}; empty the folder and try "
                f"again with a network, or pin it for {target} with `python -m controller.deploy.lock`"
            )
    return [found[name] for name in sorted(found)]


def download(target: Target, what: list[str], folder: Path, *, wanted_in: Path | None = None) -> None:
    """Let pip download the wheels ``what`` for ``target`` into ``folder``.

    Raises:
        OperatorError: pip is not there or failed; the message ends with pip's last words.
    """
    platforms = [argument for platform in target.platforms for argument in ("--platform", platform)]
    command = [
        *(sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-input"),
        *("--no-deps", "--only-binary=:all:", "--implementation", "cp", "--python-version", target.python),
        *(*platforms, "--dest", str(folder), *what),
    ]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=DOWNLOAD_TIMEOUT_S)
        failed, words = done.returncode != 0, done.stderr
    except subprocess.TimeoutExpired:
        failed, words = True, f"no answer within {DOWNLOAD_TIMEOUT_S:.0f} s"
    if failed:
        errors = [line for line in words.splitlines() if not line.startswith("WARNING")] or ["pip said nothing"]
        raise OperatorError(
            f"the agent's wheels for {target} could not be downloaded; on a machine with a network run "
            f"`weighbridge agents bundle --python {target.python} --machine {target.machine}` and copy its wheels to "
            f"{wanted_in or folder}. pip: {errors[-1].strip()}"
        )


def _pinned(target: Target, folder: Path, pins: dict[str, Pin]) -> dict[str, PinnedWheel]:
    found: dict[str, PinnedWheel] = {}
    # The wheel for the newest Python comes last and stays: which others lie there must not change the bundle.
    wheels = [(parse_wheel(path.name), path) for path in folder.glob("*.whl")]
    for wheel, path in sorted(wheels, key=lambda pair: (pair[0].newest_python, pair[0].file)):
        pin = pins.get(wheel.name)
        # Other versions may stay from an earlier release; they are not looked at.
        if pin is None or wheel.version != pin.version or not target.accepts(wheel):
            continue
        sha256 = hashlib.sha256(path.read_bytes()).hexdigest()
        if sha256 not in pin.sha256:
            raise OperatorError(
                f"{path}: is not the wheel that is pinned in requirements.lock (its SHA-256 is {sha256}); "
                "remove it and try again"
            )
        found[wheel.name] = PinnedWheel(path, wheel.name, wheel.version, sha256)
    return found
