"""The generators among themselves, on loopback; what they look like on a wire is in test_rig.py."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest

from hil.traffic import allreduce, blast, frames, inference, outcome, transfer
from protos.units import NS_PER_S

_FIRST_PORT = 10_000 + os.getpid() % 400 * 50  # below the ephemeral ports, another for each test run


def at(number: int) -> str:
    """Return a loopback address of this test run's own."""
    return f"127.0.0.1:{_FIRST_PORT + number}"


def start(module: str, *arguments: str) -> subprocess.Popen[str]:
    argv = [sys.executable, "-m", f"hil.traffic.{module}", *arguments]
    return subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def finish(process: subprocess.Popen[str]) -> dict[str, Any]:
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    record: dict[str, Any] = json.loads(out)
    assert int(record["end_ns"]) > int(record["start_ns"])
    return record


def test_a_transfer_is_exact_and_confirmed() -> None:
    receiver = start("transfer", "receive", "--listen", at(1))
    sender = finish(start("transfer", "send", "--target", at(1), "--bytes", "1234567B"))
    assert sender["bytes_sent"] == "1234567"
    assert finish(receiver)["bytes_received"] == "1234567"


def test_a_paced_transfer_takes_its_time() -> None:
    receiver = start("transfer", "receive", "--listen", at(2))
    sender = finish(start("transfer", "send", "--target", at(2), "--bytes", "2MB", "--rate", "4MB/s"))
    finish(receiver)
    assert 0.45 <= (int(sender["end_ns"]) - int(sender["start_ns"])) / NS_PER_S <= 2.0


def test_nobody_to_send_to_is_an_error_in_time() -> None:
    sender = start("transfer", "send", "--target", at(3), "--bytes", "1kB", "--within", "300ms")
    out, err = sender.communicate(timeout=20)
    assert sender.returncode == 1
    assert out == ""
    assert "refused" in err


@pytest.mark.parametrize("ranks", [2, 3, 4])
def test_an_all_reduce_adds_up_on_every_rank(ranks: int) -> None:
    ring = ",".join(at(10 * ranks + rank) for rank in range(ranks))
    bounds = ("--bytes", "100kB", "--for", "20s", "--iterations", "5")
    processes = [start("allreduce", "--rank", str(rank), "--ring", ring, *bounds) for rank in range(ranks)]
    records = [finish(process) for process in processes]
    assert {record["detail"]["iterations"] for record in records} == {5}
    per_iteration = 2 * (ranks - 1) * 100_000 // ranks
    for record in records:
        assert abs(int(record["bytes_sent"]) - 5 * per_iteration) <= 5 * 8 * ranks + 6
    assert sum(int(each["bytes_sent"]) for each in records) == sum(int(each["bytes_received"]) for each in records)


def test_a_wrong_sum_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(allreduce, "all_reduce", lambda _ring, vector, _rank, _ranks: vector)

    class Ring:
        def put(self, _data: bytes) -> None: ...

        def get(self, _length: int) -> bytes:
            return b"\x01"

    with pytest.raises(ArithmeticError, match="iteration 0"):
        allreduce._iterate(Ring(), (0, 2), 16, (2**62, 5, 0))  # type: ignore[arg-type]


def test_blast_keeps_its_rate_and_counts_what_arrives() -> None:
    receiver = start("blast", "receive", "--listen", at(5), "--for", "3s")
    arguments = ("--target", at(5), "--rate", "2MB/s", "--for", "1s", "--size", "1000")
    sender = start("blast", "send", *arguments)
    sent = finish(sender)
    got = finish(receiver)
    assert 1_600_000 <= int(sent["bytes_sent"]) <= 2_100_000
    assert sent["detail"]["frame_bytes"] == int(sent["packets_sent"]) * (1000 + blast.HEADER_BYTES)
    lost = int(sent["packets_sent"]) - int(got["packets_received"])
    assert lost == sent["detail"]["refused"] == 0 or lost <= 200, "only what was sent before the receiver listened"


def test_blast_stops_at_its_volume() -> None:
    receiver = start("blast", "receive", "--listen", at(6), "--for", "2s")
    arguments = (
        "--target",
        at(6),
        "--rate",
        "50MB/s",
        "--for",
        "10s",
        "--size",
        "1000",
        "--bytes",
        "100kB",
    )
    assert finish(start("blast", "send", *arguments))["packets_sent"] == "100"
    finish(receiver)


def test_both_sides_of_inference_count_the_same() -> None:
    server = start("inference", "serve", "--listen", at(7), "--for", "2s")
    arguments = ("--target", at(7), "--rate", "8", "--for", "1s", "--seed", "7")
    asked, served = finish(start("inference", "ask", *arguments)), finish(server)
    assert asked["detail"]["failed"] + served["detail"]["failed"] == 0
    assert asked["detail"]["requests"] == served["detail"]["requests"] >= 2
    assert asked["bytes_received"] == served["bytes_sent"]
    assert asked["bytes_sent"] == served["bytes_received"]


@pytest.mark.parametrize(
    ("main", "arguments"),
    [
        (transfer.main, ["send", "--target", "10.77.0.3:9000", "--bytes", "10Mb"]),
        (transfer.main, ["send", "--target", "10.77.0.3", "--bytes", "10MB"]),
        (transfer.main, ["send", "--target", "10.77.0.3:9000", "--bytes", "1000TB"]),
        (blast.main, ["send", "--target", "10.77.0.3:9000", "--rate", "5MB", "--for", "1s"]),
        (blast.main, ["send", "--target", "10.77.0.3:9000", "--rate", "5MB/s", "--for", "2h"]),
        (blast.main, ["send", "--target", "10.77.0.3:99999", "--rate", "5MB/s", "--for", "2s"]),
        (frames.main, ["send", "--device", "eth0", "--to", "ff:ff", "--length", "64", "--count", "1"]),
        (frames.main, ["send", "--device", "eth0", "--to", "02:00:00:00:00:01", "--length", "4", "--count", "1"]),
        (allreduce.main, ["--rank", "2", "--ring", "a:1,b:2", "--bytes", "4MB", "--for", "1s"]),
        (allreduce.main, ["--rank", "0", "--ring", "a:1,b:2", "--bytes", "10B", "--for", "1s"]),
        (inference.main, ["ask", "--target", "10.77.0.1:8000", "--for", "1s", "--rate", "0"]),
    ],
)
def test_arguments_that_are_refused(main: Any, arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as refused:
        main(arguments)
    assert refused.value.code == 2
    assert "error: " in capsys.readouterr().err


def test_the_pace_is_kept_on_average(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0]
    monkeypatch.setattr("hil.traffic.outcome.time.monotonic_ns", lambda: clock[0])
    pace = outcome.Pace(1000)
    assert pace.wait_ns(500) == NS_PER_S // 2
    clock[0] = 2 * NS_PER_S
    assert pace.wait_ns(500) == 0, "behind: no pause"
    assert pace.wait_ns(2000) == NS_PER_S, "3000 bytes are due after three seconds"
    assert outcome.Pace(None).wait_ns(10**9) == 0
