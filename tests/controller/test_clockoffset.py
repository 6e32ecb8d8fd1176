"""The offset of an agent's clock is an interval that always holds the truth."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.clockoffset import SLEW_READ_JITTER_NS, AgentClock, Exchange

MS, S = 1_000_000, 1_000_000_000
DRIFT_PPM = 1000


@dataclass
class World:
    """A controller and an agent whose clocks run apart, piecewise, by no more than the drift."""

    agent_starts: int
    pieces: list[tuple[int, int]]  # (controller ns the piece lasts, ppm the agent runs fast or slow)

    def __post_init__(self) -> None:
        self.controller_at, self.agent_at = [0], [Fraction(self.agent_starts)]
        for length, ppm in self.pieces:
            self.controller_at.append(self.controller_at[-1] + length)
            self.agent_at.append(self.agent_at[-1] + Fraction(length * (1_000_000 + ppm), 1_000_000))

    def agent(self, controller_ns: int) -> int:
        """What the agent's clock reads then, in whole ns."""
        at = min(bisect_right(self.controller_at, controller_ns), len(self.pieces)) - 1
        gone = controller_ns - self.controller_at[at]
        return int(self.agent_at[at] + Fraction(gone * (1_000_000 + self.pieces[at][1]), 1_000_000))

    def exchange(self, sent: int, there: int, held: int, back: int) -> Exchange:
        return Exchange(
            sent_ns=sent,
            agent_received_ns=self.agent(sent + there),
            agent_sent_ns=self.agent(sent + there + held),
            received_ns=sent + there + held + back,
        )


worlds = st.builds(
    World,
    agent_starts=st.integers(0, 10**15),
    pieces=st.lists(
        # Half the drift, since 1/(1 - d) is a little more than 1 + d.
        st.tuples(st.integers(100 * MS, 40 * S), st.integers(-990, 990)),
        min_size=1,
        max_size=8,
    ),
)
trips = st.lists(
    st.tuples(
        st.integers(0, 20 * S),  # idle before it
        st.integers(0, 3 * S),  # on the way there
        st.integers(0, 50 * MS),  # held by the agent
        st.integers(0, 3 * S),  # on the way back
    ),
    min_size=1,
    max_size=20,
)


def _exchanges(world: World, steps: list[tuple[int, int, int, int]]) -> list[Exchange]:
    now, out = 0, []
    for idle, there, held, back in steps:
        out.append(world.exchange(now + idle, there, held, back))
        now = out[-1].received_ns
    return out


@given(world=worlds, steps=trips, moments=st.lists(st.integers(0, 300 * S), min_size=1, max_size=20))
def test_the_truth_is_always_inside(world: World, steps: list[tuple[int, int, int, int]], moments: list[int]) -> None:
    clock = AgentClock(_exchanges(world, steps), drift_ppm=DRIFT_PPM)
    assert not clock.steps, "no drift within the bound is a step, whatever the network does"
    for moment in moments:
        interval = clock.interval(world.agent(moment))
        assert interval is not None
        earliest, latest = interval
        # The agent's reading is a whole ns: its clock read it within the 2 ns after it ticked.
        assert earliest <= moment + 2
        assert moment - 2 <= latest


@given(world=worlds, steps=trips, moment=st.integers(0, 300 * S), dropped=st.integers(0, 19))
def test_another_exchange_never_widens(
    world: World, steps: list[tuple[int, int, int, int]], moment: int, dropped: int
) -> None:
    every = _exchanges(world, steps)
    some = [e for i, e in enumerate(every) if i != dropped % len(every)] or every
    wide = AgentClock(some, drift_ppm=DRIFT_PPM).interval(world.agent(moment))
    narrow = AgentClock(every, drift_ppm=DRIFT_PPM).interval(world.agent(moment))
    assert wide is not None
    assert narrow is not None
    assert wide[0] <= narrow[0]
    assert narrow[1] <= wide[1]


