from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from controller.crosscheck.model import CrossCheck, Finding, FindingKind, SiteEvidence, Verdict
from controller.report import places, sentences, words
from controller.report.stories import story, where
from protos.reading import Direction, Observer

Scenarios = Mapping[str, tuple[CrossCheck, SiteEvidence]]


def convicted(result: CrossCheck, *findings: Finding) -> CrossCheck:
    return replace(result, findings=findings, verdict=Verdict.VIOLATION)


def on_link(kind: FindingKind, node: int, direction: Direction = Direction.EGRESS) -> Finding:
    return Finding(kind, certain=True, text="", link=f"node{node}/p0", direction=direction, bytes_at_least=1)


OUT, INTO = Direction.EGRESS, Direction.INGRESS
OVER, UNDER = FindingKind.LIMIT_EXCEEDED, FindingKind.HOST_UNDER_REPORTS
TOO_MUCH, DISAGREE = FindingKind.HOST_OVER_REPORTS, FindingKind.OBSERVERS_DISAGREE


@pytest.mark.parametrize(
    ("findings", "said"),
    [
        ([on_link(OVER, 1)], "node1 sent more than the agreed limit."),
        ([on_link(OVER, 3, INTO), on_link(OVER, 1, INTO)], "node1 and node3 received more than the agreed limit."),
        ([on_link(OVER, 3, OUT), on_link(OVER, 3, INTO)], "node3 moved more than the agreed limit."),
        ([on_link(UNDER, 2)], "The host node2 reported fewer bytes than its DPU and switch port counted."),
        (
            [on_link(TOO_MUCH, 1), on_link(TOO_MUCH, 2)],
            "The hosts node1 and node2 reported more bytes than their DPUs and switch ports counted.",
        ),
        ([on_link(DISAGREE, 4)], "Observers of node4/p0 contradict each other."),
    ],
)
def test_each_kind_has_its_headline(scenarios: Scenarios, findings: list[Finding], said: str) -> None:
    assert sentences.headline(convicted(scenarios["compliant"][0], *findings)) == said


def test_a_node_of_several_links_is_named_where_their_sum_is_convicted(scenarios: Scenarios) -> None:
    summed = Finding(OVER, certain=True, text="", node="node2", direction=OUT, bytes_at_least=1)
    assert (
        sentences.headline(convicted(scenarios["two-switches"][0], summed)) == "node2 sent more than the agreed limit."
    )
    assert where(summed) == "node2 egress"


def test_a_finding_that_is_not_certain_convicts_nobody(scenarios: Scenarios) -> None:
    doubt = replace(on_link(FindingKind.LIMIT_EXCEEDED, 1), certain=False)
    assert sentences.violations(convicted(scenarios["compliant"][0], doubt)) == []


def test_every_kind_is_told_and_has_its_place() -> None:
    assert set(sentences.KINDS) == set(FindingKind)
    assert sorted(sentences.KIND_ORDER, key=lambda kind: kind.value) == sorted(FindingKind, key=lambda kind: kind.value)


def test_the_gravest_finding_comes_first() -> None:
    gap = Finding(FindingKind.COVERAGE_GAP, certain=False, text="", link="a")
    small = on_link(FindingKind.HOST_UNDER_REPORTS, 1)
    large = replace(small, bytes_at_least=9)
    over = on_link(FindingKind.LIMIT_EXCEEDED, 2)
    assert sentences.ordered([gap, small, large, over]) == [over, large, small, gap]


def test_a_lying_host_is_told_with_both_numbers(scenarios: Scenarios) -> None:
    result, _ = scenarios["lying-host"]
    finding = next(f for f in result.findings if f.kind is FindingKind.HOST_UNDER_REPORTS)
    link = next(one for one in result.links if (one.link, one.direction) == (finding.link, finding.direction))
    host, port = link.observers[Observer.HOST], link.observers[Observer.DPU_HOST_PORT]
    claims, counted = words.between(host.lower, host.upper), words.between(port.lower, port.upper)
    assert story(finding, link) == f"The host claims {claims}; its DPU received from it {counted}."
    assert host.upper is not None
    assert port.lower > 90 * host.upper


def test_a_limit_that_is_not_proven_kept_is_told_with_what_it_can_have_been(scenarios: Scenarios) -> None:
    result, _ = scenarios["lying-host"]
    link = next(one for one in result.links if one.link == "node2/p0")
    unknown = replace(link.limits[0], holds=type(link.limits[0].holds).UNKNOWN, worst_at_most_bytes=12_345_678)
    finding = Finding(
        FindingKind.LIMIT_POSSIBLY_EXCEEDED, certain=False, text="", link=link.link, direction=link.direction
    )
    told = story(finding, replace(link, limits=(unknown,)))
    assert told == "It is not proven that every 10 s kept within 10 MB: the fullest 10 s can have held 12.4 MB."
    unbounded = replace(unknown, worst_at_most_bytes=None)
    assert "nothing bounds the fullest window" in story(finding, replace(link, limits=(unbounded,)))


def test_places_are_said_briefly(scenarios: Scenarios) -> None:
    result, _ = scenarios["compliant"]
    out, into = Direction.EGRESS, Direction.INGRESS
    every = [(link.link, link.direction) for link in result.links]
    assert places.told(every, result.links) == "all 4 links, both directions"
    assert places.told([("node2/p0", out), ("node2/p0", into), ("node1/p0", into)], result.links) == (
        "node1/p0 ingress and node2/p0 both directions"
    )
