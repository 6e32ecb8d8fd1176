"""Thousands of honest worlds: the truth is inside every bound and nobody is ever accused; then one lies."""

from __future__ import annotations

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from controller.crosscheck.check import crosscheck
from controller.crosscheck.model import Holds, Verdict
from protos.reading import Observer
from tests.controller.crosscheck.world import SWITCH, UPLINK, build

seeds = st.integers(0, 2**32)


@settings(max_examples=3000, deadline=None)
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
            assert max(ends) > limit.limit.bytes
            assert limit.worst_at_least_bytes <= max(ends)
        assert limit.worst_at_most_bytes is None or min(ends) <= limit.worst_at_most_bytes
    passed = [world.truth[place].between(world.start, world.end) for place in (UPLINK, SWITCH)]
    assert link.agreed.lower <= max(passed)
    assert link.agreed.upper is None or min(passed) <= link.agreed.upper
    if link.verdict is Verdict.COMPLIANT:
        assert all(limit.holds is Holds.YES for limit in link.limits)
