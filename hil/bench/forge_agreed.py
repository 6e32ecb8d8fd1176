"""An agreement and what is given under it, as journal entries, each signed by whomever the forger likes."""

from __future__ import annotations

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from controller.agreement.envelope import Party, SignedAgreement, unsigned
from controller.classtables import body_of, signed_table
from controller.journal import Kind, NewEntry
from controller.loads.window import Opened
from protos.buckets import TrafficClass
from protos.lease import Lease, LeaseKind, LoadWindow, Revocation, Slot
from protos.leasewire import lease_body, load_window_body, revocation_body
from protos.reading import Direction
from protos.signing import SigningDomain, sign
from protos.v1 import lease_pb2

PARTY_KEYS = {
    party: Ed25519PrivateKey.from_private_bytes(bytes([number]) * 32) for number, party in enumerate(Party, 3)
}
_DOCUMENT = b"""
version = 1
site = "demo"
number = 1
valid_from = 2020-01-01T00:00:00Z
valid_to = 2120-01-01T00:00:00Z
longest_lease = "60s"
[[limits]]
of = "node"
names = ["*"]
class = "other-pod"
direction = "both"
depth = "64kB"
bounds = [{window = "300s", bytes = "300MB"}]
[loads]
classes = ["storage"]
sources = ["198.51.100.0/24"]
most = "300GB"
longest = "30m"
per_day = 2
reverse = "10000ppm"
both_sign = true
"""
_SECOND = 10**9
_WINDOW_NS = 1_800 * _SECOND


def _signed(prover: Ed25519PrivateKey | None) -> SignedAgreement:
    found = unsigned(_DOCUMENT, "the forge").signed(Party.VERIFIER, PARTY_KEYS[Party.VERIFIER])
    return found if prover is None else found.signed(Party.PROVER, prover)


def signed_text(*, prover: Ed25519PrivateKey | None) -> str:
    """Return the agreement's file, which the verifier signed and ``prover``, if anybody."""
    return _signed(prover).encode().decode()


def agreed(
    site: str,
    agent: str,
    at_ns: int,
    *,
    prover: Ed25519PrivateKey | None = PARTY_KEYS[Party.PROVER],
    lease: Ed25519PrivateKey = PARTY_KEYS[Party.VERIFIER],
    revocation: Ed25519PrivateKey = PARTY_KEYS[Party.VERIFIER],
    table: Ed25519PrivateKey = PARTY_KEYS[Party.VERIFIER],
    window: Ed25519PrivateKey = PARTY_KEYS[Party.PROVER],
) -> tuple[NewEntry, ...]:
    """Return an agreement of ``site``, and a class table, a load window, a lease and a revocation of ``agent``.

    What the keys beside the agreement are is not changed: who signs with another is found by that.
    """
    made = _signed(prover)
    keys = {party.value: key.public_key().public_bytes_raw().hex() for party, key in PARTY_KEYS.items()}
    slot = Slot("p0", Direction.INGRESS, TrafficClass.STORAGE)
    load = LoadWindow(site, agent, 1, TrafficClass.STORAGE, 10**9, 10**7, _WINDOW_NS, made.sha256, ("198.51.100.0/24",))
    asked = load_window_body(load)
    by_prover = sign(window, SigningDomain.LOAD_WINDOW, asked)
    opened = Opened(load, asked, by_prover, "node1", "p0", 10**6, at_ns)
    permission = lease_body(
        Lease(
            agent,
            1,
            "boot",
            slot,
            10**6,
            10**5,
            10**9,
            0,
            _WINDOW_NS,
            1,
            kind=LeaseKind.LOAD,
            agreement_sha256=made.sha256,
            load_window=asked,
        )
    )
    end = revocation_body(Revocation(agent, 2, slot, LeaseKind.LOAD))
    classes = signed_table(body_of(agent, 1, []), table)
    given = lease_pb2.SignedLease(
        body=permission, signature=sign(lease, SigningDomain.LEASE, permission), prover_signature=by_prover
    )
    ended = lease_pb2.SignedLeaseRevocation(body=end, signature=sign(revocation, SigningDomain.LEASE_REVOCATION, end))
    return (
        NewEntry(Kind.AGREEMENT, site, at_ns, made.encode(), {"sha256": made.sha256.hex(), **keys}, sequence=1),
        NewEntry(Kind.CLASS_TABLE, agent, at_ns, classes.SerializeToString(), sequence=1),
        opened.entry(),
        NewEntry(Kind.LEASE, agent, at_ns, given.SerializeToString(), {"what": "lease", "grant": "load-1"}, sequence=1),
        NewEntry(Kind.LEASE, agent, at_ns, ended.SerializeToString(), {"what": "revocation", "grant": ""}, sequence=2),
    )
