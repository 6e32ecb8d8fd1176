"""Laws over several links, a line each: per switch, per pod, per pair of nodes; broken ones first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from controller.crosscheck.model import Holds, SumOf, SumResult, Unknown
from controller.report import words

_KINDS = {SumOf.SWITCH: "switch", SumOf.POD: "pod", SumOf.NODE_PAIR: "pair of nodes"}
_ORDER = {Holds.NO: 0, Holds.UNKNOWN: 1, Holds.YES: 2}


@dataclass(frozen=True, slots=True)
class SumLine:
    """One law; ``gap`` is empty unless it is broken."""

    of: str
    law: str
    holds: str
    left: str
    left_exact: str
    right: str
    right_exact: str
    gap: str
    gap_exact: str
    text: str
    margin: str


def sum_lines(sums: Sequence[SumResult]) -> list[SumLine]:
    """Return a line for each law, the broken ones first, then those that are open."""
    ordered = sorted(sums, key=lambda one: (_ORDER[one.result.holds], list(SumOf).index(one.of), one.name))
    return [_line(one) for one in ordered]


def _line(one: SumResult) -> SumLine:
    result, broken = one.result, one.result.holds is Holds.NO
    by_design = result.unknown_because is Unknown.BY_DESIGN
    tested = result.unknown_because in {None, Unknown.CONTRADICTION} or one.left.upper is not None
    text = result.text
    if result.holds is Holds.YES and result.hidden_bytes_bound is not None:
        text = f"hides at most {words.ceil_bytes(result.hidden_bytes_bound)}"
    return SumLine(
        of=_KINDS[one.of],
        law=words.shown(one.name),
        holds="by-design" if by_design else result.holds.value,
        left=words.interval(one.left.lower, one.left.upper) if tested else "not counted",
        left_exact=words.exact_interval(one.left.lower, one.left.upper) if tested else "",
        right=words.interval(one.right.lower, one.right.upper) if tested else "not counted",
        right_exact=words.exact_interval(one.right.lower, one.right.upper) if tested else "",
        gap=words.floor_bytes(result.gap_at_least_bytes) if broken else "",
        gap_exact=words.exact(result.gap_at_least_bytes) if broken else "",
        text=words.shown(text).removeprefix("unknown: "),
        margin=words.shown(result.margin),
    )
