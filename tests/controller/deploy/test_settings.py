from __future__ import annotations

import json
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

import dpu_agent.config
from controller.credentials import Credential, load_credential
from controller.deploy.look import Looked, Mode
from controller.deploy.paths import DeployPaths
from controller.deploy.service import Supervisor, Systemd, service_for
from controller.deploy.settings import Settings, ports_of, settings_for
from controller.deploy.ssh_double import ScriptedConnection
from controller.errors import DeviceError, OperatorError
from controller.pki import create_site_pki
from controller.site import AgentSettings, Bond, Dpu, Endpoint, Uplink, VirtualFunction
from protos.reading import Observer

LOOKED = Looked(
    uid=0,
    python="3.10",
    machine="aarch64",
    kernel="5.15",
    glibc="glibc 2.35",
    systemd=True,
    supervisor=None,
    current=None,
    settings=None,
    settings_is_folder=False,
    drivers={"p0": "mlx5_core", "pf0hpf": "mlx5_core", "pf0vf0": None},
    absent_ports=(),
    mode=Mode.ZERO_TRUST,
)
UPLINK = Uplink("p0", "pf0hpf", "eth0", 10**9, 1500, (VirtualFunction("pf0vf0", None),))
DPU = Dpu("node1-dpu0", "node1", Endpoint("10.250.0.11", 7443), None, (UPLINK,))


VERIFIER = Ed25519PrivateKey.generate().public_key().public_bytes_raw()


@pytest.fixture
def credential(tmp_path: Path) -> Credential:
    create_site_pki(tmp_path / "pki", site="demo", controller="c", agents={"node1-dpu0": "10.250.0.11"})
    stem = tmp_path / "pki" / "agents" / "node1-dpu0"
    return load_credential(stem.with_suffix(".pem"), stem.with_suffix(".key"), tmp_path / "pki" / "ca.pem")


def made(credential: Credential, dpu: Dpu = DPU, interval_ns: int = 10**9, looked: Looked = LOOKED) -> Settings:
    return settings_for(
        dpu,
        credential,
        DeployPaths(),
        looked,
        frame_interval_ns=interval_ns,
        verifier_public_key=VERIFIER,
        limits={"backend": "police"},
    )


def read_by_the_agent(settings: Settings, tmp_path: Path) -> dpu_agent.config.AgentConfig:
    (tmp_path / "agent.json").write_bytes(settings.files["agent.json"].content)
    return dpu_agent.config.load(tmp_path / "agent.json")


def test_the_agent_reads_what_deployment_writes(credential: Credential, tmp_path: Path) -> None:
    told = AgentSettings(
        clock_offset_ns=7,
        spool_bytes=64 * 2**20,
        spool_age_ns=90 * 10**9,
        port_sources=(("p0", "mlx5-phy"), ("pf0vf0", "mlx5-vport")),
        bucket_us=100,
    )
    config = read_by_the_agent(made(credential, replace(DPU, agent_settings=told), 250 * 10**6), tmp_path)
    assert config.agent == "node1-dpu0"
    assert config.listen == "10.250.0.11:7443"
    assert (config.verifier_public_key, config.limits.backend) == (VERIFIER, "police")
    assert (config.key, config.certificate, config.ca) == tuple(
        tmp_path / name for name in ("agent.key", "agent.pem", "ca.pem")
    )
    assert str(config.state_directory) == "/var/lib/weighbridge"
    assert {port.name: port.role for port in config.ports} == {
        "pf0hpf": Observer.DPU_HOST_PORT,
        "pf0vf0": Observer.DPU_HOST_PORT,
        "p0": Observer.DPU_UPLINK,
    }
    # What mlx5 serves is the copy of the read before.
    assert {port.name: port.refresh_ns for port in config.ports} == {
        "pf0hpf": 1_250_000_000,
        "p0": 1_250_000_000,
        "pf0vf0": 0,
    }
    assert config.frame_interval_ns == 250_000_000
    assert config.clock_offset_ns == 7
    assert config.bucket_ns == 100_000
    assert {port.name: port.source for port in config.ports} == {
        "pf0hpf": "netlink",
        "pf0vf0": "mlx5-vport",
        "p0": "mlx5-phy",
    }
    assert (config.spool.max_bytes, config.spool.max_age_ns) == (64 * 2**20, 90 * 10**9)


def test_what_the_site_file_leaves_open_is_the_agents_default(credential: Credential, tmp_path: Path) -> None:
    config = read_by_the_agent(made(credential, looked=replace(LOOKED, drivers={})), tmp_path)
    assert config.spool == dpu_agent.config.SpoolLimits()
    assert config.clock_offset_ns == 0
    assert config.bucket_ns == 1_000_000
    assert {port.source for port in config.ports} == {"netlink"}
    assert {port.refresh_ns for port in config.ports} == {0}


