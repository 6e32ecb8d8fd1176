"""``weighbridge agents``, and asking agents over real mutual TLS on loopback."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import grpc
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from typer.testing import CliRunner, Result

from controller.cli import app
from controller.credentials import load_credential
from controller.deploy import cli
from controller.deploy.enrolment import Enrolment, enrol
from controller.deploy.look import Mode
from controller.deploy.options import Deployed
from controller.deploy.probe import describe
from controller.deploy.status import role_name
from controller.deploy.target import TARGETS, Target
from controller.errors import DeviceError, EvidenceError, OperatorError
from controller.journal import Journal, Kind
from controller.pki import Role, create_ca, create_site_pki, issue_certificate, write_issued
from protos.v1 import agent_pb2, agent_pb2_grpc, frame_pb2, meter_pb2, reading_pb2

pytestmark = pytest.mark.loopback

KEY = Ed25519PrivateKey.from_private_bytes(bytes(32)).public_key().public_bytes_raw()


@dataclass
class Scene:
    """A site of two agents, of which ``a`` answers."""

    folder: Path
    port: int

    def run(self, *arguments: str) -> Result:
        site = ["--site", str(self.folder / "site.yaml")] if arguments[0] != "bundle" else []
        return CliRunner().invoke(app, ["agents", *arguments, *site], env={"COLUMNS": "200"})


def site_text(port: int) -> str:
    uplinks = "[{name: p0, host_port: h0, line_rate: 1Gbit/s, mtu: 1500}]"
    return f"""\
version: 1
site: demo
controller: {{journal: journal.db, ca: pki/ca.pem, certificate: pki/controller.pem, key: pki/controller.key}}
pods: [{{name: pod-a, nodes: [node1, node2]}}]
nodes:
  - {{name: node1, dpus: [{{name: a, agent: "127.0.0.1:{port}", uplinks: {uplinks}}}]}}
  - {{name: node2, dpus: [{{name: b, agent: "127.0.0.1:1", uplinks: {uplinks}}}]}}
links:
  - {{name: node1/p0, dpu: a, uplink: p0, switch: sw1, port: eth1}}
  - {{name: node2/p0, dpu: b, uplink: p0, switch: sw1, port: eth2}}
switches:
  - name: sw1
    address: "127.0.0.1:161"
    snmp: {{version: 2c, insecure: true, community_file: secret}}
    refresh: 3.5s
    framing: l2_without_fcs
