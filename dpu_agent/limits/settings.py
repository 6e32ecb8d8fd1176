"""The ``limits`` section of the agent's configuration: how to limit, the floors, and what was agreed at most.

A whole section::

    "limits": {
      "backend": "police",
      "floors": {"other-pod": {"rate_bytes_per_s": 0, "depth_bytes": 0}},
      "prover_public_key": "",
      "agreement": {
        "sha256": "64 hexadecimal digits",
        "longest_lifetime_ms": 60000,
        "bounds": [{"class": "other-pod", "window_ms": 300000, "bytes": 300000000}],
        "loads": {"classes": ["storage"], "most_bytes": 300000000000, "longest_ms": 1800000, "reverse_ppm": 10000,
                  "both_sign": 1}
      }
    }

========================  ==========  ============================================================================
key                       default     meaning
========================  ==========  ============================================================================
``backend``               ``none``    ``none``: nothing is limited and no lease is taken; ``police``: a token
                                      bucket a class in the meter's program (:mod:`dpu_agent.limits.police`);
                                      ``shape``: the same with a queue behind it (:mod:`dpu_agent.limits.shape`)
``floors``                see below   what passes without a lease, by class. ``other-pod``, ``front-end`` and
                                      ``storage``: nothing. ``l2-control``: 10 kB/s with a depth of 64 kB, always, so
                                      that ARP and neighbour discovery live. ``same-pod`` is limited only where it
                                      stands here. Management is never limited
``prover_public_key``     empty       the Ed25519 key that signs load windows too, where the agreement asks for it
``agreement``             none        leases beyond it are refused; without it the verifier alone decides
``agreement.sha256``      empty       of the signed agreement; leases under another are refused
========================  ==========  ============================================================================
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from dpu_agent.configfile import Section, public_key, shown
from dpu_agent.leasechecks import LONGEST_LIFETIME_NS, LoadTerms, Terms
from dpu_agent.limits.order import LimitClass
from protos.buckets import TrafficClass
from protos.lease import LEASED_CLASSES, Bound
from protos.reading import Direction

NONE, POLICE, SHAPE = "none", "police", "shape"
BACKENDS = (NONE, POLICE, SHAPE)
NS_PER_MS = 1_000_000
# What a 64-bit rate, size or time holds with room for a sum.
_MOST = (1 << 62) - 1
_MOST_MS = _MOST // NS_PER_MS
_LONGEST_LIFETIME_MS = LONGEST_LIFETIME_NS // NS_PER_MS


@dataclass(frozen=True, slots=True)
class Floor:
    """What passes without a lease; both 0: nothing."""

    rate_bytes_per_s: int = 0
    depth_bytes: int = 0


CLOSED = Floor()
L2_CONTROL = Floor(10_000, 64_000)
"""ARP, neighbour discovery and LLDP of a node: some hundred frames a minute."""
_FLOORS: Mapping[LimitClass, Floor] = {
    LimitClass.OTHER_POD: CLOSED,
    LimitClass.FRONT_END: CLOSED,
    LimitClass.STORAGE: CLOSED,
    LimitClass.L2_CONTROL: L2_CONTROL,
}


@dataclass(frozen=True, slots=True)
class LimitsConfig:
    """What the module's docstring says, in nanoseconds. ``floors`` has every class that is limited."""

    backend: str = NONE
    floors: Mapping[LimitClass, Floor] = field(default_factory=lambda: dict(_FLOORS))
    prover_public_key: bytes = b""
    bounds: Mapping[TrafficClass, tuple[Bound, ...]] = field(default_factory=dict)
    longest_lifetime_ns: int = LONGEST_LIFETIME_NS
    loads: LoadTerms | None = None
    agreement_sha256: bytes = b""

    def terms(self, agent: str, verifier: bytes, ports: Mapping[str, Direction]) -> Terms:
        """Return what the keeper is told."""
        return Terms(
            agent=agent,
            verifier=verifier,
            ports=ports,
            prover=self.prover_public_key,
            bounds=self.bounds,
            longest_lifetime_ns=self.longest_lifetime_ns,
            loads=self.loads,
            agreement_sha256=self.agreement_sha256,
            classes=tuple(each for each in LEASED_CLASSES if LimitClass(each) in self.floors),
        )


def limits_of(section: Section) -> LimitsConfig:
    """Return what ``section`` says.

    Raises:
        ConfigError: it is wrong at a key.
    """
    backend = section.take("backend", NONE)
    if backend not in BACKENDS:
        raise section.error("backend", f"{shown(backend)} is not a backend", f"use one of {', '.join(BACKENDS)}")
    agreement = section.section("agreement")
    bounds: dict[TrafficClass, tuple[Bound, ...]] = {}
    for item in agreement.sections("bounds", []):
        traffic_class = _class(item, "class")
        bound = Bound(NS_PER_MS * item.whole("window_ms", 1, _MOST_MS), item.whole("bytes", 1, _MOST))
        item.refuse_rest()
        bounds[traffic_class] = (*bounds.get(traffic_class, ()), bound)
    config = LimitsConfig(
        backend=str(backend),
        floors=_floors(section.section("floors")),
        prover_public_key=public_key(section, "prover_public_key"),
        bounds=bounds,
        longest_lifetime_ns=NS_PER_MS
        * agreement.integer("longest_lifetime_ms", _LONGEST_LIFETIME_MS, 1, _LONGEST_LIFETIME_MS),
        loads=_loads(agreement.section("loads")),
        agreement_sha256=_sha256(agreement),
    )
    agreement.refuse_rest()
    section.refuse_rest()
    return config


def _floors(section: Section) -> dict[LimitClass, Floor]:
    floors = dict(_FLOORS)
    known = {each.name.lower().replace("_", "-"): each for each in LimitClass}
    for name in section.names():
        if name not in known:
            raise section.error(name, "is not a class that is limited", f"use one of {', '.join(known)}")
        item = section.section(name)
        floors[known[name]] = Floor(item.whole("rate_bytes_per_s", 0, _MOST), item.whole("depth_bytes", 0, _MOST))
        item.refuse_rest()
    return floors


def _loads(section: Section) -> LoadTerms | None:
    if not section.names():
        return None
    named = section.take("classes")
    known = {each.title: each for each in LEASED_CLASSES}
    if not isinstance(named, list) or not named or not all(each in known for each in named):
        raise section.error("classes", f"{shown(named)} is not a list of classes", f"use {', '.join(known)}")
    terms = LoadTerms(
        classes=frozenset(known[each] for each in named),
        most_bytes=section.whole("most_bytes", 1, _MOST),
        longest_ns=NS_PER_MS * section.whole("longest_ms", 1, _MOST_MS),
        reverse_ppm=section.whole("reverse_ppm", 0, 1_000_000),
        both_sign=bool(section.integer("both_sign", 0, 0, 1)),
    )
    section.refuse_rest()
    return terms


def _class(section: Section, key: str) -> TrafficClass:
    value = section.text(key)
    known = {each.title: each for each in LEASED_CLASSES}
    if value not in known:
        raise section.error(key, f"{shown(value)} is not a class that is leased", f"use one of {', '.join(known)}")
    return known[value]


def _sha256(section: Section) -> bytes:
    value = section.take("sha256", "")
    try:
        digest = bytes.fromhex(value) if isinstance(value, str) else b"?"
    except ValueError:
        digest = b"?"
    if len(digest) not in {0, 32}:
        raise section.error("sha256", f"{shown(value)} is not a SHA-256", "write 64 hexadecimal digits")
    return digest
