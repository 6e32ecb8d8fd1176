"""The rig file: which machines a rig has, how they are cabled, and what their daemons are told.

A rig file is strict: unknown keys, duplicate keys and values of the wrong kind are refused with file and line.
``hil/rigs/demo.yaml`` is a complete example; every key is described beside its field here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

import pydantic
from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from controller import site_yaml
from controller.errors import SiteFileError
from hil.errors import RigFileError
from protos.units import UnitError, parse_duration_ns, parse_rate_bytes_per_s

MOST_NODES = 20  # addresses 10.250.0.11-30 are DPUs', 31-50 hosts'
RIGS = Path(__file__).parent / "rigs"

_RIG_NAME = re.compile(r"[a-z][a-z0-9_]{0,15}", re.ASCII)
_MACHINE_NAME = re.compile(r"[a-z][a-z0-9-]{0,30}", re.ASCII)
_PORT_NAME = re.compile(r"eth[0-9]{1,3}", re.ASCII)


def check_rig_name(name: str) -> str:
    """Return ``name`` if it can name a rig; a hyphen cannot be in it (``wb-RIG-MACHINE`` must have one reading).

    Raises:
        ValueError: it cannot.
    """
    if not _RIG_NAME.fullmatch(name):
        raise ValueError(f"{name!r} cannot name a rig: use a letter, then up to 15 of a-z, 0-9 and _")
    return name


def _machine_name(name: str) -> str:
    if not _MACHINE_NAME.fullmatch(name):
        raise ValueError(f"{name!r} cannot name a machine: use a letter, then up to 30 of a-z, 0-9 and -")
    return name


def _port_name(name: str) -> str:
    if not _PORT_NAME.fullmatch(name):
        raise ValueError(f"{name!r} is not a port: ports are called eth1, eth2, ...")
    return name


def _duration(text: str) -> str:
    try:
        parse_duration_ns(text)
    except UnitError as error:
        raise ValueError(str(error)) from error
    return text


def _line_rate(text: str) -> str:
    if text == "unlimited":
        return text
    try:
        parse_rate_bytes_per_s(text)
    except UnitError as error:
        raise ValueError(str(error)) from error
    return text


RigName = Annotated[str, AfterValidator(check_rig_name)]
MachineName = Annotated[str, AfterValidator(_machine_name)]
PortName = Annotated[str, AfterValidator(_port_name)]
Duration = Annotated[str, AfterValidator(_duration)]
LineRate = Annotated[str, AfterValidator(_line_rate)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Pod(_Strict):
    """Nodes that may talk freely among themselves."""

    name: MachineName
    nodes: list[MachineName] = Field(min_length=1)


class Snmpd(_Strict):
    """How the switch's snmpd is set up: SNMPv3 authPriv with SHA-256 and AES-128; the keys are made at ``up``."""

    user: str = Field(default="weighbridge", pattern=r"^[A-Za-z][A-Za-z0-9_-]{0,31}$")
    refresh: Duration = "3.5s"  # what the site file declares: snmpd's period of 3 s and 0.5 s of grace


class Switch(_Strict):
    """The one switch; its ports are named by the cables."""

    name: MachineName = "sw1"
    snmpd: Snmpd = Snmpd()


class FrontEnd(_Strict):
    """The machine that sends inference requests, on a declared port of its own."""

    name: MachineName = "fe"


class NodeExporter(_Strict):
    """The host's own claim: prometheus-node-exporter on the management address."""

    port: int = Field(default=9100, ge=1, le=65535)


class Agents(_Strict):
    """What the agents are told when they are deployed."""

    port: int = Field(default=7443, ge=1, le=65535)
    clock_offsets: dict[MachineName, Duration] = {}  # node name -> added to its agents' monotonic clocks


class Cable(_Strict):
    """A cable that no one declared: a host's additional interface to a switch port that the site file leaves out."""

    node: MachineName
    interface: PortName
    port: PortName


class Site(_Strict):
    """Copied into the site file as it stands; ``controller.site`` checks it."""

    name: MachineName | None = None
    limits: list[dict[str, Any]] | None = None
    collection: dict[str, Any] | None = None
    assumptions: dict[str, Any] | None = None


class RigFile(_Strict):
    """A whole rig file."""

    version: Literal[1]
    rig: RigName
    kind: Literal["emulated"]
    mtu: int = Field(default=1500, ge=576, le=9216)
    line_rate: LineRate = "unlimited"
    pods: list[Pod] = Field(min_length=1)
    switch: Switch = Switch()
    front_end: FrontEnd | None = None
    undeclared_cables: list[Cable] = []
    lldp: bool = (
        False  # lldpd on switch and DPUs: frames of their own on the data ports, so off where bytes are counted
    )
    exporter: NodeExporter = NodeExporter()
    agents: Agents = Agents()
    site: Site = Site()

    def nodes(self) -> list[str]:
        """Return the nodes' names in order; their numbers (1...) give addresses and switch ports."""
        return [node for pod in self.pods for node in pod.nodes]

    def clock_offset_ns(self, node: str) -> int:
        """Return what the agents of ``node`` add to their clock, in nanoseconds."""
        return parse_duration_ns(self.agents.clock_offsets.get(node, "0s"))


