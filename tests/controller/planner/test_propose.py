from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
import tomli
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from controller.agreement.arithmetic import contradictions
from controller.agreement.document import parse
from controller.cli import app
from controller.planner.adversaries import BUILT_IN
from controller.planner.document import agreement_text, reasoning
from controller.planner.marks import PlanError
from controller.planner.measured import measured_need
from controller.planner.propose import Ask, Proposal, declared_needs, propose
from controller.planner.window_set import bucket_for
from controller.planner.workloads import Workloads, parse_workloads
from controller.rules.series import Series
from protos.lease import broken_bounds, greatest_rate

SITE = Path(__file__).resolve().parents[1] / "site_ok" / "demo.yaml"
WORKLOADS = """
version = 1

[pod]
flops-per-s = "1.8e17"
mfu = "0.4"
local-batch-tokens = "4e6"

[[inference]]
name = "chat"
pods = ["*"]
class = "front-end"
tokens-per-s = "10000"
gpus = "72"
bytes-per-token = "2"

[loads]
class = "storage"
sources = ["198.51.100.0/24"]
params = "671e9"
weight-bytes = "1"
longest = "30m"
per-day = 2
reverse-ppm = 10000
"""
HARD = ("distro", "sparseloco-30", "sparseloco-500", "lora-50", "rl-patch", "compressed-16x-200")


def declared(text: str = WORKLOADS) -> Workloads:
    return parse_workloads(tomli.loads(text), "workloads.toml")


def proposal(slow_by: int = 5, accepted: tuple[str, ...] = HARD, headroom: int = 2) -> Proposal:
    ask = Ask(Fraction(slow_by), Fraction(headroom), accepted, Fraction(1, 4))
    workloads = declared()
    return propose("demo", declared_needs(workloads, ["pod-a", "pod-b"]), workloads, BUILT_IN, ask)


def draft(found: Proposal) -> str:
    return agreement_text(
        found, number=1, valid_from="2026-12-01T00:00:00Z", valid_to="2027-12-01T00:00:00Z", longest_lease="60s"
    )


def test_an_empty_interval_names_who_and_why() -> None:
    found = proposal(slow_by=1, accepted=(), headroom=1)
    assert found.is_empty
    assert found.lower_bytes_per_s == 1_440_000
    names = {each.name for each in found.blocking}
    # 0.164 MB/s are enough for it, 1.44 MB/s are needed to serve: no rate tells the two apart.
    assert "sparseloco-500" in names
    held = next(each for each in found.held if each.name == "sparseloco-500")
    assert float(held.needs_bytes_per_s) == pytest.approx(0.164e6, rel=0.005)
    assert "no limit of a rate tells the two apart" in found.why(held)
    assert "There is no such limit" in reasoning(found)
    assert found.buckets == {}
    with pytest.raises(ValueError, match="no agreement"):
        draft(found)


def test_an_interval_lets_inference_run_and_slows_each() -> None:
    found = proposal()
    assert not found.is_empty
    assert found.lower_bytes_per_s == 2 * 1_440_000
    assert found.upper_bytes_per_s is not None
    for each in found.counted:
        assert each.plan.slowdown.overlapped >= 5
        assert each.limit_for(Fraction(5)) >= found.upper_bytes_per_s
    text = reasoning(found)
    for name in HARD:
        assert f"| {name} |" in text
    assert "A limit of a rate does not stop" in text
    assert "**not stopped**" in text


def test_the_draft_is_an_agreement_and_its_bucket_keeps_its_windows() -> None:
    found = proposal()
    agreement = parse(draft(found).encode(), "draft")
    assert contradictions(agreement) == []
    (limit,) = agreement.limits
    assert limit.scope == "pod"
    bucket = found.buckets["front-end"]
    assert greatest_rate(limit.depth_bytes, limit.bounds) == bucket.rate_bytes_per_s
    assert agreement.loads is not None
    assert agreement.loads.most_bytes >= 671 * 10**9


