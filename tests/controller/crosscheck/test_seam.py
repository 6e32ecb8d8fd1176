"""Windows across a change of the site file: neither part tests them, so the seam does."""

from __future__ import annotations

import pytest

from controller.crosscheck.check import crosscheck
from controller.crosscheck.model import CrossCheck, FindingKind, Limit, LinkEvidence, Period, Verdict
from controller.crosscheck.seam import Seam, common_limits, joined, judge_seam
from tests.controller.crosscheck.scene import S, Truth, everywhere, link, site

CHANGE = 160 * S
LIMIT = Limit(10 * S, 10_000_000)


def burst(at: int, megabytes: int) -> list[tuple[int, int]]:
    return [(at + index * 1_000_000, 10_000) for index in range(100 * megabytes)]


def seen(*bursts: tuple[int, int], limits: tuple[Limit, ...] = (LIMIT,), name: str = "node1/p0") -> LinkEvidence:
    frames = sorted(frame for at, megabytes in bursts for frame in burst(at, megabytes))
    return link(everywhere(Truth(tuple(frames))), start=80 * S, end=240 * S, limits=limits, name=name)


def after(evidence: LinkEvidence) -> CrossCheck:
    return crosscheck(site(evidence, period=Period(CHANGE, 220 * S)))


def seams(evidence: LinkEvidence, *, same: bool = True, limits: tuple[Limit, ...] = (LIMIT,)) -> list[Seam]:
    around = site(evidence, period=Period(CHANGE - 10 * S, CHANGE + 10 * S))
    return judge_seam(around, limits, CHANGE, {evidence.node: same})


def test_a_burst_before_and_one_after_that_break_the_limit_together_are_found() -> None:
    evidence = seen((CHANGE - 2 * S, 6), (CHANGE + 1 * S, 6))
    parts = [
        crosscheck(site(evidence, period=Period(100 * S, CHANGE))),
        crosscheck(site(evidence, period=Period(CHANGE, 220 * S))),
    ]
    assert [part.verdict for part in parts] == [Verdict.COMPLIANT, Verdict.COMPLIANT]
    result = joined(parts[1], seams(evidence))
    assert result.verdict is Verdict.VIOLATION
    (finding,) = result.findings
    assert (finding.kind, finding.certain) == (FindingKind.LIMIT_EXCEEDED, True)
    assert finding.text.startswith("across the change of the site file at 1970-01-01 00:02:40.000 UTC: ")
    assert [one.verdict for one in result.links] == [Verdict.VIOLATION]


def test_bursts_that_keep_it_together_change_nothing() -> None:
    evidence = seen((CHANGE - 2 * S, 4), (CHANGE + 1 * S, 4))
    assert joined(after(evidence), seams(evidence)) == after(evidence)


def test_what_is_not_proven_across_the_change_is_open() -> None:
    # 6 s apart and read each second: they can have been in one window, and need not have been.
    evidence = seen((CHANGE - 5_600_000_000, 5), (CHANGE + 2_600_000_000, 6))
    result = joined(after(evidence), seams(evidence))
    assert result.verdict is Verdict.INCONCLUSIVE
    assert any(text.startswith("windows across the change of the site file") for text in result.links[0].undecided)
    assert [finding.certain for finding in result.findings] == [False]


def test_a_node_that_was_cabled_anew_cannot_be_tested_across_it_and_says_so() -> None:
    evidence = seen((CHANGE - 2 * S, 6), (CHANGE + 1 * S, 6))
    result = joined(after(evidence), seams(evidence, same=False))
    assert result.verdict is Verdict.INCONCLUSIVE
    assert "the links of node1 are not the same before and after it" in result.links[0].undecided[-1]
    assert result.findings == ()


@pytest.mark.parametrize(
    ("before", "later", "common"),
    [
        ([], [LIMIT], ()),
        ([LIMIT], [Limit(5 * S, 1)], ()),
        ([LIMIT], [Limit(10 * S, 1)], (LIMIT,)),
        ([Limit(10 * S, 1)], [LIMIT], (LIMIT,)),
        ([LIMIT, Limit(5 * S, 3)], [Limit(5 * S, 4), LIMIT], (Limit(5 * S, 4), LIMIT)),
    ],
)
def test_what_windows_across_a_change_have_to_keep(
    before: list[Limit], later: list[Limit], common: tuple[Limit, ...]
) -> None:
    assert common_limits(before, later) == common
