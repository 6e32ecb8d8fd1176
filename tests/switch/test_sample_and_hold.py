"""The stated bytes against the truth, on a switch that samples and holds: the bench's 10,000 cases, a part of them."""

from __future__ import annotations

from hil.bench.switch_cases import Outcome, case


def test_the_truth_is_inside_and_the_interval_as_tight_as_the_refresh_period_allows() -> None:
    outcomes = [case(seed) for seed in range(300)]
    assert [seed for seed, outcome in enumerate(outcomes) if not outcome.holds] == []
    assert [seed for seed, outcome in enumerate(outcomes) if not outcome.tight] == []
    assert sum(outcome.upper is not None and outcome.truth > 0 for outcome in outcomes) > 200


def test_a_case_that_is_wrong_or_wide_would_be_seen() -> None:
    assert not Outcome(truth=5, lower=6, upper=9, least_lower=0, most_upper=None).holds
    assert not Outcome(truth=5, lower=0, upper=4, least_lower=0, most_upper=None).holds
    assert not Outcome(truth=5, lower=1, upper=9, least_lower=2, most_upper=9).tight
    assert not Outcome(truth=5, lower=2, upper=None, least_lower=2, most_upper=9).tight
