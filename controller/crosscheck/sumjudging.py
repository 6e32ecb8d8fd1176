"""Laws over several links, judged over a period: kept, broken for certain, or unknown."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

from controller.crosscheck.account import Account
from controller.crosscheck.breach import greatest_breach
from controller.crosscheck.exact import Rate
from controller.crosscheck.laws import Sides
from controller.crosscheck.margins import largest_error_standing
from controller.crosscheck.model import ByteInterval, Holds, LawResult, SiteEvidence, SumOf, SumResult, Unknown
from controller.crosscheck.quantity import Combination, Quantity, Steady, bounds
from controller.crosscheck.sumlaws import Part, SumLaw, laws_of
from controller.crosscheck.together import together
from controller.crosscheck.wording import at_least, at_most, lasting_at_least, share_at_least, stretch

MOST_LOOKS = 30_000_000
"""Counters times readings of a sum for which each counter keeps its own times: some seconds of work."""


def sum_laws(evidence: SiteEvidence) -> Iterator[SumResult]:
    """Yield what becomes of every law over several links, one after the other; only its own readings are in use."""
    for law in laws_of(evidence):
        yield judge_sum(law, evidence)


@dataclass(frozen=True, slots=True)
class _Sum:
    """Counters that are added up, and their sum."""

    accounts: tuple[Account, ...]

    @classmethod
    def of(cls, parts: Sequence[Part], origin: int) -> _Sum:
        """Add up counters: each with its own times, or, where those are too many, as if all were read at once."""
        if len(parts) * sum(len(readings) for readings, _ in parts) <= MOST_LOOKS:
            return cls(tuple(together([part], origin) for part in parts))
        return cls((together(parts, origin),))

    @property
    def quantity(self) -> Quantity:
        return self.accounts[0] if len(self.accounts) == 1 else Combination([(1, one) for one in self.accounts])

    def widened(self, ns: int) -> _Sum:
        return _Sum(tuple(account.widened(ns, ns) for account in self.accounts))


@dataclass(frozen=True, slots=True)
class _Made:
    """The sums of a law; drops with what a unit of them can have been, in bytes."""

    left: _Sum
    right: _Sum
    drops: tuple[tuple[int, _Sum], ...]

    @property
    def accounts(self) -> tuple[Account, ...]:
        return tuple(chain(self.left.accounts, self.right.accounts, *(each.accounts for _, each in self.drops)))

    def widened(self, ns: int) -> _Made:
        drops = tuple((factor, each.widened(ns)) for factor, each in self.drops)
        return _Made(self.left.widened(ns), self.right.widened(ns), drops)


def judge_sum(law: SumLaw, evidence: SiteEvidence) -> SumResult:
    """Return whether a law holds.

    1. Each side is a sum; with a counter that contradicts itself, nothing is known.
    2. A breach over any stretch of the period is certain, whatever its cause.
    3. None: kept, where both sides gave evidence for as much of the period as the site asks.
    """
    period, assumed = evidence.period, evidence.assumptions
    length = period.to_ns - period.from_ns
    nothing = ByteInterval(0, None)
    if law.unknown is not None:
        why, text = law.unknown
        return SumResult(law.of, law.name, law.switch, law.nodes, nothing, nothing, _open(law, why, f"unknown: {text}"))
    frame = assumed.largest_frame_bytes + law.over_l2
    made = _Made(
        _Sum.of(law.left, period.from_ns),
        _Sum.of(law.right, period.from_ns),
        tuple((factor, _Sum.of(parts, period.from_ns)) for factor, parts in _counted(law, frame)),
    )
    left, right = (ByteInterval(*bounds(one.quantity, 0, length)) for one in (made.left, made.right))
    wrong = [str(each) for account in made.accounts for each in account.contradictions]
    if wrong:
        result = _open(law, Unknown.CONTRADICTION, f"unknown: {wrong[0]}")
        return SumResult(law.of, law.name, law.switch, law.nodes, left, right, result)
    concrete = _sides(law, made, evidence)
    breach = greatest_breach(concrete, 0, length)
    if breach is not None:
        start, end = breach.from_ns + period.from_ns, breach.to_ns + period.from_ns
        text = (
            f"at least {at_least(breach.gap)} more went in than can have come out, been dropped and counted, or been "
            f"in flight, {stretch(start, end)}"
        )
        margin_ns, margin = _margin(law, made, evidence)
        result = LawResult(law.name, Holds.NO, breach.gap, margin, margin_ns, text, None, None, start, end)
        return SumResult(law.of, law.name, law.switch, law.nodes, left, right, result)
    begin, end = _tested(made, length)
    share = max(0, end - begin) / max(1, length)
    hidden = _hidden(concrete, begin, end) if end > begin else None
    if share >= assumed.required_coverage and hidden is not None:
        text = f"kept; at most {at_most(hidden)} could be missing from it unnoticed"
        result = LawResult(law.name, Holds.YES, 0, "", None, text, None, hidden)
    else:
        text = f"not broken where it could be tested, which was {share_at_least(share)} of the period"
        if any(account.epoch_count > 1 for account in made.accounts):
            text += "; a counter began anew around that time, and what could be missing before is not bounded"
        result = _open(law, Unknown.MISSING_EVIDENCE, text)
    return SumResult(law.of, law.name, law.switch, law.nodes, left, right, result)


def _open(law: SumLaw, why: Unknown, text: str) -> LawResult:
    return LawResult(law.name, Holds.UNKNOWN, 0, "", None, text, why)


def _counted(law: SumLaw, frame: int) -> Iterator[tuple[int, tuple[Part, ...]]]:
    if law.dropped_frames:
        yield frame, law.dropped_frames
    if law.dropped_bytes:
        yield 1, law.dropped_bytes


def _sides(law: SumLaw, made: _Made, evidence: SiteEvidence) -> Sides:
    assumed = evidence.assumptions
    allowances: list[tuple[int, Quantity]] = [(factor, each.quantity) for factor, each in made.drops]
    # Ports make and take frames themselves: control traffic, and the DPU's own.
    rate = (assumed.control_bytes_per_s + assumed.dpu_own_bytes_per_s) * law.cables
    if rate:
        allowances.append((1, Steady(Rate.per_second(rate))))
    hops = 1 if law.of is SumOf.SWITCH else 3
    return Sides(
        made.left.quantity,
        Combination([(1, made.right.quantity), *allowances]),
        made.right.quantity,
        assumed.in_flight_bytes * hops * law.cables,
    )


def _margin(law: SumLaw, made: _Made, evidence: SiteEvidence) -> tuple[int | None, str]:
    """Return the least error of all times that would dissolve a breach."""
    events = made.left.quantity.events()
    longest = max(int(events[-1]) - int(events[0]), 1_000)

    def stands(error: int) -> bool:
        concrete = _sides(law, made.widened(error), evidence)
        return greatest_breach(concrete, int(events[0]) - error, int(events[-1]) + error) is not None

    margin = largest_error_standing(stands, longest)
    if margin is None:
        return None, f"no timing error shorter than {lasting_at_least(longest)} would explain it"
    return margin, f"stands unless every time is wrong by more than {lasting_at_least(margin)}"


def _tested(made: _Made, length: int) -> tuple[int, int]:
    """Return from when to when within the period all counters gave evidence in their last epochs."""
    firsts = [account.newest_latest for account in made.accounts if account.newest_latest is not None]
    lasts = [account.last_earliest for account in made.accounts if account.last_earliest is not None]
    if len(firsts) < len(made.accounts):
        return 0, 0
    return max(0, *firsts), min(length, *lasts)


def _hidden(concrete: Sides, begin: int, end: int) -> int | None:
    """Return the most bytes that can lack between the sides with the law unbroken."""
    least, most = bounds(concrete.left, begin, end)
    told, _ = bounds(concrete.counted, begin, end)
    allowed = bounds(concrete.right, begin, end)[1]
    if most is None or allowed is None:
        return None
    return max(0, min(most, most - least + allowed + concrete.constant - told))
