"""The same series in every format; and what each parser refuses, with its line and what to do."""

from __future__ import annotations

import json
import re
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.errors import OperatorError
from controller.replay.cells import CellError, Unit, time_ns, value
from controller.replay.column import MOST_BINS, Column
from controller.replay.record import read_record

START = 1_777_000_000


def _write(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "record"
    path.write_text(text, encoding="utf-8")
    return path


def _rates(path: Path, **options: object) -> list[float]:
    (flow,) = read_record(path, **options).flows  # type: ignore[arg-type]
    return [round(float(rate), 6) for rate in flow.main.rate]


def _counter(steps: list[int]) -> list[tuple[int, int]]:
    return [(START + 15 * at, int(total)) for at, total in enumerate(np.cumsum([0, *steps]))]


STEPS = [1_500, 0, 3_000, 45_000, 15] * 3


def test_one_counter_in_four_formats(tmp_path: Path) -> None:
    samples = _counter(STEPS)
    texts = {
        "csv": "time,node1 rx\n" + "".join(f"{at},{total}\n" for at, total in samples),
        "grafana": '"Time","node1 rx"\n' + "".join(f"{at * 1000},{total} B\n" for at, total in samples),
        "openmetrics": "# TYPE node1_rx counter\n"
        + "".join(f'node1_rx_bytes_total{{device="p0"}} {total} {at}.0\n' for at, total in samples)
        + "# EOF\n",
        "json": json.dumps(
            {
                "status": "success",
                "data": {
                    "resultType": "matrix",
                    "result": [
                        {
                            "metric": {"__name__": "node_network_receive_bytes_total", "device": "p0"},
                            "values": [[at, str(total)] for at, total in samples],
                        }
                    ],
                },
            }
        ),
    }
    for name, text in texts.items():
        rates = _rates(_write(tmp_path, text))
        assert np.isnan(rates[0]), name
        assert rates[1:] == [step / 15 for step in STEPS], name


def test_two_directions_of_one_place_are_one_flow(tmp_path: Path) -> None:
    rows = "".join(f"{START + 15 * at},{100 + at} kB/s,{7} kB/s\n" for at in range(20))
    record = read_record(_write(tmp_path, f"Time,n1 rx,n1 tx\n{rows}"))
    (flow,) = record.flows
    assert flow.inward is not None
    assert flow.outward is not None
    assert float(flow.inward.rate[0]) == 100_000
    assert float(flow.outward.rate[0]) == 7_000
    assert flow.inward.window_ns == 300 * 10**9
    assert any("averaged over 5 min" in note for note in record.notes)


@pytest.mark.parametrize(
    ("header", "option", "expected_s"),
    [("rate(rx[2m])", None, 120), ("rx", 60, 60), ("rx", 0, 0), ("rate(rx[2m])", 0, 0)],
)
def test_the_average_is_told_by_option_name_or_default(
    tmp_path: Path, header: str, option: int | None, expected_s: int
) -> None:
    rows = "".join(f"{START + 15 * at},1 kB/s\n" for at in range(20))
    path = _write(tmp_path, f"Time,{header}\n{rows}")
    record = read_record(path, window_ns=None if option is None else option * 10**9)
    assert record.flows[0].main.window_ns == expected_s * 10**9


def test_unknown_values_are_no_zeros_and_a_reset_is_unknown(tmp_path: Path) -> None:
    values = ["5", "NaN", "", "null", "undefined", "8"]
    rows = "".join(f"{START + 15 * at},{text}\n" for at, text in enumerate(values))
    rates = _rates(_write(tmp_path, f"time,bytes_per_s rate()\n{rows}"), counter=False)
    assert rates[0] == 5
    assert np.isnan(rates[1:5]).all()
    counted = "".join(f"{START + 15 * at},{total}\n" for at, total in enumerate([100, 250, 10, 160]))
    path = _write(tmp_path, f"time,x_total\n{counted}")
    assert _rates(path)[1] == 10
    assert np.isnan(_rates(path)[2])
    assert _rates(path)[3] == 10
    assert any("began again" in note for note in read_record(path).notes)


FAILING = sorted((Path(__file__).parent / "fail").iterdir())


@pytest.mark.parametrize("path", FAILING, ids=lambda path: path.name)
def test_refused(path: Path) -> None:
    """The name says line and what the message says, ``LINE-words.ending``."""
    line, words = path.stem.split("-", 1)
    with pytest.raises(OperatorError) as caught:
        read_record(path)
    message = str(caught.value)
    place = f"{path}:{line}: " if line != "0" else f"{path}: "
    assert message.startswith(place)
    assert words.replace("_", " ") in message
    assert re.search(r"\. [A-Z]", message), "says what to do"


def test_nothing_there(tmp_path: Path) -> None:
    with pytest.raises(OperatorError, match="cannot be read"):
        read_record(tmp_path / "absent.csv")
    with pytest.raises(OperatorError, match="the file is empty"):
        read_record(_write(tmp_path, "\n"))
    binary = tmp_path / "binary"
    binary.write_bytes(b"Time,a\n\xff\xfe\x00")
    with pytest.raises(OperatorError, match="not UTF-8"):
        read_record(binary)


def test_memory_does_not_grow_with_the_length() -> None:
    column = Column("x", Unit.RATE)
    for at in range(MOST_BINS + 10):
        column.add(at * 10**9, 1.0)
    tracemalloc.start()
    for at in range(MOST_BINS + 10, 2 * MOST_BINS + 10):
        column.add(at * 10**9, 1.0)
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    series = column.series(0, counter=False)
    assert len(series.rate) <= MOST_BINS
    assert series.step_ns == 4 * 10**9
    assert series.volume(0, len(series.rate)) == pytest.approx(2 * MOST_BINS + 10, rel=1e-3)
    assert held < 8 * MOST_BINS * 4


def _readable(read: Callable[[str], object], text: str) -> bool:
    try:
        read(text)
    except CellError as error:
        return bool(str(error)) and bool(error.remedy)
    return True


@given(st.text(max_size=24))
def test_a_cell_is_read_or_refused_with_a_remedy(text: str) -> None:
    assert _readable(value, text)
    assert _readable(time_ns, text)


@pytest.mark.parametrize(
    ("text", "number", "unit"),
    [
        ("113 MB/s", 113e6, Unit.RATE),
        ("1.49 kB/s", 1490.0, Unit.RATE),
        ("0 B", 0.0, Unit.BYTES),
        ("2 GiB", 2.0 * 2**30, Unit.BYTES),
        ("8 Mbit/s", 1e6, Unit.RATE),
        ("1e3", 1000.0, None),
    ],
)
def test_values(text: str, number: float, unit: Unit | None) -> None:
    assert value(text)[:2] == (number, unit)


@pytest.mark.parametrize(
    "metric",
    ['{"a": ' + "9" * 5_000 + "}", "[" * 20_000],
    ids=["a number of thousands of digits", "nested without end"],
)
def test_json_that_the_decoder_gives_up_is_refused(tmp_path: Path, metric: str) -> None:
    result = f'{{"metric": {metric}, "values": [[1, "1"]]}}'
    path = _write(tmp_path, f'{{"status": "success", "data": {{"resultType": "matrix", "result": [{result}]}}}}')
    with pytest.raises(OperatorError, match="not JSON that can be read"):
        read_record(path)
