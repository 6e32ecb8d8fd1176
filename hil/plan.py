"""What a rig file comes to: machines, their ports and addresses, and the cables between them. Pure.

::

    host eth0 ─ cable ─ pf0hpf [DPU br0] p0 ─ cable ─ ethN [switch br0] ─ cable ─ eth0 front end
    mgmt0 / oob_net0 of every machine but the front end ─ management switch (ports isolated but the controller's)

Addresses: data 10.77.0.N on host N's ``eth0``, 10.77.0.100 at the front end; management 10.250.0.1 controller,
.2 switch, .(10+N) DPU, .(30+N) host. An undeclared second interface of host N gets 10.77.1.N; the front end also
has 10.77.1.100, so that there is someone to talk to over it.
"""

from __future__ import annotations

import enum
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field

from hil.rigfile import RigFile

CONTROLLER, PLANT = "controller", "plant"
DATA_PREFIX, MANAGEMENT_PREFIX = 24, 24


class Role(enum.Enum):
    """What a machine is."""

    HOST = "host"
    DPU = "dpu"
    SWITCH = "switch"
    FRONT_END = "front-end"
    CONTROLLER = "controller"


class Net(enum.Enum):
    """Which of the two networks a port is on."""

    DATA = "data"
    MANAGEMENT = "management"


@dataclass(frozen=True)
class Port:
    """A network interface of a machine, as its operating system finds it at boot."""

    name: str
    mac: str
    net: Net
    addresses: tuple[str, ...] = ()  # with prefix length
    bridge: str | None = None


@dataclass(frozen=True)
class MachinePlan:
    """One machine and its ports."""

    name: str
    role: Role
    ports: tuple[Port, ...]
    node: str | None = None  # whose host or DPU it is

    def port(self, name: str) -> Port:
        """Return the port called ``name``; KeyError if the machine has none."""
        return next(port for port in self.ports if port.name == name)

    @property
    def management_address(self) -> str:
        """The address on the management network, without prefix length."""
        port = next(port for port in self.ports if port.net is Net.MANAGEMENT)
        return port.addresses[0].partition("/")[0]

    @property
    def data_address(self) -> str:
        """The first address on the data network, without prefix length."""
        port = next(port for port in self.ports if port.net is Net.DATA and port.addresses)
        return port.addresses[0].partition("/")[0]


@dataclass(frozen=True)
class End:
    """One end of a cable."""

    machine: str
    port: str

    def __str__(self) -> str:
        return f"{self.machine}/{self.port}"


@dataclass(frozen=True)
class Cable:
    """A cable (or the PCIe path between a host and its DPU); ``number`` names its two ends in the plant."""

    number: int
    near: End
    far: End
    declared: bool = True


@dataclass(frozen=True)
class Plan:
    """Everything that ``up`` will build."""

    rig: str
    mtu: int
    machines: dict[str, MachinePlan]
    cables: tuple[Cable, ...] = field(default=())

    def cables_of(self, machine: str) -> Iterator[Cable]:
        """Yield the cables with an end at ``machine``."""
        return (cable for cable in self.cables if machine in (cable.near.machine, cable.far.machine))

    def with_role(self, role: Role) -> Iterator[MachinePlan]:
        """Yield the machines of that role, in order."""
        return (machine for machine in self.machines.values() if machine.role is role)


def network_namespace(rig: str, machine: str) -> str:
    """Return the name under /run/netns; the first hyphen after ``wb-`` ends the rig's name."""
    return f"wb-{rig}-{machine}"


def dpu_of(node: str) -> str:
    """Return the name of the node's DPU."""
    return f"{node}-dpu0"


def mac(rig: str, machine: str, port: str) -> str:
    """Return a locally administered address that stays the same over reboots, as a card's does."""
    digest = hashlib.blake2b(f"{rig}/{machine}/{port}".encode(), digest_size=5).hexdigest()
    return ":".join(["02", *(digest[index : index + 2] for index in range(0, 10, 2))])


def plan(rig_file: RigFile, name: str | None = None, extra: tuple[tuple[str, str, str], ...] = ()) -> Plan:
    """Return what ``rig_file`` comes to.

    1. For each node a host (``eth0``) and a DPU (``pf0hpf``, ``p0``), cabled to each other and to switch port ethN.
    2. The front end on the next switch port.
    3. The undeclared cables: the file's, then ``extra`` as (node, interface, switch port).
    4. A management port for everyone but the front end.

    ``name`` replaces the file's rig name.
    """
    rig = name or rig_file.rig
    nodes, switch = rig_file.nodes(), rig_file.switch.name
    ports: dict[str, list[Port]] = {}
    roles: dict[str, tuple[Role, str | None]] = {}
    cables: list[Cable] = []

    def add(
        machine: str, port: str, *addresses: str, net: Net = Net.DATA, bridge: str | None = None, end: int | None = None
    ) -> End:
        new = Port(port, mac(rig, machine, port), net, addresses, bridge)
        ports[machine].insert(len(ports[machine]) if end is None else end, new)
        return End(machine, port)

    def connect(near: End, far: End, *, declared: bool = True) -> None:
        cables.append(Cable(len(cables), near, far, declared))

    def machine(machine_name: str, role: Role, node: str | None = None) -> None:
        ports[machine_name], roles[machine_name] = [], (role, node)

    machine(CONTROLLER, Role.CONTROLLER)
    machine(switch, Role.SWITCH)
    for number, node in enumerate(nodes, start=1):
        machine(node, Role.HOST, node)
        machine(dpu_of(node), Role.DPU, node)
        connect(
            add(node, "eth0", f"10.77.0.{number}/{DATA_PREFIX}"),
            add(dpu_of(node), "pf0hpf", bridge="br0"),
        )
        connect(add(dpu_of(node), "p0", bridge="br0"), add(switch, f"eth{number}", bridge="br0"))
    if rig_file.front_end is not None:
        front = rig_file.front_end.name
        machine(front, Role.FRONT_END)
        near = add(front, "eth0", f"10.77.0.100/{DATA_PREFIX}", f"10.77.1.100/{DATA_PREFIX}")
        connect(near, add(switch, f"eth{len(nodes) + 1}", bridge="br0"))
    undeclared = [(cable.node, cable.interface, cable.port) for cable in rig_file.undeclared_cables]
    for node, interface, port in [*undeclared, *extra]:
        number = nodes.index(node) + 1
        near = add(node, interface, f"10.77.{interface.removeprefix('eth')}.{number}/{DATA_PREFIX}")
        connect(near, add(switch, port, bridge="br0"), declared=False)
    management = {CONTROLLER: 1, switch: 2}
    for number, node in enumerate(nodes, start=1):
        management |= {dpu_of(node): 10 + number, node: 30 + number}
    for machine_name, last in management.items():
        port = "oob_net0" if roles[machine_name][0] is Role.DPU else "mgmt0"
        add(machine_name, port, f"10.250.0.{last}/{MANAGEMENT_PREFIX}", net=Net.MANAGEMENT, end=0)
    machines = {
        machine_name: MachinePlan(machine_name, role, tuple(ports[machine_name]), node)
        for machine_name, (role, node) in roles.items()
    }
    return Plan(rig, rig_file.mtu, machines, tuple(cables))