def test_bonded_uplinks_share_their_host_ports(credential: Credential, tmp_path: Path) -> None:
    other = replace(UPLINK, name="p1")
    dpu = replace(DPU, uplinks=(UPLINK, other), bond=Bond("bond0", ("p0", "p1")))
    assert ports_of(dpu) == {"pf0hpf": "host_port", "pf0vf0": "host_port", "p0": "uplink", "p1": "uplink"}
    read_by_the_agent(made(credential, dpu), tmp_path)


@pytest.mark.parametrize("interval_ns", [0, 1, 10**6 + 1, 999_999])
def test_a_frame_interval_is_whole_milliseconds(credential: Credential, interval_ns: int) -> None:
    with pytest.raises(OperatorError, match=r"collection\.frame_interval .* whole milliseconds"):
        made(credential, interval_ns=interval_ns)


def test_a_spools_age_is_whole_seconds(credential: Credential) -> None:
    with pytest.raises(OperatorError, match=r"node1-dpu0: agent_settings\.spool_age .* whole seconds"):
        made(credential, replace(DPU, agent_settings=AgentSettings(spool_age_ns=1_500_000_000)))


def test_the_name_of_settings_changes_with_everything_in_them(credential: Credential) -> None:
    first = made(credential)
    assert made(credential).name == first.name
    names = {first.name, made(credential, interval_ns=2 * 10**9).name}
    for name, file in first.files.items():
        for changed in (replace(file, mode=0o640), replace(file, content=file.content + b"x")):
            names.add(Settings({**first.files, name: changed}).name)
    names.add(Settings({k: v for k, v in first.files.items() if k != "ca.pem"}).name)
    assert len(names) == 2 + 2 * len(first.files) + 1
    assert first.files["agent.key"].mode == 0o600


# Services


def test_the_service_manager_is_the_devices_own() -> None:
    connection = ScriptedConnection()
    assert isinstance(service_for(LOOKED, DeployPaths(), connection), Systemd)
    plain = replace(LOOKED, systemd=False, supervisor="/bin/supervisorctl")
    assert isinstance(service_for(plain, DeployPaths(), connection), Supervisor)
    with pytest.raises(DeviceError, match="neither systemd"):
        service_for(replace(LOOKED, systemd=False), DeployPaths(), connection)


def test_the_unit_is_one_that_systemd_accepts(tmp_path: Path) -> None:
    """``systemd-analyze verify`` reads it as systemd would; its program must be there, so a stand-in is."""
    program = tmp_path / "python three"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    paths = DeployPaths(python=str(program), root="/opt/weigh$bridge 100%", systemd_units=str(tmp_path))
    unit = Systemd(paths)
    Path(unit.file).write_bytes(unit.content)
    told = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", unit.file], capture_output=True, text=True, check=False, timeout=60
    )
    complaints = [line for line in told.stderr.splitlines() if "weighbridge-agent" in line]
    assert (told.returncode, complaints) == (0, [])
    assert b'"/opt/weigh$$bridge 100%%/current/weighbridge-agent" run --config' in unit.content


def test_the_unit_holds_the_agent_to_what_it_needs() -> None:
    unit = Systemd(DeployPaths()).content.decode()
    assert "ExecStart=/usr/bin/python3 -I -S -B /opt/weighbridge/current/weighbridge-agent run --config" in unit
    # Closed before the network comes up; a failure has taken the ports down and does not keep the agent away.
    assert "ExecStartPre=-/usr/bin/python3 -I -S -B /opt/weighbridge/current/weighbridge-agent close --config" in unit
    assert "Before=network-pre.target" in unit
    for line in (
        "Restart=always",
        "NoNewPrivileges=yes",
        "ProtectSystem=strict",
        "ReadWritePaths=-/var/lib/weighbridge",
        "CapabilityBoundingSet=CAP_NET_ADMIN CAP_BPF CAP_PERFMON",
        "UMask=0077",
    ):
        assert line in unit.splitlines()


def test_the_supervisors_file_names_the_start_line() -> None:
    service = Supervisor(DeployPaths())
    assert service.file == "/run/supervisor.d/weighbridge-agent.json"
    told = json.loads(service.content)
    before = told.pop("before_network")
    assert (before[:-3], before[-3:]) == (told["argv"][:-3], ["close", *told["argv"][-2:]])
    assert told == {
        "argv": [
            "/usr/bin/python3",
            "-I",
            "-S",
            "-B",
            "/opt/weighbridge/current/weighbridge-agent",
            "run",
            "--config",
            "/opt/weighbridge/etc/agent.json",
        ],
        "env": {},
        "restart": "always",
    }
