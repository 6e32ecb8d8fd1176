"""Whether a limit was kept, over every sliding window, with up to f of the trust domains lying.

A limit is a node's, in one direction: a node with several links has their sum limited.

It is exceeded for certain when at least f + 1 domains each prove an excess, one of them off the host: at least one
of them is honest. It is proven kept when at least f + 1 domains each prove that, one of them off the host. The host's
word counts where it can only be true, or against itself: what it says it sent bounds what left, and is an admission;
what it says it received passed the cable, but does not bound what was sent to it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from controller.crosscheck.cable import difference, in_frames
from controller.crosscheck.case import Case
from controller.crosscheck.columns import columns
from controller.crosscheck.coverage import gaps
from controller.crosscheck.exact import Line, Rate, subtract
from controller.crosscheck.liars import DOMAIN_NAMES, counted
from controller.crosscheck.metered import NOTHING_METERED, Metered, fullest_metered
from controller.crosscheck.model import Holds, Limit, LimitResult, Track, WindowsBy, WindowWitness
from controller.crosscheck.quantity import Combination, Quantity
from controller.crosscheck.windows import certain_excess, fullest
from controller.crosscheck.wording import (
    at_least,
    at_most,
    declared,
    moment,
    name,
    rate_at_least,
    share_at_least,
    verb,
)
from protos.reading import Direction, Observer, TrustDomain
from protos.units import format_duration


@dataclass(frozen=True, slots=True)
class Scale:
    """What one kind of observer counts of a node, all its links together.

    ``framed`` has the most that these bytes were as frames; None if it did not give evidence on every link, or nothing
    bounds them.
    """

    observer: Observer
    bytes: Quantity
    framed: Quantity | None


def scales(cases: Sequence[Case]) -> list[Scale]:
    """Return every observer's count of a node's links, summed."""
    found = []
    for observer in Observer:
        usable = [case.seen[observer] for case in cases if observer in case.seen and case.seen[observer].usable]
        if not usable:
            continue
        framed = [one for one in map(in_frames, usable) if one is not None]
        total = _added([one.bytes for one in usable])
        as_counted = all(frames is one.bytes for frames, one in zip(framed, usable, strict=False))
        whole = total if as_counted or not framed else _added(framed)
        found.append(Scale(observer, total, whole if len(framed) == len(cases) else None))
    return found


def _added(parts: Sequence[Quantity]) -> Quantity:
    if len(parts) == 1:
        return parts[0]
    return Combination([(1, one) for one in parts], _together([one.line for one in parts]))


def _together(lines: Sequence[Line | None]) -> Line | None:
    """Return what several lines carry together; None if one of them is unknown."""
    known = [line for line in lines if line is not None]
    if len(known) < len(lines):
        return None
    rate = sum((line.rate.fraction for line in known), start=known[0].rate.fraction * 0)
    return Line(Rate(rate.numerator, rate.denominator), sum(line.step for line in known))


MOST_BREAKS = 64
"""So many stretches without buckets are each bounded for themselves by readings; of more, the readings bound all."""


@dataclass(frozen=True, slots=True)
class Witness:
    """What one observer proves about the fullest window on the cable.

    ``exceeds`` and ``keeps`` are proofs; both false is no proof either way.
    """

    shown: WindowWitness
    exceeds: bool
    keeps: bool
    text: str = ""

    @property
    def domain(self) -> TrustDomain:
        """Whose word it is."""
        return self.shown.observer.trust_domain

    @property
    def least(self) -> int:
        """Bytes that some window certainly held."""
        return self.shown.least

    @property
    def most(self) -> int | None:
        """Bytes that any window can have held."""
        return self.shown.most


def witness(scale: Scale, limit: Limit, cases: Sequence[Case], from_ns: int) -> Witness:
    """Return what one observer proves about a limit from ``from_ns`` (of the timeline) to the end of the period.

    1. What it counts can differ from what passed the cables (:mod:`controller.crosscheck.cable`).
    2. Above: the fullest window it can have counted, plus that difference: by millisecond buckets where a meter
       vouches for them, of all other windows by readings; and by readings alone where those say less.
    3. Below: buckets within the period that one window holds; and pairs of readings of the whole period that leave no
       other possibility, less that difference.
    """
    apart = [difference(scale.observer, case, limit.window_ns) for case in cases]
    above = _sum([one.above for one in apart]) if scale.framed is not None else None
    passed = _sum([one.below for one in apart])
    # What a host says it sent is an admission, even if some of it was dropped on the way to the cable.
    admitted = scale.observer is Observer.HOST and cases[0].direction is Direction.EGRESS
    below = _sum([one.above for one in apart]) if admitted else passed
    origin, start, end = cases[0].origin, from_ns - cases[0].origin, cases[0].length
    full = fullest(scale.bytes, limit.window_ns, start, end)
    by_readings = full.most
    if scale.framed is not scale.bytes:
        by_readings = None if scale.framed is None else fullest(scale.framed, limit.window_ns, start, end).most
    metered = _metered(scale, limit, cases, from_ns)
    most, most_by, share = _most(by_readings, metered.seen_from(origin), scale.framed, limit.window_ns, (start, end))
    most = None if most is None or above is None else most + above
    excess = None
    # What is certain needs no start of evidence; a window that cannot have held more needs no search for one that did.
    if below is not None and (start > 0 or full.most is None or full.most > limit.bytes + below):
        excess = certain_excess(scale.bytes, limit.window_ns, limit.bytes + below, 0, end)
    least = 0 if passed is None else max(0, full.least - passed)
    shown = WindowWitness(
        scale.observer,
        least,
        most,
        WindowsBy.READINGS,
        most_by,
        full.least_from_ns + origin if least else None,
        0,
        share,
    )
    domain = DOMAIN_NAMES[scale.observer.trust_domain]
    texts = []
    if excess is not None:
        within = f"{format_duration(excess.to_ns - excess.from_ns)} from {moment(excess.from_ns + origin)}"
        texts.append(f"{domain} counted at least {at_least(excess.bytes)} too much in the {within}")
        if passed is not None and excess.in_one_window - passed > least:
            shown = replace(shown, least=excess.in_one_window - passed, from_ns=None)
    if metered.from_ns is not None and passed is not None:
        if metered.least > limit.bytes + passed:
            texts.append(f"{domain} counted at least {at_least(metered.least)} by the millisecond in {_when(metered)}")
        if metered.least - passed >= max(1, shown.least):
            shown = replace(
                shown,
                least=metered.least - passed,
                least_by=WindowsBy.BUCKETS,
                from_ns=metered.from_ns,
                exact_to_ns=metered.exact_to_ns,
            )
    return Witness(
        shown=shown,
        exceeds=bool(texts),
        keeps=not texts and most is not None and most <= limit.bytes,
        text=", and ".join(texts),
    )


def _when(metered: Metered) -> str:
    return f"the window from {moment(metered.from_ns or 0)} (known to {format_duration(metered.exact_to_ns)})"


def _metered(scale: Scale, limit: Limit, cases: Sequence[Case], from_ns: int) -> Metered:
    """Return what the meters of one kind of observer show, all links of the node together; nothing if one has none."""
    period = cases[0].period
    seen = [case.seen.get(scale.observer) for case in cases]
    ports = [one.track.buckets if one is not None and one.usable else () for one in seen]
    if not any(ports):
        return NOTHING_METERED
    return fullest_metered(ports, limit.window_ns, from_ns, period.to_ns, certain_from_ns=period.from_ns)


def _most(
    by_readings: int | None,
    metered: Metered,
    framed: Quantity | None,
    window: int,
    period: tuple[int, int],
) -> tuple[int | None, WindowsBy, float]:
    """Return the most any window can have held, what that rests on, and the share of windows that buckets cover.

    1. The windows that no run of buckets covers are those that begin in the stretches between.
    2. The most by buckets, and by readings in those stretches; or the most by readings alone, if that is less.
    """
    start, end = period
    last = max(start, end - window)
    if not metered.covered:
        return by_readings, WindowsBy.READINGS, 0.0
    # A period of one window has one start, which has no length.
    breaks = gaps(metered.covered, start, last) if last > start else ()
    share = 1 - sum(until - first for first, until in breaks) / max(1, last - start)
    mosts: list[int | None] = [metered.most]
    if len(breaks) > MOST_BREAKS or (breaks and framed is None):
        mosts.append(by_readings)
    elif framed is not None:
        mosts += [fullest(framed, window, first, min(until + window, end)).most for first, until in breaks]
    known = [most for most in mosts if most is not None]
    most = max(known) if len(known) == len(mosts) else None
    if most is None or (by_readings is not None and by_readings < most):
        return by_readings, WindowsBy.READINGS, share
    return most, WindowsBy.BOTH if breaks else WindowsBy.BUCKETS, share


def _sum(parts: Sequence[int | None]) -> int | None:
    known = [part for part in parts if part is not None]
    return sum(known) if len(known) == len(parts) else None


def judge_limit(limit: Limit, cases: Sequence[Case], from_ns: int) -> LimitResult:
    """Judge one limit of one node and direction from ``from_ns`` (of the timeline) to the end of the period.

    What load windows let through beside it is no excess, and no proof that it was kept: an excess that their budgets
    could explain leaves the limit open.
    """
    result = _judge(limit, cases, from_ns)
    loaded = max(case.evidence.load_bytes for case in cases)
    if result.holds is not Holds.NO or not loaded:
        return result
    beside = _judge(replace(limit, bytes=limit.bytes + loaded), cases, from_ns)
    if beside.holds is Holds.NO:
        return replace(result, text=f"{result.text}; load windows let {declared(loaded)} in beside it at most")
    text = (
        f"not proven kept beside the load windows, which let {declared(loaded)} in; judge the time outside of them by "
        f"itself: {result.text.removeprefix('exceeded for certain ')}"
    )
    return replace(result, holds=Holds.UNKNOWN, text=text, exceeded_by=())


def _judge(limit: Limit, cases: Sequence[Case], from_ns: int) -> LimitResult:
    """Judge one limit by itself.

    1. Each observer is a witness of the sum over the node's links; a domain proves what any of its observers proves.
    2. Exceeded, and kept: f + 1 domains, at least one off the host.
    3. The fullest window: at least the (f+1)-th largest of the domains' leasts, at most the (f+1)-th smallest of
       their mosts (bounds.md 13).
    """
    needed = cases[0].assumptions.liars + 1
    witnesses = [witness(scale, limit, cases, from_ns) for scale in scales(cases)]
    domains: dict[TrustDomain, list[Witness]] = {}
    for one in witnesses:
        domains.setdefault(one.domain, []).append(one)
    exceeded_by = tuple(domain for domain, said in domains.items() if any(one.exceeds for one in said))
    kept_by = tuple(domain for domain, said in domains.items() if any(one.keeps for one in said))
    best = {domain: max(said, key=lambda one: (one.exceeds, one.least)) for domain, said in domains.items()}
    leasts = sorted(best.values(), key=lambda one: -one.least)
    known = [[one.most for one in said if one.most is not None] for said in domains.values()]
    mosts = sorted(min(values) for values in known if values)
    vouched = leasts[needed - 1] if len(leasts) >= needed else None
    least, least_from = (vouched.least, vouched.shown.from_ns) if vouched is not None else (0, None)
    most = mosts[needed - 1] if len(mosts) >= needed else None
    shown = tuple(one.shown for one in witnesses)
    length = format_duration(limit.window_ns)
    rule = f"at most {declared(limit.bytes)} {verb(cases[0].direction)} in any {length}"
    if len(exceeded_by) >= needed and exceeded_by != (TrustDomain.HOST,):
        least, least_from = max((least, least_from), (limit.bytes + 1, None), key=lambda pair: pair[0])
        where = f"from {moment(least_from)}" if least_from is not None else f"(one of several {length} that share it)"
        proofs = "; ".join(one.text for one in best.values() if one.text)
        text = f"exceeded for certain ({rule}): {length} {where} held at least {at_least(least)}; {proofs}"
        text += _rests_on(shown)
        return LimitResult(limit, Holds.NO, least, most, least_from, text, exceeded_by, kept_by, shown)
    if len(kept_by) >= needed and kept_by != (TrustDomain.HOST,):
        text = f"kept ({rule}): no window can have held more than {at_most(most or 0)}{_rests_on(shown)}"
        return LimitResult(limit, Holds.YES, least, most, least_from, text, exceeded_by, kept_by, shown)
    open_result = LimitResult(limit, Holds.UNKNOWN, least, most, least_from, "", exceeded_by, kept_by, shown)
    undecided = f"{_undecided(open_result, cases, len(domains))}{_rests_on(shown)}"
    return replace(open_result, text=f"not proven kept ({rule}): {undecided}")


def _rests_on(shown: Sequence[WindowWitness]) -> str:
    """Return which observers' windows are known to the millisecond; empty if none are."""
    told = [
        f"{name(one.observer)} by millisecond buckets in {share_at_least(one.bucket_share)} of the windows"
        for one in shown
        if one.bucket_share > 0
    ]
    others = [name(one.observer) for one in shown if one.bucket_share == 0]
    if told and others:
        told.append(f"{' and '.join(others)} by readings")
    return f"; {', '.join(told)}" if told else ""


