from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.crosscheck import buckets as module
from controller.crosscheck.buckets import fullest_buckets, fullest_of_each, fullest_run, greatest_over_line
from tests.controller.crosscheck.cases import cases

MS = 1_000_000
some = st.lists(st.integers(0, 50), min_size=1, max_size=40)


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CHUNK", 7)
    monkeypatch.setattr(module, "BLOCK", 2)


@settings(max_examples=cases(300), deadline=None)
@given(some, st.integers(1, 60), st.sampled_from([np.uint32, np.int64, np.uint64]))
def test_fullest_runs_against_all_runs(values: list[int], window: int, kind: type) -> None:
    found = fullest_buckets(np.array(values, dtype=kind), 4, window)

    def run(count: int) -> int:
        count = min(count, len(values))
        return max(sum(values[i : i + count]) for i in range(len(values) - count + 1))

    assert found.least == (run(window // 4) if window >= 4 else 0)
    assert found.most == run(-(-window // 4) + 1)
    assert sum(values[found.most_first : found.most_first + -(-window // 4) + 1]) == found.most
    if found.least_first is not None:
        assert sum(values[found.least_first : found.least_first + window // 4]) == found.least


@settings(max_examples=cases(500), deadline=None)
@given(
    st.lists(st.one_of(st.just(9), st.integers(0, 50)), min_size=1, max_size=120),
    st.integers(1, 120),
    st.sampled_from([(2, 1), (2, 4), (3, 2), (5, 1)]),
)
def test_the_first_look_at_blocks_leaves_nothing_out(values: list[int], count: int, sizes: tuple[int, int]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "BLOCK", sizes[0])
        patch.setattr(module, "FEW", sizes[1])
        most, first = fullest_run(np.array(values, dtype=np.uint32), min(count, len(values)))
    runs = [sum(values[at : at + count]) for at in range(max(1, len(values) - count + 1))]
    assert most == max(runs)
    assert sum(values[first : first + count]) == most


def test_several_lengths_are_each_as_if_asked_alone() -> None:
    values = np.random.default_rng(5).integers(0, 1000, 5_000, dtype=np.uint32)
    windows = [1, 10 * MS, 60 * MS, 700 * MS, 9_000 * MS]
    together = fullest_of_each(values, MS, windows, drift_ppm=100)
    assert together == [fullest_buckets(values, MS, window, drift_ppm=100) for window in windows]


@settings(max_examples=cases(200), deadline=None)
@given(st.lists(st.integers(0, 159), min_size=1, max_size=30), st.integers(4, 60))
def test_the_truth_of_any_window_of_ticks_lies_between(at: list[int], window: int) -> None:
    ticks = np.bincount(np.array(at), minlength=160)
    found = fullest_buckets(ticks.reshape(-1, 4).sum(axis=1), 4, window)
    true = max(int(ticks[t : t + window].sum()) for t in range(160 - window + 1))
    assert found.least <= true <= found.most


def test_drift_narrows_what_is_certain_and_widens_what_is_possible() -> None:
    values = np.ones(10_000, dtype=np.uint32)
    exact = fullest_buckets(values, MS, 1000 * MS)
    drifting = fullest_buckets(values, MS, 1000 * MS, drift_ppm=1000)
    assert (exact.least, exact.most) == (1000, 1001)
    assert (drifting.least, drifting.most) == (999, 1003)


@settings(max_examples=cases(300), deadline=None)
@given(some, st.integers(0, 40))
def test_excess_over_a_line_against_all_stretches(values: list[int], rate: int) -> None:
    found = greatest_over_line(np.array(values, dtype=np.uint32), rate)
    everything = [sum(values[i:j]) - rate * (j - i) for i in range(len(values)) for j in range(i + 1, len(values) + 1)]
    assert found.bytes == max(0, *everything)
    assert found.bytes == sum(values[found.first : found.end]) - rate * (found.end - found.first)


@pytest.mark.parametrize(
    ("values", "width", "window", "drift"), [([], 1, 1, 0), ([1], 0, 1, 0), ([1], 1, 0, 0), ([1], 1, 1, 1_000_000)]
)
def test_impossible_questions_are_refused(values: list[int], width: int, window: int, drift: int) -> None:
    with pytest.raises(ValueError, match="need at least one bucket"):
        fullest_buckets(np.array(values, dtype=np.int64), width, window, drift)
