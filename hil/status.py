"""What a rig is doing: its machines with their services, its cables with what crossed them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hil.errors import RigError
from hil.rig import Rig


@dataclass(frozen=True)
class MachineStatus:
    """One machine; ``services`` is None when it is down or its supervisor does not answer."""

    name: str
    role: str
    up: bool
    boot_id: str
    pid: int | None
    namespace: str
    addresses: dict[str, list[str]]
    services: list[dict[str, Any]] | None


@dataclass(frozen=True)
class CableStatus:
    """One cable; counts are None while one of its ends is without power. Bytes and frames as decimal strings."""

    near: str
    far: str
    declared: bool
    carries: bool
    forward_bytes: str | None
    backward_bytes: str | None
    lost_frames: str | None


@dataclass(frozen=True)
class RigStatus:
    """A whole rig."""

    name: str
    state: str
    machines: list[MachineStatus]
    cables: list[CableStatus]

    @property
    def healthy(self) -> bool:
        """Whether every machine is up with all its services running and every cable carries."""
        running = all(
            machine.services is not None and all(service["state"] == "running" for service in machine.services)
            for machine in self.machines
        )
        return running and all(cable.carries for cable in self.cables)


def look(rig: Rig) -> RigStatus:
    """Return the rig's status as it is now."""
    machines = [_machine(rig, name) for name in rig.machines]
    return RigStatus(rig.name, str(rig.state), machines, _cables(rig))


def _machine(rig: Rig, name: str) -> MachineStatus:
    machine = rig.machine(name)
    up = machine.is_up()
    services: list[dict[str, Any]] | None = None
    if up:
        try:
            services = machine.supervise("status")
        except RigError:
            services = None  # shown as such: the machine is up, its supervisor is not answering
    addresses = {port.name: list(port.addresses) for port in machine.plan.ports if port.addresses}
    pid = machine.first_process().pid if up else None
    return MachineStatus(
        name, machine.plan.role.value, up, machine.boot_id, pid, machine.namespace, addresses, services
    )


def _cables(rig: Rig) -> list[CableStatus]:
    found = []
    for cable in rig.plan.cables:
        complete = rig.machine(cable.near.machine).is_up() and rig.machine(cable.far.machine).is_up()
        count = rig.wire_count(cable) if complete else None
        found.append(
            CableStatus(
                str(cable.near),
                str(cable.far),
                cable.declared,
                complete and rig.carries(cable),
                None if count is None else str(count.forward_bytes),
                None if count is None else str(count.backward_bytes),
                None if count is None else str(count.lost_frames),
            )
        )
    return found


def lines(status: RigStatus) -> list[str]:
    """Return the status for a person, one line a machine and a cable."""
    shown = [f"rig {status.name}, state in {status.state}", ""]
    for machine in status.machines:
        if not machine.up:
            services = "DOWN"
        elif machine.services is None:
            services = "its supervisor does not answer"
        else:
            services = ", ".join(f"{each['name']} {each['state']}" for each in machine.services) or "no services"
        where = " ".join(address.partition("/")[0] for addresses in machine.addresses.values() for address in addresses)
        shown.append(f"  {machine.name:<16} {machine.role:<11} {where:<26} {services}")
    shown.append("")
    for cable in status.cables:
        counts = f"{cable.forward_bytes} B >, < {cable.backward_bytes} B" if cable.forward_bytes is not None else ""
        marks = "" if cable.declared else "  undeclared"
        marks += "" if cable.carries else "  NO CARRIER"
        marks += f"  LOST {cable.lost_frames} FRAMES" if cable.lost_frames not in ("0", None) else ""
        shown.append(f"  {cable.near:<22} - {cable.far:<22} {counts}{marks}")
    return shown
