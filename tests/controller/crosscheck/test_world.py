"""Thousands of honest worlds: the truth is inside every bound and nobody is ever accused; then one lies."""

from __future__ import annotations

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from controller.crosscheck import hidden as hidden_in
from controller.crosscheck.case import Case
from controller.crosscheck.check import crosscheck
from controller.crosscheck.laws import LAWS, sides
from controller.crosscheck.model import Holds, Verdict
from protos.reading import Observer
from tests.controller.crosscheck.cases import cases
from tests.controller.crosscheck.world import SWITCH, UPLINK, Count, build

seeds = st.integers(0, 2**32)


@settings(max_examples=cases(400), deadline=None)
@given(seeds)
def test_honest_worlds_are_bounded_truly_and_never_accused(seed: int) -> None:
    world = build(random.Random(seed))
    result = crosscheck(world.evidence)
    (link,) = result.links
    assert [
        finding
        for finding in result.findings
        if finding.certain and finding.link and not finding.kind.value.startswith("limit")
    ] == []
    for observer, interval in link.observers.items():
        true = world.truth[observer].between(world.start, world.end)
        assert interval.lower <= true, observer
        assert interval.upper is None or true <= interval.upper, observer
    for law in link.laws:
        assert law.holds is not Holds.NO, law
    seen_from = max(world.start, result.evidence_from_ns or world.start)
    for limit in link.limits:
        # Each domain proves what passed where it stands; in flight between the two ends a window can differ.
        ends = [world.truth[place].fullest(limit.limit.window_ns, seen_from, world.end) for place in (UPLINK, SWITCH)]
        if limit.holds is Holds.YES:
            assert min(ends) <= limit.limit.bytes
        if limit.holds is Holds.NO:
            # What is certain counts from the period's start, wherever evidence of every observer begins.
            whole = [world.truth[at].fullest(limit.limit.window_ns, world.start, world.end) for at in (UPLINK, SWITCH)]
            assert max(whole) > limit.limit.bytes
            assert limit.worst_at_least_bytes <= max(whole)
        assert limit.worst_at_most_bytes is None or min(ends) <= limit.worst_at_most_bytes
    passed = [world.truth[place].between(world.start, world.end) for place in (UPLINK, SWITCH)]
    assert link.agreed.lower <= max(passed)
    assert link.agreed.upper is None or min(passed) <= link.agreed.upper
    if link.verdict is Verdict.COMPLIANT:
        assert all(limit.holds is Holds.YES for limit in link.limits)


def hide(truth: Count, rng: random.Random) -> Count:
    """Some of what truly passed, left out of a counter: a share of each frame, or some frames."""
    events = [(at, truth.sums[index + 1] - truth.sums[index]) for index, at in enumerate(truth.times)]
    if rng.random() < 0.5:
        share = rng.random()
        return Count([(at, int(share * size)) for at, size in events])
    return Count([one for one in events if rng.random() < 0.5])


@settings(max_examples=cases(100), deadline=None)
@given(seeds, st.sampled_from(list(Observer)))
def test_a_liar_who_hides_more_than_the_printed_bound_is_always_found(seed: int, liar: Observer) -> None:
    truth = build(random.Random(seed), resets=False, idle_ends=True).truth
    hidden = hide(truth[liar], random.Random(seed + 1))
    world = build(random.Random(seed), resets=False, idle_ends=True, lies={liar: hidden})
    case = Case.of(world.link, world.evidence.assumptions, world.evidence.period)
    (link,) = crosscheck(world.evidence).links
    for law, result in zip(LAWS[case.direction], link.laws, strict=True):
        if law.right is not liar or result.hidden_bytes_bound is None:
            continue
        concrete = sides(law, case.seen, case.assumptions)
        ((start, end),) = hidden_in.tested(concrete, (case.seen[law.left], case.seen[liar]), 0, case.length).stretches
        start, end = start + case.origin, end + case.origin
        missing = world.truth[law.left].between(start, end) - (
            truth[liar].between(start, end) - hidden.between(start, end)
        )
        if missing > result.hidden_bytes_bound:
            assert result.holds is Holds.NO
            assert result.gap_at_least_bytes >= missing - result.hidden_bytes_bound
        assert link.hidden_bytes_bound is not None
        assert link.hidden_bytes_bound >= result.hidden_bytes_bound
    accused = [one for one in link.laws if one.holds is Holds.NO]
    # Only laws that name the liar can be broken.
    by_name = {law.name: law for law in LAWS[case.direction]}
    assert all(liar in (by_name[one.law].left, by_name[one.law].right) for one in accused)
