"""Every key of the site file, with its type, its default and what it means.

Strict and closed: an unknown key is an error, a number is not text, a quantity carries its unit. What each value may
be is in :mod:`controller.site_values`; what must fit *together* is checked in :mod:`controller.site_checks`.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Discriminator, Field, Tag

from controller.site_values import (
    Address,
    AgentAddress,
    Bytes,
    Duration,
    ExporterUrl,
    HostKey,
    Interface,
    LineRate,
    LinkName,
    Name,
    PositiveBytes,
    PositiveDuration,
    Ppm,
    Prefix,
    Rate,
    SwitchPort,
    Text,
    WitnessKey,
    WitnessUrl,
)

VERSION = 1


class Section(BaseModel):
    """A mapping of the site file."""

    model_config = ConfigDict(strict=True, frozen=True, extra="forbid")


class ControllerSection(Section):
    """Files of the controller, relative to the site file."""

    journal: Text = Field(description="the journal", examples=["journal.db"])
    ca: Text = Field(description="the certificate of the site's authority", examples=["pki/ca.pem"])
    certificate: Text = Field(description="the controller's certificate", examples=["pki/controller.pem"])
    key: Text = Field(description="the controller's private key", examples=["pki/controller.key"])


class PodSection(Section):
    """Nodes that may talk freely to each other."""

    name: Name = Field(description="the pod's name", examples=["pod-a"])
    nodes: list[Name] = Field(description="the nodes in it", examples=["[node1, node2]"], min_length=1)
    addresses: list[Prefix] = Field(
        default=[],
        description="prefixes on the data network that only its nodes use; which node's is said at the node",
        examples=["[10.77.0.0/24, 'fd00:77::/64']"],
    )


class HostSection(Section):
    """What the host says about itself; untrusted."""

    exporter: ExporterUrl = Field(
        description="where the host's node_exporter answers", examples=["http://10.250.0.31:9100/metrics"]
    )


class SshSection(Section):
    """How `weighbridge agents deploy` reaches the DPU."""

    address: Address = Field(description="the DPU's SSH server", examples=["10.250.0.11:22"])
    user: Text = Field(description="whom to log in as", examples=["root"])
    host_key: HostKey = Field(description="the DPU's host key, pinned", examples=["ssh-ed25519 AAAAC3Nza..."])
    key: Text = Field(description="the private key to log in with", examples=["pki/deploy_key"])


class VirtualFunctionSection(Section):
    """A virtual function behind an uplink."""

    port: Interface = Field(description="its representor on the DPU", examples=["pf0vf0"])
    host_interface: Interface | None = Field(
        default=None,
        description="the host's interface for it; without it the host's claim for this uplink cannot be formed",
        examples=["eth0v0"],
    )


def _virtual_function(value: Any) -> Any:
    return {"port": value} if isinstance(value, str) else value


class UplinkSection(Section):
    """A port of the DPU towards the switch."""

    name: Interface = Field(description="the port on the DPU", examples=["p0"])
    host_port: Interface = Field(description="the DPU's port towards the host", examples=["pf0hpf"])
    host_interface: Interface | None = Field(
        default=None, description="the host's interface, as its exporter names it", examples=["eth0"]
    )
    line_rate: LineRate = Field(
        description="the rate of the wire; `unlimited` where no wire bounds it (a virtual port)",
        examples=["100Gbit/s"],
    )
    mtu: Annotated[int, Field(ge=68, le=65_535)] = Field(
        description="largest payload of a frame, in bytes (9000 for jumbo frames)", examples=["1500"]
    )
    virtual_functions: list[Annotated[VirtualFunctionSection, BeforeValidator(_virtual_function)]] = Field(
        default=[], description="virtual functions whose traffic leaves here", examples=["[pf0vf0]"]
    )


class BondSection(Section):
    """Two uplinks that share the traffic of their host ports."""

    name: Interface = Field(description="the bond's interface on the DPU", examples=["bond0"])
    members: list[Interface] = Field(description="its uplinks", examples=["[p0, p1]"], min_length=2, max_length=2)


class AgentSettingsSection(Section):
    """What an agent is told beyond what follows from the rest of the site file."""

    clock_offset_ns: Annotated[int, Field(ge=0, le=2**62)] = Field(
        default=0,
        description="added to the agent's monotonic clocks; for rigs, so that agents on one machine differ",
        examples=["3600000000000"],
    )
    spool_size: PositiveBytes | None = Field(
        default=None, description="disk that frames not yet fetched may take on the DPU", examples=["1GB"]
    )
    spool_age: PositiveDuration | None = Field(
        default=None, description="how long a frame not yet fetched is kept at least", examples=["72h"]
    )
    port_sources: dict[Interface, Literal["netlink", "mlx5-phy", "mlx5-vport", "infiniband"]] = Field(
        default={},
        description="whose counters are a port's totals, by port: the kernel's (`netlink`, where nothing is said), the "
        "card's wire (`mlx5-phy`) or function (`mlx5-vport`), or RDMA's (`infiniband`)",
        examples=["{p0: mlx5-phy, pf0hpf: mlx5-vport}"],
    )
    bucket_width: Literal["100us", "1ms", "10ms"] = Field(
        default="1ms", description="how fine its meters tell when bytes moved", examples=["100us"]
    )
    limiter: Literal["none", "police", "shape"] = Field(
        default="none",
        description="how it enforces leases: `police` drops what is more, `shape` lets it wait before it drops; with "
        "anything but `none`, what no lease allows does not pass",
        examples=["police"],
    )


class DpuSection(Section):
    """A DPU; its name is also its agent's."""

    name: Name = Field(description="the DPU's name", examples=["node1-dpu0"])
    agent: AgentAddress = Field(description="where its agent listens", examples=["10.250.0.11:7443"])
    ssh: SshSection | None = Field(
        default=None,
        description="how to deploy the agent; without it the agent is put there by other means",
        examples=["{address: '10.250.0.11:22', user: root, host_key: ssh-ed25519 AAAA..., key: pki/deploy_key}"],
    )
    uplinks: list[UplinkSection] = Field(
        description="its one or two ports towards the switch",
        examples=["[{name: p0, host_port: pf0hpf, host_interface: eth0, line_rate: 100Gbit/s, mtu: 1500}]"],
        min_length=1,
        max_length=2,
    )
    bond: BondSection | None = Field(
        default=None, description="set if the uplinks are bonded", examples=["{name: bond0, members: [p0, p1]}"]
    )
    agent_settings: AgentSettingsSection = Field(
        default=AgentSettingsSection(),
        description="what its agent is told besides; a change takes effect with the next `weighbridge agents deploy`",
        examples=["{spool_size: 1GB}"],
    )


