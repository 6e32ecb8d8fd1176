"""Whether two results of one evidence, computed by different programs, say the same in substance. Pure.

A report must be checkable for ever, and the cross-check will go on being improved: later releases word things anew, add
fields, bound more closely. So a result of another program (docs/adr/0098) is held against one computed here by what it
*claims*:

1. Site, period and verdict are the same, as a whole and for each link and direction, and the links are the same.
2. Whatever is certain is certain in both: the same kind of finding, about the same link, node or port.
3. Two intervals of one observer have bytes in common: both are said to hold the true number.
4. No law or limit holds in one and is broken in the other; ``unknown`` contradicts neither.
5. The agreements that were in force are the same documents, if the report names them.
6. The report claims no more coverage than is found here, and no smaller bound of what could be hidden; assumptions that
   both name have the same values.

Anything that a result lacks for this is a contradiction, never passed over. What is left, words above all, is the
reporting program's alone: the result computed here is the one to read.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from controller.evidence.refusal import VerificationError

MOST = 5

_ROUNDING = 1e-5
"""Of a share, in documents of any program."""


def contradictions(reported: Any, computed: Any) -> list[str]:
    """Return where two documents contradict each other, at most a handful; empty if they say the same.

    Args:
        reported: the document that was signed; anything at all.
        computed: the one computed here.
    """
    try:
        found = list(_whole(reported, computed))
    except (KeyError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError) as error:
        return [f"the reported result cannot be compared ({type(error).__name__}: {error})"]
    return found[:MOST]


def read_result(raw: bytes) -> dict[str, Any]:
    """Return the result document in ``raw``: an object in which no key stands twice and every number is one.

    Two readers that take different ones of two keys would read two reports under one signature.

    Raises:
        VerificationError: it is something else.
    """

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) != len(pairs):
            raise VerificationError("the result has the same key twice in one object")
        return found

    def refuse(literal: str) -> Any:
        raise VerificationError(f"the result holds {literal[:20]}, which is no number")

    try:
        value = json.loads(raw, object_pairs_hook=once, parse_constant=refuse)
    except (ValueError, RecursionError) as error:
        raise VerificationError("the result cannot be read") from error
    if not isinstance(value, dict):
        raise VerificationError("the result is not an object")
    return value


def _whole(reported: Mapping[str, Any], computed: Mapping[str, Any]) -> Iterator[str]:
    yield from _same("verdict", reported["verdict"], computed["verdict"])
    if "parts" in computed or "parts" in reported:
        pairs = zip(reported["parts"], computed["parts"], strict=True)
        for number, (left, right) in enumerate(pairs):
            yield from (f"parts[{number}].{text}" for text in _part(left, right))
        return
    yield from _part(reported, computed)


def _part(reported: Mapping[str, Any], computed: Mapping[str, Any]) -> Iterator[str]:
    yield from _same("verdict", reported["verdict"], computed["verdict"])
    for key in ("site", "period"):
        ours, theirs = computed[key], reported[key]
        if key == "period":
            ours, theirs = ([each["from_ns"], each["to_ns"]] for each in (ours, theirs))
        yield from _same(key, theirs, ours)
    before, now = (_by(each["links"], "link", "direction") for each in (reported, computed))
    yield from _same("links", sorted(before), sorted(now))
    for name in sorted(before.keys() & now.keys()):
        yield from (f"links {' '.join(name)}: {text}" for text in _link(before[name], now[name]))
    old, new = reported["assumptions"], computed["assumptions"]
    for key in sorted(old.keys() & new.keys()):
        yield from _same(f"assumptions.{key}", old[key], new[key])
    if "agreements" in reported:
        held = [[each["sha256"] for each in one["agreements"]] for one in (reported, computed)]
        yield from _same("agreements", *held)
    yield from _same("what is certain", _certain(reported["findings"]), _certain(computed["findings"]))


def _link(reported: Mapping[str, Any], computed: Mapping[str, Any]) -> Iterator[str]:
    yield from _same("verdict", reported["verdict"], computed["verdict"])
    # So written that what is no number at all is refused as well.
    if not float(reported["coverage"]) <= float(computed["coverage"]) + _ROUNDING:
        yield f"coverage: reported {reported['coverage']}, computed {computed['coverage']}"
    bound, found = reported["hidden_bytes_bound"], computed["hidden_bytes_bound"]
    if bound is not None and (found is None or int(bound) < int(found)):
        yield f"what could be hidden: reported at most {bound} bytes, computed {found}"
    seen, now = reported["observers"], computed["observers"]
    yield from _same("observers", sorted(seen), sorted(now))
    for name in sorted(seen.keys() & now.keys()):
        low = max(int(each["lower_bytes"]) for each in (seen[name], now[name]))
        highs = [int(each["upper_bytes"]) for each in (seen[name], now[name]) if each["upper_bytes"] is not None]
        if highs and low > min(highs):
            yield f"{name}: the two ranges of bytes have none in common"
    for what, keys, answer in (("laws", ("law",), "holds"), ("limits", ("window_ns", "limit_bytes"), "kept")):
        before, after = _by(reported[what], *keys), _by(computed[what], *keys)
        for key in sorted(before.keys() & after.keys()):
            if {before[key][answer], after[key][answer]} == {"yes", "no"}:
                yield f"{what} {' '.join(key)}: reported {before[key][answer]}, computed {after[key][answer]}"


def _certain(findings: Any) -> list[str]:
    keys = ("kind", "link", "node", "direction", "switch", "port")
    return sorted(str([each[key] for key in keys]) for each in findings if each["certain"] is not False)


def _by(items: Any, *keys: str) -> dict[tuple[str, ...], Mapping[str, Any]]:
    found = {tuple(str(item[key]) for key in keys): item for item in items}
    if len(found) != len(items):
        raise ValueError(f"two things under one {keys[0]}")
    return found


def _same(what: str, reported: Any, computed: Any) -> Iterator[str]:
    if reported != computed:
        yield f"{what}: reported {json.dumps(reported)[:60]}, computed {json.dumps(computed)[:60]}"


def differences(reported: Any, computed: Any, place: str = "") -> list[str]:
    """Return where two documents differ, by path, at most a handful."""
    if isinstance(reported, dict) and isinstance(computed, dict):
        keys = [*reported, *(key for key in computed if key not in reported)]
        pairs = [(f"{place}.{key}".lstrip("."), reported.get(key), computed.get(key)) for key in keys]
    elif isinstance(reported, list) and isinstance(computed, list) and len(reported) == len(computed):
        pairs = [(f"{place}[{n}]", *each) for n, each in enumerate(zip(reported, computed, strict=True))]
    else:
        same = json.dumps(reported) == json.dumps(computed)
        return [] if same else [f"{place}: reported {json.dumps(reported)[:60]}, computed {json.dumps(computed)[:60]}"]
    found = [text for where, left, right in pairs for text in differences(left, right, where)]
    return found[:MOST]
