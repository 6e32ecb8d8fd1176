from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from controller.crosscheck.liars import Conflict, agreed, consistent_sets, explanations, host_alone, told
from controller.crosscheck.model import ByteInterval
from protos.reading import TrustDomain

HOST, DPU, SWITCH = TrustDomain
PAIRS = [frozenset(pair) for pair in itertools.combinations(TrustDomain, 2)] + [frozenset({DPU})]


def conflict(*domains: TrustDomain) -> Conflict:
    return frozenset(domains)


def test_no_conflict_needs_no_liar() -> None:
    assert explanations(TrustDomain, []) == (frozenset(),)
    assert consistent_sets(TrustDomain, []) == (frozenset(TrustDomain),)


def test_two_domains_that_disagree_name_nobody() -> None:
    assert set(explanations(TrustDomain, [conflict(DPU, SWITCH)])) == {conflict(DPU), conflict(SWITCH)}
    assert not host_alone([conflict(HOST, DPU)])


def test_two_that_agree_against_the_third_leave_it_or_their_collusion() -> None:
    both = [conflict(HOST, DPU), conflict(HOST, SWITCH)]
    assert explanations(TrustDomain, both) == (conflict(HOST), conflict(DPU, SWITCH))
    assert host_alone(both)
    assert not host_alone([*both, conflict(DPU, SWITCH)])
    assert not host_alone([*both, conflict(DPU)])
    assert "more than the 1 liar assumed" in told(explanations(TrustDomain, both), 1)


@given(st.sets(st.sampled_from(PAIRS)))
def test_explanations_are_exactly_the_smallest_sets_that_meet_every_conflict(conflicts: set[Conflict]) -> None:
    everything = [frozenset(chosen) for count in range(4) for chosen in itertools.combinations(TrustDomain, count)]
    enough = [chosen for chosen in everything if all(chosen & one for one in conflicts)]
    smallest = {chosen for chosen in enough if not any(other < chosen for other in enough)}
    assert set(explanations(TrustDomain, list(conflicts))) == smallest
    assert all(
        not any(one <= together for one in conflicts) for together in consistent_sets(TrustDomain, list(conflicts))
    )


intervals = st.builds(
    lambda lower, length: ByteInterval(lower, None if length is None else lower + length),
    st.integers(0, 50),
    st.none() | st.integers(0, 50),
)


@given(st.lists(intervals, min_size=3, max_size=3), st.integers(0, 3), st.integers(0, 80))
def test_the_agreed_interval_is_what_every_choice_of_liars_leaves_possible(
    given_intervals: list[ByteInterval], liars: int, value: int
) -> None:
    said = dict(zip(TrustDomain, given_intervals, strict=True))
    result = agreed(said, liars)
    if liars >= 3:
        assert result == ByteInterval(0, None)
        return

    def allows(interval: ByteInterval) -> bool:
        return interval.lower <= value and (interval.upper is None or value <= interval.upper)

    # A value that all of some set of 3 - f honest domains allow is never excluded.
    if any(all(allows(said[one]) for one in honest) for honest in itertools.combinations(TrustDomain, 3 - liars)):
        assert allows(result)
