"""The switch reader's fuzz targets are sound: seeds get through, and what is bent gives its two errors alone."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hil.fuzz import switch_area as area


@pytest.mark.parametrize("target", area.TARGETS)
def test_every_seed_gets_through(target: str) -> None:
    for seed in area.seeds(target):
        area.TARGETS[target](seed)


@pytest.mark.parametrize("target", area.TARGETS)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=50)
@given(data=st.data())
def test_a_seed_bent_anywhere_gives_the_readers_errors_alone(target: str, data: st.DataObject) -> None:
    raw = bytearray(data.draw(st.sampled_from(area.seeds(target))))
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(raw)))
        raw[at : at + data.draw(st.integers(0, 3))] = data.draw(st.binary(max_size=3))
    with contextlib.suppress(*area.EXPECTED):
        area.TARGETS[target](bytes(raw))