class NodeSection(Section):
    """A host with its DPUs."""

    name: Name = Field(description="the node's name", examples=["node1"])
    host: HostSection | None = Field(
        default=None,
        description="where the host's claim is read; without it laws about the host are untestable",
        examples=["{exporter: 'http://10.250.0.31:9100/metrics'}"],
    )
    dpus: list[DpuSection] = Field(description="its DPUs", examples=["[{name: node1-dpu0, ...}]"], min_length=1)
    addresses: list[Prefix] = Field(
        default=[],
        description="its addresses on the data network, as prefixes: by them traffic is counted by pod and by node",
        examples=["[10.77.0.1/32]"],
    )


class NetworkSection(Section):
    """Addresses that are no node's."""

    prefix: Prefix = Field(description="the addresses; the longest prefix wins", examples=["10.88.0.0/16"])
    traffic: Literal["other-pod", "front-end", "storage", "management"] = Field(
        description="the class of traffic to and from them; what no prefix names is `unknown`, and limits treat that "
        "as other pod",
        examples=["storage"],
    )


class LinkSection(Section):
    """Node - DPU - cable - switch port."""

    name: LinkName = Field(description="the link's name", examples=["node1/p0"])
    dpu: Name = Field(description="the DPU at its one end", examples=["node1-dpu0"])
    uplink: Interface = Field(description="the DPU's uplink", examples=["p0"])
    switch: Name = Field(description="the switch at its other end", examples=["sw1"])
    port: SwitchPort = Field(description="the switch port, by its ifName", examples=["eth1"])


