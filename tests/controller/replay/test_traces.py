"""The recorded runs, as they are and transformed: other scales, steps, gaps and cuts resemble the same."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from controller.cli_rules import app
from controller.replay.record import read_record
from controller.rules.examine import examine
from controller.rules.series import Flow, Series
from controller.rules.shape import DEFAULT_SHAPE

pytestmark = pytest.mark.traces

EXPECTED = {
    "baseline_internode_bytes_per_s.csv": "training-continuous",
    "diloco_internode_bytes_per_s.csv": "training-periodic",
    "diloco_total_bytes.csv": "training-periodic",
    "inference_8b_internode_bytes_per_s.csv": "inference",
    "model_load_8b_internode_bytes_per_s.csv": "model-load",
}
UNREACHABLE = 'version: 1\nrules: [{name: far, kind: volume, window: 1h, bytes: "1000TB"}]\n'
# A share of the scale is told from nothing only while there is something: serving at 30 B/s is idle.
SCALES = (0.1, 0.5, 2.0, 10.0)


def _replayed(arguments: list[str]) -> tuple[int, dict[str, list[dict[str, object]]]]:
    result = CliRunner().invoke(app, ["replay", "--json", *arguments])
    return result.exit_code, json.loads(result.stdout)


def test_each_is_known_for_what_it_is(traces: Path) -> None:
    code, found = _replayed([str(traces / name) for name in EXPECTED])
    assert code == 1
    assert {(Path(str(one["file"])).name, one["resembles"]) for one in found["series"]} == set(EXPECTED.items())


def test_without_limits_the_shape_still_shows(traces: Path, tmp_path: Path) -> None:
    rules = tmp_path / "rules.yaml"
    rules.write_text(UNREACHABLE)
    files = [str(traces / name) for name in EXPECTED]
    _, found = _replayed([*files, "--rules", str(rules)])
    kinds: dict[str, set[object]] = {}
    for one in found["series"]:
        findings = one["findings"]
        assert isinstance(findings, list)
        kinds.setdefault(Path(str(one["file"])).name, set()).update((each["kind"], each["alarm"]) for each in findings)
    assert ("periodic-equal-bursts", True) in kinds["diloco_internode_bytes_per_s.csv"]
    assert ("periodic-equal-bursts", True) in kinds["diloco_total_bytes.csv"]
    assert kinds["baseline_internode_bytes_per_s.csv"]
    assert not kinds["inference_8b_internode_bytes_per_s.csv"]
    assert not kinds["model_load_8b_internode_bytes_per_s.csv"]


def test_the_numbers_of_the_periodic_run(traces: Path) -> None:
    _, found = _replayed([str(traces / "diloco_internode_bytes_per_s.csv")])
    findings = found["series"][0]["findings"]
    assert isinstance(findings, list)
    numbers = next(each for each in findings if each["kind"] == "periodic-equal-bursts")["numbers"]
    assert numbers["bursts"] == 7
    assert int(numbers["volume_mean_bytes"]) == pytest.approx(48.2e9, rel=0.005)
    assert numbers["interval_mean_s"] == pytest.approx(1_060, abs=5)
    assert numbers["interval_variation"] == pytest.approx(0.0267, abs=0.003)


def _each(flow: Flow, change: Callable[[Series], Series]) -> Flow:
    out, inward = (None if one is None else change(one) for one in (flow.outward, flow.inward))
    return Flow(flow.name, out, inward)


def _hole(series: Series) -> Series:
    rate = series.rate.copy()
    rate[int(0.6 * len(rate)) : int(0.72 * len(rate))] = np.nan
    return replace(series, rate=rate)


CHANGES: dict[str, Callable[[Series], Series]] = {
    **{f"times {scale}": lambda one, by=scale: replace(one, rate=one.rate * by) for scale in SCALES},  # type: ignore[misc]
    "30 s": lambda one: one.coarser(2),
    "hole": _hole,
    "six tenths": lambda one: replace(one, rate=one.rate[: int(0.6 * len(one.rate))]),
    "another time": lambda one: replace(one, start_ns=one.start_ns + 10**18),
}


@pytest.mark.parametrize(("name", "change"), list(itertools.product(EXPECTED, CHANGES)))
def test_transformed(traces: Path, name: str, change: str) -> None:
    flow = _each(read_record(traces / name).flows[0], CHANGES[change])
    assert examine(flow, DEFAULT_SHAPE, ()).resembles.label.value == EXPECTED[name]


def test_serving_a_hundred_times_as_much_is_no_training(traces: Path) -> None:
    flow = _each(
        read_record(traces / "inference_8b_internode_bytes_per_s.csv").flows[0],
        lambda one: replace(one, rate=one.rate * 100),
    )
    assert examine(flow, DEFAULT_SHAPE, ()).resembles.label.value == "inference"
