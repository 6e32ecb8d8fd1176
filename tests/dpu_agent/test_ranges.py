from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from dpu_agent.ranges import Ranges

_RUN = st.tuples(st.integers(1, 40), st.integers(0, 6)).map(lambda run: (run[0], run[0] + run[1] - 1))
_STEPS = st.lists(st.tuples(st.booleans(), _RUN), max_size=30)


def _both(steps: list[tuple[bool, tuple[int, int]]]) -> tuple[Ranges, set[int]]:
    ranges, plain = Ranges(), set[int]()
    for add, (first, last) in steps:
        numbers = set(range(first, last + 1))
        if add:
            ranges.add(first, last)
            plain |= numbers
        else:
            assert ranges.remove(first, last) == len(plain & numbers)
            plain -= numbers
    return ranges, plain


@given(_STEPS)
def test_is_the_set_it_stands_for(steps: list[tuple[bool, tuple[int, int]]]) -> None:
    ranges, plain = _both(steps)
    runs = list(ranges)
    assert {number for first, last in runs for number in range(first, last + 1)} == plain
    assert all(before[1] + 1 < after[0] for before, after in pairwise(runs)), "runs touch"
    assert len(ranges) == len(plain)
    for number in range(50):
        assert (number in ranges) == (number in plain)
        assert ranges.count_after(number) == len({other for other in plain if other > number})
        assert ranges.next_after(number) == min((other for other in plain if other > number), default=None)


@given(_STEPS, _RUN)
def test_missing_is_the_difference(steps: list[tuple[bool, tuple[int, int]]], run: tuple[int, int]) -> None:
    ranges, plain = _both(steps)
    wanted = set(range(run[0], run[1] + 1)) - plain
    assert {n for first, last in ranges.missing(*run) for n in range(first, last + 1)} == wanted
