"""``weighbridge switch poll``: one line a port and poll, against an agent of ours and against snmpd."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from controller import cli
from switch.recorded import RecordedPort
from switch.security import Timing

WEIGHBRIDGE = Path(sys.executable).with_name("weighbridge")


@dataclass
class Outcome:
    code: int
    lines: list[dict[str, Any]]
    err: str


def run(*arguments: str | Path) -> Outcome:
    result = CliRunner().invoke(cli.app, ["switch", "poll", *map(str, arguments)], prog_name="weighbridge")
    lines = [json.loads(line) for line in result.stdout.splitlines()] if "--json" in arguments else []
    return Outcome(result.exit_code, lines, result.stderr)


@pytest.fixture
def agent(fake_agent: Any) -> Iterator[Any]:
    """The agent of ours, answering from a thread of its own."""
    ready, done = threading.Event(), asyncio.Event()
    found: list[Any] = []
    loop = asyncio.new_event_loop()

    async def serve() -> None:
        async with fake_agent(RecordedPort(1, b"eth1", in_octets=2**53 + 1), RecordedPort(2, b"eth2")) as one:
            found.append(one)
            ready.set()
            await done.wait()

    thread = threading.Thread(target=lambda: loop.run_until_complete(serve()))
    thread.start()
    ready.wait(60)
    try:
        yield found[0]
    finally:
        loop.call_soon_threadsafe(done.set)
        thread.join(60)
        loop.close()


@pytest.mark.loopback
def test_one_line_a_port_and_poll(agent: Any) -> None:
    address = ("--address", f"127.0.0.1:{agent.port}", "--community", "public", "--insecure")
    began = time.monotonic()
    done = run(*address, "--ports", "eth1,nowhere", "--interval", "100ms", "--count", "3", "--json")
    took = time.monotonic() - began
    assert done.code == 0
    assert [(line["poll"], line["port"]) for line in done.lines] == [
        (number, port) for number in (1, 2, 3) for port in ("eth1", "nowhere")
    ]
    assert {line["counters"].get("in_octets") for line in done.lines[::2]} == {"9007199254740993"}
    assert {line["reason"] for line in done.lines[1::2]} == {"absent"}
    assert {line["epoch"] for line in done.lines[::2]} == {0}
    starts = [int(line["first_sent_ns"]) for line in done.lines[::2]]
    # Each not before its turn; a poll that began late does not put off the next.
    assert starts == sorted(set(starts))
    assert took > 0.19
    assert "rows read 3 of 6 (3 absent)" in done.err


@pytest.mark.loopback
@pytest.mark.parametrize("client", ["pysnmp", "direct"])
def test_each_client_reads_the_same_and_what_it_cost_is_a_line_at_the_end(agent: Any, client: str) -> None:
    address = ("--address", f"127.0.0.1:{agent.port}", "--community", "public", "--insecure")
    done = run(*address, "--ports", "eth1,eth2", "--count", "2", "--json", "--effort", "--client", client)
    assert done.code == 0
    assert [line["port"] for line in done.lines[:-1]] == ["eth1", "eth2"] * 2
    assert done.lines[0]["counters"]["in_octets"] == "9007199254740993"
    effort = done.lines[-1]["effort"]
    assert (effort["polls"], effort["rows_expected"], effort["rows_got"], effort["rows_missing"]) == (2, 4, 4, {})
    assert effort["requests_sent"] == len(agent.requests)
    assert int(effort["latency_median_ns"]) > 0


@pytest.mark.loopback
def test_without_ports_every_port_is_read_under_its_name(agent: Any) -> None:
    address = ("--address", f"127.0.0.1:{agent.port}", "--community", "public", "--insecure")
    done = run(*address, "--count", "2", "--interval", "50ms", "--json")
    assert [line["port"] for line in done.lines] == ["eth1", "eth2"] * 2


@pytest.mark.loopback
def test_silence_is_a_typed_reason_and_exit_code_3(agent: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("switch.connect.Timing", lambda: Timing(timeout_ns=200_000_000, attempts=2))
    agent.bend = lambda _request, _answer: []
    address = ("--address", f"127.0.0.1:{agent.port}", "--community", "public", "--insecure")
    done = run(*address, "--ports", "eth1", "--json")
    assert (done.code, [line["reason"] for line in done.lines]) == (3, ["timeout"])
    nameless = run(*address, "--json")
    assert (nameless.code, nameless.lines[0]["port"], nameless.lines[0]["reason"]) == (3, None, "timeout")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ((), "which switch"),
        (("--address", "127.0.0.1:1:1", "--user", "x"), "not an address"),
        (("--address", "127.0.0.1"), "how is the switch to be asked"),
        (("--address", "127.0.0.1", "--community", "public"), "forged"),
        (("--address", "127.0.0.1", "--community", "public", "--user", "x"), "how is the switch to be asked"),
        (("--address", "127.0.0.1", "--user", "weighbridge"), "--auth-key-file"),
        (("--address", "127.0.0.1", "sw1"), "two switches"),
        (("--address", "127.0.0.1", "--community", "x", "--insecure", "--effort"), "--json too"),
        (("--address", "127.0.0.1", "--interval", "10"), "--interval"),
        (("sw1", "--user", "weighbridge"), "only with --address"),
    ],
)
def test_wrong_options_are_refused_in_a_sentence(arguments: tuple[str, ...], says: str) -> None:
    done = run(*arguments)
    assert done.code == 2
    assert says in done.err
    assert done.err.count("\n") == 1


def test_a_secret_that_others_can_read_is_refused(tmp_path: Path) -> None:
    secret = tmp_path / "auth"
    secret.write_text("correct horse battery\n")
    secret.chmod(0o644)
    done = run("--address", "127.0.0.1", "--user", "x", "--auth-key-file", secret, "--priv-key-file", secret)
    assert done.code == 2
    assert "chmod 600" in done.err


@pytest.mark.rig
def test_snmpd_is_polled_without_a_site_file(snmpd: Any, tmp_path: Path) -> None:
    secrets: list[Path] = []
    for name, phrase in (("auth", "correct horse battery"), ("priv", "staple mustard seeds")):
        secrets.append(tmp_path / name)
        secrets[-1].write_text(f"{phrase}\n")
        secrets[-1].chmod(0o600)
    command: list[str | Path] = [
        "ip",
        "netns",
        "exec",
        snmpd.namespace,
        WEIGHBRIDGE,
        "switch",
        "poll",
        "--address",
        "127.0.0.1:161",
    ]
    keys: list[str | Path] = [
        "--auth-key-file",
        secrets[0],
        "--priv-key-file",
        secrets[1],
        "--refresh",
        "3.5s",
        "--json",
    ]
    rest = ["--ports", "eth1,eth2", "--interval", "200ms", "--count", "3"]
    done = subprocess.run([*command, "--user", "weighbridge", *keys, *rest], capture_output=True, text=True, check=True)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert [line["port"] for line in lines] == ["eth1", "eth2"] * 3
    assert {line["reason"] for line in lines} == {None}
    assert {int(line["first_sent_ns"]) - int(line["earliest_ns"]) for line in lines} == {3_500_000_000}
    stranger = subprocess.run(
        [*command, "--user", "stranger", *keys, *rest], check=False, capture_output=True, text=True
    )
    assert stranger.returncode == 2
    assert {json.loads(line)["reason"] for line in stranger.stdout.splitlines()} == {"auth"}
    assert f"check --user stranger, pass phrases in {secrets[0]} and {secrets[1]}" in " ".join(stranger.stderr.split())


def site_of(snmpd: Any, folder: Path, phrases: dict[str, str]) -> list[str | Path]:
    """Write a site file whose switch is the daemon; return the command that polls it by its name."""
    site = (Path(__file__).parents[1] / "controller" / "site_ok" / "demo.yaml").read_text()
    (folder / "site.yaml").write_text(site.replace("10.250.0.2:161", "127.0.0.1:161"))
    (folder / "secrets").mkdir()
    for name, phrase in phrases.items():
        secret = folder / "secrets" / f"sw1.{name}"
        secret.write_text(f"{phrase}\n")
        secret.chmod(0o600)
    asked = ["ip", "netns", "exec", snmpd.namespace, WEIGHBRIDGE, "switch", "poll", "sw1"]
    return [*asked, "--site", folder / "site.yaml"]


PHRASES = {"auth": "correct horse battery", "priv": "staple mustard seeds"}


@pytest.mark.rig
def test_snmpd_is_polled_by_its_name_in_the_site_file(snmpd: Any, tmp_path: Path) -> None:
    command = [*site_of(snmpd, tmp_path, PHRASES), "--json"]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    lines = {line["port"]: line for line in map(json.loads, done.stdout.splitlines())}
    # Every declared port once: the links' first, then the others; what the device does not have is absent.
    assert list(lines) == ["eth1", "eth2", "eth3", "eth4", "eth5"]
    assert [lines[f"eth{n}"]["reason"] for n in range(1, 6)] == [None, None, None, "absent", "absent"]
    one = lines["eth1"]
    assert int(one["counters"]["in_octets"]) >= 0
    assert int(one["earliest_ns"]) + 3_500_000_000 == int(one["first_sent_ns"]) < int(one["latest_ns"])
    assert (one["epoch"], one["framing"]) == (0, "l2_without_fcs")


@pytest.mark.rig
@pytest.mark.parametrize("wrong", ["auth", "priv"])
def test_a_wrong_pass_phrase_is_named_with_file_line_and_switch(snmpd: Any, tmp_path: Path, wrong: str) -> None:
    asked = site_of(snmpd, tmp_path, {**PHRASES, wrong: "not the pass phrase"})
    site = (tmp_path / "site.yaml").read_text()
    line = 1 + next(number for number, text in enumerate(site.splitlines()) if text.strip() == "snmp:")
    done = subprocess.run([*asked, "--ports", "eth1"], check=False, capture_output=True, text=True)
    assert done.returncode == 2, done.stderr
    told = " ".join(done.stderr.split())
    for part in ("sw1: 127.0.0.1:161", f"site.yaml:{line}: user `weighbridge`", f"{tmp_path}/secrets/sw1.{wrong}"):
        assert part in told, told
