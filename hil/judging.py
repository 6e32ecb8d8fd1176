"""What each phase of the demo has to show, judged on the cross-check's JSON. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

CrossCheckJson = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Judgement:
    """What was seen, in words, and whether it is what had to be seen."""

    seen: str
    ok: bool


def _certain(result: CrossCheckJson) -> list[Mapping[str, Any]]:
    return [finding for finding in result["findings"] if finding["certain"]]


def _where(findings: Collection[Mapping[str, Any]], kind: str) -> set[str]:
    return {finding["link"] for finding in findings if finding["kind"] == kind}


def _not(links: Collection[Mapping[str, Any]], verdict: str) -> list[str]:
    return [f"{each['link']} {each['direction']}: {each['verdict']}" for each in links if each["verdict"] != verdict]


def _seen(result: CrossCheckJson) -> str:
    counts: dict[str, set[str]] = {}
    for finding in result["findings"]:
        name = finding["kind"] if finding["certain"] else f"{finding['kind']} (possible)"
        counts.setdefault(name, set()).add(_place(finding))
    told = "; ".join(f"{kind} on {', '.join(sorted(places))}" for kind, places in sorted(counts.items()))
    return f"{result['verdict']}; {told or 'no finding'}"


def _place(finding: Mapping[str, Any]) -> str:
    port = " ".join(finding[key] for key in ("switch", "port") if finding[key])
    return finding["link"] or port or finding["node"] or "several links together"


def honest(result: CrossCheckJson) -> Judgement:
    """Every link compliant, nothing found, and so the site."""
    others = _not(result["links"], "compliant")
    ok = not others and not result["findings"] and result["verdict"] == "compliant" and bool(result["links"])
    return Judgement(_seen(result) + (f"; {'; '.join(others)}" if others else ""), ok)


def training(result: CrossCheckJson, trainers: Collection[str]) -> Judgement:
    """The limit exceeded for certain on the trainers' links, and nothing certain anywhere else."""
    certain = _certain(result)
    exceeded = _where(certain, "limit-exceeded")
    others = [finding["kind"] for finding in certain if finding["kind"] != "limit-exceeded"]
    rest = [each for each in result["links"] if each["link"] not in trainers]
    ok = (
        exceeded == set(trainers)
        and not others
        and not _not(rest, "compliant")
        and result["verdict"] == "violation"
        and bool(rest)
    )
    return Judgement(_seen(result), ok)


def lying(result: CrossCheckJson, trainers: Collection[str], liar: str) -> Judgement:
    """As :func:`training`, and the liar's host under-reports for certain, on that link only, by a stated least."""
    certain = _certain(result)
    lies = [finding for finding in certain if finding["kind"] == "host-under-reports"]
    others = [each["kind"] for each in certain if each["kind"] not in {"limit-exceeded", "host-under-reports"}]
    ok = (
        _where(certain, "limit-exceeded") == set(trainers)
        and {(finding["link"], finding["direction"]) for finding in lies} == {(liar, "egress")}
        and all(int(finding["bytes_at_least"]) > 0 for finding in lies)
        and not others
        and result["verdict"] == "violation"
    )
    missing = ", ".join(f"at least {int(finding['bytes_at_least']):,} bytes" for finding in lies)
    return Judgement(_seen(result) + (f"; missing {missing}" if missing else ""), ok)


def undeclared(result: CrossCheckJson, switch: str, port: str, least_bytes: int) -> Judgement:
    """The port no one declared, with the bytes it certainly moved; the site is in violation, the links are not."""
    found = [finding for finding in _certain(result) if finding["kind"] == "undeclared-port"]
    places = {(finding["switch"], finding["port"]) for finding in found}
    moved = sum(int(finding["bytes_at_least"]) for finding in found)
    ok = (
        places == {(switch, port)}
        and moved >= least_bytes
        and len(_certain(result)) == len(found)
        and not _not(result["links"], "compliant")
        and result["verdict"] == "violation"
    )
    return Judgement(f"{_seen(result)}; at least {moved:,} bytes", ok)


Judge = Callable[[CrossCheckJson], Judgement]
