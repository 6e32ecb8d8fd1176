"""From a site file's sections to a :class:`~controller.site.Site`: references resolved, paths absolute."""

from __future__ import annotations

from pathlib import Path

from pydantic import ValidationError

from controller import site_checks, site_errors, site_secrets, site_yaml
from controller.crosscheck.model import Assumptions as CrossCheckAssumptions
from controller.crosscheck.model import Limit
from controller.errors import SiteFileError
from controller.site import (
    AgentSettings,
    Assumptions,
    Bond,
    Collection,
    ControllerFiles,
    Dpu,
    Endpoint,
    Link,
    Network,
    Node,
    OtherPort,
    Pod,
    Site,
    SiteWitness,
    Snmp2c,
    Snmp3,
    Ssh,
    Switch,
    Uplink,
    VirtualFunction,
)
from controller.site_schema import (
    VERSION,
    AssumptionsSection,
    DpuSection,
    SiteSection,
    Snmp3Section,
    SwitchSection,
    UplinkSection,
)
from controller.site_values import split_address
from protos.buckets import CLASSES
from protos.reading import Framing
from switch.security import Client

TRAFFIC = {each.title: each for each in CLASSES}
BUCKET_US = {"100us": 100, "1ms": 1_000, "10ms": 10_000}


def build(path: Path, *, secrets: bool) -> Site:
    """See :func:`controller.site.load`."""
    content = site_yaml.read_file(path)
    file, sections = _check(content, path)
    if secrets:
        file.raise_problems(site_secrets.problems(sections, path.absolute().parent))
    return _Builder(file, content).site(sections)


def build_from(content: bytes, path: Path) -> Site:
    """See :func:`controller.site.loads`."""
    file, sections = _check(content, path)
    return _Builder(file, content).site(sections)


def _check(content: bytes, path: Path) -> tuple[site_yaml.YamlFile, SiteSection]:
    file = site_yaml.parse(content, path)
    version = file.values.get("version")
    if isinstance(version, int) and not isinstance(version, bool) and version > VERSION:
        raise SiteFileError(
            path,
            file.line(("version",)),
            f"the site file has version {version}, this program knows {VERSION}",
            "Update weighbridge on this machine",
        )
    try:
        sections = SiteSection.model_validate(file.values)
    except ValidationError as error:
        file.raise_problems(site_errors.problems(error, file.values))
        raise
    file.raise_problems(site_checks.problems(sections))
    return file, sections


class _Builder:
    def __init__(self, file: site_yaml.YamlFile, content: bytes) -> None:
        self._file, self._content = file, content
        self._folder = file.path.absolute().parent

    def site(self, file: SiteSection) -> Site:
        pod_of = {name: pod.name for pod in file.pods for name in pod.nodes}
        nodes = tuple(
            Node(
                node.name,
                pod_of[node.name],
                None if node.host is None else node.host.exporter,
                tuple(self._dpu(node.name, dpu) for dpu in node.dpus),
                tuple(node.addresses),
            )
            for node in file.nodes
        )
        return Site(
            path=self._file.path,
            content=self._content,
            name=file.site,
            controller=ControllerFiles(
                journal=self._folder / file.controller.journal,
                ca=self._folder / file.controller.ca,
                certificate=self._folder / file.controller.certificate,
                key=self._folder / file.controller.key,
            ),
            pods=tuple(Pod(pod.name, tuple(pod.nodes), tuple(pod.addresses)) for pod in file.pods),
            nodes=nodes,
            links=_links(file, nodes),
            switches=tuple(self._switch(switch, number) for number, switch in enumerate(file.switches)),
            collection=Collection(
                file.collection.poll_interval,
                file.collection.scrape_interval,
                file.collection.clock_interval,
                file.collection.frame_interval,
                file.collection.poll_processes,
            ),
            limits=tuple(Limit(limit.window, limit.bytes) for limit in file.limits),
            assumptions=_assumptions(file.assumptions),
            witnesses=tuple(SiteWitness(each.key, each.url) for each in file.witnesses),
            networks=tuple(Network(each.prefix, TRAFFIC[each.traffic]) for each in file.networks),
        )

    def _dpu(self, node: str, dpu: DpuSection) -> Dpu:
        ssh = dpu.ssh
        return Dpu(
            dpu.name,
            node,
            Endpoint(*split_address(dpu.agent)),
            None
            if ssh is None
            else Ssh(Endpoint(*split_address(ssh.address)), ssh.user, ssh.host_key, self._folder / ssh.key),
            tuple(_uplink(uplink) for uplink in dpu.uplinks),
            None if dpu.bond is None else Bond(dpu.bond.name, tuple(dpu.bond.members)),
            AgentSettings(
                dpu.agent_settings.clock_offset_ns,
                dpu.agent_settings.spool_size,
                dpu.agent_settings.spool_age,
                dpu.agent_settings.limiter,
                tuple(dpu.agent_settings.port_sources.items()),
                BUCKET_US[dpu.agent_settings.bucket_width],
            ),
        )

    def _switch(self, switch: SwitchSection, number: int) -> Switch:
        snmp: Snmp3 | Snmp2c
        if isinstance(switch.snmp, Snmp3Section):
            snmp = Snmp3(
                switch.snmp.user,
                switch.snmp.auth,
                self._folder / switch.snmp.auth_key_file,
                switch.snmp.privacy,
                self._folder / switch.snmp.privacy_key_file,
                f"{self._file.path}:{self._file.line(('switches', number, 'snmp'))}",
            )
        else:
            snmp = Snmp2c(self._folder / switch.snmp.community_file)
        return Switch(
            switch.name,
            Endpoint(*split_address(switch.address)),
            snmp,
            switch.refresh,
            Framing(switch.framing),
            tuple(OtherPort(other.port, other.role) for other in switch.other_ports),
            Client(switch.client),
        )


def _uplink(uplink: UplinkSection) -> Uplink:
    functions = tuple(VirtualFunction(each.port, each.host_interface) for each in uplink.virtual_functions)
    return Uplink(uplink.name, uplink.host_port, uplink.host_interface, uplink.line_rate, uplink.mtu, functions)


def _links(file: SiteSection, nodes: tuple[Node, ...]) -> tuple[Link, ...]:
    dpus = {dpu.name: (node, dpu) for node in nodes for dpu in node.dpus}
    links = []
    for link in file.links:
        node, dpu = dpus[link.dpu]
        bonded = () if dpu.bond is None else dpu.bond.members
        others = tuple(
            other.name
            for other in file.links
            if other is not link and other.dpu == link.dpu and link.uplink in bonded and other.uplink in bonded
        )
        links.append(
            Link(link.name, node.name, node.pod, dpu.name, dpu.uplink(link.uplink), link.switch, link.port, others)
        )
    return tuple(links)


def _assumptions(assumed: AssumptionsSection) -> Assumptions:
    return Assumptions(
        crosscheck=CrossCheckAssumptions(
            in_flight_bytes=assumed.in_flight,
            late_completion_bytes=assumed.late_completion,
            dpu_own_bytes_per_s=assumed.dpu_own,
            control_bytes_per_s=assumed.control,
            largest_frame_bytes=assumed.largest_frame,
            required_coverage=assumed.required_coverage,
            largest_gap_ns=assumed.largest_gap,
            liars=assumed.liars,
        ),
        clock_drift_ppm=assumed.clock_drift,
        line_rate_margin_ppm=assumed.line_rate_margin,
        host_step_bytes=assumed.host_step,
        host_segment_header_bytes=assumed.host_segment_header,
    )
