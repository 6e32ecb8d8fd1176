from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from controller.report.axes import ByteAxis, time_ticks

VALUES = st.lists(st.integers(0, 10**15), min_size=1, max_size=40)


@given(VALUES)
def test_every_value_has_its_place_in_order(values: list[int]) -> None:
    axis = ByteAxis.over(values)
    places = [axis.share(value) for value in sorted(values)]
    assert places == sorted(places)
    assert all(0 <= place <= 1 for place in places)
    assert max(values) <= axis.top


@given(VALUES)
def test_ticks_stand_on_the_axis_and_say_what_they_are(values: list[int]) -> None:
    axis = ByteAxis.over(values)
    ticks = axis.ticks()
    assert 2 <= len(ticks) <= 9
    assert ticks[0] == (0, "0")
    assert len({text for _, text in ticks}) == len(ticks)
    assert all(value <= axis.top for value, _ in ticks)


def test_values_of_one_size_get_a_linear_axis() -> None:
    axis = ByteAxis.over([4_000_000, 9_000_000, 10_000_000])
    assert axis.floor is None
    assert axis.share(axis.top // 2) == 0.5


def test_inference_and_training_share_one_logarithmic_axis() -> None:
    axis = ByteAxis.over([400_000] * 10 + [10_000_000] + [213_000_000] * 10)
    assert axis.floor is not None
    assert axis.share(400_000) > 0.2
    assert axis.share(213_000_000) < 0.95
    assert axis.share(0) == 0


@given(st.integers(1_700_000_000, 1_900_000_000), st.integers(1, 40 * 86_400))
def test_time_ticks_are_few_and_inside(start_s: int, length_s: int) -> None:
    start, end = start_s * 10**9, (start_s + length_s) * 10**9
    ticks = time_ticks(start, end, 6)
    assert 1 <= len(ticks) <= 8 or length_s < 2
    assert all(start <= at <= end for at, _ in ticks)
    assert all(before[1] != after[1] for before, after in itertools.pairwise(ticks))
