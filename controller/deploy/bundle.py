"""The agent's bundle: everything it runs from, for one Python and processor, under a manifest of hashes.

Layout::

    weighbridge-agent      the launcher
    check_release.py       checks the files against the manifest
    manifest.json          format, version, target, wheels, and the SHA-256 of every other file
    dpu_agent/ protos/     our code, and the in-kernel meters' objects where they were built
    lib/                   the pinned wheels, unpacked, and the metadata of this release

The SHA-256 of ``manifest.json`` is the bundle's name. The same sources, wheels and target give the same name and the
same files on every machine; the archive's own bytes may differ between zlib versions and are only transport.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import re
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import version as installed_version
from pathlib import Path, PurePosixPath

from controller.deploy.device.check_release import MANIFEST
from controller.deploy.lock import package_folder
from controller.deploy.target import Target
from controller.deploy.wheels import PinnedWheel, fetch
from controller.errors import InternalError, OperatorError

FORMAT = 1
LAUNCHER = "weighbridge-agent"
CHECKER = "check_release.py"
ARCHIVE_MODE_FILE, ARCHIVE_MODE_PROGRAM = 0o644, 0o755
# A fixed time, late enough that tar does not warn of implausible ones: 1980-01-01, where ZIP's clock begins.
ARCHIVE_MTIME_S = 315_532_800
# Level 6 gives 13 MB; level 9 gives 0.5 % less for three times the time.
ARCHIVE_COMPRESSION = 6
MAX_MEMBER_BYTES = 256 * 2**20

# Our code as it is imported; what makes it (the generator of the messages) stays at home.
_OWN_PACKAGES = ("dpu_agent", "protos")
_OWN_SUFFIXES = {".py", ".o"}
_NOT_FOR_THE_DEVICE = {"protos/generate.py"}
# Type stubs, C and Cython sources, test data and the installer's records are never imported.
_UNUSED_SUFFIXES = {".pyi", ".typed", ".pyx", ".pxd", ".pxi", ".c", ".h", ".cfg"}
_UNUSED_FOLDERS = {"tests", "test", "testdata", "__pycache__"}
_UNUSED_RECORDS = {"RECORD", "INSTALLER", "REQUESTED", "direct_url.json", "top_level.txt", "entry_points.txt"}


@dataclass(frozen=True, slots=True)
class BundleFile:
    """One file of a bundle."""

    content: bytes
    executable: bool = False


@dataclass(frozen=True, slots=True)
class Bundle:
    """A built bundle on the controller's disk.

    Attributes:
        sha256: of its manifest, hex: its name.
        archive: the tar.gz.
        archive_sha256: of the archive, hex, to compare after sending.
        version: of the agent in it.
        target: what it runs on.
        unpacked_bytes: the sum of its files.
    """

    sha256: str
    archive: Path
    archive_sha256: str
    version: str
    target: Target
    unpacked_bytes: int


def build(target: Target, build_directory: Path) -> Bundle:
    """Return the bundle of the installed agent for ``target``, building it when it is not there already.

    1. Fetch the pinned wheels (cache: ``build_directory``/wheels).
    2. Gather the files and write the manifest; its hash is the name.
    3. Take ``build_directory``/bundles/<target>/<name>.tar.gz if it is there and holds exactly these files;
       write it otherwise.

    Raises:
        OperatorError: a wheel is missing, or the folder cannot be written.
    """
    wheels = fetch(target, build_directory / "wheels")
    version = installed_version("weighbridge")
    files = gather(wheels, {package: package_folder(package) for package in _OWN_PACKAGES}, version)
    manifest = manifest_of(files, wheels, version, target)
    name = hashlib.sha256(manifest).hexdigest()
    everything = {**files, MANIFEST: BundleFile(manifest)}
    archive = build_directory / "bundles" / str(target) / f"{name}.tar.gz"
    try:
        if not _holds(archive, everything):
            _write_whole(archive, pack(everything))
        archive_sha256 = hashlib.sha256(archive.read_bytes()).hexdigest()
    except OSError as error:
        raise OperatorError(f"{archive}: cannot be written ({error.strerror}); check its disk and owner") from error
    size = sum(len(file.content) for file in everything.values())
    return Bundle(name, archive, archive_sha256, version, target, size)


def gather(wheels: list[PinnedWheel], own: Mapping[str, Path], version: str) -> dict[str, BundleFile]:
    """Return the files of a bundle but its manifest, by their path in it.

    Args:
        wheels: unpacked under ``lib/``.
        own: our packages by name, and the folder each lies in.
        version: the release, put beside the wheels so that ``importlib.metadata`` finds it.

    Raises:
        OperatorError: two of them bring the same path, or a wheel holds a path that leaves the bundle.
    """
    device = package_folder("controller") / "deploy" / "device"
    files = {
        LAUNCHER: BundleFile(b"#!/usr/bin/python3\n" + (device / "launcher.py").read_bytes(), executable=True),
        CHECKER: BundleFile((device / CHECKER).read_bytes()),
        f"lib/weighbridge-{version}.dist-info/METADATA": BundleFile(
            f"Metadata-Version: 2.1\nName: weighbridge\nVersion: {version}\n".encode()
        ),
    }
    for package, folder in own.items():
        for path in sorted(folder.rglob("*")):
            name = f"{package}/{path.relative_to(folder).as_posix()}"
            if path.suffix in _OWN_SUFFIXES and path.is_file() and name not in _NOT_FOR_THE_DEVICE:
                files[name] = BundleFile(path.read_bytes())
    for wheel in wheels:
        for name, content in _unpack(wheel.path):
            if files.setdefault(f"lib/{name}", BundleFile(content)).content != content:
                raise OperatorError(f"{wheel.path}: brings lib/{name}, which another wheel brings differently")
    return files


def manifest_of(files: Mapping[str, BundleFile], wheels: list[PinnedWheel], version: str, target: Target) -> bytes:
    """Return the manifest: JSON with sorted keys, nothing in it that depends on when or where it was made."""
    content = {
        "format": FORMAT,
        "name": LAUNCHER,
        "version": version,
        "python": target.python,
        "machine": target.machine,
        "wheels": [{"name": w.name, "version": w.version, "file": w.path.name, "sha256": w.sha256} for w in wheels],
        "files": {
            path: {
                "sha256": hashlib.sha256(file.content).hexdigest(),
                "bytes": str(len(file.content)),
                "executable": file.executable,
            }
            for path, file in files.items()
        },
    }
    return json.dumps(content, indent=1, sort_keys=True).encode() + b"\n"


def pack(files: Mapping[str, BundleFile]) -> bytes:
    """Return ``files`` as a tar.gz: sorted, owned by root, one fixed time."""
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for path in sorted(files):
            member = tarfile.TarInfo(path)
            member.size = len(files[path].content)
            member.mtime = ARCHIVE_MTIME_S
            member.mode = ARCHIVE_MODE_PROGRAM if files[path].executable else ARCHIVE_MODE_FILE
            archive.addfile(member, io.BytesIO(files[path].content))
    return gzip.compress(plain.getvalue(), compresslevel=ARCHIVE_COMPRESSION, mtime=0)


def _holds(archive: Path, files: Mapping[str, BundleFile]) -> bool:
    """Whether ``archive`` is there and holds exactly ``files``: a cache that was damaged is made anew."""
    try:
        with tarfile.open(archive, mode="r:gz") as packed:
            members = packed.getmembers()
            if [member.name for member in members] != sorted(files):
                return False
            return all(
                (content := packed.extractfile(member)) is not None and content.read() == files[member.name].content
                for member in members
            )
    except (OSError, EOFError, tarfile.TarError, gzip.BadGzipFile, ValueError):
        return False


def _write_whole(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, scratch = tempfile.mkstemp(prefix=".new-", dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        Path(scratch).replace(path)
    finally:
        Path(scratch).unlink(missing_ok=True)


def _unpack(wheel: Path) -> Iterator[tuple[str, bytes]]:
    """Yield the files of a wheel that the agent can import or must carry (metadata, licences)."""
    with zipfile.ZipFile(wheel) as archive:
        for entry in sorted(archive.infolist(), key=lambda info: info.filename):
            path = PurePosixPath(entry.filename)
            if path.is_absolute() or ".." in path.parts or "\\" in entry.filename:
                raise OperatorError(f"{wheel}: holds {entry.filename!r}, which would leave the bundle; do not use it")
            if entry.is_dir() or _unused(path):
                continue
            if re.fullmatch(r".+\.data", path.parts[0]):
                raise InternalError(f"{wheel}: installs outside site-packages ({entry.filename}); bundle.py cannot")
            if entry.file_size > MAX_MEMBER_BYTES:
                raise OperatorError(f"{wheel}: {entry.filename} has {entry.file_size} bytes unpacked; do not use it")
            yield str(path), archive.read(entry)


def _unused(path: PurePosixPath) -> bool:
    if path.parts[0].endswith(".dist-info"):
        return path.name in _UNUSED_RECORDS
    return path.suffix in _UNUSED_SUFFIXES or not _UNUSED_FOLDERS.isdisjoint(path.parts[:-1])
