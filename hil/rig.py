"""A rig: up, down, reboot, and its machines.

::

    with Rig.up(rigfile.load(rigfile.find("pair")), Path("build/rigs/pair")) as rig:
        rig.machine("node1").run(["ip", "address"])
"""

from __future__ import annotations

import itertools
import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType

from hil import preflight, record, remains, services, sitefile
from hil.errors import RigError
from hil.firstprocess import FirstProcess
from hil.machine import PROJECT, Machine
from hil.network import Network, WireCount
from hil.plan import CONTROLLER, Cable, End, ExtraCable, Plan, Role, plan
from hil.rigfile import RigFile, check_rig_name

_CHECKS = "ready.json"

Progress = Callable[[str], None]


def silent(_text: str) -> None:
    """Report no progress."""


def default_state(name: str) -> Path:
    """Return where a rig's state is kept when nobody says otherwise."""
    return Path("build") / "rigs" / name


class Rig:
    """A rig that is up. As a context manager it is torn down at the end."""

    def __init__(
        self, rig_file: RigFile, rig_plan: Plan, state: Path, extra: tuple[ExtraCable, ...], owner: FirstProcess | None
    ) -> None:
        self.file, self.plan, self.state = rig_file, rig_plan, state
        self._extra, self._owner = extra, owner
        self._network = Network(rig_plan)
        self.machines: Mapping[str, Machine] = {
            name: Machine(rig_plan.rig, machine, state) for name, machine in rig_plan.machines.items()
        }

    @property
    def name(self) -> str:
        """The rig's name on this computer."""
        return self.plan.rig

    @classmethod
    def up(
        cls,
        rig_file: RigFile,
        state: Path | None = None,
        *,
        name: str | None = None,
        keep: bool = False,
        progress: Progress = silent,
    ) -> Rig:
        """Bring a rig up.

        1. See that this computer has all that is needed.
        2. One builder per rig name at a time; refuse a rig that is up and in use, clear the remains of any other.
        3. Begin with an empty state directory.
        4. Write the site file with its keys and secrets.
        5. Build the plant, boot every machine, plug it in and let its services start.
        6. Wait until every daemon serves.

        Without ``keep`` the rig belongs to the calling process: if that dies without tearing it down, the next ``up``
        takes the rig for remains.

        Raises:
            PreflightError: something is missing; nothing was changed.
            RigError: the rig is up already, the state directory is someone else's, or a step failed; what was
                built by then is torn down again.
        """
        rig_name = check_rig_name(name or rig_file.rig)
        state = (state or default_state(rig_name)).resolve()
        preflight.require()
        with record.sole_builder(rig_name):
            record.refuse_if_in_use(rig_name)
            if remains.exist(rig_name):
                progress(f"clearing the remains of rig {rig_name}")
                remains.clear(rig_name)
            record.make_empty(state)
            rig = cls(rig_file, plan(rig_file, rig_name), state, (), None if keep else record.this_process())
            rig._record(record.STARTING)
            try:
                rig._build(progress)
            except BaseException:
                remains.clear(rig_name)
                raise
            rig._record(record.UP)
        progress(f"rig {rig_name} is up: {len(rig.machines)} machines, state in {state}")
        return rig

    @classmethod
    def open(cls, name: str, state: Path | None = None) -> Rig:
        """Return the rig called ``name`` that is up; where its state is, its processes tell.

        Raises:
            RigError: no such rig is up.
        """
        state = (state or remains.rigs().get(name) or default_state(name)).resolve()
        found = record.read(state)
        if found is None or found.name != name or found.phase != record.UP:
            raise RigError(f"no rig {name!r} is up (looked in {state}); bring it up with 'weighbridge hil up'")
        return cls(found.file, plan(found.file, name, found.extra), state, found.extra, found.owner)

    def down(self, *, grace_s: float = 0.0) -> None:
        """Tear the rig down; its state directory with the logs stays.

        Raises:
            TeardownError: something is still there.
        """
        with record.sole_builder(self.name):
            remains.clear(self.name, grace_s=grace_s)
            record.mark_down(self.state)

    def __enter__(self) -> Rig:  # noqa: PYI034 typing.Self is Python 3.11's
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.down()

    def machine(self, name: str) -> Machine:
        """Return the machine called ``name``.

        Raises:
            RigError: there is none; the text lists those there are.
        """
        if name not in self.machines:
            raise RigError(f"rig {self.name} has no machine {name!r}; it has {', '.join(self.machines)}")
        return self.machines[name]

    def reboot(self, name: str, *, grace_s: float = 0.0) -> None:
        """Reboot a machine: a power cut (or, with ``grace_s``, an orderly stop), then a boot with fresh interfaces.

        Its disk stays, its boot id is new, its counters begin at zero; its neighbours lose the carrier for a moment
        and keep their counters.
        """
        machine = self.machine(name)
        machine.cut_power(grace_s=grace_s)
        self._network.power_lost(name)
        machine.boot()
        self._network.plug_in(machine.plan, machine.before_network)
        machine.power_services()

    # Cables

    def cable(self, machine: str, port: str) -> Cable:
        """Return the cable with an end at that port.

        Raises:
            RigError: there is none; the text lists the cables.
        """
        for cable in self.plan.cables:
            if End(machine, port) in (cable.near, cable.far):
                return cable
        known = ", ".join(f"{cable.near} - {cable.far}" for cable in self.plan.cables)
        raise RigError(f"no cable of rig {self.name} ends at {machine}/{port}; there are {known}")

    def add_cable(self, node: str, switch_port: str | None = None, *, interface: str = "eth1") -> Cable:
        """Lay a cable that no one declared: from a new interface of the node's host to a new switch port.

        The host has 10.77.1.N on it (10.77.2.N on ``eth2``); the front end answers at 10.77.1.100.

        Raises:
            RigError: no such node, or the interface or the port has a cable already.
        """
        switch = self.file.switch.name
        taken = {end.port for cable in self.plan.cables for end in (cable.near, cable.far) if end.machine == switch}
        port = switch_port or next(name for name in map("eth{}".format, itertools.count(1)) if name not in taken)
        if node not in self.file.nodes():
            raise RigError(f"rig {self.name} has no node {node!r}; it has {', '.join(self.file.nodes())}")
        if port in taken or any(interface == each.name for each in self.plan.machines[node].ports):
            raise RigError(f"{switch}/{port} or {node}/{interface} has a cable already; name another")
        number = 1 + max(cable.number for cable in self.plan.cables)
        self._replan((*self._extra, ExtraCable(number, node, interface, port)))
        cable = self.cable(node, interface)
        self._network.add_cable(cable)
        return cable

    def remove_cable(self, cable: Cable) -> None:
        """Take away a cable that :meth:`add_cable` laid, with its two interfaces.

        Raises:
            RigError: it is another cable.
        """
        rest = tuple(each for each in self._extra if each.number != cable.number)
        if rest == self._extra:
            raise RigError(f"the cable {cable.near} - {cable.far} belongs to the rig; only an added one can be removed")
        self._network.remove_cable(cable)
        self._replan(rest)

    def pull(self, cable: Cable) -> None:
        """Pull a cable: both ends lose their carrier, their interfaces and counters stay."""
        self._network.carry(cable, carries=False)

    def plug(self, cable: Cable) -> None:
        """Plug a pulled cable in again."""
        self._network.carry(cable, carries=True)

    def carries(self, cable: Cable) -> bool:
        """Return whether both ends of the cable have their carrier."""
        return self._network.carries(cable)

    def wire_count(self, cable: Cable) -> WireCount:
        """Return what truly crossed the cable: ground truth for tests, which none of the observers sees."""
        return self._network.wire_count(cable)

    def require_lossless(self) -> None:
        """Return if no cable lost a frame for want of room in this computer.

        Raises:
            RigError: one did; what the observers saw meanwhile proves nothing about them.
        """
        lost = {cable: self.wire_count(cable).lost_frames for cable in self.plan.cables}
        losers = [f"{cable.near} - {cable.far} ({count} frames)" for cable, count in lost.items() if count]
        if losers:
            raise RigError(
                f"rig {self.name} was overloaded: frames were lost on {', '.join(losers)}; send less at once"
            )

    # Lies

    def lie(self, node: str, *, factor: int = 100) -> None:
        """Let the node's host report, from now on, ``base + (now - base) / factor`` for its ``eth0``.

        The claim's address stays; its counters go on from the true value at this moment. A scrape in the tenth of a
        second that the change takes fails.
        """
        services.start_lying(self.machine(node), self.file, factor, "eth0")
        self.wait_until_ready()

    def stop_lying(self, node: str) -> None:
        """Let the host report the truth again: the counter jumps forward by what was hidden."""
        services.stop_lying(self.machine(node), self.file)
        self.wait_until_ready()

    # Readiness

    def wait_until_ready(self, timeout_s: float = 30.0) -> None:
        """Return when every exporter, SSH server and the switch's snmpd serves what is asked of it later.

        Raises:
            RigError: something does not within the time; the text names it.
        """
        exporters = {
            machine.name: f"http://{machine.management_address}:{self.file.exporter.port}/metrics"
            for machine in self.plan.with_role(Role.HOST)
        }
        ssh = {
            machine.name: f"{machine.management_address}:{services.SSH_PORT}"
            for machine in self.plan.with_role(Role.DPU)
        }
        snmp = {
            machine.name: {
                "address": f"{machine.management_address}:{services.SNMP_PORT}",
                "configuration": str(self.state / sitefile.SNMP_CLIENT),
                "ports": [port.name for port in machine.ports],
            }
            for machine in self.plan.with_role(Role.SWITCH)
        }
        checks = {"exporters": exporters, "ssh": ssh, "snmp": snmp, "timeout_s": timeout_s}
        (self.state / _CHECKS).write_text(json.dumps(checks, indent=1), encoding="utf-8")
        argv = [sys.executable, "-m", "hil.ready", str(self.state / _CHECKS)]
        done = self.machine(CONTROLLER).run(argv, check=False, timeout_s=timeout_s + 30, cwd=PROJECT)
        if done.returncode != 0:
            problems = "; ".join(done.stderr.splitlines())
            raise RigError(f"rig {self.name} does not get ready: {problems}; logs are in {self.state}/machines/*/log")

    # Inside

    def _replan(self, extra: tuple[ExtraCable, ...]) -> None:
        self._extra = extra
        self.plan = self._network.plan = plan(self.file, self.name, extra)
        for name, machine in self.machines.items():
            machine.plan = self.plan.machines[name]
        self._record(record.UP)

    def _build(self, progress: Progress) -> None:
        self._network.build_plant()
        made = services.new_secrets(self.plan)
        sitefile.write(self.state, self.file, self.plan, made)
        for machine in self.machines.values():
            machine.make_disk()
            services.set_up(machine, self.file, self.plan, made)
        for machine in self.machines.values():
            progress(f"booting {machine.name}")
            machine.boot()
            self._network.plug_in(machine.plan)
            machine.power_services()  # snmpd's first seconds pass while the other machines boot
        progress("waiting for the daemons")
        self.wait_until_ready()

    def _record(self, phase: str) -> None:
        record.write(self.state, record.Record(self.name, phase, self._owner, self.file, self._extra))


def tear_down(name: str, state: Path | None = None) -> bool:
    """Clear away everything of the rig called ``name``, whether it is up or remains; return whether there was anything.

    Raises:
        TeardownError: something is still there.
    """
    name = check_rig_name(name)
    with record.sole_builder(name):
        existed = remains.exist(name)
        state = state or remains.rigs().get(name) or default_state(name)
        remains.clear(name)
        record.mark_down(state)
    return existed
