"""The real bundle with the real agent: it runs with nothing but the bundle, and is deployed through a real sshd.

The pinned wheels come from ``build/wheels`` in the checkout, or once from the package index.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from controller import site as sites
from controller.credentials import load_ca
from controller.deploy import lock
from controller.deploy.bundle import Bundle, build
from controller.deploy.cli import once_a_target
from controller.deploy.deploy import deploy
from controller.deploy.device.check_release import check_release
from controller.deploy.enrolment import enrolled
from controller.deploy.options import Deployed, Options, Surroundings
from controller.deploy.paths import DeployPaths
from controller.deploy.ssh import Connection, SshConnection
from controller.deploy.target import Target
from controller.errors import DeviceError, EvidenceError
from controller.journal import Journal
from controller.pki import Role, create_site_pki, issue_certificate, write_issued
from controller.site import Dpu, Site

Device = Any  # the fixture of conftest.py: a real sshd

PROJECT = Path(lock.__file__).parents[2]
BUILD = PROJECT / "build"
MACHINE = os.uname().machine
NAME = "node1-dpu0"


def interpreters() -> dict[str, str]:
    """The Pythons of this machine that a DPU may have, by version: the system's, and others where they are."""
    found: dict[str, str] = {}
    candidates = ["/usr/bin/python3", *(shutil.which(f"python3.{minor}") or "" for minor in (10, 11, 12))]
    candidates += sorted(
        map(str, Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")).glob("versions/3.1[012]*/bin/python"))
    )
    for path in candidates:
        if path and Path(path).exists():
            code = "import sys; print('%d.%d' % sys.version_info[:2])"
            told = subprocess.run([path, "-I", "-c", code], capture_output=True, text=True, check=False, timeout=30)
            if told.returncode == 0 and told.stdout.strip() in {"3.10", "3.11", "3.12"}:
                found.setdefault(told.stdout.strip(), path)
    return found


PYTHONS = interpreters()


@pytest.fixture(params=sorted(PYTHONS))
def unpacked(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, Path, Bundle]:
    """An interpreter, and the bundle for it, unpacked in a folder with a space in its name."""
    bundle = build(Target(request.param, MACHINE), BUILD)
    root = tmp_path / "a release"
    root.mkdir()
    subprocess.run(["tar", "-xzf", str(bundle.archive), "-C", str(root)], check=True, timeout=60)
    return PYTHONS[request.param], root, bundle


def run(python: str, root: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [python, str(root / "weighbridge-agent"), *arguments],
        env=environment,
        cwd="/",
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def test_the_bundle_runs_in_an_empty_environment(unpacked: tuple[str, Path, Bundle], tmp_path: Path) -> None:
    python, root, bundle = unpacked
    assert check_release(root) == bundle.sha256
    shown = run(python, root, "--version")
    assert (shown.returncode, shown.stdout.strip(), shown.stderr) == (0, bundle.version, "")
    # Everything that comes with it can be imported, from the bundle and from nowhere else.
    code = (
        "import sys, pkgutil, importlib; sys.path[:0] = sys.argv[1:3]\n"
        "import grpc, cryptography.x509, google.protobuf, pyroute2, cffi, _cffi_backend, typing_extensions\n"
        "from google.protobuf.internal import api_implementation; assert api_implementation.Type() == 'upb'\n"
        "import dpu_agent, protos\n"
        "for package in (dpu_agent, protos):\n"
        "    for module in pkgutil.walk_packages(package.__path__, package.__name__ + '.'):\n"
        "        importlib.import_module(module.name)\n"
        "files = [getattr(m, '__file__', None) or '' for m in sys.modules.values()]\n"
        "outside = [file for file in files if 'site-packages' in file or 'dist-packages' in file]\n"
        "assert not outside, outside\n"
        "assert grpc.__file__.startswith(sys.argv[1]), grpc.__file__\n"
    )
    done = subprocess.run(
        [python, "-I", "-S", "-B", "-c", code, str(root), str(root / "lib")],
        env={},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert check_release(root) == bundle.sha256  # nothing was written into it


def test_nothing_of_the_machine_gets_into_it(unpacked: tuple[str, Path, Bundle], tmp_path: Path) -> None:
    """Neither as the service starts it, nor when somebody starts it by hand with variables of his own."""
    python, root, bundle = unpacked
    evil = tmp_path / "evil"
    evil.mkdir()
    for name in ("grpc", "json", "pathlib", "dpu_agent", "google"):
        (evil / f"{name}.py").write_text("raise SystemExit('the machine got in')\n")
    variables = {"PYTHONPATH": str(evil), "PYTHONSTARTUP": str(evil / "grpc.py"), "HOME": str(evil)}
    by_hand = run(python, root, "--version", **variables)
    assert (by_hand.returncode, by_hand.stdout.strip()) == (0, bundle.version)
    (evil / "sitecustomize.py").write_text("raise SystemExit('the machine got in')\n")
    flags = DeployPaths(python=python).start_line[1:-4]
    command = [python, *flags, str(root / "weighbridge-agent"), "--version"]
    as_service = subprocess.run(
        command, env=variables, cwd=evil, capture_output=True, text=True, check=False, timeout=60
    )
    assert (as_service.returncode, as_service.stdout.strip()) == (0, bundle.version)


def test_another_python_or_processor_is_told_and_not_tried(unpacked: tuple[str, Path, Bundle]) -> None:
    python, root, _ = unpacked
    manifest = json.loads((root / "manifest.json").read_text())
    for key, other in (("python", "3.9"), ("machine", "riscv64")):
        (root / "manifest.json").write_text(json.dumps({**manifest, key: other}))
        refused = run(python, root, "--version")
        assert (refused.returncode, refused.stdout) == (2, "")
        assert f"this bundle is for {key} {other}" in refused.stderr


def test_the_size_is_what_is_promised() -> None:
    bundle = build(Target(min(PYTHONS), MACHINE), BUILD)
    assert bundle.archive.stat().st_size < 16_000_000
    assert bundle.unpacked_bytes < 45_000_000


# Deployed


@dataclass
class Scene:
    """A site of one DPU on loopback: its agent listens on ``port`` and meters ``lo``."""

    site: Site
    folder: Path
    journal: Journal
    options: Options
    surroundings: Surroundings

    def deploy(self, surroundings: Surroundings | None = None, **changes: Any) -> Deployed:
        return deploy(
            self.site,
            NAME,
            self.journal,
            time.monotonic_ns,
            options=replace(self.options, **changes),
            progress=lambda _text: None,
            surroundings=surroundings or self.surroundings,
        )


@pytest.fixture
def scene(device: Device, machine: DeployPaths, tmp_path: Path) -> Iterator[Scene]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    create_site_pki(tmp_path / "pki", site="demo", controller="ctl", agents={NAME: "127.0.0.1"})
    content = f"""\
version: 1
site: demo
controller: {{journal: journal.db, ca: pki/ca.pem, certificate: pki/controller.pem, key: pki/controller.key}}
pods: [{{name: pod-a, nodes: [node1]}}]
nodes:
  - name: node1
    dpus:
      - name: {NAME}
        agent: "127.0.0.1:{port}"
        ssh: {{address: "127.0.0.1:{device.port}", user: root, host_key: "{device.host_key}", key: {device.login_key}}}
        uplinks: [{{name: lo, host_port: pf0hpf, line_rate: 10Gbit/s, mtu: 1500}}]
        agent_settings: {{clock_offset_ns: 3600000000000}}
links: [{{name: node1/lo, dpu: {NAME}, uplink: lo, switch: sw1, port: eth1}}]
switches:
  - name: sw1
    address: "127.0.0.1:161"
    snmp: {{version: 2c, insecure: true, community_file: secret}}
    refresh: 3.5s
    framing: l2_without_fcs
limits: [{{scope: node, window: 10s, bytes: 10MB}}]
"""
    site = sites.loads(content.encode(), tmp_path / "site.yaml")
    options = Options(build_directory=BUILD, paths=machine, start_timeout_s=30.0)
    with Journal.create(tmp_path / "journal.db") as journal:
        # Built once: somebody may be working on the agent's sources while this runs.
        yield Scene(site, tmp_path, journal, options, Surroundings(build=once_a_target()))


@pytest.mark.rig
@pytest.mark.slow
@pytest.mark.parametrize("python", sorted(PYTHONS)[:2])
def test_the_agent_is_deployed_and_answers_with_what_was_sent(scene: Scene, python: str) -> None:
    paths = replace(scene.options.paths, python=PYTHONS[python])
    done = scene.deploy(paths=paths)
    assert (done.sent, done.restarted, done.enrolled) == (True, True, True)
    assert done.bundle_sha256 == scene.surroundings.build(Target(python, MACHINE), BUILD).sha256
    pinned = enrolled(scene.journal, NAME)
    assert pinned is not None
    again = scene.deploy(paths=paths)
    assert (again.sent, again.restarted, again.enrolled) == (False, False, False)
    # The agent keeps its key and its numbers when it is killed; a new certificate restarts it.
    os.kill(int((scene.folder / "run" / "weighbridge-agent.pid").read_text()), signal.SIGKILL)
    killed = scene.deploy(paths=paths)
    assert (killed.sent, killed.restarted, killed.enrolled) == (False, True, False)
    issued = issue_certificate(load_ca(scene.folder / "pki"), Role.AGENT, NAME, "127.0.0.1")
    write_issued(scene.folder / "pki" / "agents" / NAME, issued, renew=True)
    renewed = scene.deploy(paths=paths)
    assert (renewed.sent, renewed.restarted, renewed.enrolled) == (False, True, False)
    assert enrolled(scene.journal, NAME) == pinned


@pytest.mark.rig
@pytest.mark.slow
def test_an_agent_whose_state_is_gone_is_not_believed(scene: Scene) -> None:
    scene.deploy()
    pinned = enrolled(scene.journal, NAME)
    os.kill(int((scene.folder / "run" / "weighbridge-agent.pid").read_text()), signal.SIGKILL)
    shutil.rmtree(scene.options.paths.state)
    with pytest.raises(EvidenceError, match="--replace-key"):
        scene.deploy()
    assert enrolled(scene.journal, NAME) == pinned
    assert scene.deploy(replace_key=True).enrolled


@pytest.mark.rig
@pytest.mark.slow
def test_settings_the_real_agent_refuses_never_come_into_force(scene: Scene) -> None:
    content = scene.site.content.replace(b"clock_offset_ns: 3600000000000", b"spool_size: 1kB")
    scene.site = sites.loads(content, scene.site.path)
    with pytest.raises(DeviceError, match=r"step 6 of 10 .*spool\.max_bytes"):
        scene.deploy()
    assert not (Path(scene.options.paths.root) / "current").is_symlink()


@pytest.mark.rig
@pytest.mark.slow
def test_a_flipped_bit_on_the_way_is_found(scene: Scene) -> None:
    """The archive's bytes are changed before they are sent: first seen by the hash, then, past that, by the check."""

    class Flipping:
        def __init__(self, inner: SshConnection) -> None:
            self.inner, self.place = inner, inner.place
            self.run, self.close = inner.run, inner.close

        def upload(self, content: bytes, path: str, *, mode: int) -> None:
            if path.endswith("bundle.tar.gz"):
                middle = len(content) // 2
                content = content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]
            self.inner.upload(content, path, mode=mode)

    def connect(dpu: Dpu) -> Connection:
        assert dpu.ssh is not None
        return Flipping(SshConnection(dpu.name, dpu.ssh))

    with pytest.raises(DeviceError, match=r"step 5 of 10 \(send the bundle\)"):
        scene.deploy(Surroundings(connect=connect))
    assert not (Path(scene.options.paths.root) / "current").is_symlink()