def _undecided(result: LimitResult, cases: Sequence[Case], domains: int) -> str:
    """Return why a limit is neither proven kept nor exceeded, and what could be proven."""
    most, exceeded_by, kept_by = result.worst_at_most_bytes, result.exceeded_by, result.kept_by
    liars = cases[0].assumptions.liars
    if domains <= liars:
        return f"{domains} trust domains gave evidence, {liars + 1} are needed with {counted(liars)} assumed"
    parts = [
        "nothing bounds the fullest window" if most is None else f"the fullest window can have held {at_most(most)}"
    ]
    if exceeded_by:
        parts.append("an excess is proven only by " + ", ".join(DOMAIN_NAMES[domain] for domain in exceeded_by))
    if kept_by:
        parts.append("that it was kept is proven only by " + ", ".join(DOMAIN_NAMES[domain] for domain in kept_by))
    reachable = [
        _provable_rate(one.track, result.limit)
        for case in cases
        for one in case.seen.values()
        if one.observer is not Observer.HOST
    ]
    rates = [rate for rate in reachable if rate is not None]
    if rates:
        parts.append(
            f"with readings this far apart a steady {rate_at_least(min(rates))} is the most that can be proven"
        )
    return "; ".join(parts)


def _provable_rate(track: Track, limit: Limit) -> int | None:
    """Return the steady bytes/s at which compliance can be proven: ``r * (w + 2*(P + u)) <= B`` (bounds.md 6)."""
    if len(track.readings) < 2:
        return None
    readings = columns(track.readings)
    poll_gap = int(np.diff(np.sort(readings.latest)).max())
    width = int(subtract(readings.latest, readings.earliest).max())
    return limit.bytes * 1_000_000_000 // (limit.window_ns + 2 * (poll_gap + width))
