"""The planner against what others computed or counted; `make bench AREA=planner` prints the same table."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from controller.planner.marks import PlanError
from controller.planner.trace import measure
from controller.replay.record import read_record
from controller.rules.series import Series
from hil.bench.planner_cases import Known, known

KNOWN = tuple(known())


@pytest.mark.parametrize("one", KNOWN, ids=[one.name for one in KNOWN])
def test_known(one: Known) -> None:
    assert one.off <= one.within, f"{one.computed} is not {one.expected} {one.unit} ({one.source})"


def test_every_kind_is_there() -> None:
    kinds = {one.name.partition(".")[0] for one in KNOWN}
    assert {"volume", "worked", "needed", "rahman", "kv", "experts", "load", "image", "lora", "sparse"} <= kinds
    assert len({one.name for one in KNOWN}) == len(KNOWN) > 90


@pytest.mark.traces
def test_the_recorded_run(traces: Path) -> None:
    found = measure(read_record(traces / "diloco_total_bytes.csv").flows[0].main)
    assert found.median_bytes == pytest.approx(48.18e9, rel=0.005)
    assert found.mean_interval_s == 1060
    assert found.interval_sd_s == pytest.approx(28.28, abs=0.01)
    slower = found.under(Fraction(1_000_000))
    assert float(slower.overlapped) == pytest.approx(45.6, rel=0.005)
    assert slower.blocking == slower.overlapped + 1


def test_too_few_bursts_are_no_period() -> None:
    rate = np.ones(400)
    rate[100:110] = rate[200:210] = 1e8
    with pytest.raises(PlanError, match="2 bursts are too few"):
        measure(Series("eth0", 0, 15 * 10**9, rate))