limits: [{{scope: node, window: 10s, bytes: 10MB}}]
"""


class Agent(agent_pb2_grpc.AgentServiceServicer):
    """Says what an agent would."""

    def Describe(self, _request: Any, _context: Any) -> agent_pb2.AgentDescription:  # noqa: N802  the service's name
        return agent_pb2.AgentDescription(
            agent="a",
            agent_version="0.1.0",
            bundle_sha256="ab" * 32,
            frame_public_key=KEY,
            clock=frame_pb2.ClockStamp(
                boot_id="0123456789", monotonic_ns=2**63, wall_ns=time.time_ns() + 3_600 * 10**9
            ),
            frame_interval_ns=10**9,
            ports=[
                agent_pb2.PortDescription(
                    port="p0", role=reading_pb2.PORT_ROLE_UPLINK, speed_bytes_per_s=2**40, source="netlink-stats64"
                ),
                agent_pb2.PortDescription(port="h0", role=reading_pb2.PORT_ROLE_HOST_PORT),
            ],
            spool=frame_pb2.SpoolState(oldest_sequence=1, frames=2, bytes=3, lost_frames=4),
            class_table_sequence=5,
            class_table_sha256=b"\xcd" * 32,
            meters=[
                agent_pb2.MeterDescription(
                    port="p0",
                    width_ns=10**6,
                    source="ebpf-meter",
                    epoch=2,
                    lost_buckets=17,
                    offloaded_ppm=12_500,
                    findings=["hook-bypassed"],
                    texts=["an XDP program is in front"],
                    classes=[
                        meter_pb2.ClassTotals(
                            traffic_class=1, total=meter_pb2.MeterTotals(raw_bytes=2**40, wire_bytes=2**60, segments=9)
                        ),
                        meter_pb2.ClassTotals(traffic_class=99, total=meter_pb2.MeterTotals(wire_bytes=1)),
                    ],
                    peers=[
                        meter_pb2.PeerTotals(peer=f"node{number}", wire_bytes=1_000 * number, segments=number)
                        for number in range(1, 7)
                    ],
                ),
                agent_pb2.MeterDescription(port="h0", unavailable="no-libbpf", unavailable_text="install libbpf"),
            ],
        )


@pytest.fixture
def serve() -> Iterator[Callable[[Path, Path, Path], int]]:
    """Starts an agent with a certificate, key and authority, and returns its port."""
    servers = []

    def start(certificate: Path, key: Path, ca: Path) -> int:
        server = grpc.server(ThreadPoolExecutor(2))
        agent_pb2_grpc.add_AgentServiceServicer_to_server(Agent(), server)  # type: ignore[no-untyped-call]
        tls = grpc.ssl_server_credentials(
            [(key.read_bytes(), certificate.read_bytes())], ca.read_bytes(), require_client_auth=True
        )
        port = server.add_secure_port("127.0.0.1:0", tls)
        server.start()
        servers.append(server)
        return int(port)

    yield start
    for server in servers:
        server.stop(None).wait()


@pytest.fixture
def scene(tmp_path: Path, serve: Callable[[Path, Path, Path], int]) -> Scene:
    pki = tmp_path / "pki"
    create_site_pki(pki, site="demo", controller="c", agents={"a": "127.0.0.1", "b": "127.0.0.1"})
    port = serve(pki / "agents/a.pem", pki / "agents/a.key", pki / "ca.pem")
    (tmp_path / "site.yaml").write_text(site_text(port))
    (tmp_path / "secret").write_text("public\n")
    (tmp_path / "secret").chmod(0o600)
    Journal.create(tmp_path / "journal.db").close()
    return Scene(tmp_path, port)


def own(scene: Scene) -> Any:
    pki = scene.folder / "pki"
    return load_credential(pki / "controller.pem", pki / "controller.key", pki / "ca.pem")


def pin(scene: Scene, key: bytes) -> None:
    with Journal.open(scene.folder / "journal.db") as journal:
        enrol(journal, lambda: 1, Enrolment("a", key, "", "0"), replace_key=False)


# Asking


def test_an_agent_says_what_it_is(scene: Scene) -> None:
    assert describe(f"127.0.0.1:{scene.port}", own(scene)).agent_version == "0.1.0"


def test_an_agent_of_another_authority_is_not_believed(scene: Scene, serve: Any, tmp_path: Path) -> None:
    create_site_pki(tmp_path / "x", site="demo", controller="c", agents={"a": "127.0.0.1"})
    port = serve(tmp_path / "x/agents/a.pem", tmp_path / "x/agents/a.key", scene.folder / "pki/ca.pem")
    with pytest.raises(DeviceError, match=r"unable to get local issuer certificate.*pki show"):
        describe(f"127.0.0.1:{port}", own(scene), 3)


def test_an_agent_at_anothers_address_is_not_believed(scene: Scene, serve: Any, tmp_path: Path) -> None:
    from controller.credentials import load_ca  # noqa: PLC0415

    write_issued(tmp_path / "elsewhere", issue_certificate(load_ca(scene.folder / "pki"), Role.AGENT, "a", "127.0.0.9"))
    port = serve(tmp_path / "elsewhere.pem", tmp_path / "elsewhere.key", scene.folder / "pki/ca.pem")
    with pytest.raises(DeviceError, match=r"Hostname Verification Check failed"):
        describe(f"127.0.0.1:{port}", own(scene), 3)


def test_a_controllers_certificate_cannot_serve(scene: Scene, serve: Any, tmp_path: Path) -> None:
    from controller.credentials import load_ca  # noqa: PLC0415

    issued = issue_certificate(load_ca(scene.folder / "pki"), Role.CONTROLLER, "c", "127.0.0.1")
    write_issued(tmp_path / "c", issued)
    port = serve(tmp_path / "c.pem", tmp_path / "c.key", scene.folder / "pki/ca.pem")
    with pytest.raises(DeviceError, match=r"unsupported certificate purpose"):
        describe(f"127.0.0.1:{port}", own(scene), 3)


def test_an_expired_agent_is_not_believed(scene: Scene, serve: Any, tmp_path: Path) -> None:
    from controller.credentials import load_ca  # noqa: PLC0415

    issued = issue_certificate(load_ca(scene.folder / "pki"), Role.AGENT, "a", "127.0.0.1", timedelta(seconds=-5))
    write_issued(tmp_path / "old", issued)
    port = serve(tmp_path / "old.pem", tmp_path / "old.key", scene.folder / "pki/ca.pem")
    with pytest.raises(DeviceError, match=r"certificate has expired"):
        describe(f"127.0.0.1:{port}", own(scene), 3)


# Status


def test_status_shows_every_agent_and_says_by_exit_code_that_one_is_silent(scene: Scene) -> None:
    pin(scene, KEY)
    shown = scene.run("status", "--json")
    assert shown.exit_code == 3
    first, second = json.loads(shown.stdout)
    assert first["agent"] == "a"
    assert first["enrolment"] == "enrolled"
    assert first["clock"]["boot_id"] == "0123456789"
    assert first["clock"]["monotonic_ns"] == str(2**63)
    assert abs(int(first["clock"]["wall_ahead_ns"]) - 3_600 * 10**9) < 30 * 10**9
    assert first["ports"][0]["speed_bytes_per_s"] == str(2**40)
    assert first["ports"][0]["role"] == "uplink"
    assert first["ports"][1]["speed_bytes_per_s"] is None
    assert first["spool"] == {"oldest_sequence": "1", "frames": "2", "bytes": "3", "lost_frames": "4", "trouble": None}
    assert (second["agent"], second["answers"]) == ("b", False)
    assert "does not answer" in second["problem"]
    table = scene.run("status")
    assert "no answer" in table.stdout
    assert "p0, h0" in table.stdout
    assert "2 frames, 4 lost" in table.stdout
    assert re.search(r"\+3[56]\d\d\.\d s", table.stdout)
    assert "b: the agent at 127.0.0.1:1 does not answer" in table.stderr
    assert scene.run("status", "a").exit_code == 0


def test_status_shows_each_ports_meter(scene: Scene) -> None:
    answer = json.loads(scene.run("status", "a", "--json").stdout)[0]
    assert answer["class_table"] == {"sequence": "5", "sha256": "cd" * 32}
    metered, without = answer["meters"]
    assert (metered["width_ns"], metered["epoch"], metered["lost_buckets"]) == ("1000000", 2, "17")
    assert metered["offloaded_fraction"] == 0.0125
    assert metered["findings"] == [{"kind": "hook-bypassed", "text": "an XDP program is in front"}]
    assert [(each["class"], each["wire_bytes"]) for each in metered["classes"]] == [
        ("same-pod", str(2**60)),
        ("99", "1"),
    ]
    assert metered["nodes"][5] == {"node": "node6", "wire_bytes": "6000", "segments": "6"}
    assert without == {"port": "h0", "unavailable": "no-libbpf", "text": "install libbpf"}
    table = scene.run("status", "a").stdout
    for shown in ("1 ms", "1.25 %", "hook-bypassed", "cdcdcdcdcdcd", "node6 6.00 kB", "2 more", "no-libbpf"):
        assert shown in table


def test_status_of_an_agent_with_another_key_is_a_failed_verification(scene: Scene) -> None:
    assert json.loads(scene.run("status", "a", "--json").stdout)[0]["enrolment"] == "not enrolled"
    pin(scene, Ed25519PrivateKey.generate().public_key().public_bytes_raw())
    shown = scene.run("status", "a", "--json")
    assert shown.exit_code == 1
    assert json.loads(shown.stdout)[0]["enrolment"] == "other key"


def test_a_role_of_a_newer_agent_is_shown_by_its_number() -> None:
    assert role_name(reading_pb2.PORT_ROLE_UPLINK) == "uplink"
    assert role_name(99) == "99"


# Deploying, with the deployment itself replaced


@pytest.fixture
def outcomes(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What deploying each agent brings: an error to raise, or how it ended; filled with the options it was given."""
    told: dict[str, Any] = {}

    def deploy_one(_site: Any, name: str, _journal: Any, now_ns: Any, *, options: Any, progress: Any, **_: Any) -> Any:
        assert now_ns() > 0
        progress(f"{name}: step 1")
        told.setdefault("options", []).append(options)
        outcome = told.get(name, Deployed(name, "0.1.0", "ab" * 32, Mode.ZERO_TRUST, True, True, False))
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    monkeypatch.setattr(cli, "deploy_one", deploy_one)
    return told


