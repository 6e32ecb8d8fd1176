"""What must fit together in the prefixes of a site file, so that nothing is taken for "same pod" that is not."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from dataclasses import dataclass

from controller.site_schema import SiteSection
from controller.site_yaml import Place, Problem

MAX_PREFIXES = 16_384
"""As many as an agent takes (``dpu_agent.classtable``)."""

IpNetwork = ipaddress.IPv4Network | ipaddress.IPv6Network


@dataclass(frozen=True, slots=True)
class _Use:
    """A prefix where it stands, and whose it is: ``pod`` is empty for a network, ``node`` for a pod's."""

    network: IpNetwork
    place: Place
    owner: str
    pod: str = ""
    node: str = ""

    def contradicts(self, other: _Use) -> bool:
        """Whether an address in both would be of two pods or of two nodes."""
        if not self.pod or not other.pod:
            return False
        return self.pod != other.pod or (self.node != other.node and bool(self.node) and bool(other.node))


def problems(site: SiteSection) -> Iterator[Problem]:
    """Yield what is wrong.

    1. There are no more prefixes than an agent takes.
    2. Each stands once, and no node or pod has all addresses there are.
    3. Prefixes of two nodes, or of two pods, do not overlap. In order of address and length, all that contain a
       prefix stand before it, each within the one before.
    """
    uses = sorted(_uses(site), key=lambda use: (use.network.version, int(use.network[0]), use.network.prefixlen))
    if len(uses) > MAX_PREFIXES:
        text = f"the site has {len(uses)} prefixes, an agent takes {MAX_PREFIXES}"
        yield Problem(("nodes",), text, "Join neighbouring ones")
    around: list[_Use] = []
    for use in uses:
        while around and not _contains(around[-1].network, use.network):
            around.pop()
        if around and around[-1].network == use.network:
            text = f"the prefix `{use.network}` is used twice: by {around[-1].owner} and by {use.owner}"
            yield Problem(use.place, text, "Correct one of them")
            continue
        if use.pod and use.network.prefixlen == 0:
            text = f"`{use.network}` is every address there is, not only those of {use.owner}"
            yield Problem(use.place, text, "Name its own addresses")
        for outer in around:
            if use.contradicts(outer):
                yield Problem(
                    use.place,
                    f"the prefix `{use.network}` of {use.owner} lies within `{outer.network}` of {outer.owner}",
                    "An address is one node's in one pod: correct one of them",
                )
        around.append(use)


def _contains(outer: IpNetwork, inner: IpNetwork) -> bool:
    return outer.version == inner.version and inner[0] in outer and outer.prefixlen <= inner.prefixlen


def _uses(site: SiteSection) -> Iterator[_Use]:
    pod_of = {name: pod.name for pod in site.pods for name in pod.nodes}
    for p, pod in enumerate(site.pods):
        for i, text in enumerate(pod.addresses):
            place = ("pods", p, "addresses", i)
            yield _Use(ipaddress.ip_network(text), place, f"pod {pod.name}", pod.name)
    for n, node in enumerate(site.nodes):
        for i, text in enumerate(node.addresses):
            # A node in no pod is a problem of its own.
            pod_name = pod_of.get(node.name, f"no pod of {node.name}")
            place = ("nodes", n, "addresses", i)
            yield _Use(ipaddress.ip_network(text), place, f"node {node.name}", pod_name, node.name)
    for i, each in enumerate(site.networks):
        yield _Use(ipaddress.ip_network(each.prefix), ("networks", i, "prefix"), f"the {each.traffic} network")
