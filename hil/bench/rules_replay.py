"""Replay: what recorded runs resemble and how soon, a gigabyte in each format, and what parsers make of bad input."""

from __future__ import annotations

import resource
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from itertools import count
from pathlib import Path
from typing import TextIO

from controller.errors import OperatorError
from controller.replay.answer import answer
from controller.replay.record import read_record
from controller.rulesfile import parse_rules
from hil.bench.figure import Figure, Goal
from hil.machine import PROJECT

TRACES = PROJECT.parent / "shared" / "traces"
"""The recorded counters lie beside the project."""
EXPECTED = {
    "baseline_internode_bytes_per_s.csv": "training-continuous",
    "diloco_internode_bytes_per_s.csv": "training-periodic",
    "diloco_total_bytes.csv": "training-periodic",
    "inference_8b_internode_bytes_per_s.csv": "inference",
    "model_load_8b_internode_bytes_per_s.csv": "model-load",
}
TRAINING = ("training-continuous", "training-periodic")
OUT_OF_REACH = b'version: 1\nrules: [{name: far, kind: volume, window: 1h, bytes: "1000TB"}]\n'
GIGABYTE = 1_000_000_000
MOST_GROWN = 100_000_000
_BEGIN = 1_777_000_000


def figures() -> Iterator[Figure]:
    """Yield everything; the gigabytes take some minutes each, side by side."""
    yield from _traces()
    yield from _bad_input()
    yield from _gigabytes()


def _traces() -> Iterator[Figure]:
    if not TRACES.is_dir():
        yield Figure("rules.traces.known", None, "1", len(EXPECTED), Goal.EXACTLY, "the recorded traces are not there")
        return
    rules = parse_rules(OUT_OF_REACH, Path("out-of-reach.yaml"))
    known = 0
    for name, expected in EXPECTED.items():
        found = answer([read_record(TRACES / name)], rules.shape, rules.limits)["series"]
        labels = {one["resembles"] for one in found}
        known += labels == {expected}
        said = [each for one in found for each in one["findings"]]
        noted = min((each["time_to_detect_s"] for each in said), default=None)
        alarm = min((each["time_to_alarm_s"] for each in said if each["time_to_alarm_s"] is not None), default=None)
        kinds = ", ".join(dict.fromkeys(each["kind"] for each in said)) or "nothing found"
        note = f"resembles {', '.join(sorted(labels))}; by shape alone: {kinds}"
        stem = f"rules.traces.{name.removesuffix('.csv')}"
        yield Figure(
            f"{stem}.taken_for_training",
            int(bool(labels & set(TRAINING))),
            "1",
            int(expected in TRAINING),
            Goal.EXACTLY,
            note,
        )
        if expected in TRAINING:
            yield Figure(f"{stem}.time_to_note", noted, "s", note="from when the activity began; shape alone")
            short = "too short a record for an alarm of this kind" if alarm is None else ""
            yield Figure(f"{stem}.time_to_alarm", alarm, "s", note=short)
    yield Figure(
        "rules.traces.known", known, "1", len(EXPECTED), Goal.EXACTLY, "recorded runs that resemble what they are"
    )


# ---------------------------------------------------------------- bad input

_ROWS = "".join(f"{_BEGIN + 15 * at},{at + 1}\n" for at in range(20))
_SAMPLES = "".join(f"x_total {at} {_BEGIN + 15 * at}\n" for at in range(20))
_PAIRS = ",".join(f'[{_BEGIN + 15 * at},"{at}"]' for at in range(20))
_MATRIX = '{"status":"success","data":{"resultType":"matrix","result":[{"metric":{},"values":[%s]}]}}'
REFUSED = {
    "csv": {
        "missing column": f"Time,a,b\n{_BEGIN},1\n",
        "mixed units": f"Time,a\n{_BEGIN},1 MB/s\n{_BEGIN + 15},1 MB\n",
        "duplicate time, two values": f"Time,a\n{_BEGIN},1\n{_BEGIN},2\n",
        "decreasing time": f"Time,a\n{_BEGIN},1\n{_BEGIN - 15},2\n",
        "+Inf": f"Time,a\n{_BEGIN},+Inf\n",
        "thousands separator": f'Time,a\n{_BEGIN},"1,234"\n',
        "empty file": "",
    },
    "openmetrics": {
        "missing time": "x_total 1\n",
        "unit text": f"x_total 1MB {_BEGIN}\n",
        "duplicate time, two values": f"x_total 1 {_BEGIN}\nx_total 2 {_BEGIN}\n",
        "decreasing time": f"x_total 1 {_BEGIN}\nx_total 2 {_BEGIN - 1}\n",
        "+Inf": f"x_total +Inf {_BEGIN}\n",
        "thousands separator": f"x_total 1,234 {_BEGIN}\n",
        "empty file": "# EOF\n",
    },
    "json": {
        "missing value": _MATRIX % f"[{_BEGIN}]",
        "unit text": _MATRIX % f'[{_BEGIN},"1 MB"]',
        "duplicate time, two values": _MATRIX % f'[{_BEGIN},"1"],[{_BEGIN},"2"]',
        "decreasing time": _MATRIX % f'[{_BEGIN},"1"],[{_BEGIN - 1},"2"]',
        "+Inf": _MATRIX % f'[{_BEGIN},"+Inf"]',
        "thousands separator": _MATRIX % f'[{_BEGIN},"1,234"]',
        "empty file": "{}",
    },
}
TAKEN = {
    "csv": {
        "gap": f"Time,a\n{_ROWS}{_BEGIN + 9_000},500\n",
        "NaN": f"Time,a\n{_ROWS}{_BEGIN + 300},NaN\n",
        "duplicate row": f"Time,a\n{_ROWS}{_BEGIN + 285},20\n",
    },
    "openmetrics": {
        "gap": f"{_SAMPLES}x_total 500 {_BEGIN + 9_000}\n",
        "NaN": f"{_SAMPLES}x_total NaN {_BEGIN + 300}\n",
        "duplicate row": f"{_SAMPLES}x_total 19 {_BEGIN + 285}\n",
    },
    "json": {
        "gap": _MATRIX % f'{_PAIRS},[{_BEGIN + 9_000},"500"]',
        "NaN": _MATRIX % f'{_PAIRS},[{_BEGIN + 300},"NaN"]',
        "duplicate row": _MATRIX % f'{_PAIRS},[{_BEGIN + 285},"19"]',
    },
}


