"""One machine of the rig: its folder, its boot, and running commands inside it."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from hil import boot, enter, supervisorctl
from hil.errors import RigError
from hil.firstprocess import FirstProcess
from hil.plan import MachinePlan, Role, network_namespace
from hil.servicefile import parse_definition

PROJECT = Path(__file__).resolve().parent.parent
SEARCH_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_BOOT_ID = "/proc/sys/kernel/random/boot_id"


class Machine:
    """A machine that is up or can be booted. ``folder`` is its place under the rig's state directory."""

    def __init__(self, rig: str, plan: MachinePlan, state: Path) -> None:
        self.rig, self.plan, self._state = rig, plan, state
        self.folder = state / "machines" / plan.name
        self.disk = self.folder / "disk"
        self.logs = self.folder / "log"

    @property
    def name(self) -> str:
        """The machine's name in the rig."""
        return self.plan.name

    @property
    def namespace(self) -> str:
        """The name of its network namespace under /run/netns."""
        return network_namespace(self.rig, self.name)

    # Life

    def make_disk(self) -> None:
        """Make the folders that outlive a reboot: what is on a real machine's disk."""
        for folder in ("opt", "var-lib", "root", "etc", "supervisor.d", "sbin"):
            (self.disk / folder).mkdir(parents=True, exist_ok=True)
        (self.disk / "root").chmod(0o700)
        self.logs.mkdir(parents=True, exist_ok=True)
        control = self.disk / "sbin" / "supervisorctl"
        shutil.copyfile(supervisorctl.__file__, control)
        control.chmod(0o755)
        etc = self.disk / "etc"
        (etc / "hostname").write_text(f"{self.name}\n", encoding="ascii")
        (etc / "machine-id").write_text(f"{uuid.uuid4().hex}\n", encoding="ascii")

    def boot(self) -> None:
        """Start the machine with a new boot id; its interfaces come next, then :meth:`power_services`.

        Raises:
            RigError: it could not be started; the text says why.
        """
        boot_id = str(uuid.uuid4())
        (self.folder / "boot_id").write_text(f"{boot_id}\n", encoding="ascii")
        description = self._description(boot_id)
        (self.folder / boot.MACHINE_FILE).write_text(json.dumps(description, indent=1), encoding="utf-8")
        argv = [
            sys.executable,
            "-m",
            "hil.boot",
            "--rig",
            self.rig,
            "--machine",
            self.name,
            "--state",
            str(self._state),
        ]
        environment = {"PATH": SEARCH_PATH, "LANG": "C.UTF-8", "PYTHONDONTWRITEBYTECODE": "1"}
        done = subprocess.run(
            argv, cwd=PROJECT, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            raise RigError(f"cannot boot {self.name}: {done.stderr.strip()}")
        pid = int(done.stdout)
        partial = self.folder / "first-process.json.new"
        partial.write_text(json.dumps({"pid": pid, "start_time": enter.start_time(pid)}), encoding="ascii")
        partial.replace(self.folder / "first-process.json")
        _attach_name(self.namespace, pid)

    def power_services(self) -> None:
        """Let a booted machine start its services."""
        handle = self._open()
        try:
            signal.pidfd_send_signal(handle, signal.SIGUSR1)
        finally:
            os.close(handle)
        socket_path = Path(f"/proc/{self.first_process().pid}/root{boot.SOCKET_PATH}")
        deadline = time.monotonic() + 10
        while not socket_path.exists():
            if time.monotonic() > deadline:
                raise RigError(f"{self.name}: its supervisor does not come up; see {self.logs / 'supervisor.log'}")
            time.sleep(0.01)

    def before_network(self) -> None:
        """Run what its services ask to be run before its network is set up, as a service manager orders it.

        Raises:
            RigError: the machine is not up.
            ServiceError: a service file is wrong.
        """
        for file in sorted((self.disk / "supervisor.d").glob("*.json")):
            before = parse_definition(file.read_text("utf-8"), str(file)).before_network
            if before:
                done = self.run(before, check=False, cwd="/")
                with (self.logs / "before-network.log").open("a", encoding="utf-8") as log:
                    log.write(done.stderr)

    def first_process(self) -> FirstProcess:
        """Return the machine's first process as last booted.

        Raises:
            RigError: the machine was never booted.
        """
        try:
            record = json.loads((self.folder / "first-process.json").read_text(encoding="ascii"))
        except FileNotFoundError as error:
            raise RigError(f"machine {self.name} of rig {self.rig} was never booted; bring the rig up first") from error
        return FirstProcess(record["pid"], record["start_time"])

    def is_up(self) -> bool:
        """Return whether the machine runs."""
        return (self.folder / "first-process.json").exists() and self.first_process().is_alive()

    def cut_power(self, *, grace_s: float = 0.0) -> None:
        """End everything in the machine; with ``grace_s`` its services may stop in order first."""
        self.first_process().end(grace_s=grace_s)
        subprocess.run(["ip", "netns", "del", self.namespace], capture_output=True, check=False)

    @property
    def boot_id(self) -> str:
        """The boot id that the machine shows since its last boot."""
        return (self.folder / "boot_id").read_text(encoding="ascii").strip()

    # Inside

    def command(self, argv: Sequence[str], *, cwd: Path | str | None = None) -> list[str]:
        """Return the command that runs ``argv`` inside the machine's namespaces.

        Raises:
            RigError: the machine is not up.
        """
        first = self.first_process()
        if not first.is_alive():
            raise RigError(f"machine {self.name} of rig {self.rig} is not up")
        helper = [sys.executable, "-I", "-S", str(Path(enter.__file__)), str(first.pid), first.start_time]
        return [*helper, str(cwd or Path.cwd()), *argv]

    def run(
        self,
        argv: Sequence[str],
        *,
        check: bool = True,
        stdin: str | None = None,
        timeout_s: float | None = 60.0,
        cwd: Path | str | None = None,
        env: Mapping[str, str] | None = None,
    ) -> subprocess.CompletedProcess[str]:
        """Run a command inside the machine and return its outcome, with its output as text.

        Raises:
            RigError: the machine is not up, or ``check`` and the command failed; the text has what it said.
            subprocess.TimeoutExpired: it took longer; it was killed.
        """
        done = subprocess.run(
            self.command(argv, cwd=cwd),
            input=stdin,
            stdin=subprocess.DEVNULL if stdin is None else None,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            env=environment(env),
            check=False,
        )
        if check and done.returncode != 0:
            said = (done.stderr or done.stdout).strip()
            raise RigError(f"{self.name}: {' '.join(argv)}: exit code {done.returncode}: {said}")
        return done

    def popen(
        self,
        argv: Sequence[str],
        *,
        cwd: Path | str | None = None,
        env: Mapping[str, str] | None = None,
        stdin: int | IO[Any] | None = subprocess.DEVNULL,
        stdout: int | IO[Any] | None = None,
        stderr: int | IO[Any] | None = None,
    ) -> subprocess.Popen[str]:
        """Start a command inside the machine. Signals sent to the process reach it; its exit code is passed on."""
        return subprocess.Popen(
            self.command(argv, cwd=cwd), stdin=stdin, stdout=stdout, stderr=stderr, text=True, env=environment(env)
        )

    def supervise(self, command: str, service: str | None = None) -> list[dict[str, Any]]:
        """Ask the machine's supervisor (``start``, ``stop``, ``restart``, ``status``, ``reload``); return the services.

        Raises:
            RigError: it refuses; the text says why.
        """
        path = f"/proc/{self.first_process().pid}/root{boot.SOCKET_PATH}"
        try:
            answer = supervisorctl.ask(command, service, path)
        except (OSError, ValueError) as error:
            raise RigError(f"{self.name}: its supervisor does not answer: {error}") from error
        if not answer["ok"]:
            raise RigError(f"{self.name}: {answer['text']}")
        services: list[dict[str, Any]] = answer["services"]
        return services

    def define_service(
        self, service: str, argv: Sequence[str], *, env: Mapping[str, str] | None = None, cwd: Path | str = "/"
    ) -> None:
        """Write a service file on the machine's disk; it starts at the next boot, or by ``supervise("start", ...)``."""
        definition = {"argv": list(argv), "env": dict(env or {}), "restart": "always", "cwd": str(cwd)}
        text = json.dumps(definition, indent=1)
        (self.disk / "supervisor.d" / f"{service}.json").write_text(text + "\n", encoding="utf-8")

    def _open(self) -> int:
        handle = self.first_process().open()
        if handle is None:
            raise RigError(f"machine {self.name} of rig {self.rig} died; see {self.logs / 'supervisor.log'}")
        return handle

    def _description(self, boot_id: str) -> dict[str, Any]:
        """Return what ``hil.boot`` does; the order of the mounts is the order in which they are laid."""
        etc = self.disk / "etc"
        absent = {name for name in ("hostname", "machine-id") if not Path("/etc", name).exists()}
        files = [(path, f"/etc/{path.name}") for path in sorted(etc.iterdir()) if path.name not in absent]
        binds = [
            (self.disk / "supervisor.d", str(boot.SERVICE_DIRECTORY)),
            (self.disk / "opt", "/opt"),
            (self.disk / "var-lib", "/var/lib"),
            (self.logs, str(boot.LOG_DIRECTORY)),
            (self.disk / "sbin", "/usr/local/sbin"),
            *files,
            (self.folder / "boot_id", _BOOT_ID),
        ]
        devices = self.plan.role in (Role.DPU, Role.SWITCH)
        if devices:
            binds.append((self.disk / "root", "/root"))
        mounts: list[dict[str, str]] = [{"what": "tmpfs", "target": "/run"}]
        mounts += [{"what": "directory", "target": target} for target in ("/run/sshd", str(boot.SERVICE_DIRECTORY))]
        mounts += [{"what": "bind", "source": str(source), "target": target} for source, target in binds]
        # Devices see nothing of the project: what they run is deployed to them. Elsewhere the commands
        # and traffic generators run from it, wherever it lies.
        visible = [] if devices else [str(path) for path in (PROJECT, sys.prefix, sys.base_prefix, self._state)]
        return {
            "rig": self.rig,
            "machine": self.name,
            "hostname": self.name,
            "boot_id": boot_id,
            # Not on a DPU: the BPF clock ignores time namespaces, and a meter must see one clock.
            "own_boot_time": self.plan.role is Role.HOST,
            "mounts": mounts,
            "keep_visible": visible,
            "environment": {"PATH": SEARCH_PATH, "LANG": "C.UTF-8", "HOME": "/root"},
        }


def environment(extra: Mapping[str, str] | None) -> dict[str, str]:
    """Return the caller's environment with ``extra`` and a PATH on which ``supervisorctl`` and the daemons are."""
    path = os.environ.get("PATH", "")
    missing = [folder for folder in SEARCH_PATH.split(":") if folder not in path.split(":")]
    return {**os.environ, "PATH": ":".join([*filter(None, [path]), *missing]), **(extra or {})}


def _attach_name(namespace: str, pid: int) -> None:
    done = subprocess.run(["ip", "netns", "attach", namespace, str(pid)], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RigError(f"cannot name the network namespace {namespace}: {done.stderr.strip()}")
