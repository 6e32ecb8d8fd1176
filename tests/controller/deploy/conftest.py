from __future__ import annotations

import hashlib
import os
import signal
import socket
import subprocess
import time
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from controller.deploy.bundle import BundleFile, gather, manifest_of
from controller.deploy.device.check_release import MANIFEST
from controller.deploy.paths import DeployPaths
from controller.deploy.target import Target
from controller.deploy.wheels import PinnedWheel
from controller.site import Endpoint, Ssh

HERE = Target("3.11", "x86_64")


def _make_wheel(folder: Path, file: str, content: dict[str, str]) -> PinnedWheel:
    """A small wheel with fixed times, so that it has the same bytes each time."""
    folder.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(folder / file, "w") as archive:
        for name, text in content.items():
            archive.writestr(zipfile.ZipInfo(name), text)
    name, version = file.split("-")[:2]
    return PinnedWheel(folder / file, name, version, hashlib.sha256((folder / file).read_bytes()).hexdigest())


def _unpack(files: dict[str, BundleFile], root: Path) -> None:
    for path, file in files.items():
        place = root / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(file.content)
        place.chmod(0o755 if file.executable else 0o644)


@pytest.fixture
def make_wheel() -> Callable[[Path, str, dict[str, str]], PinnedWheel]:
    """Makes a small wheel in a folder, from file name and content."""
    return _make_wheel


@pytest.fixture
def unpack() -> Callable[[dict[str, BundleFile], Path], None]:
    """Writes a bundle's files below a folder."""
    return _unpack


@pytest.fixture
def sources(tmp_path: Path) -> dict[str, Path]:
    """Our two packages as they might lie in a checkout, with what must not travel among it."""
    agent, protos = tmp_path / "src" / "dpu_agent", tmp_path / "src" / "protos"
    for path, text in {
        agent / "__init__.py": "",
        agent / "cli.py": "import sys\ndef main():\n    print('agent', *sys.argv[1:])\n    return 0\n",
        agent / "meter" / "meter.bpf.c": "int x;\n",
        agent / "meter" / "meter.bpf.o": "\x7fELF",
        agent / "py.typed": "",
        agent / "__pycache__" / "cli.cpython-311.pyc": "x",
        protos / "__init__.py": "",
        protos / "generate.py": "raise SystemExit\n",
        protos / "v1" / "a.proto": "",
    }.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return {"dpu_agent": agent, "protos": protos}


@pytest.fixture
def small_bundle(tmp_path: Path, sources: dict[str, Path]) -> Callable[[], dict[str, BundleFile]]:
    """Builds a small complete bundle, manifest included."""

    def build() -> dict[str, BundleFile]:
        wheels = [
            _make_wheel(
                tmp_path / "wheels",
                "thing-1.0-py3-none-any.whl",
                {"thing/__init__.py": "A = 1\n", "thing-1.0.dist-info/METADATA": "Name: thing\nVersion: 1.0\n"},
            )
        ]
        files = gather(wheels, sources, "0.0.1")
        return {**files, MANIFEST: BundleFile(manifest_of(files, wheels, "0.0.1", HERE))}

    return build


# A real sshd, standing for a DPU's


@dataclass(frozen=True)
class Device:
    """A machine behind a real sshd on loopback: a mount namespace of its own, everything else is this machine's.

    ``small`` is a file system of 24 MB on it; ``bin`` comes first on its PATH.
    """

    port: int
    host_key: str
    host_key_fingerprint: str
    login_key: Path
    home: Path
    small: Path
    bin: Path
    namespace_pid: int

    def ssh(self, **changes: Any) -> Ssh:
        """How to reach it, as the site file would have it."""
        ssh = Ssh(Endpoint("127.0.0.1", self.port), "root", self.host_key, self.login_key)
        return replace(ssh, **changes)


def keygen(path: Path, *arguments: str) -> Path:
    command = ["ssh-keygen", "-q", "-N", "", "-t", "ed25519", *arguments, "-f", str(path)]
    subprocess.run(command, check=True, timeout=20)
    return path


