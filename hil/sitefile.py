"""The site file, certificates and secrets that go with a rig: what an operator would have written for a real site."""

from __future__ import annotations

import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from controller.pki import create_site_pki
from hil.plan import CONTROLLER, Plan, Role, dpu_of
from hil.rigfile import RigFile
from hil.services import SNMP_PORT, SSH_PORT, KeyPair, Secrets, client_configuration, write_secret

SITE_FILE = "site.yaml"
SNMP_CLIENT = Path("secrets/net-snmp")


def describe(rig_file: RigFile, plan: Plan, host_keys: Mapping[str, KeyPair]) -> dict[str, Any]:
    """Return the site file's content; what the rig file says under ``site`` is taken over as it stands."""
    switch = rig_file.switch
    links: list[dict[str, str]] = []
    other: list[dict[str, str]] = []
    for cable in plan.cables:
        near = plan.machines[cable.near.machine]
        if cable.far.machine != switch.name or not cable.declared:
            continue
        if near.role is Role.DPU:
            link = {"name": f"{near.node}/{cable.near.port}", "dpu": near.name, "uplink": cable.near.port}
            links.append({**link, "switch": switch.name, "port": cable.far.port})
        else:
            other.append({"port": cable.far.port, "role": near.role.value})
    # The switch's own port on the management network is in its interface table too.
    other.append({"port": plan.machines[switch.name].ports[0].name, "role": "management"})
    snmp = {
        "version": 3,
        "user": switch.snmpd.user,
        "auth": "sha256",
        "auth_key_file": f"secrets/{switch.name}.auth",
        "privacy": "aes128",
        "privacy_key_file": f"secrets/{switch.name}.priv",
    }
    site: dict[str, Any] = {
        "version": 1,
        "site": site_name(rig_file, plan),
        "controller": {
            "journal": "journal.db",
            "ca": "pki/ca.pem",
            "certificate": "pki/controller.pem",
            "key": "pki/controller.key",
        },
        "pods": [{"name": pod.name, "nodes": list(pod.nodes)} for pod in rig_file.pods],
        "nodes": [_node(rig_file, plan, node, host_keys) for node in rig_file.nodes()],
        "networks": [
            {"prefix": f"{machine.data_address}/32", "traffic": "front-end"}
            for machine in plan.with_role(Role.FRONT_END)
        ],
        "links": links,
        "switches": [
            {
                "name": switch.name,
                "address": f"{plan.machines[switch.name].management_address}:{SNMP_PORT}",
                "snmp": snmp,
                "refresh": switch.snmpd.refresh,
                "framing": "l2_without_fcs",
                "other_ports": other,
            }
        ],
    }
    taken_over = rig_file.site.model_dump(exclude_none=True, exclude={"name"})
    return site | taken_over


def site_name(rig_file: RigFile, plan: Plan) -> str:
    """Return the site's name: the rig file's, or the rig's."""
    return rig_file.site.name or plan.rig


def write(state: Path, rig_file: RigFile, plan: Plan, made: Secrets) -> None:
    """Write the site file with everything that it names into ``state``."""
    agents = {machine.name: machine.management_address for machine in plan.with_role(Role.DPU)}
    create_site_pki(state / "pki", site=site_name(rig_file, plan), controller=CONTROLLER, agents=agents)
    write_secret(state / "pki" / "deploy_key", made.deploy_key.private)
    (state / "pki" / "deploy_key.pub").write_text(f"{made.deploy_key.public}\n", encoding="ascii")
    write_secret(state / "secrets" / f"{rig_file.switch.name}.auth", made.snmp.auth)
    write_secret(state / "secrets" / f"{rig_file.switch.name}.priv", made.snmp.privacy)
    write_secret(state / SNMP_CLIENT / "snmp.conf", client_configuration(rig_file, made.snmp))
    text = io.StringIO()
    writer = YAML()
    writer.default_flow_style = False
    writer.width = 120
    writer.indent(mapping=2, sequence=4, offset=2)
    writer.dump(describe(rig_file, plan, made.host_keys), text)
    heading = f"# The site of the emulated rig {plan.rig!r}, written when the rig came up.\n"
    (state / SITE_FILE).write_text(heading + text.getvalue(), encoding="utf-8")


def _node(rig_file: RigFile, plan: Plan, node: str, host_keys: Mapping[str, KeyPair]) -> dict[str, Any]:
    host, dpu = plan.machines[node], plan.machines[dpu_of(node)]
    uplink = {
        "name": "p0",
        "host_port": "pf0hpf",
        "host_interface": "eth0",
        "line_rate": rig_file.line_rate,
        "mtu": plan.mtu,
    }
    ssh = {
        "address": f"{dpu.management_address}:{SSH_PORT}",
        "user": "root",
        "host_key": host_keys[dpu.name].public,
        "key": "pki/deploy_key",
    }
    described: dict[str, Any] = {
        "name": dpu.name,
        "agent": f"{dpu.management_address}:{rig_file.agents.port}",
        "ssh": ssh,
        "uplinks": [uplink],
    }
    if offset_ns := rig_file.clock_offset_ns(node):
        described["agent_settings"] = {"clock_offset_ns": offset_ns}
    exporter = f"http://{host.management_address}:{rig_file.exporter.port}/metrics"
    addresses = [f"{host.data_address}/32"]
    return {"name": node, "host": {"exporter": exporter}, "dpus": [described], "addresses": addresses}
