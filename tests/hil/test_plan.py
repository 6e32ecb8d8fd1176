from __future__ import annotations

import ipaddress
from pathlib import Path

from controller import site
from hil import rigfile, services, sitefile
from hil.plan import End, ExtraCable, Net, Role, mac, plan


def demo() -> rigfile.RigFile:
    return rigfile.load(rigfile.find("demo"))


def test_every_node_has_its_link() -> None:
    made = plan(demo())
    for number in range(1, 5):
        host, dpu = made.machines[f"node{number}"], made.machines[f"node{number}-dpu0"]
        assert host.data_address == f"10.77.0.{number}"
        assert host.management_address == f"10.250.0.{30 + number}"
        assert dpu.management_address == f"10.250.0.{10 + number}"
        assert [port.name for port in dpu.ports] == ["oob_net0", "pf0hpf", "p0"]
        ends = {(cable.near, cable.far) for cable in made.cables}
        assert (End(host.name, "eth0"), End(dpu.name, "pf0hpf")) in ends
        assert (End(dpu.name, "p0"), End("sw1", f"eth{number}")) in ends
    assert made.machines["fe"].data_address == "10.77.0.100"
    assert [port for port in made.machines["fe"].ports if port.net is Net.MANAGEMENT] == []


def test_addresses_and_macs_are_unique() -> None:
    made = plan(demo(), extra=(ExtraCable(9, "node1", "eth1", "eth6"), ExtraCable(10, "node2", "eth1", "eth7")))
    ports = [port for machine in made.machines.values() for port in machine.ports]
    macs = [port.mac for port in ports]
    assert len(set(macs)) == len(macs)
    assert all(int(address[:2], 16) & 3 == 2 for address in macs), "locally administered, not multicast"
    addresses = [ipaddress.ip_interface(address).ip for port in ports for address in port.addresses]
    assert len(set(addresses)) == len(addresses)


def test_a_mac_outlives_reboots_and_differs_between_rigs() -> None:
    assert mac("one", "node1", "eth0") == mac("one", "node1", "eth0")
    assert mac("one", "node1", "eth0") != mac("two", "node1", "eth0")


def test_an_added_cable_keeps_its_number_when_another_goes() -> None:
    first, second = ExtraCable(9, "node1", "eth1", "eth6"), ExtraCable(10, "node2", "eth1", "eth7")
    both, one = plan(demo(), extra=(first, second)), plan(demo(), extra=(second,))
    (kept,) = [cable for cable in one.cables if not cable.declared]
    assert kept in both.cables
    assert kept.number == 10
    assert str(kept.near) == "node2/eth1"


def test_the_site_file_loads_and_leaves_undeclared_cables_out(tmp_path: Path) -> None:
    text = rigfile.find("demo").read_text(encoding="utf-8")
    path = tmp_path / "rig.yaml"
    path.write_text(text + "undeclared_cables:\n  - { node: node1, interface: eth1, port: eth9 }\n", encoding="utf-8")
    rig_file = rigfile.load(path)
    made = plan(rig_file)
    assert made.machines["sw1"].port("eth9").bridge == "br0"
    sitefile.write(tmp_path, rig_file, made, services.new_secrets(made))
    loaded = site.load(tmp_path / "site.yaml")
    assert [link.name for link in loaded.links] == ["node1/p0", "node2/p0", "node3/p0", "node4/p0"]
    offsets = [dpu.agent_settings.clock_offset_ns for node in loaded.nodes for dpu in node.dpus]
    assert offsets == [26 * 3600 * 10**9, 7 * 3600 * 10**9, 11 * 60 * 10**9, 3_500_000_000]
    assert {link.pod for link in loaded.links} == {"pod-a", "pod-b"}
    assert "eth9" not in (tmp_path / "site.yaml").read_text(encoding="utf-8")
    for secret in ("pki/deploy_key", "secrets/sw1.auth", "secrets/sw1.priv", "pki/controller.key"):
        assert (tmp_path / secret).stat().st_mode & 0o077 == 0, secret


def test_roles_cover_every_machine() -> None:
    made = plan(demo())
    by_role = {role: [machine.name for machine in made.with_role(role)] for role in Role}
    assert sum(map(len, by_role.values())) == len(made.machines)
    assert by_role[Role.SWITCH] == ["sw1"]
    assert by_role[Role.CONTROLLER] == ["controller"]
