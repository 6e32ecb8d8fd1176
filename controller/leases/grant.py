"""Grants: standing permissions that stay leased until they are revoked, and whether the agreement bears them. Pure.

A grant becomes one lease after the other, each renewed at a third of its life. In the journal a grant is a GRANT entry
with ``"action": "grant"``; it is over with an entry of the same id and ``"action": "revoke"``, or when another grant
takes its slot.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from controller.agreement.arithmetic import bound_text
from controller.agreement.document import Agreement, Limit
from controller.errors import EvidenceError, OperatorError
from controller.journal import Entry, Kind, NewEntry
from controller.site import Dpu, Node, Site
from protos.buckets import TrafficClass
from protos.lease import Slot, broken_bounds, greatest_rate, most_bytes
from protos.reading import Direction
from protos.units import format_bytes, format_duration, format_rate

GRANT, REVOKE = "grant", "revoke"


@dataclass(frozen=True, slots=True)
class Grant:
    """A standing permission.

    Attributes:
        id: names it.
        agent, slot: where and for what.
        rate_bytes_per_s, depth_bytes: of the token bucket.
        lifetime_ns: of each lease; renewed at a third of it.
        agreement_sha256: of the agreement it lies within.
    """

    id: str
    agent: str
    slot: Slot
    rate_bytes_per_s: int
    depth_bytes: int
    lifetime_ns: int
    agreement_sha256: bytes

    @property
    def volume_bytes(self) -> int:
        """The most that one lease's bucket lets through in its life: the volume is no limit of its own here."""
        return most_bytes(self.rate_bytes_per_s, self.depth_bytes, self.lifetime_ns) + 1

    def entry(self, now_ns: int) -> NewEntry:
        """Return it as a journal entry."""
        body = {
            "action": GRANT,
            "grant": self.id,
            "port": self.slot.port,
            "direction": self.slot.direction.value,
            "class": self.slot.traffic_class.title,
            "rate_bytes_per_s": str(self.rate_bytes_per_s),
            "depth_bytes": str(self.depth_bytes),
            "lifetime_ns": str(self.lifetime_ns),
            "agreement_sha256": self.agreement_sha256.hex(),
        }
        return NewEntry(Kind.GRANT, self.agent, now_ns, json.dumps(body).encode())


def end_entry(grant: Grant, now_ns: int) -> NewEntry:
    """Return the end of ``grant`` as a journal entry."""
    body = {"action": REVOKE, "grant": grant.id}
    return NewEntry(Kind.GRANT, grant.agent, now_ns, json.dumps(body).encode())


def active(entries: Iterable[Entry]) -> dict[str, Grant]:
    """Return the grants that are in force after ``entries`` (of kind GRANT, in order), by id.

    Raises:
        EvidenceError: an entry is not one this program can read.
    """
    found: dict[str, Grant] = {}
    for entry in entries:
        try:
            body: dict[str, Any] = json.loads(entry.body)
            if body["action"] == REVOKE:
                found.pop(body["grant"], None)
                continue
            grant = Grant(
                id=body["grant"],
                agent=entry.source,
                slot=Slot(body["port"], Direction(body["direction"]), class_of(body["class"])),
                rate_bytes_per_s=int(body["rate_bytes_per_s"]),
                depth_bytes=int(body["depth_bytes"]),
                lifetime_ns=int(body["lifetime_ns"]),
                agreement_sha256=bytes.fromhex(body["agreement_sha256"]),
            )
        except (ValueError, KeyError, TypeError) as error:
            raise EvidenceError(
                f"leaf {entry.leaf} is not a grant this program can read ({error}). Update weighbridge on this machine."
            ) from error
        for other in [each.id for each in found.values() if (each.agent, each.slot) == (grant.agent, grant.slot)]:
            del found[other]
        found[grant.id] = grant
    return found


def class_of(title: str) -> TrafficClass:
    """Return the traffic class that people call ``title``.

    Raises:
        ValueError: there is none.
    """
    for each in TrafficClass:
        if each.title == title:
            return each
    raise ValueError(f"{title!r} is not a traffic class")


