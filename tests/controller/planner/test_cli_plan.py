from __future__ import annotations

import csv
import json
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from typer.testing import CliRunner

from controller.cli import app
from controller.cli_plan import INFERENCE_HELP, TRAINING_HELP
from controller.planner import inference, training

COVENANT = (
    "plan training --params 72.7e9 --nodes 20 --method sparseloco --density 64/4096 --bits-per-value 14 "
    "--sync-steps 30 --step-time 40s"
)
TRAINING = COVENANT.split()
SERVING = (
    "plan inference --layers 80 --kv-heads 8 --head-dim 128 --kv-bytes 2 --tokens-per-s 10000 --gpus 72 "
    "--bytes-per-token 2"
)


def said(*arguments: str, code: int = 0) -> str:
    done = CliRunner().invoke(app, list(arguments))
    assert done.exit_code == code, done.output
    return done.output


def test_every_parameter_is_an_option() -> None:
    assert set(TRAINING_HELP) == set(training.PARAMETERS)
    assert set(INFERENCE_HELP) == set(inference.PARAMETERS)


def test_the_documented_interface() -> None:
    found = json.loads(said(*TRAINING, "--bits", "16", "--limit", "1MB/s", "--json"))
    assert found["bytes_per_sync_up"] == found["bytes_per_sync_down"] == "1987890625"
    assert found["slowdown"]["overlapped"] == pytest.approx(1.66, abs=0.01)
    assert found["slowdown"]["blocking"] == pytest.approx(2.66, abs=0.01)
    assert found["sync_steps_min"] == 50
    text = said(*SERVING.split(), "--json")
    assert json.loads(text)["kv_bytes_per_token"] == "327680"


def test_a_person_reads_what_it_rests_on_and_what_it_leaves_out() -> None:
    text = said(*TRAINING, "--limit", "590Mbit/s")
    assert "under 73.8 MB/s each way" in text
    assert "this limit does not stop it" in text
    assert "duplex = full (assumed: default" in text
    assert "says nothing about:" in text


def test_a_sweep_as_table_file_and_drawing(tmp_path: Path) -> None:
    table, drawing = tmp_path / "sweep.csv", tmp_path / "sweep.svg"
    text = said(*TRAINING, "--sweep", "limit=100kB/s:100MB/s:log", "--csv", str(table), "--plot", str(drawing))
    assert "16.6x" in text
    with table.open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [rows[0]["limit"], rows[-1]["limit"]] == ["100000B/s", "100000000B/s"]
    assert len(rows) == 13
    slower = [float(row["slowdown_blocking"]) for row in rows]
    assert slower == sorted(slower, reverse=True)
    root = ET.fromstring(drawing.read_text(encoding="utf-8"))  # noqa: S314  written above
    assert len(root.findall("{http://www.w3.org/2000/svg}path")) == 2


def test_two_sweeps_are_a_line_each(tmp_path: Path) -> None:
    drawing = tmp_path / "sweep.svg"
    arguments = [each for each in TRAINING if each not in {"--sync-steps", "30"}]
    found = json.loads(
        said(
            *arguments, "--limit", "1MB/s", "--sweep", "sync-steps=10:1000:log:5", "--sweep",
            "topology=aggregator,store", "--plot", str(drawing), "--json",
        )
    )  # fmt: skip
    assert [each["at"]["topology"] for each in found] == ["aggregator", "store"] * 5
    assert drawing.read_text(encoding="utf-8").count("<path") == 2


WRONG = {
    "ambiguous": ("--limit 10Mb/s", "ambiguous"),
    "a file without a sweep": ("--limit 1MB/s --csv x.csv", "--csv and --plot are of a sweep"),
    "swept and given": ("--limit 1MB/s --sweep limit=1kB/s:1MB/s:log", "given and swept"),
    "a sweep of nothing": ("--sweep limit", "names no parameter"),
    "a sweep of what is not": ("--sweep colour=1:2:log", "names no parameter"),
    "a sweep that falls": ("--sweep limit=1MB/s:1kB/s:log", "does not rise"),
    "a sweep without its kind": ("--sweep limit=1kB/s:1MB/s", "is no range"),
    "a sweep of one point": ("--sweep limit=1kB/s:1MB/s:log:1", "no number of points"),
    "three sweeps": ("--sweep limit=1kB/s:1MB/s:log --sweep nodes=2:3:lin --sweep params=1:2:lin", "Sweep two"),
    "an impossible point": ("--sweep limit=1kB/s:1MB/s:log --nodes 0", "must be more than zero"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_input_ends_with_2_and_writes_nothing(case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    arguments, text = WRONG[case]
    assert text in said(*TRAINING, *arguments.split(), code=2)
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    gone = tmp_path / "no" / "sweep.csv"
    text = said(*TRAINING, "--sweep", "limit=1kB/s:1MB/s:log", "--csv", str(gone), code=2)
    assert "cannot be written" in text
