"""Recorded counters go through as host claims: totals per phase, the 5-minute average undone, digits as ranges."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from controller.cli import app
from controller.crosscheck.model import Track
from controller.crosscheck.observed import observe
from controller.crosscheck.quantity import bounds
from controller.errors import OperatorError
from hil.recorded import Column, Range, lines, printed, read_column, readings
from protos.reading import Direction, Observer, Reading

GB = 10**9
S = 1_000_000_000
SYNC_GB = 48.2
ROWS = 19
"""Of 15 s, in the 285 s between the first and the last scrape of a 5-minute window."""
TYPED = """"Time","x","y"
2026-01-01 00:00:00,0 B,1 B/s
2026-01-01 00:00:15,1.50 kB,2.00 kB/s
"""


def column(traces: Path, name: str, number: int = 1) -> Column:
    return read_column((traces / f"{name}.csv").read_text("utf-8"), name, number)


def passed(found: tuple[Reading, ...], start: int, end: int) -> tuple[float, float]:
    """What the host certainly and possibly claims between two times, in GB."""
    seen = observe(Track(Observer.HOST, found), start)
    assert seen.problems == ()
    least, most = bounds(seen.bytes, 0, end - start)
    assert most is not None
    return least / GB, most / GB


def bursts(rates: Column, least_bytes_per_s: int) -> list[tuple[int, int]]:
    """Stretches of rows whose average is above a rate: first and last row of each."""
    rows = [index for index, value in enumerate(rates.values) if value.least > least_bytes_per_s]
    starts = [index for index in rows if index - 1 not in rows]
    ends = [index for index in rows if index + 1 not in rows]
    return list(zip(starts, ends, strict=True))


def test_every_sync_is_48_2_gb_in_the_counter_of_what_was_sent(traces: Path) -> None:
    total = column(traces, "diloco_total_bytes")
    found = readings(total)
    rising = [
        index
        for index in range(1, len(found))
        if found[index].bytes > found[index - 1].bytes + found[index - 1].bytes_slack + GB
    ]
    firsts = [index for index in rising if not any(index - back in rising for back in range(1, 12))]
    assert len(firsts) == 7
    for first in firsts:
        # From some rows before the burst to some minutes after it, where the counter stands still again.
        least, most = passed(found, total.times_ns[first - 5], total.times_ns[min(first + 19, len(found) - 2)])
        # 48.2 GB is three digits as well.
        assert least <= SYNC_GB + 0.05
        assert most >= SYNC_GB - 0.05
        assert most - least < 2.1  # two values of three digits, at up to 338 GB
    least, most = passed(found, total.times_ns[0], total.times_ns[-2])
    assert least <= 338 <= most


def test_the_average_over_five_minutes_is_undone_to_the_digit(traces: Path) -> None:
    """What was received: one initial load of 32.2 GB, then seven syncs of 48.2 GB, each within 1.5 %."""
    rates = column(traces, "diloco_internode_bytes_per_s")
    found = bursts(rates, 3_000_000)
    assert len(found) == 8
    for (first, _), volume in zip(found, [32.2, *[SYNC_GB] * 7], strict=True):
        # The burst is over within 15 rows: the window that ends there holds all of it.
        _, window, *_ = readings(rates, first=first + 15)
        assert window.bytes <= volume * GB <= window.bytes + window.bytes_slack
        assert window.bytes_slack < 0.015 * volume * GB


def test_a_model_load_is_28_5_gb_with_0_17_percent_the_other_way(traces: Path) -> None:
    name = "model_load_8b_internode_bytes_per_s"
    entered, left = column(traces, name, 1), column(traces, name, 2)
    (burst,) = bursts(entered, 10_000_000)
    (zero, loaded, *_), (nothing, sent, *_) = (readings(one, first=burst[0] + 1) for one in (entered, left))
    assert (zero.bytes, nothing.bytes, loaded.latest_ns - zero.latest_ns) == (0, 0, 285 * S)
    least, most = loaded.bytes, loaded.bytes + loaded.bytes_slack
    assert least <= 28.5 * GB <= most
    assert most - least < 0.3 * GB
    assert 0.0016 < sent.bytes / most < (sent.bytes + sent.bytes_slack) / least < 0.00175


def test_training_in_full_shards_is_two_gigabytes_a_second_without_a_pause(traces: Path) -> None:
    rates = column(traces, "baseline_internode_bytes_per_s")
    (longest,) = [one for one in bursts(rates, 2 * GB) if one[1] - one[0] > 400]
    chain = readings(rates, first=longest[0])
    windows = (longest[1] - longest[0]) // ROWS - 1
    # From within a window's edge to within another's: the edges are 15 s wide, the sums exact but for the digits.
    least, most = passed(chain, chain[1].latest_ns, chain[windows + 1].latest_ns)
    assert least < 285 * windows * 2.1 < most
    assert 285 * (windows - 1) * 2.05 < least
    assert most < 285 * (windows + 1) * 2.16 + 20


def test_recorded_claims_go_through_the_readings_door(traces: Path, tmp_path: Path) -> None:
    rates = column(traces, "diloco_internode_bytes_per_s")
    path = tmp_path / "r.jsonl"
    path.write_text("\n".join(lines(readings(rates, first=3), "node-a/eth0", Direction.INGRESS)))
    start, end = rates.times_ns[0], rates.times_ns[-1]
    arguments = ["crosscheck", "--readings", str(path), "--from-ns", str(start), "--to-ns", str(end)]
    result = CliRunner().invoke(app, [*arguments, "--limit", "600s:300MB", "--json"])
    # A host's word convicts nobody, and acquits nobody.
    assert result.exit_code == 3, result.stderr
    (link,) = json.loads(result.stdout)["links"]
    (limit,) = link["limits"]
    assert int(limit["worst_at_least_bytes"]) > 48 * GB
    assert (limit["exceeded_by"], limit["kept"]) == (["host"], "unknown")
    assert int(link["observers"]["host"]["lower_bytes"]) > (32 + 6 * 48) * GB


# ---------------------------------------------------------------- what is read, and what is refused


@pytest.mark.parametrize(
    ("text", "least", "most", "rate"),
    [
        ("0 B", 0, 1, False),
        ("388 kB", 387_500, 388_500, False),
        ("48.3 GB", 48_250_000_000, 48_350_000_000, False),
        ("1.49 kB/s", 1_485, 1_495, True),
        ("729 B/s", 728, 730, True),
    ],
)
def test_a_printed_number_is_a_range(text: str, least: int, most: int, rate: bool) -> None:
    assert printed(text) == (Range(least, most), rate)


def test_columns_by_number_with_their_times() -> None:
    volumes, rates = read_column(TYPED, "t", 1), read_column(TYPED, "t", 2)
    assert (volumes.name, volumes.rates, volumes.step_s) == ("x", False, 15)
    assert rates.rates
    first, second = readings(volumes)
    assert (second.earliest_ns, second.bytes, second.bytes_slack) == (first.latest_ns, 1_495, 10)
    zero, one = readings(rates, first=1)
    assert (zero.bytes, one.bytes, one.bytes + one.bytes_slack) == (0, 285 * 1_995, 285 * 2_005)
    assert one.latest_ns - zero.latest_ns == 285 * S


@pytest.mark.parametrize(
    ("text", "number", "said"),
    [
        (TYPED, 3, "no column 3"),
        (TYPED, 0, "no column 0"),
        ("", 1, "no column 1"),
        (TYPED.replace("1.50 kB", "1.50 KiB"), 1, "t:3: '1.50 KiB' is not a number"),
        (TYPED.replace("00:00:15", "noon"), 1, "t:3: "),
        (TYPED.replace("1.50 kB", "1.50 kB/s"), 1, "of one step and of one kind"),
        (TYPED + "2026-01-01 00:00:45,1 B,1 B/s\n", 1, "of one step and of one kind"),
        (TYPED + "2026-01-01 00:00:30\n", 1, "t:4: "),
    ],
)
def test_what_is_no_export_is_refused(text: str, number: int, said: str) -> None:
    with pytest.raises(OperatorError) as error:
        read_column(text, "t", number)
    assert said in str(error.value)
