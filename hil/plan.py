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


@dataclass(frozen=True)
class ExtraCable:
    """An undeclared cable laid while the rig is up; ``number`` stays its own when others are taken away."""

    number: int
    node: str
    interface: str
    port: str


def plan(rig_file: RigFile, name: str | None = None, extra: tuple[ExtraCable, ...] = ()) -> Plan:
    """Return what ``rig_file`` comes to.

    1. For each node a host (``eth0``) and a DPU (``pf0hpf``, ``p0``), cabled to each other and to switch port ethN.
    2. The front end on the next switch port.
    3. The undeclared cables: the file's, then ``extra``.
    4. A management port for everyone but the front end.

    ``name`` replaces the file's rig name.
    """
    rig = name or rig_file.rig
    nodes, switch = rig_file.nodes(), rig_file.switch.name
    building = _Building(rig, rig_file.mtu, nodes, switch)
    building.machine(CONTROLLER, Role.CONTROLLER)
    building.machine(switch, Role.SWITCH)
    for number, node in enumerate(nodes, start=1):
        building.node(number, node)
    if rig_file.front_end is not None:
        building.front_end(rig_file.front_end.name)
    for cable in rig_file.undeclared_cables:
        building.undeclared(ExtraCable(len(building.cables), cable.node, cable.interface, cable.port))
    for more in extra:
        building.undeclared(more)
    building.management({CONTROLLER: 1, switch: 2})
    for number, node in enumerate(nodes, start=1):
        building.management({dpu_of(node): 10 + number, node: 30 + number})
    return building.done()


class _Building:
    """A plan that is being made."""

    def __init__(self, rig: str, mtu: int, nodes: list[str], switch: str) -> None:
        self._rig, self._mtu, self._nodes, self._switch = rig, mtu, nodes, switch
        self._roles: dict[str, tuple[Role, str | None]] = {}
        self._ports: dict[str, list[Port]] = {}
        self.cables: list[Cable] = []

    def machine(self, name: str, role: Role, node: str | None = None) -> None:
        self._roles[name], self._ports[name] = (role, node), []

    def node(self, number: int, node: str) -> None:
        dpu = dpu_of(node)
        self.machine(node, Role.HOST, node)
        self.machine(dpu, Role.DPU, node)
        self._connect(self._port(node, "eth0", f"10.77.0.{number}"), self._port(dpu, "pf0hpf", bridge="br0"))
        self._connect(self._port(dpu, "p0", bridge="br0"), self._port(self._switch, f"eth{number}", bridge="br0"))

    def front_end(self, name: str) -> None:
        self.machine(name, Role.FRONT_END)
        port = f"eth{len(self._nodes) + 1}"
        near = self._port(name, "eth0", "10.77.0.100", "10.77.1.100")
        self._connect(near, self._port(self._switch, port, bridge="br0"))

    def undeclared(self, extra: ExtraCable) -> None:
        address = f"10.77.{extra.interface.removeprefix('eth')}.{self._nodes.index(extra.node) + 1}"
        near = self._port(extra.node, extra.interface, address)
        far = self._port(self._switch, extra.port, bridge="br0")
        self.cables.append(Cable(extra.number, near, far, declared=False))

    def management(self, last_bytes: dict[str, int]) -> None:
        for machine, last in last_bytes.items():
            port = "oob_net0" if self._roles[machine][0] is Role.DPU else "mgmt0"
            address = f"10.250.0.{last}/{MANAGEMENT_PREFIX}"
            # First, as on a server: it is there before the data ports are.
            self._ports[machine].insert(0, Port(port, mac(self._rig, machine, port), Net.MANAGEMENT, (address,)))

    def done(self) -> Plan:
        machines = {
            name: MachinePlan(name, role, tuple(self._ports[name]), node) for name, (role, node) in self._roles.items()
        }
        return Plan(self._rig, self._mtu, machines, tuple(self.cables))

    def _port(self, machine: str, name: str, *addresses: str, bridge: str | None = None) -> End:
        with_prefix = tuple(f"{address}/{DATA_PREFIX}" for address in addresses)
        self._ports[machine].append(Port(name, mac(self._rig, machine, name), Net.DATA, with_prefix, bridge))
        return End(machine, name)

    def _connect(self, near: End, far: End) -> None:
        self.cables.append(Cable(len(self.cables), near, far))
