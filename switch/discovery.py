"""What kind of thing an interface is, and how we know. Pure.

Bytes are counted once, at physical ports: a LAG, a VLAN or a bridge shows its members' bytes again. In order:

1. What the site file declares (``other_ports`` with a role of :data:`DECLARED_KINDS`; any other role, such as
   ``front-end``, declares a physical port that is no link).
2. The interface that holds the address that was polled is the management port.
3. ifType, where it is specific (LAG 161, VLAN 135 and 136, loopback 24, tunnel 131, bridge 209...).
4. A dot in the name: a sub-interface of the port before the dot.
5. A Linux agent calls everything Ethernet (type 6): there the kernel's conventional names count, and are
   *certain* only if the interface also shares its hardware address with another, as a bridge does with its
   members. A name alone is a hint.

Everything else is a physical port, for what is not known to be something else must not hide.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from protos.reading import Missing
from switch.mib import LINUX_AGENT
from switch.ports import Agent, PortFault, PortSample


class PortKind(enum.Enum):
    """What an interface is."""

    PHYSICAL = "physical"
    MANAGEMENT = "management"
    LAG = "lag"
    VLAN = "vlan"
    BRIDGE = "bridge"
    LOOPBACK = "loopback"
    TUNNEL = "tunnel"
    SUB_INTERFACE = "sub-interface"
    VIRTUAL = "virtual"
    UNKNOWN = "unknown"

    @property
    def carries_bytes_of_its_own(self) -> bool:
        """Whether its bytes are counted nowhere else: only then may they be summed or be an undeclared path."""
        return self in (PortKind.PHYSICAL, PortKind.UNKNOWN)


@dataclass(frozen=True, slots=True)
class Classified:
    """A port's kind, whether that is certain, and why in a sentence."""

    kind: PortKind
    certain: bool
    why: str


DECLARED_KINDS = {
    "management": PortKind.MANAGEMENT,
    "bridge": PortKind.BRIDGE,
    "lag": PortKind.LAG,
    "vlan": PortKind.VLAN,
    "loopback": PortKind.LOOPBACK,
    "tunnel": PortKind.TUNNEL,
    "virtual": PortKind.VIRTUAL,
}
"""Roles of the site file that say what an interface is; any other says what a physical port is for."""

_TYPES = {
    22: PortKind.PHYSICAL,  # propPointToPointSerial
    24: PortKind.LOOPBACK,  # softwareLoopback
    53: PortKind.VIRTUAL,  # propVirtual: routed VLANs, VXLAN
    131: PortKind.TUNNEL,  # tunnel
    135: PortKind.VLAN,  # l2vlan
    136: PortKind.VLAN,  # l3ipvlan
    142: PortKind.VIRTUAL,  # ipForward
    150: PortKind.TUNNEL,  # mplsTunnel
    161: PortKind.LAG,  # ieee8023adLag
    166: PortKind.VIRTUAL,  # mpls
    209: PortKind.BRIDGE,  # bridge
}
"""IANAifType-MIB."""

_LINUX_NAMES = (
    (re.compile(r"(br|vmbr|virbr|docker|bridge)-?[0-9a-f]*", re.ASCII), PortKind.BRIDGE),
    (re.compile(r"(bond|team)[0-9]+", re.ASCII), PortKind.LAG),
    (re.compile(r"vlan[0-9]+", re.ASCII), PortKind.VLAN),
    (re.compile(r"(vxlan|vx|gre|gretap|erspan|tun|tap|sit|ipip|ip6tnl|wg)[0-9]*", re.ASCII), PortKind.TUNNEL),
    (re.compile(r"(dummy|ifb|nlmon)[0-9]+", re.ASCII), PortKind.VIRTUAL),
)
_SUB_INTERFACE = re.compile(r"[^.]+\.[0-9]+", re.ASCII)


def classify(
    ports: Sequence[PortSample | PortFault], agent: Agent, roles: Mapping[str, str] | None = None
) -> dict[str, Classified]:
    """Return the kind of each port of a poll, best one that read them all, by the name it was asked for by.

    Args:
        ports: the entries of a poll or discovery.
        agent: the device as it described itself in the same poll.
        roles: what the site file declares in ``other_ports``: role by port.
    """
    declared = roles or {}
    sharing = _sharing(ports)
    return {entry.port: _classify(entry, agent, declared.get(entry.port), sharing) for entry in ports}


def _classify(entry: PortSample | PortFault, agent: Agent, role: str | None, sharing: Mapping[str, int]) -> Classified:
    if role is not None:
        kind = DECLARED_KINDS.get(role.strip().lower(), PortKind.PHYSICAL)
        return Classified(kind, certain=True, why=f"declared in the site file as {role}")
    if isinstance(entry, PortFault):
        return Classified(PortKind.UNKNOWN, certain=False, why=f"it could not be read: {entry.text}")
    if entry.identity.if_index == agent.management_if_index:
        return Classified(PortKind.MANAGEMENT, certain=True, why="it holds the address that is polled")
    if not isinstance(entry.if_type, Missing) and entry.if_type in _TYPES:
        return Classified(_TYPES[entry.if_type], certain=True, why=f"its ifType is {entry.if_type}")
    return _by_name(entry, agent, sharing) or _by_default(entry)


def _by_name(entry: PortSample, agent: Agent, sharing: Mapping[str, int]) -> Classified | None:
    name = entry.identity.if_name
    if _SUB_INTERFACE.fullmatch(name):
        return Classified(PortKind.SUB_INTERFACE, certain=False, why=f"the name {name!r} is a sub-interface's")
    if agent.object_id != LINUX_AGENT:
        return None
    for pattern, kind in _LINUX_NAMES:
        if pattern.fullmatch(name):
            shared = isinstance(entry.physical_address, str) and sharing.get(entry.physical_address, 0) > 1
            also = "it shares its hardware address with another" if shared else "nothing else says so; declare it"
            return Classified(kind, certain=shared, why=f"Linux names a {kind.value} {name!r}, and {also}")
    return None


def _by_default(entry: PortSample) -> Classified:
    if isinstance(entry.if_type, Missing):
        return Classified(PortKind.UNKNOWN, certain=False, why="the agent does not say its type")
    return Classified(PortKind.PHYSICAL, certain=entry.if_type == 6, why=f"its ifType is {entry.if_type}")


def _sharing(ports: Sequence[PortSample | PortFault]) -> dict[str, int]:
    addresses: dict[str, int] = {}
    for entry in ports:
        if isinstance(entry, PortSample) and isinstance(entry.physical_address, str) and entry.physical_address:
            addresses[entry.physical_address] = addresses.get(entry.physical_address, 0) + 1
    return addresses
