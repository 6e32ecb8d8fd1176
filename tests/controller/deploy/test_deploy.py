"""Deployment to a machine behind a real sshd, with a stand-in for the agent and for the supervisor.

The stand-in agent is started by the real launcher from the real bundle layout; it writes down what it would answer,
and ``describe`` reads that as long as its process lives.
"""

from __future__ import annotations

import hashlib
import json
import os
import signal
import stat
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from controller import site as sites
from controller.credentials import Credential
from controller.deploy import bundle as bundles
from controller.deploy.deploy import deploy
from controller.deploy.enrolment import enrolled
from controller.deploy.lock import package_folder
from controller.deploy.options import Deployed, Options, Surroundings
from controller.deploy.paths import DeployPaths
from controller.deploy.ssh import Connection, SshConnection
from controller.deploy.wheels import PinnedWheel
from controller.errors import DeviceError, EvidenceError, OperatorError
from controller.journal import Journal, Kind
from controller.pki import Role, create_site_pki, issue_certificate, write_issued
from controller.site import Dpu, Site
from protos.v1 import agent_pb2

pytestmark = pytest.mark.rig

Device = Any  # the fixture of conftest.py: a real sshd
NAME = "node1-dpu0"

AGENT = """\
import hashlib, json, os, secrets, signal, sys
from pathlib import Path
MARK = "@MARK@"
def main():
    assert sys.flags.isolated and sys.flags.no_site and sys.flags.dont_write_bytecode, sys.flags
    assert sys.argv[0] == "weighbridge-agent" and sys.argv[1] in ("run", "check-config"), sys.argv
    path = Path(sys.argv[sys.argv.index("--config") + 1])
    config = json.loads(path.read_text())
    for name in ("key", "certificate", "ca"):
        (path.parent / config[name]).read_bytes()
    if sys.argv[1] == "check-config":
        if MARK == "unfit":
            sys.exit("error: agent.json: told is not a key of this file")
        return 0
    if MARK == "broken":
        sys.exit("this release is broken")
    state = Path(config["state_directory"])
    key = state / "frame.key"
    if not key.exists():
        key.write_text(secrets.token_hex(32))
    manifest = (Path(__file__).resolve().parents[1] / "manifest.json").read_bytes()
    answer = {"pid": os.getpid(), "agent": config["agent"], "version": MARK, "key": key.read_text(),
              "bundle": hashlib.sha256(manifest).hexdigest()}
    new = state / ".answer"
    new.write_text(json.dumps(answer))
    new.replace(state / "answer.json")
    while True:
        signal.pause()
"""


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@dataclass
class Scene:
    """A site of one DPU, its device, and what was told while deploying."""

    site: Site
    device: Device
    folder: Path
    agent_source: Path
    journal: Journal
    options: Options
    surroundings: Surroundings
    told: list[str]

    @property
    def root(self) -> Path:
        return Path(self.options.paths.root)

    @property
    def state(self) -> Path:
        return Path(self.options.paths.state)

    def release(self, mark: str, ballast: int = 0) -> None:
        """The next bundle to be built."""
        self.agent_source.write_text(AGENT.replace("@MARK@", mark))
        (self.agent_source.parent / "ballast.o").write_bytes(os.urandom(ballast))

    def deploy(self, **changes: Any) -> Deployed:
        options = replace(self.options, **changes)
        self.told.clear()
        return deploy(
            self.site,
            NAME,
            self.journal,
            time.monotonic_ns,
            options=options,
            progress=self.told.append,
            surroundings=self.surroundings,
        )

    def answer(self) -> dict[str, Any]:
        answer: dict[str, Any] = json.loads((self.state / "answer.json").read_text())
        return answer

    def in_force(self) -> tuple[str, str]:
        return str((self.root / "current").readlink()), str((self.root / "etc").readlink())

    def calls(self) -> list[str]:
        return (self.folder / "run" / "calls").read_text().splitlines()


def describe_from(state: Path) -> Callable[[str, Credential, float], agent_pb2.AgentDescription]:
    def describe(address: str, credential: Credential, timeout_s: float) -> agent_pb2.AgentDescription:
        assert address == "127.0.0.1:7443"
        assert credential.identity.role is Role.CONTROLLER
        assert timeout_s > 0
        try:
            answer = json.loads((state / "answer.json").read_text())
        except FileNotFoundError as error:
            raise DeviceError("no answer: never started") from error
        if not alive(answer["pid"]):
            raise DeviceError("no answer: not running")
        key = Ed25519PrivateKey.from_private_bytes(bytes.fromhex(answer["key"])).public_key().public_bytes_raw()
        return agent_pb2.AgentDescription(
            agent=answer["agent"], agent_version=answer["version"], bundle_sha256=answer["bundle"], frame_public_key=key
        )

    return describe


