"""A site: its pods, nodes, DPUs, links, switches, limits and assumptions, as the site file says and as code uses them.

:func:`load` reads and checks a site file (:mod:`controller.site_yaml` reads, :mod:`controller.site_schema` knows each
key, :mod:`controller.site_checks` knows what must fit together, :mod:`controller.site_secrets` looks at the secret
files). Everything here is frozen; quantities are integers in the units their names say; paths are absolute.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from controller.crosscheck.model import Assumptions as CrossCheckAssumptions
from controller.crosscheck.model import Limit
from controller.errors import OperatorError
from protos.buckets import TrafficClass
from protos.reading import Framing
from switch.security import Client


@dataclass(frozen=True, slots=True)
class Endpoint:
    """An address and a port on the management network."""

    host: str
    port: int

    def __str__(self) -> str:
        """``10.250.0.11:7443``, ``[fd00::11]:7443``: what gRPC and URLs take."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class ControllerFiles:
    """Where the controller keeps its journal and its credentials."""

    journal: Path
    ca: Path
    certificate: Path
    key: Path


@dataclass(frozen=True, slots=True)
class Pod:
    """Nodes that may talk freely to each other; limits apply at its boundary. ``addresses`` are prefixes of theirs."""

    name: str
    nodes: tuple[str, ...]
    addresses: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Ssh:
    """How the agent is deployed to a DPU. ``host_key`` is pinned: ``type base64`` as in a known-hosts file."""

    address: Endpoint
    user: str
    host_key: str
    key: Path


@dataclass(frozen=True, slots=True)
class VirtualFunction:
    """A virtual function behind an uplink: its representor on the DPU, and the host's interface if it is declared."""

    port: str
    host_interface: str | None


@dataclass(frozen=True, slots=True)
class Uplink:
    """A DPU's port towards the switch, and what stands on its other side.

    Attributes:
        name: the port on the DPU, for example ``p0``.
        host_port: the DPU's port towards the host, for example ``pf0hpf``.
        host_interface: the host's interface, as its exporter names it; None where the node declares no host.
        line_rate_bytes_per_s: of the wire; None where no wire bounds the rate (a virtual port).
        mtu_bytes: largest payload of a frame; a frame has 14 more (18 with a VLAN tag).
        virtual_functions: beside the physical function.
    """

    name: str
    host_port: str
    host_interface: str | None
    line_rate_bytes_per_s: int | None
    mtu_bytes: int
    virtual_functions: tuple[VirtualFunction, ...] = ()

    @property
    def host_ports(self) -> tuple[str, ...]:
        """Every port of the DPU whose traffic leaves by this uplink."""
        return (self.host_port, *(function.port for function in self.virtual_functions))

    @property
    def host_interfaces(self) -> tuple[str, ...] | None:
        """The host's interfaces for :attr:`host_ports`; None unless every one is declared.

        A sum that lacks one would be a claim that the host never made.
        """
        names = (self.host_interface, *(function.host_interface for function in self.virtual_functions))
        declared = tuple(name for name in names if name is not None)
        return declared if len(declared) == len(names) else None


@dataclass(frozen=True, slots=True)
class Bond:
    """Uplinks that carry the traffic of the same host ports between them."""

    name: str
    members: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class AgentSettings:
    """What an agent is told beyond what follows from the site; None is the agent's own default.

    ``port_sources`` are pairs of port and counter source, for ports whose totals are not netlink's.
    """

    clock_offset_ns: int = 0
    spool_bytes: int | None = None
    spool_age_ns: int | None = None
    limiter: str = "none"
    port_sources: tuple[tuple[str, str], ...] = ()
    bucket_us: int = 1_000


@dataclass(frozen=True, slots=True)
class Dpu:
    """A DPU and the agent on it; the agent's name is the DPU's."""

    name: str
    node: str
    agent: Endpoint
    ssh: Ssh | None
    uplinks: tuple[Uplink, ...]
    bond: Bond | None = None
    agent_settings: AgentSettings = AgentSettings()

    def uplink(self, name: str) -> Uplink:
        """Return the uplink called ``name``.

        Raises:
            OperatorError: there is none.
        """
        return _by_name(f"uplink of {self.name}", self.uplinks, name)


@dataclass(frozen=True, slots=True)
class Node:
    """A host with its DPUs. ``exporter`` is the URL of its own metrics, or None where it makes no claim.

    ``addresses`` are its prefixes on the data network.
    """

    name: str
    pod: str
    exporter: str | None
    dpus: tuple[Dpu, ...]
    addresses: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Network:
    """Addresses that are no node's, and what traffic with them is for."""

    prefix: str
    traffic_class: TrafficClass


@dataclass(frozen=True, slots=True)
class Link:
    """Node - DPU - cable - switch port. ``bonded_with`` names the links that share its host ports."""

    name: str
    node: str
    pod: str
    dpu: str
    uplink: Uplink
    switch: str
    port: str
    bonded_with: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Snmp3:
    """SNMPv3 with authentication and privacy. The key files hold pass phrases; ``place`` is file and line of it all."""

    user: str
    auth: str
    auth_key_file: Path
    privacy: str
    privacy_key_file: Path
    place: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class Snmp2c:
    """SNMPv2c: anyone on the management network can read and forge it; only with ``insecure: true``."""

    community_file: Path


@dataclass(frozen=True, slots=True)
class OtherPort:
    """A port of the switch that is declared and is no link, and what it is for."""

    port: str
    role: str


