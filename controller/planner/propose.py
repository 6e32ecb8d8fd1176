"""``plan propose``: the limits that let inference run and slow every adversary, or why there are none. Pure.

1. What each pod needs at its boundary, declared or measured, times the headroom: the largest is the lower end.
2. For each adversary the largest limit that slows it by as much as asked, overlapped: the smallest is the upper end.
   An adversary the operator accepts does not count, and is told as not stopped.
3. The interval is empty if the lower end is above the upper: the adversaries that make it so are named, each with why.
4. Else the limit is the lower end, the tightest at which inference runs; its classes get a token bucket and windows.

A pod may send what it likes by every class that it is given, so what an adversary can use is the sum of the classes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from controller.planner.adversaries import REMARKS, Held, hold
from controller.planner.marks import Assumption, Mark, PlanError
from controller.planner.training import OUTSIDE
from controller.planner.window_set import Bucket, bucket_for
from controller.planner.workloads import LoadTerms, Workloads
from protos.units import format_rate

SECONDS_PER_DAY = 86_400


@dataclass(frozen=True, slots=True)
class Need:
    """What one pod needs through one class, bytes/s, without headroom; ``burst_bytes`` at once."""

    pod: str
    traffic_class: str
    bytes_per_s: Fraction
    mark: Mark
    source: str
    burst_bytes: Fraction = Fraction(0)


@dataclass(frozen=True, slots=True)
class Ask:
    """What is asked: every adversary ``slow_by`` times slower, needs times ``headroom``, ``accepted`` left out."""

    slow_by: Fraction
    headroom: Fraction
    accepted: tuple[str, ...]
    burst_s: Fraction


@dataclass(frozen=True, slots=True)
class Proposal:
    """The interval, and what each adversary makes of its lower end. ``buckets`` is empty where the interval is."""

    site: str
    ask: Ask
    needs: tuple[Need, ...]
    lower_bytes_per_s: Fraction
    upper_bytes_per_s: Fraction | None
    held: tuple[Held, ...]
    buckets: dict[str, Bucket]
    loads: LoadTerms | None
    assumptions: tuple[Assumption, ...]

    @property
    def is_empty(self) -> bool:
        """Whether no limit does what was asked."""
        return self.upper_bytes_per_s is not None and self.lower_bytes_per_s > self.upper_bytes_per_s

    @property
    def blocking(self) -> tuple[Held, ...]:
        """The adversaries that make the interval empty: at the lower end they are not slowed as much as asked."""
        return tuple(each for each in self.counted if each.limit_for(self.ask.slow_by) < self.lower_bytes_per_s)

    @property
    def counted(self) -> tuple[Held, ...]:
        """The adversaries that were not accepted."""
        return tuple(each for each in self.held if each.name not in self.ask.accepted)

    @property
    def load_bytes_per_s(self) -> Fraction:
        """The mean rate, over a day, of what load windows let in."""
        if self.loads is None:
            return Fraction(0)
        return Fraction(self.loads.bytes * self.loads.per_day, SECONDS_PER_DAY)

    def why(self, held: Held) -> str:
        """Return in one sentence why no limit can both serve and slow this adversary as asked."""
        need, lower = held.needs_bytes_per_s, self.lower_bytes_per_s
        if need <= lower / self.ask.headroom:
            return (
                f"it needs {format_rate(need)}, less than inference itself ({format_rate(lower / self.ask.headroom)}): "
                "no limit of a rate tells the two apart, only shape, volume over long times, or content"
            )
        limit = format_rate(held.limit_for(self.ask.slow_by))
        return (
            f"it is {float(self.ask.slow_by):g} times slower only below {limit}; "
            f"inference with its headroom needs {format_rate(lower)}"
        )

    def json(self) -> dict[str, Any]:
        """Return it as JSON has it."""
        upper = self.upper_bytes_per_s
        return {
            "site": self.site,
            "slow_by": float(self.ask.slow_by),
            "headroom": float(self.ask.headroom),
            "interval_bytes_per_s": {
                "lower": float(self.lower_bytes_per_s),
                "upper": None if upper is None else float(upper),
                "empty": self.is_empty,
            },
            "needs": [
                {
                    "pod": each.pod,
                    "class": each.traffic_class,
                    "bytes_per_s": float(each.bytes_per_s),
                    "mark": each.mark.value,
                    "source": each.source,
                }
                for each in self.needs
            ],
            "adversaries": [
                {
                    "name": each.name,
                    "needs_bytes_per_s": float(each.needs_bytes_per_s),
                    "limit_bytes_per_s": float(each.limit_for(self.ask.slow_by)),
                    "slowdown": each.plan.json()["slowdown"],
                    "accepted": each.name in self.ask.accepted,
                    "stopped": each.is_stopped,
                    "why_not": self.why(each) if each in self.blocking else None,
                }
                for each in self.held
            ],
            "buckets": {
                name: {
                    "rate_bytes_per_s": bucket.rate_bytes_per_s,
                    "depth_bytes": str(bucket.depth_bytes),
                    "bounds": [{"window_ns": str(each.window_ns), "bytes": str(each.bytes)} for each in bucket.bounds],
                }
                for name, bucket in self.buckets.items()
            },
            "loads": None
            if self.loads is None
            else {
                "bytes": str(self.loads.bytes),
                "per_day": self.loads.per_day,
                "mean_bytes_per_s": float(self.load_bytes_per_s),
            },
            "assumptions": [each.json() for each in self.assumptions],
            "outside_model": list(OUTSIDE),
        }


def declared_needs(workloads: Workloads, pods: Sequence[str]) -> tuple[Need, ...]:
    """Return what each pod needs through each class, as its workloads declare.

    Raises:
        PlanError: a workload names a pod that the site has not, or a pod has no workload.
    """
    for each in workloads.inference:
        for name in each.pods:
            if name != "*" and name not in pods:
                raise PlanError(f"the workload {each.name}: the site has no pod {name!r}. It has {', '.join(pods)}")
    found = []
    for pod in pods:
        own = [each for each in workloads.inference if each.is_of(pod)]
        for traffic_class in dict.fromkeys(each.traffic_class for each in own):
            of_class = [each for each in own if each.traffic_class == traffic_class]
            rate = sum((each.plan.boundary_bytes_per_s for each in of_class), Fraction(0))
            text = "workloads " + ", ".join(each.name for each in of_class)
            found.append(Need(pod, traffic_class, rate, Mark.GIVEN, text))
    if not found:
        raise PlanError("no inference is declared. Add [[inference]], or propose from a measurement")
    return tuple(found)


def propose(
    site: str, needs: Sequence[Need], workloads: Workloads, adversaries: Mapping[str, Mapping[str, str]], ask: Ask
) -> Proposal:
    """Return the proposal for one limit for every pod; the module says how.

    Raises:
        PlanError: a parameter is impossible, an accepted adversary is not on the list, or nothing needs anything.
    """
    for name in ask.accepted:
        if name not in adversaries:
            raise PlanError(f"--accept: {name!r} is not among the adversaries: {', '.join(adversaries)}")
    classes = _largest(needs)
    lower = sum((rate for rate, _ in classes.values()), Fraction(0)) * ask.headroom
    if lower <= 0:
        raise PlanError("inference needs nothing at the boundary, so nothing bounds a limit from below. Check it")
    buckets = {
        name: bucket_for(rate * ask.headroom, ask.burst_s, burst * ask.headroom)
        for name, (rate, burst) in classes.items()
    }
    leased = Fraction(sum(bucket.rate_bytes_per_s for bucket in buckets.values()))
    held = hold(adversaries, workloads.compute, leased)
    limits = [each.limit_for(ask.slow_by) for each in held if each.name not in ask.accepted]
    upper = min(limits, default=None)
    empty = upper is not None and leased > upper
    return Proposal(
        site=site,
        ask=ask,
        needs=tuple(needs),
        lower_bytes_per_s=leased,
        upper_bytes_per_s=upper,
        held=held,
        buckets={} if empty else buckets,
        loads=workloads.loads,
        assumptions=_assumptions(ask, workloads, held, needs),
    )


def _largest(needs: Sequence[Need]) -> dict[str, tuple[Fraction, Fraction]]:
    """Return for each class the largest need of any pod, and the largest burst: every pod gets the same limit."""
    found: dict[str, tuple[Fraction, Fraction]] = {}
    for need in needs:
        rate, burst = found.get(need.traffic_class, (Fraction(0), Fraction(0)))
        found[need.traffic_class] = max(rate, need.bytes_per_s), max(burst, need.burst_bytes)
    return found


def _assumptions(ask: Ask, workloads: Workloads, held: Sequence[Held], needs: Sequence[Need]) -> tuple[Assumption, ...]:
    compute = ", ".join(f"{name} {text}" for name, text in workloads.compute.items())
    found = [
        Assumption("computing of a pod", compute, Mark.GIVEN, "the workloads file"),
        Assumption("headroom", f"{float(ask.headroom):g}", Mark.ASSUMED, "the caller's choice over what is needed"),
        Assumption(
            "burst", f"{float(ask.burst_s):g} s", Mark.ASSUMED, "a quarter second: TCP finds its rate behind it"
        ),
        Assumption("adversary's overlap", "complete", Mark.ASSUMED, "the strongest: it never waits for what it sends"),
        Assumption("adversary's paths", "all classes together", Mark.ASSUMED, "it sends by every class it is given"),
        Assumption(
            "pods taking part", "as each adversary says", Mark.ASSUMED, "two if built in: least bytes in a ring"
        ),
    ]
    if any(need.mark is Mark.MEASURED for need in needs):
        text = "what was measured was inference: training in the record would have raised the limit for itself"
        found.append(Assumption("the record", "honest", Mark.ASSUMED, text))
        text = "everything at the uplinks of the pod's nodes, same-pod and management traffic included"
        found.append(Assumption("measured need", "an upper bound", Mark.DERIVED, text))
    for each in held:
        if each.name in REMARKS:
            mark, text = REMARKS[each.name]
            found.append(Assumption(f"adversary {each.name}", each.plan.method, mark, text))
    return tuple(found)
