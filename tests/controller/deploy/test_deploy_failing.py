"""Every question that a deployment asks the device fails once, from memory.

Each failure names its step, and whatever had been changed is put back.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from controller import site as sites
from controller.credentials import Credential
from controller.deploy.bundle import Bundle
from controller.deploy.deploy import deploy
from controller.deploy.options import Deployed, Options, Surroundings
from controller.deploy.ssh import COMMAND_TIMEOUT_S, Outcome
from controller.deploy.ssh_double import ScriptedConnection
from controller.deploy.target import Target
from controller.errors import DeviceError
from controller.journal import Journal
from controller.pki import create_site_pki
from protos.v1 import agent_pb2

SITE = """\
version: 1
site: demo
controller: {journal: journal.db, ca: pki/ca.pem, certificate: pki/controller.pem, key: pki/controller.key}
pods: [{name: pod-a, nodes: [node1]}]
nodes:
  - name: node1
    dpus:
      - {name: a, agent: "10.0.0.1:7443", uplinks: [{name: p0, host_port: h0, line_rate: 1Gbit/s, mtu: 1500}]}
links: [{name: node1/p0, dpu: a, uplink: p0, switch: sw1, port: eth1}]
switches:
  - name: sw1
    address: "127.0.0.1:161"
    snmp: {version: 2c, insecure: true, community_file: secret}
    refresh: 3.5s
    framing: l2_without_fcs