def site_text(device: Device) -> str:
    return f"""\
version: 1
site: demo
controller: {{journal: journal.db, ca: pki/ca.pem, certificate: pki/controller.pem, key: pki/controller.key}}
pods: [{{name: pod-a, nodes: [node1]}}]
nodes:
  - name: node1
    dpus:
      - name: {NAME}
        agent: "127.0.0.1:7443"
        ssh: {{address: "127.0.0.1:{device.port}", user: root, host_key: "{device.host_key}", key: {device.login_key}}}
        uplinks: [{{name: lo, host_port: pf0hpf, line_rate: 10Gbit/s, mtu: 1500}}]
        agent_settings: {{clock_offset_ns: 5}}
links: [{{name: node1/lo, dpu: {NAME}, uplink: lo, switch: sw1, port: eth1}}]
switches:
  - name: sw1
    address: "127.0.0.1:161"
    snmp: {{version: 2c, insecure: true, community_file: secret}}
    refresh: 3.5s
    framing: l2_without_fcs
limits: [{{scope: node, window: 10s, bytes: 10MB}}]
"""


@pytest.fixture
def scene(  # noqa: PLR0917  fixtures
    device: Device,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    sources: dict[str, Path],
    make_wheel: Callable[[Path, str, dict[str, str]], PinnedWheel],
    machine: DeployPaths,
) -> Iterator[Scene]:
    wheels = [make_wheel(tmp_path / "wheels", "thing-1.0-py3-none-any.whl", {"thing.py": "A = 1\n"})]
    monkeypatch.setattr(bundles, "fetch", lambda _target, _cache: wheels)
    monkeypatch.setattr(bundles, "package_folder", lambda name: sources.get(name) or package_folder(name))
    create_site_pki(tmp_path / "pki", site="demo", controller="ctl", agents={NAME: "127.0.0.1"})
    with Journal.create(tmp_path / "journal.db") as journal:
        made = Scene(
            sites.loads(site_text(device).encode(), tmp_path / "site.yaml"),
            device,
            tmp_path,
            sources["dpu_agent"] / "cli.py",
            journal,
            Options(build_directory=tmp_path / "build", paths=machine, start_timeout_s=4.0),
            Surroundings(describe=describe_from(Path(machine.state))),
            [],
        )
        made.release("one")
        yield made


def test_a_first_deployment(scene: Scene) -> None:
    done = scene.deploy()
    assert (done.agent, done.version, done.sent, done.restarted, done.enrolled) == (NAME, "one", True, True, True)
    root = scene.root
    current, etc = scene.in_force()
    assert current == f"releases/{done.bundle_sha256}"
    assert done.bundle_sha256 == hashlib.sha256((root / "current" / "manifest.json").read_bytes()).hexdigest()
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (root / etc).iterdir()}
    assert modes == {"agent.json": 0o644, "agent.pem": 0o644, "agent.key": 0o600, "ca.pem": 0o644}
    for ours, theirs in (
        ("agents/node1-dpu0.pem", "agent.pem"),
        ("agents/node1-dpu0.key", "agent.key"),
        ("ca.pem", "ca.pem"),
    ):
        assert (scene.folder / "pki" / ours).read_bytes() == (root / "etc" / theirs).read_bytes()
    config = json.loads((root / "etc" / "agent.json").read_text())
    assert config["agent"] == NAME
    assert config["listen"] == "127.0.0.1:7443"
    assert config["clock_offset_ns"] == 5
    assert config["ports"] == [
        {"name": "pf0hpf", "role": "host_port", "refresh_ms": 0, "source": "netlink"},
        {"name": "lo", "role": "uplink", "refresh_ms": 0, "source": "netlink"},
    ]
    assert stat.S_IMODE(scene.state.stat().st_mode) == 0o700
    assert stat.S_IMODE((root / "settings").stat().st_mode) == 0o700
    assert sorted(path.name for path in root.iterdir()) == ["current", "etc", "releases", "settings"]
    steps = [text for text in scene.told if ": step " in text]
    assert [text.split(": ")[1] for text in steps] == [f"step {n} of 10" for n in range(1, 11)]
    assert any("not a BlueField" in text for text in scene.told)
    assert any("pf0hpf is not there now" in text for text in scene.told)
    pinned = enrolled(scene.journal, NAME)
    assert pinned is not None
    assert pinned.bundle_sha256 == done.bundle_sha256


