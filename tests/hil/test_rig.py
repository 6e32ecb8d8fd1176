"""The rig itself, with real namespaces and daemons. Tests share the pair rig and leave it as they found it."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from hil import enter, remains, rigfile, status
from hil.errors import RigError
from hil.machine import PROJECT, Machine
from hil.network import NAMESPACES
from hil.rig import Rig, tear_down

pytestmark = pytest.mark.rig

EGRESS = (("node1", "eth0"), ("node1-dpu0", "pf0hpf"), ("node1-dpu0", "p0"), ("sw1", "eth1"))
INGRESS = (("sw1", "eth2"), ("node2-dpu0", "p0"), ("node2-dpu0", "pf0hpf"), ("node2", "eth0"))
"""The observers that a frame from node1 to node2 passes, in order, on the two links."""

Counts = tuple[int, int, int, int]
"""Received bytes and packets, sent bytes and packets."""


def counters(rig: Rig, machine: str, port: str) -> Counts:
    table = rig.machine(machine).run(["cat", "/proc/net/dev"]).stdout
    row = next(line.partition(":")[2].split() for line in table.splitlines() if line.strip().startswith(f"{port}:"))
    received, packets, sent, sent_packets = (int(row[index]) for index in (0, 1, 8, 9))
    return received, packets, sent, sent_packets


def all_counters(rig: Rig) -> dict[tuple[str, str], Counts]:
    return {place: counters(rig, *place) for place in (*EGRESS, *INGRESS)}


def moved(before: dict[tuple[str, str], Counts], after: dict[tuple[str, str], Counts]) -> dict[tuple[str, str], Counts]:
    return {
        place: (new[0] - old[0], new[1] - old[1], new[2] - old[2], new[3] - old[3])
        for place, (old, new) in ((place, (before[place], after[place])) for place in before)
    }


def passed(change: dict[tuple[str, str], Counts]) -> tuple[set[tuple[int, int]], set[tuple[int, int]]]:
    """Return what each observer saw go from node1 to node2 and from node2 to node1: one value each if they agree."""
    there, back = set(), set()
    for place, (received, packets, sent, sent_packets) in change.items():
        # At a host, and at each port a frame leaves by, 'there' is sent; at a port it comes in by, received.
        leaves_here = place in (EGRESS[0], EGRESS[2], INGRESS[0], INGRESS[2])
        there.add((sent, sent_packets) if leaves_here else (received, packets))
        back.add((received, packets) if leaves_here else (sent, sent_packets))
    return there, back


_started: list[subprocess.Popen[str]] = []


@pytest.fixture(autouse=True)
def _end_what_was_started() -> Iterator[None]:
    yield
    while _started:
        with _started.pop() as process:  # waits, and closes its pipes
            process.kill()


def start(machine: Machine, module: str, *arguments: str) -> subprocess.Popen[str]:
    process = machine.popen([sys.executable, "-m", f"hil.traffic.{module}", *arguments], stdout=subprocess.PIPE)
    _started.append(process)
    return process


def finish(process: subprocess.Popen[str]) -> dict[str, Any]:
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    record: dict[str, Any] = json.loads(out)
    return record


def transfer(rig: Rig, size: str) -> None:
    receiver = start(rig.machine("node2"), "transfer", "receive", "--listen", "10.77.0.2:9000")
    finish(start(rig.machine("node1"), "transfer", "send", "--target", "10.77.0.2:9000", "--bytes", size))
    finish(receiver)
    _until_quiet(rig)


def _until_quiet(rig: Rig) -> None:
    """Return once a connection's last acknowledgement has passed everywhere: it may outlive both programs."""
    seen = [all_counters(rig)]

    def quiet() -> bool:
        seen.append(all_counters(rig))
        return seen[-1] == seen[-2]

    until(quiet)


def reaches(machine: Machine, address: str, port: int) -> bool:
    """Whether a TCP packet from the machine gets an answer from the address, be it a refusal."""
    program = f"import socket; socket.create_connection(({address!r}, {port}), timeout=0.7)"
    done = machine.run([sys.executable, "-I", "-c", program], check=False)
    return done.returncode == 0 or "ConnectionRefused" in done.stderr