class Snmp3Section(Section):
    """SNMPv3 with authentication and privacy."""

    version: Literal[3] = Field(description="3", examples=["3"])
    user: Text = Field(description="the user", examples=["weighbridge"])
    auth: Literal["sha256", "sha384", "sha512"] = Field(
        description="how messages are authenticated", examples=["sha256"]
    )
    auth_key_file: Text = Field(
        description="the file that holds the authentication pass phrase", examples=["secrets/sw1.auth"]
    )
    privacy: Literal["aes128", "aes256"] = Field(description="how messages are encrypted", examples=["aes128"])
    privacy_key_file: Text = Field(
        description="the file that holds the privacy pass phrase", examples=["secrets/sw1.priv"]
    )


class Snmp2cSection(Section):
    """SNMPv2c: clear text; only with `insecure: true`."""

    version: Literal["2c"] = Field(description="2c", examples=["2c"])
    community_file: Text = Field(description="the file that holds the community", examples=["secrets/sw1.community"])
    insecure: bool = Field(
        default=False,
        description="must be true: anyone on the management network can read and forge the answers",
        examples=["true"],
    )


def _snmp_version(value: Any) -> str:
    return "2c" if isinstance(value, dict) and value.get("version") in ("2c", "2", 2) else "3"


class OtherPortSection(Section):
    """A switch port that is declared and is no link."""

    port: SwitchPort = Field(description="the port, by its ifName", examples=["eth5"])
    role: Text = Field(description="what it is for", examples=["front-end"])


class SwitchSection(Section):
    """A switch and how it is read."""

    name: Name = Field(description="the switch's name", examples=["sw1"])
    address: Address = Field(description="its SNMP agent", examples=["10.250.0.2:161"])
    snmp: Annotated[
        Annotated[Snmp3Section, Tag("3")] | Annotated[Snmp2cSection, Tag("2c")], Discriminator(_snmp_version)
    ] = Field(
        description="how it is read",
        examples=["{version: 3, user: weighbridge, auth: sha256, auth_key_file: secrets/sw1.auth, ...}"],
    )
    refresh: Duration = Field(
        description="how old a counter may be when it is served; all upper bounds rest on it", examples=["3.5s"]
    )
    framing: Literal["l2_without_fcs", "l2_with_fcs", "l1"] = Field(
        description="which bytes of a frame its counters count (an ASIC's IF-MIB: l2_with_fcs, a Linux bridge: "
        "l2_without_fcs)",
        examples=["l2_with_fcs"],
    )
    client: Literal["pysnmp", "direct"] = Field(
        default="pysnmp",
        description="what makes and reads its messages: the pysnmp library, or this program itself, at a fraction of "
        "the cost; what is read is the same",
        examples=["direct"],
    )
    other_ports: list[OtherPortSection] = Field(
        default=[], description="ports that are declared and are no links", examples=["[{port: eth5, role: front-end}]"]
    )


class CollectionSection(Section):
    """How often to look."""

    poll_interval: PositiveDuration = Field(default=10**9, description="between polls of a switch", examples=["1s"])
    scrape_interval: PositiveDuration = Field(default=10**9, description="between scrapes of a host", examples=["1s"])
    clock_interval: PositiveDuration = Field(
        default=10**9, description="between clock exchanges with an agent", examples=["1s"]
    )
    frame_interval: PositiveDuration = Field(default=10**9, description="between frames of an agent", examples=["1s"])
    poll_processes: Annotated[int, Field(ge=0, le=64)] = Field(
        default=0,
        description="processes that poll the switches, each its own share of them; 0: the controller does it itself, "
        "which one core has to bear",
        examples=["2"],
    )


class LimitSection(Section):
    """No more than so many bytes in any window of that length."""

    scope: Literal["node"] = Field(description="what it applies to: each node, in each direction", examples=["node"])
    window: PositiveDuration = Field(description="the length of the sliding window", examples=["10s"])
    bytes: PositiveBytes = Field(description="most bytes in any such window", examples=["10MB"])


