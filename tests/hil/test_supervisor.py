"""The supervisor, run as an ordinary process over a folder of its own: no namespaces, no root."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hil.servicefile import ServiceError, parse_definition
from hil.supervisorctl import ask

_PROGRAM = """
import os, sys
from pathlib import Path
from hil.controlsocket import serve
from hil.supervisor import Supervisor
folder = Path(sys.argv[1])
serve(Supervisor(folder / "services", folder, dict(os.environ)), sys.argv[2], grace_s=2.0)
"""
LOOP = ["/bin/sh", "-c", "while :; do sleep 0.05; done"]


class Running:
    """A supervisor that runs, and short words for talking to it."""

    def __init__(self, folder: Path, path: str, process: subprocess.Popen[str]) -> None:
        self.folder, self.path, self.process = folder, path, process

    def define(self, name: str, argv: list[str], **more: object) -> None:
        text = json.dumps({"argv": argv, **more})
        (self.folder / "services" / f"{name}.json").write_text(text, encoding="utf-8")

    def ask(self, command: str, name: str | None = None) -> dict[str, Any]:
        return ask(command, name, self.path)

    def service(self, name: str) -> dict[str, Any]:
        (service,) = self.ask("status", name)["services"]
        found: dict[str, Any] = service
        return found

    def until(self, name: str, condition: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        deadline = time.monotonic() + 10
        while not condition(service := self.service(name)):
            assert time.monotonic() < deadline, service
            time.sleep(0.01)
        return service


@contextlib.contextmanager
def supervising(folder: Path, path: str, **options: Any) -> Iterator[subprocess.Popen[str]]:
    """Run a supervisor over ``folder`` until the end; it must then stop by itself."""
    process = subprocess.Popen([sys.executable, "-c", _PROGRAM, str(folder), path], text=True, **options)
    try:
        deadline = time.monotonic() + 20
        while not os.path.exists(path):  # noqa: PTH110
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.01)
        yield process
        process.terminate()
        assert process.wait(20) == 0
    finally:
        process.kill()
        process.wait(20)
        if process.stdout is not None:
            process.stdout.close()


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Running]:
    folder = tmp_path / "with a space"
    (folder / "services").mkdir(parents=True)
    path = str(tmp_path / "s")  # the path of a Unix socket is short
    with supervising(folder, path) as process:
        yield Running(folder, path, process)


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_start_stop_and_status(running: Running) -> None:
    running.define("loop", LOOP)
    assert running.ask("start", "loop")["ok"]
    service = running.service("loop")
    assert service["state"] == "running"
    assert alive(service["pid"])
    assert running.ask("start", "loop")["services"][0]["pid"] == service["pid"], "start of a running service is a no-op"
    assert running.ask("stop", "loop")["ok"]
    stopped = running.service("loop")
    assert (stopped["state"], stopped["pid"]) == ("stopped", None)
    assert not alive(service["pid"])
    assert [each["name"] for each in running.ask("status")["services"]] == ["loop"]


def test_restart_takes_the_new_definition_and_another_process(running: Running) -> None:
    running.define("loop", LOOP)
    before = running.ask("start", "loop")["services"][0]["pid"]
    running.define("loop", ["/bin/sh", "-c", "echo again; sleep 60"])
    answer = running.ask("restart", "loop")
    assert answer["ok"]
    assert answer["services"][0]["pid"] != before
    running.until("loop", lambda _: "again" in (running.folder / "loop.log").read_text(encoding="utf-8"))
    assert running.ask("restart", "loop")["ok"], "also of one that was never stopped"


def test_what_ends_is_started_again_and_slower_each_time(running: Running) -> None:
    running.define("brief", ["/bin/sh", "-c", "date +%s%N; exit 3"])
    running.ask("start", "brief")
    service = running.until("brief", lambda each: each["restarts"] >= 3 and each["pid"] is None)
    assert service["last_exit"] == "exit code 3"
    running.ask("stop", "brief")
    starts = [int(line) / 1e9 for line in (running.folder / "brief.log").read_text(encoding="utf-8").split()]
    pauses = [later - earlier for earlier, later in itertools.pairwise(starts)]
    assert pauses[0] >= 0.09
    assert pauses[1] >= 0.19
    assert pauses[2] >= 0.39


@pytest.mark.parametrize(
    ("code", "restart", "again"), [(0, "on-failure", False), (1, "on-failure", True), (1, "never", False)]
)
def test_restart_policies(running: Running, code: int, restart: str, again: bool) -> None:
    running.define("once", ["/bin/sh", "-c", f"exit {code}"], restart=restart)
    running.ask("start", "once")
    if again:
        running.until("once", lambda each: each["restarts"] >= 1)
        running.ask("stop", "once")
    else:
        service = running.until("once", lambda each: each["pid"] is None)
        time.sleep(0.3)
        assert running.service("once")["restarts"] == 0
        assert service["state"] == ("stopped" if code == 0 else "failed")


def test_a_service_that_will_not_stop_is_killed(running: Running) -> None:
    argv = ["/bin/sh", "-c", "trap '' TERM; echo ready; while :; do sleep 0.05; done"]
    running.define("stubborn", argv, stop_timeout_s=0.3)
    pid = running.ask("start", "stubborn")["services"][0]["pid"]
    running.until("stubborn", lambda _: "ready" in (running.folder / "stubborn.log").read_text(encoding="utf-8"))
    began = time.monotonic()
    answer = running.ask("stop", "stubborn")
    assert time.monotonic() - began >= 0.3
    assert answer["services"][0]["last_exit"] == "killed by signal SIGKILL"
    assert not alive(pid)


def test_what_a_service_leaves_behind_goes_with_it(running: Running) -> None:
    running.define("parent", ["/bin/sh", "-c", "sleep 300 & echo $!; exit 0"], restart="never")
    running.ask("start", "parent")
    running.until("parent", lambda each: each["pid"] is None)
    child = int((running.folder / "parent.log").read_text(encoding="utf-8"))
    deadline = time.monotonic() + 5
    while alive(child):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_reload(running: Running) -> None:
    running.define("loop", LOOP)
    first = running.ask("start", "loop")["services"][0]["pid"]
    assert running.ask("reload", "loop")["services"][0]["pid"] == first, "unchanged: left alone"
    running.define("loop", LOOP, env={"A": "b"})
    assert running.ask("reload", "loop")["services"][0]["pid"] != first
    (running.folder / "services" / "loop.json").unlink()
    assert "forgotten" in running.ask("reload", "loop")["text"]
    assert running.ask("status")["services"] == []
    assert not running.ask("status", "loop")["ok"]


def test_environment_and_directory(running: Running) -> None:
    running.define(
        "env", ["/bin/sh", "-c", "echo $COLOUR; pwd"], env={"COLOUR": "green"}, cwd=str(running.folder), restart="never"
    )
    running.ask("start", "env")
    running.until("env", lambda each: each["pid"] is None)
    assert (running.folder / "env.log").read_text(encoding="utf-8").splitlines() == ["green", str(running.folder)]


def test_what_cannot_be_executed_is_said(running: Running) -> None:
    running.define("ghost", ["/nonexistent/program"])
    answer = running.ask("start", "ghost")
    assert not answer["ok"]
    assert "/nonexistent/program" in answer["text"]
    assert running.service("ghost")["state"] == "failed"


@pytest.mark.parametrize(
    ("command", "name", "said"),
    [
        ("start", "absent", "does not exist"),
        ("stop", "absent", "no service 'absent'"),
        ("reload", "absent", "no service 'absent'"),
        ("start", "../../etc/passwd", "is not a service name"),
        ("restart", None, "is not a service name"),
        ("explode", "absent", "unknown command 'explode'"),
    ],
)
def test_requests_that_are_refused(running: Running, command: str, name: str | None, said: str) -> None:
    answer = running.ask(command, name)
    assert not answer["ok"]
    assert said in answer["text"]


@pytest.mark.parametrize("line", [b"\n", b"[]\n", b"{\n", b"\xff\xfe\n", b'{"command": 7}\n', b"x" * 70_000])
def test_nonsense_does_not_end_the_supervisor(running: Running, line: bytes) -> None:
    with socket.socket(socket.AF_UNIX) as peer:
        peer.connect(running.path)
        try:
            peer.sendall(line)
            peer.shutdown(socket.SHUT_WR)
            answer = peer.recv(65536)
        except (BrokenPipeError, ConnectionResetError):
            answer = b""  # it hung up in the middle of too long a line
    assert not answer or not json.loads(answer)["ok"]
    assert running.ask("status")["ok"]


def test_a_bad_file_does_not_keep_the_others_from_starting(tmp_path: Path) -> None:
    (tmp_path / "services").mkdir()
    (tmp_path / "services" / "a-bad.json").write_text("{", encoding="utf-8")
    (tmp_path / "services" / "b-good.json").write_text(json.dumps({"argv": LOOP}), encoding="utf-8")
    (tmp_path / "services" / "c-off.json").write_text(json.dumps({"argv": LOOP, "enabled": False}), encoding="utf-8")
    path = str(tmp_path / "s")
    with supervising(tmp_path, path, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert "a-bad.json: not JSON" in process.stdout.readline()
        assert "b-good: started" in process.stdout.readline()
        states = {each["name"]: each["state"] for each in ask("status", None, path)["services"]}
        assert states == {"b-good": "running", "c-off": "stopped"}


def test_sigterm_stops_the_services_first(running: Running) -> None:
    running.define("polite", ["/bin/sh", "-c", "trap 'echo bye; exit 0' TERM; echo hi; while :; do sleep 0.05; done"])
    pid = running.ask("start", "polite")["services"][0]["pid"]
    running.until("polite", lambda _: "hi" in (running.folder / "polite.log").read_text(encoding="utf-8"))
    running.process.terminate()
    assert running.process.wait(10) == 0
    assert "bye" in (running.folder / "polite.log").read_text(encoding="utf-8")
    assert not alive(pid)


def test_a_definition_says_everything() -> None:
    given_text = {"argv": ["/bin/true"], "env": {"A": "1"}, "restart": "never", "cwd": "/tmp"}
    definition = parse_definition(json.dumps({**given_text, "enabled": False, "stop_timeout_s": 2}), "x.json")
    assert definition.argv == ("/bin/true",)
    assert definition.env == {"A": "1"}
    assert (definition.restart, definition.cwd, definition.enabled, definition.stop_timeout_s) == (
        "never",
        "/tmp",
        False,
        2.0,
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "not JSON"),
        ("[]", "JSON object"),
        ('{"argv": ["a"], "user": "root"}', "unknown key 'user'"),
        ('{"argv": []}', "'argv'"),
        ('{"argv": "sshd -D"}', "'argv'"),
        ('{"argv": ["a"], "env": {"A": 1}}', "'env'"),
        ('{"argv": ["a"], "restart": "sometimes"}', "'restart'"),
        ('{"argv": ["a"], "enabled": "no"}', "'enabled'"),
        ('{"argv": ["a"], "stop_timeout_s": -1}', "'stop_timeout_s'"),
        ('{"argv": ["a"], "stop_timeout_s": true}', "'stop_timeout_s'"),
        ("{}", "'argv'"),
    ],
)
def test_definitions_that_are_refused(text: str, said: str) -> None:
    with pytest.raises(ServiceError, match=r"^x\.json: ") as refused:
        parse_definition(text, "x.json")
    assert said in str(refused.value)


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["argv", "env", "restart", "x"]), inner)
    ),
    max_leaves=8,
)


@given(_JSON)
def test_any_json_is_a_definition_or_refused(value: object) -> None:
    try:
        definition = parse_definition(json.dumps(value), "x.json")
    except ServiceError:
        return
    assert definition.argv
    assert all(isinstance(part, str) for part in definition.argv)
