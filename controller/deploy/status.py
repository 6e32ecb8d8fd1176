"""How the agents are: what each says of itself, next to what is enrolled."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from controller.credentials import Credential
from controller.deploy.enrolment import Enrolment, enrolled
from controller.deploy.probe import describe
from controller.errors import DeviceError
from controller.journal import Journal
from controller.site import Dpu
from protos.v1 import agent_pb2, reading_pb2

ENROLLED, OTHER_KEY, NOT_ENROLLED = "enrolled", "other key", "not enrolled"


@dataclass(frozen=True, slots=True)
class Asked:
    """One agent.

    Attributes:
        dpu: as the site file has it.
        answer: what it says of itself, ``None`` without an answer.
        problem: why there is none.
        enrolment: one of the three; empty without an answer.
        wall_ahead_ns: how far its wall clock is ahead of this machine's, up to the time of one answer.
    """

    dpu: Dpu
    answer: agent_pb2.AgentDescription | None
    problem: str
    enrolment: str
    wall_ahead_ns: int = 0

    def as_json(self) -> dict[str, Any]:
        """64-bit numbers are decimal strings; what is not known is null."""
        head = {"agent": self.dpu.name, "address": str(self.dpu.agent), "answers": self.answer is not None}
        if self.answer is None:
            return {**head, "problem": self.problem}
        answer = self.answer
        return {
            **head,
            "name": answer.agent,
            "version": answer.agent_version,
            "bundle_sha256": answer.bundle_sha256 or None,
            "frame_public_key": answer.frame_public_key.hex(),
            "enrolment": self.enrolment,
            "python": answer.python_version,
            "kernel": answer.kernel,
            "machine": answer.machine,
            "clock": {
                "boot_id": answer.clock.boot_id,
                "monotonic_ns": str(answer.clock.monotonic_ns),
                "wall_ns": str(answer.clock.wall_ns),
                "wall_ahead_ns": str(self.wall_ahead_ns),
            },
            "frame_interval_ns": str(answer.frame_interval_ns),
            "last_sequence": str(answer.last_sequence),
            "ports": [_port(port) for port in answer.ports],
            "spool": {
                "oldest_sequence": str(answer.spool.oldest_sequence),
                "frames": str(answer.spool.frames),
                "bytes": str(answer.spool.bytes),
                "lost_frames": str(answer.spool.lost_frames),
            },
        }

    def as_row(self) -> tuple[str, ...]:
        """The cells under :data:`HEADINGS`."""
        answer = self.answer
        if answer is None:
            return (self.dpu.name, str(self.dpu.agent), "no answer", *["-"] * (len(HEADINGS) - 3))
        return (
            answer.agent,
            str(self.dpu.agent),
            answer.agent_version,
            answer.bundle_sha256[:12] or "-",
            self.enrolment,
            f"{self.wall_ahead_ns / 1e9:+.1f} s",
            ", ".join(port.port for port in answer.ports),
            f"{answer.spool.frames} frames, {answer.spool.lost_frames} lost",
        )


HEADINGS = ("agent", "address", "version", "bundle", "key", "clock", "ports", "spool")


def ask(dpu: Dpu, own: Credential, journal: Journal) -> Asked:
    """Ask one agent; compare its key with the one enrolled, and its wall clock with ours in the middle of the call."""
    asked_ns = time.time_ns()
    try:
        answer = describe(str(dpu.agent), own)
    except DeviceError as error:
        return Asked(dpu, None, str(error), "")
    ahead_ns = answer.clock.wall_ns - (asked_ns + time.time_ns()) // 2
    return Asked(dpu, answer, "", compared(enrolled(journal, dpu.name), answer.frame_public_key), ahead_ns)


def compared(pinned: Enrolment | None, shown: bytes) -> str:
    """Return how the key that is shown stands to the one that is pinned."""
    if pinned is None:
        return NOT_ENROLLED
    return ENROLLED if pinned.public_key == shown else OTHER_KEY


def role_name(role: int) -> str:
    """Return a port's role in words; a role of a newer agent as its number."""
    try:
        return reading_pb2.PortRole.Name(role).removeprefix("PORT_ROLE_").lower()
    except ValueError:
        return str(role)


def _port(port: agent_pb2.PortDescription) -> dict[str, Any]:
    return {
        "port": port.port,
        "role": role_name(port.role),
        "speed_bytes_per_s": str(port.speed_bytes_per_s) if port.HasField("speed_bytes_per_s") else None,
        "mtu_bytes": port.mtu_bytes if port.HasField("mtu_bytes") else None,
        "source": port.source,
        "refresh_ns": str(port.refresh_ns),
    }
