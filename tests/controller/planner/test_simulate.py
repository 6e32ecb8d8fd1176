from __future__ import annotations

import json
import tracemalloc
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest
from typer.testing import CliRunner

from controller.cli import app
from controller.planner.fleet import COMPUTE_SPREAD, Fleet, play_fleet
from controller.planner.player import Job
from controller.planner.volume import NodeBytes
from controller.rulesfile import load_rules, parse_rules
from protos.units import NS_PER_S

HOUR_NS = 3_600 * NS_PER_S
SPARSE = (
    "plan simulate --method sparseloco --params 72.7e9 --nodes 4 --density 64/4096 --bits-per-value 14 "
    "--sync-steps 30 --step-time 40s"
)


def fleet(**changed: object) -> Fleet:
    moved = NodeBytes(Fraction(2 * 10**9), Fraction(2 * 10**9))
    job = Job(moved, Fraction(1_200), 1, False, 10**6, 64_000)
    base = Fleet(8, 4, 6 * HOUR_NS, job, ("text, little load",), COMPUTE_SPREAD, 1)
    return replace(base, **changed)  # type: ignore[arg-type]


def test_training_is_told_of_and_the_same_nodes_without_it_are_not() -> None:
    found = play_fleet(fleet(), load_rules(None))
    assert (found.jobs, found.seen.nodes, found.control.nodes) == (2, 8, 8)
    assert found.seen.limits == 8
    assert found.control.alarmed == 0
    assert {"report-rate", "report-volume"} <= set(found.first_alarm_s)
    assert found.anyway_s == {}
    assert found.slowdown_mean == pytest.approx(1 + 2_000 / 1_200, rel=0.02)


def test_below_the_rules_only_the_shape_tells() -> None:
    quiet = replace(fleet().job, rate_bytes_per_s=400_000, overlapped=True)
    found = play_fleet(fleet(job=quiet), load_rules(None))
    assert found.seen.limits == 0
    assert found.seen.shapes > 0


def test_the_rules_are_those_of_the_file() -> None:
    strict = b"version: 1\nrules: [{name: ours, kind: volume, window: 1h, bytes: 1MB, severity: page}]\n"
    found = play_fleet(fleet(length_ns=2 * HOUR_NS), parse_rules(strict, Path("rules.yaml")))
    assert found.seen.by["ours"] == 8
    none = play_fleet(fleet(nodes=4, length_ns=HOUR_NS), parse_rules(b"version: 1\nrules: []\n", Path("rules.yaml")))
    assert none.seen.limits == 0


def test_the_same_seed_is_the_same_fleet() -> None:
    rules = load_rules(None)
    one, again = (play_fleet(fleet(length_ns=HOUR_NS), rules).json() for _ in range(2))
    assert one == again
    assert play_fleet(fleet(length_ns=HOUR_NS, seed=2), rules).json() != one


def test_memory_does_not_grow_with_the_fleet() -> None:
    rules = load_rules(None)
    peaks = []
    play_fleet(fleet(nodes=4, length_ns=HOUR_NS // 4), rules)
    for nodes in (8, 80):
        tracemalloc.start()
        play_fleet(fleet(nodes=nodes, length_ns=HOUR_NS // 4), rules)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.5 * peaks[0]


def said(*options: str) -> tuple[int, str]:
    done = CliRunner().invoke(app, [*SPARSE.split(), *options])
    return done.exit_code, done.output


def test_the_command() -> None:
    code, text = said("--limit", "500kB/s", "--fleet", "9", "--for", "1h", "--json")
    assert code == 0, text
    found = json.loads(text)
    assert found["fleet"] == found["training"]["nodes"] == 8
    assert found["slowdown"]["mean"] == pytest.approx(found["planned_slowdown"], rel=0.01)
    depth = next(each for each in found["assumptions"] if each["name"] == "depth")
    assert (depth["value"], depth["mark"]) == ("64kB", "assumed")
    code, text = said("--limit", "1MB/s", "--fleet", "4", "--for", "1h", "--mode", "blocking", "--background", "none")
    assert code == 0, text
    assert "4 nodes in jobs of 4" in text
    assert "without training" in text


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ("--limit 1MB/s --fleet 3 --for 1h", "hold no job of 4"),
        ("--limit 1MB/s --fleet 2000000 --for 1h", "are above 1000000"),
        ("--limit 1MB/s --fleet 4 --for 1m", "from 10 minutes to 48 hours"),
        ("--limit 1MB/s --fleet 4 --for 1", "--for"),
        ("--limit 1MB/s --fleet 4 --for 1h --mode fast", "'fast' is not known"),
        ("--limit 1MB/s --fleet 4 --for 1h --background nothing", "'nothing' is not known"),
        ("--limit 1MB/s --fleet 4 --for 1h --duplex half", "is not played"),
        ("--limit 1MB/s --fleet 4 --for 1h --latency 1s", "is not played"),
        ("--limit 1bit/s --fleet 4 --for 1h", "whole bytes"),
        ("--limit 1MB/s --fleet 4 --for 1h --depth 0B", "--depth"),
        ("--fleet 4 --for 1h", "needs --limit"),
    ],
)
def test_wrong_input_is_told(options: str, told: str) -> None:
    code, text = said(*options.split())
    assert code == 2
    assert told in text
