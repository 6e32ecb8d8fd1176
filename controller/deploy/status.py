"""How the agents are: what each says of itself, next to what is enrolled."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from controller.credentials import Credential
from controller.deploy.enrolment import Enrolment, enrolled
from controller.deploy.probe import describe
from controller.errors import DeviceError
from controller.journal import Journal
from controller.site import Dpu
from protos.buckets import TrafficClass
from protos.units import format_bytes, format_duration
from protos.v1 import agent_pb2, frame_pb2, reading_pb2

_SHOWN = 4

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
                "synchronised": _SYNC.get(answer.clock.sync),
                "max_error_us": str(answer.clock.max_error_us)
                if answer.clock.sync == frame_pb2.CLOCK_SYNC_SYNCHRONISED
                else None,
            },
            "frame_interval_ns": str(answer.frame_interval_ns),
            "last_sequence": str(answer.last_sequence),
            "ports": [_port(port) for port in answer.ports],
            "class_table": {
                "sequence": str(answer.class_table_sequence),
                "sha256": answer.class_table_sha256.hex() or None,
            },
            "meters": [_meter(meter) for meter in answer.meters],
            "spool": {
                "oldest_sequence": str(answer.spool.oldest_sequence),
                "frames": str(answer.spool.frames),
                "bytes": str(answer.spool.bytes),
                "lost_frames": str(answer.spool.lost_frames),
                "trouble": answer.spool.trouble or None,
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

    def meter_rows(self) -> list[tuple[str, ...]]:
        """The cells under :data:`METER_HEADINGS`, a row a port; none where the agent says nothing of meters."""
        if self.answer is None:
            return []
        table = self.answer.class_table_sha256.hex()[:12] or "none"
        return [(self.dpu.name, *_meter_cells(meter, table)) for meter in self.answer.meters]


_SYNC = {frame_pb2.CLOCK_SYNC_SYNCHRONISED: True, frame_pb2.CLOCK_SYNC_UNSYNCHRONISED: False}
METER_HEADINGS = ("agent", "port", "bucket", "epoch", "lost", "offloaded", "table", "audit", "by class", "by node")
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


def class_title(number: int) -> str:
    """Return a traffic class in words; one of a newer agent as its number."""
    try:
        return TrafficClass(number).title
    except ValueError:
        return str(number)


def _meter_cells(meter: agent_pb2.MeterDescription, table: str) -> tuple[str, ...]:
    if meter.unavailable:
        return (meter.port, "none", "-", "-", "-", "-", meter.unavailable, "-", "-")
    return (
        meter.port,
        format_duration(meter.width_ns),
        str(meter.epoch),
        f"{meter.lost_buckets}",
        f"{meter.offloaded_ppm / 10_000:g} %",
        table,
        ", ".join(meter.findings) or "as installed",
        _most((class_title(each.traffic_class), each.total.wire_bytes) for each in meter.classes),
        _most((each.peer, each.wire_bytes) for each in meter.peers),
    )


def _most(counts: Iterable[tuple[str, int]]) -> str:
    """The largest few, so that a row stays a row; --json has all."""
    ordered = sorted(counts, key=lambda each: (-each[1], each[0]))
    shown = [f"{name} {format_bytes(count)}" for name, count in ordered[:_SHOWN]]
    return ", ".join([*shown, *([f"{len(ordered) - _SHOWN} more"] if len(ordered) > _SHOWN else [])]) or "nothing"


def _meter(meter: agent_pb2.MeterDescription) -> dict[str, Any]:
    if meter.unavailable:
        return {"port": meter.port, "unavailable": meter.unavailable, "text": meter.unavailable_text}
    return {
        "port": meter.port,
        "unavailable": None,
        "source": meter.source,
        "width_ns": str(meter.width_ns),
        "epoch": meter.epoch,
        "lost_buckets": str(meter.lost_buckets),
        "offloaded_fraction": meter.offloaded_ppm / 1_000_000,
        "findings": [{"kind": kind, "text": text} for kind, text in zip(meter.findings, meter.texts, strict=False)],
        "classes": [
            {
                "class": class_title(each.traffic_class),
                "raw_bytes": str(each.total.raw_bytes),
                "wire_bytes": str(each.total.wire_bytes),
                "segments": str(each.total.segments),
                "tunnelled_bytes": str(each.tunnelled_bytes),
                "tagged_segments": str(each.tagged_segments),
            }
            for each in meter.classes
        ],
        "nodes": [
            {"node": each.peer, "wire_bytes": str(each.wire_bytes), "segments": str(each.segments)}
            for each in meter.peers
        ],
    }


def _port(port: agent_pb2.PortDescription) -> dict[str, Any]:
    return {
        "port": port.port,
        "role": role_name(port.role),
        "speed_bytes_per_s": str(port.speed_bytes_per_s) if port.HasField("speed_bytes_per_s") else None,
        "mtu_bytes": port.mtu_bytes if port.HasField("mtu_bytes") else None,
        "source": port.source,
        "refresh_ns": str(port.refresh_ns),
    }
