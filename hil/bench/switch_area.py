"""The switch reader's figures: intervals that hold, and what a poll costs beside net-snmp's client. Four minutes."""

from __future__ import annotations

import asyncio
import contextlib
import os
import resource
import secrets
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from hil import linux
from hil.bench import switch_cases, switch_faults, switch_fuzz
from hil.bench.figure import Figure, Goal
from protos.reading import Framing
from switch.connect import SnmpClients
from switch.interpret import Device
from switch.security import Authentication, Endpoint, Privacy, Timing, UserSecurity

PORTS, WATCHED = 512, 64
POLLS = 2
_PATIENT = Timing(deadline_ns=60_000_000_000)
"""A look at 512 ports costs seconds of CPU, and the bench may have to share its cores."""
_IFX_TABLE = "1.3.6.1.2.1.31.1.1"


def figures() -> Iterator[Figure]:
    """Yield the figures as they come."""
    yield from switch_cases.figures()
    yield from switch_fuzz.figures()
    yield from switch_faults.figures()
    with tempfile.TemporaryDirectory() as folder, _agent(Path(folder)) as agent:
        yield from _polls(agent)


@dataclass(frozen=True, slots=True)
class _Agent:
    namespace: str
    user: UserSecurity


@contextlib.contextmanager
def _agent(folder: Path) -> Iterator[_Agent]:
    """A real snmpd with :data:`PORTS` interfaces in a network namespace of its own."""
    namespace = f"wbbench{os.getpid()}"
    user = UserSecurity(
        "weighbridge", Authentication.SHA256, secrets.token_hex(16), Privacy.AES128, secrets.token_hex(16)
    )
    subprocess.run(["ip", "netns", "add", namespace], check=True)
    try:
        pairs = ((number, number + PORTS // 2) for number in range(1, PORTS // 2 + 1))
        lines = ["link set lo up", *(f"link add eth{near} type veth peer name eth{far}" for near, far in pairs)]
        lines += [f"link set eth{number} up" for number in range(1, PORTS + 1)]
        batch = "\n".join(lines) + "\n"
        subprocess.run(["ip", "-n", namespace, "-batch", "-"], input=batch, text=True, check=True)
        (folder / "snmpd.conf").write_text(
            f"agentAddress udp:161\nrouser {user.user} authPriv\n"
            f'createUser {user.user} SHA-256 "{user.authentication_phrase}" AES "{user.privacy_phrase}"\n'
        )
        environment = os.environ | {"MIBS": "", "SNMPCONFPATH": str(folder), "SNMP_PERSISTENT_DIR": str(folder)}
        command = ["ip", "netns", "exec", namespace, "snmpd", "-f", "-m", ":", "-I", "-smux,mteTrigger,mteTriggerConf"]
        log = ["-Lf", str(folder / "log"), "-p", str(folder / "pid")]
        daemon = subprocess.Popen([*command, *log], env=environment, stdin=subprocess.DEVNULL)
        try:
            time.sleep(3)
            yield _Agent(namespace, user)
        finally:
            daemon.terminate()
            daemon.wait(10)
    finally:
        subprocess.run(["ip", "netns", "del", namespace], check=True)


def _polls(agent: _Agent) -> Iterator[Figure]:
    watched = [f"eth{number}" for number in range(1, WATCHED + 1)]
    every = [f"eth{number}" for number in range(1, PORTS + 1)]
    with _inside(agent.namespace):
        few_s, few = asyncio.run(_cost(agent, watched))
        all_s, varbinds = asyncio.run(_cost(agent, every))
    share = 100 * few_s / 5
    note = f"pysnmp, SNMPv3 authPriv, {few} varbinds a poll"
    yield Figure(f"switch.poll.{WATCHED}_ports_every_5s.core_percent", round(share, 2), "%", 5, Goal.AT_MOST, note)
    ours = varbinds / all_s
    yield Figure(f"switch.poll.{PORTS}_ports.cpu_s", round(all_s, 3), "s", note=f"{varbinds} varbinds, all columns")
    yield Figure(f"switch.poll.{PORTS}_ports.polls_per_s_and_core", round(1 / all_s, 2), "1/s")
    yield Figure("switch.poll.varbinds_per_cpu_s.pysnmp", round(ours), "1/s")
    theirs, count = _net_snmp(agent)
    yield Figure(
        "switch.poll.varbinds_per_cpu_s.snmpbulkwalk", round(theirs), "1/s", note=f"{count} varbinds by GETBULK"
    )
    yield Figure("switch.poll.snmpbulkwalk_over_pysnmp", round(theirs / ours, 1), "1", note="in the same run")


async def _cost(agent: _Agent, names: list[str]) -> tuple[float, int]:
    """Return CPU seconds and varbinds of a poll, once names and sizes are known."""
    clients = SnmpClients(time.monotonic_ns)
    reader = clients.connect(
        "bench",
        Endpoint("127.0.0.1"),
        agent.user,
        Device(3_500_000_000, Framing.L2_WITHOUT_FCS),
        timing=_PATIENT,
    )
    try:
        await reader.read_ports(names)
        began, varbinds = time.process_time(), 0
        for _ in range(POLLS):
            poll = await reader.read_ports(names)
            if poll.faults:
                raise RuntimeError(f"the bench's agent did not answer for {poll.faults[0].port}: {poll.faults[0].text}")
            varbinds += sum(len(exchange.varbinds) for exchange in poll.exchanges)
        return (time.process_time() - began) / POLLS, varbinds // POLLS
    finally:
        await clients.close()


def _net_snmp(agent: _Agent) -> tuple[float, int]:
    """Return varbinds a CPU-second of snmpbulkwalk over ifXTable, its start included, and how many it read."""
    user = agent.user
    command = ["ip", "netns", "exec", agent.namespace, "snmpbulkwalk", "-v3", "-l", "authPriv", "-u", user.user]
    command += ["-a", "SHA-256", "-A", user.authentication_phrase, "-x", "AES", "-X", user.privacy_phrase]
    command += ["-On", "-m", "", "-t", "10", "-Cr25", "127.0.0.1", _IFX_TABLE]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    varbinds = done.stdout.count(" = ")
    return varbinds / (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime), varbinds


@contextlib.contextmanager
def _inside(namespace: str) -> Iterator[None]:
    with Path("/proc/self/ns/net").open("rb") as home, Path("/run/netns", namespace).open("rb") as there:
        linux.join(there.fileno(), linux.CLONE_NEWNET)
        try:
            yield
        finally:
            linux.join(home.fileno(), linux.CLONE_NEWNET)


if __name__ == "__main__":
    for figure in figures():
        sys.stdout.write(figure.line() + "\n")
