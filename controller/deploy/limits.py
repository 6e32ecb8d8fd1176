"""What an agent is told of limits: how it limits, and the agreement in force, which no lease of its may go beyond."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from controller.agreement.arithmetic import bounds_on
from controller.agreement.document import Agreement
from controller.agreement.envelope import Party
from controller.agreement.inforce import in_force, parties_in_force
from controller.journal import Journal
from controller.leases.grant import node_of
from controller.site import Dpu, Site
from protos.lease import LEASED_CLASSES, Bound
from protos.reading import Direction

_NS_PER_MS = 1_000_000


def limits_of(site: Site, dpu: Dpu, journal: Journal) -> dict[str, Any]:
    """Return the ``limits`` section of the agent's configuration.

    Raises:
        EvidenceError: the agreement in the journal is not what both signed.
    """
    section: dict[str, Any] = {"backend": dpu.agent_settings.limiter}
    agreed, prover = in_force(journal, site.name), parties_in_force(journal, site.name).get(Party.PROVER)
    if agreed is None or prover is None:
        return section
    node = node_of(site, dpu.name)
    return {
        **section,
        "prover_public_key": prover.hex(),
        "agreement": _section(agreed.agreement, agreed.sha256, node.name, node.pod),
    }


def _section(agreement: Agreement, sha256: bytes, node: str, pod: str) -> Mapping[str, Any]:
    section: dict[str, Any] = {
        "sha256": sha256.hex(),
        "longest_lifetime_ms": max(1, agreement.longest_lease_ns // _NS_PER_MS),
        "bounds": [
            {
                "class": traffic_class.title,
                # Rounded so that what the agent allows is never more than what was agreed.
                "window_ms": -(-bound.window_ns // _NS_PER_MS),
                "bytes": bound.bytes,
            }
            for traffic_class in LEASED_CLASSES
            for bound in _loosest(agreement, node, pod, traffic_class)
        ],
    }
    if agreement.loads is not None:
        loads = agreement.loads
        section["loads"] = {
            "classes": sorted(each.title for each in loads.classes),
            "most_bytes": loads.most_bytes,
            "longest_ms": max(1, loads.longest_ns // _NS_PER_MS),
            "reverse_ppm": loads.reverse_ppm,
            "both_sign": int(loads.both_sign),
        }
    return section


def _loosest(agreement: Agreement, node: str, pod: str, traffic_class: Any) -> list[Bound]:
    """Return the bounds of both directions, each window once; the agent knows none by direction, so the larger size.

    A window that bounds one direction only would refuse leases of the other, so it is left to the controller.
    """
    sizes = [
        {
            bound.window_ns: bound.bytes
            for bound in bounds_on(agreement, node=node, pod=pod, traffic_class=traffic_class, direction=each)
        }
        for each in Direction
    ]
    shared = set(sizes[0]) & set(sizes[1])
    return [Bound(window_ns, max(each[window_ns] for each in sizes)) for window_ns in sorted(shared)]