def test_deploy_tells_steps_on_stderr_and_the_outcome_on_stdout(scene: Scene, outcomes: dict[str, Any]) -> None:
    done = scene.run("deploy", "--all")
    assert done.exit_code == 0
    assert sorted(done.stderr.splitlines()) == ["a: step 1", "b: step 1"]
    assert "sent, restarted" in done.stdout
    rows = json.loads(scene.run("deploy", "b", "a", "--json").stdout)
    assert [row["agent"] for row in rows] == ["a", "b"]
    assert rows[0] == {
        "agent": "a",
        "ok": True,
        "version": "0.1.0",
        "bundle_sha256": "ab" * 32,
        "mode": "zero-trust",
        "sent": True,
        "restarted": True,
        "enrolled": False,
    }
    with Journal.open(scene.folder / "journal.db", read_only=True) as journal:
        assert journal.last(Kind.TIMELINE) is not None


@pytest.mark.parametrize(
    ("errors", "code"),
    [
        ({"a": DeviceError("a is down")}, 2),
        ({"a": DeviceError("a is down"), "b": EvidenceError("b has another key")}, 1),
        ({"b": OperatorError("b has no certificate")}, 2),
    ],
)
def test_one_that_fails_does_not_stop_the_others(
    scene: Scene, outcomes: dict[str, Any], errors: dict[str, Exception], code: int
) -> None:
    outcomes.update(errors)
    done = scene.run("deploy", "--all")
    assert done.exit_code == code
    assert len(outcomes["options"]) == 2
    for error in errors.values():
        assert f"error: {error}" in done.stderr
    rows = json.loads(scene.run("deploy", "--all", "--json").stdout)
    assert {row["agent"]: row["ok"] for row in rows} == {name: name not in errors for name in "ab"}


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["deploy"], "name agents, or give --all"),
        (["deploy", "a", "--all"], "name agents, or give --all"),
        (["deploy", "c"], "no agent called 'c'"),
        (["deploy", "a", "b", "--replace-key"], "one agent at a time"),
        (["deploy", "--all", "--replace-key"], "one agent at a time"),
        (["status", "c"], "no agent called 'c'"),
        (["bundle", "--python", "3.9", "--machine", "aarch64"], "there are no wheels for cp39-aarch64"),
    ],
)
def test_what_cannot_be_meant_is_refused(
    scene: Scene, outcomes: dict[str, Any], arguments: list[str], problem: str
) -> None:
    refused = scene.run(*arguments)
    assert refused.exit_code == 2
    assert problem in refused.stderr
    assert "options" not in outcomes


def test_without_a_journal_nothing_is_deployed(scene: Scene, outcomes: dict[str, Any]) -> None:
    (scene.folder / "journal.db").unlink()
    refused = scene.run("deploy", "a")
    assert refused.exit_code == 2
    assert "weighbridge init" in refused.stderr
    assert "options" not in outcomes


def test_several_deployments_build_a_bundle_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    built: list[Target] = []

    def build(target: Target, _folder: Path) -> Any:
        built.append(target)
        return target

    monkeypatch.setattr(cli, "build", build)
    once: Callable[[Target, Path], Any] = cli.once_a_target()
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(lambda target: once(target, tmp_path), [*TARGETS, *TARGETS])) == [*TARGETS, *TARGETS]
    assert sorted(built) == sorted(TARGETS)


def test_another_authority_of_the_same_name_does_not_help(scene: Scene) -> None:
    """The controller's own files are checked before anyone is asked."""
    (scene.folder / "pki/ca.pem").write_bytes(create_ca("demo").certificate_pem)
    refused = scene.run("status")
    assert refused.exit_code == 2
    assert "was not signed by the authority" in refused.stderr