def test_a_second_deployment_of_the_same_does_nothing(scene: Scene) -> None:
    first = scene.deploy()
    pid, entries, calls = scene.answer()["pid"], len(scene.journal), scene.calls()
    second = scene.deploy()
    assert (second.sent, second.restarted, second.enrolled) == (False, False, False)
    assert second.bundle_sha256 == first.bundle_sha256
    assert scene.answer()["pid"] == pid
    assert len(scene.journal) == entries
    assert scene.calls() == calls


def test_a_stopped_agent_is_started_again_without_sending(scene: Scene) -> None:
    scene.deploy()
    pid = scene.answer()["pid"]
    os.kill(pid, signal.SIGKILL)
    done = scene.deploy()
    assert (done.sent, done.restarted, done.enrolled) == (False, True, False)
    assert scene.answer()["pid"] != pid


def test_new_releases_replace_old_ones_and_two_are_kept(scene: Scene) -> None:
    names = []
    for mark in ("one", "two", "three"):
        scene.release(mark)
        done = scene.deploy()
        assert (done.version, done.sent, done.restarted, done.enrolled) == (mark, True, True, True)
        names.append(done.bundle_sha256)
    assert sorted(path.name for path in (scene.root / "releases").iterdir()) == sorted(names[1:])
    assert len(list((scene.root / "settings").iterdir())) == 1
    scene.release("two")
    assert scene.deploy().sent is False  # it is still there
    assert scene.answer()["version"] == "two"
    assert [entry.sequence for entry in scene.journal.entries(kinds=[Kind.ENROLMENT])] == [1, 2, 3, 4]


def test_changed_settings_are_sent_and_switched_as_one(scene: Scene) -> None:
    scene.deploy()
    current, etc = scene.in_force()
    scene.site = sites.loads(scene.site.content + b"collection: {frame_interval: 500ms}\n", scene.site.path)
    done = scene.deploy()
    assert (done.sent, done.restarted) == (False, True)
    assert scene.in_force()[0] == current
    assert scene.in_force()[1] != etc
    assert json.loads((scene.root / "etc" / "agent.json").read_text())["frame_interval_ms"] == 500
    assert len(list((scene.root / "settings").iterdir())) == 2


def test_a_release_that_does_not_come_up_is_put_back(scene: Scene) -> None:
    good = scene.deploy()
    before = scene.in_force()
    scene.release("broken")
    scene.site = sites.loads(scene.site.content + b"collection: {frame_interval: 500ms}\n", scene.site.path)
    entries = len(scene.journal)
    with pytest.raises(DeviceError) as raised:
        scene.deploy()
    text = str(raised.value)
    assert "step 8 of 10 (wait for the agent to answer)" in text
    assert "this release is broken" in text  # the end of its log
    assert f"Release {good.bundle_sha256[:12]} was put back and answers" in text
    assert scene.in_force() == before
    assert scene.answer()["version"] == "one"
    assert alive(scene.answer()["pid"])
    assert len(scene.journal) == entries


def test_settings_that_the_new_release_refuses_never_come_into_force(scene: Scene) -> None:
    scene.deploy()
    before, pid, calls = scene.in_force(), scene.answer()["pid"], scene.calls()
    scene.release("unfit")
    with pytest.raises(DeviceError) as raised:
        scene.deploy()
    assert "step 6 of 10 (send the settings)" in str(raised.value)
    assert "told is not a key of this file" in str(raised.value)
    assert (scene.in_force(), scene.answer()["pid"], scene.calls()) == (before, pid, calls)


def test_a_first_release_that_does_not_come_up_leaves_no_service(scene: Scene) -> None:
    scene.release("broken")
    with pytest.raises(DeviceError, match="There was no agent before, so its service was removed again"):
        scene.deploy()
    assert not (scene.root / "current").is_symlink()
    assert not (scene.root / "etc").is_symlink()
    assert list(Path(scene.options.paths.supervisor_services).iterdir()) == []
    assert "stop weighbridge-agent" in scene.calls()
    scene.release("one")
    assert scene.deploy().version == "one"


