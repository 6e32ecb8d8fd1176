"""Real snmpds with hundreds of ports in a network namespace, and who else asks them, for the bench of the reader."""

from __future__ import annotations

import contextlib
import json
import os
import re
import resource
import secrets
import shutil
import subprocess
import time
import urllib.request
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from hil import linux
from switch.mib import PORT_COLUMNS, Column
from switch.security import Authentication, Endpoint, Privacy, UserSecurity

_UP_WITHIN_S = 60
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_EXPORTER = "prometheus-snmp-exporter"
_EXPORTER_PORT = 9116
_REPETITIONS = 25


@dataclass(frozen=True, slots=True)
class Agents:
    """Daemons that all show the same ports, each with its engine id; reached inside ``namespace``."""

    namespace: str
    user: UserSecurity
    endpoints: tuple[Endpoint, ...]
    folder: Path


@contextlib.contextmanager
def agents(folder: Path, ports: int, count: int) -> Iterator[Agents]:
    """Run ``count`` snmpds over ``ports`` interfaces (veth pairs, all up)."""
    namespace = f"wbbench{os.getpid()}"
    user = UserSecurity(
        "weighbridge", Authentication.SHA256, secrets.token_hex(16), Privacy.AES128, secrets.token_hex(16)
    )
    subprocess.run(["ip", "netns", "add", namespace], check=True)
    daemons: list[subprocess.Popen[bytes]] = []
    try:
        pairs = ((number, number + ports // 2) for number in range(1, ports // 2 + 1))
        lines = ["link set lo up", *(f"link add eth{near} type veth peer name eth{far}" for near, far in pairs)]
        lines += [f"link set eth{number} up" for number in range(1, ports + 1)]
        batch = "\n".join(lines) + "\n"
        subprocess.run(["ip", "-n", namespace, "-batch", "-"], input=batch, text=True, check=True)
        endpoints = tuple(Endpoint("127.0.0.1", 161 + number) for number in range(count))
        for endpoint in endpoints:
            daemons.append(_snmpd(folder / str(endpoint.port), namespace, user, endpoint))  # noqa: PERF401  some may fail
        yield Agents(namespace, user, endpoints, folder)
    finally:
        for daemon in daemons:
            daemon.terminate()
            daemon.wait(10)
        subprocess.run(["ip", "netns", "del", namespace], check=True)


def _snmpd(folder: Path, namespace: str, user: UserSecurity, endpoint: Endpoint) -> subprocess.Popen[bytes]:
    folder.mkdir()
    (folder / "snmpd.conf").write_text(
        f"agentAddress udp:{endpoint.host}:{endpoint.port}\nrouser {user.user} authPriv\n"
        f'createUser {user.user} SHA-256 "{user.authentication_phrase}" AES "{user.privacy_phrase}"\n'
    )
    environment = os.environ | {"MIBS": "", "SNMPCONFPATH": str(folder), "SNMP_PERSISTENT_DIR": str(folder)}
    command = ["ip", "netns", "exec", namespace, "snmpd", "-f", "-m", ":", "-I", "-smux,mteTrigger,mteTriggerConf"]
    log = ["-Lf", str(folder / "log"), "-p", str(folder / "pid")]
    return subprocess.Popen([*command, *log], env=environment, stdin=subprocess.DEVNULL)


@contextlib.contextmanager
def inside(namespace: str) -> Iterator[None]:
    """Sockets that this thread opens meanwhile are of the namespace."""
    with Path("/proc/self/ns/net").open("rb") as home, Path("/run/netns", namespace).open("rb") as there:
        linux.join(there.fileno(), linux.CLONE_NEWNET)
        try:
            yield
        finally:
            linux.join(home.fileno(), linux.CLONE_NEWNET)


@dataclass(frozen=True, slots=True)
class Cost:
    """What reading costs its reader: CPU seconds of all its threads, and bindings read."""

    cpu_s: float
    varbinds: int

    @property
    def rate(self) -> float:
        """Bindings a CPU-second."""
        return self.varbinds / self.cpu_s


def net_snmp(found: Agents, tool: str, runs: int, oids: Sequence[str]) -> Cost:
    """Return what net-snmp's ``tool`` costs for ``oids``, its start included."""
    user = found.user
    command = ["ip", "netns", "exec", found.namespace, tool, "-v3", "-l", "authPriv", "-u", user.user, "-a", "SHA-256"]
    command += ["-A", user.authentication_phrase, "-x", "AES", "-X", user.privacy_phrase, "-On", "-m", "", "-t", "10"]
    command += [f"-Cr{_REPETITIONS}", str(found.endpoints[0]), *oids]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    varbinds = 0
    for _ in range(runs):
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        varbinds += done.stdout.count(" = ")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return Cost(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, varbinds)


def snmp_exporter(found: Agents, scrapes: int) -> Cost | None:
    """Return what Debian's snmp_exporter costs for every column that the reader reads; None if it is not installed.

    It walks them with SNMPv3 authPriv as the reader does, and makes a metric of each counter, labelled with ifName.

    Raises:
        RuntimeError: it does not come up, or does not answer.
    """
    if shutil.which(_EXPORTER) is None:
        return None
    config = found.folder / "snmp.yml"
    config.write_text(json.dumps(_exporter_config(found.user)))
    command = ["ip", "netns", "exec", found.namespace, _EXPORTER, f"--config.file={config}", "--log.level=error"]
    command += [f"--web.listen-address=127.0.0.1:{_EXPORTER_PORT}"]
    with (found.folder / "exporter.log").open("w") as log:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        try:
            with inside(found.namespace):
                url = f"http://127.0.0.1:{_EXPORTER_PORT}/snmp?module=ports&target={found.endpoints[0].host}"
                _once_up(url, found.folder / "exporter.log")  # and its caches are warm
                before, varbinds = _cpu_s(process.pid), 0
                for _ in range(scrapes):
                    varbinds += _scraped(url)
                return Cost(_cpu_s(process.pid) - before, varbinds)
        finally:
            process.terminate()
            process.wait(10)


def _exporter_config(user: UserSecurity) -> dict[str, object]:
    names = {column: f"1.3.6{str(column.value)[len('(1, 3, 6') : -1].replace(', ', '.')}" for column in PORT_COLUMNS}
    lookup = {"labels": ["ifIndex"], "labelname": "ifName", "oid": names[Column.NAME], "type": "DisplayString"}
    texts = (Column.NAME, Column.ALIAS, Column.PHYSICAL_ADDRESS)
    metrics = [
        {
            "name": f"if{column.name.title().replace('_', '')}",
            "oid": names[column],
            "type": "counter" if column.name.startswith(("HC_", "IN_", "OUT_")) else "gauge",
            "help": column.name,
            "indexes": [{"labelname": "ifIndex", "type": "gauge"}],
            "lookups": [lookup],
        }
        for column in PORT_COLUMNS
        if column not in texts
    ]
    return {
        "ports": {
            "walk": list(names.values()),
            "metrics": metrics,
            "version": 3,
            "max_repetitions": _REPETITIONS,
            "timeout": "20s",
            "auth": {
                "username": user.user,
                "security_level": "authPriv",
                "password": user.authentication_phrase,
                "auth_protocol": "SHA256",
                "priv_protocol": "AES",
                "priv_password": user.privacy_phrase,
            },
        }
    }


def _once_up(url: str, log: Path) -> None:
    ends = time.monotonic() + _UP_WITHIN_S
    while time.monotonic() < ends:
        with contextlib.suppress(OSError):
            _scraped(url)
            return
        time.sleep(0.2)
    raise RuntimeError(f"snmp_exporter does not answer: {log.read_text().strip()}")


def _scraped(url: str) -> int:
    with urllib.request.urlopen(url, timeout=_UP_WITHIN_S) as answer:  # noqa: S310  the URL is ours
        body = answer.read().decode()
    found = re.search(r"^snmp_scrape_pdus_returned(?:\{.*\})? (\S+)$", body, re.MULTILINE)
    if found is None:
        raise RuntimeError(f"snmp_exporter does not say how many bindings it read: {body[:200]}")
    return int(float(found[1]))


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS_PER_S
