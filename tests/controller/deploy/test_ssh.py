from __future__ import annotations

import base64
import os
import socket
import stat
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from controller.deploy.ssh import SshConnection, fingerprint, pinned_key, private_key
from controller.errors import DeviceError, OperatorError
from controller.site import Endpoint, Ssh

Device = Any  # the fixture of conftest.py: a real sshd

rig = pytest.mark.rig


@pytest.fixture
def connection(device: Device) -> Iterator[SshConnection]:
    with SshConnection("dpu1", device.ssh()) as opened:
        yield opened


@rig
def test_runs_commands_and_keeps_output_and_exit_code_apart(connection: SshConnection) -> None:
    outcome = connection.run("echo out; echo err >&2; exit 7")
    assert (outcome.exit_code, outcome.stdout, outcome.stderr) == (7, "out\n", "err\n")
    assert connection.run("true").exit_code == 0
    assert connection.run("kill -9 $$").exit_code != 0
    assert connection.place == f"dpu1 (root@{connection.place.split('@')[1]}"


@rig
def test_output_that_is_not_text_is_shown_and_much_output_is_whole(connection: SshConnection) -> None:
    assert connection.run(r"printf '\377ok'").stdout == "\\xffok"
    outcome = connection.run("seq 1 60000; seq 1 60000 >&2")
    expected = "".join(f"{number}\n" for number in range(1, 60001))
    assert outcome.stdout == expected
    assert outcome.stderr == expected


@rig
def test_a_command_reads_no_input_from_us(connection: SshConnection) -> None:
    assert connection.run("cat; echo end").stdout == "end\n"


@rig
def test_endless_output_and_endless_waiting_end(connection: SshConnection) -> None:
    with pytest.raises(DeviceError, match="printed more than"):
        connection.run("yes")
    began = time.monotonic()
    with pytest.raises(DeviceError, match=r"did not end within 0\.5 s"):
        connection.run("sleep 30", timeout_s=0.5)
    assert time.monotonic() - began < 10
    assert connection.run("echo still there").stdout == "still there\n"


@rig
def test_uploads_whole_files_with_the_mode_asked_for(connection: SshConnection, tmp_path: Path) -> None:
    content = os.urandom(3 * 32_768 + 17)
    connection.upload(content, str(tmp_path / "secret 'file"), mode=0o600)
    assert (tmp_path / "secret 'file").read_bytes() == content
    assert stat.S_IMODE((tmp_path / "secret 'file").stat().st_mode) == 0o600
    connection.upload(b"", str(tmp_path / "empty"), mode=0o644)
    assert stat.S_IMODE((tmp_path / "empty").stat().st_mode) == 0o644


@rig
def test_uploads_over_nothing_that_is_there(connection: SshConnection, tmp_path: Path) -> None:
    (tmp_path / "there").write_text("old")
    (tmp_path / "link").symlink_to(tmp_path / "target")
    for name in ("there", "link"):
        with pytest.raises(DeviceError, match=r"writing .* failed"):
            connection.upload(b"new", str(tmp_path / name), mode=0o644)
    assert (tmp_path / "there").read_text() == "old"
    assert not (tmp_path / "target").exists()
    with pytest.raises(DeviceError, match="failed: "):
        connection.upload(b"new", str(tmp_path / "no folder" / "file"), mode=0o644)


@rig
def test_a_file_that_arrives_changed_is_refused(device: Device, connection: SshConnection, tmp_path: Path) -> None:
    fake = device.bin / "sha256sum"
    fake.write_text("#!/bin/sh\necho 0000  $1\n")
    fake.chmod(0o755)
    try:
        with pytest.raises(DeviceError, match="is not what was sent"):
            connection.upload(b"new", str(tmp_path / "file"), mode=0o644)
    finally:
        fake.unlink()


@rig
def test_a_full_disk_is_said(device: Device, connection: SshConnection) -> None:
    with pytest.raises(DeviceError, match="disk is not full"):
        connection.upload(bytes(40 * 2**20), f"{device.small}/big", mode=0o644)
    assert connection.run(f"rm {device.small}/big").exit_code == 0


@rig
def test_another_host_key_is_refused_and_both_fingerprints_named(device: Device) -> None:
    key = base64.b64encode(b"\0\0\0\x0bssh-ed25519\0\0\0 " + bytes(range(32))).decode()
    with pytest.raises(DeviceError) as raised:
        SshConnection("dpu1", device.ssh(host_key=f"ssh-ed25519 {key}"))
    text = str(raised.value)
    assert device.host_key_fingerprint in text
    assert fingerprint(base64.b64decode(key)) in text
    assert "Nothing was sent" in text
    assert "ssh-keygen -lf" in text


@rig
def test_a_host_key_of_another_kind_than_pinned_is_refused(device: Device) -> None:
    # An ECDSA key is pinned; the device has only Ed25519.
    import paramiko  # noqa: PLC0415

    pinned = paramiko.ECDSAKey.generate()
    with pytest.raises(DeviceError) as raised:
        SshConnection("dpu1", device.ssh(host_key=f"{pinned.get_name()} {pinned.get_base64()}"))
    assert device.host_key_fingerprint in str(raised.value)
    assert fingerprint(pinned.asbytes()) in str(raised.value)


