"""What stands where systemd would in a machine of the rig: starts, watches and stops services.

Runs as the machine's first process. A service is a file ``NAME.json`` in the service directory; its keys are in
``hil/servicefile.py``. A service that ends is started again after 0.1 s, doubling up to 5 s while it keeps
ending early.

A request is ``{"command": "start", "name": "sshd"}`` (``hil/controlsocket.py`` carries it), its answer
``{"ok": true, "text": "...", "services": [...]}``. Commands: ``start``, ``stop``, ``restart``, ``status``, and
``reload`` (read the file again: a running service whose definition changed is restarted, one whose file is gone is
stopped). ``stop`` and ``restart`` answer when it is done.
"""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hil.servicefile import Definition, ServiceError, parse_definition

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.@-]{0,63}", re.ASCII)
_FIRST_DELAY_S, _LONGEST_DELAY_S = 0.1, 5.0
_SETTLED_S = 10.0  # a service that ran this long starts again with the first delay
_LARGEST_LOG = 16 * 1024 * 1024  # a log is turned over when its service starts, so a long test cannot fill the disk


@dataclass
class Service:
    """One service; ``state``: ``running``, ``stopping``, ``waiting`` (for its restart), ``stopped``, ``failed``."""

    name: str
    definition: Definition
    state: str = "stopped"
    pid: int | None = None
    started_s: float = 0.0
    restarts: int = 0
    delay_s: float = _FIRST_DELAY_S
    due_s: float | None = None  # when to start again (waiting) or to use SIGKILL (stopping)
    last_exit: str | None = None
    when_stopped: list[Callable[[], None]] = field(default_factory=list)

    def describe(self, now_s: float) -> dict[str, Any]:
        """Return the service for an answer."""
        running_s = round(now_s - self.started_s, 3) if self.pid is not None else None
        return {
            "name": self.name,
            "state": self.state,
            "pid": self.pid,
            "running_s": running_s,
            "restarts": self.restarts,
            "last_exit": self.last_exit,
        }


