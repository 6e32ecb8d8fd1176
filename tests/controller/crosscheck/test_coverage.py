from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from controller.crosscheck.coverage import covered, gaps, intersection, share, union, why
from controller.crosscheck.model import Silence, Track
from protos.reading import Observer, Reading


def track(*readings: tuple[int, int, int], proven: frozenset[int] = frozenset({0, 1})) -> Track:
    return Track(
        Observer.SWITCH,
        tuple(Reading(earliest, latest, 0, epoch=epoch) for earliest, latest, epoch in readings),
        proven_epochs=proven,
    )


def test_between_two_readings_of_one_epoch_no_further_apart_than_allowed() -> None:
    assert covered(track((0, 1, 0), (10, 11, 0), (20, 21, 0)), frozenset(), 10) == ((1, 20),)
    assert covered(track((0, 1, 0), (10, 11, 0), (22, 23, 0), (30, 31, 0)), frozenset(), 10) == ((1, 10), (23, 30))


def test_a_restart_an_unproven_or_a_contradictory_epoch_covers_nothing() -> None:
    readings = track((0, 1, 0), (10, 11, 0), (12, 13, 1), (20, 21, 1))
    assert covered(readings, frozenset(), 10) == ((1, 10), (13, 20))
    assert covered(readings, frozenset({1}), 10) == ((1, 10),)
    assert covered(track((0, 1, 0), (10, 11, 0), proven=frozenset()), frozenset(), 10) == ()
    assert covered(track((0, 1, 0)), frozenset(), 10) == ()


stretches = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)).filter(lambda pair: pair[0] < pair[1]))


@given(stretches, stretches, st.integers(0, 15), st.integers(16, 30))
def test_sets_of_stretches_against_single_ticks(
    first: list[tuple[int, int]], second: list[tuple[int, int]], start: int, end: int
) -> None:
    def ticks(parts: object) -> set[int]:
        return {tick for one in parts for tick in range(*one)}  # type: ignore[attr-defined]

    one, two = union(first), union(second)
    assert ticks(one) == ticks(first)
    both = intersection(one, two)
    assert ticks(both) == ticks(first) & ticks(second)
    assert ticks(gaps(both, start, end)) == set(range(start, end)) - ticks(both)
    assert abs(share(both, start, end) - len(ticks(both) & set(range(start, end))) / (end - start)) < 1e-9


def test_an_empty_period_is_not_covered() -> None:
    assert share(((0, 10),), 5, 5) == 0.0


def test_everyone_who_was_not_looking_is_named_the_longest_first() -> None:
    silences = (Silence(0, 4, "controller-stopped", "run 7 ended"), Silence(4, 20, "device-silent", ""))
    assert why(silences, (0, 4)) == "the controller was stopped (controller-stopped): run 7 ended"
    assert why(silences, (7, 20)) == "the device did not answer while it could be reached (device-silent)"
    assert why(silences, (3, 20)) == (
        "the device did not answer while it could be reached (device-silent); "
        "for a shorter part the controller was stopped (controller-stopped): run 7 ended"
    )
    assert why(silences, (30, 40)) == "nothing recorded says why"
