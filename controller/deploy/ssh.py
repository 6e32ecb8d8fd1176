"""One DPU's shell and files over SSH: the seam through which deployment touches a device.

The host key is pinned in the site file and nothing else is believed: no known-hosts file, no first use, no agent, no
password. :class:`SshConnection` is paramiko; :class:`controller.deploy.ssh_double.ScriptedConnection` speaks the same
interface from memory.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import hashlib
import logging
import shlex
import socket
import stat
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import NoReturn, Protocol, final

import paramiko

from controller.errors import DeviceError, OperatorError
from controller.site import Ssh

CONNECT_TIMEOUT_S = 15.0
COMMAND_TIMEOUT_S = 60.0
# A bundle is 13 MB; over a slow management network (1 Mbit/s) that takes two minutes.
TRANSFER_TIMEOUT_S = 600.0
MAX_OUTPUT_BYTES = 1 << 20
_POLL_S = 0.02
_CHUNK_BYTES = 32_768

# paramiko reports each refused connection on its logger as well; ours raise, once.
logging.getLogger("paramiko").addHandler(logging.NullHandler())


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a command ended; text is UTF-8 with what is not shown as escapes."""

    exit_code: int
    stdout: str
    stderr: str


class Connection(Protocol):
    """A shell and a file system on a device."""

    @property
    def place(self) -> str:
        """The device, as messages name it."""

    def run(self, command: str, *, timeout_s: float = COMMAND_TIMEOUT_S) -> Outcome:
        """Run a shell command and return how it ended, whatever its exit code.

        Raises:
            DeviceError: the connection broke or the command took too long.
        """

    def upload(self, content: bytes, path: str, *, mode: int) -> None:
        """Write a new file that is never readable by more than ``mode`` says; its folder must be there.

        Raises:
            DeviceError: the connection broke, the file could not be written, or it is not what was sent.
        """

    def close(self) -> None:
        """End the connection; safe to call twice."""


def fingerprint(key: bytes) -> str:
    """Return a public key's fingerprint as ``ssh-keygen -l`` prints it."""
    return "SHA256:" + base64.b64encode(hashlib.sha256(key).digest()).decode().rstrip("=")


def pinned_key(text: str, place: str) -> paramiko.PKey:
    """Return the host key that the site file pins: ``type base64``, a comment after it is ignored.

    Raises:
        OperatorError: it is not a public key.
    """
    remedy = "take the line from the DPU's own console: cat /etc/ssh/ssh_host_ed25519_key.pub"
    try:
        kind, encoded = text.split()[:2]
        return paramiko.PKey.from_type_string(kind, base64.b64decode(encoded, validate=True))
    except (ValueError, binascii.Error, paramiko.SSHException, paramiko.pkey.UnknownKeyType) as error:
        raise OperatorError(f"{place}: the pinned host key {text[:40]!r} is not a public key; {remedy}") from error


def private_key(path: Path) -> paramiko.PKey:
    """Return the key that logs in.

    Raises:
        OperatorError: not there, readable by others, under a passphrase, or not a key.
    """
    try:
        if stat.S_IMODE(path.stat().st_mode) & 0o077:
            raise OperatorError(f"{path}: a private key that others can read; run `chmod 600 {path}`")
        return paramiko.PKey.from_path(path)
    except OSError as error:
        raise OperatorError(
            f"{path}: the deployment key cannot be read ({error.strerror}); make one with "
            f"`ssh-keygen -t ed25519 -N '' -f {path}` and put its .pub line into the DPU's authorized_keys"
        ) from error
    except (paramiko.SSHException, paramiko.pkey.UnknownKeyType, ValueError, TypeError) as error:
        raise OperatorError(
            f"{path}: is not a private key without passphrase; make one with `ssh-keygen -t ed25519 -N ''`"
        ) from error


class _Unpinned(paramiko.MissingHostKeyPolicy):
    """What paramiko asks when the device shows a key of a kind that is not pinned: refuse, like any other key."""

    def __init__(self, expected: paramiko.PKey) -> None:
        self._expected = expected

    def missing_host_key(self, client: paramiko.SSHClient, hostname: str, key: paramiko.PKey) -> NoReturn:  # noqa: ARG002
        raise paramiko.BadHostKeyException(hostname, key, self._expected)


