"""What must fit together in a site file: names are unique, references lead somewhere, ports are used once.

Each check takes the schema's sections, one key at a time right already, and yields every :class:`Problem` it finds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from controller import site_addresses
from controller.site import did_you_mean
from controller.site_schema import DpuSection, NodeSection, SiteSection, Snmp2cSection
from controller.site_values import split_address
from controller.site_yaml import Place, Problem

ETHERNET_HEADER_BYTES = 14


def problems(site: SiteSection) -> list[Problem]:
    """Return everything in ``site`` that does not fit together."""
    return [problem for check in _CHECKS for problem in check(site)]


def _twice(what: str, uses: Iterator[tuple[str, Place, str]], remedy: str) -> Iterator[Problem]:
    """Yield a problem for each value in ``uses`` (value, place, user) that somebody had before."""
    users: dict[str, str] = {}
    for value, place, user in uses:
        if value in users:
            yield Problem(place, f"{what} `{value}` is used twice: by {users[value]} and by {user}", remedy)
        users.setdefault(value, user)


def _dpus(site: SiteSection) -> Iterator[tuple[Place, NodeSection, DpuSection]]:
    for n, node in enumerate(site.nodes):
        for d, dpu in enumerate(node.dpus):
            yield ("nodes", n, "dpus", d), node, dpu


def _names(site: SiteSection) -> Iterator[Problem]:
    # Nodes, DPUs and switches share one space: each is the source of journal entries.
    def devices() -> Iterator[tuple[str, Place, str]]:
        for n, node in enumerate(site.nodes):
            yield node.name, ("nodes", n, "name"), "a node"
        for place, node, dpu in _dpus(site):
            yield dpu.name, (*place, "name"), f"a DPU of {node.name}"
        for s, switch in enumerate(site.switches):
            yield switch.name, ("switches", s, "name"), "a switch"

    yield from _twice("the name", devices(), "Give each node, DPU and switch a name of its own")
    pods = ((pod.name, ("pods", p, "name"), f"pod #{p + 1}") for p, pod in enumerate(site.pods))
    yield from _twice("the pod name", pods, "Give each pod a name of its own")
    links = ((link.name, ("links", i, "name"), f"link #{i + 1}") for i, link in enumerate(site.links))
    yield from _twice("the link name", links, "Give each link a name of its own")


def _addresses(site: SiteSection) -> Iterator[Problem]:
    def listeners() -> Iterator[tuple[str, Place, str]]:
        for place, _, dpu in _dpus(site):
            yield _canonical(dpu.agent), (*place, "agent"), f"the agent of {dpu.name}"
            if dpu.ssh is not None:
                yield _canonical(dpu.ssh.address), (*place, "ssh", "address"), f"SSH of {dpu.name}"
        for s, switch in enumerate(site.switches):
            yield _canonical(switch.address), ("switches", s, "address"), f"switch {switch.name}"
        for n, node in enumerate(site.nodes):
            if node.host is not None:
                yield node.host.exporter, ("nodes", n, "host", "exporter"), f"the exporter of {node.name}"

    yield from _twice("the address", listeners(), "Two devices cannot answer at one address: correct one of them")


def _canonical(address: str) -> str:
    host, port = split_address(address)
    return f"{host.lower()} port {port}"


def _pods(site: SiteSection) -> Iterator[Problem]:
    nodes = {node.name for node in site.nodes}
    pod_of: dict[str, str] = {}
    for p, pod in enumerate(site.pods):
        for i, name in enumerate(pod.nodes):
            place = ("pods", p, "nodes", i)
            if name not in nodes:
                yield Problem(place, f"pod {pod.name} names the unknown node `{name}`", did_you_mean(name, nodes))
            elif pod_of.get(name) == pod.name:
                yield Problem(place, f"pod {pod.name} names node `{name}` twice", "Remove one of them")
            elif name in pod_of:
                yield Problem(
                    place,
                    f"node `{name}` is in two pods, {pod_of[name]} and {pod.name}",
                    "Traffic inside a pod is free, so a node belongs to exactly one: remove it from the other",
                )
            pod_of.setdefault(name, pod.name)
    for n, node in enumerate(site.nodes):
        if node.name not in pod_of:
            yield Problem(
                ("nodes", n, "name"), f"node `{node.name}` is in no pod", "Add it to the `nodes:` of one under `pods:`"
            )


def _port_sources(place: Place, dpu: DpuSection) -> Iterator[Problem]:
    known = {port: None for uplink in dpu.uplinks for port in (uplink.name, uplink.host_port)}
    known |= {function.port: None for uplink in dpu.uplinks for function in uplink.virtual_functions}
    for port in dpu.agent_settings.port_sources:
        if port not in known:
            at = (*place, "agent_settings", "port_sources", port)
            yield Problem(at, f"{dpu.name} has no port `{port}`", did_you_mean(port, list(known)))


def _uplinks(site: SiteSection) -> Iterator[Problem]:
    for place, node, dpu in _dpus(site):
        names = [uplink.name for uplink in dpu.uplinks]
        ports = (
            (name, (*place, "uplinks", u, "name"), f"uplink #{u + 1} of {dpu.name}") for u, name in enumerate(names)
        )
        yield from _twice("the uplink", ports, "Name each uplink once")
        yield from _host_side(place, node, dpu)
        yield from _port_sources(place, dpu)
        if dpu.bond is None:
            continue
        if dpu.bond.name in names:
            yield Problem(
                (*place, "bond", "name"),
                f"bond `{dpu.bond.name}` has the name of an uplink",
                "Name the bond's interface",
            )
        for m, member in enumerate(dpu.bond.members):
            at = (*place, "bond", "members", m)
            if member not in names:
                yield Problem(
                    at, f"bond {dpu.bond.name} has the unknown member `{member}`", did_you_mean(member, names)
                )
            elif member in dpu.bond.members[:m]:
                yield Problem(at, f"bond {dpu.bond.name} has `{member}` twice", "Name two different uplinks")


def _host_side(place: Place, node: NodeSection, dpu: DpuSection) -> Iterator[Problem]:
    """Yield what is wrong with the ports and interfaces behind the uplinks of ``dpu``."""
    ports: dict[str, str] = {}
    for u, uplink in enumerate(dpu.uplinks):
        at = (*place, "uplinks", u)
        used = [((*at, "host_port"), uplink.host_port)]
        used += [((*at, "virtual_functions", f), function.port) for f, function in enumerate(uplink.virtual_functions)]
        for where, port in used:
            # Both uplinks of a bond carry the traffic of the same host port; otherwise its bytes would count twice.
            if port in ports and (dpu.bond is None or ports[port] == uplink.name):
                yield Problem(
                    where,
                    f"port `{port}` of {dpu.name} stands behind two uplinks, {ports[port]} and {uplink.name}",
                    "Name each port once, or declare the `bond:` that joins the uplinks",
                )
            ports.setdefault(port, uplink.name)
        if node.host is not None and uplink.host_interface is None:
            yield Problem(
                at,
                f"uplink {uplink.name} of {dpu.name} names no `host_interface`, but {node.name} has a host exporter",
                "Add the host's interface behind it, for example `host_interface: eth0`, "
                "or remove `host:` if the host makes no claim",
            )


def _host_interfaces(site: SiteSection) -> Iterator[Problem]:
    for n, node in enumerate(site.nodes):
        behind: dict[str, tuple[int, str]] = {}
        for d, dpu in enumerate(node.dpus):
            for u, uplink in enumerate(dpu.uplinks):
                name = uplink.host_interface
                if name is None:
                    continue
                bonded = dpu.bond is not None and behind.get(name, (d, ""))[0] == d
                if name in behind and not bonded:
                    yield Problem(
                        ("nodes", n, "dpus", d, "uplinks", u, "host_interface"),
                        f"host interface `{name}` of {node.name} stands behind two uplinks, {behind[name][1]} and "
                        f"{dpu.name} {uplink.name}",
                        "Name the interface behind each uplink, or declare the `bond:` that joins the uplinks",
                    )
                behind.setdefault(name, (d, f"{dpu.name} {uplink.name}"))


def _links(site: SiteSection) -> Iterator[Problem]:
    dpus = {dpu.name: dpu for _, _, dpu in _dpus(site)}
    switches = {switch.name for switch in site.switches}
    ends: dict[tuple[str, str], str] = {}
    ports: dict[tuple[str, str], str] = {}
    for i, link in enumerate(site.links):
        place = ("links", i)
        if link.dpu not in dpus:
            yield Problem(
                (*place, "dpu"), f"link {link.name} names the unknown DPU `{link.dpu}`", did_you_mean(link.dpu, dpus)
            )
        else:
            uplinks = [uplink.name for uplink in dpus[link.dpu].uplinks]
            if link.uplink not in uplinks:
                yield Problem(
                    (*place, "uplink"),
                    f"link {link.name} names the unknown uplink `{link.uplink}` of {link.dpu}",
                    did_you_mean(link.uplink, uplinks),
                )
        if link.switch not in switches:
            yield Problem(
                (*place, "switch"),
                f"link {link.name} names the unknown switch `{link.switch}`",
                did_you_mean(link.switch, switches),
            )
        port, end = (link.switch, link.port), (link.dpu, link.uplink)
        if port in ports:
            yield Problem(
                (*place, "port"),
                f"links {ports[port]} and {link.name} are both on port `{link.port}` of {link.switch}",
                "One cable goes into one port: correct one of them",
            )
        if end in ends:
            yield Problem(
                (*place, "uplink"),
                f"links {ends[end]} and {link.name} are both on uplink `{link.uplink}` of {link.dpu}",
                "One uplink has one cable: correct one of them",
            )
        ports.setdefault(port, link.name)
        ends.setdefault(end, link.name)
    for at, _, dpu in _dpus(site):
        for u, uplink in enumerate(dpu.uplinks):
            if (dpu.name, uplink.name) not in ends:
                yield Problem(
                    (*at, "uplinks", u),
                    f"uplink {uplink.name} of {dpu.name} has no link",
                    f"Add one under `links:` with `dpu: {dpu.name}` and `uplink: {uplink.name}`; "
                    "an uplink that nobody watches is an undeclared path",
                )


def _switches(site: SiteSection) -> Iterator[Problem]:
    linked = {(link.switch, link.port): link.name for link in site.links}
    for s, switch in enumerate(site.switches):
        seen: set[str] = set()
        for o, other in enumerate(switch.other_ports):
            place = ("switches", s, "other_ports", o, "port")
            if (switch.name, other.port) in linked:
                yield Problem(
                    place,
                    f"port `{other.port}` of {switch.name} is an other port and also on link "
                    f"{linked[switch.name, other.port]}",
                    "Remove it from `other_ports:`, or correct the link",
                )
            elif other.port in seen:
                yield Problem(place, f"port `{other.port}` of {switch.name} is declared twice", "Remove one of them")
            seen.add(other.port)
        if isinstance(switch.snmp, Snmp2cSection) and not switch.snmp.insecure:
            yield Problem(
                ("switches", s, "snmp", "version"),
                f"switch {switch.name}: SNMP 2c sends its community in clear; anyone on the management network can "
                "read and forge the answers",
                "Use `version: 3`, or write `insecure: true` beside it to accept that",
            )


def _limits(site: SiteSection) -> Iterator[Problem]:
    windows: set[tuple[str, int]] = set()
    for i, limit in enumerate(site.limits):
        if (limit.scope, limit.window) in windows:
            yield Problem(("limits", i, "window"), "two limits have the same window", "Keep the one that was agreed")
        windows.add((limit.scope, limit.window))


def _assumptions(site: SiteSection) -> Iterator[Problem]:
    largest = site.assumptions.largest_frame
    for place, _, dpu in _dpus(site):
        for u, uplink in enumerate(dpu.uplinks):
            frame = uplink.mtu + ETHERNET_HEADER_BYTES
            if frame > largest:
                yield Problem(
                    (*place, "uplinks", u, "mtu"),
                    f"a frame of {dpu.name} {uplink.name} can have {frame} bytes, more than the assumed "
                    f"`largest_frame` of {largest}",
                    f"Write `largest_frame: {frame}B` under `assumptions:`, or correct the mtu",
                )
    intervals: Mapping[str, int] = site.collection.model_dump()
    for name in ("poll_interval", "frame_interval"):
        if intervals[name] >= site.assumptions.largest_gap:
            yield Problem(
                ("collection", name),
                f"`{name}` is not shorter than the `largest_gap` that still counts as covered: no period could ever be",
                "Look more often, or allow a larger gap under `assumptions:`",
            )
    if site.collection.frame_interval % 1_000_000:
        yield Problem(
            ("collection", "frame_interval"), "an agent's interval is a whole number of milliseconds", "Round it"
        )


def _witnesses(site: SiteSection) -> Iterator[Problem]:
    # One key under two addresses would be asked twice and count once.
    keys = ((each.key.split("+")[0], ("witnesses", w, "key"), each.url) for w, each in enumerate(site.witnesses))
    yield from _twice("the witness", keys, "Name each witness once")


_CHECKS: tuple[Callable[[SiteSection], Iterator[Problem]], ...] = (
    _names,
    _addresses,
    _pods,
    _uplinks,
    _host_interfaces,
    _links,
    _switches,
    _limits,
    _assumptions,
    _witnesses,
    site_addresses.problems,
)