def test_a_supervisor_that_refuses_is_said_and_so_is_that_nothing_could_be_put_back(scene: Scene) -> None:
    scene.deploy()
    scene.release("two")
    (scene.folder / "run" / "refuse").touch()
    with pytest.raises(DeviceError) as raised:
        scene.deploy()
    assert "step 7 of 10 (switch over)" in str(raised.value)
    assert "the supervisor refuses" in str(raised.value)
    assert "could not be put back either" in str(raised.value)


def test_an_operators_interrupt_puts_back_too(scene: Scene) -> None:
    good = scene.deploy()
    before = scene.in_force()
    scene.release("broken")

    calls = []

    def sleep(seconds: float) -> None:
        calls.append(seconds)
        if len(calls) == 1:
            raise KeyboardInterrupt
        time.sleep(seconds)

    scene.surroundings = replace(scene.surroundings, sleep=sleep)
    with pytest.raises(KeyboardInterrupt):
        scene.deploy()
    assert scene.in_force() == before
    assert f"Release {good.bundle_sha256[:12]} was put back and answers" in scene.told[-1] + scene.told[-2]
    assert scene.answer()["version"] == "one"


# Keys


def test_another_frame_key_is_refused_journaled_and_put_back(scene: Scene) -> None:
    scene.deploy()
    pinned = enrolled(scene.journal, NAME)
    before = scene.in_force()
    (scene.state / "frame.key").unlink()
    scene.release("two")
    with pytest.raises(EvidenceError) as raised:
        scene.deploy()
    assert raised.value.exit_code == 1
    assert "step 9 of 10 (enrol the agent)" in str(raised.value)
    assert "--replace-key" in str(raised.value)
    assert scene.in_force() == before
    assert enrolled(scene.journal, NAME) == pinned
    attempt = scene.journal.last(Kind.ATTEMPT, NAME)
    assert attempt is not None
    assert json.loads(attempt.body)["reason"] == "other-key"
    done = scene.deploy(replace_key=True)
    assert done.enrolled
    entry = scene.journal.last(Kind.ENROLMENT, NAME)
    assert entry is not None
    assert pinned is not None
    assert entry.meta["replaces"] == pinned.public_key.hex()
    assert int(str(entry.meta["numbers_from"])) > 0, "the new key's frames are a chain of their own"
    assert scene.deploy().enrolled is False


# Damage and interruption


def test_a_damaged_release_is_found_and_sent_again(scene: Scene) -> None:
    done = scene.deploy()
    pid = scene.answer()["pid"]
    victim = scene.root / "releases" / done.bundle_sha256 / "protos" / "__init__.py"
    victim.write_text("# flipped\n")
    again = scene.deploy()
    assert again.sent
    assert victim.read_text() == ""
    assert scene.answer()["pid"] == pid
    (scene.root / "etc" / "agent.key").chmod(0o644)
    scene.deploy()
    assert stat.S_IMODE((scene.root / "etc" / "agent.key").stat().st_mode) == 0o600


def sessions_of(sshd: int) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue
            if parent == sshd:
                found.append(int(entry.name))
    return found


def test_an_interrupted_upload_leaves_the_old_release_running(scene: Scene) -> None:
    scene.deploy()
    before, pid = scene.in_force(), scene.answer()["pid"]
    scene.release("two", ballast=40 * 2**20)
    cut = threading.Event()

    def cut_the_connection() -> None:
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            sent = [path.stat().st_size for path in scene.root.glob("incoming-*/bundle.tar.gz")]
            if sent and sent[0] > 1_000_000:
                for session in sessions_of(scene.device.namespace_pid):
                    os.kill(session, signal.SIGKILL)
                cut.set()
                return
            time.sleep(0.01)

    thread = threading.Thread(target=cut_the_connection)
    thread.start()
    with pytest.raises(DeviceError, match=r"step 5 of 10 \(send the bundle\)"):
        scene.deploy()
    thread.join()
    assert cut.is_set()
    assert scene.in_force() == before
    assert scene.answer()["pid"] == pid
    assert alive(pid)
    left = list(scene.root.glob("incoming-*"))
    assert len(left) == 1
    assert stat.S_IMODE(left[0].stat().st_mode) == 0o700
    os.utime(left[0], (0, 0))
    scene.release("three")
    assert scene.deploy().version == "three"
    assert not list(scene.root.glob("incoming-*"))


