"""How wrong an assumption would have to be for a breach to dissolve.

A proof rests on declared refresh periods, clock bounds and line rates. A refresh period declared 3 s and truly 10 s
once gave 145 false contradictions in 400 (bounds.md 14): so each breach says what error would explain it away.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Protocol

import numpy as np

from controller.crosscheck.breach import greatest_breach
from controller.crosscheck.case import Case
from controller.crosscheck.laws import Law, sides
from controller.crosscheck.observed import Observed
from controller.crosscheck.wording import lasting_at_least, name
from protos.reading import Observer
from protos.units import format_duration

FIRST_ERROR_NS = 1_000
"""The search starts at a microsecond: less is below what any clock here is good for."""


def margins(law: Law, case: Case) -> tuple[int | None, str]:
    """Return the least timing error that would dissolve a breach, and the sentence about all errors.

    The search goes no further than the evidence is long; with errors that large nothing is left to compare.

    1. All windows of both observers wider at both ends: the most lenient error there is; its size is the margin.
    2. One observer's refresh period alone, one observer's clock alone.
    3. Whether the breach needs a line rate at all.

    Each is found by doubling and halving; the value returned still leaves the breach standing.
    """
    used = {law.left, law.right, *law.drops_at}
    seen = case.seen

    times = np.concatenate([seen[who].counted.events() for who in (law.left, law.right)])
    longest = max(int(times.max()) - int(times.min()), FIRST_ERROR_NS)

    def stands(changed: Mapping[Observer, Observed]) -> bool:
        concrete = sides(law, {**seen, **changed}, case.assumptions)
        # With wrong times the bytes may have passed before or after the period: all evidence counts, not only its part.
        events = np.concatenate([[0, case.length], concrete.left.events(), concrete.right.events()])
        return greatest_breach(concrete, int(events.min()), int(events.max())) is not None

    def largest_error(observers: Iterable[Observer], *, later: bool) -> int | None:
        def stands_with(error: int) -> bool:
            return stands({who: seen[who].widened(error, error if later else 0) for who in observers})

        return largest_error_standing(stands_with, longest)

    margin = largest_error(used, later=True)
    if margin is None:
        text = f"no timing error shorter than {lasting_at_least(longest)} would explain it"
    else:
        text = f"stands unless every time is wrong by more than {lasting_at_least(margin)}"
    alone = [cause for who in (law.left, law.right) for cause in _single_causes(seen[who], largest_error)]
    if alone:
        text += "; for one cause alone: unless " + ", or ".join(alone)
    bare = {who: seen[who].without_line() for who in (law.left, law.right) if seen[who].counted.line is not None}
    if bare and not stands(bare):
        text += "; it rests on the declared line rate"
    return margin, text


class _Search(Protocol):
    def __call__(self, observers: Iterable[Observer], *, later: bool) -> int | None: ...


def _single_causes(one: Observed, largest_error: _Search) -> Iterator[str]:
    """Yield what one observer's refresh period alone, or its clock alone, would have to be."""
    if one.track.refresh_ns > 0:
        late = largest_error((one.observer,), later=False)
        if late is not None:
            error, declared = lasting_at_least(late), format_duration(one.track.refresh_ns)
            yield f"{name(one.observer)} refreshes more than {error} later than its declared {declared}"
    if one.track.clock_width_ns > 0:
        off = largest_error((one.observer,), later=True)
        if off is not None:
            yield f"the clock of {name(one.observer)} is wrong by more than {lasting_at_least(off)} beyond its bound"


def largest_error_standing(stands: Callable[[int], bool], longest: int) -> int | None:
    """Return the largest error found that leaves the breach standing, to 1 in 256; None if ``longest`` does."""
    low, high = 0, FIRST_ERROR_NS
    while stands(high):
        if high >= longest:
            return None
        low, high = high, min(4 * high, longest)
    while high - low > max(FIRST_ERROR_NS, low // 256):
        middle = (low + high) // 2
        if stands(middle):
            low = middle
        else:
            high = middle
    return low
