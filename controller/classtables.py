"""Class tables: which addresses are what to one agent, from the site file; numbered and signed. Pure but for the key.

To the agent of a node its own pod's prefixes are *same pod*, every other pod's *other pod*; a node's prefix also names
the node, so that traffic is counted by pair. Networks are what the site file says. What no prefix names is *unknown*,
and limits treat unknown as other pod: only what is declared to be in the pod is free.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from controller.site import Dpu, Site
from protos.buckets import TrafficClass
from protos.signing import SigningDomain, sign
from protos.v1 import agent_pb2, meter_pb2

VERSION = 1


def entries_for(site: Site, dpu: Dpu) -> list[meter_pb2.ClassEntry]:
    """Return the table of ``dpu``'s agent, in order of address; empty where the site file names no addresses."""
    pods = {node: pod.name for pod in site.pods for node in pod.nodes}
    own = pods[dpu.node]

    def found() -> Iterator[tuple[str, TrafficClass, str]]:
        for pod in site.pods:
            for prefix in pod.addresses:
                yield prefix, _class_of(pod.name, own), ""
        for node in site.nodes:
            for prefix in node.addresses:
                yield prefix, _class_of(node.pod, own), node.name
        for network in site.networks:
            yield network.prefix, network.traffic_class, ""

    entries = []
    for prefix, traffic_class, peer in found():
        network = ipaddress.ip_network(prefix)
        entries.append(
            meter_pb2.ClassEntry(
                network=network.network_address.packed,
                prefix_length=network.prefixlen,
                traffic_class=traffic_class,
                peer=peer,
            )
        )
    return sorted(entries, key=lambda entry: (len(entry.network), entry.network, entry.prefix_length))


def _class_of(pod: str, own: str) -> TrafficClass:
    return TrafficClass.SAME_POD if pod == own else TrafficClass.OTHER_POD


def body_of(agent: str, sequence: int, entries: list[meter_pb2.ClassEntry]) -> bytes:
    """Return the bytes that are signed; the same table under the same number always has the same."""
    table = meter_pb2.ClassTable(version=VERSION, sequence=sequence, agent=agent, entries=entries)
    return table.SerializeToString(deterministic=True)


def signed_table(body: bytes, key: Ed25519PrivateKey) -> agent_pb2.SignedClassTable:
    """Return ``body`` with the verifier's signature."""
    return agent_pb2.SignedClassTable(body=body, signature=sign(key, SigningDomain.CLASS_TABLE, body))
