"""What a disagreement looks like: mistakes of unit and direction that people have made before. Pure; hints, no proof.

Two observers whose bytes are apart by just a factor of 4 or 8, or of 1.0737, or fit each other when egress and ingress
are exchanged, are more often counted wrongly than lied about. Whoever looks into a finding should look there first.

Sources: InfiniBand's data counters are in units of four octets (IBTA 1.7, 16.1.3.5), which exporters have left out
and put in twice; bits are taken for bytes; 1024-based figures for 1000-based ones; switches have exchanged the
meaning of In and Out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations
from typing import Any

TOLERANCE = Fraction(1, 50)
"""2 %: how far two figures may be apart, and how wide an interval may be, and still be called alike."""

FACTORS = (
    (Fraction(4), "one counts units of four octets (InfiniBand), or has multiplied them twice"),
    (Fraction(8), "one counts bits"),
    (Fraction(1024**3, 1000**3), "one is in units of 1024 (GiB), the other of 1000 (GB)"),
)


@dataclass(frozen=True, slots=True)
class _Span:
    least: int
    most: int

    @property
    def narrow(self) -> bool:
        """Whether it says enough to be compared: more than nothing, and not much wider than it is large."""
        return self.least > 0 and self.most - self.least <= self.least * TOLERANCE

    def like(self, other: _Span, factor: Fraction = Fraction(1)) -> bool:
        """Whether ``other``, times ``factor``, may be the same figure."""
        slack = 1 + TOLERANCE
        return self.least <= other.most * factor * slack and other.least * factor <= self.most * slack


def resemblances(links: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield what two observers of a link look like who are apart.

    Args:
        links: the entries of one link in a JSON result, one for each direction.
    """
    spans = {link["direction"]: _spans(link["observers"]) for link in links}
    for direction, observers in spans.items():
        for (one, ours), (other, theirs) in combinations(observers.items(), 2):
            if ours.like(theirs):
                continue
            for factor, why in FACTORS:
                larger, smaller = (one, other) if ours.like(theirs, factor) else (other, one)
                if ours.like(theirs, factor) or theirs.like(ours, factor):
                    times = f"{float(factor):.4g}"
                    yield f"{direction}: {larger} shows {times} times what {smaller} shows: perhaps {why}"
    yield from _exchanged(spans)


def _exchanged(spans: Mapping[str, Mapping[str, _Span]]) -> Iterator[str]:
    if len(spans) != 2:
        return
    one_way, other_way = spans.values()
    both = [name for name in one_way if name in other_way]
    for one, other in combinations(both, 2):
        straight = one_way[one].like(one_way[other]) and other_way[one].like(other_way[other])
        crossed = one_way[one].like(other_way[other]) and other_way[one].like(one_way[other])
        if crossed and not straight:
            yield f"{one} and {other} fit when the directions of one are exchanged: perhaps its In is the other's Out"


def _spans(observers: Mapping[str, Mapping[str, Any]]) -> dict[str, _Span]:
    bounded = {
        name: _Span(int(each["lower_bytes"]), int(each["upper_bytes"]))
        for name, each in observers.items()
        if each["upper_bytes"] is not None
    }
    return {name: span for name, span in bounded.items() if span.narrow}
