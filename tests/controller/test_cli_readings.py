"""``weighbridge crosscheck --readings``: the cross-check on numbers from anywhere, by the door that others test."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from controller.cli import app

S = 1_000_000_000
Row = dict[str, Any]
RESULTS = {0: "compliant", 1: "violation", 3: "inconclusive"}
EVERYONE = ("host", "dpu.host_port", "dpu.uplink", "switch")
PERIOD = ("--from-ns", str(12 * S), "--to-ns", str(68 * S))
LIMIT = ("--limit", "10s:2MB")


def row(observer: str, at: int, count: int, **more: Any) -> Row:
    """A reading true within a millisecond, of 1,000-byte frames."""
    return {
        "observer": observer,
        "link": "node1/p0",
        "direction": "egress",
        "earliest_ns": str(at),
        "latest_ns": str(at + 1_000_000),
        "bytes": str(count),
        "packets": str(count // 1_000),
        "epoch": 0,
        "framing": "l2_without_fcs",
        "bits": 64,
    } | more


def steady(observer: str, rate: int = 100_000, base: int = 0, **more: Any) -> Iterator[Row]:
    """A reading a second from 10 s to 70 s, of traffic from 15 s to 65 s."""
    for second in range(10, 71):
        yield row(observer, second * S, base + min(max(second - 15, 0), 50) * rate, **more)


def honest() -> list[Row]:
    return [one for observer in EVERYONE for one in steady(observer)]


Ask = Callable[..., tuple[int, dict[str, Any], str]]


@pytest.fixture
def ask(tmp_path: Path) -> Ask:
    def judged(rows: Sequence[Row], *options: str) -> tuple[int, dict[str, Any], str]:
        path = tmp_path / "readings.jsonl"
        path.write_text("".join(f"{json.dumps(one)}\n" for one in rows))
        period = () if "--from-ns" in options else PERIOD
        result = CliRunner().invoke(app, ["crosscheck", "--readings", str(path), *period, *options, "--json"])
        body = json.loads(result.stdout) if result.stdout else {}
        assert RESULTS.get(result.exit_code) == body.get("verdict"), result.stderr
        return result.exit_code, body, result.stderr

    return judged


def kinds(body: dict[str, Any]) -> set[str]:
    return {finding["kind"] for finding in body["findings"]}


def test_who_is_honest_and_within_the_limit_is_compliant_and_the_scope_is_stated(ask: Ask) -> None:
    code, body, said = ask(honest(), *LIMIT)
    assert code == 0
    assert body["findings"] == []
    assert "other switch ports" in body["scope"]
    assert "other switch ports" in said
    (link,) = body["links"]
    assert link["observers"]["switch"] == {"lower_bytes": "5000000", "upper_bytes": "5000000"}
    assert (link["node"], link["pod"]) == ("node1", "")


def test_a_host_that_leaves_out_one_percent_is_named(ask: Ask) -> None:
    rows = [one for one in honest() if one["observer"] != "host"] + list(steady("host", 99_000))
    code, body, _ = ask(rows, *LIMIT, "--in-flight", "0")
    assert code == 1
    (finding,) = body["findings"]
    assert (finding["kind"], finding["certain"]) == ("host-under-reports", True)
    assert finding["bytes_at_least"] == "50000"
    # The same is no proof if so much may be in flight.
    assert ask(rows, *LIMIT, "--in-flight", "50kB")[1]["findings"] == []


def test_a_limit_broken_is_a_violation_with_the_window(ask: Ask) -> None:
    code, body, _ = ask(honest(), "--limit", "10s:900kB", "--limit", "60s:100MB")
    assert code == 1
    assert kinds(body) == {"limit-exceeded"}
    broken, kept = body["links"][0]["limits"]
    assert (broken["kept"], kept["kept"]) == ("no", "yes")
    assert int(broken["worst_at_least_bytes"]) >= 900_000


def test_one_domain_is_taken_at_its_word_and_never_makes_compliance(ask: Ask) -> None:
    alone = list(steady("switch"))
    code, body, _ = ask(alone, "--limit", "10s:900kB")
    assert (code, body["assumptions"]["liars"]) == (1, 0)
    code, body, _ = ask(alone, *LIMIT)
    assert code == 3
    assert body["links"][0]["limits"][0]["kept"] == "yes"


def test_a_limit_that_a_steady_rate_just_exceeds_is_found_over_many_windows(ask: Ask) -> None:
    """Three readings ten windows apart, and no single window that shows it."""
    rows = [row("switch", k * 10_000, k * 11_000_000, latest_ns=k * 10_000 + 20, packets=None) for k in range(3)]
    code, body, _ = ask(rows, "--from-ns", "0", "--to-ns", "20020", "--limit", "1000ns:1MB")
    assert code == 1
    (limit,) = body["links"][0]["limits"]
    assert limit["kept"] == "no"
    assert "1,000,000 B) too much" in limit["text"]


def test_the_worst_window_of_a_switch_that_keeps_copies(ask: Ask) -> None:
    rows = [
        row("switch", 15 * k - 3, 15 * k - 1, latest_ns=15 * k, packets=None, bytes=15 * k - 1) for k in range(1, 41)
    ]
    body = ask(rows, "--from-ns", "15", "--to-ns", "597", "--limit", "300ns:1MB")[1]
    assert body["links"][0]["limits"][0]["worst_at_most_bytes"] == "330"


def test_a_line_rate_tightens(ask: Ask) -> None:
    readings = [(0, 0, 0), (100, 130, 50_000), (200, 230, 60_000)]
    rows = [row("switch", e, v, latest_ns=latest, packets=None) for e, latest, v in readings]
    period = ("--from-ns", "0", "--to-ns", "110")
    interval = ask(rows, *period)[1]["links"][0]["observers"]["switch"]
    assert interval == {"lower_bytes": "0", "upper_bytes": "60000"}
    line = ("--line-rate", "node1/p0=1000GB/s", "--assume", "largest_frame=1500B")
    interval = ask(rows, *period, *line)[1]["links"][0]["observers"]["switch"]
    assert interval == {"lower_bytes": "28500", "upper_bytes": "60000"}


# ---------------------------------------------------------------- bad input, each by rule


def test_order_and_duplicates_change_nothing(ask: Ask) -> None:
    straight, shuffled = ask(honest(), *LIMIT), ask(honest()[::-1] + honest(), *LIMIT)
    assert straight == shuffled


def test_a_reading_from_the_future_is_used_for_what_it_proves(ask: Ask) -> None:
    """After the period it bounds the end; decades away it is left out, and said so."""
    assert ask([*honest(), row("switch", 500 * S, 5_000_000)], *LIMIT)[0] == 0
    code, body, _ = ask([*honest(), row("switch", 2**62, 5_000_000)], *LIMIT)
    assert code == 3
    assert any("decades away" in text for text in body["links"][0]["undecided"])


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        (row("switch", 40 * S, 5), "the counter fell"),
        (row("switch", 40 * S, 2**64 - 1), "contradict"),
    ],
)
def test_what_no_counter_does_voids_its_observer_and_accuses_nobody(ask: Ask, bad: Row, said: str) -> None:
    code, body, _ = ask([*honest(), bad], *LIMIT)
    assert code == 3
    (link,) = body["links"]
    assert link["observers"]["switch"]["upper_bytes"] is None
    assert any(said in text for text in link["undecided"])
    assert not any(finding["certain"] for finding in body["findings"])


def test_packets_that_fall_leave_the_bytes_standing_and_the_verdict_open(ask: Ask) -> None:
    code, body, _ = ask([*honest(), row("switch", 40 * S, 2_500_000, packets=4_000_000)], *LIMIT)
    assert code == 3
    (link,) = body["links"]
    assert link["observers"]["switch"]["upper_bytes"] == "5000000"
    assert any("packets: its readings" in text for text in link["undecided"])


def test_packets_without_bytes_prove_nothing_and_the_silence_is_told(ask: Ask) -> None:
    rows = [
        one | {"bytes": None} if one["observer"] == "switch" and 20 * S < int(one["earliest_ns"]) < 50 * S else one
        for one in honest()
    ]
    code, body, _ = ask(rows, *LIMIT)
    assert code == 3
    (gap,) = body["findings"]
    assert gap["kind"] == "coverage-gap"
    assert "it answered without a byte count" in gap["text"]


def test_packets_that_rise_without_bytes_are_a_contradiction(ask: Ask) -> None:
    rows = [one if one["observer"] != "switch" else one | {"bytes": "0"} for one in honest()]
    code, body, _ = ask(rows, *LIMIT)
    assert code == 3
    assert any("its packets need at least" in text for text in body["links"][0]["undecided"])


def test_a_refresh_period_that_is_not_kept_is_the_explanation_with_its_margin(ask: Ask) -> None:
    """The switch serves copies 10 s old and says 3 s: what the DPU counted long ago it shows only now."""
    rows = []
    for second in range(10, 91):
        for observer, age, declared in (("dpu.host_port", 0, 0), ("dpu.uplink", 0, 0), ("switch", 10, 3)):
            count = min(max(second - age - 15, 0), 50) * 100_000
            rows.append(row(observer, (second - declared) * S, count, latest_ns=second * S + 1_000_000))
    _, body, _ = ask(rows, *LIMIT, "--from-ns", str(12 * S), "--to-ns", str(85 * S))
    laws = {law["law"]: law for law in body["links"][0]["laws"]}
    assert laws["switch <= dpu.uplink"]["holds"] == "no"
    # 7 s were not declared; of both observers, each window wider by half of it at either end would do.
    assert 2 * S < int(laws["switch <= dpu.uplink"]["margin_ns"]) < 7 * S
    assert "unless every time is wrong by more than" in laws["switch <= dpu.uplink"]["margin"]
    (finding,) = [one for one in body["findings"] if one["certain"]]
    assert (finding["kind"], finding["margin"]) == ("observers-disagree", laws["switch <= dpu.uplink"]["margin"])


def test_drop_counters_in_bytes_and_in_packets_are_allowed_for(ask: Ask) -> None:
    rows = [one for one in honest() if one["observer"] in ("host", "dpu.host_port")]
    rows += list(steady("dpu.uplink", 80_000)) + list(steady("switch", 80_000))
    law = "dpu.host_port <= dpu.uplink + drops"

    def holds(extra: Sequence[Row]) -> str:
        return str({one["law"]: one for one in ask([*rows, *extra], *LIMIT)[1]["links"][0]["laws"]}[law]["holds"])

    def dropped(rate: int) -> list[Row]:
        return list(steady("dpu.uplink", rate, counter="limiter_drops", packets=None))

    assert holds([]) == "unknown"
    assert holds(dropped(20_000)) == "yes"
    assert holds(dropped(19_000)) == "no"
    packets = [one | {"bytes": None, "packets": str(int(one["bytes"]) // 1_000)} for one in dropped(20_000)]
    assert holds([one | {"counter": "discards"} for one in packets]) == "yes"


def test_a_32_bit_counter_is_followed_by_its_line_rate(ask: Ask) -> None:
    rows = [
        one | {"bytes": str((int(one["bytes"]) + 2**32 - 1_000_000) % 2**32), "bits": 32} for one in steady("switch")
    ]
    line = ("--line-rate", "node1/p0=1Gbit/s")
    interval = ask(rows, *line)[1]["links"][0]["observers"]["switch"]
    assert interval == {"lower_bytes": "5000000", "upper_bytes": "5000000"}


# ---------------------------------------------------------------- selection


def test_only_what_is_asked_for_is_judged_and_the_rest_is_named(ask: Ask) -> None:
    other = [one | {"link": "node2/p0"} for one in honest() if one["observer"] != "host"]
    other += [one | {"link": "node2/p0"} for one in steady("host", 50_000)]
    rows = [*honest(), *other]
    assert ask(rows, *LIMIT)[0] == 1
    code, body, _ = ask(rows, *LIMIT, "--link", "node1/p0")
    assert code == 0
    assert [link["link"] for link in body["links"]] == ["node1/p0"]
    assert "with which the verdict is violation" in body["scope"]
    code, body, _ = ask(rows, *LIMIT, "--limit", "60s:100MB", "--window", "60s")
    assert code == 1
    assert {limit["window_ns"] for link in body["links"] for limit in link["limits"]} == {str(60 * S)}


# ---------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--limit", "300s"), "write a window and the most bytes in it"),
        (("--limit", "300s:10Mb"), "ambiguous"),
        (("--limit", "0s:10MB"), "must be more than nothing"),
        (("--line-rate", "1Gbit/s"), "write a link and its rate"),
        (("--line-rate", "node9/p0=1Gbit/s"), "has no readings of it"),
        (("--line-rate", "node1/p0=0B/s"), "no line"),
        (("--assume", "queue=5MB"), "Names: in_flight"),
        (("--assume", "liars=3"), "0, 1 or 2"),
        (("--assume", "required_coverage=2"), "is not a share"),
        (("--in-flight", "5"), "write a number and a unit"),
        (("--in-flight", "0", "--assume", "in_flight=0"), "assumed twice"),
        (("--link", "node9/p0"), "There: node1/p0"),
        (("--pod", "pod-a"), "There: none"),
        (("--window", "5s"), "no limit has that window"),
    ],
)
def test_an_option_that_is_none_is_refused(tmp_path: Path, options: tuple[str, ...], said: str) -> None:
    path = tmp_path / "r.jsonl"
    path.write_text("".join(f"{json.dumps(one)}\n" for one in honest()))
    result = CliRunner().invoke(app, ["crosscheck", "--readings", str(path), *PERIOD, *options])
    assert result.exit_code == 2
    assert said in " ".join(result.stderr.split())
    assert result.stdout == ""


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ((), "--readings needs a period"),
        (("--last", "5m"), "--readings needs a period"),
        (("--from-ns", "5"), "go together"),
        (("--from-ns", "5", "--to-ns", "5"), "the period is empty"),
        (("--from-ns", "5", "--to-ns", "6", "--last", "5m"), "two different periods"),
    ],
)
def test_a_period_that_is_none_is_refused(tmp_path: Path, options: tuple[str, ...], said: str) -> None:
    path = tmp_path / "r.jsonl"
    path.write_text(f"{json.dumps(row('switch', 5, 5))}\n")
    result = CliRunner().invoke(app, ["crosscheck", "--readings", str(path), *options])
    assert result.exit_code == 2
    assert said in result.stderr


def test_bad_lines_are_named_with_file_line_and_remedy(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    path.write_text(f"{json.dumps(row('switch', 5, 5))}\n\nnonsense\n{json.dumps(row('switch', 5, 5, bytes=-1))}\n")
    result = CliRunner().invoke(app, ["crosscheck", "--readings", str(path), *PERIOD])
    assert result.exit_code == 2
    first, second = result.stderr.splitlines()
    assert f"{path}:3: not JSON" in first
    assert f"{path}:4: bytes -1 is not a whole number" in second


def test_no_file_an_empty_file_and_mixed_widths(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"

    def refused() -> str:
        result = CliRunner().invoke(app, ["crosscheck", "--readings", str(path), *PERIOD])
        assert result.exit_code == 2
        return " ".join(result.stderr.split())

    assert "cannot be read" in refused()
    path.write_text("\n")
    assert "no readings in it" in refused()
    path.write_text(f"{json.dumps(row('switch', 5, 5))}\n{json.dumps(row('switch', 6, 5, bits=32))}\n")
    assert "readings of 32 and of 64 bits" in refused()


def test_a_limit_without_readings_is_refused() -> None:
    result = CliRunner().invoke(app, ["crosscheck", "--limit", "10s:2MB"])
    assert result.exit_code == 2
    assert "go with --readings" in result.stderr