def test_a_disk_without_room_is_said_before_anything_is_sent(scene: Scene) -> None:
    scene.release("one", ballast=16 * 2**20)
    paths = replace(scene.options.paths, root=f"{scene.device.small}/weighbridge")
    with pytest.raises(DeviceError, match=r"step 5 of 10 .* MB free; the release needs 3\d MB"):
        scene.deploy(paths=paths)
    with SshConnection("dpu1", scene.device.ssh()) as connection:
        assert connection.run(f"ls {paths.root}; ls {paths.root}/releases").stdout.split() == ["releases", "settings"]


# Refused before the device is touched


def no_connection(_dpu: Dpu) -> Connection:
    raise AssertionError("the device was contacted")


@pytest.mark.parametrize(
    ("name", "ip", "problem"),
    [
        (NAME, "127.0.0.2", r"is for the address 127\.0\.0\.2"),
        ("other", "127.0.0.1", "is for weighbridge://demo/agent/other"),
    ],
)
def test_a_certificate_of_somebody_else_is_not_installed(scene: Scene, name: str, ip: str, problem: str) -> None:
    from controller.credentials import load_ca  # noqa: PLC0415

    issued = issue_certificate(load_ca(scene.folder / "pki"), Role.AGENT, name, ip)
    write_issued(scene.folder / "pki" / "agents" / NAME, issued, renew=True)
    scene.surroundings = replace(scene.surroundings, connect=no_connection)
    with pytest.raises(OperatorError, match=rf"step 1 of 10 .*{problem}.*pki issue"):
        scene.deploy()


def test_a_missing_or_foreign_certificate_is_not_installed(scene: Scene, tmp_path: Path) -> None:
    scene.surroundings = replace(scene.surroundings, connect=no_connection)
    certificate = scene.folder / "pki" / "agents" / f"{NAME}.pem"
    certificate.rename(tmp_path / "aside")
    with pytest.raises(OperatorError, match=r"step 1 of 10 .*is not there"):
        scene.deploy()
    create_site_pki(tmp_path / "foreign", site="demo", controller="ctl", agents={NAME: "127.0.0.1"})
    for ending in (".pem", ".key"):
        (tmp_path / "foreign" / "agents" / f"{NAME}{ending}").replace(certificate.with_suffix(ending))
    with pytest.raises(OperatorError, match="was not signed by the authority"):
        scene.deploy()


def test_without_ssh_in_the_site_file_it_says_so(scene: Scene) -> None:
    lines = [line for line in scene.site.content.splitlines() if b"ssh:" not in line]
    scene.site = sites.loads(b"\n".join(lines), scene.site.path)
    with pytest.raises(OperatorError, match="has no `ssh` for it"):
        scene.deploy()


def test_a_wrong_host_key_stops_at_step_two(scene: Scene) -> None:
    key = "AAAAC3NzaC1lZDI1NTE5AAAAIGkMlRnMl2j5vYlPbFRs4Cb4V0xO1sXnmNMtFZt7fZ0Q"
    content = scene.site.content.replace(scene.device.host_key.encode(), f"ssh-ed25519 {key}".encode())
    assert content != scene.site.content
    scene.site = sites.loads(content, scene.site.path)
    with pytest.raises(DeviceError, match=r"step 2 of 10 \(connect with the pinned host key\).*Nothing was sent"):
        scene.deploy()
    assert not scene.root.exists()


def test_devices_it_cannot_serve_are_left_alone(scene: Scene) -> None:
    paths = scene.options.paths
    with pytest.raises(DeviceError, match=r"step 3 of 10 .*there is no /nowhere/python3"):
        scene.deploy(paths=replace(paths, python="/nowhere/python3"))
    with pytest.raises(DeviceError, match=r"step 3 of 10 .*did not describe the device"):
        scene.deploy(paths=replace(paths, python="/bin/true"))
    (scene.device.bin / "supervisorctl").rename(scene.device.bin / "aside")
    with pytest.raises(DeviceError, match=r"step 3 of 10 .*nor is there a supervisorctl"):
        scene.deploy()
    (scene.device.bin / "aside").rename(scene.device.bin / "supervisorctl")
    assert not scene.root.exists()
    (scene.root / "etc").mkdir(parents=True)
    with pytest.raises(DeviceError, match=r"step 3 of 10 .*is a folder that deployment did not make"):
        scene.deploy()
