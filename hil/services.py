"""The daemons of each machine and what they are told: files on the machine's disk, written before it boots.

host     prometheus-node-exporter on the management address, with the collectors a claim needs and no others
dpu      sshd on the management address: the site's deploy key only, its own host key, no PAM; lldpd if the rig has it
switch   snmpd: SNMPv3 authPriv (SHA-256, AES-128), read only, restricted to the tables a switch port check needs
"""

from __future__ import annotations

import secrets
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from hil.machine import PROJECT, Machine
from hil.plan import Plan, Role
from hil.rigfile import RigFile

EXPORTER, SSHD, SNMPD, LLDPD, LYING_PROXY = "node-exporter", "sshd", "snmpd", "lldpd", "lying-proxy"
SNMP_PORT, SSH_PORT = 161, 22
_AGENTX = "/run/agentx"
LLDP_INTERVAL_S = 5
"""From one frame of a port to its next; 30 is usual, and a rig does not live that long."""
_TRUE_EXPORTER = "127.0.0.1:19100"  # where the exporter listens while a lying proxy stands at its address

# What may be read: system, interfaces, ifMIB (the counters), snmpFrameworkMIB (engine boots and time), LLDP-MIB.
_VIEW = ("1.3.6.1.2.1.1", "1.3.6.1.2.1.2", "1.3.6.1.2.1.31", "1.3.6.1.6.3.10", "1.0.8802.1.1.2")


@dataclass(frozen=True)
class SnmpSecret:
    """The two pass phrases of the switch's SNMP user."""

    auth: str
    privacy: str


@dataclass(frozen=True)
class KeyPair:
    """An Ed25519 key pair in OpenSSH's forms; the public one without comment, as a site file pins it."""

    private: bytes
    public: str


@dataclass(frozen=True)
class Secrets:
    """Everything secret of a rig; made anew at each ``up``."""

    snmp: SnmpSecret
    deploy_key: KeyPair
    host_keys: Mapping[str, KeyPair]  # by DPU


def new_secrets(plan: Plan) -> Secrets:
    """Return new secrets for every machine that needs some."""
    snmp = SnmpSecret(secrets.token_hex(16), secrets.token_hex(16))
    return Secrets(snmp, _new_key_pair(), {machine.name: _new_key_pair() for machine in plan.with_role(Role.DPU)})


def _new_key_pair() -> KeyPair:
    key = Ed25519PrivateKey.generate()
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.OpenSSH, serialization.NoEncryption()
    )
    public = key.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
    return KeyPair(private, public.decode("ascii"))


def write_secret(path: Path, content: str | bytes) -> None:
    """Write a file that only its owner can read."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch(mode=0o600)
    path.write_bytes(content.encode() if isinstance(content, str) else content)


def set_up_host(machine: Machine, rig_file: RigFile) -> None:
    """Let the exporter serve the machine's claim on its management address."""
    machine.define_service(EXPORTER, _exporter(f"{machine.plan.management_address}:{rig_file.exporter.port}"))


def set_up_dpu(machine: Machine, host_key: KeyPair, deploy_key: KeyPair) -> None:
    """Let sshd admit root with the deploy key, and nobody else."""
    folder = machine.disk / "etc" / "ssh"
    folder.mkdir(parents=True, exist_ok=True)
    write_secret(folder / "ssh_host_ed25519_key", host_key.private)
    (folder / "ssh_host_ed25519_key.pub").write_text(f"{host_key.public}\n", encoding="ascii")
    (folder / "authorized_keys").write_text(f"{deploy_key.public}\n", encoding="ascii")
    # The real machine's accounts may be locked, and are none of the DPU's business.
    write_secret(machine.disk / "etc" / "shadow", "root:*:19000:0:99999:7:::\nsshd:!:19000::::::\n")
    lines = [
        f"ListenAddress {machine.plan.management_address}:{SSH_PORT}",
        "HostKey /etc/ssh/ssh_host_ed25519_key",
        "AuthorizedKeysFile /etc/ssh/authorized_keys",
        "AuthenticationMethods publickey",
        "PermitRootLogin prohibit-password",
        "AllowUsers root",
        "PasswordAuthentication no",
        "KbdInteractiveAuthentication no",
        "UsePAM no",
        "UseDNS no",
        "X11Forwarding no",
        "AllowTcpForwarding no",
        "PrintMotd no",
        "PidFile none",
        "Subsystem sftp internal-sftp",
    ]
    (folder / "sshd_config").write_text("\n".join(lines) + "\n", encoding="ascii")
    machine.define_service(SSHD, ["/usr/sbin/sshd", "-D", "-e", "-f", "/etc/ssh/sshd_config"])


