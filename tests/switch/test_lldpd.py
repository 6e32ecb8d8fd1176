"""The wiring as real lldpd daemons tell it to a real snmpd (AgentX), and what `weighbridge topology` makes of it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.rig

WEIGHBRIDGE = Path(sys.executable).with_name("weighbridge")
PHRASES = {"auth": "correct horse battery", "priv": "staple mustard seeds"}
CABLES = {"eth1": "node1-dpu0", "eth2": "node2-dpu0"}

SITE = """
version: 1
site: wires
controller: {journal: journal.db, ca: pki/ca.pem, certificate: pki/controller.pem, key: pki/controller.key}
pods: [{name: pod-a, nodes: [node1]}, {name: pod-b, nodes: [node2]}]
nodes:
  - name: node1
    dpus:
      - {name: node1-dpu0, agent: "10.250.0.11:7443", uplinks: [{name: p0, host_port: pf0hpf, line_rate: 10Gbit/s, mtu: 1500}]}
  - name: node2
    dpus:
      - {name: node2-dpu0, agent: "10.250.0.12:7443", uplinks: [{name: p0, host_port: pf0hpf, line_rate: 10Gbit/s, mtu: 1500}]}
links:
  - {name: node1/p0, dpu: node1-dpu0, uplink: p0, switch: sw1, port: FIRST}
  - {name: node2/p0, dpu: node2-dpu0, uplink: p0, switch: sw1, port: SECOND}
switches:
  - name: sw1
    address: "127.0.0.1:161"
    snmp: {version: 3, user: weighbridge, auth: sha256, auth_key_file: auth, privacy: aes128, privacy_key_file: priv}
    refresh: 3.5s
    framing: l2_without_fcs
    other_ports: [OTHERS]
collection: {poll_interval: 1s, scrape_interval: 1s, clock_interval: 1s}
limits: [{scope: node, window: 10s, bytes: 10MB}]
"""  # noqa: E501


class Wires:
    """A switch with three ports, two DPUs and a stranger, each with an lldpd of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.switch = f"wblldp{os.getpid()}"
        self.machines = {
            name: f"{self.switch}{place}" for place, name in enumerate(["node1-dpu0", "node2-dpu0", "stranger"])
        }
        self.daemons: list[subprocess.Popen[bytes]] = []
        for name, phrase in PHRASES.items():
            (folder / name).write_text(f"{phrase}\n")
            (folder / name).chmod(0o600)

    def start(self) -> None:
        for namespace in (self.switch, *self.machines.values()):
            self.ip("netns", "add", namespace)
            self.ip("-n", namespace, "link", "set", "lo", "up")
        for number, namespace in enumerate(self.machines.values(), start=1):
            port = ("link", "add", f"eth{number}", "type", "veth", "peer", "name", "p0", "netns", namespace)
            self.ip("-n", self.switch, *port)
            self.ip("-n", self.switch, "link", "set", f"eth{number}", "up")
            self.ip("-n", namespace, "link", "set", "p0", "up")
        (self.folder / "snmpd.conf").write_text(
            f'agentAddress udp:161\ncreateUser weighbridge SHA-256 "{PHRASES["auth"]}" AES "{PHRASES["priv"]}"\n'
            f"rouser weighbridge authPriv\nmaster agentx\nagentXSocket unix:{self.folder}/agentx\n"
        )
        environment = {"MIBS": "", "SNMPCONFPATH": str(self.folder), "SNMP_PERSISTENT_DIR": str(self.folder)}
        agent = ["snmpd", "-f", "-m", ":", "-Lf", str(self.folder / "snmpd.log"), "-p", str(self.folder / "pid")]
        self._run(self.switch, agent, environment)
        while not (self.folder / "agentx").exists():
            time.sleep(0.05)
        self.lldpd(self.switch, "sw1", "-x", "-X", f"{self.folder}/agentx", "-I", "eth*")
        for name, namespace in self.machines.items():
            self.lldpd(namespace, name, "-I", "p0")

    def lldpd(self, namespace: str, name: str, *options: str) -> None:
        """Start one under a host name and a /run of its own."""
        # Its client, which sets the interval of 30 s to one, runs without rights: it must be able to read the file.
        script = (
            'hostname "$0" && mount -t tmpfs none /run && mkdir -p /run/lldpd && '
            'echo "configure lldp tx-interval 1" > /run/lldpd.conf && exec lldpd "$@"'
        )
        arguments = ["-d", "-u", "/run/lldpd.socket", "-O", "/run/lldpd.conf", *options]
        self._run(namespace, ["unshare", "--mount", "--uts", "sh", "-c", script, name, *arguments], {})

    def _run(self, namespace: str, command: list[str], environment: dict[str, str]) -> None:
        null = subprocess.DEVNULL
        whole = ["ip", "netns", "exec", namespace, *command]
        more = os.environ | environment
        self.daemons.append(subprocess.Popen(whole, stdin=null, stdout=null, stderr=null, env=more))

    def ip(self, *arguments: str) -> None:
        subprocess.run(["ip", *arguments], check=True, capture_output=True)

    def stop(self) -> None:
        for daemon in self.daemons:
            daemon.terminate()
        for daemon in self.daemons:
            daemon.wait(10)
        for namespace in (self.switch, *self.machines.values()):
            subprocess.run(["ip", "netns", "del", namespace], check=False, capture_output=True)

    def topology(self, *arguments: str, first: str = "eth1", second: str = "eth2", others: str = "") -> Any:
        text = SITE.replace("FIRST", first).replace("SECOND", second).replace("OTHERS", others)
        (self.folder / "site.yaml").write_text(text)
        command = ["ip", "netns", "exec", self.switch, str(WEIGHBRIDGE), "topology", *arguments]
        return subprocess.run(
            [*command, "--site", str(self.folder / "site.yaml")], check=False, capture_output=True, text=True
        )

    def states(self, **declared: str) -> tuple[int, dict[str, str], dict[str, Any]]:
        done = self.topology("check", "--json", **declared)
        ports = {port["port"]: port for port in json.loads(done.stdout)["ports"]}
        return done.returncode, {name: port["state"] for name, port in ports.items()}, ports

    def wait(self) -> None:
        """Until every neighbour has been heard."""
        ends = time.monotonic() + 60
        while True:
            _, _, ports = self.states()
            if sum(len(port["found"]) for port in ports.values()) == len(self.machines):
                return
            assert time.monotonic() < ends, ports
            time.sleep(0.5)


