"""Which limit is the stricter, and what cannot both be meant. Pure; every comparison is exact.

Over long stretches the smallest ``bytes / window`` rules; over one window nothing passes but its own ``bytes``. So of
two bounds the one with the smaller mean rate is *stricter for what lasts*, and a bound whose window is shorter and
whose bytes are not fewer than a longer one's can never be reached: it is a slip, and refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction
from itertools import combinations

from controller.agreement.document import EVERYONE, PPM, Agreement, Limit
from protos.buckets import TrafficClass
from protos.lease import Bound, greatest_rate
from protos.reading import Direction
from protos.units import NS_PER_S, format_bytes, format_duration, format_rate


def mean_rate(bound: Bound) -> Fraction:
    """Return the bytes per second that ``bound`` allows for ever."""
    return Fraction(bound.bytes * NS_PER_S, bound.window_ns)


def strictest(bounds: Sequence[Bound]) -> Bound:
    """Return the bound that rules what lasts: the smallest mean rate, of equal ones the shortest window."""
    return min(bounds, key=lambda bound: (mean_rate(bound), bound.window_ns))


def bound_text(bound: Bound) -> str:
    """Return ``2.00 GB in any 1 h (556 kB/s)``."""
    return f"{format_bytes(bound.bytes)} in any {format_duration(bound.window_ns)} ({format_rate(mean_rate(bound))})"


def explained(limit: Limit) -> str:
    """Return which bound of ``limit`` is the stricter, and the greatest rate a lease can have under it."""
    rules = strictest(limit.bounds)
    rate = greatest_rate(limit.depth_bytes, limit.bounds)
    bucket = (
        f"a lease can have {format_rate(rate)} with a depth of {format_bytes(limit.depth_bytes)}"
        if rate is not None
        else f"a depth of {format_bytes(limit.depth_bytes)} leaves no rate"
    )
    if len(limit.bounds) == 1:
        return f"{bound_text(rules)}; {bucket}"
    others = ", ".join(bound_text(bound) for bound in sorted(limit.bounds) if bound is not rules)
    return f"{bound_text(rules)} is stricter for what lasts than {others}; {bucket}"


def contradictions(agreement: Agreement) -> list[str]:
    """Return what cannot both be meant, each as a sentence with its place; empty: nothing.

    1. It is valid for no time.
    2. In one limit: one window with two sizes; a bound that another makes unreachable; a depth that leaves no rate.
    3. Of two limits on the same thing: one window with two sizes, or two depths.
    4. Load windows: more bytes back than forward.
    """
    found = []
    if agreement.valid_to_ns <= agreement.valid_from_ns:
        found.append("valid_to is not after valid_from")
    for limit in agreement.limits:
        found += [f"{limit.place}: {text}" for text in _within(limit)]
    for one, other in combinations(agreement.limits, 2):
        found += [f"{one.place} and {other.place}: {text}" for text in _between(one, other)]
    if agreement.loads is not None and agreement.loads.reverse_ppm >= PPM:
        found.append("loads.reverse: as many bytes back as forward are no load")
    return found


def _within(limit: Limit) -> list[str]:
    found = []
    for one, other in combinations(sorted(limit.bounds), 2):
        if one.window_ns == other.window_ns:
            found.append(f"{bound_text(one)} and {bound_text(other)} are one window with two sizes")
        elif one.bytes >= other.bytes:
            found.append(f"{bound_text(one)} can never be reached under {bound_text(other)}")
    rate = greatest_rate(limit.depth_bytes, limit.bounds)
    if rate is None and not found:
        tightest = min(limit.bounds, key=lambda bound: (bound.bytes - limit.depth_bytes) * NS_PER_S // bound.window_ns)
        found.append(f"a bucket {format_bytes(limit.depth_bytes)} deep leaves no rate under {bound_text(tightest)}")
    return found


def _between(one: Limit, other: Limit) -> list[str]:
    same = one.scope == other.scope and one.traffic_class is other.traffic_class
    names = set(one.names) & set(other.names)
    if not same or not names or not one.directions & other.directions:
        return []
    who = ", ".join(sorted("every " + one.scope if name == EVERYONE else name for name in names))
    found = []
    if one.depth_bytes != other.depth_bytes:
        found.append(f"{who} has two depths, {format_bytes(one.depth_bytes)} and {format_bytes(other.depth_bytes)}")
    sizes = {bound.window_ns: bound for bound in one.bounds}
    found += [
        f"{who}: {bound_text(sizes[bound.window_ns])} and {bound_text(bound)} are one window with two sizes"
        for bound in other.bounds
        if bound.window_ns in sizes and sizes[bound.window_ns].bytes != bound.bytes
    ]
    return found


def bounds_on(
    agreement: Agreement, *, node: str, pod: str, traffic_class: TrafficClass, direction: Direction
) -> tuple[Bound, ...]:
    """Return every bound on what ``node`` moves in this class and direction, each window once, the stricter size.

    A pod's limit is on its nodes together, so it bounds each of them as well.
    """
    return merged(
        bound
        for limit in agreement.limits
        if limit.is_about(node, pod, traffic_class, direction)
        for bound in limit.bounds
    )


def merged(bounds: Iterable[Bound]) -> tuple[Bound, ...]:
    """Return ``bounds`` with each window once, the smaller size."""
    least: dict[int, int] = {}
    for bound in bounds:
        least[bound.window_ns] = min(bound.bytes, least.get(bound.window_ns, bound.bytes))
    return tuple(Bound(window_ns, size) for window_ns, size in sorted(least.items()))


def depth_on(
    agreement: Agreement, *, node: str, pod: str, traffic_class: TrafficClass, direction: Direction
) -> int | None:
    """Return the smallest depth agreed for it; None where no limit is about it."""
    return min(
        (limit.depth_bytes for limit in agreement.limits if limit.is_about(node, pod, traffic_class, direction)),
        default=None,
    )
