"""One place's sums, and what the rules say of them: exceeded, for how long, and over. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from controller.rules.finding import Finding, Kind
from controller.rules.rule import Bound, Measure, Rule
from controller.rules.window import Bucket, Window
from controller.rules.wording import duration, size, speed
from protos.units import NS_PER_S

RESOLVED_AFTER_NS = 60 * NS_PER_S
"""A finding is over when its rule was kept for so long: what hovers at a limit is one finding, not hundreds."""


@dataclass(frozen=True, slots=True)
class Change:
    """A finding that began, or one that is over since ``resolved_ns``."""

    finding: Finding
    resolved_ns: int | None = None


Allowance = Callable[[int, int], int]
"""What load windows allow beyond the rules between two times."""


class _Judge:
    """One rule at one place."""

    __slots__ = ("_exceeded_ns", "_firing", "_kept_ns", "_most", "rule", "sums")

    def __init__(self, rule: Rule, sums: Sequence[Window | Bucket]) -> None:
        self.rule, self.sums = rule, sums
        self._exceeded_ns: int | None = None
        self._kept_ns: int | None = None
        self._firing: Finding | None = None
        self._most = [bound.most for bound in rule.bounds]

    def judge(self, place: str, from_ns: int, to_ns: int, allowance: Allowance) -> Change | None:
        """Return what changed with what came until ``to_ns``."""
        worst = self._worst(to_ns, allowance)
        if worst is None:
            self._exceeded_ns = None
            return None if self._firing is None else self._kept(to_ns)
        self._kept_ns = None
        if self._exceeded_ns is None:
            self._exceeded_ns = to_ns
        if self._firing is None and to_ns - self._exceeded_ns >= self.rule.for_ns:
            self._firing = self._found(place, worst, min(from_ns, self._exceeded_ns), to_ns)
            return Change(self._firing)
        return None

    def _kept(self, to_ns: int) -> Change | None:
        if self._kept_ns is None:
            self._kept_ns = to_ns
        if to_ns - self._kept_ns < RESOLVED_AFTER_NS or self._firing is None:
            return None
        over, self._firing, self._kept_ns = Change(self._firing, self._kept_ns), None, None
        return over

    def _worst(self, to_ns: int, allowance: Allowance) -> tuple[Bound, int, int] | None:
        """Return the bound that is exceeded, what is held and what is allowed; None if the rule is kept."""
        found = None
        for bound, most, kept in zip(self.rule.bounds, self._most, self.sums, strict=True):
            held = kept.total
            allowed = most
            if held > most and not self.rule.with_loads and self.rule.measure is Measure.BYTES:
                allowed += allowance(to_ns - bound.window_ns, to_ns)
            if held > allowed:
                found = found or (bound, held, allowed)
                if not self.rule.all_bounds:
                    break
            elif self.rule.all_bounds:
                return None
        return found

    def _found(self, place: str, worst: tuple[Bound, int, int], since_ns: int, to_ns: int) -> Finding:
        bound, held, allowed = worst
        rule, first = self.rule, self.sums[0]
        from_ns = first.empty_ns if isinstance(first, Bucket) else since_ns - max(b.window_ns for b in rule.bounds)
        unit = size if rule.measure is Measure.BYTES else (lambda count: f"{count:,} packets")
        if rule.kind is Kind.BURST:
            said = f"a burst of {size(held)} above {speed(rule.drain_bytes_per_s)}, {size(allowed)} are allowed"
        elif rule.kind is Kind.RATE_OVER_WINDOW:
            length_s = bound.window_ns / NS_PER_S
            said = f"{speed(held / length_s)} over {duration(bound.window_ns)}, {speed(allowed / length_s)} are allowed"
        elif rule.kind is Kind.BUDGET_BURN:
            windows = " and ".join(duration(each.window_ns) for each in rule.bounds)
            said = (
                f"{unit(held)} in {duration(bound.window_ns)}, at most {unit(allowed)} keep the budget, over {windows}"
            )
        else:
            said = f"{unit(held)} in {duration(bound.window_ns)}, {unit(allowed)} are allowed"
        lasted = f", for {duration(rule.for_ns)}" if rule.for_ns else ""
        return Finding(
            rule.kind,
            (place,),
            f"{place}: {said}{lasted}",
            from_ns,
            to_ns,
            rule.severity,
            rule.name,
            {"held": held, "allowed": allowed, "window_s": bound.window_ns / NS_PER_S, "measure": rule.measure.value},
        )

    @property
    def firing(self) -> Finding | None:
        return self._firing


class Tally:
    """One place, one measure, one set of classes: every rule that holds there, over windows they share."""

    __slots__ = ("_allowance", "_judges", "_place", "_sums")

    def __init__(self, place: str, rules: Sequence[Rule], allowance: Allowance) -> None:
        self._place, self._allowance = place, allowance
        windows: dict[int, Window] = {}
        self._judges: list[_Judge] = []
        buckets: list[Bucket] = []
        for rule in rules:
            if rule.drain_bytes_per_s:
                bucket = Bucket(rule.drain_bytes_per_s)
                buckets.append(bucket)
                self._judges.append(_Judge(rule, [bucket]))
                continue
            lengths = [bound.window_ns for bound in rule.bounds]
            self._judges.append(_Judge(rule, [windows.setdefault(each, Window(each)) for each in lengths]))
        self._sums: tuple[Window | Bucket, ...] = (*windows.values(), *buckets)

    def add(self, from_ns: int, to_ns: int, amount: int) -> Iterator[Change]:
        """Take what moved, and yield what changed with it."""
        for kept in self._sums:
            kept.add(from_ns, to_ns, amount)
        for judge in self._judges:
            change = judge.judge(self._place, from_ns, to_ns, self._allowance)
            if change is not None:
                yield change

    def firing(self) -> Iterator[Finding]:
        """Yield the findings that are not over."""
        for judge in self._judges:
            if judge.firing is not None:
                yield judge.firing