limits: [{scope: node, window: 10s, bytes: 10MB}]
"""
OLD, NEW = "0" * 64, hashlib.sha256(b"new").hexdigest()
LOOK = {
    "uid": 0,
    "python": "3.10",
    "machine": "aarch64",
    "kernel": "5.15",
    "glibc": "glibc 2.35",
    "systemd": True,
    "supervisor": None,
    "current": f"releases/{OLD}",
    "settings": "settings/old",
    "settings_is_folder": False,
    "ports": {name: {"there": True, "driver": None, "pci": None} for name in ("p0", "h0")},
    "device": None,
    "mlxprivhost": None,
    "mlxconfig": None,
}


class Failing(ScriptedConnection):
    """Fails at its ``fail_at``-th question, by a broken connection or by an exit code; counts commands and uploads."""

    def __init__(self, fail_at: int | None, how: str) -> None:
        super().__init__(
            answers={
                "import json": Outcome(0, json.dumps(LOOK), ""),
                "/check_release.py": self._checked,
                "df -P": Outcome(
                    0, "Filesystem 1B-blocks Used Available Use% Mounted\n/dev/x 9 9 900000000 1% /\n", ""
                ),
                "echo there": Outcome(0, "there\n[Unit]\n", ""),
                "ls -1t": Outcome(0, f"{NEW}\n{OLD}\n{'1' * 64}\n", ""),
            }
        )
        self.fail_at, self.how, self.asked = fail_at, how, 0

    def _checked(self, command: str) -> Outcome:
        return Outcome(0, f"{NEW}\n", "") if "incoming" in command else Outcome(1, "", "no such file")

    def _fails(self) -> bool:
        self.asked += 1
        return self.fail_at is not None and self.asked == self.fail_at

    def run(self, command: str, *, timeout_s: float = COMMAND_TIMEOUT_S) -> Outcome:
        fails = self._fails()
        outcome = super().run(command, timeout_s=timeout_s)
        if fails and self.how == "breaks":
            raise DeviceError("the connection broke")
        return Outcome(23, "", "it went wrong") if fails else outcome

    def upload(self, content: bytes, path: str, *, mode: int) -> None:
        if self._fails():
            raise DeviceError("the upload broke")
        super().upload(content, path, mode=mode)

    def in_force(self) -> tuple[str, str]:
        """Where the links point now, by the commands that were run."""
        links = {"current": f"releases/{OLD}", "etc": "settings/old"}
        for command in self.commands:
            for link in links:
                if command.startswith("rm -f") and f"/opt/weighbridge/{link} && sync" in command:
                    links[link] = command.split("ln -s ")[1].split()[0]
        return links["current"], links["etc"]


@dataclass
class Scene:
    """A site, a bundle from memory, and an agent that runs what ``current`` points to."""

    folder: Path
    journal: Journal
    told: list[str] = field(default_factory=list)
    says: dict[str, str] = field(default_factory=dict)
    key: bytes = Ed25519PrivateKey.from_private_bytes(bytes(32)).public_key().public_bytes_raw()

    def deploy(self, connection: Failing) -> Deployed:
        def describe(_address: str, _own: Credential, _timeout_s: float) -> agent_pb2.AgentDescription:
            running = connection.in_force()[0].rpartition("/")[2]
            said: dict[str, Any] = {"agent": "a", "bundle_sha256": running, **self.says}
            return agent_pb2.AgentDescription(agent_version="0.1.0", frame_public_key=self.key, **said)

        archive = self.folder / "bundle.tar.gz"
        archive.write_bytes(b"archive")
        sha256 = hashlib.sha256(b"archive").hexdigest()
        clock = itertools.count()
        around = Surroundings(
            connect=lambda _dpu: connection,
            build=lambda target, _folder: Bundle(NEW, archive, sha256, "0.1.0", target, 40_000_000),
            describe=describe,
            monotonic_s=lambda: float(next(clock)),
            sleep=lambda _seconds: None,
        )
        site = sites.loads(SITE.encode(), self.folder / "site.yaml")
        return deploy(
            site, "a", self.journal, lambda: 1, options=Options(), progress=self.told.append, surroundings=around
        )


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    create_site_pki(tmp_path / "pki", site="demo", controller="c", agents={"a": "10.0.0.1"})
    with Journal.create(tmp_path / "journal.db") as journal:
        yield Scene(tmp_path, journal)


def test_without_a_failure_the_new_release_is_in_force(scene: Scene) -> None:
    connection = Failing(None, "")
    done = scene.deploy(connection)
    assert (done.bundle_sha256, done.sent, done.restarted, done.enrolled) == (NEW, True, True, True)
    assert connection.in_force()[0] == f"releases/{NEW}"
    assert connection.closed
    removed = [command for command in connection.commands if "rm -rf /opt/weighbridge/releases/" in command]
    assert removed == [f"rm -rf /opt/weighbridge/releases/{'1' * 64}"]
    uploads = {path.rpartition("/")[2]: mode for path, (_, mode) in connection.files.items()}
    assert uploads["agent.key"] == 0o600
    assert uploads["bundle.tar.gz"] == 0o600
    folders = {path.rpartition("/")[0] for path in connection.files if "agent.key" in path}
    assert all("/incoming-" in folder for folder in folders)
    made_private = [c for c in connection.commands if "mkdir -m 0700" in c and "incoming-" in c]
    assert made_private


@pytest.mark.parametrize("how", ["breaks", "exit code"])
def test_each_question_that_fails_is_told_and_nothing_half_done_stays_in_force(
    scene: Scene, tmp_path: Path, how: str
) -> None:
    connection = Failing(None, how)
    scene.deploy(connection)
    everything, tolerated = connection.asked, []
    for number in range(1, everything + 1):
        with Journal.create(tmp_path / f"{how}-{number}.db") as journal:
            failing = Failing(number, how)
            again = Scene(tmp_path, journal)
            try:
                again.deploy(failing)
            except DeviceError as error:
                text = str(error)
            else:
                tolerated.append(failing.commands[-1] if failing.commands else "")
                assert failing.in_force()[0] == f"releases/{NEW}"
                assert failing.closed
                continue
            assert failing.closed, number
            assert re.match(r"a, step \d+ of 10 \(", text), text
            enrolled = len(list(journal.entries())) > 0
            old = failing.in_force() == (f"releases/{OLD}", "settings/old")
            # Either the old release is in force and nothing was enrolled, or only cleaning up was left to do.
            assert old is not enrolled, (number, text)
            if enrolled:
                assert "step 10 of 10" in text
    # Looking whether something is there already may fail: then it is sent. Cleaning up may fail: that is only told.
    assert 1 <= len(tolerated) <= 4


def test_a_failed_clean_up_is_told_and_does_not_hide_the_failure(scene: Scene) -> None:
    connection = Failing(None, "")
    connection.answers = {
        "rm -rf /opt/weighbridge/incoming": lambda command: (
            Outcome(1, "", "read-only file system") if command.startswith("rm") else Outcome(0, "", "")
        ),
        "systemctl restart": Outcome(1, "", "Job failed"),
        **connection.answers,
    }
    with pytest.raises(DeviceError) as raised:
        scene.deploy(connection)
    assert "step 7 of 10 (switch over)" in str(raised.value)
    assert "Job failed" in str(raised.value)
    assert any("read-only file system" in text for text in scene.told)
    assert connection.closed


def test_targets_reach_the_builder(scene: Scene) -> None:
    connection = Failing(None, "")
    scene.deploy(connection)
    assert any(str(Target("3.10", "aarch64")) in text for text in scene.told)


@pytest.mark.parametrize(
    ("says", "problem"),
    [
        ({"agent": "b"}, "agent 'b' with the bundle .* answers at 10.0.0.1:7443, expected is 'a'"),
        ({"bundle_sha256": OLD}, f"agent 'a' with the bundle {OLD[:12]} answers .* with {NEW[:12]}"),
        ({"bundle_sha256": ""}, "agent 'a' with the bundle none answers"),
    ],
)
def test_who_answers_must_be_the_agent_with_the_bundle(scene: Scene, says: dict[str, str], problem: str) -> None:
    scene.says = says
    connection = Failing(None, "")
    with pytest.raises(DeviceError, match=rf"step 8 of 10 \(wait for the agent to answer\): {problem}"):
        scene.deploy(connection)
    assert connection.in_force() == (f"releases/{OLD}", "settings/old")
    assert len(scene.journal) == 0


def test_an_unpacked_release_of_another_name_never_comes_into_force(scene: Scene) -> None:
    connection = Failing(None, "")
    connection.answers["/check_release.py"] = Outcome(0, f"{OLD}\n", "")
    with pytest.raises(DeviceError, match=rf"step 5 of 10 .*unpacked release {OLD[:12]} where {NEW[:12]} was sent"):
        scene.deploy(connection)
    assert connection.in_force() == (f"releases/{OLD}", "settings/old")
