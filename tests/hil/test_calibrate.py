"""Known weights: frames that hold exactly the bytes asked for."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from controller.errors import OperatorError
from hil.calibrate import MOST_BYTES, SHORTEST_FRAME_BYTES, Load, app, due_times, loads


@given(total=st.integers(SHORTEST_FRAME_BYTES, MOST_BYTES), longest=st.sampled_from([1514, 9014]))
def test_the_frames_hold_exactly_what_was_asked_for(total: int, longest: int) -> None:
    parts = loads(total, longest)
    assert sum(part.length_bytes * part.frames for part in parts) == total
    assert all(SHORTEST_FRAME_BYTES <= part.length_bytes <= longest and part.frames > 0 for part in parts)
    assert len(parts) <= 2


def test_frames_are_as_long_as_the_rest_allows() -> None:
    assert loads(3_028, 1_514) == (Load(1_514, 2),)
    assert loads(1_514 + 60, 1_514) == (Load(1_514, 1), Load(60, 1))
    # One byte less would leave a rest that Ethernet pads: a shorter length leaves one that it does not.
    assert loads(1_514 + 59, 1_514) == (Load(1_513, 1), Load(60, 1))


def test_less_than_a_frame_is_refused() -> None:
    with pytest.raises(OperatorError, match="ask for 60 bytes or more"):
        loads(SHORTEST_FRAME_BYTES - 1, 1514)


def test_weights_on_a_schedule_are_due_counted_from_the_start() -> None:
    assert list(due_times(5, None, None)) == [5]
    assert list(due_times(5, 10, 3)) == [5, 15, 25]
    assert list(itertools.islice(due_times(5, 10, None), 4)) == [5, 15, 25, 35]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--times", "3"], "--times goes with --every"),
        (["--every", "5s"], "needs 15 s to be sent and read"),
        (["--every", "5"], "--every: '5'"),
        (["--bytes", "5B"], "a known weight is between 60 B"),
    ],
)
def test_a_schedule_that_is_none_is_refused(options: list[str], said: str) -> None:
    result = CliRunner().invoke(app, ["node1/p0", *options])
    assert isinstance(result.exception, OperatorError)
    assert said in str(result.exception)