def test_loads_that_are_an_adversarys_way_in_are_told() -> None:
    assert "weights sent as loads do not break the limit" in reasoning(proposal())


def test_a_depth_that_holds_a_whole_synchronisation_is_told() -> None:
    workloads = declared()
    needs = [replace(each, burst_bytes=Fraction(5 * 10**8)) for each in declared_needs(workloads, ["pod-a"])]
    deep = propose("demo", needs, workloads, BUILT_IN, proposal().ask)
    assert "a whole synchronisation of distro, compressed-16x-200, lora-50, rl-patch" in reasoning(deep)
    assert "a whole synchronisation" not in reasoning(proposal())


def test_a_reverse_share_below_what_a_load_sends_is_told() -> None:
    ask = Ask(Fraction(5), Fraction(2), HARD, Fraction(1, 4))
    scarce = declared(WORKLOADS.replace("reverse-ppm = 10000", "reverse-ppm = 1000"))
    needs = declared_needs(scarce, ["pod-a"])
    assert "an honest load would break it" in reasoning(propose("demo", needs, scarce, BUILT_IN, ask))
    assert "an honest load would break it" not in reasoning(proposal())


@given(st.integers(1, 10**10), st.integers(1, 100), st.integers(0, 10**10))
def test_a_bucket_keeps_its_set_and_one_byte_more_breaks_it(rate: int, tenths: int, burst: int) -> None:
    bucket = bucket_for(Fraction(rate), Fraction(tenths, 10), Fraction(burst))
    assert broken_bounds(bucket.rate_bytes_per_s, bucket.depth_bytes, bucket.bounds) == []
    assert broken_bounds(bucket.rate_bytes_per_s + 1, bucket.depth_bytes, bucket.bounds)
    assert broken_bounds(bucket.rate_bytes_per_s, bucket.depth_bytes + 1, bucket.bounds)
    assert bucket.depth_bytes >= max(rate * tenths / 10, burst, 64_000) - 1


@given(st.integers(0, 2**32 - 1), st.integers(1_000, 10**8))
def test_the_burst_would_have_passed_everything(seed: int, rate: int) -> None:
    rates = np.floor(np.random.default_rng(seed).pareto(1.2, 300) * 1e5)
    need = measured_need("pod", [[Series("x", 0, 15 * 10**9, rates)]])
    depth = need.burst_bytes(rate)
    tokens, least = depth, depth
    for each in rates:
        tokens = min(depth, tokens + rate * 15 - each * 15)
        least = min(least, tokens)
    # Enough, and not a byte too much, but for what floats round.
    assert least == pytest.approx(0, abs=1e-6 * max(1.0, float(rates.sum()) * 15))


def test_percentiles_of_the_fuller_direction() -> None:
    rate = np.full(480, 1_000.0)
    rate[100:140] = 50_000.0
    other = Series("in", 0, 15 * 10**9, np.full(480, 10.0))
    need = measured_need("pod", [[Series("out", 0, 15 * 10**9, rate)], [other]])
    assert need.rates[50.0] == 1_000
    assert need.rates[100.0] == 50_000
    assert need.known == 1.0


def test_what_is_not_known_is_not_counted() -> None:
    rate = np.full(480, 1_000.0)
    rate[:100] = np.nan
    need = measured_need("pod", [[Series("out", 0, 15 * 10**9, rate)]])
    assert need.rates[100.0] == 1_000
    assert 0.7 < need.known < 0.8
    rate[:400] = np.nan
    with pytest.raises(PlanError, match="too few for percentiles"):
        measured_need("pod", [[Series("out", 0, 15 * 10**9, rate)]])


