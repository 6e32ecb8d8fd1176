"""Who can be lying, given which laws are broken.

A trust domain falls as a whole: the DPU's two ports, the host, the switch. A broken law says that not all domains it
names are right. Every smallest set of domains that meets all broken laws is an explanation; two domains that disagree
give two of them and name nobody (bounds.md 13, design section 5).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations

from controller.crosscheck.model import ByteInterval
from protos.reading import TrustDomain

DOMAIN_NAMES = {TrustDomain.HOST: "the host", TrustDomain.DPU: "the DPU", TrustDomain.SWITCH: "the switch"}

Conflict = frozenset[TrustDomain]
"""Domains that cannot all be right: those of one broken law."""

UNDECIDABLE = (
    "no counter can show a lie that the DPU and the switch tell together with the host, nor a host blamed by the DPU "
    "and the switch together"
)


def counted(liars: int) -> str:
    """Return a number of liars: ``1 liar``, ``2 liars``."""
    return f"{liars} {'liar' if liars == 1 else 'liars'}"


def agreed(intervals: Mapping[TrustDomain, ByteInterval], liars: int) -> ByteInterval:
    """Return what is true whichever ``liars`` of the domains lie.

    The least is the (liars+1)-th largest of the domains' leasts, the most the (liars+1)-th smallest of their mosts:
    at least one honest domain vouches for each. With too few domains nothing is known.
    """
    if len(intervals) <= liars:
        return ByteInterval(0, None)
    lower = sorted((interval.lower for interval in intervals.values()), reverse=True)[liars]
    bounded = sorted(interval.upper for interval in intervals.values() if interval.upper is not None)
    return ByteInterval(lower, bounded[liars] if len(bounded) > liars else None)


def consistent_sets(domains: Iterable[TrustDomain], conflicts: Sequence[Conflict]) -> tuple[Conflict, ...]:
    """Return the largest sets of domains that can all be right."""
    everyone = frozenset(domains)
    return tuple(everyone - liars for liars in explanations(everyone, conflicts))


def explanations(domains: Iterable[TrustDomain], conflicts: Sequence[Conflict]) -> tuple[Conflict, ...]:
    """Return every smallest set of lying domains that explains all conflicts, fewest liars first.

    Smallest means that no part of it explains them; without conflicts that is the empty set.
    """
    ordered = sorted(domains, key=lambda domain: domain.value)
    found: list[Conflict] = []
    for count in range(len(ordered) + 1):
        for chosen in combinations(ordered, count):
            liars = frozenset(chosen)
            if any(known <= liars for known in found):
                continue
            if all(liars & conflict for conflict in conflicts):
                found.append(liars)
    return tuple(found)


def host_alone(conflicts: Sequence[Conflict]) -> bool:
    """Say whether DPU and switch agree against the host: each disagrees with it, neither with the other."""
    against = {conflict for conflict in conflicts if TrustDomain.HOST in conflict}
    return (
        len(against) == len(set(conflicts))
        and {
            frozenset({TrustDomain.HOST, TrustDomain.DPU}),
            frozenset({TrustDomain.HOST, TrustDomain.SWITCH}),
        }
        <= against
    )


def told(sets: Sequence[Conflict], assumed_liars: int) -> str:
    """Return the explanations as a sentence part, those beyond the assumed number of liars marked."""
    parts = []
    for liars in sets:
        names = " and ".join(DOMAIN_NAMES[domain] for domain in sorted(liars, key=lambda domain: domain.value))
        beyond = f" (more than the {counted(assumed_liars)} assumed)" if len(liars) > assumed_liars else ""
        parts.append(f"{names} {'is' if len(liars) == 1 else 'are both'} wrong{beyond}")
    return ", or ".join(parts)