@rig
def test_the_machines_own_known_hosts_and_keys_do_not_count(
    device: Device, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".ssh").mkdir()
    (tmp_path / ".ssh" / "known_hosts").write_text(f"[127.0.0.1]:{device.port} {device.host_key}\n")
    for name in ("id_ed25519", "id_ed25519.pub"):
        (tmp_path / ".ssh" / name).write_bytes((device.home / name.replace("id_ed25519", "login_key")).read_bytes())
    (tmp_path / ".ssh" / "id_ed25519").chmod(0o600)
    monkeypatch.setenv("HOME", str(tmp_path))
    stranger = tmp_path / "stranger"
    _new_key(stranger)
    with pytest.raises(DeviceError, match="refused the login key"):
        SshConnection("dpu1", device.ssh(key=stranger))


@rig
def test_the_wrong_login_key_or_user_is_refused_with_the_remedy(device: Device, tmp_path: Path) -> None:
    _new_key(tmp_path / "stranger")
    with pytest.raises(DeviceError, match="authorized_keys"):
        SshConnection("dpu1", device.ssh(key=tmp_path / "stranger"))
    with pytest.raises(DeviceError, match="correct `user` and `key`"):
        SshConnection("dpu1", device.ssh(user="nobody-here"))


@rig
def test_a_connection_that_ended_says_so(device: Device) -> None:
    connection = SshConnection("dpu1", device.ssh())
    connection.close()
    connection.close()
    with pytest.raises(DeviceError, match="the connection has ended"):
        connection.run("true")
    with pytest.raises(DeviceError, match="the connection has ended"):
        connection.upload(b"", "/nowhere", mode=0o600)


def _new_key(path: Path) -> None:
    import paramiko  # noqa: PLC0415

    paramiko.ECDSAKey.generate().write_private_key_file(str(path))


# Without a device


@pytest.mark.loopback
def test_nobody_listens(tmp_path: Path, pinned: str) -> None:
    _new_key(tmp_path / "key")
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        ssh = Ssh(Endpoint("127.0.0.1", unused.getsockname()[1]), "root", pinned, tmp_path / "key")
        with pytest.raises(DeviceError, match=r"connecting failed: .*check that the DPU is up"):
            SshConnection("dpu1", ssh, timeout_s=2)


@pytest.mark.loopback
@pytest.mark.parametrize("greeting", [b"", b"HTTP/1.0 400 Bad Request\r\n\r\n"])
def test_who_answers_is_no_ssh_server_or_says_nothing(tmp_path: Path, pinned: str, greeting: bytes) -> None:
    _new_key(tmp_path / "key")
    with socket.create_server(("127.0.0.1", 0)) as server:
        done = threading.Event()

        def serve() -> None:
            peer, _ = server.accept()
            with peer:
                peer.sendall(greeting)
                done.wait(20)

        thread = threading.Thread(target=serve)
        thread.start()
        ssh = Ssh(Endpoint("127.0.0.1", server.getsockname()[1]), "root", pinned, tmp_path / "key")
        began = time.monotonic()
        try:
            with pytest.raises(DeviceError, match="connecting failed"):
                SshConnection("dpu1", ssh, timeout_s=1)
        finally:
            done.set()
            thread.join()
        assert time.monotonic() - began < 10


@pytest.fixture
def pinned() -> str:
    import paramiko  # noqa: PLC0415

    key = paramiko.ECDSAKey.generate()
    return f"{key.get_name()} {key.get_base64()}"


def test_a_pinned_key_may_carry_a_comment(pinned: str) -> None:
    assert pinned_key(f"{pinned} root@dpu", "dpu1") == pinned_key(pinned, "dpu1")


@pytest.mark.parametrize(
    "text",
    ["", "ssh-ed25519", "ssh-ed25519 !!!!", "ssh-ed25519 AAAA", "no-such AAAAC3NzaC1lZDI1NTE5AAAA", "x y z"],
)
def test_what_is_no_public_key_cannot_be_pinned(text: str) -> None:
    with pytest.raises(OperatorError, match=r"dpu1: the pinned host key .*console"):
        pinned_key(text, "dpu1")


def test_login_keys_that_cannot_be_used_are_named_with_the_remedy(tmp_path: Path) -> None:
    key = tmp_path / "key"
    with pytest.raises(OperatorError, match=r"key: the deployment key cannot be read .*ssh-keygen"):
        private_key(key)
    key.write_text("not a key")
    key.chmod(0o644)
    with pytest.raises(OperatorError, match="chmod 600"):
        private_key(key)
    key.chmod(0o600)
    with pytest.raises(OperatorError, match="is not a private key without passphrase"):
        private_key(key)
    import paramiko  # noqa: PLC0415

    paramiko.ECDSAKey.generate().write_private_key_file(str(tmp_path / "locked"), password="secret")
    with pytest.raises(OperatorError, match="without passphrase"):
        private_key(tmp_path / "locked")


def test_fingerprints_are_openssh_s() -> None:
    blob = base64.b64decode("AAAAC3NzaC1lZDI1NTE5AAAAIGkMlRnMl2j5vYlPbFRs4Cb4V0xO1sXnmNMtFZt7fZ0Q")
    # What `ssh-keygen -lf` prints for this key.
    assert fingerprint(blob) == "SHA256:vXSZgSnupKikrgoa8BubvW8gxEPq84x0H7l3WFIULC0"