@final
class SshConnection:
    """A connection to one DPU; a context manager that closes it."""

    def __init__(self, name: str, ssh: Ssh, *, timeout_s: float = CONNECT_TIMEOUT_S) -> None:
        """Connect and log in.

        Args:
            name: the DPU's name, for messages.
            ssh: address, user, pinned host key and login key.
            timeout_s: for each of connecting, the key exchange and logging in.

        Raises:
            OperatorError: the pinned key or the login key is unfit.
            DeviceError: no answer, another host key than the pinned one, or the login was refused.
        """
        self._place = f"{name} ({ssh.user}@{ssh.address})"
        expected, login = pinned_key(ssh.host_key, name), private_key(ssh.key)
        self._client = paramiko.SSHClient()
        port = ssh.address.port
        known_as = ssh.address.host if port == paramiko.config.SSH_PORT else f"[{ssh.address.host}]:{port}"
        self._client.get_host_keys().add(known_as, expected.get_name(), expected)
        self._client.set_missing_host_key_policy(_Unpinned(expected))
        try:
            with self._errors("connecting"):
                peer = socket.create_connection((ssh.address.host, port), timeout_s)
                # A deployment asks fifty small questions, and each would wait 40 ms for a delayed acknowledgement.
                peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self._client.connect(
                    ssh.address.host,
                    port,
                    ssh.user,
                    sock=peer,
                    pkey=login,
                    allow_agent=False,
                    look_for_keys=False,
                    timeout=timeout_s,
                    banner_timeout=timeout_s,
                    auth_timeout=timeout_s,
                    channel_timeout=timeout_s,
                )
        except BaseException:
            self._client.close()
            raise

    @property
    def place(self) -> str:
        """See :class:`Connection`."""
        return self._place

    def run(self, command: str, *, timeout_s: float = COMMAND_TIMEOUT_S) -> Outcome:
        """See :class:`Connection`."""
        deadline = time.monotonic() + timeout_s
        out, err = bytearray(), bytearray()
        with self._errors(f"running `{command[:60]}`"), self._session() as channel:
            channel.settimeout(timeout_s)
            channel.exec_command(command)
            channel.shutdown_write()
            while True:
                ended = channel.exit_status_ready() and (channel.eof_received or channel.closed)
                read = _drain(channel, out, err)
                if len(out) + len(err) > MAX_OUTPUT_BYTES:
                    raise DeviceError(f"{self._place}: `{command[:60]}` printed more than {MAX_OUTPUT_BYTES} bytes")
                if ended and not read:
                    break
                if not read:
                    if time.monotonic() > deadline:
                        raise DeviceError(
                            f"{self._place}: `{command[:60]}` did not end within {timeout_s:g} s; "
                            "look on the device what it waits for, then deploy again"
                        )
                    time.sleep(_POLL_S)
            code = channel.recv_exit_status()
        return Outcome(code, out.decode("utf-8", "backslashreplace"), err.decode("utf-8", "backslashreplace"))

    def upload(self, content: bytes, path: str, *, mode: int) -> None:
        """See :class:`Connection`."""
        deadline = time.monotonic() + TRANSFER_TIMEOUT_S
        # "x": a file that is there already, or a link put in its place, is not written through.
        with self._errors(f"writing {path}"), self._files() as sftp, sftp.open(path, "wx") as file:
            file.chmod(mode)
            file.set_pipelined(pipelined=True)
            for start in range(0, len(content), _CHUNK_BYTES):
                file.write(content[start : start + _CHUNK_BYTES])
                if time.monotonic() > deadline:
                    raise DeviceError(f"{self._place}: {path} was not written within {TRANSFER_TIMEOUT_S:g} s")
        expected = hashlib.sha256(content).hexdigest()
        told = self.run(f"sha256sum {shlex.quote(path)}")
        if told.exit_code != 0 or told.stdout.split()[:1] != [expected]:
            raise DeviceError(
                f"{self._place}: {path} is not what was sent (expected SHA-256 {expected}, the device says "
                f"{(told.stdout or told.stderr).strip()[:80]!r}); check its disk, then deploy again"
            )

    def close(self) -> None:
        """See :class:`Connection`."""
        self._client.close()

    def __enter__(self) -> SshConnection:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _transport(self) -> paramiko.Transport:
        transport = self._client.get_transport()
        if transport is None or not transport.is_active():
            raise DeviceError(f"{self._place}: the connection has ended; deploy again")
        return transport

    @contextlib.contextmanager
    def _session(self) -> Iterator[paramiko.Channel]:
        with self._transport().open_session(timeout=CONNECT_TIMEOUT_S) as channel:
            yield channel

    @contextlib.contextmanager
    def _files(self) -> Iterator[paramiko.SFTPClient]:
        with self._session() as channel:
            channel.settimeout(COMMAND_TIMEOUT_S)
            channel.invoke_subsystem("sftp")
            with paramiko.SFTPClient(channel) as sftp:
                yield sftp

    @contextlib.contextmanager
    def _errors(self, doing: str) -> Iterator[None]:
        """Say in our words what paramiko and the network raise."""
        try:
            yield
        except paramiko.BadHostKeyException as error:
            seen, pinned = (f"{key.get_name()} {fingerprint(key.asbytes())}" for key in (error.key, error.expected_key))
            raise DeviceError(
                f"{self._place}: shows the host key {seen}, pinned is {pinned}. Nothing was sent. If the DPU was "
                "re-imaged, compare the new fingerprint on its own console "
                "(ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub) and then pin it in the site file; otherwise "
                "someone else answers at this address"
            ) from error
        except paramiko.AuthenticationException as error:
            raise DeviceError(
                f"{self._place}: refused the login key; put its .pub line into ~/.ssh/authorized_keys of that user "
                "on the DPU, or correct `user` and `key` in the site file"
            ) from error
        except (paramiko.SSHException, OSError, EOFError) as error:
            raise DeviceError(
                f"{self._place}: {doing} failed: {str(error) or type(error).__name__}; check that the DPU is up, "
                "that its sshd listens there and its disk is not full, and deploy again"
            ) from error


def _drain(channel: paramiko.Channel, out: bytearray, err: bytearray) -> bool:
    """Take what has arrived; return whether there was anything."""
    before = len(out) + len(err)
    while channel.recv_ready():
        out += channel.recv(_CHUNK_BYTES)
    while channel.recv_stderr_ready():
        err += channel.recv_stderr(_CHUNK_BYTES)
    return len(out) + len(err) > before