def slots_of(dpu: Dpu, direction: Direction, traffic_class: TrafficClass) -> list[Slot]:
    """Return where a DPU limits ``direction``: at its host ports what the node sends, at its uplinks what it gets."""
    ports: list[str] = []
    for uplink in dpu.uplinks:
        ports += uplink.host_ports if direction is Direction.EGRESS else [uplink.name]
    return [Slot(port, direction, traffic_class) for port in dict.fromkeys(ports)]


def node_of(site: Site, agent: str) -> Node:
    """Return the node of an agent."""
    return next(node for node in site.nodes if any(dpu.name == agent for dpu in node.dpus))


def check_within(agreement: Agreement, site: Site, grant: Grant, others: Iterable[Grant]) -> None:
    """Return if ``grant``, together with the ``others`` that are in force, lies within the agreement.

    1. Some limit of the agreement is about it: what nobody agreed on is not unlimited.
    2. Its leases live no longer than agreed, its bucket is no deeper.
    3. For each limit about it: the sum of all grants the limit is about, of one node, or of a pod's nodes together,
       stays within every bound.

    Raises:
        OperatorError: it does not; the message names the limit, and the greatest rate that would be within.
    """
    node = node_of(site, grant.agent)
    limits = [
        limit
        for limit in agreement.limits
        if limit.is_about(node.name, node.pod, grant.slot.traffic_class, grant.slot.direction)
    ]
    what = f"{grant.slot.traffic_class.title} {grant.slot.direction.value} of {node.name}"
    if not limits:
        raise OperatorError(
            f"the agreement says nothing of {what}: there is nothing to grant. Agree on a limit for it first."
        )
    if grant.lifetime_ns > agreement.longest_lease_ns:
        raise OperatorError(
            f"a lease of {format_duration(grant.lifetime_ns)} lives longer than the "
            f"{format_duration(agreement.longest_lease_ns)} agreed. Give a shorter --lifetime."
        )
    beside = [each for each in others if (each.agent, each.slot) != (grant.agent, grant.slot)]
    for limit in limits:
        _check_limit(limit, grant, [each for each in beside if _shares(limit, site, grant, each)], what)


def _shares(limit: Limit, site: Site, grant: Grant, other: Grant) -> bool:
    """Whether ``other`` draws on the same limit: of the same node, or for a pod's limit of the same pod."""
    one, two = node_of(site, grant.agent), node_of(site, other.agent)
    same_kind = (other.slot.traffic_class, other.slot.direction) == (grant.slot.traffic_class, grant.slot.direction)
    return same_kind and (one.pod == two.pod if limit.scope == "pod" else one.name == two.name)


def _check_limit(limit: Limit, grant: Grant, beside: Sequence[Grant], what: str) -> None:
    if grant.depth_bytes > limit.depth_bytes:
        raise OperatorError(
            f"{what}: a depth of {format_bytes(grant.depth_bytes)} is more than the {format_bytes(limit.depth_bytes)} "
            f"agreed ({limit.place}). Give a smaller --depth."
        )
    rate = grant.rate_bytes_per_s + sum(each.rate_bytes_per_s for each in beside)
    depth = grant.depth_bytes + sum(each.depth_bytes for each in beside)
    broken = broken_bounds(rate, depth, limit.bounds)
    if broken:
        most = greatest_rate(depth, limit.bounds)
        left = None if most is None else most - (rate - grant.rate_bytes_per_s)
        room = (
            f"At most {format_rate(left)} ({left} B/s) is left" if left is not None and left > 0 else "Nothing is left"
        )
        others = f" together with {len(beside)} other grant(s)" if beside else ""
        raise OperatorError(
            f"{what}: {format_rate(grant.rate_bytes_per_s)} with a depth of {format_bytes(grant.depth_bytes)}{others} "
            f"can be more than {bound_text(broken[0])} ({limit.place}). {room} at this depth."
        )