@given(world=worlds, steps=trips)
def test_bounds_keep_order(world: World, steps: list[tuple[int, int, int, int]]) -> None:
    """A later agent time is never placed before an earlier one, at either bound."""
    clock = AgentClock(_exchanges(world, steps), drift_ppm=DRIFT_PPM)
    places = [clock.interval(world.agent(moment)) for moment in range(0, 100 * S, 7 * S)]
    for before, after in pairwise(places):
        assert before is not None
        assert after is not None
        assert before[0] <= after[0]
        assert before[1] <= after[1]


def test_width_is_the_round_trip_then_grows_with_the_drift() -> None:
    world = World(5 * S, [(1000 * S, 0)])
    clock = AgentClock([world.exchange(10 * S, 4 * MS, 0, 6 * MS)], drift_ppm=DRIFT_PPM)
    assert clock.interval(world.agent(10 * S + 4 * MS)) == (10 * S, 10 * S + 10 * MS)
    earliest, latest = clock.interval(world.agent(20 * S + 4 * MS)) or (0, 0)
    assert latest - earliest == 10 * MS + 2 * 1000 * 10 * S // 1_000_000


def test_a_quick_trip_narrows_the_past_and_the_future() -> None:
    world = World(0, [(1000 * S, 0)])
    slow = [world.exchange(t * S, 300 * MS, 0, 300 * MS) for t in (10, 50, 90)]
    quick = world.exchange(51 * S, 10_000, 0, 10_000)
    for moment in (49 * S, 52 * S):
        wide = AgentClock(slow, drift_ppm=DRIFT_PPM).interval(world.agent(moment)) or (0, 0)
        narrow = AgentClock([*slow, quick], drift_ppm=DRIFT_PPM).interval(world.agent(moment)) or (0, 0)
        assert narrow[1] - narrow[0] < 5 * MS < wide[1] - wide[0]


steps_between = st.integers(8 * S, 100 * S)