@pytest.fixture(scope="session")
def device(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Device]:
    home = tmp_path_factory.mktemp("device")
    host, login = keygen(home / "host_key"), keygen(home / "login_key")
    (home / "authorized_keys").write_text((home / "login_key.pub").read_text())
    (home / "shadow").write_text("root:*:19000:0:99999:7:::\nsshd:!:19000::::::\n")
    (home / "shadow").chmod(0o600)
    # Not this machine's root: what its shell start-up files do is none of the device's business.
    (home / "passwd").write_text(f"root:x:0:0:root:{home}:/bin/sh\nsshd:x:101:65534::/run/sshd:/usr/sbin/nologin\n")
    (home / "small").mkdir()
    (home / "bin").mkdir()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    (home / "sshd_config").write_text(
        f"ListenAddress 127.0.0.1:{port}\nHostKey {host}\nAuthorizedKeysFile {home}/authorized_keys\n"
        "AuthenticationMethods publickey\nPasswordAuthentication no\nKbdInteractiveAuthentication no\n"
        "UsePAM no\nStrictModes no\nPidFile none\nUseDNS no\nSubsystem sftp internal-sftp\n"
        f'SetEnv "PATH={home}/bin:/usr/sbin:/usr/bin:/sbin:/bin"\n'
    )
    # Its own /run (sshd wants a folder there), accounts, and small disk; the mounts end with the namespace.
    script = (
        'mount -t tmpfs tmpfs /run && mkdir /run/sshd && mount --bind "$0/shadow" /etc/shadow && '
        'mount --bind "$0/passwd" /etc/passwd && '
        'mount -t tmpfs -o size=24m tmpfs "$0/small" && exec /usr/sbin/sshd -D -e -f "$0/sshd_config"'
    )
    with (home / "sshd.log").open("wb") as log:
        sshd = subprocess.Popen(
            ["unshare", "--mount", "--propagation", "private", "sh", "-c", script, str(home)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
    try:
        deadline = time.monotonic() + 20
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), timeout=1).close()
                break
            except OSError:
                if time.monotonic() > deadline or sshd.poll() is not None:
                    pytest.fail(f"sshd did not start: {(home / 'sshd.log').read_text()}")
                time.sleep(0.05)
        public = (home / "host_key.pub").read_text().split()
        told = subprocess.run(["ssh-keygen", "-lf", str(host)], capture_output=True, text=True, check=True, timeout=20)
        yield Device(
            port,
            " ".join(public[:2]),
            told.stdout.split()[1],
            login,
            home,
            home / "small",
            home / "bin",
            sshd.pid,
        )
    finally:
        sshd.terminate()
        sshd.wait(10)


# A supervisor for one test: `supervisorctl` on the device, and the paths that go with it

SUPERVISORCTL = """\
#!/usr/bin/python3 -I
import json, os, signal, subprocess, sys, time
services, run = @SERVICES@, @RUN@
command, name = sys.argv[1:3]
with open(f"{run}/calls", "a") as calls:
    print(command, name, file=calls)
def alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
pid_file = f"{run}/{name}.pid"
pid = int(open(pid_file).read()) if os.path.exists(pid_file) else 0
if command in ("stop", "restart") and pid and alive(pid):
    os.kill(pid, signal.SIGTERM)
    while alive(pid):
        time.sleep(0.02)
if command == "restart":
    if os.path.exists(f"{run}/refuse"):
        sys.exit("the supervisor refuses")
    service = json.load(open(f"{services}/{name}.json"))
    log = open(f"{run}/{name}.log", "ab")
    null = subprocess.DEVNULL
    process = subprocess.Popen(service["argv"], stdin=null, stdout=log, stderr=log, start_new_session=True)
    open(pid_file, "w").write(str(process.pid))
if command == "status":
    sys.exit(0 if pid and alive(pid) else 3)
"""


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.fixture
def machine(device: Device, tmp_path: Path) -> Iterator[DeployPaths]:
    """Where the agent goes on the device in this test, with a supervisor; what it started ends with the test."""
    home = tmp_path / "machine"
    (tmp_path / "run").mkdir()
    paths = DeployPaths(
        root=str(home / "opt weighbridge"),
        state=str(home / "var" / "state"),
        systemd_running=str(home / "no-systemd"),
        supervisor_services=str(home / "supervisor.d"),
        supervisor_logs=str(tmp_path / "run"),
    )
    script = SUPERVISORCTL.replace("@SERVICES@", repr(paths.supervisor_services))
    ctl = device.bin / "supervisorctl"
    ctl.write_text(script.replace("@RUN@", repr(paths.supervisor_logs)))
    ctl.chmod(0o755)
    yield paths
    for pid_file in (tmp_path / "run").glob("*.pid"):
        pid = int(pid_file.read_text())
        if alive(pid):
            os.kill(pid, signal.SIGKILL)
    ctl.unlink(missing_ok=True)
