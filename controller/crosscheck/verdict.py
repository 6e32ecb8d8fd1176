"""The verdict's table (design section 4), nothing else.

Link:
    a limit exceeded for certain, or a law broken for certain                             -> violation
    a limit agreed and every limit proven kept, no law broken, every law tested that can be,
    no observer contradicting itself, coverage as required, inventory checked             -> compliant
    anything else                                                                         -> inconclusive

Site:
    a link in violation, certain bytes on an undeclared port, or, by the agents' own
    counts, certainly more than was agreed for a class or a pair of nodes                 -> violation
    at least one link, every link compliant, no undeclared port that may carry traffic,
    no cable seen elsewhere than declared, no known weight that was not shown             -> compliant
    anything else                                                                         -> inconclusive
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from controller.crosscheck.model import FindingKind, Verdict

WIRING = frozenset({FindingKind.MISCABLED_LINK, FindingKind.UNDECLARED_NEIGHBOUR})
"""What a neighbour says of a cable convicts nobody; but while a cable is not where it is declared to be, its port's
bytes are not the link's, so the site is not compliant."""


BROKEN = frozenset({FindingKind.LIMIT_EXCEEDED})
"""What a certain finding about an agent's own counts must be to convict the site."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkFacts:
    """What the verdict of a link and direction rests on.

    Attributes:
        limit_exceeded: a limit is exceeded for certain.
        law_broken: a law is broken for certain.
        limits_agreed: there is a limit; what nobody agreed on cannot be proven kept.
        limits_kept: every limit is proven kept (true if there is none).
        laws_tested: no law is unknown, but for those untestable by design.
        consistent: no observer contradicts itself.
        covered: coverage is at least what is required.
        inventory_checked: the switch's ports were compared with the site file.
    """

    limit_exceeded: bool
    law_broken: bool
    limits_agreed: bool
    limits_kept: bool
    laws_tested: bool
    consistent: bool
    covered: bool
    inventory_checked: bool


def link_verdict(facts: LinkFacts) -> Verdict:
    """Return the verdict of a link and direction."""
    if facts.limit_exceeded or facts.law_broken:
        return Verdict.VIOLATION
    proven = facts.limits_agreed and facts.limits_kept and facts.laws_tested and facts.consistent
    if proven and facts.covered and facts.inventory_checked:
        return Verdict.COMPLIANT
    return Verdict.INCONCLUSIVE


def site_verdict(
    links: Collection[Verdict],
    *,
    bytes_on_undeclared_port: bool,
    ports_clean: bool,
    scale_right: bool = True,
    agreement_broken: bool = False,
) -> Verdict:
    """Return the verdict of a site.

    Args:
        links: the verdict of every link and direction.
        bytes_on_undeclared_port: some undeclared port certainly moved bytes.
        ports_clean: no undeclared port is up, of unknown state, or can have moved bytes; no finding of WIRING.
        scale_right: no observer certainly showed less than a known weight.
        agreement_broken: by the agents' own counts certainly more passed than was agreed.
    """
    if agreement_broken or bytes_on_undeclared_port or Verdict.VIOLATION in links:
        return Verdict.VIOLATION
    if links and ports_clean and scale_right and all(verdict is Verdict.COMPLIANT for verdict in links):
        return Verdict.COMPLIANT
    return Verdict.INCONCLUSIVE