WRONG = {
    "no version": ("version = 1", "", "version is missing"),
    "another version": ("version = 1", "version = 2", "version must be 1"),
    "no computing": ('flops-per-s = "1.8e17"', "", "pod.flops-per-s is missing"),
    "computing beyond the peak": ('mfu = "0.4"', 'mfu = "4"', "at most 1"),
    "an unknown key of the pod": ('mfu = "0.4"', 'mfu = "0.4"\ncolour = "red"', "pod.colour is not known"),
    "a pod that is not": ('pods = ["*"]', 'pods = ["pod-z"]', "the site has no pod 'pod-z'"),
    "a class that is not": ('class = "front-end"', 'class = "back-end"', "inference[1].class is 'back-end'"),
    "inference without its size": ('bytes-per-token = "2"', "", "inference[1]."),
    "what inference has not": ('gpus = "72"', 'gpus = "72"\nmood = "good"', "--mood is not known"),
    "loads without a count": ("per-day = 2", "", "loads.per-day is missing"),
    "loads without end": ("per-day = 2", "per-day = 1000000", "no whole number"),
    "loads that come back whole": ("reverse-ppm = 10000", "reverse-ppm = 1000000", "no whole number"),
    "no TOML": ("version = 1", "version 1", "is not TOML"),
    "an adversary without a method": ("[loads]", '[[adversary]]\nname = "x"\n[loads]', "the adversary x: "),
}


def run(folder: Path, text: str, *options: str) -> tuple[int, str]:
    workloads = folder / "workloads.toml"
    workloads.write_text(text, encoding="utf-8")
    arguments = ["plan", "propose", str(SITE), "--workloads", str(workloads), "-o", str(folder / "out"), *options]
    done = CliRunner().invoke(app, arguments)
    return done.exit_code, done.output


@pytest.mark.parametrize("case", WRONG)
def test_wrong_workloads_end_with_2_and_write_nothing(case: str, tmp_path: Path) -> None:
    old, new, said = WRONG[case]
    assert old in WORKLOADS
    code, text = run(tmp_path, WORKLOADS.replace(old, new, 1), "--slow-by", "5")
    assert code == 2
    assert said in text
    assert not (tmp_path / "out").exists()


def test_the_command_writes_a_draft_and_its_reasons(tmp_path: Path) -> None:
    accepted = [word for name in HARD for word in ("--accept", name)]
    code, text = run(tmp_path, WORKLOADS, "--slow-by", "5", *accepted)
    assert code == 0
    assert "Any limit from **2.88 MB/s** to **3.00 MB/s** does" in text
    written = (tmp_path / "out" / "agreement.toml").read_bytes()
    assert contradictions(parse(written, "agreement.toml")) == []
    assert (tmp_path / "out" / "reasoning.md").read_text(encoding="utf-8") in text
    again, said = run(tmp_path, WORKLOADS, "--slow-by", "5", *accepted)
    assert (again, (tmp_path / "out" / "agreement.toml").read_bytes()) == (2, written)
    assert "is there already" in said


def test_the_command_ends_with_3_where_there_is_no_limit(tmp_path: Path) -> None:
    code, text = run(tmp_path, WORKLOADS, "--slow-by", "10", "--json")
    assert code == 3
    found = json.loads(text[text.index("{") : text.rindex("}") + 1])
    assert found["interval_bytes_per_s"]["empty"] is True
    assert any(each["why_not"] for each in found["adversaries"])
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["reasoning.md"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--slow-by", "0.5"), "is 1 or more"),
        (("--slow-by", "5", "--accept", "nobody"), "'nobody' is not among the adversaries"),
        (("--slow-by", "5", "--adversary", "nobody"), "'nobody' is not known"),
        (("--slow-by", "5", "--burst", "2"), "--burst"),
        (("--slow-by", "5", "--from-measurement", "1h", "--percentile", "42"), "'42' is not kept"),
        (("--slow-by", "5", "--from-measurement", "1h", "--class", "fast"), "'fast' is not known"),
    ],
)
def test_wrong_options(options: tuple[str, ...], said: str, tmp_path: Path) -> None:
    code, text = run(tmp_path, WORKLOADS, *options)
    assert code == 2
    assert said in text
    assert not (tmp_path / "out").exists()
