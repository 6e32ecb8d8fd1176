"""One finding in full, in words: what was seen, how certain it is, what it rests on, and what would dissolve it.

Pure: from the JSON result alone, so that whoever was handed one needs neither the journal nor the site.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from controller.crosscheck.model import FindingKind
from controller.crosscheck.wording import share_at_least, stretch
from controller.errors import OperatorError
from controller.report.sentences import KINDS, VIOLATING
from controller.report.words import exact, exact_interval, shown
from controller.resemblance import resemblances
from protos.units import format_bytes, format_duration

MOST_NAMED = 30
"""So many findings are listed when the one asked for is not there."""

Found = Mapping[str, Any]
"""A part of a JSON result."""


@dataclass(frozen=True, slots=True)
class Section:
    """A heading and the sentences under it."""

    heading: str
    lines: tuple[str, ...]


def find(result: Found, wanted: str) -> tuple[Found, Found]:
    """Return the finding that ``wanted`` names, and the part of the result that it is in.

    ``wanted`` is an id, the beginning of one that no other shares, or a number counted from 1 over all parts.

    Raises:
        OperatorError: there is none, or several begin so, or ``result`` is no result.
    """
    parts = result.get("parts", [result])
    try:
        findings = [(finding, part) for part in parts for finding in part["findings"]]
        names = [str(finding["id"]) for finding, _ in findings]
    except (KeyError, TypeError, AttributeError) as error:
        raise OperatorError(
            "this is not the JSON result of a cross-check whose findings have ids. Make one with "
            "`weighbridge crosscheck --json`."
        ) from error
    if wanted.isascii() and wanted.isdigit() and 0 < int(wanted) <= len(findings):
        return findings[int(wanted) - 1]
    # The same finding may stand in two parts of a period; then it is told once.
    matching = {name: found for name, found in zip(names, findings, strict=True) if name == wanted}
    matching = matching or {
        n: found for n, found in zip(names, findings, strict=True) if wanted and n.startswith(wanted)
    }
    if len(matching) == 1:
        return next(iter(matching.values()))
    there = ", ".join(list(matching or dict.fromkeys(names))[:MOST_NAMED]) or "none"
    problem = "names several findings" if matching else "is not a finding of this result"
    raise OperatorError(f"{wanted!r} {problem}. There: {there}.")


def explained(finding: Found, part: Found) -> list[Section]:
    """Return the explanation of a finding, section by section.

    Raises:
        OperatorError: the result lacks what it should have.
    """
    try:
        return [section for section in _sections(finding, part) if section.lines]
    except (KeyError, TypeError, ValueError) as error:
        raise OperatorError(
            f"the result cannot be read ({type(error).__name__}: {error}). Make it again with this version: "
            "`weighbridge crosscheck --json`."
        ) from error


def _sections(finding: Found, part: Found) -> Iterator[Section]:
    kind = FindingKind(finding["kind"])
    links = _links(finding, part)
    yield Section("What was seen", (shown(finding["text"]), KINDS[kind].meaning))
    yield Section("How certain it is", tuple(_certainty(finding, kind)))
    yield Section("When, and how much", tuple(_size(finding)))
    yield Section("What each observer proves of the period", tuple(line for link in links for line in _observers(link)))
    yield Section("Laws", tuple(line for link in links for line in _laws(link)) if kind in _OF_LAWS else ())
    yield Section("What it looks like", tuple(_looks_like(finding, part)) if kind in _OF_LAWS else ())
    yield Section("Limits", tuple(_limits(links)) if kind in _OF_LIMITS else ())
    yield Section("What would dissolve it", tuple(_dissolving(finding, kind, links)))
    yield Section("What it rests on", tuple(_assumptions(part["assumptions"])))


_OF_LAWS = frozenset(
    {
        FindingKind.HOST_UNDER_REPORTS,
        FindingKind.HOST_OVER_REPORTS,
        FindingKind.OBSERVERS_DISAGREE,
        FindingKind.SCALE_OFF,
    }
)
_OF_LIMITS = frozenset({FindingKind.LIMIT_EXCEEDED, FindingKind.LIMIT_POSSIBLY_EXCEEDED})


def _links(finding: Found, part: Found) -> list[Found]:
    """Return the links that the finding is about, in its direction; of a node all of its links."""
    direction = finding["direction"]
    return [
        link
        for link in part["links"]
        if (link["link"] == finding["link"] or (finding["link"] is None and link["node"] == finding["node"]))
        and direction in (None, link["direction"])
    ]


def _certainty(finding: Found, kind: FindingKind) -> Iterator[str]:
    if finding["certain"] and kind in VIOLATING:
        yield "certain: under the assumptions below nothing else is possible, so the verdict is violation"
    elif kind in VIOLATING:
        yield "not certain: it may be so, and it may be otherwise; it convicts nobody, and leaves the verdict open"
    else:
        yield "a fact about the evidence: it accuses nobody"
    yield f"said by {KINDS[kind].by_whom}"


def _size(finding: Found) -> Iterator[str]:
    if finding["from_ns"] is not None and finding["to_ns"] is not None:
        yield stretch(int(finding["from_ns"]), int(finding["to_ns"]))
    if finding["bytes_at_least"] is not None:
        yield f"at least {exact(int(finding['bytes_at_least']))}"


def _observers(link: Found) -> Iterator[str]:
    for observer, interval in link["observers"].items():
        yield f"{_place(link)}: {observer} counted {_interval(interval)}"
    yield f"{_place(link)}: true whoever of those assumed lies: {_interval(link['agreed'])}"


def _laws(link: Found) -> Iterator[str]:
    for law in link["laws"]:
        state = {"yes": "holds", "no": "BROKEN", "unknown": "open"}[law["holds"]]
        yield f"{_place(link)}: {law['law']}: {state}: {shown(law['text'])}"
        if law["margin"]:
            yield f"    margin: {shown(law['margin'])}"


def _looks_like(finding: Found, part: Found) -> Iterator[str]:
    """Return hints: both directions of the link are needed to tell whether they were exchanged."""
    yield from resemblances([link for link in part["links"] if link["link"] == finding["link"]])


def _limits(links: Sequence[Found]) -> Iterator[str]:
    told: dict[str, None] = {}
    for link in links:
        for limit in link["limits"]:
            window, volume = format_duration(int(limit["window_ns"])), format_bytes(int(limit["limit_bytes"]))
            worst = exact_interval(int(limit["worst_at_least_bytes"]), _number(limit["worst_at_most_bytes"]))
            who = f"; an excess is proven by {', '.join(limit['exceeded_by']) or 'nobody'}"
            who += f", that it was kept by {', '.join(limit['kept_by']) or 'nobody'}"
            told[f"{volume} in any {window}: the fullest window held {worst}{who}"] = None
            told[f"    {shown(limit['text'])}"] = None
            told |= {f"    {line}": None for line in map(_witness, limit.get("witnesses", ()))}
    yield from told


def _witness(one: Found) -> str:
    """Return what one observer shows of the fullest window, by what, and when that was."""
    least, most = int(one["at_least_bytes"]), _number(one["at_most_bytes"])
    text = f"{shown(one['observer'])}: {exact_interval(least, most)}; at least by {_BY[one['at_least_by']]}"
    text += f", at most by {_BY[one['at_most_by']]}"
    if one["at_most_by"] == "buckets-and-readings":
        text += f" ({share_at_least(one['bucket_share'])} of the windows by buckets)"
    if one["from_ns"] is not None:
        text += f"; that window was {stretch(int(one['from_ns']), int(one['to_ns']))}"
        if int(one["exact_to_ns"]):
            text += f", or up to {format_duration(int(one['exact_to_ns']))} later"
    return text


_BY = {
    "millisecond-buckets": "millisecond buckets",
    "readings": "readings",
    "buckets-and-readings": "millisecond buckets and readings",
}


def _dissolving(finding: Found, kind: FindingKind, links: Sequence[Found]) -> Iterator[str]:
    if finding["margin"]:
        yield shown(finding["margin"])
    elif kind is FindingKind.LIMIT_EXCEEDED:
        yield "each trust domain named above proves it by itself: all of them would have to be wrong"
    if kind in _OF_LAWS and finding["certain"]:
        yield f"more in flight or late than declared: by {exact(int(finding['bytes_at_least'] or 0))} at the least"
    if not finding["certain"]:
        told = dict.fromkeys(shown(text) for link in links for text in link["undecided"])
        yield from (f"open: {text}" for text in told)


def _assumptions(assumptions: Found) -> Iterator[str]:
    for name, value in assumptions.items():
        if name.endswith("_ns"):
            yield f"{name.removesuffix('_ns')}: {format_duration(int(value))}"
        elif name.endswith("_bytes"):
            yield f"{name.removesuffix('_bytes')}: {exact(int(value))}"
        elif name.endswith("_bytes_per_s"):
            yield f"{name.removesuffix('_bytes_per_s')}: {exact(int(value))}/s"
        else:
            yield f"{name}: {value}"


def _place(link: Found) -> str:
    return f"{shown(link['link'])} {link['direction']}"


def _number(text: str | None) -> int | None:
    return None if text is None else int(text)


def _interval(interval: Found) -> str:
    return exact_interval(int(interval["lower_bytes"]), _number(interval["upper_bytes"]))