def set_up_switch(machine: Machine, rig_file: RigFile, plan: Plan, secret: SnmpSecret) -> None:
    """Let snmpd answer the one user on the management address, and know what each declared port is for (ifAlias)."""
    user = rig_file.switch.snmpd.user
    lines = [
        f"agentAddress udp:{machine.plan.management_address}:{SNMP_PORT}",
        f"sysName {machine.name}",
        f"sysLocation emulated rig {machine.rig}",
        "sysServices 2",
        *(f"view ports included .{oid}" for oid in _VIEW),
        f"rouser {user} authPriv -V ports",
        "interface_replace_old yes",
        "interface_fadeout 0",  # or what snmpd found before it read this file stays listed for five minutes
        "include_ifmib_iface_prefix eth mgmt",  # ports; a switch's table does not list its Linux bridge
        "dontLogTCPWrappersConnects yes",
    ]
    if rig_file.lldp:
        lines += ["master agentx", f"agentXSocket unix:{_AGENTX}"]
        set_up_lldpd(machine, "eth*", "-x", "-X", _AGENTX)
    folder = machine.disk / "etc" / "snmp"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "snmpd.conf").write_text("\n".join(lines) + "\n", encoding="ascii")
    # In the persistent file snmpd turns this line into localised keys bound to its engine id, and keeps both, so
    # that a restart shows as one more engine boot and not as another engine.
    persistent = machine.disk / "var-lib" / "snmp"
    persistent.mkdir(parents=True, exist_ok=True)
    create = f'createUser {user} SHA-256 "{secret.auth}" AES "{secret.privacy}"\n'
    write_secret(persistent / "snmpd.conf", create + "".join(_port_aliases(machine.name, plan)))
    machine.define_service(
        SNMPD,
        ["/usr/sbin/snmpd", "-f", "-Lo", "-I", "-smux,mteTrigger,mteTriggerConf"],
        env={"MIBS": "", "SNMPCONFPATH": "/etc/snmp:/var/lib/snmp", "SNMP_PERSISTENT_DIR": "/var/lib/snmp"},
    )


def set_up_lldpd(machine: Machine, interfaces: str, *options: str) -> None:
    """Let lldpd introduce the machine on ``interfaces``, under its host name."""
    folder = machine.disk / "etc" / "lldpd.d"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "rig.conf").write_text(f"configure lldp tx-interval {LLDP_INTERVAL_S}\n", encoding="ascii")
    argv = ["/usr/sbin/lldpd", "-d", "-u", "/run/lldpd.socket", "-O", "/etc/lldpd.d/rig.conf", "-I", interfaces]
    # Its unprivileged half lives in a folder that the machine's fresh /run does not have.
    start = ["/bin/sh", "-c", 'mkdir -p /run/lldpd && exec "$@"', "lldpd", *argv, *options]
    machine.define_service(LLDPD, start)


def client_configuration(rig_file: RigFile, secret: SnmpSecret) -> str:
    """Return an ``snmp.conf`` with which net-snmp's tools reach the switch, their secrets off the command line."""
    lines = [
        "defVersion 3",
        "defSecurityLevel authPriv",
        f"defSecurityName {rig_file.switch.snmpd.user}",
        "defAuthType SHA-256",
        f"defAuthPassphrase {secret.auth}",
        "defPrivType AES",
        f"defPrivPassphrase {secret.privacy}",
    ]
    return "\n".join(lines) + "\n"


def start_lying(machine: Machine, rig_file: RigFile, factor: int, device: str) -> None:
    """Put a proxy at the exporter's address that reports 1/``factor`` of what ``device`` counts from now on."""
    listen = f"{machine.plan.management_address}:{rig_file.exporter.port}"
    machine.define_service(EXPORTER, _exporter(_TRUE_EXPORTER))
    machine.supervise("restart", EXPORTER)
    argv = [sys.executable, "-m", "hil.lyingproxy", "--listen", listen, "--exporter", _TRUE_EXPORTER]
    argv += ["--factor", str(factor), "--device", device]
    machine.define_service(LYING_PROXY, argv, cwd=PROJECT)
    machine.supervise("restart", LYING_PROXY)


def stop_lying(machine: Machine, rig_file: RigFile) -> None:
    """Take the proxy away; the exporter is back at its address, and its counters jump to the truth."""
    (machine.disk / "supervisor.d" / f"{LYING_PROXY}.json").unlink(missing_ok=True)
    machine.supervise("reload", LYING_PROXY)
    set_up_host(machine, rig_file)
    machine.supervise("restart", EXPORTER)


def set_up(machine: Machine, rig_file: RigFile, plan: Plan, made: Secrets) -> None:
    """Write what the machine's daemons need, by its role."""
    role = machine.plan.role
    if role is Role.HOST:
        set_up_host(machine, rig_file)
    elif role is Role.DPU:
        set_up_dpu(machine, made.host_keys[machine.name], made.deploy_key)
        if rig_file.lldp:
            set_up_lldpd(machine, "p0")
    elif role is Role.SWITCH:
        set_up_switch(machine, rig_file, plan, made.snmp)


def _port_aliases(switch: str, plan: Plan) -> Iterator[str]:
    """Yield snmpd's own record of ifAlias for the declared ports, as if someone had set them by SNMP.

    A port's ifIndex is its place among the switch's interfaces, which are made in the plan's order after ``lo``.
    """
    indexes = {port.name: index for index, port in enumerate(plan.machines[switch].ports, start=2)}
    for cable in plan.cables:
        if cable.far.machine == switch and cable.declared:
            near = plan.machines[cable.near.machine]
            alias = f"{near.node}/{cable.near.port}" if near.node else near.name
            yield f"ifXTable .{indexes[cable.far.port]} 14:0 18:0x{alias.encode().hex()} $\n"


def _exporter(listen: str) -> list[str]:
    collectors = ["--collector.disable-defaults", *(f"--collector.{name}" for name in ("netdev", "netclass", "stat"))]
    address = f"--web.listen-address={listen}"
    return ["/usr/bin/prometheus-node-exporter", address, "--web.disable-exporter-metrics", *collectors]
