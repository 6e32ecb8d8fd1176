"""The state directory on a real file system: first start, second agent, and every way it can be wrong."""

from __future__ import annotations

import os
import stat
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from dpu_agent import home, segment, state
from dpu_agent.disk import Disk
from dpu_agent.errors import StateError
from protos.v1 import frame_pb2

if TYPE_CHECKING:
    from tests.dpu_agent.conftest import Agent, Controller


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    path = tmp_path / "state"
    path.mkdir()
    return path


def test_first_start_and_the_next(directory: Path, start_agent: Callable[..., Agent], controller: Controller) -> None:
    agent = start_agent(Disk(), home=directory)
    first = agent.recorder.public_key
    agent.tick(30)
    controller.take(agent)
    agent.recorder.acknowledge(20)
    agent.tick()
    agent.recorder.close()
    assert stat.S_IMODE((directory / "frame.key").stat().st_mode) == 0o600
    assert {path.name for path in directory.iterdir()} == {"frame.key", "state", "spool"}

    again = start_agent(Disk(), home=directory, clock=agent.clock)
    assert again.recorder.public_key == first
    again.tick()
    controller.take(again)
    controller.check()
    assert controller.newest == 32
    assert controller.frame(32).agent_start == 2
    assert controller.frame(32).ports[0].epoch == 1, "an epoch outlives the agent"
    again.recorder.close()


def test_a_second_agent_is_refused(directory: Path) -> None:
    lock = home.DirectoryLock(directory)
    with pytest.raises(StateError, match=rf"in use by another agent \(process {os.getpid()}\)"):
        home.DirectoryLock(directory)
    lock.release()
    home.DirectoryLock(directory).release()


def test_a_directory_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StateError, match="cannot be used as the state directory"):
        home.DirectoryLock(tmp_path / "file" / "state")


def _damage(directory: Path, what: str) -> None:
    if what == "state is gone":
        (directory / "state").unlink()
    elif what == "key is gone":
        (directory / "frame.key").unlink()
    elif what == "all but the spool is gone":
        (directory / "state").unlink()
        (directory / "frame.key").unlink()
    elif what == "key can be read by others":
        (directory / "frame.key").chmod(0o640)
    elif what == "key is junk":
        (directory / "frame.key").write_bytes(b"junk")
    elif what == "key is of another kind":
        key = ec.generate_private_key(ec.SECP256R1())
        pem = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        (directory / "frame.key").write_bytes(pem)
    elif what == "state is junk":
        (directory / "state").write_bytes(os.urandom(2 * state.SLOT_BYTES))
    elif what == "state is of a newer agent":
        content = bytearray((directory / "state").read_bytes())
        for slot in (0, state.SLOT_BYTES):
            content[slot + 8 : slot + 12] = (2).to_bytes(4, "big")
        (directory / "state").write_bytes(content)
    else:
        path = next((directory / "spool").glob("0*.seg"))
        content = bytearray(path.read_bytes())
        header = segment._HEADER.pack(segment._MAGIC, 2, 1)
        content[: segment.HEADER_BYTES] = header + segment._CRC.pack(zlib.crc32(header))
        path.write_bytes(content)


@pytest.mark.parametrize(
    ("what", "says"),
    [
        ("state is gone", "numbers already used"),
        ("key is gone", "is gone, its numbers are not"),
        ("all but the spool is gone", "numbers already used"),
        ("key can be read by others", "run `chmod 600"),
        ("key is junk", "is not the agent's Ed25519 key"),
        ("key is of another kind", "is not the agent's Ed25519 key"),
        ("state is junk", "is damaged, the numbers already used are not known"),
        ("state is of a newer agent", r"written by a newer agent \(format 2, this one knows 1\)"),
        ("spool is of a newer agent", r"written by a newer agent \(format 2, this one knows 1\)"),
    ],
)
def test_what_could_use_a_number_twice_is_refused(
    directory: Path, start_agent: Callable[..., Agent], what: str, says: str
) -> None:
    agent = start_agent(Disk(), home=directory)
    agent.tick(3)
    agent.recorder.close()
    _damage(directory, what)
    with pytest.raises(StateError, match=says) as refused:
        start_agent(Disk(), home=directory)
    assert str(directory) in str(refused.value)


def test_a_frame_of_a_newer_agent_that_must_be_read_is_refused(
    directory: Path, start_agent: Callable[..., Agent]
) -> None:
    """After a crash the newest frame of the spool says what the state would have said."""
    agent = start_agent(Disk(), home=directory)
    agent.tick(2)
    body = frame_pb2.Frame(version=99, agent="node1-dpu0", sequence=3).SerializeToString()
    signed = frame_pb2.SignedFrame(body=body).SerializeToString()
    agent.recorder._spool.append(3, segment.Moment(1, 1), signed, has_losses=False)
    agent.recorder.close()
    with pytest.raises(StateError, match="frame version 99 is unknown"):
        start_agent(Disk(), home=directory)


def test_a_start_cut_before_the_key_was_made_makes_it(directory: Path, start_agent: Callable[..., Agent]) -> None:
    state.StateFile.create(Disk(), directory / "state").close()
    agent = start_agent(Disk(), home=directory)
    assert agent.tick() == 1
    agent.recorder.close()


def test_the_state_is_read_without_the_lock_while_the_agent_runs(
    directory: Path, start_agent: Callable[..., Agent]
) -> None:
    assert state.read_only(directory / "state") is None
    agent = start_agent(Disk(), home=directory)
    agent.tick(5)
    found = state.read_only(directory / "state")
    assert found is not None
    assert found.sequence == 5
    agent.recorder.close()


def test_a_file_that_is_no_segment_is_left_alone(directory: Path, start_agent: Callable[..., Agent]) -> None:
    agent = start_agent(Disk(), home=directory)
    agent.tick(3)
    agent.recorder.close()
    (directory / "spool" / "note.txt").write_text("mine")
    again = start_agent(Disk(), home=directory)
    assert again.frames() == [1, 2, 3]
    assert (directory / "spool" / "note.txt").read_text() == "mine"
    again.recorder.close()


def test_links_are_not_followed(directory: Path, tmp_path: Path, start_agent: Callable[..., Agent]) -> None:
    """Who can put a link into the directory cannot make the agent write elsewhere."""
    agent = start_agent(Disk(), home=directory)
    agent.recorder.close()
    (directory / "state").rename(tmp_path / "elsewhere")
    (directory / "state").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StateError, match="cannot be used"):
        start_agent(Disk(), home=directory)


def test_the_key_on_disk_is_the_key_of_the_frames(directory: Path, start_agent: Callable[..., Agent]) -> None:
    agent = start_agent(Disk(), home=directory)
    agent.recorder.close()
    key = home.load_key(Disk(), directory / "frame.key")
    assert isinstance(key, Ed25519PrivateKey)
    assert key.public_key() == agent.recorder.public_key