def hil(*arguments: str, **options: Any) -> subprocess.Popen[str]:
    argv = [sys.executable, "-m", "hil.cli", *arguments]
    return subprocess.Popen(argv, cwd=PROJECT, text=True, stdin=subprocess.DEVNULL, **options)


def until(condition: Callable[[], bool], within_s: float = 15.0) -> None:
    deadline = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


# Up and down


def test_two_rigs_side_by_side_and_down_leaves_nothing(pair: Rig, new_name: Callable[[], str], tmp_path: Path) -> None:
    name = new_name()
    with Rig.up(rigfile.load(rigfile.find("pair")), tmp_path / "state", name=name) as second:
        both = {
            rig.name: rig.machine("node1").run(["cat", "/proc/sys/kernel/random/boot_id"]).stdout
            for rig in (pair, second)
        }
        assert len(set(both.values())) == 2
        before = counters(pair, "node1", "eth0")
        transfer(second, "100kB")
        assert counters(second, "node1", "eth0")[2] > 100_000
        assert counters(pair, "node1", "eth0") == before, "same addresses, other wires"
        assert set(remains.rigs()) >= {pair.name, name}
        firsts = [machine.first_process() for machine in second.machines.values()]
        inodes = {(NAMESPACES / space).stat().st_ino for space in remains.namespaces(name)}
        with pytest.raises(RigError, match="up already"):
            Rig.up(rigfile.load(rigfile.find("pair")), tmp_path / "other", name=name)
    assert not remains.exist(name)
    assert not any(first.is_alive() for first in firsts)
    assert not [path for path in NAMESPACES.iterdir() if path.name.startswith(f"wb-{name}-")]
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                assert (folder / "ns" / "net").stat().st_ino not in inodes
                assert str(tmp_path) not in (folder / "mounts").read_text(encoding="utf-8", errors="replace")
            except (FileNotFoundError, ProcessLookupError, OSError):
                continue  # it ended meanwhile
    assert pair.machine("node1").run(["hostname"]).stdout == "node1\n", "the other rig goes on"
    assert (tmp_path / "state" / "machines" / "sw1" / "log" / "snmpd.log").exists(), "logs stay"


def test_up_after_an_up_that_was_killed(new_name: Callable[[], str], tmp_path: Path) -> None:
    name, state = new_name(), tmp_path / "state"
    with hil("up", "pair", "--name", name, "--state", str(state), stderr=subprocess.PIPE) as first:
        assert first.stderr is not None
        while "booting node1-dpu0" not in first.stderr.readline():
            assert first.poll() is None
        first.kill()
    assert remains.exist(name), "there is something to clear away"
    with hil("status", name, "--state", str(state), stderr=subprocess.PIPE) as asked:
        assert asked.wait() == 2, "it is not up"
    second = hil("up", "pair", "--name", name, "--state", str(state), stderr=subprocess.PIPE)
    _, said = second.communicate(timeout=60)
    assert second.returncode == 0, said
    assert f"clearing the remains of rig {name}" in said
    assert status.look(Rig.open(name)).healthy
    assert tear_down(name)
    assert not remains.exist(name)
    assert not tear_down(name), "nothing was left to tear down"


