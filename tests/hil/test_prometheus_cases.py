"""The cases that Prometheus is asked about: their truth lies within what is proven, and the text it imports."""

from __future__ import annotations

import pytest

from hil.bench import prometheus, prometheus_cases
from hil.bench.prometheus_cases import SCRAPE_S, WINDOW_S, Case, cases, day, pairs_apart, proven


@pytest.mark.parametrize("case", list(cases()), ids=lambda case: case.name)
def test_what_is_proven_holds_the_truth(case: Case) -> None:
    least, most = proven(case)
    assert least <= case.true_bytes
    assert most is not None
    assert case.true_bytes <= most
    times = [reading.latest_ns for reading in case.readings]
    assert times == sorted(times)
    assert times[-1] - times[0] > 3 * WINDOW_S * 10**9


def test_the_cases_are_those_that_an_average_gets_wrong() -> None:
    """Worked by hand: the samples within the window, and what a difference of them misses or adds."""
    by_name = {case.name: case for case in cases()}
    edge = by_name["burst_at_the_edge"]
    within = [r.bytes for r in edge.readings if edge.at - WINDOW_S < r.latest_ns // 10**9 <= edge.at]
    assert within[-1] - within[0] == 0
    reset = by_name["reset"]
    old = max(reading.bytes for reading in reset.readings if reading.epoch == 0)
    assert old + max(r.bytes for r in reset.readings if r.epoch == 1) < (1_200 - SCRAPE_S) * 100_000_000


def test_samples_are_imported_with_their_own_times() -> None:
    text = "".join(prometheus.exposition({"a": [(10, 5), (25, 7)], "b": [(10, 1)]}))
    assert text.splitlines() == [
        "# TYPE bytes counter",
        'bytes_total{case="a"} 5 10',
        'bytes_total{case="a"} 7 25',
        'bytes_total{case="b"} 1 10',
        "# EOF",
    ]


def test_without_a_server_the_figure_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    (figure,) = prometheus_cases.figures()
    assert figure.value is None
    assert "not installed" in figure.note


def test_a_day_rises_and_pairs_are_so_far_apart() -> None:
    samples = day()
    assert all(first[1] <= last[1] and last[0] - first[0] == 60 for first, last in pairs_apart(samples, 60))


@pytest.mark.loopback
def test_the_real_server_is_off_by_what_extrapolation_adds_and_the_edge_hides() -> None:
    said = {figure.name: figure.value for figure in prometheus_cases.figures()}
    # 20 scrapes span 285 of 300 s, so 300/285 of the burst is reported; at the edge nothing is; a boot loses a second.
    assert said["crosscheck.prometheus.burst.increase_error"] == pytest.approx(300 / 285 - 1, abs=1e-3)
    assert said["crosscheck.prometheus.burst_at_the_edge.increase_error"] == -1.0
    reset = said["crosscheck.prometheus.reset.increase_error"]
    assert reset is not None
    assert reset < -0.03
    assert all(value == 1 for name, value in said.items() if name.endswith("holds_truth"))
