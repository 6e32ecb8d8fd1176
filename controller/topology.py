"""The wiring: what the site file declares at each switch port, against what a switch found there. Pure.

A DPU is known by its name in the site file, which its machine must bear (as its host name, or the first label of it)
to be recognised. What neighbours say is not signed: agreement shows that nobody plugged a cable in wrongly, not that
nobody lied about it.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from controller.site import Link, Site
from protos.reading import Missing
from switch.discovery import classify
from switch.forwarding import stations
from switch.lldp import Neighbour, neighbours
from switch.ports import Poll, PortFault, PortSample

_MOST_SHOWN = 3
"""Addresses of one port in a sentence."""


class Wiring(enum.Enum):
    """What is to be said of a port."""

    CONFIRMED = "confirmed"
    UNCONFIRMED = "unconfirmed"
    MISCABLED = "miscabled-link"
    UNDECLARED_NEIGHBOUR = "undeclared-neighbour"
    UNDECLARED_PORT = "undeclared-port"
    DECLARED = "declared"
    DOWN = "down"
    UNREAD = "unread"

    @property
    def wrong(self) -> bool:
        """Whether it contradicts the site file."""
        return self in (Wiring.MISCABLED, Wiring.UNDECLARED_NEIGHBOUR, Wiring.UNDECLARED_PORT)


@dataclass(frozen=True, slots=True)
class PortWiring:
    """One switch port.

    Attributes:
        switch: the switch's name.
        port: the port's name.
        declared: what the site file has there, for a person; empty if nothing.
        link: the declared link, None if it is none.
        found: who introduced himself there.
        found_links: the links whose DPU and uplink those are, as far as the site file knows them.
        state: what is to be said of it.
        text: in a sentence.
        up: whether the port is up; None if it is not known.
        octets: in and out together, as counted so far; None if it is not known.
        addresses: of stations behind it, in hex, by the switch's forwarding table.
    """

    switch: str
    port: str
    declared: str
    link: str | None
    found: tuple[str, ...]
    found_links: tuple[str, ...]
    state: Wiring
    text: str
    up: bool | None
    octets: int | None
    addresses: tuple[str, ...] = ()


def wiring(site: Site, switch: str, poll: Poll) -> list[PortWiring]:
    """Return every port of ``switch`` that is declared, or may carry bytes of its own, compared with the site file.

    1. A link's port: its own DPU there confirms it; another link's is a miscabled link; anybody else is an undeclared
       neighbour, beside the DPU too (something that both are plugged into).
    2. Any other port: a link's DPU there is a miscabled link.
    3. A port that is not declared: whoever is there is an undeclared neighbour, also one who does not say who he is
       and only shows in the forwarding table; up without anybody, an undeclared port.
    4. A DPU who says he is at home while his address is behind another port is not confirmed.
    5. Silence is no contradiction: the port is then unconfirmed, or down, or was not read.

    Args:
        site: what is declared.
        switch: which of its switches.
        poll: a discovery of it.
    """
    behind = stations(poll.exchanges, poll.samples)
    places = {address: port for port, addresses in behind.items() for address in addresses}
    there: dict[str, list[Neighbour]] = {}
    for neighbour in neighbours(poll.exchanges, poll.samples):
        there.setdefault(neighbour.port or f"local port {neighbour.local_number}", []).append(neighbour)
    entries = {entry.port: entry for entry in poll.ports}
    links = {link.port: link for link in site.links_of(switch)}
    roles = {other.port: other.role for other in site.switch(switch).other_ports}
    kinds = classify(poll.ports, poll.agent, roles)
    own = [port for port, kind in kinds.items() if kind.kind.carries_bytes_of_its_own]
    ports = dict.fromkeys((*links, *roles, *own, *there))
    found = []
    for port in ports:
        here = there.get(port, [])
        entry = entries.get(port)
        place = _Place(port, links.get(port), roles.get(port), here, entry, behind.get(port, ()), places)
        state, text = _judge(site, place)
        found.append(
            PortWiring(
                switch=switch,
                port=port,
                declared=_declared(links.get(port), roles.get(port)),
                link=links[port].name if port in links else None,
                found=tuple(neighbour.told() for neighbour in here),
                found_links=tuple(link.name for link in (_link_of(site, each) for each in here) if link is not None),
                state=state,
                text=text,
                up=entry.operational if isinstance(entry, PortSample) else None,
                octets=_octets(entry),
                addresses=place.addresses,
            )
        )
    return found


@dataclass(frozen=True, slots=True)
class _Place:
    """One port: what is declared, who is there, how it was read, which addresses are behind it, and all others."""

    name: str
    link: Link | None
    role: str | None
    here: Sequence[Neighbour]
    entry: PortSample | PortFault | None
    addresses: tuple[str, ...]
    places: Mapping[str, str]

    @property
    def stations(self) -> str:
        """The addresses behind it, for a sentence; empty if there are none."""
        shown = ", ".join(_colons(address) for address in self.addresses[:_MOST_SHOWN])
        more = len(self.addresses) - _MOST_SHOWN
        return shown + (f" and {more} more" if more > 0 else "")

    @property
    def where(self) -> str:
        declared = _declared(self.link, self.role)
        return f"port {self.name} is declared to be {declared}" if declared else f"port {self.name} is not declared"


def _judge(site: Site, place: _Place) -> tuple[Wiring, str]:
    link, role = place.link, place.role
    known = [(each, _link_of(site, each)) for each in place.here]
    at_home = [each for each, its in known if its is not None and its == link]
    for each, its in known:
        if its is not None and its != link:
            text = f"{place.where}; {each.told()} is there, which belongs at port {its.port} of {its.switch}"
            return Wiring.MISCABLED, text
    strangers = [each for each, its in known if its is None]
    if strangers and (link is not None or role is None):
        also = " beside it" if at_home else ""
        told = ", ".join(each.told() for each in strangers)
        text = f"{place.where}; {told} is there{also}, which the site file does not know"
        return Wiring.UNDECLARED_NEIGHBOUR, text
    for each in at_home:
        away = next(
            (own for own in (each.port_id, each.chassis) if place.places.get(own, place.name) != place.name), None
        )
        if away is not None and away not in place.addresses:
            text = f"{place.where}; {each.told()} says he is there, but {_colons(away)} is behind {place.places[away]}"
            return Wiring.UNCONFIRMED, text
    if at_home:
        return Wiring.CONFIRMED, f"{place.where}; {at_home[0].told()} is there"
    return _silent(place)


def _silent(place: _Place) -> tuple[Wiring, str]:
    """Return what is to be said of a port where nobody is who matters."""
    entry = place.entry
    if not isinstance(entry, PortSample):
        return Wiring.UNREAD, f"{place.where}; the switch has no such port" if entry is None else entry.text
    if entry.operational is False:
        return Wiring.DOWN, f"{place.where}; it is down"
    if place.role is not None:
        told = ", ".join(each.told() for each in place.here)
        return Wiring.DECLARED, f"{place.where}; {told} is there" if told else place.where
    if place.addresses and place.link is None:
        return Wiring.UNDECLARED_NEIGHBOUR, f"{place.where}; {place.stations} is there and does not say who he is"
    if place.link is None:
        return Wiring.UNDECLARED_PORT, f"{place.where} and may carry traffic; nobody there says who he is"
    also = f" ({place.stations} is there)" if place.addresses else ""
    return Wiring.UNCONFIRMED, f"{place.where}; nobody there says who he is{also}"


def _colons(address: str) -> str:
    return ":".join(address[place : place + 2] for place in range(0, len(address), 2))


def _link_of(site: Site, neighbour: Neighbour) -> Link | None:
    """Return the link whose DPU and uplink ``neighbour`` says he is."""
    names = {neighbour.system_name, neighbour.system_name.partition(".")[0]} - {""}
    ports = {neighbour.port_id, neighbour.port_description}
    return next((link for link in site.links if link.dpu in names and link.uplink.name in ports), None)


def _declared(link: Link | None, role: str | None) -> str:
    if link is not None:
        return f"link {link.name} ({link.dpu}/{link.uplink.name})"
    return role or ""


def _octets(entry: PortSample | PortFault | None) -> int | None:
    if not isinstance(entry, PortSample):
        return None
    both = (entry.switch_in.octets, entry.switch_out.octets)
    counted = [value for value in both if not isinstance(value, Missing)]
    return sum(counted) if len(counted) == len(both) else None


def confirmed(ports: Iterable[PortWiring]) -> bool:
    """Return whether every link was found where it is declared, and nothing contradicts the site file."""
    found = list(ports)
    links = [port for port in found if port.link is not None]
    return all(port.state is Wiring.CONFIRMED for port in links) and not any(port.state.wrong for port in found)