def test_a_failed_up_takes_down_what_it_built(
    new_name: Callable[[], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = new_name()

    def refuse(_machine: Machine) -> None:
        raise RigError("no electricity")

    monkeypatch.setattr(Machine, "power_services", refuse)
    with pytest.raises(RigError, match="no electricity"):
        Rig.up(rigfile.load(rigfile.find("pair")), tmp_path, name=name)
    assert not remains.exist(name)


def test_a_folder_that_is_not_a_rig_s_is_left_alone(new_name: Callable[[], str], tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("years of work", encoding="utf-8")
    name = new_name()
    with pytest.raises(RigError, match="not a rig's state directory"):
        Rig.up(rigfile.load(rigfile.find("pair")), tmp_path, name=name)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]
    assert not remains.exist(name)


# A machine is a machine


def test_each_machine_sees_itself(pair: Rig) -> None:
    seen = set()
    for name, machine in pair.machines.items():
        files = "/proc/sys/kernel/random/boot_id /etc/hostname"
        script = f"hostname; cat {files}; ls /sys/class/net | tr '\\n' ' '; ls /opt"
        host, boot_id, etc, interfaces, *opt = machine.run(["sh", "-c", script]).stdout.splitlines()
        assert host == etc == name
        assert boot_id == machine.boot_id != Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        bridge = {port.bridge for port in machine.plan.ports if port.bridge is not None}
        assert set(interfaces.split()) == {"lo", *bridge, *(port.name for port in machine.plan.ports)}
        assert opt == []
        seen.add(boot_id)
    assert len(seen) == len(pair.machines)


def test_a_machine_s_folders_and_bpf_objects_are_its_own(pair: Rig) -> None:
    first, second, mine = pair.machine("node1-dpu0"), pair.machine("node2-dpu0"), f"of-{pair.name}"
    for folder in ("/opt", "/var/lib", "/run", "/root", "/sys/fs/bpf"):
        first.run(["mkdir", f"{folder}/{mine}"])
        assert second.run(["test", "-e", f"{folder}/{mine}"], check=False).returncode == 1, folder
        assert not Path(folder, mine).exists(), folder
        first.run(["rmdir", f"{folder}/{mine}"])
    assert first.run(["stat", "-f", "-c", "%T", "/sys/fs/bpf"]).stdout == "bpf_fs\n"


def test_exec_passes_input_output_and_exit_code(pair: Rig) -> None:
    where = (pair.name, "node1", "--state", str(pair.state), "--")
    process = hil("exec", *where, "sh", "-c", "hostname >&2; exit 7", stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.communicate(timeout=30) == ("", "node1\n")
    assert process.returncode == 7
    assert pair.machine("node1").run(["cat"], stdin="one\ntwo\n").stdout == "one\ntwo\n"
    assert pair.machine("node1").run(["/nonexistent"], check=False).returncode == 127
    with pytest.raises(RigError, match="exit code 3: sorry"):
        pair.machine("node1").run(["sh", "-c", "echo sorry >&2; exit 3"])
    with pytest.raises(RigError, match="has no machine 'node9'; it has controller, sw1"):
        pair.machine("node9")


def test_signals_reach_the_command_and_its_end_is_passed_on(pair: Rig) -> None:
    script = "trap 'exit 5' TERM; echo ready; while :; do sleep 0.05; done"
    polite = pair.machine("node1").popen(["sh", "-c", script], stdout=subprocess.PIPE)
    _started.append(polite)
    assert polite.stdout is not None
    assert polite.stdout.readline() == "ready\n"
    polite.terminate()
    polite.communicate(timeout=10)
    assert polite.returncode == 5
    assert pair.machine("node1").run(["sh", "-c", "kill -KILL $$"], check=False).returncode == -signal.SIGKILL
    killed = pair.machine("node1").popen(["sleep", "4711"])
    until(lambda: "sleep\x004711" in processes(pair))
    killed.kill()
    killed.wait(10)
    until(lambda: "sleep\x004711" not in processes(pair))


def processes(rig: Rig) -> str:
    return rig.machine("node1").run(["sh", "-c", "cat /proc/[0-9]*/cmdline"], check=False).stdout


def test_a_recycled_pid_is_not_entered(pair: Rig) -> None:
    first = pair.machine("node1").first_process()
    helper = [sys.executable, "-I", "-S", enter.__file__, str(first.pid), "12345", "/", "true"]
    done = subprocess.run(helper, capture_output=True, text=True, check=False)
    assert done.returncode == 125
    assert "another one by now" in done.stderr


# Wires


def test_nothing_is_on_the_data_network_when_nobody_sends(pair: Rig) -> None:
    transfer(pair, "10kB")
    time.sleep(0.5)
    before = all_counters(pair)
    time.sleep(6)
    assert all_counters(pair) == before


def test_four_observers_count_the_same_bytes_and_packets(pair: Rig) -> None:
    transfer(pair, "10kB")  # so that addresses are known
    before = all_counters(pair)
    transfer(pair, "100MB")
    there, back = passed(moved(before, all_counters(pair)))
    assert len(there) == len(back) == 1, (there, back)
    ((size, packets),) = there
    # 1448 bytes of payload in a frame of 1514 at most; what is sent again is counted again.
    assert size >= 100_000_000 + 66 * (100_000_000 // 1448)
    assert size <= packets * 1514
    assert size / packets > 1400, "frames as on a wire, no super-packets"
    pair.require_lossless()


@pytest.mark.parametrize("length", [18, 60, 61, 1514])
def test_raw_frames_are_a_known_weight(pair: Rig, length: int) -> None:
    transfer(pair, "10kB")
    mac = pair.machine("node2").plan.port("eth0").mac
    before = all_counters(pair)
    receiver = start(
        pair.machine("node2"), "frames", "receive", "--device", "eth0", "--count", "300", "--within", "10s"
    )
    until(lambda: "ether" in pair.machine("node2").run(["sh", "-c", "cat /proc/net/packet; echo ether"]).stdout)
    until(lambda: len(pair.machine("node2").run(["cat", "/proc/net/packet"]).stdout.splitlines()) > 1)
    arguments = ("--device", "eth0", "--to", mac, "--length", str(length), "--count", "300")
    sent = finish(start(pair.machine("node1"), "frames", "send", *arguments))
    got = finish(receiver)
    assert int(sent["bytes_sent"]) == int(got["bytes_received"]) == 300 * length
    there, _ = passed(moved(before, all_counters(pair)))
    assert there == {(300 * length, 300)}


def test_a_tagged_frame_counts_its_tag_everywhere(pair: Rig) -> None:
    transfer(pair, "10kB")
    destination = pair.machine("node2").plan.port("eth0").mac.replace(":", "")
    program = (
        "import socket; s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW); s.bind(('eth0', 0));"
        f"frame = bytes.fromhex('{destination}' + '0200000000018100000a88b5') + bytes(982);"
        "[s.send(frame) for _ in range(50)]"
    )
    before = all_counters(pair)
    pair.machine("node1").run([sys.executable, "-c", program])
    time.sleep(0.2)
    there, _ = passed(moved(before, all_counters(pair)))
    assert there == {(50 * 1000, 50)}


def test_an_undeclared_cable_comes_and_goes(pair: Rig) -> None:
    cable = pair.add_cable("node1")
    try:
        assert str(cable.far) == "sw1/eth3"
        with pytest.raises(RigError, match="has a cable already"):
            pair.add_cable("node1")
        assert reaches(pair.machine("node2"), "10.77.0.1", 1), "the other link still works"
        arguments = ("--target", "10.77.0.2:9", "--rate", "5MB/s", "--for", "1s", "--size", "1000", "--device", "eth1")
        before = all_counters(pair)
        sent = finish(start(pair.machine("node1"), "blast", "send", *arguments))
        change = moved(before, all_counters(pair))
        assert pair.wire_count(cable).forward_bytes >= sent["detail"]["frame_bytes"] > 3_000_000
        assert change["sw1", "eth1"][0] < 10_000, "nothing of it passed the declared link"
        pair.reboot("node1")
        assert pair.machine("node1").run(["cat", "/sys/class/net/eth1/carrier"]).stdout == "1\n"
        assert str(Rig.open(pair.name).cable("node1", "eth1").far) == "sw1/eth3"
    finally:
        pair.remove_cable(cable)
    assert pair.machine("node1").run(["test", "-e", "/sys/class/net/eth1"], check=False).returncode == 1
    assert pair.machine("sw1").run(["test", "-e", "/sys/class/net/eth3"], check=False).returncode == 1
    with pytest.raises(RigError, match="belongs to the rig"):
        pair.remove_cable(pair.cable("node1-dpu0", "p0"))


def test_a_pulled_cable_is_a_lost_carrier_at_both_ends(pair: Rig) -> None:
    cable = pair.cable("node1-dpu0", "p0")
    ends = (pair.machine("node1-dpu0"), "p0"), (pair.machine("sw1"), "eth1")
    before = counters(pair, "sw1", "eth1")
    pair.pull(cable)
    try:
        for machine, port in ends:
            assert machine.run(["cat", f"/sys/class/net/{port}/carrier"]).stdout == "0\n"
        assert not status.look(pair).healthy
        assert not reaches(pair.machine("node1"), "10.77.0.2", 9000)
    finally:
        pair.plug(cable)
    for machine, port in ends:
        assert machine.run(["cat", f"/sys/class/net/{port}/carrier"]).stdout == "1\n"
    assert counters(pair, "sw1", "eth1")[0] >= before[0], "counters stay"
    transfer(pair, "10kB")


# Reboots


@pytest.mark.parametrize("name", ["node1", "node1-dpu0"])
def test_a_reboot_resets_the_machine_and_nobody_else(pair: Rig, name: str) -> None:
    transfer(pair, "200kB")
    machine = pair.machine(name)
    first, boot_id = machine.first_process(), machine.boot_id
    machine.run(["sh", "-c", "echo kept > /opt/kept; echo lost > /run/lost"])
    before = all_counters(pair)
    sleeper = machine.popen(["sleep", "1000"])
    booted = machine.run(["grep", "btime", "/proc/stat"]).stdout
    time.sleep(1.1)  # the boot time has a grain of a second
    pair.reboot(name)
    assert sleeper.wait(10) != 0
    assert not first.is_alive()
    after = all_counters(pair)
    assert machine.boot_id != boot_id
    assert machine.run(["cat", "/proc/sys/kernel/random/boot_id"]).stdout.strip() == machine.boot_id
    if name == "node1":
        assert machine.run(["grep", "btime", "/proc/stat"]).stdout > booted
    for place, counted in after.items():
        if place[0] == name:
            assert counted[0] + counted[2] < 10_000 < before[place][0] + before[place][2], f"{place} began anew"
        else:
            assert counted[0] >= before[place][0], f"{place} went on"
            assert counted[2] >= before[place][2], f"{place} went on"
    assert machine.run(["cat", "/opt/kept"]).stdout == "kept\n"
    assert machine.run(["test", "-e", "/run/lost"], check=False).returncode == 1
    machine.run(["rm", "/opt/kept"])
    until(lambda: status.look(pair).healthy)
    pair.wait_until_ready()
    transfer(pair, "200kB")


# Daemons


def test_the_management_network_reaches_the_controller_only(pair: Rig) -> None:
    addresses = {name: machine.plan.management_address for name, machine in pair.machines.items()}
    controller = pair.machine("controller")
    assert reaches(controller, addresses["node1"], 9100)
    assert reaches(controller, addresses["node1-dpu0"], 22)
    assert reaches(controller, addresses["sw1"], 22)
    assert reaches(pair.machine("node1"), addresses["controller"], 22)
    assert not reaches(pair.machine("node1"), addresses["node1-dpu0"], 22)
    assert not reaches(pair.machine("node1"), addresses["node2"], 9100)
    assert not reaches(pair.machine("node1-dpu0"), addresses["sw1"], 22)
    assert not reaches(controller, "10.77.0.1", 9100), "the data network is not the management network"


def snmp(rig: Rig, *arguments: str, configuration: Path | None = None) -> subprocess.CompletedProcess[str]:
    environment = {"SNMPCONFPATH": str(configuration or rig.state / "secrets" / "net-snmp"), "MIBS": ""}
    return rig.machine("controller").run(list(arguments), env=environment, check=False)


def test_snmpd_answers_its_user_and_nobody_else(pair: Rig, tmp_path: Path) -> None:
    names = snmp(pair, "snmpbulkwalk", "-O", "qvUe", "10.250.0.2", "1.3.6.1.2.1.31.1.1.1.1").stdout.split()
    assert names == ['"mgmt0"', '"eth1"', '"eth2"'], "ports, without the bridge and loopback"
    aliases = snmp(pair, "snmpbulkwalk", "-O", "qvUe", "10.250.0.2", "1.3.6.1.2.1.31.1.1.1.18").stdout.split()
    assert aliases == ['""', '"node1/p0"', '"node2/p0"']
    good = (pair.state / "secrets" / "net-snmp" / "snmp.conf").read_text(encoding="utf-8")
    for what, bad in (
        ("password", good.replace("defAuthPassphrase ", "defAuthPassphrase x")),
        ("privacy password", good.replace("defPrivPassphrase ", "defPrivPassphrase x")),
        ("level", good.replace("authPriv", "authNoPriv")),
        ("user", good.replace("defSecurityName ", "defSecurityName x")),
    ):
        folder = tmp_path / what
        folder.mkdir()
        (folder / "snmp.conf").write_text(bad, encoding="utf-8")
        done = snmp(pair, "snmpget", "-t", "0.5", "-r", "0", "10.250.0.2", "1.3.6.1.2.1.1.5.0", configuration=folder)
        assert done.returncode != 0 or "sw1" not in done.stdout, what
    v2 = ["snmpget", "-v2c", "-cpublic", "-t", "0.5", "-r", "0", "10.250.0.2", "1.3.6.1.2.1.1.5.0"]
    assert snmp(pair, *v2).returncode != 0
    assert "No Such Object" in snmp(pair, "snmpwalk", "10.250.0.2", "1.3.6.1.2.1.25").stdout, "no host table"
    done = snmp(pair, "snmpset", "10.250.0.2", "1.3.6.1.2.1.1.5.0", "s", "other")
    assert done.returncode != 0, "read only"


def test_snmp_counters_end_up_equal_to_the_wire(pair: Rig) -> None:
    transfer(pair, "3MB")
    oids = [f"1.3.6.1.2.1.31.1.1.1.{column}" for column in (6, 7, 10, 11)]

    def served() -> list[int]:
        index = snmp(pair, "snmpbulkwalk", "-O", "qn", "10.250.0.2", "1.3.6.1.2.1.31.1.1.1.1").stdout.splitlines()
        number = next(line.split()[0].rpartition(".")[2] for line in index if '"eth1"' in line)
        values = snmp(pair, "snmpget", "-O", "qv", "10.250.0.2", *(f"{oid}.{number}" for oid in oids)).stdout
        return [int(value) for value in values.split()]

    # snmpd caches for three seconds, and neighbours ask for each other now and then.
    until(lambda: served() == list(counters(pair, "sw1", "eth1")), within_s=40)


def test_a_switch_reboot_is_one_more_engine_boot_of_the_same_engine(pair: Rig) -> None:
    engine = ["snmpget", "-O", "qv", "10.250.0.2", "1.3.6.1.6.3.10.2.1.1.0", "1.3.6.1.6.3.10.2.1.2.0"]
    *name, boots = snmp(pair, *engine).stdout.split()
    pair.reboot("sw1", grace_s=2)
    until(lambda: snmp(pair, *engine).returncode == 0)
    *same, more = snmp(pair, *engine).stdout.split()
    assert same == name
    assert int(more) == int(boots) + 1
    aliases = ["snmpbulkwalk", "-O", "qvUe", "10.250.0.2", "1.3.6.1.2.1.31.1.1.1.18"]
    # In its first three seconds snmpd still lists loopback and bridge.
    until(lambda: snmp(pair, *aliases).stdout.split() == ['""', '"node1/p0"', '"node2/p0"'])
    pair.wait_until_ready()


def test_sshd_takes_the_deploy_key_only(pair: Rig, tmp_path: Path) -> None:
    host_key = next(
        line.split("host_key: ")[1]
        for line in (pair.state / "site.yaml").read_text("utf-8").splitlines()
        if "host_key" in line
    )
    known = tmp_path / "known hosts"
    known.write_text(f"10.250.0.11 {host_key}\n", encoding="utf-8")
    other = tmp_path / "other"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", other], check=True)

    def ssh(key: Path, *options: str) -> subprocess.CompletedProcess[str]:
        where = ["-F", "none", "-o", f'UserKnownHostsFile="{known}"', "-o", "StrictHostKeyChecking=yes"]
        login = ["-o", "BatchMode=yes", "-o", "IdentitiesOnly=yes", "-i", str(key), *options]
        argv = [
            "ssh",
            *where,
            *login,
            "root@10.250.0.11",
            "hostname; supervisorctl status sshd; command -v supervisorctl",
        ]
        return pair.machine("controller").run(argv, check=False)

    good = ssh(pair.state / "pki" / "deploy_key")
    assert good.returncode == 0, good.stderr
    host, service, path = good.stdout.splitlines()
    assert host == "node1-dpu0"
    assert service.split()[:2] == ["sshd", "running"]
    assert path == "/usr/local/sbin/supervisorctl"
    for refused in (ssh(other), ssh(other, "-o", "PreferredAuthentications=password,keyboard-interactive")):
        assert refused.returncode == 255
        assert "Permission denied (publickey)" in refused.stderr


def scrape(rig: Rig, node_number: int) -> dict[str, int]:
    url = f"http://10.250.0.{30 + node_number}:9100/metrics"
    program = f"import urllib.request; print(urllib.request.urlopen({url!r}, timeout=5).read().decode())"
    text = rig.machine("controller").run([sys.executable, "-I", "-c", program]).stdout
    wanted = ('node_network_transmit_bytes_total{device="eth0"}', "node_boot_time_seconds")
    lines = [line.rpartition(" ") for line in text.splitlines()]
    return {name: int(float(value)) for name, _, value in lines if name in wanted}


def test_the_exporter_tells_the_host_s_counters_and_boot_time(pair: Rig) -> None:
    transfer(pair, "300kB")
    claim = scrape(pair, 1)
    assert claim['node_network_transmit_bytes_total{device="eth0"}'] == counters(pair, "node1", "eth0")[2]
    booted = Path(pair.machine("node1").folder, "boot_id").stat().st_mtime
    assert abs(claim["node_boot_time_seconds"] - booted) < 3


def test_a_lying_host_claims_a_hundredth(pair: Rig) -> None:
    sent = 'node_network_transmit_bytes_total{device="eth0"}'
    transfer(pair, "10kB")
    truth_before = counters(pair, "node1", "eth0")[2]
    pair.lie("node1", factor=100)
    try:
        assert scrape(pair, 1)[sent] == truth_before, "the lie begins at the truth"
        transfer(pair, "5MB")
        truth = counters(pair, "node1", "eth0")[2]
        assert scrape(pair, 1)[sent] == truth_before + (truth - truth_before) // 100
        assert abs(scrape(pair, 2)[sent] - counters(pair, "node2", "eth0")[2]) == 0, "the other host is honest"
    finally:
        pair.stop_lying("node1")
    assert scrape(pair, 1)[sent] == counters(pair, "node1", "eth0")[2]
    assert [service["name"] for service in pair.machine("node1").supervise("status")] == ["node-exporter"]


def test_a_killed_daemon_is_started_again(pair: Rig) -> None:
    machine = pair.machine("node2-dpu0")
    (before,) = machine.supervise("status", "sshd")
    machine.run(["kill", "-KILL", str(before["pid"])])
    until(
        lambda: (
            machine.supervise("status", "sshd")[0]["state"] == "running"
            and machine.supervise("status", "sshd")[0]["pid"] != before["pid"]
        )
    )
    assert machine.supervise("status", "sshd")[0]["restarts"] == before["restarts"] + 1


def test_status_as_json(pair: Rig) -> None:
    until(lambda: status.look(pair).healthy)
    with hil("status", pair.name, "--state", str(pair.state), "--json", stdout=subprocess.PIPE) as asked:
        out, _ = asked.communicate(timeout=30)
    assert asked.returncode == 0
    shown = json.loads(out)
    assert shown["name"] == pair.name
    assert {machine["name"]: machine["role"] for machine in shown["machines"]} == {
        "controller": "controller",
        "sw1": "switch",
        "node1": "host",
        "node1-dpu0": "dpu",
        "node2": "host",
        "node2-dpu0": "dpu",
    }
    assert all(cable["carries"] and cable["lost_frames"] == "0" for cable in shown["cables"])
