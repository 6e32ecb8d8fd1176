"""The verifier's side of a site on a rig: everything goes through the commands an operator types.

They run inside the rig's controller machine, so that they reach agents, switch and hosts over the management
network and nothing else.
"""

from __future__ import annotations

import datetime as dt
import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from controller.journal import Journal
from controller.timeline import Clocks, SystemClocks, Timeline
from hil.errors import RigError
from hil.machine import PROJECT
from hil.plan import CONTROLLER
from hil.rig import Rig
from hil.sitefile import SITE_FILE

DPU_PYTHON = "/usr/bin/python3"
_COMMAND = str(Path(sys.executable).with_name("weighbridge"))
# A collector that is told to stop writes its last group of entries and closes its streams.
_STOP_TIMEOUT_S = 20.0
_START_TIMEOUT_S = 60.0


class ControllerClocks:
    """The clocks of the rig's controller machine, read from outside: its boot id is its own."""

    def __init__(self, rig: Rig) -> None:
        self._rig, self._system = rig, SystemClocks()

    def monotonic_ns(self) -> int:
        """Return CLOCK_MONOTONIC; every machine of an emulated rig shares the kernel's."""
        return self._system.monotonic_ns()

    def wall_ns(self) -> int:
        """Return the wall clock."""
        return self._system.wall_ns()

    def boot_id(self) -> str:
        """Return the boot id that the controller machine shows."""
        return self._rig.machine(CONTROLLER).boot_id


class Operation:
    """A site in operation on a rig.

    Attributes:
        site_file: the rig's site file.
        journal: the journal's path.
    """

    def __init__(self, rig: Rig, logs: Path) -> None:
        self.rig, self.logs = rig, logs
        self.site_file = rig.state / SITE_FILE
        self.journal = rig.state / "journal.db"
        self._collector: subprocess.Popen[str] | None = None
        logs.mkdir(parents=True, exist_ok=True)

    def weighbridge(
        self, *arguments: str, expected: tuple[int, ...] = (0,), timeout_s: float = 120.0
    ) -> subprocess.CompletedProcess[str]:
        """Run ``weighbridge ARGUMENTS`` in the controller machine.

        Raises:
            RigError: it exits with a code not expected; the text has what it said.
        """
        done = self.rig.machine(CONTROLLER).run(
            [_COMMAND, *arguments],
            check=False,
            timeout_s=timeout_s,
            cwd=PROJECT,
            env={"WEIGHBRIDGE_SITE": str(self.site_file)},
        )
        if done.returncode not in expected:
            said = (done.stderr or done.stdout).strip()
            raise RigError(f"weighbridge {' '.join(arguments)}: exit code {done.returncode}: {said}")
        return done

    def prepare(self) -> None:
        """Make the journal and put an agent on every DPU.

        The bundle is built first, out here: the controller machine has no way to a package index.
        """
        build_bundle()
        self.weighbridge("init", str(self.site_file))
        self.deploy()

    def deploy(self) -> None:
        """Put the agent on every DPU, or bring it up to date there."""
        done = self.weighbridge("agents", "deploy", "--all", timeout_s=300.0)
        (self.logs / "deploy.log").write_text(done.stderr + done.stdout, encoding="utf-8")

    def start(self, *options: str) -> None:
        """Start collecting, with more options of the command, and return when every observer has been read once.

        Raises:
            RigError: the collector ends, or an observer stays silent.
        """
        before = self._newest_leaf()
        log = (self.logs / "run.log").open("a", encoding="utf-8")
        with log:
            self._collector = self.rig.machine(CONTROLLER).popen(
                [_COMMAND, "run", *options],
                cwd=PROJECT,
                env={"WEIGHBRIDGE_SITE": str(self.site_file)},
                stdout=log,
                stderr=log,
            )
        wanted = {("frame", agent.name) for agent in self._site_agents()}
        wanted |= {("poll", self.rig.file.switch.name)} | {("scrape", node) for node in self.rig.file.nodes()}
        deadline = time.monotonic() + _START_TIMEOUT_S
        seen: set[tuple[str, str]] = set()
        while not wanted <= seen:
            if self._collector.poll() is not None:
                raise RigError(
                    f"the collector ended with exit code {self._collector.returncode}; see {self.logs}/run.log"
                )
            if time.monotonic() > deadline:
                raise RigError(f"nothing was collected from {sorted(wanted - seen)}; see {self.logs}/run.log")
            time.sleep(0.2)
            with Journal.open(self.journal, read_only=True) as journal:
                seen |= {(entry.kind.value, entry.source) for entry in journal.entries(from_leaf=before)}

    def stop(self) -> None:
        """Stop collecting in order."""
        if self._collector is None:
            return
        self._collector.send_signal(signal.SIGTERM)
        code = self._collector.wait(_STOP_TIMEOUT_S)
        self._collector = None
        if code != 0:
            raise RigError(f"the collector stopped with exit code {code}; see {self.logs}/run.log")

    def kill(self) -> None:
        """Kill the collector without warning."""
        if self._collector is not None:
            self._collector.kill()
            self._collector.wait(_STOP_TIMEOUT_S)
            self._collector = None

    def now_ns(self) -> int:
        """Return the time on the controller's timeline."""
        clocks: Clocks = ControllerClocks(self.rig)
        with Journal.open(self.journal, read_only=True) as journal:
            return Timeline.view(journal, clocks).now_ns()

    def crosscheck(self, from_ns: int, to_ns: int) -> dict[str, Any]:
        """Return the cross-check of a period, as the command prints it."""
        done = self.weighbridge("crosscheck", *_period(from_ns, to_ns), "--format", "json", expected=(0, 1, 3))
        result: dict[str, Any] = json.loads(done.stdout)
        return result

    def agent_status(self) -> list[dict[str, Any]]:
        """Return what every agent says of itself."""
        status: list[dict[str, Any]] = json.loads(self.weighbridge("agents", "status", "--json").stdout)
        return status

    def write_report(self, from_ns: int, to_ns: int, path: Path) -> None:
        """Write the HTML report of a period."""
        self.weighbridge(
            "crosscheck", *_period(from_ns, to_ns), "--format", "html", "-o", str(path.resolve()), expected=(0, 1, 3)
        )

    def _newest_leaf(self) -> int:
        with Journal.open(self.journal, read_only=True) as journal:
            return len(journal)

    def _site_agents(self) -> list[Any]:
        from controller import site  # noqa: PLC0415  pydantic and YAML are slow to load and not needed elsewhere here

        return list(site.load(self.site_file).agents())


def build_bundle() -> None:
    """Build the agent's bundle for the rig's DPUs, which run this computer's own Python.

    Raises:
        RigError: it cannot be built; the text says why.
    """
    asked = "import platform, sys; print('{}.{}'.format(*sys.version_info), platform.machine())"
    python, machine = subprocess.run(
        [DPU_PYTHON, "-c", asked], capture_output=True, text=True, check=True
    ).stdout.split()
    done = subprocess.run(
        [_COMMAND, "agents", "bundle", "--python", python, "--machine", machine],
        cwd=PROJECT,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise RigError(f"the agent's bundle cannot be built: {done.stderr.strip()}")


def _period(from_ns: int, to_ns: int) -> tuple[str, ...]:
    return ("--from", utc(from_ns), "--to", utc(to_ns))


def utc(time_ns: int) -> str:
    """Return a time in ISO 8601, UTC, to the nanosecond."""
    whole, rest = divmod(time_ns, 1_000_000_000)
    return f"{dt.datetime.fromtimestamp(whole, dt.timezone.utc):%Y-%m-%dT%H:%M:%S}.{rest:09d}Z"
