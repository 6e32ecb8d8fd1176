"""The command line, and every bad input: a sentence with file and remedy, exit code 2, nothing changed on disk."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from dpu_agent import cli, home
from dpu_agent.disk import Disk
from dpu_agent.release import this_release
from dpu_agent.state import read_only

if TYPE_CHECKING:
    from tests.dpu_agent.conftest import Agent, Authority, Installation

pytestmark = pytest.mark.loopback


def _files(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def _unknown_key(found: Installation, _: Authority) -> None:
    found.rewrite(agnet="x")


def _no_certificate(found: Installation, _: Authority) -> None:
    (found.folder / "agent.pem").unlink()


def _no_authority(found: Installation, _: Authority) -> None:
    (found.folder / "ca.pem").unlink()


def _expired(found: Installation, authority: Authority) -> None:
    found.write_pair(authority.agent(start_s=-100, end_s=-1))


def _not_yet(found: Installation, authority: Authority) -> None:
    found.write_pair(authority.agent(start_s=100))


def _other_key(found: Installation, authority: Authority) -> None:
    (found.folder / "agent.key").write_bytes(authority.agent().key)


def _open_key(found: Installation, _: Authority) -> None:
    (found.folder / "agent.key").chmod(0o644)


def _junk_key(found: Installation, _: Authority) -> None:
    (found.folder / "agent.key").write_bytes(b"junk")


def _junk_certificate(found: Installation, _: Authority) -> None:
    (found.folder / "agent.pem").write_bytes(b"junk")


def _other_name(found: Installation, authority: Authority) -> None:
    found.write_pair(authority.agent("node2-dpu0"))


def _controllers(found: Installation, authority: Authority) -> None:
    found.write_pair(authority.controller())


def _other_authority(found: Installation, authority: Authority) -> None:
    found.write_pair(type(authority)(authority.site).agent())


_Spoil = Callable[["Installation", "Authority"], None]
_BAD: list[tuple[_Spoil, str, str]] = [
    (_unknown_key, "agent.json: agnet", "is not a key of this file; remove it"),
    (_no_certificate, "agent.pem", "is not there; correct the configuration, or issue it again"),
    (_no_authority, "ca.pem", "is not there; correct the configuration, or issue it again"),
    (_expired, "agent.pem", "correct the clock, or issue it again"),
    (_not_yet, "agent.pem", "correct the clock, or issue it again"),
    (_other_key, "agent.key", "is not the key of the certificate in"),
    (_open_key, "agent.key", "run `chmod 600"),
    (_junk_key, "agent.key", "is not an unencrypted private key in PEM; issue it again"),
    (_junk_certificate, "agent.pem", "is not a certificate in PEM; issue it again"),
    (_other_name, "agent.pem", "is not the certificate of agent 'node1-dpu0'; name the right file"),
    (_controllers, "agent.pem", "is not the certificate of agent 'node1-dpu0'; name the right file"),
    (_other_authority, "agent.pem", "was not signed by the authority in"),
]


@pytest.mark.parametrize("command", ["run", "check-config"])
@pytest.mark.parametrize("bad", _BAD, ids=lambda bad: bad[0].__name__)
def test_bad_input(
    installation: Installation,
    authority: Authority,
    capsys: pytest.CaptureFixture[str],
    command: str,
    bad: tuple[_Spoil, str, str],
) -> None:
    spoil, place, says = bad
    spoil(installation, authority)
    before = _files(installation.folder)
    assert cli.main([command, "--config", str(installation.config)]) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert f"error: {installation.folder}/{place}: " in told.err
    assert says in told.err
    assert "Traceback" not in told.err
    assert _files(installation.folder) == before


def test_a_good_configuration_is_good(installation: Installation, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["check-config", "--config", str(installation.config)]) == 0
    assert "good" in capsys.readouterr().err
    assert not (installation.folder / "state").exists()


def test_no_command_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main([])
    assert ended.value.code == 2


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(["--version"])
    assert ended.value.code == 0
    assert capsys.readouterr().out.strip() == this_release().version


def test_describe_before_the_first_start_and_after(
    installation: Installation, capsys: pytest.CaptureFixture[str], start_agent: Callable[..., Agent]
) -> None:
    installation.rewrite(ports=[{"name": "lo", "role": "host_port"}, {"name": "none0", "role": "uplink"}])
    assert cli.main(["describe", "--config", str(installation.config)]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["agent"], told["frame_public_key"], told["last_sequence"]) == ("node1-dpu0", None, None)
    assert [(port["name"], port["missing"]) for port in told["ports"]] == [("lo", None), ("none0", "absent")]
    assert told["ports"][0]["framing"] == "l2_without_fcs"
    assert not (installation.folder / "state").exists()

    directory = installation.folder / "state"
    lock = home.DirectoryLock(directory)
    agent = start_agent(Disk(), home=directory)
    agent.tick(4)
    assert cli.main(["describe", "--config", str(installation.config)]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["frame_public_key"] == agent.recorder.public_key.public_bytes_raw().hex()
    assert (told["last_sequence"], told["agent_start"], told["lost_frames"]) == ("4", "1", "0")
    agent.recorder.close()
    lock.release()


def _start(installation: Installation) -> subprocess.Popen[str]:
    argv = [sys.executable, "-m", "dpu_agent.cli", "run", "--config", str(installation.config)]
    return subprocess.Popen(argv, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def _until(true: Callable[[], bool], process: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + 60
    while not true():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_two_agents_on_one_state_directory(installation: Installation) -> None:
    """The second says so and ends; the first goes on, with a port that is not there, and ends cleanly when told."""
    state = installation.folder / "state" / "state"
    # Names that no other agent on this machine meters.
    ports = [{"name": f"wb{os.getpid()}{role[0]}", "role": role} for role in ("host_port", "uplink")]
    installation.rewrite(frame_interval_ms=100, ports=ports)
    first = _start(installation)
    try:
        _until(lambda: state.exists() and (found := _state(state)) is not None and found > 2, first)
        second = _start(installation)
        try:
            out, err = second.communicate(timeout=60)
        finally:
            second.kill()
            second.communicate()
        assert second.returncode == 2
        assert out == ""
        assert f"in use by another agent (process {first.pid})" in err
        assert "give this one a state_directory of its own" in err
        before = _state(state)
        assert before is not None
        _until(lambda: (_state(state) or 0) > before + 2, first)
        first.send_signal(signal.SIGTERM)
        out, err = first.communicate(timeout=60)
        assert first.returncode == 0, err
        assert out == ""
        assert "Traceback" not in err
    finally:
        if first.poll() is None:
            first.kill()
            first.communicate()


def _state(path: Path) -> int | None:
    found = read_only(path)
    return found.sequence if found else None


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """Return a folder that every user can reach; those of pytest are their owner's alone."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_a_state_directory_that_is_not_writable(installation: Installation, open_folder: Path) -> None:
    """As another user than the directory's owner."""
    installation.rewrite(state_directory="owned-by-root/state")
    folder = shutil.copytree(installation.folder, open_folder / "agent")
    folder.chmod(0o755)
    (folder / "owned-by-root").mkdir(mode=0o755)
    os.chown(folder / "agent.key", 65_534, 65_534)
    # The interpreter may lie where only root may look: root starts it, imports everything, and becomes someone else.
    code = (
        "import os, sys; from dpu_agent import cli; assert cli.main(['describe', *sys.argv[2:]]) == 0; "
        "os.setgroups([]); os.setgid(65534); os.setuid(65534); sys.exit(cli.main(sys.argv[1:]))"
    )
    argv = [sys.executable, "-c", code, "run", "--config", str(folder / installation.config.name)]
    told = subprocess.run(argv, capture_output=True, text=True, timeout=120, check=False)
    assert told.returncode == 2, told.stderr
    assert "owned-by-root/state: cannot be used as the state directory" in told.stderr
    assert "give the agent a directory on a local disk that it owns" in told.stderr
    assert "Traceback" not in told.stderr
