"""Known weights: frames that hold exactly the bytes asked for."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.errors import OperatorError
from hil.calibrate import MOST_BYTES, SHORTEST_FRAME_BYTES, Load, loads


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
