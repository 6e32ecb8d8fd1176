"""The rig's wiring: cables, the management switch, and each machine's interfaces.

A cable is two veth pairs, each with one end in a machine and one in the rig's *plant* namespace, where a filter
hands every frame from one end to the other (docs/adr/0011-cables-through-a-plant.md). So a machine can lose power
without its neighbour losing its interface and counters, a pulled cable is a lost carrier, and the plant's
own counters say what truly crossed the wire.
"""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from hil.errors import RigError
from hil.plan import CONTROLLER, PLANT, Cable, End, MachinePlan, Net, Plan, Port, Role, network_namespace

NAMESPACES = Path("/run/netns")
_MANAGEMENT_BRIDGE = "mgmt"
# What makes a counter count something else than frames on the wire, or makes frames that were not on it:
# segments built by or merged in the card, VLAN tags kept beside the frame, checksums left out.
_OFFLOADS = ("tso", "gso", "gro", "tx", "rxvlan", "txvlan", "tx-vlan-stag-hw-insert", "rx-vlan-stag-hw-parse")
# Matches every frame whatever its length (u32 and flower need bytes to look at): classic BPF "return -1".
_EVERYTHING = "1,6 0 0 4294967295"
_LONGEST_REMOVAL_S = 10.0
_LARGEST_MTU = 65535  # the plant carries what the ends send; only they have an MTU


@dataclass(frozen=True)
class WireCount:
    """What a cable gave out at its far end (forward) and its near end (backward), since that end's machine booted.

    ``lost_frames`` were on their way when the computer had no room for them. A wire does not do that: when it is not
    0, the rig was overloaded and its observers may disagree without anyone lying.
    """

    forward_bytes: int
    forward_frames: int
    backward_bytes: int
    backward_frames: int
    lost_frames: int