def find(name_or_path: str) -> Path:
    """Return the path that ``name_or_path`` means: a path, or the name of a rig file that comes with Weighbridge."""
    shipped = RIGS / f"{name_or_path}.yaml"
    return shipped if "/" not in name_or_path and shipped.exists() else Path(name_or_path)


def load(path: Path) -> RigFile:
    """Read and check the rig file.

    1. Parse the YAML, refusing duplicate keys, keeping each value's line.
    2. Refuse a physical rig: nothing here drives hardware yet.
    3. Check every value by itself, then what must hold between them.

    Raises:
        RigFileError: with file, line, what is wrong and what to do.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        known = ", ".join(sorted(file.stem for file in RIGS.glob("*.yaml")))
        remedy = f"Give a path, or the name of a rig that comes with Weighbridge: {known}"
        raise RigFileError(path, None, f"cannot be read ({error.strerror})", remedy) from error
    try:
        document = site_yaml.parse(content, path)
    except SiteFileError as error:
        texts = (text.replace("site file", "rig file") for text in (error.problem, error.remedy))
        raise RigFileError(path, error.line, *texts) from error
    if document.values.get("kind") == "physical":
        remedy = "Use 'kind: emulated'; the same scenarios run there"
        raise RigFileError(path, document.line(("kind",)), "a physical rig cannot be driven yet", remedy)
    try:
        rig = RigFile.model_validate(document.values)
    except pydantic.ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = tuple(part for part in first["loc"] if part != "[key]")
        problem, remedy = _explain(first["type"], first["msg"], place)
        raise RigFileError(path, document.line(place), problem, remedy) from error
    for place, problem, remedy in _contradictions(rig):
        raise RigFileError(path, document.line(place), problem, remedy)
    return rig


_Place = tuple[int | str, ...]


def _explain(kind: str, message: str, place: _Place) -> tuple[str, str]:
    name = ".".join(str(part) for part in place)
    if kind == "extra_forbidden":
        return f"unknown key '{name}'", "Remove it or correct its spelling; hil/rigfile.py describes every key"
    if kind == "missing":
        return f"'{name}' is missing", "Add it; hil/rigs/demo.yaml is a complete example"
    return f"'{name}': {message.removeprefix('Value error, ')}", "Correct the value; hil/rigfile.py describes every key"


def _contradictions(rig: RigFile) -> Iterator[tuple[_Place, str, str]]:
    """Yield what does not fit together, with its place: names first, then cables, then what refers to nodes."""
    yield from _node_contradictions(rig)
    yield from _name_contradictions(rig)
    yield from _cable_contradictions(rig)
    for node in rig.agents.clock_offsets:
        if node not in rig.nodes():
            yield ("agents", "clock_offsets", node), f"no node '{node}'", "Name a node of this rig"


def _node_contradictions(rig: RigFile) -> Iterator[tuple[_Place, str, str]]:
    seen: set[str] = set()
    for pod_index, pod in enumerate(rig.pods):
        for node_index, node in enumerate(pod.nodes):
            place: _Place = ("pods", pod_index, "nodes", node_index)
            if node in seen:
                yield place, f"node '{node}' is there twice", "Give every node a name of its own"
            seen.add(node)
            if len(seen) > MOST_NODES:
                yield place, f"more than {MOST_NODES} nodes", "Leave some out: the address plan ends there"
    names = [pod.name for pod in rig.pods]
    for index, name in enumerate(names):
        if name in names[:index]:
            yield ("pods", index, "name"), f"pod '{name}' is there twice", "Give every pod a name of its own"


def _name_contradictions(rig: RigFile) -> Iterator[tuple[_Place, str, str]]:
    nodes = rig.nodes()
    taken = {name for node in nodes for name in (node, f"{node}-dpu0")} | {"controller", "plant"}
    if rig.switch.name in taken:
        yield ("switch", "name"), f"'{rig.switch.name}' is another machine's name", "Give the switch a name of its own"
    if rig.front_end is not None and rig.front_end.name in taken | {rig.switch.name}:
        problem = f"'{rig.front_end.name}' is another machine's name"
        yield ("front_end", "name"), problem, "Give the front end a name of its own"
    for node in nodes:
        if node in {"controller", "plant"} or (node.endswith("-dpu0") and node.removesuffix("-dpu0") in nodes):
            yield ("pods",), f"'{node}' is another machine's name", "Give the node another name"


def _cable_contradictions(rig: RigFile) -> Iterator[tuple[_Place, str, str]]:
    nodes = rig.nodes()
    ports = {f"eth{number}": node for number, node in enumerate(nodes, start=1)}
    if rig.front_end is not None:
        ports[f"eth{len(nodes) + 1}"] = rig.front_end.name
    ends: set[tuple[str, str]] = set()
    for index, cable in enumerate(rig.undeclared_cables):
        place: _Place = ("undeclared_cables", index)
        if cable.node not in nodes:
            yield (*place, "node"), f"no node '{cable.node}'", "Name a node of this rig"
        if cable.port in ports:
            problem = f"switch port {cable.port} already has the cable of '{ports[cable.port]}'"
            yield (*place, "port"), problem, f"Use eth{len(ports) + 1} or a later one"
        ports[cable.port] = cable.node
        if cable.interface == "eth0" or (cable.node, cable.interface) in ends:
            problem = f"interface {cable.interface} of '{cable.node}' already has a cable"
            yield (*place, "interface"), problem, "Use eth1 or a later one"
        ends.add((cable.node, cable.interface))