@pytest.fixture(scope="module")
def wires(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Wires]:
    made = Wires(tmp_path_factory.mktemp("wires"))
    try:
        made.start()
        made.wait()
        yield made
    finally:
        made.stop()


def test_links_are_confirmed_where_their_dpus_are_heard_and_a_stranger_is_told(wires: Wires) -> None:
    code, states, ports = wires.states()
    assert (states["eth1"], states["eth2"]) == ("confirmed", "confirmed")
    assert states["eth3"] == "undeclared-neighbour"
    assert ports["eth3"]["found"] == ["stranger/p0"]
    assert code == 1


def test_a_declared_port_of_another_role_may_have_any_neighbour(wires: Wires) -> None:
    code, states, _ = wires.states(others="{port: eth3, role: front-end}")
    assert (states["eth3"], code) == ("declared", 0)


def test_swapped_cables_are_two_miscabled_links(wires: Wires) -> None:
    code, states, ports = wires.states(first="eth2", second="eth1", others="{port: eth3, role: front-end}")
    assert (states["eth1"], states["eth2"], code) == ("miscabled-link", "miscabled-link", 1)
    assert "node1-dpu0/p0 is there, which belongs at port eth2 of sw1" in ports["eth1"]["text"]


def test_a_stranger_in_a_links_place_and_the_dpu_elsewhere(wires: Wires) -> None:
    _, states, _ = wires.states(first="eth3")
    assert (states["eth1"], states["eth3"]) == ("miscabled-link", "undeclared-neighbour")


def test_the_picture_is_written(wires: Wires) -> None:
    picture = wires.folder / "wires.svg"
    done = wires.topology("draw", "--output", str(picture), first="eth2", second="eth1")
    assert done.returncode == 1, done.stderr
    drawn = picture.read_text()
    assert drawn.startswith("<svg ")
    assert "miscabled-link: node1-dpu0/p0" in drawn
    assert "undeclared-neighbour: stranger/p0" in drawn