def run(command: Sequence[str], *, namespace: str | None = None, text: str | None = None) -> str:
    """Run ``command`` (in a network namespace) and return its output.

    Raises:
        RigError: it failed; the text has the command and what it said.
    """
    argv = [*([] if namespace is None else ["nsenter", f"--net={NAMESPACES / namespace}"]), *command]
    done = subprocess.run(argv, input=text, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        said = (done.stderr or done.stdout).strip()
        raise RigError(f"{' '.join(argv)}: exit code {done.returncode}: {said}" + (f"\n{text}" if text else ""))
    return done.stdout


def interfaces(namespace: str) -> list[str]:
    """Return the names of the interfaces in a network namespace."""
    lines = run(["ip", "-o", "link", "show"], namespace=namespace).splitlines()
    return [line.split(": ", 2)[1].partition("@")[0] for line in lines]


class Network:
    """Builds and changes the wiring of one rig."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self._plant = network_namespace(plan.rig, PLANT)

    def build_plant(self) -> None:
        """Make the plant namespace with the management switch in it."""
        run(["ip", "netns", "add", self._plant])
        _quieten(self._plant)
        batch = [
            "link set lo up",
            f"link add {_MANAGEMENT_BRIDGE} type bridge mcast_snooping 0 stp_state 0 forward_delay 0",
            f"link set {_MANAGEMENT_BRIDGE} up",
        ]
        _ip(self._plant, batch)

    def plug_in(self, machine: MachinePlan, before: Callable[[], None] = lambda: None) -> None:
        """Give a machine that has just booted its interfaces, plug its cables in, and configure it.

        1. Its ports appear, with the plant's ends; data ports without offloads.
        2. Management ports join the management switch: isolated, so that they reach the controller only.
        3. ``before`` is run; then its own set-up: no IPv6, bridges, addresses.
        4. Cables whose both ends are there now carry.
        """
        namespace = network_namespace(self.plan.rig, machine.name)
        _quieten(namespace)
        for port in machine.ports:
            self._make_port(machine, port)
        before()
        self._configure(machine, machine.ports)
        for cable in self.plan.cables_of(machine.name):
            self._connect_if_complete(cable)

    def power_lost(self, machine: str) -> None:
        """Take the carrier from the other ends of a dead machine's cables, and wait until its own interfaces are gone.

        Raises:
            RigError: the kernel has not removed them after ten seconds; something else holds the network namespace.
        """
        own, others = {self._management_end(machine)}, []
        for cable in self.plan.cables_of(machine):
            near, far = _ends(cable)
            here, there = (near, far) if cable.near.machine == machine else (far, near)
            own.add(here)
            others.append(there)
        deadline = time.monotonic() + _LONGEST_REMOVAL_S
        while left := own.intersection(present := interfaces(self._plant)):
            if time.monotonic() > deadline:
                held = "does a process from outside still hold its network namespace?"
                raise RigError(f"interfaces of {machine} are still there: {', '.join(sorted(left))}; {held}")
            time.sleep(0.01)
        _ip(self._plant, [f"link set {name} down" for name in others if name in present])

    def add_cable(self, cable: Cable) -> None:
        """Lay one more cable between running machines; the plan has it already."""
        for end in (cable.near, cable.far):
            machine = self.plan.machines[end.machine]
            self._make_port(machine, machine.port(end.port))
            self._configure(machine, [machine.port(end.port)])
        self._connect_if_complete(cable)

    def remove_cable(self, cable: Cable) -> None:
        """Take a cable away together with the two interfaces it was plugged into."""
        _ip(self._plant, [f"link del {name}" for name in _ends(cable)])

    def carry(self, cable: Cable, *, carries: bool) -> None:
        """Pull a cable (both ends lose their carrier) or plug it in again."""
        _ip(self._plant, [f"link set {name} {'up' if carries else 'down'}" for name in _ends(cable)])

    def carries(self, cable: Cable) -> bool:
        """Return whether the cable is plugged in at both ends."""
        links = json.loads(run(["ip", "-j", "link", "show"], namespace=self._plant))
        up = {link["ifname"] for link in links if {"UP", "LOWER_UP"} <= set(link["flags"])}
        return set(_ends(cable)) <= up

    def wire_count(self, cable: Cable) -> WireCount:
        """Return what crossed ``cable``, read at its two ends in the plant."""
        table = run(["cat", "/proc/net/dev"], namespace=self._plant)
        near, far = (_sent(table, name) for name in _ends(cable))
        return WireCount(far[0], far[1], near[0], near[1], near[2] + far[2])

    def _make_port(self, machine: MachinePlan, port: Port) -> None:
        namespace = network_namespace(self.plan.rig, machine.name)
        end = self._plant_end(machine, port)
        mtu = self.plan.mtu if port.net is Net.DATA else 1500
        name = f"link add {port.name} address {port.mac} mtu {mtu} netns {namespace} type veth"
        _ip(None, [f"{name} peer name {end} mtu {_LARGEST_MTU if port.net is Net.DATA else 1500} netns {self._plant}"])
        if port.net is Net.MANAGEMENT:
            batch = [f"link set {end} alias {machine.name} master {_MANAGEMENT_BRIDGE}", f"link set {end} up"]
            if machine.name != CONTROLLER:
                batch.insert(1, f"link set {end} type bridge_slave isolated on")
            _ip(self._plant, batch)
            return
        for place, interface in ((namespace, port.name), (self._plant, end)):
            settings = [word for offload in _OFFLOADS for word in (offload, "off")]
            run(["ethtool", "-K", interface, *settings], namespace=place)

    def _configure(self, machine: MachinePlan, ports: Sequence[Port]) -> None:
        batch = []
        bridges = {port.bridge for port in machine.ports if port.bridge is not None}
        namespace = network_namespace(self.plan.rig, machine.name)
        for bridge in sorted(bridges - set(interfaces(namespace))):
            first = next(port for port in machine.ports if port.bridge == bridge)
            # Given, so that it stays; one of its ports', as Linux does it, so that it can be told for a bridge.
            options = "mcast_snooping 0 stp_state 0 forward_delay 0"
            batch.append(f"link add {bridge} address {first.mac} mtu {self.plan.mtu} type bridge {options}")
            batch.append(f"link set {bridge} up")
        batch.append("link set lo up")
        for port in ports:
            if port.bridge is not None:
                batch.append(f"link set {port.name} master {port.bridge}")
            batch.append(f"link set {port.name} up")
            batch.extend(f"addr add {address} dev {port.name}" for address in port.addresses)
        _ip(namespace, batch)
        # A neighbour's address is asked for once; to ask again every minute would put frames on an idle wire.
        for port in ports:
            neighbour = f"net.ipv4.neigh.{port.name}"
            hour = (f"{neighbour}.delay_first_probe_time=3600", f"{neighbour}.base_reachable_time_ms=3600000")
            _sysctl(namespace, hour if port.addresses else ())
        if machine.role in (Role.HOST, Role.FRONT_END):
            # Two interfaces in one broadcast domain: each answers for its own address only.
            run(
                ["sysctl", "-q", "-w", "net.ipv4.conf.all.arp_ignore=1", "net.ipv4.conf.all.arp_announce=2"],
                namespace=namespace,
            )

    def _connect_if_complete(self, cable: Cable) -> None:
        near, far = _ends(cable)
        if not {near, far} <= set(interfaces(self._plant)):
            return
        lines = []
        for here, there in ((near, far), (far, near)):
            lines += [f"qdisc replace dev {here} clsact", f"filter del dev {here} ingress"]
            action = f"action mirred egress redirect dev {there}"
            lines.append(f"filter add dev {here} ingress protocol all bpf bytecode '{_EVERYTHING}' {action}")
        run(["tc", "-batch", "-"], namespace=self._plant, text="\n".join(lines) + "\n")
        self.carry(cable, carries=True)

    def _management_end(self, machine: str) -> str:
        return f"m{list(self.plan.machines).index(machine)}"

    def _plant_end(self, machine: MachinePlan, port: Port) -> str:
        if port.net is Net.MANAGEMENT:
            return self._management_end(machine.name)
        for cable in self.plan.cables:
            near, far = _ends(cable)
            if cable.near == End(machine.name, port.name):
                return near
            if cable.far == End(machine.name, port.name):
                return far
        raise RigError(f"no cable ends at {machine.name}/{port.name}; this is a fault of the rig's plan")


def _ends(cable: Cable) -> tuple[str, str]:
    return f"c{cable.number}near", f"c{cable.number}far"


def _ip(namespace: str | None, lines: Sequence[str]) -> None:
    if lines:
        run(["ip", "-batch", "-"], namespace=namespace, text="\n".join(lines) + "\n")


def _quieten(namespace: str) -> None:
    """Stop what would put frames on the wire, or hold them up, by itself."""
    settings = ["net.ipv6.conf.all.disable_ipv6=1", "net.ipv6.conf.default.disable_ipv6=1"]
    if Path("/proc/sys/net/bridge").exists():  # br_netfilter is there: it would send bridged frames through iptables
        settings += [f"net.bridge.bridge-nf-call-{table}=0" for table in ("iptables", "ip6tables", "arptables")]
    if not Path("/proc/sys/net/ipv6").exists():
        settings = settings[2:]
    _sysctl(namespace, settings)


def _sysctl(namespace: str, settings: Sequence[str]) -> None:
    if settings:
        run(["sysctl", "-q", "-w", *settings], namespace=namespace)


def _sent(table: str, interface: str) -> tuple[int, int, int]:
    """Return bytes sent, frames sent and frames dropped on sending, from /proc/net/dev."""
    for line in table.splitlines():
        name, colon, numbers = line.partition(":")
        if colon and name.strip() == interface:
            fields = [int(field) for field in numbers.split()]
            return fields[8], fields[9], fields[11]
    raise RigError(f"the plant has no interface {interface}: is one of the cable's machines down?")
