"""The verdict's table, every row of it."""

from __future__ import annotations

import itertools
from dataclasses import fields

import pytest

from controller.crosscheck.model import Verdict
from controller.crosscheck.verdict import LinkFacts, link_verdict, site_verdict

NAMES = [one.name for one in fields(LinkFacts)]
GOOD = {
    "limit_exceeded": False,
    "law_broken": False,
    "limits_agreed": True,
    "limits_kept": True,
    "laws_tested": True,
    "consistent": True,
    "covered": True,
    "inventory_checked": True,
}


@pytest.mark.parametrize("values", list(itertools.product([False, True], repeat=len(NAMES))))
def test_every_combination_of_facts(values: tuple[bool, ...]) -> None:
    given = dict(zip(NAMES, values, strict=True))
    verdict = link_verdict(LinkFacts(**given))
    if given["limit_exceeded"] or given["law_broken"]:
        assert verdict is Verdict.VIOLATION
    elif given == GOOD:
        assert verdict is Verdict.COMPLIANT
    else:
        assert verdict is Verdict.INCONCLUSIVE


def test_losing_evidence_never_makes_a_verdict_better() -> None:
    """Turning any proof into no proof may make compliant inconclusive, and never anything compliant."""
    proofs = ["limits_agreed", "limits_kept", "laws_tested", "consistent", "covered", "inventory_checked"]
    for values in itertools.product([False, True], repeat=len(NAMES)):
        given = dict(zip(NAMES, values, strict=True))
        for proof in proofs:
            less = link_verdict(LinkFacts(**(given | {proof: False})))
            assert less is not Verdict.COMPLIANT


@pytest.mark.parametrize("count", [0, 1, 2, 3])
def test_every_combination_of_links_and_ports(count: int) -> None:
    for links in itertools.product(list(Verdict), repeat=count):
        for moved, clean, right in itertools.product([False, True], repeat=3):
            verdict = site_verdict(links, bytes_on_undeclared_port=moved, ports_clean=clean, scale_right=right)
            if moved or Verdict.VIOLATION in links:
                assert verdict is Verdict.VIOLATION
            elif count and clean and right and set(links) == {Verdict.COMPLIANT}:
                assert verdict is Verdict.COMPLIANT
            else:
                assert verdict is Verdict.INCONCLUSIVE