class Supervisor:
    """All services of one machine."""

    def __init__(self, services: Path, logs: Path, environment: Mapping[str, str]) -> None:
        self._directory, self._logs, self._environment = services, logs, dict(environment)
        self._services: dict[str, Service] = {}
        self._ending = False

    # Requests

    def handle(self, request: Mapping[str, Any], answer: Callable[[dict[str, Any]], None]) -> None:
        """Carry out one request and give ``answer`` its outcome, at once or when the service has stopped."""
        command, name = request.get("command"), request.get("name")
        commands = {"start": self._start_on_request, "stop": self._stop_on_request}
        commands |= {"restart": self._restart, "reload": self._reload}
        try:
            if command == "status":
                answer({"ok": True, "text": "", "services": self._describe(name)})
            elif not isinstance(command, str) or command not in commands:
                answer(refusal(f"unknown command {command!r}; use status, {', '.join(commands)}"))
            elif not isinstance(name, str) or not _NAME.fullmatch(name):
                answer(refusal(f"{name!r} is not a service name"))
            else:
                commands[command](name, answer)
        except ServiceError as error:
            answer(refusal(str(error)))

    def start_enabled(self) -> None:
        """Start every service whose file says so, as at boot; a bad file is logged and left alone."""
        for path in sorted(self._directory.glob("*.json")):
            try:
                service = self._load(path.name.removesuffix(".json"))
                if service.definition.enabled:
                    self._start(service)
            except ServiceError as error:  # noqa: PERF203 one bad file must not keep the others from starting
                self.log(str(error))

    def end(self, done: Callable[[], None]) -> None:
        """Stop everything, then call ``done``."""
        self._ending = True
        remaining = {service.name for service in self._services.values() if service.pid is not None}
        if not remaining:
            done()

        def stopped(name: str) -> None:
            remaining.discard(name)
            if not remaining:
                done()

        for service in list(self._services.values()):
            if service.pid is None:
                service.state, service.due_s = "stopped", None
            else:
                self._stop(service, lambda name=service.name: stopped(name))  # type: ignore[misc]

    # What happens

    def reap(self) -> None:
        """Collect every process that ended: services, and orphans that fell to the first process."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            ended = next((service for service in self._services.values() if service.pid == pid), None)
            if ended is not None:
                self._ended(ended, os.waitstatus_to_exitcode(status))

    def tick(self) -> float | None:
        """Do what is due; return the seconds until the next thing is, or None."""
        now = time.monotonic()
        for service in list(self._services.values()):
            if service.due_s is None or service.due_s > now:
                continue
            service.due_s = None
            if service.state == "stopping" and service.pid is not None:
                self.log(f"{service.name}: did not stop in {service.definition.stop_timeout_s:g} s; killing it")
                _signal_group(service.pid, signal.SIGKILL)
            elif service.state == "waiting" and not self._ending:
                service.restarts += 1
                try:
                    self._start(service)
                except ServiceError as error:
                    self.log(str(error))
        due = [service.due_s for service in self._services.values() if service.due_s is not None]
        return max(0.0, min(due) - now) if due else None

    def log(self, text: str) -> None:
        """Write one line to the machine's own log."""
        print(f"{time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime())} {text}", flush=True)

    # Inside

    def _describe(self, name: object) -> list[dict[str, Any]]:
        now = time.monotonic()
        if name is None:
            return [self._services[known].describe(now) for known in sorted(self._services)]
        return [self._known(name).describe(now)]

    def _known(self, name: object) -> Service:
        if not isinstance(name, str) or name not in self._services:
            raise ServiceError(f"no service {name!r}; its file would be {self._directory}/{name}.json")
        return self._services[name]

    def _load(self, name: str) -> Service:
        path = self._directory / f"{name}.json"
        try:
            text = path.read_text(encoding="utf-8")
        except FileNotFoundError as error:
            raise ServiceError(f"no service {name!r}: {path} does not exist") from error
        except (OSError, UnicodeDecodeError) as error:
            raise ServiceError(f"{path}: {error}") from error
        definition = parse_definition(text, str(path))
        service = self._services.setdefault(name, Service(name, definition))
        service.definition = definition
        return service

    def _done(self, service: Service, what: str) -> dict[str, Any]:
        return {"ok": True, "text": f"{service.name} {what}", "services": [service.describe(time.monotonic())]}

    def _start_on_request(self, name: str, answer: Callable[[dict[str, Any]], None]) -> None:
        service = self._load(name)
        if service.pid is None:
            self._start(service)
        answer(self._done(service, "started"))

    def _stop_on_request(self, name: str, answer: Callable[[dict[str, Any]], None]) -> None:
        service = self._known(name)
        self._stop(service, lambda: answer(self._done(service, "stopped")))

    def _restart(self, name: str, answer: Callable[[dict[str, Any]], None]) -> None:
        service = self._load(name)

        def begin() -> None:
            try:
                self._start(service)
            except ServiceError as error:
                answer(refusal(str(error)))
            else:
                answer(self._done(service, "restarted"))

        self._stop(service, begin)

    def _reload(self, name: str, answer: Callable[[dict[str, Any]], None]) -> None:
        if not (self._directory / f"{name}.json").exists():
            service = self._known(name)

            def forget() -> None:
                self._services.pop(name, None)
                answer({"ok": True, "text": f"{name} stopped and forgotten: its file is gone", "services": []})

            self._stop(service, forget)
            return
        before = self._services[name].definition if name in self._services else None
        service = self._load(name)
        if service.pid is not None and service.definition != before:
            self._restart(name, answer)
        else:
            answer(self._done(service, "reloaded"))

    def _start(self, service: Service) -> None:
        if self._ending:
            raise ServiceError(f"{service.name}: the machine is going down")
        if service.pid is not None:
            raise ServiceError(f"{service.name} is {service.state} with pid {service.pid}")
        definition = service.definition
        log_path = self._logs / f"{service.name}.log"
        if log_path.exists() and log_path.stat().st_size > _LARGEST_LOG:
            log_path.replace(log_path.with_suffix(".log.1"))
        environment = {**self._environment, **definition.env}
        # posix_spawn cannot change directory, and a first process has one thread: fork is safe and says what failed.
        failure_read, failure_write = os.pipe()
        pid = os.fork()
        if pid == 0:
            _become_service(definition, environment, log_path, failure_write)
        os.close(failure_write)
        with os.fdopen(failure_read, "rb") as pipe:
            failure = pipe.read().decode(errors="replace")
        if failure:
            os.waitpid(pid, 0)
            service.state, service.due_s, service.last_exit = "failed", None, failure
            raise ServiceError(f"{service.name}: cannot execute {definition.argv[0]}: {failure}")
        service.pid, service.state, service.due_s, service.started_s = pid, "running", None, time.monotonic()
        self.log(f"{service.name}: started, pid {pid}")

    def _stop(self, service: Service, done: Callable[[], None]) -> None:
        if service.pid is None:
            service.state, service.due_s = "stopped", None
            done()
            return
        service.when_stopped.append(done)
        if service.state != "stopping":
            service.state = "stopping"
            service.due_s = time.monotonic() + service.definition.stop_timeout_s
            _signal_group(service.pid, signal.SIGTERM)

    def _ended(self, service: Service, code: int) -> None:
        pid, service.pid = service.pid, None
        if pid is not None:
            _signal_group(pid, signal.SIGKILL)  # what it left behind in its process group
        now = time.monotonic()
        service.last_exit = f"exit code {code}" if code >= 0 else f"killed by signal {signal.Signals(-code).name}"
        self.log(f"{service.name}: ended, {service.last_exit}")
        if service.state == "stopping":
            service.state, service.due_s, service.delay_s = "stopped", None, _FIRST_DELAY_S
            waiting, service.when_stopped = service.when_stopped, []
            for done in waiting:
                done()
            return
        again = service.definition.restart == "always" or (service.definition.restart == "on-failure" and code != 0)
        if not again or self._ending:
            service.state, service.due_s = ("stopped" if code == 0 else "failed"), None
            return
        if now - service.started_s >= _SETTLED_S:
            service.delay_s = _FIRST_DELAY_S
        service.state, service.due_s = "waiting", now + service.delay_s
        service.delay_s = min(_LONGEST_DELAY_S, service.delay_s * 2)


def refusal(text: str) -> dict[str, Any]:
    """Return the answer to a request that is not carried out."""
    return {"ok": False, "text": text, "services": []}


def _become_service(definition: Definition, environment: Mapping[str, str], log_path: Path, failure: int) -> None:
    try:
        os.setsid()
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD, signal.SIGPIPE, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, set())
        log = os.open(log_path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        null = os.open(os.devnull, os.O_RDONLY)
        os.dup2(null, 0)
        os.dup2(log, 1)
        os.dup2(log, 2)
        os.set_inheritable(failure, False)
        os.chdir(definition.cwd)
        os.execvpe(definition.argv[0], list(definition.argv), dict(environment))  # noqa: S606 this is what a supervisor does
    except OSError as error:
        os.write(failure, str(error).encode())
    finally:
        os._exit(127)


def _signal_group(pid: int, number: signal.Signals) -> None:
    try:
        os.killpg(pid, number)
    except ProcessLookupError:
        return  # all of it has ended
