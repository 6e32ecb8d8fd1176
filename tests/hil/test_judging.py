"""The demo's judges: each accepts what it is for and refuses everything near it."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

from hil import judging

TRAINERS = ("node1/p0", "node3/p0")


def _link(name: str, direction: str, verdict: str) -> dict[str, Any]:
    return {"link": name, "direction": direction, "verdict": verdict}


def _finding(kind: str, link: str | None, direction: str | None, least: int | None = 1, **more: Any) -> dict[str, Any]:
    found = {
        "kind": kind,
        "link": link,
        "direction": direction,
        "certain": True,
        "switch": None,
        "port": None,
        "node": None,
    }
    return {**found, "bytes_at_least": None if least is None else str(least), **more}


def _quiet(links: tuple[str, ...], verdict: str = "compliant") -> list[dict[str, Any]]:
    return [_link(name, way, verdict) for name in links for way in ("egress", "ingress")]


HONEST: dict[str, Any] = {"links": _quiet(("node1/p0", "node2/p0")), "findings": [], "verdict": "compliant"}
TRAINING: dict[str, Any] = {
    "links": [*_quiet(TRAINERS, "violation"), *_quiet(("node2/p0", "node4/p0"))],
    "findings": [_finding("limit-exceeded", link, way) for link in TRAINERS for way in ("egress", "ingress")],
    "verdict": "violation",
}
LYING: dict[str, Any] = {
    **TRAINING,
    "findings": [*TRAINING["findings"], _finding("host-under-reports", "node1/p0", "egress", 1000)],
}
UNDECLARED: dict[str, Any] = {
    "links": _quiet(("node1/p0",)),
    "findings": [_finding("undeclared-port", None, None, 70, switch="sw1", port="eth6")],
    "verdict": "violation",
}

JUDGES: dict[str, tuple[dict[str, Any], judging.Judge]] = {
    "honest": (HONEST, judging.honest),
    "training": (TRAINING, lambda result: judging.training(result, TRAINERS)),
    "lying": (LYING, lambda result: judging.lying(result, TRAINERS, "node1/p0")),
    "undeclared": (UNDECLARED, lambda result: judging.undeclared(result, "sw1", "eth6", 70)),
}


@pytest.mark.parametrize("name", JUDGES)
def test_what_has_to_be_seen_is_accepted(name: str) -> None:
    result, judge = JUDGES[name]
    assert judge(result).ok, judge(result).seen


@pytest.mark.parametrize(
    ("where", "said"),
    [
        ({"link": "node1/p0"}, "node1/p0"),
        ({"switch": "sw1", "port": "eth6"}, "sw1 eth6"),
        ({"switch": "sw1"}, "sw1"),
        ({"node": "node1"}, "node1"),
        ({}, "several links together"),
    ],
)
def test_a_finding_is_told_with_its_place(where: dict[str, str], said: str) -> None:
    place = {"link": None, "direction": None, **where}
    result = {**HONEST, "findings": [_finding("bytes-unaccounted", **place, certain=False)]}  # type: ignore[arg-type]
    assert judging.honest(result).seen == f"compliant; bytes-unaccounted (possible) on {said}"


def _without_findings(result: dict[str, Any]) -> None:
    result["findings"] = []


def _another_finding(result: dict[str, Any]) -> None:
    result["findings"].append(_finding("observers-disagree", "node2/p0", "egress"))


def _wrong_verdict(result: dict[str, Any]) -> None:
    result["verdict"] = "inconclusive"


def _other_link_not_compliant(result: dict[str, Any]) -> None:
    result["links"][-1]["verdict"] = "inconclusive"


def _lie_on_another_link(result: dict[str, Any]) -> None:
    result["findings"].append(_finding("host-under-reports", "node3/p0", "egress", 5))


def _too_few_bytes(result: dict[str, Any]) -> None:
    result["findings"][-1]["bytes_at_least"] = "0"


def _only_possible(result: dict[str, Any]) -> None:
    for finding in result["findings"]:
        finding["certain"] = False


@pytest.mark.parametrize(
    ("name", "spoil"),
    [
        ("honest", _another_finding),
        ("honest", _wrong_verdict),
        ("honest", _other_link_not_compliant),
        ("training", _without_findings),
        ("training", _another_finding),
        ("training", _wrong_verdict),
        ("training", _other_link_not_compliant),
        ("training", _only_possible),
        ("lying", _without_findings),
        ("lying", _lie_on_another_link),
        ("lying", _too_few_bytes),
        ("lying", _only_possible),
        ("undeclared", _without_findings),
        ("undeclared", _another_finding),
        ("undeclared", _too_few_bytes),
        ("undeclared", _other_link_not_compliant),
        ("undeclared", _wrong_verdict),
    ],
)
def test_anything_else_is_refused(name: str, spoil: Callable[[dict[str, Any]], None]) -> None:
    result, judge = JUDGES[name]
    spoilt = copy.deepcopy(result)
    spoil(spoilt)
    assert not judge(spoilt).ok


def test_nothing_to_judge_is_not_honest() -> None:
    assert not judging.honest({"links": [], "findings": [], "verdict": "compliant"}).ok