@settings(max_examples=60)
@given(
    steps=trips,
    more=trips,
    stood_still=steps_between,
    at=st.integers(0, 1000),
    moments=st.lists(st.integers(0, 1000), min_size=5, max_size=5),
)
def test_a_suspended_agent_is_a_step_and_the_truth_stays_inside(
    steps: list[tuple[int, int, int, int]],
    more: list[tuple[int, int, int, int]],
    stood_still: int,
    at: int,
    moments: list[int],
) -> None:
    """CLOCK_MONOTONIC stands still while a machine is suspended: the time lost lies between two exchanges."""
    world = World(7 * S, [(10_000 * S, 0)])
    first = _exchanges(world, steps)
    idle = 10 * S
    asleep_from = first[-1].received_ns + idle * at // 1000
    second_from = first[-1].received_ns + idle + stood_still

    def truth(controller_ns: int) -> int:
        return 7 * S + min(controller_ns, max(asleep_from, controller_ns - stood_still))

    second = [
        replace(
            e,
            sent_ns=e.sent_ns + second_from,
            received_ns=e.received_ns + second_from,
            agent_received_ns=e.agent_received_ns + second_from - stood_still,
            agent_sent_ns=e.agent_sent_ns + second_from - stood_still,
        )
        for e in _exchanges(world, more)
    ]
    clock = AgentClock([*first, *second], drift_ppm=DRIFT_PPM)
    assert len(clock.steps) == 1
    assert clock.steps[0].after_ns <= asleep_from
    assert asleep_from + stood_still <= clock.steps[0].before_ns
    last = second[-1].received_ns
    for moment in [last * m // 1000 for m in moments]:
        earliest, latest = clock.interval(truth(moment)) or (0, 0)
        assert earliest <= moment <= latest or asleep_from <= moment <= asleep_from + stood_still


def test_a_step_within_the_round_trips_is_not_called_one() -> None:
    world = World(0, [(100 * S, 0)])
    one, two = world.exchange(S, 50 * MS, 0, 50 * MS), world.exchange(2 * S, 50 * MS, 0, 50 * MS)
    shifted = replace(two, agent_received_ns=two.agent_received_ns + 60 * MS, agent_sent_ns=two.agent_sent_ns + 60 * MS)
    assert not AgentClock([one, shifted], drift_ppm=DRIFT_PPM).steps
    far = replace(two, agent_received_ns=two.agent_received_ns + 120 * MS, agent_sent_ns=two.agent_sent_ns + 120 * MS)
    assert len(AgentClock([one, far], drift_ppm=DRIFT_PPM).steps) == 1


def test_a_clock_that_goes_backwards_places_nothing() -> None:
    world = World(100 * S, [(100 * S, 0)])
    one = world.exchange(S, MS, 0, MS)
    two = replace(world.exchange(2 * S, MS, 0, MS), agent_received_ns=50 * S, agent_sent_ns=50 * S)
    clock = AgentClock([one, two], drift_ppm=DRIFT_PPM)
    assert clock.went_backwards
    assert clock.interval(100 * S) is None


def test_an_exchange_that_contradicts_itself_bounds_nothing() -> None:
    """The agent claims to have held the request for longer than it was away."""
    world = World(0, [(100 * S, 0)])
    liar = Exchange(sent_ns=5 * S, agent_received_ns=5 * S, agent_sent_ns=9 * S, received_ns=6 * S)
    assert AgentClock([liar], drift_ppm=DRIFT_PPM).interval(5 * S) is None
    honest = [world.exchange(t * S, MS, 0, MS) for t in (1, 10, 11)]
    place = AgentClock([honest[0], liar, *honest[1:]], drift_ppm=DRIFT_PPM).interval(world.agent(10 * S))
    assert place is not None
    assert place[0] <= 10 * S <= place[1]


def test_slew_beyond_the_drift_ends_the_epoch() -> None:
    """The raw clock shows a daemon that slews the agent's clock by 1 % while round trips are too wide to."""
    exchanges = []
    for t in range(1, 5):
        e = World(0, [(100 * S, 0)]).exchange(t * S, 300 * MS, 0, 300 * MS)
        exchanges.append(replace(e, agent_raw_ns=e.agent_sent_ns - e.agent_sent_ns // 100))
    assert 10 * MS > SLEW_READ_JITTER_NS
    reasons = {step.reason for step in AgentClock(exchanges, drift_ppm=DRIFT_PPM).steps}
    assert reasons == {"the agent's clock was slewed by more than the declared drift"}
    true_raw = [replace(e, agent_raw_ns=e.agent_sent_ns) for e in exchanges]
    assert not AgentClock(true_raw, drift_ppm=DRIFT_PPM).steps
    controller = [replace(e, agent_raw_ns=None, controller_raw_ns=e.received_ns * 101 // 100) for e in exchanges]
    assert AgentClock(controller, drift_ppm=DRIFT_PPM).steps


def test_drift_is_never_carried_across_a_controllers_boot() -> None:
    world = World(0, [(1000 * S, 0)])
    one = replace(world.exchange(S, MS, 0, MS), timeline="boot-1")
    two = replace(world.exchange(100 * S, MS, 0, MS), timeline="boot-2")
    clock = AgentClock([one, two], drift_ppm=DRIFT_PPM)
    assert [step.reason for step in clock.steps] == ["the controller booted again"]
    assert clock.interval(world.agent(50 * S)) == (S, 100 * S + 2 * MS)
    assert clock.covers(world.agent(50 * S))
    assert not clock.covers(world.agent(200 * S))


@pytest.mark.parametrize("drift_ppm", [-1, 1_000_000])
def test_an_impossible_drift_is_refused(drift_ppm: int) -> None:
    with pytest.raises(ValueError, match="ppm"):
        AgentClock([Exchange(0, 0, 0, 0)], drift_ppm=drift_ppm)


def test_stamps_in_the_wrong_order_are_refused() -> None:
    with pytest.raises(ValueError, match="backwards"):
        Exchange(sent_ns=5, agent_received_ns=0, agent_sent_ns=0, received_ns=4)
    with pytest.raises(ValueError, match="exchange"):
        AgentClock([], drift_ppm=1)