class AssumptionsSection(Section):
    """What laws and bounds rest on. The defaults are cautious: a larger number can only hide more, never accuse."""

    in_flight: Bytes = Field(
        default=2_000_000,
        description="Q, most bytes between two neighbouring observers at any instant (a queue of 1000 full frames is "
        "1.5 MB)",
        examples=["2MB"],
    )
    late_completion: Bytes = Field(
        default=2_000_000,
        description="most bytes that the host's counter may lag behind what its DPU received",
        examples=["2MB"],
    )
    dpu_own: Rate = Field(
        default=10_000, description="the DPU's own traffic on an uplink, per direction, at most", examples=["10kB/s"]
    )
    control: Rate = Field(
        default=1_000,
        description="frames that the switch or the DPU's port make themselves (LLDP, LACP, pause), at most",
        examples=["1kB/s"],
    )
    largest_frame: PositiveBytes = Field(
        default=9_216, description="M, the largest frame on any link, without FCS", examples=["9216B"]
    )
    host_step: Bytes = Field(
        default=65_536,
        description="the largest step that the host's counter makes at once (segmentation offload hands over 64 kB)",
        examples=["65536B"],
    )
    host_segment_header: Bytes = Field(
        default=90,
        description="headers that each further frame of a segmented packet repeats, where the host counts packets "
        "before they are cut (Ethernet, a VLAN tag, IPv6, TCP with timestamps: 90 B); `0B` if its counter counts "
        "frames",
        examples=["90B"],
    )
    required_coverage: Annotated[float, Field(gt=0, le=1)] = Field(
        default=0.95, description="share of the period that must be covered for `compliant`", examples=["0.95"]
    )
    largest_gap: PositiveDuration = Field(
        default=15 * 10**9,
        description="neighbouring readings further apart do not cover the time between",
        examples=["15s"],
    )
    liars: Annotated[int, Field(ge=0, le=2)] = Field(
        default=1, description="how many of the trust domains host, DPU, switch may lie at once", examples=["1"]
    )
    clock_drift: Ppm = Field(
        default=1_000,
        description="how fast an agent's clock may run against the controller's (slewing adds 500 ppm to the crystal)",
        examples=["1000ppm"],
    )
    line_rate_margin: Ppm = Field(
        default=200,
        description="how far a port may exceed its line rate (IEEE 802.3 allows each end 100 ppm)",
        examples=["200ppm"],
    )


class WitnessSection(Section):
    """A witness, run by the other side, that cosigns the journal's checkpoints."""

    key: WitnessKey = Field(
        description="its verifier key, as `weighbridge witness init` printed it there",
        examples=["prover.example/witness+0a1b2c3d+BN..."],
    )
    url: WitnessUrl = Field(description="where it answers", examples=["http://192.0.2.9:7480"])


class SiteSection(Section):
    """The site file."""

    version: Literal[1] = Field(description="the version of this format", examples=["1"])
    site: Name = Field(description="the site's name", examples=["demo"])
    controller: ControllerSection = Field(
        description="the controller's files",
        examples=["{journal: journal.db, ca: pki/ca.pem, certificate: pki/controller.pem, key: pki/controller.key}"],
    )
    pods: list[PodSection] = Field(description="the pods", examples=["[{name: pod-a, nodes: [node1]}]"], min_length=1)
    nodes: list[NodeSection] = Field(description="the nodes", examples=["[{name: node1, ...}]"], min_length=1)
    networks: list[NetworkSection] = Field(
        default=[],
        description="what else is on the data network",
        examples=["[{prefix: 10.88.0.0/16, traffic: storage}]"],
    )
    links: list[LinkSection] = Field(
        description="the links", examples=["[{name: node1/p0, dpu: node1-dpu0, uplink: p0, switch: sw1, port: eth1}]"]
    )
    switches: list[SwitchSection] = Field(description="the switches", examples=["[{name: sw1, ...}]"], min_length=1)
    collection: CollectionSection = Field(
        default=CollectionSection(), description="how often to look", examples=["{poll_interval: 1s}"]
    )
    limits: list[LimitSection] = Field(
        description="the agreed limits; `[]` if none is agreed", examples=["[{scope: node, window: 10s, bytes: 10MB}]"]
    )
    assumptions: AssumptionsSection = Field(
        default=AssumptionsSection(), description="what laws and bounds rest on", examples=["{in_flight: 64kB}"]
    )
    witnesses: list[WitnessSection] = Field(
        default=[],
        description="who cosigns the journal's checkpoints; without one its owner alone vouches for its history",
        examples=["[{key: prover.example/witness+0a1b2c3d+BN..., url: 'http://192.0.2.9:7480'}]"],
    )