def _bad_input() -> Iterator[Figure]:
    """Each is refused with file and remedy, or taken as documented: unknown is unknown, and never zero."""
    with tempfile.TemporaryDirectory() as folder:
        for parser, cases in REFUSED.items():
            wrong = [what for what, text in cases.items() if not _refused(Path(folder) / "x", text)]
            note = f"of {', '.join(cases)}" + (f"; NOT: {', '.join(wrong)}" if wrong else "")
            yield Figure(
                f"rules.bad_input.{parser}.refused", len(cases) - len(wrong), "1", len(cases), Goal.EXACTLY, note
            )
        for parser, cases in TAKEN.items():
            wrong = [what for what, text in cases.items() if not _taken(Path(folder) / "x", text)]
            note = f"of {', '.join(cases)}" + (f"; NOT: {', '.join(wrong)}" if wrong else "")
            yield Figure(
                f"rules.bad_input.{parser}.taken", len(cases) - len(wrong), "1", len(cases), Goal.EXACTLY, note
            )


def _refused(path: Path, text: str) -> bool:
    path.write_text(text, encoding="utf-8")
    try:
        read_record(path)
    except OperatorError as error:
        return str(error).startswith(str(path)) and error.exit_code == 2
    return False


def _taken(path: Path, text: str) -> bool:
    path.write_text(text, encoding="utf-8")
    try:
        (flow,) = read_record(path).flows
    except OperatorError:
        return False
    return bool((flow.main.rate[:15] > 0).any())


# ---------------------------------------------------------------- a gigabyte


def _csv(file: TextIO) -> Iterator[str]:
    file.write("Time,n1 rx,n1 tx\n")
    return (f"{_BEGIN + 15 * at},{at % 977 + 1} kB/s,{at % 97 + 1}.{at % 10} MB/s\n" for at in count())


def _openmetrics(_file: TextIO) -> Iterator[str]:
    name = 'node_network_receive_bytes_total{device="eth0",instance="192.0.2.1:9100",job="node"}'
    return (f"{name} {at * 1000} {_BEGIN + 15 * at}\n" for at in count())


def _json(file: TextIO) -> Iterator[str]:
    start, _ = (_MATRIX % "@").split("@")
    file.write(start + f'[{_BEGIN - 15},"0"]')
    return (f',[{_BEGIN + 15 * at},"{at * 1000}"]' for at in count())


_FORMATS: dict[str, Callable[[TextIO], Iterator[str]]] = {"csv": _csv, "openmetrics": _openmetrics, "json": _json}


def _gigabytes() -> Iterator[Figure]:
    with ExitStack() as closing:
        # Each in a process of its own, so that what it grew by is its own.
        alone = {parser: closing.enter_context(ProcessPoolExecutor(1)) for parser in _FORMATS}
        running = {parser: pool.submit(_gigabyte, parser) for parser, pool in alone.items()}
        for parser, done in running.items():
            size, spent_s, grown = done.result()
            name = f"rules.gigabyte.{parser}"
            yield Figure(f"{name}.memory_grown", grown, "B", MOST_GROWN, note=f"while {size} B were read")
            yield Figure(f"{name}.bytes_per_s", round(size / spent_s), "B/s", note=f"{spent_s:.0f} s of one core")


def _gigabyte(parser: str) -> tuple[int, float, int]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "record"
        with path.open("w", encoding="ascii") as file:
            rows = _FORMATS[parser](file)
            while file.tell() < GIGABYTE:
                file.write("".join(row for row, _ in zip(rows, range(50_000), strict=False)))
            if parser == "json":
                file.write("]}]}}")
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        begin = time.process_time()
        read_record(path)
        spent_s = time.process_time() - begin
        grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024
        return path.stat().st_size, spent_s, grown