@dataclass(frozen=True, slots=True)
class Switch:
    """A switch. ``refresh_ns`` is how old a counter may be when it is served (R of the bounds)."""

    name: str
    address: Endpoint
    snmp: Snmp3 | Snmp2c
    refresh_ns: int
    framing: Framing
    other_ports: tuple[OtherPort, ...] = ()
    client: Client = Client.PYSNMP


@dataclass(frozen=True, slots=True)
class SiteWitness:
    """Who cosigns the journal's checkpoints: its verifier key (a signed-note vkey), and where it answers."""

    key: str
    url: str


@dataclass(frozen=True, slots=True)
class Collection:
    """How often the controller looks, how often an agent makes a frame, and how many processes poll switches."""

    poll_interval_ns: int
    scrape_interval_ns: int
    clock_interval_ns: int
    frame_interval_ns: int
    poll_processes: int = 0


@dataclass(frozen=True, slots=True)
class Assumptions:
    """What laws and bounds rest on, as the site file declares it; see the site file's reference for each.

    ``crosscheck`` holds those the cross-check takes as they are. The others go into readings and tracks before:

    Attributes:
        crosscheck: the numbers the laws use.
        clock_drift_ppm: how fast an agent's clock may run against the controller's, at most.
        line_rate_margin_ppm: how far a port may exceed its line rate.
        host_step_bytes: beta of the host's counter: the largest step it makes at once.
        host_segment_header_bytes: most header bytes that each further frame of a segmented packet repeats, where the
            host counts packets before they are cut; 0: its counter counts frames.
    """

    crosscheck: CrossCheckAssumptions
    clock_drift_ppm: int
    line_rate_margin_ppm: int
    host_step_bytes: int
    host_segment_header_bytes: int


@dataclass(frozen=True, slots=True)
class Site:
    """One site, from one site file. ``content`` is the file's exact bytes, as they go into the journal."""

    path: Path
    content: bytes
    name: str
    controller: ControllerFiles
    pods: tuple[Pod, ...]
    nodes: tuple[Node, ...]
    links: tuple[Link, ...]
    switches: tuple[Switch, ...]
    collection: Collection
    limits: tuple[Limit, ...]
    assumptions: Assumptions
    witnesses: tuple[SiteWitness, ...] = ()
    networks: tuple[Network, ...] = ()

    def agents(self) -> tuple[Dpu, ...]:
        """Every DPU, in the order of the file: each runs one agent."""
        return tuple(dpu for node in self.nodes for dpu in node.dpus)

    def agent(self, name: str) -> Dpu:
        """Return the DPU (and agent) called ``name``.

        Raises:
            OperatorError: there is none.
        """
        return _by_name("agent", self.agents(), name)

    def node(self, name: str) -> Node:
        """Return the node called ``name``; raises as :meth:`agent`."""
        return _by_name("node", self.nodes, name)

    def switch(self, name: str) -> Switch:
        """Return the switch called ``name``; raises as :meth:`agent`."""
        return _by_name("switch", self.switches, name)

    def link(self, name: str) -> Link:
        """Return the link called ``name``; raises as :meth:`agent`."""
        return _by_name("link", self.links, name)

    def links_of(self, switch: str) -> tuple[Link, ...]:
        """Return the links on ports of ``switch``."""
        return tuple(link for link in self.links if link.switch == switch)

    def declared_ports(self, switch: str) -> frozenset[str]:
        """Return the ports of ``switch`` that the file declares: links' and others."""
        others = (other.port for other in self.switch(switch).other_ports)
        return frozenset((*others, *(link.port for link in self.links_of(switch))))


def load(path: Path | str, *, secrets: bool = True) -> Site:
    """Read and check the site file at ``path``.

    1. Read the YAML, keeping the line of each key; duplicate keys are refused.
    2. Check each key and value by itself, and report everything that is wrong at once.
    3. Check what must fit together: names, references, ports, addresses.
    4. With ``secrets``, check that the secret files are there and private.

    Args:
        path: the file.
        secrets: False for commands that only look at what is journaled, possibly on another machine.

    Raises:
        SiteFileError: with file, line, what is wrong and what to do; one error may report several.
    """
    from controller.site_build import build  # noqa: PLC0415  pydantic and YAML are loaded by those who read a file

    return build(Path(path), secrets=secrets)


def loads(content: bytes, path: Path | str) -> Site:
    """Like :func:`load` for bytes that are at hand (a journaled site file); ``path`` is where they came from.

    Secrets are not looked at.

    Raises:
        SiteFileError: as :func:`load`.
    """
    from controller.site_build import build_from  # noqa: PLC0415  as above

    return build_from(content, Path(path))


_NamedT = TypeVar("_NamedT", Dpu, Link, Node, Switch, Uplink)


def _by_name(what: str, things: Iterable[_NamedT], name: str) -> _NamedT:
    known = {thing.name: thing for thing in things}
    if name in known:
        return known[name]
    raise OperatorError(f"the site has no {what} called {name!r}. {did_you_mean(name, known)}")


def did_you_mean(wrong: str, known: Iterable[str]) -> str:
    """Return a sentence that names what was probably meant, or everything there is."""
    names = sorted(known)
    close = difflib.get_close_matches(wrong, names, n=1)
    if close:
        return f"Did you mean `{close[0]}`?"
    if not names:
        return "There is none."
    return f"There is {', '.join(f'`{name}`' for name in names)}."
